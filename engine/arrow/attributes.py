"""What a batch's attributes say, as arrays: a row for each of `attributes`, and of `magic` where formats differ."""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from engine.formats import CODEC_MASK, TIMESTAMP_TYPE_FLAG, Codec


def codec_names(attributes: pa.Array) -> pa.Array:
    """none, gzip, snappy, lz4, zstd; null where the number is none of theirs."""
    number = pc.bit_wise_and(attributes, CODEC_MASK)
    return _codecs().take(pc.if_else(pc.less(number, len(Codec)), number, None))


@cache
def _codecs() -> pa.Array:  # not at import: a list as an array loads pandas
    return pa.array([codec.name.lower() for codec in Codec], pa.string())


def timestamp_types(attributes: pa.Array, magic: pa.Array) -> pa.Array:
    """0 CreateTime, 1 LogAppendTime, −1 in format 0, which has no timestamps (TimestampType)."""
    is_append_time = pc.min_element_wise(pc.bit_wise_and(attributes, TIMESTAMP_TYPE_FLAG), 1)
    return pc.if_else(pc.equal(magic, 0), -1, is_append_time)


def has_flag(attributes: pa.Array, magic: pa.Array, flag: int) -> pa.Array:
    """Is this flag of format 2 set?"""
    return pc.and_(pc.not_equal(pc.bit_wise_and(attributes, flag), 0), pc.greater(magic, 1))
