"""A segment of a log as readers see it: places by offset and by time, slices of bytes. Mirrors what LogSegment only looks up.

Nothing here changes a file. LogSegment adds what does; a view beside a broker has no more than this.
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
    """Bytes [position, position + size) of the .log, from the batch that begins with `base_offset` on.

    first_entry_incomplete  the first batch has more bytes than were asked for
    """

    base_offset: int
    position: int
    size: int
    first_entry_incomplete: bool = False


class ReadableSegment:
    """The segment that begins at `base_offset` in `directory`; its files are opened when they are used (LazyIndex).

    size    bytes of batches in the .log, as far as readers go
    suffix  of all its files: "", ".cleaned", ".swap", ".deleted"
    has_txn_index  does its .txnindex exist? None: ask the disk
    Raises UnreadableFile, SegmentTooLarge. Not for several threads.

    _by_offset, _by_time  what searches make of damage
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
        self.next_offset: int | None = None  # after its last record, where that is known beforehand

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_offset={self.base_offset}, size={self.size}, suffix={self.suffix!r})"

    # files

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    @property
    def log_path(self) -> str:
        """Where the .log is."""
        return self._path(log_file_name(self.base_offset, self.suffix))

    @property
    def offset_index_path(self) -> str:
        """Where the .index is, or would be."""
        return self._path(offset_index_file_name(self.base_offset, self.suffix))

    @property
    def time_index_path(self) -> str:
        """Where the .timeindex is, or would be."""
        return self._path(time_index_file_name(self.base_offset, self.suffix))

    @property
    def txn_index_path(self) -> str:
        """Where the .txnindex is, or would be."""
        return self._path(transaction_index_file_name(self.base_offset, self.suffix))

    @property
    def paths(self) -> tuple[str, str, str, str]:
        """Where log, offset, time and transaction index are, or would be."""
        return self.log_path, self.offset_index_path, self.time_index_path, self.txn_index_path

    @property
    def log_file(self) -> OpenFile:
        """The .log, open for reading; opened when it is first used."""
        if self._file is None:
            self._file = self.files.open(self.log_path)
        return self._file

    def _size_on_disk(self) -> int | None:
        """Bytes of the .log; None: it is not there. Raises SegmentTooLarge."""
        found = look(self.files, self.log_path)
        if found is not None:
            refuse_too_large(self.files, self.log_path, found.size)
        return None if found is None else found.size

    def release_log(self) -> None:
        """Close the .log; it is reopened when it is needed, so that reading many segments needs few descriptors."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def close_handlers(self) -> None:
        """Close all files. They are reopened if the segment is used again."""
        self.release_log()

    def close(self) -> None:
        """As `close_handlers`: there is nothing to write back."""
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
        """The .index; opened when it is first used."""
        if self._offset_index is None:
            self._offset_index = self._open_offset_index()
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """The .timeindex; opened when it is first used."""
        if self._time_index is None:
            self._time_index = self._open_time_index()
        return self._time_index

    @property
    def last_modified(self) -> int:
        """When the .log was changed last, ms."""
        return self.files.info(self.log_path).modified_ms

    # reading

    def can_convert_to_relative_offset(self, offset: int) -> bool:
        """Does `offset` fit after the base offset in 31 bits?"""
        return 0 <= offset - self.base_offset <= INT_MAX

    def position_before(self, offset: int) -> int:
        """Byte of a batch at or before the one that holds `offset`: as the offset index has it where that leads to the batch
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
        """The batch that holds `offset`, else the first one above it; None: neither is here.

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
        """Where to read from `start_offset` on, at most `max_size` bytes and not after byte `max_position`.

        max_position     None: nothing may be read yet, but the start position is returned
        min_one_message  the first batch is read in full whatever `max_size` says
        Returns None where nothing at or above `start_offset` is here. Mirrors LogSegment.read.
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
        """After the last batch; the base offset without one. Read from the last index entry on. Raises CorruptRecord."""
        head = self.translate_offset(self.offset_index.last_offset)
        last = None if head is None else last_head(self.log_file, head.position, self.size)
        if last is not None and not can_be_followed(last.base_offset, last.last_offset):
            raise no_offset_left(self.log_path, last.position, last.base_offset)
        return self.base_offset if last is None else last.next_offset

    def last_indexed(self) -> int:
        """The last offset in its indexes, whose entries are believed; −1: they have none. A closed time index stays closed."""
        times = self._time_index
        if times is None:
            times = TimeIndex.read(self.files, self.time_index_path, self.base_offset)
        last = self.offset_index.last_offset if len(self.offset_index) else -1
        last = max(last, times.last_entry().offset) if len(times) else last
        return max(last, self.txn_index.entry(len(self.txn_index) - 1).last_offset) if len(self.txn_index) else last

    def extent(self, position: int = 0, expected: int | None = None) -> Extent:
        """What the .log holds from byte `position` on, where a batch from offset `expected` on (default: the base) must follow.

        Reads all of it.
        """
        return read_extent(self.log_file, position, self.size, self.base_offset if expected is None else expected)

    def begins_within_name(self, end: int) -> bool:
        """Does the first batch, if there is one, begin at the base offset or after it, and before offset `end`?"""
        if not self.size:
            return True
        with self.files.open(self.log_path) as file:
            try:
                head = next(heads(file, 0, self.size), None)
            except CorruptRecord:
                return False
        return head is not None and self.base_offset <= head.base_offset < end

    def ends_within_name(self, end: int) -> bool:
        """Does the last batch, as the index finds it, end at or below offset `end`?"""
        is_in_use = self._file is not None
        try:
            return self.read_next_offset() <= end
        except CorruptRecord:
            return False
        finally:
            if not is_in_use:  # it is asked of many segments
                self.release_log()

    def end_below(self, offset: int) -> int:
        """After the last batch that ends below `offset`: where the log ends for the next start once it is truncated there."""
        cut = self.translate_offset(offset)
        position = self.offset_index.lookup(offset - 1).position if offset > self.base_offset else 0
        last = last_head(self.log_file, position, self.size if cut is None else cut.position)
        return self.base_offset if last is None else last.next_offset

    @property
    def aborted_are_unknown(self) -> bool:
        """Is the transaction index not to be trusted? Opening a log for writing rebuilds missing ones."""
        return False

    def collect_aborted_txns(self, fetch_offset: int, upper_bound_offset: int) -> AbortedTxns:
        """The aborted transactions that a reader of these offsets must know, as far as this segment knows."""
        return self.txn_index.collect_aborted_txns(fetch_offset, upper_bound_offset)

    # times

    def largest(self) -> TimestampOffset:
        """Largest timestamp so far and the last offset of the first batch that has it (readMaxTimestampAndOffsetSoFar).

        As long as nothing was appended or recovered, what the last entry of the time index says.
        """
        if self._largest is None:
            self._largest = self.time_index.last_entry()
        return self._largest

    @property
    def largest_timestamp(self) -> int:
        """Of the records, ms; where none has one, when the .log was changed last."""
        timestamp = self.largest().timestamp
        return timestamp if timestamp >= 0 else self.last_modified

    @property
    def largest_record_timestamp(self) -> int | None:
        """Of the records, ms; None where none has one."""
        timestamp = self.largest().timestamp
        return timestamp if timestamp >= 0 else None

    @property
    def rolling_based_timestamp(self) -> int | None:
        """Largest timestamp of the first batch, ms; None: there is no batch."""
        if self._rolling_based_timestamp is None and self.size:
            is_in_use = self._file is not None
            first = next(iter(heads(self.log_file, 0, self.size)), None)
            self._rolling_based_timestamp = None if first is None else first.max_timestamp
            if not is_in_use:  # it is asked of all segments of a log at once
                self.release_log()
        return self._rolling_based_timestamp

    @property
    def first_batch_timestamp(self) -> int:
        """As `rolling_based_timestamp`, 2^63 − 1 where there is none (getFirstBatchTimestamp)."""
        timestamp = self.rolling_based_timestamp
        return timestamp if timestamp is not None and timestamp >= 0 else LONG_MAX
