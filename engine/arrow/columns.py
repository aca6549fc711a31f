"""The columns that a table of records may have, their Arrow types, and how each is filled.

The names of the first eight are those of Spark's Kafka source, in its order; timestamps are in microseconds, as there.
"""

from __future__ import annotations

import pyarrow as pa

from engine.formats import LONG_MAX

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
TIMESTAMP = pa.timestamp("us", tz="UTC")
LAST_MS = LONG_MAX // 1000
"""What is further from 1970, in ms, has no microseconds of 64 bits, and is null."""

RECORD_TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP,
    "timestampType": pa.int32(),  # 0 CreateTime, 1 LogAppendTime, −1 none (format 0)
    "headers": HEADERS,  # null where a record has none
}
EXTRA_TYPES: dict[str, pa.DataType] = {
    "producerId": pa.int64(),  # −1 without idempotence, as in the three below
    "producerEpoch": pa.int16(),
    "sequence": pa.int32(),
    "partitionLeaderEpoch": pa.int32(),
    "isTransactional": pa.bool_(),
    "isControl": pa.bool_(),
    "codec": pa.string(),  # none, gzip, snappy, lz4, zstd
    "segment": pa.string(),  # name of the .log file
    "position": pa.int64(),  # of the record's batch in it, bytes
    "directory": pa.string(),  # the partition directory
    "keySize": pa.int32(),  # bytes; null where the key is
    "valueSize": pa.int32(),
}
"""Columns on request."""

COLUMN_TYPES = RECORD_TYPES | EXTRA_TYPES


def micros(ms: int) -> int | None:
    """A time in ms since 1970, or before, as columns of type TIMESTAMP have it."""
    return ms * 1000 if -LAST_MS <= ms <= LAST_MS else None


def schema_of(columns: tuple[str, ...] | list[str]) -> pa.Schema:
    """The Arrow schema of a table with these columns, all of them nullable. Raises KeyError for a name that is none."""
    return pa.schema([pa.field(name, COLUMN_TYPES[name]) for name in columns])
