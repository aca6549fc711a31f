"""Read an open log by offset and isolation level, and find offsets by timestamp. Mirrors UnifiedLog and LocalLog.

The functions work on every `ReadableLog`: a log that is open for writing, or a `PartitionView`. A read returns a slice of a
file, so that no bytes are copied.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.formats import (
    BATCH_HEADER,
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    LONG_MAX,
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_TIMESTAMP,
    AbortedTxn,
    BatchField,
    ControlType,
    RecordField,
)
from engine.index.sparse import OffsetPosition
from engine.kernels.transactions import next_in_transaction
from engine.log.errors import CorruptRecord, OffsetOutOfRange
from engine.log.segment.batch_search import BatchHead, TimestampAndOffset, heads
from engine.log.segment.log_segments import LogOffsetMetadata
from engine.log.segment.recovery_walk import read_marker
from engine.record.columns import BatchColumns, RecordColumns
from engine.record.control import ControlRecordInvalid
from engine.record.heads import HeadWalk
from engine.record.soundness import resume_after_damage
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.checkpoint.checkpoints import EpochEntry
    from engine.files import OpenFile
    from engine.log.segment.readable_segment import FetchSlice, ReadableSegment
    from engine.record.windows import Window

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3  # special timestamps of ListOffsetsRequest
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6


class FetchIsolation(Enum):
    """The end of a read. Mirrors FetchIsolation."""

    LOG_END = "log_end"  # a follower's fetch
    HIGH_WATERMARK = "high_watermark"  # read_uncommitted
    READ_COMMITTED = "read_committed"  # up to the last stable offset, with the aborted transactions


class FetchData(NamedTuple):
    """Result of a read: `size` bytes of the .log of `segment` from `place.position` on; segment None: no bytes.

    place                   offset and position of the first batch; without bytes, where the read would begin
    first_entry_incomplete  the first batch is larger than the requested size
    aborted                 of READ_COMMITTED: transactions whose records must be left out, in the order of their markers
    """

    place: LogOffsetMetadata
    segment: ReadableSegment | None
    size: int
    first_entry_incomplete: bool = False
    aborted: list[AbortedTxn] | None = None

    @property
    def file(self) -> OpenFile | None:
        """The .log that contains the bytes."""
        return self.segment.log_file if self.segment is not None and self.size else None


def read(
    log: ReadableLog, start_offset: int, max_length: int, isolation: FetchIsolation, *, min_one_message: bool = True,
    finds_aborted: bool = True,
) -> FetchData:  # fmt: skip
    """Read batches of one segment, from the one that holds `start_offset` on, `max_length` bytes at most.

    min_one_message  return the first batch completely even if it is larger
    finds_aborted    False: the caller finds aborted transactions with `find_aborted`
    The last batch may be incomplete. Raises OffsetOutOfRange, UnreadableFile, CorruptRecord. Mirrors UnifiedLog.read.
    """
    if start_offset < log.log_start_offset:
        raise out_of_range(log, start_offset, f"starting from offset: {log.log_start_offset}")
    limit = _limit(log, isolation)
    wants_aborted = finds_aborted and isolation is FetchIsolation.READ_COMMITTED
    segment = log.segments.floor_segment(start_offset)
    if start_offset > log.log_end_offset or segment is None:
        raise out_of_range(log, start_offset, f"upto {log.log_end_offset}")
    if start_offset >= limit.message_offset:
        place = limit if start_offset == limit.message_offset else _position_of(log, start_offset)
        return FetchData(place, None, 0, aborted=[] if wants_aborted else None)
    while segment is not None:
        found = segment.read(start_offset, max_length, _end_in(segment, limit), min_one_message=min_one_message)
        if found is not None:
            place = LogOffsetMetadata(_first_offset(segment, found), segment.base_offset, found.position)
            data = FetchData(place, segment, found.size, found.first_entry_incomplete)
            return data._replace(aborted=_aborted(log, start_offset, data)) if wants_aborted else data
        segment = log.segments.higher_segment(segment.base_offset)
    return FetchData(log.log_end_offset_metadata(), None, 0)


def read_from_damage(log: ReadableLog, start_offset: int, isolation: FetchIsolation) -> FetchData:
    """After `read` found damage before `start_offset`: return the bytes from where it began to search in that segment.

    The first batches may be below `start_offset`. The caller finds aborted transactions with `find_aborted`.
    Raises UnreadableFile, CorruptRecord.
    """
    limit = _limit(log, isolation)
    segment = log.segments.floor_segment(start_offset)
    while segment is not None and not _is_hidden(segment, start_offset):
        segment = log.segments.higher_segment(segment.base_offset)
    end = None if segment is None else _end_in(segment, limit)
    if segment is None or end is None:
        return FetchData(log.log_end_offset_metadata(), None, 0)
    position = segment.position_before(start_offset)
    place = LogOffsetMetadata(max(start_offset, segment.base_offset), segment.base_offset, position)
    size = max(0, min(end, segment.size) - position)
    return FetchData(place, segment, size)


def _aborted(log: ReadableLog, start_offset: int, data: FetchData) -> list[AbortedTxn]:
    return [txn for some in find_aborted(log, start_offset, data) for txn in some]


def _is_hidden(segment: ReadableSegment, offset: int) -> bool:
    """Does damage prevent the search for `offset` in the segment?"""
    try:
        segment.translate_offset(offset)
    except CorruptRecord:
        return True
    return False


def _first_offset(segment: ReadableSegment, found: FetchSlice) -> int:
    """First offset of the slice's first batch. The header of a compressed set of format 0 or 1 has only the last offset."""
    head = segment.log_file.read_exactly(found.position, HEADER_SIZE_UP_TO_MAGIC + 1)
    if head[-2] >= MAGIC_V2 or not head[-1] & CODEC_MASK:
        return found.base_offset
    size = LOG_OVERHEAD + BATCH_HEADER.field("batch_length", head)
    from engine.record.reader import ChunkReader  # imports all codecs

    reader = ChunkReader(segment.log_path, lambda _finding: None)
    for window in LogWalk(segment.log_file, found.position, found.position + size, window_size=size):
        for chunk in reader.chunks(window):
            if chunk.end > chunk.first:
                offset: int = chunk.records.table[RecordField.OFFSET, chunk.first]
                return offset
    return found.base_offset


