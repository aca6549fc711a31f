"""A segment of a log: the .log with its offset, time and transaction index. Mirrors LogSegment."""

from __future__ import annotations

from array import array
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from engine.files import look
from engine.formats import INT_MAX, LOG_OVERHEAD, MIN_RECORD_SIZE, AbortedTxn, BatchField
from engine.index.offset import OffsetIndex
from engine.index.time import TimeIndex, TimestampOffset
from engine.kernels.placement import place_entries
from engine.kernels.walk import PLACE_FIELDS, Placed, Placing
from engine.log.epochs.runs import add_epochs
from engine.log.errors import (
    CorruptIndex,
    IndexFull,
    IndexOffsetOverflow,
    InvalidOffset,
    InvalidTimestamp,
    OffsetIndexMissing,
    SegmentOffsetOverflow,
)
from engine.log.segment.batch_search import (
    heads,
    largest_timestamp_after,
)
from engine.log.segment.segment_files import SegmentFiles
from engine.record.columns import BATCH_ROWS, BatchColumns
from engine.record.windows import scan_range

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.files import Buffer, OpenFile
    from engine.log.segment.producer_rows import CompletedTxn, RecoveringEpochs, RecoveringProducers
    from engine.log.segment.segment_files import Partition
    from engine.log.segment.segment_scan import SegmentScan

_COPY = 1 << 20  # bytes that a split copies at a time
_SMALLEST_BATCH = LOG_OVERHEAD + MIN_RECORD_SIZE


class Appending(NamedTuple):
    """Batches that are appended together: bytes, last offset, largest timestamp (ms)."""

    size: int
    last_offset: int
    max_timestamp: int


class RollParams(NamedTuple):
    """The values that decide whether an append needs a new segment. Sizes in bytes, times in ms. Mirrors RollParams."""

    max_segment_ms: int
    max_segment_size: int
    max_timestamp_in_messages: int
    max_offset_in_messages: int
    messages_size: int
    now: int


