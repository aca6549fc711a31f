"""Laws of the cleaner's decisions about batches, for both builds."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.formats import RECORD_FIELDS, BatchField, RecordField
from engine.record.columns import BatchColumns, RecordColumns
from tests.support.load_kernel import BUILDS, load_kernel


@pytest.fixture(params=BUILDS, scope="module")
def kernel(request):
    return load_kernel("cleaning", request.param)


batch = st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from([0, 16, 32, 48, 64, 2]), st.integers(0, 3), st.integers(0, 3))


def table_of(described):
    """Batches of (magic, attributes, read, kept), and counts of them; the last offset of a batch is its row."""
    batches = BatchColumns(len(described) + 8).table
    counts = memoryview(array("q", bytes(32 * max(1, len(described))))).cast("B").cast("q", (4, max(1, len(described))))
    for row, (magic, attributes, read, kept) in enumerate(described):
        batches[BatchField.MAGIC, row], batches[BatchField.ATTRIBUTES, row] = magic, attributes
        batches[BatchField.LAST_OFFSET, row], batches[BatchField.VALID, row] = row, 1
        counts[0, row], counts[1, row] = max(read, kept), kept
        counts[2, row] = kept % 2
    return batches, counts


def kind_of(kernel, row, magic, attributes, read, kept, precious):
    if magic == 2 and attributes & 32:
        return kernel.ALONE
    if kept == 0:
        return kernel.ALONE if row in precious else kernel.DROP
    if magic < 2 or kept < max(read, kept) or (kept % 2 and not attributes & 64):
        return kernel.ALONE
    return kernel.COPY


@given(st.lists(batch, min_size=1, max_size=12), st.sets(st.integers(0, 12)))
@settings(deadline=None, max_examples=100)
def test_runs_cover_every_batch_once(kernel, described, precious):
    batches, counts = table_of(described)
    numbers, row, found = memoryview(array("q", sorted(precious))), 0, []
    while row < len(described):
        kind, behind = kernel.next_run(batches, counts, row, len(described), numbers)
        assert behind > row
        assert kind != kernel.ALONE or behind == row + 1
        found += [kind] * (behind - row)
        row = behind
    assert found == [kind_of(kernel, row, *one, precious) for row, one in enumerate(described)]


@given(st.lists(batch, max_size=12))
@settings(deadline=None, max_examples=50)
def test_transactional_and_control_batches_are_found(kernel, described):
    batches, _ = table_of(described)
    found, row = [], kernel.next_in_transaction(batches, 0, len(described))
    while row < len(described):
        found.append(row)
        row = kernel.next_in_transaction(batches, row + 1, len(described))
    assert found == [row for row, one in enumerate(described) if one[0] == 2 and one[1] & 48]


@pytest.mark.parametrize(
    ("field", "value"), [(BatchField.VALID, 0), (BatchField.VALID, -1), (BatchField.MAGIC, 3), (BatchField.MAGIC, -1),
                         (BatchField.ATTRIBUTES, 5), (BatchField.ATTRIBUTES, 7)],
)  # fmt: skip
def test_unsound_batches_are_found(kernel, field, value):
    batches, _ = table_of([(2, 0, 1, 1)] * 4)
    assert kernel.first_unsound(batches, 4) == 4
    batches[field, 2] = value
    assert kernel.first_unsound(batches, 4) == 2


@given(st.lists(st.booleans(), max_size=20), st.integers(0, 5))
@settings(deadline=None, max_examples=50)
def test_kept_records_are_taken(kernel, keep, first):
    records, out = RecordColumns(40).table, RecordColumns(20)
    for index in range(40):
        for field in range(RECORD_FIELDS):
            records[field, index] = 100 * index + field
    count, largest = kernel.take_kept(records, first, first + len(keep), memoryview(bytes(keep)), out.table)
    chosen = [first + index for index, one in enumerate(keep) if one]
    assert count == len(chosen)
    assert largest == max((100 * index + RecordField.TIMESTAMP for index in chosen), default=-1)
    assert [out.row(column) for column in range(count)] == [
        {field: 100 * index + field for field in RecordField} for index in chosen
    ]


def test_kept_records_that_do_not_fit(kernel):
    assert kernel.take_kept(RecordColumns(9).table, 0, 9, memoryview(b"\1" * 9), RecordColumns(8).table) == (-1, 0)
    assert kernel.take_kept(RecordColumns(9).table, 0, 9, memoryview(b"\1" * 8), RecordColumns(9).table) == (-1, 0)
    assert kernel.take_kept(RecordColumns(9).table, -1, 9, memoryview(b"\1" * 20), RecordColumns(20).table) == (-1, 0)
