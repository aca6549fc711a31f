"""Evidence of lost batches: index entries for offsets after the end of a segment."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from engine.discovery.names import offset_index_file_name, time_index_file_name, transaction_index_file_name
from engine.formats import INT_MAX, LONG_MAX, NO_TIMESTAMP
from engine.index.entries import IndexTooLarge
from engine.index.offset import OffsetIndex
from engine.index.time import TimeIndex
from engine.index.transaction import TransactionIndex
from engine.log.errors import CorruptRecord
from engine.log.segment.batch_search import heads

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from engine.files import OpenFile, ReadOnlyFiles
    from engine.index.offset import OffsetPosition

_Index = TypeVar("_Index", OffsetIndex, TimeIndex)
_File = TypeVar("_File", OffsetIndex, TimeIndex, TransactionIndex)


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
