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
from engine.log.epochs.runs import take_epochs
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
    """Batches that go into a log together, as far as their segment asks: bytes, last offset, largest timestamp (ms)."""

    size: int
    last_offset: int
    max_timestamp: int


class RollParams(NamedTuple):
    """What decides whether an append needs a new segment. Sizes in bytes, times in ms. Mirrors RollParams."""

    max_segment_ms: int
    max_segment_size: int
    max_timestamp_in_messages: int
    max_offset_in_messages: int
    messages_size: int
    now: int


class LogSegment(SegmentFiles):
    """The segment that begins at `base_offset` in a partition. Its .log is made at once, its indexes when first used.

    partition            its `now` is the time from which a segment without timestamps waits to be rolled
    suffix               of all its files: "", ".cleaned", ".swap", ".deleted"
    file_already_exists  False: a new one, whose .log is allocated in full where the topic says `preallocate`
    writable             False: nothing is ever made or changed; missing files count as empty
    has_txn_index        does its .txnindex exist? None: ask the disk
    roll_jitter_ms       an attribute: how much earlier than segment.ms it rolls

    Raises UnreadableFile, UnwritableFile, SegmentTooLarge. Not for several threads.
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
        """Must a new segment begin before this append?"""
        appends = [Appending(params.messages_size, params.max_offset_in_messages, params.max_timestamp_in_messages)]
        return not self.count_fitting(appends, params.max_segment_size, params.max_segment_ms, params.now)

    def count_fitting(self, appends: Sequence[Appending], max_segment_size: int, max_segment_ms: int, now: int) -> int:
        """How many of `appends`, done one after the other, need no new segment: the rules of LogSegment.shouldRoll.

        Each of them takes an entry of both indexes at most.
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
        """Add whole batches at the end, with the index entries that fall on them.

        largest_offset  last offset of the last batch      data  one batch or several, one after the other
        batches         their headers, if they are known, in the columns first … rows − 1: as `scan_range` fills them
        Raises SegmentOffsetOverflow before anything is written, UnwritableFile; IndexFull and InvalidOffset after the
        write, as the broker does: it rolls before indexes are full.
        """
        if not len(data):
            return
        if not self.can_convert_to_relative_offset(largest_offset):
            raise SegmentOffsetOverflow(self.log_path, self.base_offset, largest_offset)
        position = self.size
        self._write(data)
        if batches is None:
            for columns, count in _columns(data):
                position = self._place(columns, count, position)
        else:
            self._place(batches, rows, position, first)

    def _write(self, data: Buffer) -> None:
        file = self._writable_log()
        try:
            file.write_at(self.size, data)
        except Exception:
            if not self.config.preallocate:
                file.truncate(self.size)  # what part of it came to the disk is no batch
            raise
        self.size += len(data)
        self._is_dirty = True

    def _place(self, batches: BatchColumns, rows: int, position: int, first: int = 0) -> int:
        """Add the entries for batches first … rows − 1, which lie in the .log from byte `position` on → after them."""
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
        """Append the batches of `source` from byte `start` on while they fit after the base offset → bytes taken.

        They are copied in runs of up to 1 MiB, at least one batch each. Mirrors LogSegment.appendFromFile.
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

    # repairing

    def sanity_check(self, *, time_index_newly_created: bool, has_offset_index: bool | None = None) -> None:
        """Raises OffsetIndexMissing and CorruptIndex where loading must recover the segment.

        has_offset_index  does its .index exist? None: ask the disk
        A time index that was missing is made, empty.
        """
        if not (self.files.exists(self.offset_index_path) if has_offset_index is None else has_offset_index):
            raise OffsetIndexMissing(f"{self.offset_index_path}: no offset index beside the log")
        if time_index_newly_created:
            self.time_index.resize(0)
        self.txn_index.sanity_check()

    def refuse_large_indexes(self) -> None:
        """Raise CorruptIndex where the offset or time index has more bytes than a broker can map. Opens none: that trims it."""
        for path in (self.offset_index_path, self.time_index_path):
            found = look(self.files, path)
            if found is not None and found.size > INT_MAX:
                raise CorruptIndex(f"{path}: {found.size} bytes, an index has at most {INT_MAX}")

    def resize_indexes(self, size: int) -> None:
        """Make offset and time index files `size` bytes long, rounded down; never shorter than their entries."""
        self.offset_index.resize(size)
        self.time_index.resize(size)

    def scan(self) -> SegmentScan:
        """What recovery would find. Changes nothing, and may run in another thread."""
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
        """Truncate the .log after its last sound batch and rebuild all indexes → bytes removed.

        producers      state up to the base offset; what the segment's batches make of it is added
        leader_epochs  takes epochs above its latest, but for those that other batches contradict and it would forget others for
        scan           what `scan` returned, if it was done before
        Raises SegmentOffsetOverflow, InvalidOffset, IndexFull, IndexOffsetOverflow at a batch that the indexes refuse: what
        came before it is in them, nothing is cut. Mirrors LogSegment.recover.
        """
        scan = self.scan() if scan is None else scan
        self._time_index = self._open_time_index(rewrite=True)
        self.txn_index.reset()
        self.time_index.extend(scan.time_entries)
        self._largest = scan.largest
        scan.epochs.finish(scan.end_offset(self.base_offset))
        take_epochs(leader_epochs, scan.epochs)
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
        """Bring time and transaction index to the disk: below the recovery point an offset index vouches for them.

        Where there is one already, what stands beside it is believed in any case: the old files or the new ones.
        """
        self.time_index.sync_changes()
        self.txn_index.sync_changes()
        is_named = not self.time_index.is_replaced and not len(self.txn_index) and not self.txn_index.is_replaced
        if not is_named and not self.files.exists(self.offset_index_path):
            self.files.sync_directory(self.directory)

    def update_txn_index(self, completed: CompletedTxn, last_stable_offset: int) -> None:
        """Note a transaction whose marker lies here, if it was aborted."""
        if completed.is_aborted:
            txn = AbortedTxn(0, completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset)
            self.txn_index.append(txn)

    def truncate_to(self, offset: int, now: int | None = None) -> int:
        """Cut before the first batch whose last offset is `offset` or larger, and the indexes with it → bytes cut.

        now  ms; if the segment is empty afterwards, it waits from then on to be rolled (default: as before)
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
        """The last entry of the time index, or a later timestamp after it. Mirrors readLargestTimestamp."""
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

    # closing

    def sync_changes(self) -> None:
        """Wait until what was changed in log and indexes is on the disk. Raises UnwritableFile."""
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
        """Write everything back, add the closing entry of the time index if the largest timestamp is known, and trim.

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
            return  # as in the broker: an index that is out of order anyway closes without it


def _columns(data: Buffer) -> Iterator[tuple[BatchColumns, int]]:
    """The headers of the batches in `data`, as many at a time as columns take."""
    view, at = memoryview(data).toreadonly(), 0
    batches = BatchColumns(min(BATCH_ROWS, 1 + len(view) // _SMALLEST_BATCH))
    while at < len(view):
        rows = scan_range(view, at, len(view), batches)
        if not rows:
            raise ValueError(f"{len(view) - at} bytes at the end are not a whole batch")
        yield batches, rows
        at = batches.table[BatchField.POSITION, rows - 1] + batches.table[BatchField.SIZE, rows - 1]
