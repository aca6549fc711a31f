"""The columns of a table of records: Arrow types, and how each is filled.

The first eight are named and ordered as those of Spark's Kafka source; timestamps are in microseconds, as there.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from engine.formats import CODEC_MASK, LONG_MAX, TIMESTAMP_TYPE_FLAG, Codec

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
TIMESTAMP = pa.timestamp("us", tz="UTC")
LAST_MS = LONG_MAX // 1000


"""Times farther from 1970, in ms, do not fit into 64-bit microseconds, and are null."""

RECORD_TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP,
    "timestampType": pa.int32(),  # 0 CreateTime, 1 LogAppendTime, −1 none (format 0)
    "headers": HEADERS,  # null if a record has none
}
EXTRA_TYPES: dict[str, pa.DataType] = {
    "producerId": pa.int64(),  # −1 without idempotence; also in the three columns below
    "producerEpoch": pa.int16(),
    "sequence": pa.int32(),
    "partitionLeaderEpoch": pa.int32(),
    "isTransactional": pa.bool_(),
    "isControl": pa.bool_(),
    "codec": pa.string(),  # none, gzip, snappy, lz4, zstd
    "segment": pa.string(),  # name of the .log file
    "position": pa.int64(),  # of the record's batch in the segment, bytes
    "directory": pa.string(),  # the partition directory
    "keySize": pa.int32(),  # bytes; null if the key is null
    "valueSize": pa.int32(),
}
"""Optional columns."""

COLUMN_TYPES = RECORD_TYPES | EXTRA_TYPES


def micros(ms: int) -> int | None:
    """Convert a time in ms since 1970, which may be negative, to the unit of TIMESTAMP; None if it does not fit."""
    return ms * 1000 if -LAST_MS <= ms <= LAST_MS else None


def schema_of(columns: tuple[str, ...] | list[str]) -> pa.Schema:
    """Return the Arrow schema of a table with these columns, all nullable. Raises KeyError for an unknown name."""
    return pa.schema([pa.field(name, COLUMN_TYPES[name]) for name in columns])


def codec_names(attributes: pa.Array) -> pa.Array:
    """Return none, gzip, snappy, lz4, zstd; null for an unknown number."""
    number = pc.bit_wise_and(attributes, CODEC_MASK)
    return _codecs().take(pc.if_else(pc.less(number, len(Codec)), number, None))


@cache
def _codecs() -> pa.Array:  # not at import: converting a list to an array loads pandas
    return pa.array([codec.name.lower() for codec in Codec], pa.string())


def timestamp_types(attributes: pa.Array, magic: pa.Array) -> pa.Array:
    """Return 0 CreateTime, 1 LogAppendTime, −1 in format 0, which has no timestamps (TimestampType)."""
    is_append_time = pc.min_element_wise(pc.bit_wise_and(attributes, TIMESTAMP_TYPE_FLAG), 1)
    return pc.if_else(pc.equal(magic, 0), -1, is_append_time)


def has_flag(attributes: pa.Array, magic: pa.Array, flag: int) -> pa.Array:
    """Return whether this flag of format 2 is set."""
    return pc.and_(pc.not_equal(pc.bit_wise_and(attributes, flag), 0), pc.greater(magic, 1))
