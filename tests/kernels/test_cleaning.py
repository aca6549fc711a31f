"""What a cleaner takes: sound batches, records in order, those that stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import RECORD_FIELDS, BatchField, RecordField
from engine.kernels import cleaning as kernel
from engine.record.columns import RecordColumns
from tests.support.batch_tables import ranges, table_of
from tests.support.strategies import examples


@pytest.mark.parametrize(
    ("field", "value"), [(BatchField.VALID, 0), (BatchField.VALID, -1), (BatchField.MAGIC, 3), (BatchField.MAGIC, -1),
                         (BatchField.ATTRIBUTES, 5), (BatchField.ATTRIBUTES, 7)],
)  # fmt: skip
def test_unsound_batches_are_found(field, value):
    batches, _ = table_of([(2, 0, 1, 1)] * 4)
    assert kernel.first_unsound(batches, 4) == 4
    batches[field, 2] = value
    assert kernel.first_unsound(batches, 4) == 2


@given(st.lists(st.booleans(), max_size=20), st.integers(0, 5))
@examples(50)
def test_kept_records_are_taken(keep, first):
    records, out = RecordColumns(40).table, RecordColumns(20)
    for index in range(40):
        for field in range(RECORD_FIELDS):
            records[field, index] = 100 * index + field
    count, largest = kernel.copy_kept(records, first, first + len(keep), memoryview(bytes(keep)), out.table)
    chosen = [first + index for index, one in enumerate(keep) if one]
    assert count == len(chosen)
    assert largest == max((100 * index + RecordField.TIMESTAMP for index in chosen), default=-1)
    assert [out.row(column) for column in range(count)] == [
        {field: 100 * index + field for field in RecordField} for index in chosen
    ]


def test_kept_records_that_do_not_fit():
    assert kernel.copy_kept(RecordColumns(9).table, 0, 9, memoryview(b"\1" * 9), RecordColumns(8).table) == (-1, 0)
    assert kernel.copy_kept(RecordColumns(9).table, 0, 9, memoryview(b"\1" * 8), RecordColumns(9).table) == (-1, 0)
    assert kernel.copy_kept(RecordColumns(9).table, -1, 9, memoryview(b"\1" * 20), RecordColumns(20).table) == (-1, 0)


def records_of(offsets, rows=None, keys=None):
    table = RecordColumns(len(offsets) + 8).table
    for index, offset in enumerate(offsets):
        table[RecordField.OFFSET, index] = offset
        table[RecordField.BATCH, index] = rows[index] if rows else 0
        table[RecordField.KEY_SIZE, index] = keys[index] if keys else 3
    return table


def test_order_of_records():
    batches = ranges((5, 7), (8, 9))
    def check(offsets, last=-1, **settings):
        return kernel.check_order(batches, records_of(offsets, **settings), 0, len(offsets), last)

    assert check([5, 7, 8], rows=[0, 0, 1]) == 8
    assert check([], last=4) == 4
    assert check([5], last=5) == -1, "offsets grow from chunk to chunk"
    assert check([6, 6]) == -1
    assert check([5, 8]) == -1, "after the last offset of its batch"
    assert check([7], rows=[1]) == -1, "before the first one"
    assert check([5, 6], keys=[0, -1]) == -1, "a record without a key"
    assert check([5], rows=[99]) == -1
    batches[BatchField.MAGIC, 1] = 1
    assert check([7], rows=[1]) == 7, "an old entry names its last offset only"
