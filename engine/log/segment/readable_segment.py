"""A segment of a log for reading: positions by offset and by time, slices of bytes. Mirrors the read methods of LogSegment.

And evidence of lost batches in its indexes: entries for offsets after the end of the segment.

Nothing here changes a file. LogSegment adds the methods that do.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from engine.discovery.names import (
    log_file_name,
    offset_index_file_name,
    parent_of,
    time_index_file_name,
    transaction_index_file_name,
)
from engine.errors import argument
from engine.files import look
from engine.formats import INT_MAX, LONG_MAX, NO_TIMESTAMP, can_be_followed
from engine.index.entries import IndexTooLarge
from engine.index.sparse import OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset
from engine.index.transaction import TransactionIndex
from engine.log.errors import CorruptRecord, SegmentTooLarge, no_offset_left
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
    from collections.abc import Container, Iterator

    from engine.files import OpenFile, ReadOnlyFiles
    from engine.index.transaction import AbortedTxns
    from engine.log.segment.batch_search import Windows
    from engine.log.segment.extent import Extent


_Index = TypeVar("_Index", OffsetIndex, TimeIndex)
_File = TypeVar("_File", OffsetIndex, TimeIndex, TransactionIndex)


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

    needs_requests  its files are objects of a store
    _by_offset, _by_time  functions that find batches for searches; they decide how damage is handled
    """

    needs_requests = False

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


def refuse_too_large(files: ReadOnlyFiles, path: str, size: int) -> None:
    """Raise SegmentTooLarge if the .log at `path` has more bytes than Kafka opens. Raises UnreadableFile."""
    if size <= INT_MAX:
        return
    with files.open(path) as file:
        is_hole = file.next_data(INT_MAX, size) == size
    what, named = f"{path}: {size} bytes, the largest segment has {INT_MAX}", argument(path)
    if is_hole:
        what += "; the rest is a hole in the file"
        do = f"truncate -s {INT_MAX} {named}    # removes the hole only; then: kafkalog recover {argument(parent_of(path))}"
    else:
        do = f"du -h {named}    # its size on the disk; a log has fewer: move the file out of the partition"
    error = SegmentTooLarge(what, do=do)
    error.broker_says = (f"The size of segment {files.absolute(path)} ({size}) is larger than the maximum allowed segment size "
                         f"of {INT_MAX}")
    raise error


# ---- evidence of lost batches


class Indexed(NamedTuple):
    """Evidence in the index at `path` that its segment reached offset `end` (exclusive). `code`: of a finding."""

    code: str
    path: str
    end: int
    what: str


class SegmentEnd(NamedTuple):
    """The end of a segment, in bytes and offsets, and its largest timestamp, NO_TIMESTAMP without one."""

    size: int
    offset: int
    largest_timestamp: int


class SegmentIndexes(NamedTuple):
    """The indexes of a segment; None: the file does not exist, or is too large to be an index."""

    offsets: OffsetIndex | None
    times: TimeIndex | None
    aborted: TransactionIndex | None

    @classmethod
    def read(cls, files: ReadOnlyFiles, directory: str, base_offset: int, names: Container[str] | None = None) -> Self:
        """Read the indexes of the segment that begins at `base_offset`. Raises UnreadableFile.

        names  of the files in the directory; None: it is listed
        """

        def one(kind: type[_File], name: str) -> _File | None:
            path = f"{directory}/{name}"
            if not (files.exists(path) if names is None else name in names):
                return None
            try:
                return kind.read(files, path, base_offset)
            except IndexTooLarge:
                return None  # opening or verifying the index reports it

        return cls(
            one(OffsetIndex, offset_index_file_name(base_offset)),
            one(TimeIndex, time_index_file_name(base_offset)),
            one(TransactionIndex, transaction_index_file_name(base_offset)),
        )

    @property
    def are_closed_with_batches(self) -> bool:
        """Does the time index show that the segment had batches when it was closed?"""
        return _closed(self.times) is not None

    @property
    def end(self) -> int:
        """The highest offset in the indexes + 1, without checking it; −1: they have no entries."""
        lasts = [index.entry(index.used_entries - 1).offset for index in (_closed(self.offsets), _closed(self.times)) if index]
        if self.aborted is not None and len(self.aborted):
            lasts.append(self.aborted.entry(len(self.aborted) - 1).last_offset)
        return max(lasts, default=-2) + 1

    def beyond(self, files: ReadOnlyFiles, log_path: str, end: SegmentEnd) -> list[Indexed]:
        """Evidence of offsets after the `end` of the segment, whose log is at `log_path`. Raises UnreadableFile.

        An index with invalid entries, or one that contradicts the batches before the end, is not used.
        """
        found = (
            *_of_offset_index(files, self.offsets, log_path, end.size),
            *_of_time_index(self.times, end),
            *_of_transaction_index(self.aborted),
        )
        return [one for one in found if one.end > end.offset]