class LogSegment(SegmentFiles):
    """The segment that begins at `base_offset` in a partition. Its .log is created at once, its indexes on first use.

    partition            its `now` is the creation time, from which a segment without timestamps ages until it is rolled
    suffix               of all its files: "", ".cleaned", ".swap", ".deleted"
    file_already_exists  False: a new segment, whose .log is preallocated if the topic has `preallocate`
    writable             False: nothing is created or changed; missing files count as empty
    has_txn_index        does its .txnindex exist? None: check the disk
    roll_jitter_ms       an attribute: it rolls this much earlier than segment.ms

    Raises UnreadableFile, UnwritableFile, SegmentTooLarge. Not for use by several threads.
    """

    roll_jitter_ms = 0

    def __init__(
        self, partition: Partition, base_offset: int, suffix: str = "", *, file_already_exists: bool = True,
        writable: bool = True, has_txn_index: bool | None = None,
    ) -> None:
        super().__init__(
            partition, base_offset, suffix, file_already_exists=file_already_exists, writable=writable,
            has_txn_index=has_txn_index,
        )
        self.created = partition.now
        self._since_entry = 0  # bytes since the last entry of the offset index

    # appending

    def should_roll(self, params: RollParams) -> bool:
        """Does this append need a new segment?"""
        appends = [Appending(params.messages_size, params.max_offset_in_messages, params.max_timestamp_in_messages)]
        return not self.count_fitting(appends, params.max_segment_size, params.max_segment_ms, params.now)

    def count_fitting(self, appends: Sequence[Appending], max_segment_size: int, max_segment_ms: int, now: int) -> int:
        """Number of `appends`, done one after the other, that need no new segment (LogSegment.shouldRoll).

        Each of them adds at most one entry to each index.
        """
        size, based = self.size, self.rolling_based_timestamp
        longest = max_segment_ms - self.roll_jitter_ms
        room = max(0, min(len(appends), self.offset_index.room, self.time_index.room))
        for number, (added, last_offset, timestamp) in enumerate(islice(appends, room)):
            if size > max_segment_size - added or not self.can_convert_to_relative_offset(last_offset):
                return number
            if not size:
                based = timestamp
            elif self._waited(based, now, timestamp) > longest:
                return number
            size += added
        return room

    def append(
        self, largest_offset: int, data: Buffer, batches: BatchColumns | None = None, rows: int = 0, first: int = 0
    ) -> None:
        """Append whole batches, and add their index entries.

        largest_offset  last offset of the last batch      data  consecutive batches
        batches         their headers, if known, in the columns first … rows − 1, as `scan_range` fills them
        Raises SegmentOffsetOverflow before anything is written, and UnwritableFile. Raises IndexFull and InvalidOffset after
        the write, as the broker does, which rolls before indexes are full.
        """
        if not len(data):
            return
        if not self.can_convert_to_relative_offset(largest_offset):
            raise SegmentOffsetOverflow(self.log_path, self.base_offset, largest_offset)
        position = self.size
        self._write(data)
        if batches is None:
            for columns, count in _columns(data):
                position = self._add_index_entries(columns, count, position)
        else:
            self._add_index_entries(batches, rows, position, first)

    def _write(self, data: Buffer) -> None:
        file = self._writable_log()
        try:
            file.write_at(self.size, data)
        except Exception:
            if not self.config.preallocate:
                file.truncate(self.size)  # remove the incomplete write
            raise
        self.size += len(data)
        self._is_dirty = True

    def _add_index_entries(self, batches: BatchColumns, rows: int, position: int, first: int = 0) -> int:
        """Add the index entries for batches first … rows − 1, the first of them at byte `position`. Returns their end."""
        offset_index, time_index, largest = self.offset_index, self.time_index, self.largest()
        last = time_index.last_entry()
        state = memoryview(array("q", bytes(8 * PLACE_FIELDS)))
        state[Placing.BASE_OFFSET] = self.base_offset
        state[Placing.INTERVAL] = self.config.index_interval
        state[Placing.POSITION] = position
        state[Placing.SINCE_ENTRY] = self._since_entry
        state[Placing.MAX_TIMESTAMP], state[Placing.MAX_TIMESTAMP_OFFSET] = largest
        state[Placing.OFFSETS], state[Placing.OFFSETS_MAX] = len(offset_index), offset_index.max_entries
        state[Placing.LAST_OFFSET] = offset_index.last_offset
        state[Placing.TIMES], state[Placing.TIMES_MAX] = len(time_index), time_index.max_entries
        state[Placing.LAST_TIME], state[Placing.LAST_TIME_OFFSET] = last
        offsets = memoryview(bytearray(OffsetIndex.entry_size * (rows - first)))
        times = memoryview(bytearray(TimeIndex.entry_size * (rows - first)))
        row, status = first, int(Placed.NO_ROOM)
        while status == Placed.NO_ROOM:
            row, status = place_entries(batches.table, row, rows, state, offsets, times)
            offset_index.extend(offsets[: state[Placing.OFFSETS_AT]])
            time_index.extend(times[: state[Placing.TIMES_AT]])
            state[Placing.OFFSETS_AT] = state[Placing.TIMES_AT] = 0
        self._since_entry = state[Placing.SINCE_ENTRY]
        self._largest = TimestampOffset(state[Placing.MAX_TIMESTAMP], state[Placing.MAX_TIMESTAMP_OFFSET])
        if status != Placed.END:
            from engine.log.segment.segment_scan import refusal

            raise refusal(status, self.log_path, state, batches.table[BatchField.LAST_OFFSET, row])
        return state[Placing.POSITION]

    def append_from_file(self, source: OpenFile, start: int, end: int) -> int:
        """Append the batches of `source` from byte `start` on while they fit after the base offset. Returns the bytes copied.

        Copies up to 1 MiB at a time, at least one batch. Mirrors LogSegment.appendFromFile.
        """
        position = start
        while position < end:
            size, last_offset = 0, 0
            for head in heads(source, position, end):
                fits = size == 0 or size + head.size < _COPY
                if not fits or not self.can_convert_to_relative_offset(head.last_offset):
                    break
                size, last_offset = size + head.size, head.last_offset
            if not size:
                break
            self.append(last_offset, source.read_exactly(position, size))
            position += size
        return position - start

    def _waited(self, based: int | None, now: int, message_timestamp: int) -> int:
        return message_timestamp - based if based is not None and based >= 0 else now - self.created

    # repair

    def sanity_check(self, *, time_index_newly_created: bool, has_offset_index: bool | None = None) -> None:
        """Raise OffsetIndexMissing or CorruptIndex if loading must recover the segment.

        has_offset_index  does its .index exist? None: check the disk
        A missing time index is created, empty.
        """
        if not (self.files.exists(self.offset_index_path) if has_offset_index is None else has_offset_index):
            raise OffsetIndexMissing(f"{self.offset_index_path}: no offset index beside the log")
        if time_index_newly_created:
            self.time_index.resize(0)
        self.txn_index.sanity_check()

    def refuse_large_indexes(self) -> None:
        """Raise CorruptIndex if offset or time index is larger than a broker can map. Does not open them: that trims them."""
        for path in (self.offset_index_path, self.time_index_path):
            found = look(self.files, path)
            if found is not None and found.size > INT_MAX:
                raise CorruptIndex(f"{path}: {found.size} bytes, an index has at most {INT_MAX}")

    def resize_indexes(self, size: int) -> None:
        """Set the size of the offset and time index files to `size` bytes, rounded down; never below their entries."""
        self.offset_index.resize(size)
        self.time_index.resize(size)

    def scan(self) -> SegmentScan:
        """Read what recovery needs. Changes nothing, and may run in another thread."""
        from engine.log.segment.segment_scan import scan_segment

        return scan_segment(
            self.files,
            self.log_path,
            self.base_offset,
            index_interval=self.config.index_interval,
            max_index_size=self.config.max_index_size,
            size=self.size,
        )

    def recover(self, producers: RecoveringProducers, leader_epochs: RecoveringEpochs, scan: SegmentScan | None = None) -> int:
        """Truncate the .log after its last sound batch and rebuild all indexes. Returns the bytes removed.

        producers      producer state up to the base offset; the segment's batches are added to it
        leader_epochs  epochs above its latest are added, except doubtful ones (see `add_epochs`)
        scan           the result of `scan`, if it was called before
        Raises SegmentOffsetOverflow, InvalidOffset, IndexFull, IndexOffsetOverflow at a batch that the indexes refuse: earlier
        batches are in the indexes then, and nothing is truncated. Mirrors LogSegment.recover.
        """
        scan = self.scan() if scan is None else scan
        self._time_index = self._open_time_index(rewrite=True)
        self.txn_index.reset()
        self.time_index.extend(scan.time_entries)
        self._largest = scan.largest
        scan.epochs.finish(scan.end_offset(self.base_offset))
        add_epochs(leader_epochs, scan.epochs)
        producers.update_recovered(scan.producers.chunks(), self.txn_index.extend)
        if scan.map_end_offset is not None:
            producers.update_map_end_offset(scan.map_end_offset)
        if scan.error is None:
            self.time_index.maybe_append(*self._largest, skip_full_check=True)
            self.time_index.trim_to_valid_size()
        self._finish_before_offset_index()
        self._offset_index = self._open_offset_index(rewrite=True)
        self.offset_index.extend(scan.offset_entries)
        if scan.error is not None:
            raise scan.error
        cut = self._truncate_log(scan.valid_size)
        self.offset_index.trim_to_valid_size()
        return cut

    def _finish_before_offset_index(self) -> None:
        """Sync time and transaction index before the offset index exists: below the recovery point it vouches for them.

        If the offset index exists already, the next start uses the other indexes in any case, old files or new ones.
        """
        self.time_index.sync_changes()
        self.txn_index.sync_changes()
        is_named = not self.time_index.is_replaced and not len(self.txn_index) and not self.txn_index.is_replaced
        if not is_named and not self.files.exists(self.offset_index_path):
            self.files.sync_directory(self.directory)

    def update_txn_index(self, completed: CompletedTxn, last_stable_offset: int) -> None:
        """Add a transaction whose marker is in this segment, if it was aborted."""
        if completed.is_aborted:
            txn = AbortedTxn(0, completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset)
            self.txn_index.append(txn)

    def truncate_to(self, offset: int, now: int | None = None) -> int:
        """Truncate log and indexes before the first batch whose last offset is at least `offset`. Returns the bytes removed.

        now  ms; if the segment is empty afterwards, its new creation time (default: unchanged)
        Mirrors LogSegment.truncateTo.
        """
        head = self.translate_offset(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        self.resize_indexes(self.config.max_index_size)
        cut = 0 if head is None else self._truncate_log(head.position)
        if self.size == 0:
            self.created = self.created if now is None else now
            self._rolling_based_timestamp = None
        self._since_entry = 0
        if self.largest().timestamp >= 0:
            self._largest = self._read_largest()
        return cut

    def _read_largest(self) -> TimestampOffset:
        """The last entry of the time index, or a later batch with a larger timestamp. Mirrors readLargestTimestamp."""
        last = self.time_index.last_entry()
        position = self.offset_index.lookup(last.offset).position
        found = largest_timestamp_after(self.log_file, position, self.size)
        return TimestampOffset(found.timestamp, found.offset) if found.timestamp > last.timestamp else last

    def _truncate_log(self, size: int) -> int:
        cut = self.size - size
        if cut:
            self._writable_log().truncate(size)
            self._is_dirty = True
            self.size = size
        return cut

    # closing the segment

    def sync_changes(self) -> None:
        """Wait until all changes of log and indexes are on the disk. Raises UnwritableFile."""
        if self._is_dirty:
            self._writable_log().sync()
            self._is_dirty = False
        for index in (self._offset_index, self._time_index, self.txn_index):
            if index is not None:
                index.sync_changes()

    def on_become_inactive_segment(self) -> None:
        """Add the closing entry of the time index, and trim log and indexes."""
        self.time_index.maybe_append(*self.largest(), skip_full_check=True)
        self.offset_index.trim_to_valid_size()
        self.time_index.trim_to_valid_size()
        self._trim_log()

    def close(self) -> None:
        """Write all changes, add the closing entry of the time index if the largest timestamp is known, and trim.

        The segment may be used again; its files are then reopened.
        """
        if self.writable:
            if self._largest is not None:
                self._append_closing_entry()
            if self._offset_index is not None:
                self._offset_index.close()
            if self._time_index is not None:
                self._time_index.close()
            self.txn_index.close()
            self._trim_log()
            self.sync_changes()
        self.release_log()

    def _append_closing_entry(self) -> None:
        try:
            self.time_index.maybe_append(*self.largest(), skip_full_check=True)
        except (IndexFull, InvalidOffset, InvalidTimestamp, IndexOffsetOverflow):
            return  # as in the broker: an index with entries out of order gets no closing entry


def _columns(data: Buffer) -> Iterator[tuple[BatchColumns, int]]:
    """Yield the headers of the batches in `data`, as many at a time as the columns hold."""
    view, at = memoryview(data).toreadonly(), 0
    batches = BatchColumns(min(BATCH_ROWS, 1 + len(view) // _SMALLEST_BATCH))
    while at < len(view):
        rows = scan_range(view, at, len(view), batches)
        if not rows:
            raise ValueError(f"{len(view) - at} bytes at the end are not a whole batch")
        yield batches, rows
        at = batches.table[BatchField.POSITION, rows - 1] + batches.table[BatchField.SIZE, rows - 1]
