"""The columns of each level of rows: their Arrow types and the defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from engine.arrow.columns import COLUMN_TYPES, EXTRA_TYPES, RECORD_TYPES, TIMESTAMP
from engine.arrow.heads import HEAD_TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
