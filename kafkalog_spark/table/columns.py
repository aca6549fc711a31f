"""The columns of each level of rows: their Arrow types and the defaults."""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from engine.arrow.columns import COLUMN_TYPES, EXTRA_TYPES, RECORD_TYPES, TIMESTAMP
from engine.arrow.heads import HEAD_TYPES
from kafkalog_spark.errors import in_utf8

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


# default columns of an export: all that the sink needs to write the records back
EXPORTED = tuple(RECORD_TYPES)
_PARTITION: dict[str, pa.DataType] = {"topic": pa.string(), "partition": pa.int32(), "directory": pa.string()}
FINDING_TYPES = _PARTITION | {
    "file": pa.string(), "position": pa.int64(), "offset": pa.int64(), "code": pa.string(), "severity": pa.string(),
    "what": pa.string(), "why": pa.string(), "do": pa.string(),
}  # fmt: skip
SEGMENT_TYPES = _PARTITION | {
    "segment": pa.string(), "baseOffset": pa.int64(), "sizeInBytes": pa.int64(), "offsetIndexEntries": pa.int64(),
    "timeIndexEntries": pa.int64(), "abortedTransactions": pa.int64(), "largestTimestamp": TIMESTAMP, "modified": TIMESTAMP,
}  # fmt: skip
INDEX_TYPES = _PARTITION | {
    "file": pa.string(), "kind": pa.string(), "entry": pa.int64(), "offset": pa.int64(), "position": pa.int64(),
    "timestamp": TIMESTAMP, "producerId": pa.int64(), "firstOffset": pa.int64(), "lastOffset": pa.int64(),
    "lastStableOffset": pa.int64(),
}  # fmt: skip
_TYPES = {
    "records": COLUMN_TYPES, "batches": HEAD_TYPES, "segments": SEGMENT_TYPES, "indexes": INDEX_TYPES,
    "findings": FINDING_TYPES,
}  # fmt: skip
_ON_REQUEST = {"records": {*EXTRA_TYPES, "headers"}, "batches": {"isValid"}}
LEVELS = tuple(_TYPES)


def types_for(level: str) -> Mapping[str, pa.DataType]:
    """Return the columns that rows of this level may have, with their types."""
    return _TYPES[level]


def default_columns(level: str) -> list[str]:
    """Return the columns that rows of this level have by default."""
    return [name for name in _TYPES[level] if name not in _ON_REQUEST.get(level, ())]


def level_schema(level: str, columns: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of a table with these columns."""
    return pa.schema([pa.field(name, _TYPES[level][name]) for name in columns])


_ROWS, _BYTES = 10_000, 8 << 20  # largest number of rows and of bytes before the last row of a batch
_WIDTHS = {4: "i", 8: "q"}


def rows_as_batches(rows: Iterator[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Convert rows to batches of `schema`; missing values are null. Columns are text, bytes, integers or booleans."""
    kept: list[dict[str, Any]] = []
    size = 0  # bytes of text and binary values

    def made() -> pa.RecordBatch:
        columns = [column([row.get(field.name) for row in kept], field.type) for field in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    for row in rows:
        kept.append(row)
        size += sum(len(value) for value in row.values() if isinstance(value, str | bytes | bytearray))
        if len(kept) == _ROWS or size >= _BYTES:
            yield made()
            kept.clear()
            size = 0
    if kept:
        yield made()


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert values to an Arrow array; None is null."""
    nulls = sum(value is None for value in values)
    valid = _bits([value is not None for value in values]) if nulls else None
    if pa.types.is_boolean(kind):
        buffers = [_bits(values)]
    elif kind in (pa.string(), pa.binary()):
        octets = [in_utf8(value) if isinstance(value, str) else value or b"" for value in values]
        ends = array("i", accumulate(map(len, octets), initial=0))
        buffers = [pa.py_buffer(ends), pa.py_buffer(b"".join(octets))]
    else:
        numbers = array(_WIDTHS[kind.bit_width // 8], [value or 0 for value in values])
        buffers = [pa.py_buffer(numbers)]
    return pa.Array.from_buffers(kind, len(values), [valid, *buffers], nulls)


def _bits(flags: Sequence[bool | None]) -> pa.Buffer:
    """Return flags, at least one, as a bitmap."""
    digits = "".join("1" if flag else "0" for flag in reversed(flags))
    return pa.py_buffer(int(digits, 2).to_bytes((len(flags) + 7) // 8, "little"))