def out_of_range(log: ReadableLog, offset: int, what: str) -> OffsetOutOfRange:
    """The error with Kafka's message."""
    name = log.directory.rstrip("/").rpartition("/")[2]
    return OffsetOutOfRange(
        f"Received request for offset {offset} for partition {name}, but we only have log segments {what}.",
        do=f"choose an offset from {log.log_start_offset} to {log.log_end_offset}",
    )


def _limit(log: ReadableLog, isolation: FetchIsolation) -> LogOffsetMetadata:
    if isolation is FetchIsolation.LOG_END:
        return log.log_end_offset_metadata()
    if isolation is FetchIsolation.HIGH_WATERMARK:
        return log.fetch_high_watermark_metadata()
    return log.fetch_last_stable_offset_metadata()


def _end_in(segment: ReadableSegment, limit: LogOffsetMetadata) -> int | None:
    """Byte of `segment` at which a read up to `limit` ends, LONG_MAX for its end; None: nothing of it may be read."""
    if limit.segment_base_offset is None or segment.base_offset > limit.segment_base_offset:
        return None
    return LONG_MAX if segment.base_offset < limit.segment_base_offset else limit.position


def _position_of(log: ReadableLog, offset: int) -> LogOffsetMetadata:
    """The position from which a read of `offset` would begin (convertToOffsetMetadataOrThrow)."""
    segment = log.segments.floor_segment(offset)
    while segment is not None:
        head = segment.translate_offset(offset)
        if head is not None:
            return LogOffsetMetadata(head.base_offset, segment.base_offset, head.position)
        segment = log.segments.higher_segment(segment.base_offset)
    return log.log_end_offset_metadata()


# ---- offsets by timestamp


