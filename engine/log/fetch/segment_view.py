"""A segment opened for reading only. Index entries are checked before they are used.

Of an index that was not closed, the zeros after the last entry are not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from engine.discovery.names import file_name
from engine.errors import UnreadableFile
from engine.files import look
from engine.formats import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from engine.index.sparse import OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset, count_used
from engine.log.errors import CorruptRecord
from engine.log.segment.batch_search import largest_timestamp_after, search_for_offset, sound_windows, whole_windows
from engine.log.segment.readable_segment import ReadableSegment, refuse_too_large

if TYPE_CHECKING:
    from engine.files import OpenFile, ReadOnlyFiles
    from engine.log.segment.batch_search import BatchHead


_RUN = 32  # entries that are read at once
_MOST_RUNS = 32  # that are kept


class _Probe:
    """Reads single entries of an index from its file, and keeps some runs of them: a lookup needs about twenty entries.

    Lookups of a consumer that reads on need the same ones again.
    """

    def __init__(self, file: OpenFile, entry_size: int) -> None:
        self._file, self._size = file, entry_size
        self._runs: dict[int, bytes] = {}  # by number

    def read(self, number: int) -> bytes:
        """Return the bytes of entry `number`. Raises UnreadableFile, FileChangedWhileReading."""
        run, at = number // _RUN, number % _RUN * self._size
        entries = self._runs.get(run)
        if entries is None or len(entries) < at + self._size:
            if len(self._runs) >= _MOST_RUNS:
                self._runs.clear()
            entries = self._runs[run] = self._file.read(run * _RUN * self._size, _RUN * self._size)
        entry = entries[at : at + self._size]
        return entry if len(entry) == self._size else self._file.read_exactly(number * self._size, self._size)

    def close(self) -> None:
        """Release the file."""
        self._file.close()


class _ProbedOffsets(OffsetIndex):
    """Reads entries one by one."""

    probe: _Probe | None = None

    def entry(self, number: int) -> OffsetPosition:
        """Entry `number`, from 0. Raises IndexError outside the file."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        entry = OFFSET_INDEX_ENTRY.read(_probe(self, number))
        return OffsetPosition(self.absolute(entry.relative_offset), max(0, entry.position))  # 0 is a safe start of a search

    def _offset_at(self, number: int) -> int:
        return self.absolute(OFFSET_INDEX_ENTRY.field("relative_offset", _probe(self, number)))

    def _position_at(self, number: int) -> int:
        return self.entry(number).position


class _ProbedTimes(TimeIndex):
    """Reads entries one by one."""

    probe: _Probe | None = None

    def entry(self, number: int) -> TimestampOffset:
        """Entry `number`, from 0. Raises IndexError outside the file."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        entry = TIME_INDEX_ENTRY.read(_probe(self, number))
        return TimestampOffset(entry.timestamp, self.absolute(entry.relative_offset))

    def _timestamp_at(self, number: int) -> int:
        return self.entry(number).timestamp


_Probed = TypeVar("_Probed", _ProbedOffsets, _ProbedTimes)


def _probe(index: _ProbedOffsets | _ProbedTimes, number: int) -> bytes:
    if index.probe is None:
        index.probe = _Probe(index.open_file(), index.entry_size)
    return index.probe.read(number)


class SegmentView(ReadableSegment):
    """A segment for reading. `size` is the end of the last whole batch, not the size of the file.

    So a batch header that claims more bytes is damage, reported to readers (CorruptRecord) but not to searches.
    """

    _by_offset = staticmethod(whole_windows)
    _by_time = staticmethod(sound_windows)

    def __init__(
        self, files: ReadOnlyFiles, directory: str, base_offset: int, suffix: str = "", *, has_txn_index: bool
    ) -> None:  # fmt: skip
        super().__init__(files, directory, base_offset, suffix, has_txn_index=has_txn_index)
        self.needs_requests = files.needs_requests(self.log_path)
        found = look(files, self.log_path)
        if found is None and file_name(self.log_path) not in files.special(directory):
            raise UnreadableFile(f"{self.log_path}: it was deleted after the directory was listed", path=self.log_path)
        if found is not None and found.is_file:
            self.size = found.size
        else:
            with files.open(self.log_path) as file:  # raises: a FIFO with size 0 is not an empty segment
                self.size = file.size()
        refuse_too_large(files, self.log_path, self.size)
        self.is_last = False

    def _open_offset_index(self) -> OffsetIndex:
        """The entries in use; empty if there is no file."""
        return _open(_ProbedOffsets, self.files, self.offset_index_path, self.base_offset)

    def _open_time_index(self) -> TimeIndex:
        return _open(_ProbedTimes, self.files, self.time_index_path, self.base_offset)

    def largest(self) -> TimestampOffset:
        """From the time index; for the last segment also from the batches after its last entry."""
        if self._largest is None:
            largest = self.time_index.last_entry()
            if self.is_last:
                position = self.position_before(self.offset_index.last_offset)
                tail = largest_timestamp_after(self.log_file, position, self.size, sound_windows)
                if tail.timestamp > largest.timestamp:
                    largest = TimestampOffset(tail.timestamp, tail.offset)
            self._largest = largest
        return self._largest

    def translate_offset(self, offset: int, starting_position: int = 0) -> BatchHead | None:
        """As in the base class, but an index entry that does not point to its batch is not used."""
        entry = self.offset_index.lookup(offset) if offset > self.base_offset else OffsetPosition(self.base_offset, 0)
        if starting_position >= entry.position:
            return super().translate_offset(offset, starting_position)
        try:
            found = search_for_offset(self.log_file, offset, entry.position, self.size, whole_windows)
        except CorruptRecord:
            if self._leads_to_its_batch(entry):
                raise
            found = None
        if (found is None or found.base_offset > offset) and not self._leads_to_its_batch(entry):
            return search_for_offset(self.log_file, offset, starting_position, self.size, whole_windows)
        return found

    def find_offset(self, offset: int) -> BatchHead | None:
        """As `translate_offset`, but also finds batches after damage."""
        return search_for_offset(self.log_file, offset, self.position_before(offset), self.size, sound_windows)

    @property
    def aborted_are_unknown(self) -> bool:
        """Is the transaction index missing, empty or damaged?"""
        return not len(self.txn_index) or bool(self.txn_index.sanity())

    def forget(self, size: int) -> None:
        """The log now ends at byte `size`: discard what was read from its indexes."""
        self.size = size
        self._release_indexes()
        self._offset_index = self._time_index = self._largest = None
        self.txn_index = self._open_txn_index()

    def release_log(self) -> None:
        """Close all files, including the indexes, whose entries are read from their files."""
        self._release_indexes()
        super().release_log()

    def _release_indexes(self) -> None:
        for index in (self._offset_index, self._time_index):
            if isinstance(index, _ProbedOffsets | _ProbedTimes) and index.probe is not None:
                index.probe.close()
                index.probe = None


def _open(sort: type[_Probed], files: ReadOnlyFiles, path: str, base_offset: int) -> _Probed:
    """Open the index, of class `sort`, without the unused zeros after its entries."""
    index = sort.open(files, path, base_offset, writable=False)
    if len(index):
        with files.open(path) as file:
            index.truncate_to_entries(count_used(file, sort.entry_size, len(index)))
    return index
