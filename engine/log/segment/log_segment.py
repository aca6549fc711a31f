"""A segment of a log: the .log with its offset, time and transaction index. Mirrors LogSegment and LazyIndex.

The .log is created at once, the indexes on first use.
"""

from __future__ import annotations

from array import array
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import DELETED
from engine.files import WritableFile, look
from engine.formats import INT_MAX, LOG_OVERHEAD, MIN_RECORD_SIZE, AbortedTxn, BatchField
from engine.index.sparse import OffsetIndex, TimeIndex, TimestampOffset
from engine.index.transaction import TransactionIndex
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
from engine.log.segment.readable_segment import ReadableSegment
from engine.record.columns import BATCH_ROWS, BatchColumns
from engine.record.windows import scan_range

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.config.topic import LogConfig
    from engine.files import Buffer, Files, OpenFile
    from engine.log.segment.producer_rows import CompletedTxn, RecoveringEpochs, RecoveringProducers
    from engine.log.segment.recovery_walk import SegmentScan


class Partition(NamedTuple):
    """A partition whose files change: file system, directory, settings of its topic, and the clock, ms since 1970."""

    files: Files
    directory: str
    config: LogConfig
    now: int


class SegmentFiles(ReadableSegment):
    """Opens, renames and removes the files of the segment that begins at `base_offset`. See LogSegment for the arguments.

    size  bytes of batches in the .log; a preallocated .log is larger
    """

    files: Files

    def __init__(
        self, partition: Partition, base_offset: int, suffix: str, *, file_already_exists: bool, writable: bool,
        has_txn_index: bool | None = None,
    ) -> None:
        self.config = partition.config
        self.writable = writable
        super().__init__(partition.files, partition.directory, base_offset, suffix, has_txn_index=has_txn_index)
        self.size = self._make_log(file_already_exists=file_already_exists)
        self._is_dirty = False  # has the .log changes that are not synced?

    def _make_log(self, *, file_already_exists: bool) -> int:
        """Create the .log if it does not exist. Returns the bytes of batches in it."""
        size = self._size_on_disk()
        preallocated = self.config.preallocate and not file_already_exists
        if self.writable and (preallocated or size is None):
            with self.files.open_writable(self.log_path, create=True) as file:
                if preallocated:
                    file.truncate(self.config.segment_size)
        return 0 if preallocated or size is None else size

    def _writable_log(self) -> WritableFile:
        if not isinstance(self._file, WritableFile):
            self.release_log()
            self._file = self.files.open_writable(self.log_path)
        return self._file

    def _open_offset_index(self, *, rewrite: bool = False) -> OffsetIndex:
        size, writable = self.config.max_index_size, self.writable
        return OffsetIndex.open(self.files, self.offset_index_path, self.base_offset, size, writable=writable, rewrite=rewrite)

    def _open_time_index(self, *, rewrite: bool = False) -> TimeIndex:
        size, writable = self.config.max_index_size, self.writable
        return TimeIndex.open(self.files, self.time_index_path, self.base_offset, size, writable=writable, rewrite=rewrite)

    @property
    def is_replaced(self) -> bool:
        """Were indexes replaced by new files? Their names are on the disk after the next sync of the directory."""
        return any(index is not None and index.is_replaced for index in (self._offset_index, self._time_index, self.txn_index))

    def _open_txn_index(self, *, exists: bool | None = None) -> TransactionIndex:
        return TransactionIndex.open(self.files, self.txn_index_path, self.base_offset, writable=self.writable, exists=exists)

    def set_last_modified(self, modified_ms: int) -> None:
        """Set the modification time of log, offset index and time index, if they exist."""
        for path in self.paths[:3]:
            if self.files.exists(path):
                self.files.set_modified(path, modified_ms * 1_000_000)

    def flush(self) -> None:
        """Wait until log and indexes are on the disk. Raises UnwritableFile."""
        self._writable_log().sync()
        self._is_dirty = False
        self.offset_index.flush()
        self.time_index.flush()
        self.txn_index.flush()

    def _trim_log(self) -> None:
        """Remove preallocated bytes after the last batch."""
        if self.config.preallocate and self.files.info(self.log_path).size > self.size:
            self._writable_log().truncate(self.size)
            self._is_dirty = True

    def close_handlers(self) -> None:
        """Close the .log. Entries that were appended to indexes are written; nothing is trimmed.

        An index rewrite that did not finish leaves the old file.
        """
        for index in (self._offset_index, self._time_index, self.txn_index):
            if index is not None and not index.is_rewritten:
                index.write_back()
        self.release_log()

    def change_file_suffixes(self, old: str, new: str) -> None:
        """Rename log, offset, time and transaction index, if they exist, in this order."""
        if self.suffix != old:
            raise ValueError(f"the segment's files end with {self.suffix!r}, not {old!r}")
        before = self.paths
        self.suffix = new
        after = self.paths
        self.release_log()
        is_deleted = new == DELETED  # replaces an older file that was marked for deletion
        self.files.rename(before[0], after[0], replaces=is_deleted)
        for index, path, to in zip((self._offset_index, self._time_index), before[1:3], after[1:3], strict=True):
            if index is not None:
                index.rename_to(to)
            elif self.files.exists(path):
                self.files.rename(path, to, replaces=is_deleted)
        self.txn_index.rename_to(after[3])

    def delete_if_exists(self) -> None:
        """Remove log, offset, time and transaction index, if they exist."""
        self.release_log()
        for path in self.paths[:3]:
            self.files.remove(path)
        self.txn_index.delete_if_exists()
        self._offset_index = self._time_index = None
        self._is_dirty = False
        self.size = 0


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
            from engine.log.segment.recovery_walk import refusal

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
        from engine.log.segment.recovery_walk import scan_segment

        return scan_segment(
            self.files,
            self.log_path,
            self.base_offset,
            index_interval=self.config.index_interval,
            max_index_size=self.config.max_index_size,
            size=self.size,
        )

    def recover(
        self, producers: RecoveringProducers, leader_epochs: RecoveringEpochs, scan: SegmentScan | None = None,
        begun_before: Sequence[AbortedTxn] = (),
    ) -> int:
        """Truncate the .log after its last sound batch and rebuild all indexes. Returns the bytes removed.

        producers      producer state up to the base offset; the segment's batches are added to it
        leader_epochs  epochs above its latest are added, except doubtful ones (see `add_epochs`)
        scan           the result of `scan`, if it was called before
        begun_before   aborted transactions with a marker here that `producers` may not know: they began before the log
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
        self.txn_index.add_missing(begun_before)
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
