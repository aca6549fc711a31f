"""One record in columns, right but for one thing: what kernels that show records have to refuse."""

from __future__ import annotations

from engine.formats import BatchField, RecordField
from engine.record.columns import BatchColumns, RecordColumns

CHANGES = [
    {RecordField.BATCH: 1}, {RecordField.BATCH: -1}, {RecordField.BATCH: 2**40}, {RecordField.KEY_POSITION: 2**40},
    {RecordField.KEY_POSITION: -1}, {RecordField.KEY_SIZE: 7}, {RecordField.VALUE_SIZE: 2**62},
    {RecordField.VALUE_POSITION: 6}, {RecordField.HEADER_COUNT: 2}, {RecordField.HEADERS_POSITION: -(2**40)},
    {RecordField.HEADERS_POSITION: 4}, {RecordField.HEADER_COUNT: 2**62},
    {RecordField.KEY_SIZE: -5, RecordField.VALUE_POSITION: 9},
]  # fmt: skip


def wild_record(change):
    """(data, batches, records) of one record of format 2 with a key, a value and a header, but for `change`."""
    data, one, records = memoryview(b"kv\2h\2w"), BatchColumns(1), RecordColumns(1)
    one.table[BatchField.MAGIC, 0] = 2
    right = {RecordField.KEY_SIZE: 1, RecordField.VALUE_POSITION: 1, RecordField.VALUE_SIZE: 1, RecordField.HEADERS_POSITION: 2,
             RecordField.HEADER_COUNT: 1}  # fmt: skip
    for field, value in (right | change).items():
        records.table[field, 0] = value
    return data, one.table, records.table
