"""A part of a remote segment: what consumers read of a segment that overlaps the one before it, or the local log.

Copies of different leaders overlap. A consumer reads a segment to its end, and then the next offset from the next segment. From
the first local offset on it reads the local log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.formats import ABORTED_TXN, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY, OffsetIndexEntry, TimeIndexEntry
from engine.index.sparse import OffsetIndex, TimeIndex
from engine.index.transaction import TransactionIndex
from engine.log.segment.batch_search import largest_timestamp_after, search_for_offset
from engine.remote.layouts import IndexKind
from engine.remote.ranged_file import RangedFile

if TYPE_CHECKING:
    from engine.remote.layouts import SegmentParts
    from engine.remote.metadata import RemoteSegment


class SegmentSlice:
    """See SegmentParts. The batches of `segment` that have offsets from `first` to `last`, as a segment that begins at `first`.

    whole  the parts of `segment`
    """

    def __init__(self, whole: SegmentParts, segment: RemoteSegment, first: int, last: int) -> None:
        self.whole, self._segment, self._first, self._last = whole, segment, first, last
        self._found: tuple[int, int] | None = None

    @property
    def are_indexes_together(self) -> bool:
        """See SegmentParts."""
        return self.whole.are_indexes_together

    @property
    def extent(self) -> tuple[int, int]:
        """First byte of the slice in the whole log, and the byte after it. Raises UnreadableFile, CorruptRecord."""
        if self._found is None:
            segment, start, end = self._segment, 0, self.whole.log_size()
            if self._first > segment.start_offset:
                start = self._position(self._first, end)
            if self._last < segment.end_offset:
                end = self._position(self._last + 1, end)
            self._found = start, max(start, end)
        return self._found

    def _position(self, offset: int, end: int) -> int:
        """Return the position of the batch with `offset`; of the slice's end, after a batch that begins before it."""
        data, path = self.whole.index(IndexKind.OFFSET) or b"", self.path(IndexKind.OFFSET)
        position = OffsetIndex(data, self._segment.start_offset, path).lookup(offset).position
        with self._file() as file:
            head = search_for_offset(file, offset, position, end)
        if head is None:
            return end
        is_divided = offset > self._last and head.base_offset < offset
        return head.position + head.size if is_divided else head.position

    def _file(self) -> RangedFile:
        return RangedFile(self.path(None), self.whole.log_size(), self.whole.read_log)

    def keys(self, segment: RemoteSegment) -> dict[str, int | None]:
        """See SegmentParts."""
        return self.whole.keys(segment)

    def path(self, kind: IndexKind | None) -> str:
        """See SegmentParts."""
        return self.whole.path(kind)

    def log_size(self, position: int | None = None) -> int:  # noqa: ARG002  # the search has read the log
        """See SegmentParts."""
        start, end = self.extent
        return end - start

    def read_log(self, start: int, end: int) -> bytes | memoryview:
        """See SegmentParts."""
        before, _ = self.extent
        return self.whole.read_log(start + before, end + before)

    def index(self, kind: IndexKind) -> bytes | None:
        """See SegmentParts. Offsets and positions in indexes are those of the slice."""
        data, base, first, last = self.whole.index(kind), self._segment.start_offset, self._first, self._last
        if not data or kind in (IndexKind.PRODUCER_SNAPSHOT, IndexKind.LEADER_EPOCH):
            return data
        if kind is IndexKind.OFFSET:
            start, end = self.extent
            entries = (one for one in OffsetIndex(data, base, self.path(kind)) if start <= one.position < end)
            within = (one for one in entries if first <= one.offset <= last)
            moved = (OffsetIndexEntry(one.offset - first, one.position - start) for one in within)
            return b"".join(map(OFFSET_INDEX_ENTRY.pack, moved))
        if kind is IndexKind.TIMESTAMP:
            return self._times(data)
        aborted = TransactionIndex(data, base, self.path(kind))
        return b"".join(ABORTED_TXN.pack(txn) for txn in aborted if first <= txn.last_offset <= last)

    def described(self) -> tuple[str, RemoteSegment] | None:
        """See SegmentParts."""
        return self.whole.described()

    def _times(self, data: bytes) -> bytes:
        """Return the entries of the slice. The last one must have its largest timestamp, which may be in no entry."""
        times = TimeIndex(data, self._segment.start_offset, self.path(IndexKind.TIMESTAMP))
        entries = [(entry.timestamp, entry.offset) for entry in times if self._first <= entry.offset <= self._last]
        if not entries or self._last < self._segment.end_offset:
            start, end = self.extent
            with self._file() as file:
                largest = largest_timestamp_after(file, start, end)
            if largest.offset >= 0 and (not entries or largest.timestamp > entries[-1][0]):
                entries.append((largest.timestamp, largest.offset))
        return b"".join(TIME_INDEX_ENTRY.pack(TimeIndexEntry(time, offset - self._first)) for time, offset in entries)
