"""Kernels that decide over batch headers give the same answers in both builds, whatever the columns hold."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import BatchField, RecordField
from engine.record.columns import BatchColumns, RecordColumns
from tests.support.load_kernel import load_kernel
from tests.support.strategies import LONG_MAX, edges

SMALL = st.integers(-3, 6)
HEADER = st.fixed_dictionaries({
    BatchField.VALID: st.sampled_from([0, 1, 1, 1]), BatchField.MAGIC: st.sampled_from([-1, 0, 1, 2, 2, 2, 3]),
    BatchField.ATTRIBUTES: st.sampled_from([0, 0, 0, 1, 64, 65]), BatchField.BASE_OFFSET: SMALL | edges(-(2**63), LONG_MAX),
    BatchField.COUNT: SMALL | edges(-(2**31), 2**31 - 1),
})  # fmt: skip


def table_of(headers, deltas):
    """Columns as the scan writes them: the last offset is base plus delta, around at 2^63."""
    batches = BatchColumns(max(1, len(headers)))
    for row, (header, delta) in enumerate(zip(headers, deltas, strict=True)):
        for field, value in header.items():
            batches.table[field, row] = value
        batches.table[BatchField.LAST_OFFSET, row] = (header[BatchField.BASE_OFFSET] + delta + 2**63) % 2**64 - 2**63
    return batches.table


@pytest.fixture(scope="module")
def both():
    return load_kernel("select", "compiled"), load_kernel("select", "interpreted")


@given(st.lists(st.tuples(HEADER, SMALL | edges(-(2**31), 2**31 - 1)), max_size=6), st.integers(-1, 7), st.integers(-1, 9),
       SMALL | edges(-(2**63), LONG_MAX), st.booleans(), st.booleans())  # fmt: skip
def test_breaks_and_traces_of_the_cleaner(both, rows, row, last_row, claimed, known, compacted):
    table = table_of([header for header, _ in rows], [delta for _, delta in rows])
    breaks = [tuple(kernel.next_break(table, row, last_row, claimed, known, compacted)) for kernel in both]
    assert breaks[0] == breaks[1]
    cleaned = [kernel.next_cleaned(table, row, last_row) for kernel in both]
    assert cleaned[0] == cleaned[1]
    for found in (breaks[0][0], cleaned[0]):
        assert found == last_row or found >= row


@given(st.lists(st.tuples(st.integers(-2, 5), edges(-(2**63), LONG_MAX)), min_size=1, max_size=9), st.integers(-1, 10),
       st.integers(0, 11))  # fmt: skip
def test_largest_timestamps_by_batch(both, records, first, end):
    columns = RecordColumns(len(records))
    for place, (row, timestamp) in enumerate(records):
        columns.table[RecordField.BATCH, place] = row
        columns.table[RecordField.TIMESTAMP, place] = timestamp
    allowed = first >= 0 and end <= columns.table.shape[1]
    wanted = [
        max([-1, *(timestamp for at, timestamp in records[first:end] if at == row and allowed)]) for row in range(4)
    ]  # fmt: skip
    for kernel in both:
        largest = memoryview(array("q", [-1] * 4))
        kernel.largest_timestamps(columns.table, first, end, largest)
        assert largest.tolist() == wanted
