"""A remote segment for reading: its parts are presented as files to the reader of local segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.amounts import count_of
from engine.checkpoint.producer_snapshot import ProducerSnapshot
from engine.errors import UnreadableFile
from engine.files import FileInfo, ReadOnlyFiles
from engine.findings import Finding, Where
from engine.formats import LONG_MAX
from engine.index.sparse import TimestampOffset
from engine.log.errors import CorruptRecord
from engine.log.fetch.segment_view import SegmentView
from engine.log.segment.readable_segment import ReadableSegment
from engine.remote.aiven_manifest import CorruptObject
from engine.remote.layouts import IndexKind
from engine.remote.ranged_file import FIRST_PIECE, RangedFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import OpenFile
    from engine.index.transaction import AbortedTxns, TransactionIndex
    from engine.log.segment.batch_search import BatchHead
    from engine.remote.layouts import SegmentParts
    from engine.remote.metadata import RemoteSegment

_KINDS = {"log": None, "index": IndexKind.OFFSET, "timeindex": IndexKind.TIMESTAMP, "txnindex": IndexKind.TRANSACTION}
_SEARCHED = ("index", "timeindex")  # only to find a position in the log


class _PartFiles(ReadOnlyFiles):
    """The parts of one segment as files. Paths are those of the objects, with a suffix if an object has several parts."""

    def __init__(self, parts: SegmentParts) -> None:
        self._parts = parts
        self._indexes: dict[str, bytes | None] = {}
        self.position = 0  # where the first read of the log begins: the request for its size reads it too
        self.needs_indexes = True  # False: the log is small, so the first request gets all of it
        self._oldest_open: int | None = None
        paths = {suffix: parts.path(kind) for suffix, kind in _KINDS.items()}
        shared = len(set(paths.values())) < len(paths)
        self.paths = {suffix: path if suffix == "log" or not shared else f"{path} ({suffix})" for suffix, path in paths.items()}
        self._suffixes = {path: suffix for suffix, path in self.paths.items()}

    def _index(self, path: str) -> bytes | None:
        suffix = self._suffixes[path]
        if suffix in _SEARCHED and not self.needs_indexes:
            return b""
        if suffix not in self._indexes:
            kind = _KINDS[suffix]
            assert kind is not None
            self._indexes[suffix] = self._parts.index(kind)
        return self._indexes[suffix]

    @property
    def holds_data(self) -> bool:
        """Was an index read?"""
        return bool(self._indexes)

    @property
    def oldest_open(self) -> int:
        """First offset of the oldest transaction without an end in this segment or before; LONG_MAX: none; −1: unknown.

        Known only if it was read together with an index: no request is made for it.
        """
        if not (self._indexes and self._parts.are_indexes_together):
            return -1
        if self._oldest_open is None:
            try:
                data = self._parts.index(IndexKind.PRODUCER_SNAPSHOT)
            except CorruptObject:  # the index itself may be sound
                data = None
            snapshot = ProducerSnapshot(data or b"", self._parts.path(IndexKind.PRODUCER_SNAPSHOT))
            firsts = (entry.current_txn_first_offset for entry in snapshot)
            self._oldest_open = -1 if snapshot.error() else min((first for first in firsts if first >= 0), default=LONG_MAX)
        return self._oldest_open

    def log_size(self) -> int:
        """Return the size of the log."""
        return self._parts.log_size(self.position)

    def exists(self, path: str) -> bool:
        """Does the segment have this part?"""
        return self._suffixes[path] == "log" or self._index(path) is not None

    def info(self, path: str) -> FileInfo:
        """Return the size of a part. Raises UnreadableFile if it does not exist."""
        data = None if self._suffixes[path] == "log" else self._index(path)
        if data is None and self._suffixes[path] != "log":
            raise UnreadableFile(f"{path}: the object does not exist", path=path)
        return FileInfo(True, False, self.log_size() if data is None else len(data), 0)

    def open(self, path: str) -> OpenFile:
        """Open a part: a log is read by ranges, an index as a whole."""
        if self._suffixes[path] == "log":
            return RangedFile(path, self.log_size(), self._parts.read_log)
        data = self._index(path)
        if data is None:
            raise UnreadableFile(f"{path}: the object does not exist", path=path)
        return RangedFile(path, len(data), lambda start, end: data[start:end])


class RemoteSegmentView(SegmentView):
    """A remote segment for reading. Each part is read when it is first needed; a small log is searched without its indexes.

    metadata  of the segment
    report    receives a finding if the size of the log differs from the metadata
    """

    needs_requests = True

    def __init__(self, parts: SegmentParts, metadata: RemoteSegment, report: Callable[[Finding], None]) -> None:
        self.metadata, self._report = metadata, report
        self._part_files = _PartFiles(parts)
        self._part_files.needs_indexes = metadata.size > FIRST_PIECE
        self._size: int | None = None
        self._txn_index: TransactionIndex | None = None
        ReadableSegment.__init__(self, self._part_files, "", metadata.start_offset, size=-1, has_txn_index=False)
        self._size, self._txn_index = None, None
        self.is_last = False
        self.next_offset = metadata.end_offset + 1

    def _path(self, name: str) -> str:
        return self._part_files.paths[name.rpartition(".")[2]]

    @property
    def cost(self) -> int:
        """The cost of closing it: 2 if its log is open, 1 if only an index is in memory, 0 without data."""
        return 2 if self._file is not None else int(self._part_files.holds_data)

    @property
    def size(self) -> int:
        """Bytes of the log in the store."""
        if self._size is None:
            self._size = self._part_files.log_size()
            if self._size != self.metadata.size:
                size = count_of(self._size, "byte")
                what = f"{size}, but {self.metadata.size} by its metadata: consumers skip the missing records"
                self._report(Finding("remote-object-size", Where(self.log_path, None, self.base_offset), what))
        return self._size

    @size.setter
    def size(self, size: int) -> None:
        self._size = size

    @property
    def txn_index(self) -> TransactionIndex:
        """The transaction index; read when it is first used, and not read if the metadata declares it empty."""
        if self._txn_index is None:
            exists = False if self.metadata.txn_index_empty else None
            self._txn_index = self._open_txn_index(exists=exists)
        return self._txn_index

    @txn_index.setter
    def txn_index(self, index: TransactionIndex) -> None:
        self._txn_index = index

    @property
    def aborted_are_unknown(self) -> bool:
        """Is the transaction index missing or damaged, although the metadata does not declare it empty?"""
        if self.metadata.txn_index_empty:
            return False
        index = self.txn_index
        return not self._part_files.exists(self.txn_index_path) or bool(index.sanity())

    def translate_offset(self, offset: int, starting_position: int = 0) -> BatchHead | None:
        """See SegmentView. If damage hides the offset in a small log, its index is used."""
        files = self._part_files
        files.position = 0 if offset <= self.base_offset else self.offset_index.lookup(offset).position
        try:
            return super().translate_offset(offset, starting_position)
        except CorruptRecord:
            if files.needs_indexes:
                raise
            files.needs_indexes, self._offset_index, self._time_index = True, None, None
            return super().translate_offset(offset, starting_position)

    def position_before(self, offset: int) -> int:
        """See ReadableSegment."""
        self._part_files.position = self.offset_index.lookup(offset).position
        return super().position_before(offset)

    def collect_aborted_txns(self, fetch_offset: int, upper_bound_offset: int) -> AbortedTxns:
        """See ReadableSegment. Complete also if all transactions that began before the upper bound have ended."""
        found = super().collect_aborted_txns(fetch_offset, upper_bound_offset)
        is_complete = found.is_complete or self._part_files.oldest_open >= upper_bound_offset
        return found._replace(is_complete=is_complete)

    def largest(self) -> TimestampOffset:
        """Return the largest timestamp in the metadata, with the end offset."""
        return TimestampOffset(self.metadata.max_timestamp_ms, self.metadata.end_offset)