def fetch_offset_by_timestamp(log: ReadableLog, timestamp: int) -> TimestampAndOffset | None:
    """The first record with at least this timestamp, or the answer for a special one; None: there is none.

    LATEST is the log end offset, EARLIEST the log start offset, MAX_TIMESTAMP the first record with the largest timestamp.
    Nothing is known of tiered storage: offset −1. Mirrors UnifiedLog.fetchOffsetByTimestamp.
    """
    epochs = log.leader_epoch_cache.entries
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = epochs[0].epoch if epochs and epochs[0].start_offset <= log.log_start_offset else None
        return TimestampAndOffset(NO_TIMESTAMP, log.log_start_offset, epoch)
    if timestamp == LATEST:
        return TimestampAndOffset(NO_TIMESTAMP, log.log_end_offset, epochs[-1].epoch if epochs else None)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return TimestampAndOffset(NO_TIMESTAMP, -1, NO_PARTITION_LEADER_EPOCH)
    if timestamp == MAX_TIMESTAMP:
        return _first_of_largest_timestamp(log)
    for segment in log.segments:
        if segment.largest_timestamp >= timestamp:
            return segment.find_offset_by_timestamp(timestamp, log.log_start_offset)
    return None


def _first_of_largest_timestamp(log: ReadableLog) -> TimestampAndOffset | None:
    latest = max(log.segments, key=lambda segment: segment.largest().timestamp, default=None)  # the first of equal ones
    if latest is None:
        return None
    largest = latest.largest()
    position = latest.position_before(largest.offset)
    for head in heads(latest.log_file, position, latest.size):
        if head.max_timestamp == largest.timestamp:
            offset = _first_with(latest.log_file, head)
            epoch = head.leader_epoch if head.leader_epoch >= 0 else None
            return None if offset is None else TimestampAndOffset(head.max_timestamp, offset, epoch)
    return None


def _first_with(file: OpenFile, head: BatchHead) -> int | None:
    """Offset of the first record of the batch that has the batch's largest timestamp; format 0 has no timestamps."""
    if head.magic == 0:
        return None
    from engine.record.reader import ChunkReader

    reader = ChunkReader(file.path, lambda _finding: None)
    for window in LogWalk(file, head.position, head.position + head.size, window_size=head.size):
        for chunk in reader.chunks(window):
            table = chunk.records.table
            for record in range(chunk.first, chunk.end):
                if table[RecordField.TIMESTAMP, record] == head.max_timestamp:
                    offset: int = table[RecordField.OFFSET, record]
                    return offset
    return None


def find_aborted(
    log: ReadableLog, start_offset: int, data: FetchData, *, after_segment: bool = False
) -> Iterator[Sequence[AbortedTxn]]:
    """Yield the aborted transactions that concern `data`, in the order of their markers. Mirrors addAbortedTransactions.

    The index of a segment is read only when its transactions are asked for.
    after_segment  only those whose markers are in later segments
    """
    segment, place = data.segment, data.place
    assert segment is not None  # there are bytes
    upper = segment.fetch_upper_bound_offset(OffsetPosition(place.message_offset, place.position or 0), data.size)
    if upper is None:
        following = log.segments.higher_segment(segment.base_offset)
        upper = log.log_end_offset if following is None else following.base_offset
    later: list[AbortedTxn] | None = None  # from the first segment without a valid index on
    for one in _from(log, segment):
        if after_segment and one is segment:
            continue
        if one.aborted_are_unknown:
            later = [] if later is None else later
            continue
        result = one.collect_aborted_txns(start_offset, upper)
        if later is None:
            yield result.transactions
        else:
            later += result.transactions
        if result.is_complete:
            break
    if later is not None:
        later += _Markers(log, upper).aborted_from(segment, place.position or 0)
        later.sort(key=lambda txn: txn.last_offset)
        yield later
    yield log.undecided


def _from(log: ReadableLog, segment: ReadableSegment) -> Iterator[ReadableSegment]:
    """Yield the segment and the segments after it."""
    following: ReadableSegment | None = segment
    while following is not None:
        yield following
        following = log.segments.higher_segment(following.base_offset)


