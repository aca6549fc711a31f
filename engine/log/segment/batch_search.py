"""Find batches in a log from their headers: by offset, by timestamp, the largest timestamp, the last batch.

Mirrors the searches of FileRecords.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from engine.findings import Finding, Where
from engine.formats import (
    DELETE_HORIZON_FLAG,
    LONG_MAX,
    LONG_MIN,
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    BatchField,
    RecordField,
    can_be_followed,
)
from engine.kernels.select import next_unsound
from engine.log.errors import CorruptRecord, cut_off, no_such_size
from engine.record.columns import BatchColumns
from engine.record.soundness import resume_after_damage
from engine.record.windows import LogWalk, Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from engine.files import OpenFile
    from engine.record.windows import Window

    Windows = Callable[[OpenFile, int, int], Iterator[Window]]

_WINDOW = 64 << 10
_BATCHES = 520  # batches that one kernel call describes


class BatchHead(NamedTuple):
    """Position and header of a batch in the .log. `leader_epoch` is −1 if it has none."""

    position: int
    size: int
    magic: int
    base_offset: int  # of a v0/v1 entry: its own offset, which for a compressed set is that of the last inner message
    last_offset: int
    max_timestamp: int
    leader_epoch: int

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.last_offset + 1


class TimestampAndOffset(NamedTuple):
    """A record found by its timestamp. `leader_epoch`: None if the batch has none."""

    timestamp: int
    offset: int
    leader_epoch: int | None


class LogEnd(NamedTuple):
    """The end of the batches in a log. A last batch after which no offset is left is not counted.

    next_offset   offset after the last batch; None: there is none        position  byte after it
    sound_offset  all batches below this offset are sound, as far as they were read; `next_offset` if all are
    tail          a finding about the bytes after `position`; None: there are none
    """

    next_offset: int | None
    position: int
    sound_offset: int | None
    tail: Finding | None


def find_end(file: OpenFile, position: int, end: int, base_offset: int) -> LogEnd:
    """Find the end of a log that a broker may be writing, from the batch at byte `position` on.

    An incomplete batch at the end of the file was torn, or is being written. Damage that has a sound batch of this log after
    it is inside the log; readers report it. If no sound batch begins at `position`, the whole file is read. A last batch that
    leaves no offset, or is below `base_offset`, the base offset of the segment, is not part of the log.
    """
    walk = LogWalk(file, position, end, batches=BatchColumns(_BATCHES))
    next_offset: int | None = None
    sound, damaged = base_offset, False
    is_over = False
    last: Finding | None = None
    while not is_over:
        for window in walk:
            table = window.batches.table
            if next_offset is None and position and not table[BatchField.VALID, 0]:
                return find_end(file, 0, end, base_offset)
            last = _invalid_last_batch(window, file.path, base_offset)
            if last is None or window.rows > 1:
                next_offset = table[BatchField.LAST_OFFSET, window.rows - (1 if last is None else 2)] + 1
            bad = next_unsound(table, 0, window.rows)
            if not damaged:
                damaged = bad < window.rows
                sound = max(sound, table[BatchField.BASE_OFFSET, bad]) if damaged else next_offset or base_offset
        resumes, findings = resume_after_damage(walk, max(sound, base_offset))
        damaged = damaged or resumes
        is_over = not resumes
    if next_offset is None and position:
        return find_end(file, 0, end, base_offset)
    if last is not None and last.where.position is not None:
        return LogEnd(next_offset, last.where.position, sound if damaged else next_offset, last)
    return LogEnd(next_offset, walk.position, sound if damaged else next_offset, findings[0] if findings else None)


def _invalid_last_batch(window: Window, path: str, base_offset: int) -> Finding | None:
    """A finding about the last batch of the window, if the log cannot continue after it."""
    last = _head(window, window.rows - 1)
    where = Where(path, last.position, last.base_offset)
    if not can_be_followed(last.base_offset, last.last_offset):
        return Finding("no-offset-left", where, f"the last batch ends at offset {LONG_MAX} or above")
    if last.base_offset < base_offset and last.magic >= MAGIC_V2:
        what = f"the last batch begins at offset {last.base_offset}, and its segment at {base_offset}"
        return Finding("offset-order", where, what)
    return None


def heads(file: OpenFile, position: int, end: int) -> Iterator[BatchHead]:
    """Yield the headers of the whole batches in bytes [position, end) of a .log, without verifying checksums.

    Raises CorruptRecord at a size that no batch can have, UnreadableFile, FileChangedWhileReading.
    """
    for window in kafkas_windows(file, position, end):
        for row in range(window.rows):
            yield _head(window, row)


def end_by_headers(file: OpenFile, position: int, end: int) -> int:
    """The highest offset after the batches from byte `position` on, at least `end`. Reads headers up to damage."""
    try:
        for head in heads(file, position, file.size()):
            end = max(end, head.next_offset)
    except CorruptRecord:
        pass
    return end


def sound_heads(file: OpenFile) -> Iterator[BatchHead]:
    """Yield the headers of all batches of a .log. Skips bytes after an invalid batch size up to the next batch."""
    for window in sound_windows(file, 0, file.size()):
        for row in range(window.rows):
            yield _head(window, row)


def heads_before_damage(file: OpenFile) -> Iterator[BatchHead]:
    """Yield the headers of the batches of a .log up to the first one with a wrong size or checksum: a repair keeps these."""
    for window in LogWalk(file, 0, file.size(), batches=BatchColumns(_BATCHES), window_size=_WINDOW):
        end = next_unsound(window.batches.table, 0, window.rows)
        for row in range(end):
            yield _head(window, row)
        if end < window.rows:
            return


def first_leader_epochs(file: OpenFile) -> tuple[int, int]:
    """The lower and the higher leader epoch of the first two batches of a .log, so that one flipped bit can be tolerated at
    either end of a range. −1: there is no sound batch, or it has no epoch.
    """
    epochs = [head.leader_epoch for head in islice(heads_before_damage(file), 2)] or [NO_PARTITION_LEADER_EPOCH]
    return (epochs[0] if epochs[-1] < 0 else min(epochs)), max(epochs)


def kafkas_windows(file: OpenFile, position: int, end: int) -> Iterator[Window]:
    """Yield the whole batches in bytes [position, end), some at a time. Raises as `heads` does."""
    return _windows(file, position, end, damage=(Stop.BAD_SIZE,))


def whole_windows(file: OpenFile, position: int, end: int) -> Iterator[Window]:
    """The same if `end` is known to be the end of a batch: a batch that continues after it raises CorruptRecord too."""
    return _windows(file, position, end, damage=(Stop.BAD_SIZE, Stop.TORN))


def sound_windows(file: OpenFile, position: int, end: int) -> Iterator[Window]:
    """The same, but damage is skipped: for searches, not for reading."""
    if position >= end:
        return
    walk = _walk(file, position, end)
    yield from walk
    while walk.stop is not Stop.END and walk.resynchronise() is not None:
        yield from walk


def _windows(file: OpenFile, position: int, end: int, damage: Container[Stop]) -> Iterator[Window]:
    """Yield the batches up to the stop of their walk. Raises CorruptRecord if the stop is one of `damage`."""
    if position >= end:
        return
    walk = _walk(file, position, end)
    yield from walk
    if walk.stop in damage:
        raise cut_off(file, walk.position) if walk.stop is Stop.TORN else no_such_size(file, walk.position)


def _walk(file: OpenFile, position: int, end: int) -> LogWalk:
    return LogWalk(file, position, end, window_size=_WINDOW, batches=BatchColumns(_BATCHES))


def _head(window: Window, row: int) -> BatchHead:
    table = window.batches.table
    return BatchHead(
        window.base + table[BatchField.POSITION, row],
        table[BatchField.SIZE, row],
        table[BatchField.MAGIC, row],
        table[BatchField.BASE_OFFSET, row],
        table[BatchField.LAST_OFFSET, row],
        table[BatchField.MAX_TIMESTAMP, row],
        table[BatchField.LEADER_EPOCH, row],
    )


def _largest(window: Window, field: BatchField) -> int:
    """The largest value of a field in the window: if it is too small, no batch of it needs to be checked."""
    return max(window.batches.field(field)[: window.rows])


def search_for_offset(
    file: OpenFile, target_offset: int, position: int, end: int, windows: Windows = kafkas_windows
) -> BatchHead | None:
    """The batch at or after byte `position` that holds `target_offset`, else the first one above it; None: neither.

    windows  finds the batches, here and below: decides how damage is handled
    Mirrors FileRecords.searchForOffsetFromPosition.
    """
    before: BatchHead | None = None
    for window in windows(file, position, end):
        if _largest(window, BatchField.BASE_OFFSET) >= target_offset:
            for row in range(window.rows):
                head = _head(window, row)
                if head.base_offset >= target_offset:
                    inside = head.base_offset > target_offset and before is not None and before.last_offset >= target_offset
                    return before if inside else head
                before = head
        before = _head(window, window.rows - 1)
    return before if before is not None and before.last_offset >= target_offset else None


def last_head(file: OpenFile, position: int, end: int) -> BatchHead | None:
    """The last batch at or after byte `position`; None: there is none."""
    last: BatchHead | None = None
    for window in kafkas_windows(file, position, end):
        last = _head(window, window.rows - 1)
    return last


def first_offset(file: OpenFile, head: BatchHead) -> int:
    """The offset of a batch's first record. The header of a compressed set of formats 0 and 1 does not have it.

    If the record cannot be read, the offset in the header. Mirrors RecordBatch.baseOffset.
    """
    if head.magic >= MAGIC_V2:
        return head.base_offset
    found = _first_record(file, head, LONG_MIN, LONG_MIN)
    return head.base_offset if found is None else found.offset


def first_timestamp(file: OpenFile, head: BatchHead) -> int | None:
    """Timestamp of the first record that a batch of format 2 was written with, from its header; None: not known."""
    for window in kafkas_windows(file, head.position, head.position + head.size):
        attributes = window.batches.table[BatchField.ATTRIBUTES, 0]
        if head.magic < MAGIC_V2 or attributes & DELETE_HORIZON_FLAG:
            return None
        is_append_time = bool(attributes & TIMESTAMP_TYPE_FLAG)
        timestamp = head.max_timestamp if is_append_time else int(window.batches.table[BatchField.BASE_TIMESTAMP, 0])
        return timestamp if timestamp >= 0 else None
    return None


def largest_timestamp_after(
    file: OpenFile, position: int, end: int, windows: Windows = kafkas_windows
) -> TimestampAndOffset:
    """Largest timestamp at or after byte `position` and the last offset of the first batch that has it.

    (NO_TIMESTAMP, −1, None) if no batch has one. Mirrors FileRecords.largestTimestampAfter.
    """
    found = TimestampAndOffset(NO_TIMESTAMP, -1, None)
    for window in windows(file, position, end):
        largest = _largest(window, BatchField.MAX_TIMESTAMP)
        if largest > found.timestamp:
            timestamps = window.batches.field(BatchField.MAX_TIMESTAMP)[: window.rows].tolist()
            head = _head(window, timestamps.index(largest))
            found = TimestampAndOffset(largest, head.last_offset, head.leader_epoch if head.leader_epoch >= 0 else None)
    return found


def search_for_timestamp(
    file: OpenFile, timestamp: int, position: int, starting_offset: int, end: int, windows: Windows = kafkas_windows
) -> TimestampAndOffset | None:
    """First record at or after byte `position` with at least this timestamp and offset; None: there is none.

    Mirrors FileRecords.searchForTimestamp.
    """
    for window in windows(file, position, end):
        if _largest(window, BatchField.MAX_TIMESTAMP) < timestamp:
            continue
        for row in range(window.rows):
            head = _head(window, row)
            found = _first_record(file, head, timestamp, starting_offset) if head.max_timestamp >= timestamp else None
            if found is not None:
                return found
    return None


def _first_record(file: OpenFile, head: BatchHead, timestamp: int, starting_offset: int) -> TimestampAndOffset | None:
    """First record of the batch with at least this timestamp and offset. Records after damage are not found."""
    from engine.record.reader import ChunkReader  # imports all codecs

    reader = ChunkReader(file.path, lambda _finding: None)
    for window in LogWalk(file, head.position, head.position + head.size, window_size=head.size):
        for chunk in reader.chunks(window):
            table = chunk.records.table
            for record in range(chunk.first, chunk.end):
                found = table[RecordField.TIMESTAMP, record]
                if found >= timestamp and table[RecordField.OFFSET, record] >= starting_offset:
                    epoch = head.leader_epoch if head.magic >= MAGIC_V2 and head.leader_epoch >= 0 else None
                    return TimestampAndOffset(found, table[RecordField.OFFSET, record], epoch)
    return None
