"""Read a log with its remote segments as one, as a consumer receives it. Mirrors UnifiedLog and RemoteLogManager.

Offsets before the local log start offset come from remote segments, even if a local segment has them too. The remote segment is
found by the leader epoch of the offset and read to its end; then the next offset is looked up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.formats import LONG_MAX
from engine.log.fetch.reading import fetch_offset_by_timestamp
from engine.remote.records import State
from engine.remote.segment_view import RemoteSegmentView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.findings import Finding
    from engine.formats import AbortedTxn
    from engine.log.segment.batch_search import TimestampAndOffset
    from engine.log.segment.log_segments import LogOffsetMetadata
    from engine.log.segment.readable_segment import ReadableSegment
    from engine.remote.layouts import Layout
    from engine.remote.metadata import RemoteSegment
    from engine.remote.tiered_log import TieredLog

_HELD = 2  # remote segments with data in memory


class TieredSegments:
    """The remote and local segments of a log. See ReadableSegments."""

    def __init__(self, log: TieredLog, layout: Layout, report: Callable[[Finding], None]) -> None:
        self._log, self._layout, self._report = log, layout, report
        self._known: dict[int, RemoteSegment] = {}  # by base offset: segments that were read
        self._views: dict[bytes, RemoteSegmentView] = {}  # by id: the last ones that were used

    def view(self, segment: RemoteSegment) -> RemoteSegmentView:
        """Open a remote segment for reading."""
        self._known[segment.start_offset] = segment
        view = self._views.pop(segment.id, None)
        if view is None:
            assert self._log.remote is not None  # it has this segment
            view = RemoteSegmentView(self._layout.parts(self._log.remote, segment), segment, self._report)
        self._views[segment.id] = view
        while len(self._views) > _HELD:  # searches for transactions pass many segments, and must not close the one being read
            cheapest = min([*self._views][:-1], key=lambda one: self._views[one].cost)
            self._views.pop(cheapest).close_handlers()
        return view

    def floor_segment(self, offset: int) -> ReadableSegment | None:
        """Return the segment from which `offset` is read."""
        log = self._log
        if offset >= log.local_log_start_offset or log.remote is None:
            return log.view.segments.floor_segment(offset)
        found = log.lineage.segment(log.remote, offset)
        return None if found is None else self.view(found)

    def higher_segment(self, base_offset: int) -> ReadableSegment | None:
        """Return the segment that is read after the one with `base_offset`."""
        found = self._known.get(base_offset)
        if found is None:
            return self._log.view.segments.higher_segment(base_offset)
        return self.floor_segment(max(found.end_offset + 1, self._log.log_start_offset))

    def __iter__(self) -> Iterator[ReadableSegment]:
        """Iterate from the oldest to the newest segment."""
        following = self.floor_segment(self._log.log_start_offset)
        while following is not None:
            yield following
            following = self.higher_segment(following.base_offset)

    def close(self) -> None:
        """Close all remote segments, and forget cached data."""
        for view in self._views.values():
            view.close_handlers()
        self._views.clear()
        self._known.clear()


class TieredView:
    """A log with its remote segments, for reading. See ReadableLog."""

    def __init__(self, log: TieredLog, layout: Layout, report: Callable[[Finding], None]) -> None:
        self._log, self._view = log, log.view
        self.segments = TieredSegments(log, layout, report)
        self.directory = log.directory
        self.log_start_offset = log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset after the last complete batch."""
        return self._view.log_end_offset

    @property
    def leader_epoch_cache(self) -> _Epochs:
        """The leader epochs of the whole log."""
        return _Epochs(self._log)

    @property
    def undecided(self) -> Sequence[AbortedTxn]:
        """See ReadableLog."""
        return self._view.undecided

    def log_end_offset_metadata(self) -> LogOffsetMetadata:
        """Return the log end offset with its position."""
        return self._view.log_end_offset_metadata()

    def fetch_high_watermark_metadata(self) -> LogOffsetMetadata:
        """Return the high watermark with its position, which is local."""
        return self._view.fetch_high_watermark_metadata()

    def fetch_last_stable_offset_metadata(self) -> LogOffsetMetadata:
        """Return the last stable offset with its position, which is local: later offsets are never copied."""
        return self._view.fetch_last_stable_offset_metadata()

    def offset_by_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """Return the first record with at least this timestamp. Searches the remote part first (findOffsetByTimestamp)."""
        found = self._remote_by_timestamp(timestamp)
        return fetch_offset_by_timestamp(self._view, timestamp) if found is None else found

    def _remote_by_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        log, remote = self._log, self._log.remote
        start, first_local = log.log_start_offset, min(self._view.segments.base_offsets, default=LONG_MAX)
        first = log.lineage.epoch_of(start)
        if remote is None or first is None:
            return None
        for entry in log.lineage.entries:
            for segment in remote.segments_of(entry.epoch) if entry.epoch >= first else ():
                is_due = segment.max_timestamp_ms >= timestamp and segment.end_offset >= start
                if is_due and segment.state is State.COPY_SEGMENT_FINISHED and log.lineage.has(segment):
                    if segment.start_offset >= first_local:
                        return None  # the local log, searched from its start, has this segment
                    return self.segments.view(segment).find_offset_by_timestamp(timestamp, start)
        return None

    def close(self) -> None:
        """Close remote segments. The caller closes the local log."""
        self.segments.close()


class _Epochs:
    """See Epochs."""

    def __init__(self, log: TieredLog) -> None:
        self.entries = log.lineage.entries
