"""The segments of a log by base offset, positions in them, and files that wait for deletion. Mirrors LogSegments.

A broker deletes a file that was renamed to `.deleted` after file.delete.delay.ms; kafkalog deletes it when the log is closed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from engine.discovery.names import DELETED, file_name
from engine.log.report import Action

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.files import Files
    from engine.log.report import Report
    from engine.log.segment.log_segment import LogSegment  # named in a base class, as text
    from engine.log.segment.readable_segment import ReadableSegment

S = TypeVar("S", bound="ReadableSegment")


class Segments(Generic[S]):
    """A sorted map from base offset to segment. Iterates over a copy, from the oldest to the newest."""

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._segments: dict[int, S] = {}

    def __len__(self) -> int:
        return len(self._bases)

    def __iter__(self) -> Iterator[S]:
        return iter([self._segments[base] for base in self._bases])

    def __contains__(self, base_offset: int) -> bool:
        return base_offset in self._segments

    def add(self, segment: S) -> S | None:
        """Add `segment`. Returns the one with the same base offset that it replaces."""
        before = self._segments.get(segment.base_offset)
        if before is None:
            insort(self._bases, segment.base_offset)
        self._segments[segment.base_offset] = segment
        return before

    def remove(self, base_offset: int) -> None:
        """Remove the segment that begins at `base_offset`, if there is one. Its files stay."""
        if self._segments.pop(base_offset, None) is not None:
            del self._bases[bisect_left(self._bases, base_offset)]

    def clear(self) -> None:
        """Remove all segments. Their files stay."""
        self._bases.clear()
        self._segments.clear()

    def close(self) -> None:
        """Close all segments."""
        for segment in self:
            segment.close()

    def close_handlers(self) -> None:
        """Close all files without changing them."""
        for segment in self:
            segment.close_handlers()

    @property
    def base_offsets(self) -> list[int]:
        """The base offsets of all segments, ascending."""
        return list(self._bases)

    def get(self, base_offset: int) -> S | None:
        """The segment that begins at `base_offset`."""
        return self._segments.get(base_offset)

    def values(self, first: int | None = None, end: int | None = None) -> list[S]:
        """The segments from the one that contains offset `first` (or the next one) to the last that begins below `end`."""
        low, high = 0, len(self._bases)
        if first is not None:
            if end is not None and end < first:
                raise ValueError(f"segments from offset {first} to {end}")
            if first == end:
                return []
            low = max(0, bisect_right(self._bases, first) - 1)
        if end is not None:
            high = bisect_left(self._bases, end)
        return [self._segments[base] for base in self._bases[low:high]]

    def non_active_segments_from(self, first: int) -> list[S]:
        """The segments from the one that contains `first` on, without the active one."""
        active = self.active_segment.base_offset
        return [] if first > active else self.values(first, active)

    def floor_segment(self, offset: int) -> S | None:
        """The segment with the largest base offset at or below `offset`."""
        return self._at(bisect_right(self._bases, offset) - 1)

    def lower_segment(self, offset: int) -> S | None:
        """The segment with the largest base offset below `offset`."""
        return self._at(bisect_left(self._bases, offset) - 1)

    def higher_segment(self, offset: int) -> S | None:
        """The segment with the smallest base offset above `offset`."""
        return self._at(bisect_right(self._bases, offset))

    def position_of(self, offset: int) -> LogOffsetMetadata | None:
        """Base offset and position of the first batch that ends at or after `offset`; None: there is none."""
        segment = self.floor_segment(offset)
        while segment is not None:
            head = segment.translate_offset(offset)
            if head is not None:
                return LogOffsetMetadata(head.base_offset, segment.base_offset, head.position)
            segment = self.higher_segment(segment.base_offset)
        return None

    @property
    def last_segment(self) -> S | None:
        """The newest segment."""
        return self._at(len(self._bases) - 1)

    @property
    def active_segment(self) -> S:
        """The segment that receives appends. There must be one."""
        return self._segments[self._bases[-1]]

    @property
    def size(self) -> int:
        """Bytes of all .log files."""
        return sum(segment.size for segment in self)

    def _at(self, number: int) -> S | None:
        return self._segments[self._bases[number]] if 0 <= number < len(self._bases) else None


class LogSegments(Segments["LogSegment"]):
    """The segments of a log that may change."""


class LogOffsetMetadata(NamedTuple):
    """An offset and the position of its batch: base offset of the segment, byte; None if they were not determined."""

    message_offset: int
    segment_base_offset: int | None = None
    position: int | None = None

    @property
    def is_offset_only(self) -> bool:
        """Is the position not determined?"""
        return self.segment_base_offset is None


class DeferredDeletion:
    """Segments and files that were renamed to `.deleted` and will be removed."""

    def __init__(self, files: Files, directory: str, report: Report) -> None:
        self._files, self._directory, self._report = files, directory, report
        self._segments: list[LogSegment] = []
        self._waiting: set[LogSegment] = set()  # the same segments, for a fast lookup
        self._paths: list[str] = []

    def mark_segments(self, segments: Iterable[LogSegment], *, newest_first: bool = False) -> None:
        """Rename all files of `segments` to `.deleted` and store them. Mirrors LocalLog.deleteSegmentFiles.

        Each deletion is synced before the next one: after a power cut the log must not have a hole. The oldest segment is
        first if the log start offset moves; `newest_first` if the log is truncated.
        If a segment with the same name waits already, the later one, created since the log was opened, is removed at once.
        """
        marked = [segment for segment in segments if segment not in self._waiting]
        names = {segment.base_offset for segment in self._segments}
        for segment in reversed(marked) if newest_first else marked:
            if segment.suffix != DELETED and segment.base_offset in names:
                segment.delete_if_exists()
            elif segment.suffix != DELETED:
                segment.change_file_suffixes(segment.suffix, DELETED)
            self._files.sync_directory(self._directory)
        self._segments += [segment for segment in marked if segment.suffix == DELETED]
        self._waiting.update(marked)

    def is_deleted_at_once(self, segment: LogSegment) -> bool:
        """Would marking `segment` remove it at once, because one with the same name waits already?"""
        return segment.suffix != DELETED and any(one.base_offset == segment.base_offset for one in self._segments)

    def add_path(self, path: str) -> None:
        """Add a file that has the suffix `.deleted` already."""
        self._paths.append(path)

    def run(self, *, keep: bool) -> None:
        """Remove the waiting files, or with `keep` only close them. Afterwards nothing waits."""
        if keep:
            for path in (*(segment.log_path for segment in self._segments), *self._paths):
                self._report.add(Action.MARKED, file_name(path), "kept for later use")
            self.release()
            return
        segments, paths = self._segments, self._paths
        self._forget()
        for segment in segments:
            segment.delete_if_exists()
        for path in paths:
            self._files.remove(path)
        if segments or paths:
            self._files.sync_directory(self._directory)

    def release(self) -> None:
        """Close the waiting files, and keep them on the disk."""
        for segment in self._segments:
            segment.close_handlers()
        self._forget()

    def _forget(self) -> None:
        self._segments, self._paths = [], []
        self._waiting.clear()
