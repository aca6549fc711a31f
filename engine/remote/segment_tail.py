"""The end of a remote segment whose first offsets an earlier segment has too: what consumers read of it.

Copies of different leaders overlap. A consumer reads a segment to its end, and then the next offset from the next segment.
The module stands alone beside `layouts`: a tail has the interface of SegmentParts, whatever the layout of the segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.formats import ABORTED_TXN, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY, OffsetIndexEntry, TimeIndexEntry
from engine.index.offset import OffsetIndex
from engine.index.time import TimeIndex
from engine.index.transaction import TransactionIndex
from engine.log.segment.batch_search import largest_timestamp_after, search_for_offset
from engine.remote.layouts import IndexKind
from engine.remote.ranged_file import RangedFile

if TYPE_CHECKING:
    from engine.remote.layouts import SegmentParts
    from engine.remote.metadata import RemoteSegment


class SegmentTail:
    """See SegmentParts. The parts of `segment` from the batch with offset `first` on, as of a segment that begins there."""

    def __init__(self, parts: SegmentParts, segment: RemoteSegment, first: int) -> None:
        self._parts, self._segment, self._first = parts, segment, first
        self._skipped: int | None = None

    @property
    def skipped(self) -> int:
        """Bytes of the log before the tail. Raises UnreadableFile, CorruptRecord."""
        if self._skipped is None:
            data, path = self._parts.index(IndexKind.OFFSET) or b"", self._parts.path(IndexKind.OFFSET)
            position = OffsetIndex(data, self._segment.start_offset, path).lookup(self._first).position
            with self._file() as file:
                head = search_for_offset(file, self._first, position, file.size())
                self._skipped = file.size() if head is None else head.position
        return self._skipped

    def _file(self) -> RangedFile:
        return RangedFile(self.path(None), self._parts.log_size(), self._parts.read_log)

    def keys(self, segment: RemoteSegment) -> dict[str, int | None]:
        """See SegmentParts."""
        return self._parts.keys(segment)

    def path(self, kind: IndexKind | None) -> str:
        """See SegmentParts."""
        return self._parts.path(kind)

    def log_size(self, position: int | None = None) -> int:  # noqa: ARG002  # the search has read the log
        """See SegmentParts."""
        return self._parts.log_size() - self.skipped

    def read_log(self, start: int, end: int) -> bytes | memoryview:
        """See SegmentParts."""
        return self._parts.read_log(start + self.skipped, end + self.skipped)

    def index(self, kind: IndexKind) -> bytes | None:
        """See SegmentParts. Offsets and positions in indexes are those of the tail."""
        data, base, first = self._parts.index(kind), self._segment.start_offset, self._first
        if not data or kind in (IndexKind.PRODUCER_SNAPSHOT, IndexKind.LEADER_EPOCH):
            return data
        if kind is IndexKind.OFFSET:
            entries = (entry for entry in OffsetIndex(data, base, self.path(kind)) if entry.offset >= first)
            tail = (OffsetIndexEntry(one.offset - first, one.position - self.skipped) for one in entries)
            return b"".join(OFFSET_INDEX_ENTRY.pack(one) for one in tail if one.position >= 0)
        if kind is IndexKind.TIMESTAMP:
            return self._times(data)
        aborted = TransactionIndex(data, base, self.path(kind))
        return b"".join(ABORTED_TXN.pack(txn) for txn in aborted if txn.last_offset >= first)

    def described(self) -> tuple[str, RemoteSegment] | None:
        """See SegmentParts."""
        return self._parts.described()

    def _times(self, data: bytes) -> bytes:
        """Return the entries of the tail. The last one must have its largest timestamp, which may be in no entry."""
        times = TimeIndex(data, self._segment.start_offset, self.path(IndexKind.TIMESTAMP))
        entries = [(entry.timestamp, entry.offset) for entry in times if entry.offset >= self._first]
        if not entries:
            with self._file() as file:
                largest = largest_timestamp_after(file, self.skipped, file.size())
            entries = [(largest.timestamp, largest.offset)] if largest.offset >= 0 else []
        return b"".join(TIME_INDEX_ENTRY.pack(TimeIndexEntry(time, offset - self._first)) for time, offset in entries)
