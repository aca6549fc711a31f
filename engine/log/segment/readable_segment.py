"""A segment of a log for reading: positions by offset and by time, slices of bytes. Mirrors the read methods of LogSegment.

Nothing here changes a file. LogSegment adds the methods that do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import (
    log_file_name,
    offset_index_file_name,
    time_index_file_name,
    transaction_index_file_name,
)
from engine.files import look
from engine.formats import INT_MAX, LONG_MAX, can_be_followed
from engine.index.offset import OffsetIndex, OffsetPosition
from engine.index.time import TimeIndex, TimestampOffset
from engine.index.transaction import TransactionIndex
from engine.log.errors import CorruptRecord, no_offset_left, refuse_too_large
from engine.log.segment.batch_search import (
    BatchHead,
    TimestampAndOffset,
    heads,
    kafkas_windows,
    last_head,
    search_for_offset,
    search_for_timestamp,
)
from engine.log.segment.extent import read_extent

if TYPE_CHECKING:
    from engine.files import OpenFile, ReadOnlyFiles
    from engine.index.transaction import AbortedTxns
    from engine.log.segment.batch_search import Windows
    from engine.log.segment.extent import Extent


class FetchSlice(NamedTuple):
    """Bytes [position, position + size) of the .log, from the batch with `base_offset` on.

    first_entry_incomplete  the first batch is larger than the requested size
    """

    base_offset: int
    position: int
    size: int
    first_entry_incomplete: bool = False


class ReadableSegment:
    """The segment that begins at `base_offset` in `directory`; its files are opened on first use (LazyIndex).

    size    bytes of batches in the .log that readers may read
    suffix  of all its files: "", ".cleaned", ".swap", ".deleted"
    has_txn_index  does its .txnindex exist? None: check the disk
    Raises UnreadableFile, SegmentTooLarge. Not for use by several threads.

    _by_offset, _by_time  functions that find batches for searches; they decide how damage is handled
    """

    _by_offset: Windows = staticmethod(kafkas_windows)
    _by_time: Windows = staticmethod(kafkas_windows)

    def __init__(
        self, files: ReadOnlyFiles, directory: str, base_offset: int, suffix: str = "", *, size: int = 0,
        has_txn_index: bool | None = None,
    ) -> None:  # fmt: skip
        self.files = files
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self.size = size
        self._file: OpenFile | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self.txn_index = self._open_txn_index(exists=has_txn_index)
        self._largest: TimestampOffset | None = None  # None: not read yet
        self._rolling_based_timestamp: int | None = None
        self.next_offset: int | None = None  # offset after its last record, if it is known without reading

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_offset={self.base_offset}, size={self.size}, suffix={self.suffix!r})"

    # files

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    @property
    def log_path(self) -> str:
        """The path of the .log."""
        return self._path(log_file_name(self.base_offset, self.suffix))

    @property
    def offset_index_path(self) -> str:
        """The path of the .index, which may not exist."""
        return self._path(offset_index_file_name(self.base_offset, self.suffix))

    @property
    def time_index_path(self) -> str:
        """The path of the .timeindex, which may not exist."""
        return self._path(time_index_file_name(self.base_offset, self.suffix))

    @property
    def txn_index_path(self) -> str:
        """The path of the .txnindex, which may not exist."""
        return self._path(transaction_index_file_name(self.base_offset, self.suffix))

    @property
    def paths(self) -> tuple[str, str, str, str]:
        """The paths of log, offset, time and transaction index, which may not exist."""
        return self.log_path, self.offset_index_path, self.time_index_path, self.txn_index_path

    @property
    def log_file(self) -> OpenFile:
        """The .log, opened for reading on first use."""
        if self._file is None:
            self._file = self.files.open(self.log_path)
        return self._file

    def _size_on_disk(self) -> int | None:
        """Bytes of the .log; None: it does not exist. Raises SegmentTooLarge."""
        found = look(self.files, self.log_path)
        if found is not None:
            refuse_too_large(self.files, self.log_path, found.size)
        return None if found is None else found.size

    def release_log(self) -> None:
        """Close the .log; it is reopened on the next use, so that reading many segments needs few file descriptors."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def close_handlers(self) -> None:
        """Close all files. They are reopened on the next use."""
        self.release_log()

    def close(self) -> None:
        """Same as `close_handlers`: there are no changes to write."""
        self.close_handlers()

    # indexes

    def _open_offset_index(self) -> OffsetIndex:
        return OffsetIndex.open(self.files, self.offset_index_path, self.base_offset, writable=False)

    def _open_time_index(self) -> TimeIndex:
        return TimeIndex.open(self.files, self.time_index_path, self.base_offset, writable=False)

    def _open_txn_index(self, *, exists: bool | None = None) -> TransactionIndex:
        return TransactionIndex.open(self.files, self.txn_index_path, self.base_offset, writable=False, exists=exists)

    @property
    def offset_index(self) -> OffsetIndex:
        """The .index, opened on first use."""
        if self._offset_index is None:
            self._offset_index = self._open_offset_index()
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """The .timeindex, opened on first use."""
        if self._time_index is None:
            self._time_index = self._open_time_index()
        return self._time_index

    @property
    def last_modified(self) -> int:
        """Modification time of the .log, ms."""
        return self.files.info(self.log_path).modified_ms

    # reading

    def can_convert_to_relative_offset(self, offset: int) -> bool:
        """Does `offset` fit after the base offset in 31 bits?"""
        return 0 <= offset - self.base_offset <= INT_MAX

    def position_before(self, offset: int) -> int:
        """Position of a batch at or before the one that holds `offset`: from the offset index, if its entry points to the batch
        that it names, else 0.
        """
        entry = self.offset_index.lookup(offset)
        return entry.position if self._leads_to_its_batch(entry) else 0

    def _leads_to_its_batch(self, entry: OffsetPosition) -> bool:
        if not 0 <= entry.position < self.size:
            return False
        try:
            first = next(heads(self.log_file, entry.position, self.size), None)
        except CorruptRecord:
            return False
        return first is not None and self.base_offset <= first.base_offset <= entry.offset

    def translate_offset(self, offset: int, starting_position: int = 0) -> BatchHead | None:
        """The batch that holds `offset`, else the first one above it; None: the segment has neither.

        Mirrors LogSegment.translateOffset.
        """
        from_index = 0 if offset <= self.base_offset else self.offset_index.lookup(offset).position
        position = max(from_index, starting_position)
        if position >= self.size:
            return None
        return search_for_offset(self.log_file, offset, position, self.size, self._by_offset)

    def read(
        self, start_offset: int, max_size: int, max_position: int | None, *, min_one_message: bool = False
    ) -> FetchSlice | None:
        """The slice for a read from `start_offset` on, at most `max_size` bytes, up to byte `max_position`.

        max_position     None: nothing may be read yet, but the start position is returned
        min_one_message  include the first batch completely, even if it is larger than `max_size`
        Returns None if the segment has no batch at or above `start_offset`. Mirrors LogSegment.read.
        """
        head = self.translate_offset(start_offset)
        if head is None:
            return None
        size = max(max_size, head.size) if min_one_message else max_size
        if size == 0 or max_position is None:
            return FetchSlice(head.base_offset, head.position, 0)
        size_here = max(0, min(max_position - head.position, size, self.size - head.position))
        return FetchSlice(head.base_offset, head.position, size_here, size < head.size)

    def fetch_upper_bound_offset(self, start: OffsetPosition, fetch_size: int) -> int | None:
        """Offset of an index entry at least `fetch_size` bytes after `start`; None: there is none."""
        entry = self.offset_index.fetch_upper_bound(start, fetch_size)
        return None if entry is None else entry.offset

    def find_offset_by_timestamp(self, timestamp: int, starting_offset: int) -> TimestampAndOffset | None:
        """First record with at least this timestamp and offset; None: there is none."""
        entry = self.time_index.lookup(timestamp)
        position = self.position_before(max(entry.offset, starting_offset))
        return search_for_timestamp(self.log_file, timestamp, position, starting_offset, self.size, self._by_time)

    def read_next_offset(self) -> int:
        """The offset after the last batch, read from the last index entry on; else the base offset. Raises CorruptRecord."""
        head = self.translate_offset(self.offset_index.last_offset)
        last = None if head is None else last_head(self.log_file, head.position, self.size)
        if last is not None and not can_be_followed(last.base_offset, last.last_offset):
            raise no_offset_left(self.log_path, last.position, last.base_offset)
        return self.base_offset if last is None else last.next_offset

    def last_indexed(self) -> int:
        """The last offset in the indexes, not checked; −1: they have no entries. Does not open a closed time index."""
        times = self._time_index
        if times is None:
            times = TimeIndex.read(self.files, self.time_index_path, self.base_offset)
        last = self.offset_index.last_offset if len(self.offset_index) else -1
        last = max(last, times.last_entry().offset) if len(times) else last
        return max(last, self.txn_index.entry(len(self.txn_index) - 1).last_offset) if len(self.txn_index) else last

    def extent(self, position: int = 0, expected: int | None = None) -> Extent:
        """The extent of the .log from byte `position` on. expected: offset from which a batch must follow (default: the base).

        Reads all of it.
        """
        return read_extent(self.log_file, position, self.size, self.base_offset if expected is None else expected)

    def begins_within_name(self, end: int) -> bool:
        """Is the first batch, if there is one, at or above the base offset and below offset `end`?"""
        if not self.size:
            return True
        with self.files.open(self.log_path) as file:
            try:
                head = next(heads(file, 0, self.size), None)
            except CorruptRecord:
                return False
        return head is not None and self.base_offset <= head.base_offset < end

    def ends_within_name(self, end: int) -> bool:
        """Does the last batch, found through the index, end at or below offset `end`?"""
        is_in_use = self._file is not None
        try:
            return self.read_next_offset() <= end
        except CorruptRecord:
            return False
        finally:
            if not is_in_use:  # this is called for many segments
                self.release_log()

    def end_below(self, offset: int) -> int:
        """The end of the last batch that ends at or below `offset`: the log end at the next start after a truncation there."""
        cut = self.translate_offset(offset)
        position = self.offset_index.lookup(offset - 1).position if offset > self.base_offset else 0
        last = last_head(self.log_file, position, self.size if cut is None else cut.position)
        return self.base_offset if last is None else last.next_offset

    @property
    def aborted_are_unknown(self) -> bool:
        """Can the transaction index not be used? False here: opening a log for writing rebuilds missing ones."""
        return False

    def collect_aborted_txns(self, fetch_offset: int, upper_bound_offset: int) -> AbortedTxns:
        """The aborted transactions in this segment that a reader of these offsets needs."""
        return self.txn_index.collect_aborted_txns(fetch_offset, upper_bound_offset)

    # timestamps

    def largest(self) -> TimestampOffset:
        """Largest timestamp so far and the last offset of the first batch that has it (readMaxTimestampAndOffsetSoFar).

        Until something is appended or recovered, this is the last entry of the time index.
        """
        if self._largest is None:
            self._largest = self.time_index.last_entry()
        return self._largest

    @property
    def largest_timestamp(self) -> int:
        """Largest timestamp of the records, ms; if no record has one, the modification time of the .log."""
        timestamp = self.largest().timestamp
        return timestamp if timestamp >= 0 else self.last_modified

    @property
    def largest_record_timestamp(self) -> int | None:
        """Largest timestamp of the records, ms; None: no record has one."""
        timestamp = self.largest().timestamp
        return timestamp if timestamp >= 0 else None

    @property
    def rolling_based_timestamp(self) -> int | None:
        """Largest timestamp of the first batch, ms; None: there is no batch."""
        if self._rolling_based_timestamp is None and self.size:
            is_in_use = self._file is not None
            first = next(iter(heads(self.log_file, 0, self.size)), None)
            self._rolling_based_timestamp = None if first is None else first.max_timestamp
            if not is_in_use:  # this is called for all segments of a log
                self.release_log()
        return self._rolling_based_timestamp

    @property
    def first_batch_timestamp(self) -> int:
        """Same as `rolling_based_timestamp`, but 2^63 − 1 if there is none (getFirstBatchTimestamp)."""
        timestamp = self.rolling_based_timestamp
        return timestamp if timestamp is not None and timestamp >= 0 else LONG_MAX