class _Markers:
    """Finds transactions from batch headers, up to offset `upper` and until all that began before it have ended."""

    def __init__(self, log: ReadableLog, upper: int) -> None:
        self._log, self._upper = log, upper
        self._open: dict[int, int] = {}  # producer → the first offset of its transaction in these batches
        self._aborted: list[AbortedTxn] = []
        self._is_asked = False  # are the markers here missing from the index?
        self._records, self._batches, self._one = RecordColumns(8), BatchColumns(), BatchColumns(16)

    def aborted_from(self, segment: ReadableSegment, position: int) -> list[AbortedTxn]:
        """Aborted transactions whose markers are in segments without a valid index, from byte `position` of `segment` on.

        The first offset of each is that of its first batch after `position`.
        """
        for one in _from(self._log, segment):
            self._is_asked = one.aborted_are_unknown
            walk, resumes = HeadWalk(one.log_file, position if one is segment else 0, one.size, batches=self._batches), True
            while resumes:
                for window in walk:
                    self._follow(window, one.log_file)
                    if self._is_over(window):
                        return self._aborted
                resumes, _ = resume_after_damage(walk)  # reading the records reports the damage
            if one is not segment:
                one.release_log()
        return self._aborted

    def _is_over(self, window: Window) -> bool:
        is_past = window.batches.table[BatchField.LAST_OFFSET, window.rows - 1] >= self._upper - 1
        return is_past and all(first >= self._upper for first in self._open.values())

    def _follow(self, window: Window, file: OpenFile) -> None:
        table = window.batches.table
        row = next_in_transaction(table, 0, window.rows)
        while row < window.rows:
            producer = table[BatchField.PRODUCER_ID, row]
            if not table[BatchField.ATTRIBUTES, row] & CONTROL_FLAG:
                self._open.setdefault(producer, table[BatchField.BASE_OFFSET, row])
            else:
                self._end(producer, file, table[BatchField.POSITION, row], table[BatchField.SIZE, row])
            row = next_in_transaction(table, row + 1, window.rows)

    def _end(self, producer: int, file: OpenFile, position: int, size: int) -> None:
        """Process a control batch. An unreadable one ends no transaction; reading the records reports it."""
        for window in LogWalk(file, position, position + size, window_size=size, batches=self._one):
            try:
                marker = read_marker(window, 0, self._records)
            except ControlRecordInvalid:
                return
            if marker is None:
                return
            first, last = self._open.pop(producer, None), window.batches.table[BatchField.LAST_OFFSET, 0]
            if self._is_asked and first is not None and marker.control_type is ControlType.ABORT:
                self._aborted.append(AbortedTxn(0, producer, first, last, last + 1))


class Epochs(Protocol):
    """The leader epochs of a log."""

    @property
    def entries(self) -> Sequence[EpochEntry]:
        """All entries, the oldest first."""
        ...


class ReadableSegments(Protocol):
    """The segments of a log that is read."""

    def __iter__(self) -> Iterator[ReadableSegment]:
        """The segments, from the oldest to the newest."""
        ...

    def floor_segment(self, offset: int) -> ReadableSegment | None:
        """The segment with the largest base offset at or below `offset`."""
        ...

    def higher_segment(self, offset: int) -> ReadableSegment | None:
        """The segment with the smallest base offset above `offset`."""
        ...


class ReadableLog(Protocol):
    """A log that can be read."""

    @property
    def directory(self) -> str:
        """The partition directory."""
        ...

    @property
    def segments(self) -> ReadableSegments:
        """All segments."""
        ...

    @property
    def log_start_offset(self) -> int:
        """The first offset that readers may see."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        ...

    @property
    def leader_epoch_cache(self) -> Epochs:
        """The leader epochs."""
        ...

    @property
    def undecided(self) -> Sequence[AbortedTxn]:
        """Open transactions that are read as aborted ones."""
        ...

    def log_end_offset_metadata(self) -> LogOffsetMetadata:
        """The log end offset with its position."""
        ...

    def fetch_high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark with its position."""
        ...

    def fetch_last_stable_offset_metadata(self) -> LogOffsetMetadata:
        """The last stable offset with its position."""
        ...

    def offset_by_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """The first record with at least this timestamp, or the answer for a special one; None: there is none."""
        ...
