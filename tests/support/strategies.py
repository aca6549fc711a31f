"""Hypothesis strategies for records and batches of every format, with the extremes that formats allow."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st

from engine.formats import Codec
from engine.record.assembly import CREATE_TIME, LOG_APPEND_TIME
from engine.record.builder import NewRecord, build_batch
from engine.record.columns import Table

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1


def examples(count: int) -> settings:
    """Settings of a test of `count` examples, or of as many of 100 as KAFKALOG_EXAMPLES says: see conftest.py."""
    return settings(max_examples=-(-count * settings.default.max_examples // 100))


class BatchCase(NamedTuple):
    """Records, and the keyword arguments of build_batch that go with them."""

    records: list[NewRecord]
    options: dict[str, Any]

    def build(self) -> bytes:
        return build_batch(self.records, **self.options)


def edges(low: int, high: int) -> st.SearchStrategy[int]:
    """Integers of a range, its ends often."""
    ends = sorted({low, high, min(low + 1, high), max(high - 1, low)})
    return st.one_of(st.integers(low, high), st.sampled_from(ends))


WILD = st.one_of(
    st.integers(-3, 70), edges(-LONG_MAX - 1, LONG_MAX), st.sampled_from([INT_MAX, INT_MAX + 1, -INT_MAX - 1]),
)  # fmt: skip


@st.composite
def wild_tables(draw: st.DrawFn, fields: int) -> Table:
    """One to three columns of anything, most of them small numbers: some can be believed."""
    table = Table(fields, draw(st.integers(1, 3)))
    for field in range(fields):
        for column in range(table.capacity):
            table.table[field, column] = draw(st.integers(0, 2) if draw(st.integers(0, 7)) else WILD)
    return table


def payloads(max_size: int = 40) -> st.SearchStrategy[bytes | None]:
    """Keys and values: null, empty, any bytes; sizes on both sides of a varint's second and third byte."""
    return st.one_of(
        st.none(),
        st.just(b""),
        st.binary(max_size=max_size),
        st.builds(lambda byte, size: bytes([byte]) * size, st.integers(0, 255), st.sampled_from([63, 64, 8191, 8192])),
    )


def headers() -> st.SearchStrategy[list[tuple[bytes, bytes | None]]]:
    """Header lists: double and empty keys, null and empty values."""
    keys = st.text("ab\0\n\x7f\u00e9\u202e\u20ac\ufffe\U0001f600", max_size=6).map(str.encode)
    return st.lists(st.tuples(keys, st.none() | st.binary(max_size=8)), max_size=4)


def timestamps() -> st.SearchStrategy[int]:
    """Milliseconds, -1 for none, up to the largest."""
    return st.one_of(edges(-1, LONG_MAX), st.integers(1_700_000_000_000, 1_700_000_100_000))


@st.composite
def record_lists(draw: st.DrawFn, magic: int = 2, min_size: int = 0, max_size: int = 8) -> list[NewRecord]:
    """Records with growing offsets within 2^31 - 1 of the first: mostly dense, sometimes with gaps."""
    count = draw(st.integers(min_size, max_size))
    base = draw(edges(0, LONG_MAX - INT_MAX))
    steps = st.just(1) | st.integers(1, 300) | st.just(INT_MAX // max(1, max_size))
    offset = base
    records = []
    for _ in range(count):
        records.append(
            NewRecord(
                offset,
                draw(timestamps()) if magic else -1,
                draw(payloads()),
                draw(payloads()),
                draw(headers()) if magic == 2 else [],
            ),
        )
        offset += draw(steps)
    return records


@st.composite
def batches(
    draw: st.DrawFn, min_size: int = 0, codecs: tuple[Codec, ...] = tuple(Codec), magics: tuple[int, ...] = (2, 2, 2, 1, 0)
) -> BatchCase:
    """A batch that Kafka's own builder can write too, of any format, codec and kind."""
    magic = draw(st.sampled_from(magics))
    records = draw(record_lists(magic, min_size))
    allowed = [codec for codec in codecs if magic == 2 or codec != Codec.ZSTD]
    options: dict[str, Any] = {"magic": magic, "codec": draw(st.sampled_from(allowed))}
    first = records[0].offset if records else draw(edges(0, LONG_MAX - INT_MAX))
    last = records[-1].offset if records else first
    # a base offset before the first record: compaction removed what was between
    removed = draw(st.sampled_from([0, 0, 1, 1000])) if last - first < 2**30 else 0
    options["base_offset"] = max(0, first - removed)
    if magic:
        options["timestamp_type"] = draw(st.sampled_from([CREATE_TIME, CREATE_TIME, LOG_APPEND_TIME]))
        if options["timestamp_type"] == LOG_APPEND_TIME:
            options["log_append_time"] = draw(edges(0, LONG_MAX))
    if magic == 2:
        options["partition_leader_epoch"] = draw(edges(-1, INT_MAX))
        if draw(st.booleans()):
            options["producer_id"] = draw(edges(0, LONG_MAX))
            options["producer_epoch"] = draw(edges(0, 2**15 - 1))
            options["base_sequence"] = draw(edges(0, INT_MAX))
            options["transactional"] = draw(st.booleans())
        if draw(st.sampled_from([False, False, True])):
            options["delete_horizon_ms"] = draw(edges(0, LONG_MAX))
        if records and draw(st.booleans()):
            options["last_offset"] = min(last + draw(st.integers(0, 10)), options["base_offset"] + INT_MAX)
    return BatchCase(records, options)
