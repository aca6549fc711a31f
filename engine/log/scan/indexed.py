"""How far a segment reached by the last entries of its indexes: they outlive batches that were lost behind its end."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from engine.formats import INT_MAX, LONG_MAX, NO_TIMESTAMP
from engine.index.offset import OffsetIndex
from engine.index.time import TimeIndex
from engine.index.transaction import TransactionIndex
from engine.layout import log_file_name, offset_index_file_name, time_index_file_name, transaction_index_file_name
from engine.log.errors import CorruptRecord
from engine.log.scan.batch_search import heads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.files import OpenFile, ReadOnlyFiles
    from engine.index.offset import OffsetPosition

_Index = TypeVar("_Index", OffsetIndex, TimeIndex)


class Indexed(NamedTuple):
    """The index at `path` says that its segment reached offset `end` (exclusive); `what`: the sentence, `code`: a finding's."""

    code: str
    path: str
    end: int
    what: str


class SegmentEnd(NamedTuple):
    """Where a segment ends, in bytes and offsets, and the largest timestamp in it, NO_TIMESTAMP without one."""

    size: int
    offset: int
    largest_timestamp: int


def indexed_beyond(files: ReadOnlyFiles, directory: str, base_offset: int, end: SegmentEnd) -> Iterator[Indexed]:
    """What the indexes of the segment that begins at `base_offset` say of offsets behind its end. Raises UnreadableFile.

    An index with entries that make no sense, or that contradicts the batches before the end, proves nothing.
    """
    found = (
        *_of_offset_index(files, directory, base_offset, end.size),
        *_of_time_index(files, directory, base_offset, end),
        *_of_transaction_index(files, directory, base_offset),
    )
    return (one for one in found if one.end > end.offset)


def find_segment_end(files: ReadOnlyFiles, directory: str, base_offset: int) -> SegmentEnd:
    """Where the batches of a segment end by their headers, as far as they can be followed. Without a .log it is empty.

    Read from the last entry of the offset index on that leads to its batch. Earlier timestamps are in the time index. If the
    indexes were not closed, the log is not read: any timestamp may be in it.
    """
    path = f"{directory}/{log_file_name(base_offset)}"
    if not files.exists(path):
        return SegmentEnd(0, base_offset, NO_TIMESTAMP)
    offset, timestamp = base_offset, NO_TIMESTAMP
    index_path = f"{directory}/{offset_index_file_name(base_offset)}"
    index = OffsetIndex.read(files, index_path, base_offset) if files.exists(index_path) else None
    with files.open(path) as file:
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


def is_closed_with_batches(files: ReadOnlyFiles, directory: str, base_offset: int) -> bool:
    """Does the time index of a segment say that it had batches when it was closed?"""
    return _closed(TimeIndex, files, f"{directory}/{time_index_file_name(base_offset)}", base_offset) is not None


def _of_offset_index(files: ReadOnlyFiles, directory: str, base_offset: int, size: int) -> Iterator[Indexed]:
    path, log_path = f"{directory}/{offset_index_file_name(base_offset)}", f"{directory}/{log_file_name(base_offset)}"
    index = _closed(OffsetIndex, files, path, base_offset)
    if index is None:
        return
    last, inside = index.entry(index.used_entries - 1), _last_inside(index, size)
    if last.position < size or index.sanity():
        return
    if inside is not None:
        with files.open(log_path) as file:
            if not _agrees(file, inside, size):
                return
    yield Indexed("index-beyond-log", path, last.offset + 1, f"its last entry points to offset {last.offset}")


def _last_inside(index: OffsetIndex, size: int) -> OffsetPosition | None:
    """The last entry that points to the first `size` bytes of the log."""
    inside = bisect_left(range(index.used_entries), size, key=lambda number: index.entry(number).position)
    return index.entry(inside - 1) if inside else None


def _agrees(file: OpenFile, entry: OffsetPosition, size: int) -> bool:
    """Does a batch with the entry's offset begin where it points to?"""
    try:
        head = next(heads(file, entry.position, size), None)
    except CorruptRecord:
        return False
    return head is not None and head.base_offset <= entry.offset < head.next_offset


def _of_time_index(files: ReadOnlyFiles, directory: str, base_offset: int, end: SegmentEnd) -> Iterator[Indexed]:
    """An entry is made for a timestamp above all before it: one that a batch has is not of a lost one, whatever its offset."""
    path = f"{directory}/{time_index_file_name(base_offset)}"
    index = _closed(TimeIndex, files, path, base_offset)
    if index is None:
        return
    last = index.entry(index.used_entries - 1)
    if last.offset >= end.offset and last.timestamp > end.largest_timestamp and not index.sanity():
        what = f"its last entry is of a batch that ends at offset {last.offset}"
        yield Indexed("timeindex-offset-not-found", path, last.offset + 1, what)


def _of_transaction_index(files: ReadOnlyFiles, directory: str, base_offset: int) -> Iterator[Indexed]:
    path = f"{directory}/{transaction_index_file_name(base_offset)}"
    if not files.exists(path):
        return
    index = TransactionIndex.read(files, path, base_offset)
    last = None if not len(index) or index.sanity() else index.entry(len(index) - 1)
    if last is not None and last.last_offset - base_offset <= INT_MAX and last.last_stable_offset <= last.last_offset + 1:
        what = f"its last entry says that a transaction was aborted at offset {last.last_offset}"
        yield Indexed("txnindex-mismatch", path, last.last_offset + 1, what)


def _closed(kind: type[_Index], files: ReadOnlyFiles, path: str, base_offset: int) -> _Index | None:
    """The index at `path`; None: it has no entries, or was not closed: then entries of truncated batches may be left in it."""
    if not files.exists(path):
        return None
    index = kind.read(files, path, base_offset)
    return index if index.used_entries and index.used_entries == index.entries else None
