"""Scans of the segments that recovery will ask for: begun in threads before, kept where a second one would be the same."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.background import Background
from engine.log.segment.segment_scan import ScanStop

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.log.segment.log_segment import LogSegment
    from engine.log.segment.segment_scan import SegmentScan

_KEPT_BYTES = 8 << 20  # of index entries, in scans that are kept


class ScanAhead:
    """Scans segments in `jobs` threads; with one job each is scanned when it is asked for. Close it."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._idle: list[Background[SegmentScan]] = []
        self._upcoming: deque[LogSegment] = deque()
        self._begun: dict[LogSegment, Background[SegmentScan]] = {}
        self._kept: dict[int, SegmentScan] = {}
        self._kept_bytes = 0

    def expect(self, segments: Iterable[LogSegment]) -> None:
        """These will be asked for next, in this order. What was begun of others is thrown away."""
        expected = {segment: None for segment in segments if self._known(segment) is None}  # in order
        for segment in [begun for begun in self._begun if begun not in expected]:
            self._begun.pop(segment).close()
        self._upcoming = deque(segment for segment in expected if segment not in self._begun)
        self._begin()

    def take(self, segment: LogSegment) -> SegmentScan:
        """The scan of `segment` as it is now."""
        while self._upcoming and self._upcoming[0] is segment:
            self._upcoming.popleft()
        scan = self._known(segment)
        begun = self._begun.pop(segment, None)
        if begun is None:
            self._begin()
            return segment.scan() if scan is None else scan
        try:
            found = begun.wait()
        finally:
            self._idle.append(begun)
            self._begin()
        return found if scan is None else scan

    def keep(self, segment: LogSegment, scan: SegmentScan) -> None:
        """`segment` was recovered by `scan`: the next scan would find the same, up to where it was cut."""
        size = len(scan.offset_entries) + len(scan.time_entries)
        if scan.error is None and scan.valid_size == segment.size and self._kept_bytes + size <= _KEPT_BYTES:
            self._kept[segment.base_offset] = replace(scan, size=scan.valid_size, stop=ScanStop.END)
            self._kept_bytes += size

    def _known(self, segment: LogSegment) -> SegmentScan | None:
        scan = self._kept.get(segment.base_offset)
        return scan if scan is not None and scan.size == segment.size else None

    def _begin(self) -> None:
        if self._jobs < 2:
            return
        while self._upcoming and len(self._begun) < self._jobs:
            segment, thread = self._upcoming.popleft(), self._idle.pop() if self._idle else Background("scan")
            thread.begin(segment.scan)
            self._begun[segment] = thread

    def close(self) -> None:
        """End the threads; what they read is thrown away. A second call does nothing."""
        self._upcoming.clear()
        for thread in (*self._begun.values(), *self._idle):
            thread.close()
        self._begun.clear()
        self._idle.clear()
