"""Entries of message formats 0 and 1: plain messages, and wrappers around a compressed inner set.

Mirrors AbstractLegacyRecordBatch.DeepRecordsIterator: an inner set that Kafka would refuse as a whole yields no records, since
the offsets of format 1 depend on the last one of the set. If Kafka stops in the middle, the records before are decoded.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.findings import First
from engine.formats import (
    CODEC_MASK,
    CODEC_NAMES,
    LEGACY_V0,
    LEGACY_V1,
    LOG_OVERHEAD,
    MAGIC_V0,
    MAGIC_V1,
    TIMESTAMP_TYPE_FLAG,
    BatchField,
    Codec,
    Status,
    to_long,
)
from engine.kernels.checksum import IEEE, make_tables
from engine.kernels.legacy import Origin, decode_messages, measure_messages
from engine.record.codecs.codecs import FINDINGS, InflateStatus, inflate
from engine.record.damage import Problem, unknown_codec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.record.columns import BatchColumns, RecordColumns

_TABLES = make_tables(IEEE)
_EMPTY = memoryview(b"")

_NAMED = 1000  # messages of one entry whose problems are reported one by one

_WHAT = {
    Status.BAD_VALUE: "a length inside message {} does not fit",
    Status.BAD_RECORD: "a length inside message {} does not fit",
    Status.BAD_CODEC: "message {} of a compressed set is compressed itself",
    Status.BAD_SIZE: "message {} is smaller than any message",
    Status.TORN: "message {} is cut off",
}


class RemarkKind(Enum):
    """Kinds of problems in an inner set that Kafka ignores without a message."""

    CUT_OFF = "the last message is incomplete"
    OFFSET = "the wrapper has the offset of another message"


class Remark(NamedTuple):
    """A problem that Kafka ignores: kind and text."""

    kind: RemarkKind
    what: str


class Wrapper(NamedTuple):
    """The fields of the entry around an inner set."""

    magic: int
    codec: int
    offset: int  # of the last inner message; some producers write 0
    timestamp: int  # -1 in format 0
    append_time: bool  # `timestamp` applies to every inner message
    value: memoryview | None


class Span(NamedTuple):
    """Messages in the columns first … end − 1. is_overlong: a single message whose value is longer than the message."""

    first: int
    end: int
    is_overlong: bool = False


class InnerSet(NamedTuple):
    """The decompressed messages of a wrapper: `base` is added to their offsets, `remark` is a problem that Kafka ignores."""

    data: memoryview
    base: int
    remark: Remark | None = None


class LegacyEntry:
    """The records of one entry, decoded while `spans` is iterated.

    data      the bytes to which key and value positions refer: the window, or the decompressed inner set
    problems  problems of the entry, complete when `spans` is done: the first ones, and the number of the others
    remark    a problem that Kafka ignores
    """

    def __init__(
        self,
        data: memoryview,
        span: tuple[int, int],
        row: int,
        records: RecordColumns,
        problem: Problem | None = None,
        *,
        base: int = 0,
        append_time: int | None = None,
        remark: Remark | None = None,
    ) -> None:
        self.data = data
        self._start, self._end = span
        self._row = row
        self._records = records
        self.problems: First[Problem] = First(_NAMED)
        if problem is not None:
            self.problems.append(problem)
        self._base = base
        self._append_time = append_time
        self.remark = remark

    def spans(self, *, with_overlong: bool = False) -> Iterator[Span]:
        """Fill the columns as often as needed. Yields at least one span, which may be empty; the last one is not overlong.

        A message with a wrong length inside is skipped: its own size gives the start of the next one.
        with_overlong  do not skip it if only the length of its value is wrong
        """
        at, count, done, status = self._start, 0, 0, int(Status.FULL)
        origin = Origin(self._row, 0, self._base, self._append_time is not None, self._append_time or 0)
        while status != Status.END:
            before = count
            count, at, status = decode_messages(self.data, at, self._end, origin, self._records.table, count, _TABLES)
            done += count - before
            if status == Status.FULL:
                yield Span(0, count)
                count = 0
            elif status != Status.END:
                self._note(Status(status), done)
                if status not in (Status.BAD_RECORD, Status.BAD_VALUE):
                    break
                if status == Status.BAD_VALUE and with_overlong:
                    yield Span(0, count)
                    yield Span(count, count + 1, is_overlong=True)
                    count = 0
                at += LOG_OVERHEAD + LEGACY_V1.field("message_size", self.data, at)
                done += 1
        if self.problems.more:
            what = f"{count_of(self.problems.more, 'more message')} with lengths that do not fit"
            self.problems.append(Problem("record-invalid", what))
        yield Span(0, count)

    def _note(self, status: Status, number: int) -> None:
        self.problems.take(Problem("record-invalid", _WHAT[status].format(number)))


def decode_entry(data: memoryview, batches: BatchColumns, row: int, records: RecordColumns, limit: int) -> LegacyEntry:
    """Return the records of the entry in `row` of a scanned window.

    data     the window                            records  filled while the result's `spans` is iterated
    limit    decompressed bytes of an inner set

    Never raises for bad bytes: see LegacyEntry.problems.
    """
    table = batches.table
    position = table[BatchField.POSITION, row]
    end = position + table[BatchField.SIZE, row]
    if table[BatchField.ATTRIBUTES, row] & CODEC_MASK == Codec.NONE:
        return LegacyEntry(data, (position, end), row, records)
    wrapper = read_wrapper(data, position, end)
    inner = open_wrapper(wrapper, limit) if isinstance(wrapper, Wrapper) else wrapper
    if isinstance(inner, Problem):
        return LegacyEntry(_EMPTY, (0, 0), row, records, inner)
    assert isinstance(wrapper, Wrapper)
    append_time = wrapper.timestamp if wrapper.append_time else None
    span = (0, len(inner.data))
    return LegacyEntry(inner.data, span, row, records, base=inner.base, append_time=append_time, remark=inner.remark)


def decode_plain(
    data: memoryview, batches: BatchColumns, row: int, last_row: int, records: RecordColumns
) -> tuple[int, int, Problem | None, bool]:
    """Decode consecutive plain entries row … last_row - 1; returns (records, next row, problem, overlong).

    overlong  the problem is a value longer than its message; its other fields are in the column after the records
    Stops before `last_row` if the columns are full, or after the entry with the problem. Much faster than `decode_entry` for
    each.
    """
    table = batches.table
    start = table[BatchField.POSITION, row]
    end = table[BatchField.POSITION, last_row - 1] + table[BatchField.SIZE, last_row - 1]
    count, _, status = decode_messages(data, start, end, Origin(row, 1), records.table, 0, _TABLES)
    if status in (Status.END, Status.FULL):
        return count, row + count, None, False
    return count, row + count + 1, Problem("record-invalid", _WHAT[Status(status)].format(0)), status == Status.BAD_VALUE


def read_wrapper(data: memoryview, position: int, end: int) -> Wrapper | Problem:
    """Read the compressed entry data[position:end], whose size field is right."""
    layout = LEGACY_V0 if data[position + LEGACY_V1.positions["magic"]] == MAGIC_V0 else LEGACY_V1
    at = position + layout.size
    if end - at < 4:
        return Problem("record-invalid", "the wrapper is smaller than its own fields")
    header = layout.read(data, position)
    at += max(header.key_size, 0)
    if end - at < 4:
        return Problem("record-invalid", "the key size of the wrapper does not fit")
    size = int.from_bytes(data[at : at + 4], "big", signed=True)
    at += 4
    if size > end - at:
        return Problem("record-invalid", "the value size of the wrapper does not fit")
    return Wrapper(
        magic=header.magic,
        codec=header.attributes & CODEC_MASK,
        offset=header.offset,
        timestamp=getattr(header, "timestamp", -1),
        append_time=header.magic != MAGIC_V0 and header.attributes & TIMESTAMP_TYPE_FLAG != 0,
        value=None if size < 0 else data[at : at + size],
    )


def open_wrapper(wrapper: Wrapper, limit: int) -> InnerSet | Problem:
    """Decompress the inner set and find its base offset. Returns a Problem if Kafka refuses the whole set.

    A set that ends inside a message ends before it, as for Kafka; that is a remark. So is a wrapper of format 0 whose offset is
    not that of the last message.
    """
    if wrapper.codec > Codec.ZSTD:
        return unknown_codec(wrapper.codec)
    if wrapper.magic not in (MAGIC_V0, MAGIC_V1):
        return Problem("record-invalid", f"a compressed set in an entry of magic {wrapper.magic}")
    if wrapper.codec == Codec.ZSTD:
        return Problem("record-invalid", f"{CODEC_NAMES[wrapper.codec]} in message format {wrapper.magic}")
    if wrapper.value is None:
        return Problem("record-invalid", "a compressed set without a value")
    inflated = inflate(wrapper.codec, wrapper.value, limit, magic=wrapper.magic)
    if inflated.status != InflateStatus.OK:
        return Problem(FINDINGS[inflated.status], inflated.problem or "")
    data = memoryview(inflated.data)
    count, last, stop, status = measure_messages(data, 0, len(data))
    if status == Status.BAD_SIZE:
        return Problem("record-invalid", _WHAT[Status.BAD_SIZE].format(count))
    if count == 0:
        return Problem("record-invalid", "a compressed set without messages")
    base, remark = 0, None
    if status == Status.TORN:
        remark = Remark(RemarkKind.CUT_OFF, _WHAT[Status.TORN].format(count))
    elif wrapper.magic == MAGIC_V0 and wrapper.offset != last:
        what = f"the wrapper's offset {wrapper.offset} is not {last}, that of its last message"
        remark = Remark(RemarkKind.OFFSET, what)
    if wrapper.magic == MAGIC_V1 and wrapper.offset != 0:
        if wrapper.offset < last:
            what = f"the wrapper's offset {wrapper.offset} is below {last}, the relative offset of its last message"
            return Problem("record-invalid", what)
        base = to_long(wrapper.offset - last)
    return InnerSet(data[:stop], base, remark)