def find_segment_end(files: ReadOnlyFiles, log_path: str, base_offset: int, index: OffsetIndex | None) -> SegmentEnd:
    """Find the end of the segment at `log_path` from batch headers, up to damage.

    index  its offset index

    Reads the log from the last entry of the offset index that points to its batch. Earlier timestamps are in the time index.
    If the indexes were not closed, the log is not read: any timestamp may be in it.
    """
    offset, timestamp = base_offset, NO_TIMESTAMP
    with files.open(log_path) as file:
        size = file.size()
        if index is not None and index.used_entries < index.entries:
            return SegmentEnd(size, offset, LONG_MAX)
        inside = None if index is None else _last_inside(index, size)
        position = inside.position if inside is not None and _agrees(file, inside, size) else 0
        try:
            for head in heads(file, position, size):
                offset, timestamp = max(offset, head.next_offset), max(timestamp, head.max_timestamp)
        except CorruptRecord:
            pass
    return SegmentEnd(size, offset, timestamp)


def _of_offset_index(files: ReadOnlyFiles, given: OffsetIndex | None, log_path: str, size: int) -> Iterator[Indexed]:
    index = _closed(given)
    if index is None:
        return
    last, inside = index.entry(index.used_entries - 1), _last_inside(index, size)
    if last.position < size or index.sanity():
        return
    if inside is not None:
        with files.open(log_path) as file:
            if not _agrees(file, inside, size):
                return
    yield Indexed("index-beyond-log", index.path, last.offset + 1, f"its last entry points to offset {last.offset}")


def _last_inside(index: OffsetIndex, size: int) -> OffsetPosition | None:
    """The last entry that points to the first `size` bytes of the log."""
    inside = bisect_left(range(index.used_entries), size, key=lambda number: index.entry(number).position)
    return index.entry(inside - 1) if inside else None


def _agrees(file: OpenFile, entry: OffsetPosition, size: int) -> bool:
    """Does the batch at the entry's position hold the entry's offset?"""
    if entry.position < 0:
        return False
    try:
        head = next(heads(file, entry.position, size), None)
    except CorruptRecord:
        return False
    return head is not None and head.base_offset <= entry.offset < head.next_offset


def _of_time_index(given: TimeIndex | None, end: SegmentEnd) -> Iterator[Indexed]:
    """An entry has a higher timestamp than all earlier batches. If the log has it, the entry's batch is not lost."""
    index = _closed(given)
    if index is None:
        return
    last = index.entry(index.used_entries - 1)
    if last.offset >= end.offset and last.timestamp > end.largest_timestamp and not index.sanity():
        what = f"its last entry is of a batch that ends at offset {last.offset}"
        yield Indexed("timeindex-offset-not-found", index.path, last.offset + 1, what)


def _of_transaction_index(index: TransactionIndex | None) -> Iterator[Indexed]:
    last = None if index is None or not len(index) or index.sanity() else index.entry(len(index) - 1)
    if index is None or last is None:
        return
    if last.last_offset - index.base_offset <= INT_MAX and last.last_stable_offset <= last.last_offset + 1:
        what = f"its last entry says that a transaction was aborted at offset {last.last_offset}"
        yield Indexed("txnindex-mismatch", index.path, last.last_offset + 1, what)


def _closed(index: _Index | None) -> _Index | None:
    """The index; None if it has no entries, or was not closed, because it may then have entries of truncated batches."""
    return index if index is not None and index.used_entries and index.used_entries == index.entries else None
