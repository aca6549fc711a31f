"""Check that the batches and segments of a partition have consecutive offsets. A gap is a loss, or made by the cleaner."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import offsets_text
from engine.discovery.names import log_file_name, parse_file_name
from engine.findings import Finding, Where
from engine.kernels.verify import largest_last_offset
from engine.log.continuity.header_gaps import HeaderGaps, explained_finding, loss_findings
from engine.log.tiering import nothing_known

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.files import ReadOnlyFiles
    from engine.log.tiering import Policy
    from engine.record.windows import Window

    Report = Callable[[Finding], None]


class _Gap(NamedTuple):
    """Offsets [first, end) that no segment holds."""

    first: int
    end: int


class _Segment(NamedTuple):
    """The gaps of one segment, its number in the log, and the path of the next segment in a list, empty if there is none."""

    path: str
    gaps: HeaderGaps
    number: int
    following: list[str]


class ContinuityCheck:
    """Call it for every segment in order, with all windows of each.

    directory     of the partition      epoch_starts  start offsets of its leader epochs, if the checkpoint is reliable
    policy        compacted: gaps within segments are not losses; known not to be compacted: keys do not explain a gap

    `losses` are the gaps that were reported as losses, as offsets [first, end).
    """

    def __init__(
        self, files: ReadOnlyFiles, directory: str, report: Report, epoch_starts: Sequence[int] = (),
        policy: Policy = nothing_known,
    ) -> None:
        self._files, self._directory, self._report, self._epoch_starts = files, directory, report, epoch_starts
        self._policy = policy
        self.losses: list[tuple[int, int]] = []
        self._gaps: list[_Gap] = []  # between segments
        self._segments: list[_Segment] = []  # segments with gaps, and without traces of the cleaner in them or after them
        self._last: _Segment | None = None
        self._paths: list[str] = []  # of the segments so far
        self._end: int | None = None  # offset after the last one so far
        self._has_traces = False  # of the cleaner, in any segment

    @property
    def log_end(self) -> int | None:
        """The highest end of a batch, or the base offset of the last segment if that is higher. None without segments."""
        return self._end

    def begin_segment(self, base_offset: int, path: str) -> None:
        """Start a segment."""
        if self._end is not None and self._end < base_offset:
            self._gaps.append(_Gap(self._end, base_offset))
        self._end = base_offset
        if self._last is not None:
            self._last.following.append(path)
        self._end_segment()
        self._last = _Segment(path, HeaderGaps(base_offset), len(self._paths), [])
        self._paths.append(path)

    def skip_segment(self) -> None:
        """The content of the segment is not known, only its base offset."""
        self._end = None

    def pass_segment(self, end_offset: int) -> None:
        """All offsets of the segment up to `end_offset` are known to be present."""
        self._end = end_offset if self._end is None else max(self._end, end_offset)

    def feed(self, window: Window) -> None:
        """Check the offsets of the window's batches."""
        assert self._end is not None  # begin_segment has set them
        assert self._last is not None
        self._last.gaps.feed_batches(window)
        self._end = max(self._end, largest_last_offset(window.batches.table, window.rows) + 1)

    def finish(self) -> None:
        """End the log: report the gaps that compaction does not explain."""
        self._note_rolled_ahead()
        self._end_segment()
        is_compacted = bool(self._segments) and self._policy().compacted
        segments = [segment for segment in self._segments if not is_compacted and not self._was_cleaned(segment.path)]
        is_cleaned = self._has_traces or is_compacted
        explained = [segment for segment in segments if self._keys_explain(segment)]
        for segment in segments:
            if segment in explained:
                self._report(explained_finding(segment.gaps, segment.path))
                continue
            self.losses += ((gap.before + 1, gap.after) for gap in segment.gaps.losses())
            for finding in loss_findings(segment.gaps, segment.path):
                self._report(finding)
        for gap in [] if explained or is_cleaned else self._gaps:
            name = log_file_name(gap.first)
            if not self._was_cleaned(f"{self._directory}/{name}"):
                self.losses.append(gap)
                what = f"no segment holds {offsets_text(gap.first, gap.end)}: {name} may be lost"
                self._report(Finding("offset-gap", Where(self._directory, None, gap.first), what))

    def _note_rolled_ahead(self) -> None:
        """Drop a gap before an empty last segment if nothing shows that records were written there."""
        if self._last is None or not self._gaps or self._gaps[-1].end != self._end:
            return
        from engine.log.continuity.cleaner_traces import is_rolled_ahead

        gap, path = self._gaps[-1], self._last.path
        if is_rolled_ahead(self._files, path, gap.first, gap.end, self._epoch_starts):
            self._gaps.pop()
            what = f"empty, and the log before it ends at offset {gap.first}: nothing shows that more was written"
            self._report(Finding("rolled-ahead", Where(path, None, gap.first), what))

    def _end_segment(self) -> None:
        if self._last is not None and self._last.gaps.compacted:
            self._has_traces = True
            self._segments.clear()  # the cleaner works from the start of a log, so it has processed all of them
        elif self._last is not None and self._last.gaps.losses():
            self._segments.append(self._last)
        self._last = None

    def _keys_explain(self, segment: _Segment) -> bool:
        if self._policy().compacted is False:
            return False
        from engine.log.continuity.cleaner_traces import keys_explain_gaps  # few logs have gaps

        positions = [gap.position for gap in segment.gaps.losses()]
        return keys_explain_gaps(self._files, segment.path, positions, self._paths[: segment.number], segment.following)

    def _was_cleaned(self, path: str) -> bool:
        from engine.log.continuity.cleaner_traces import was_cleaned

        parsed = parse_file_name(path.rpartition("/")[2])
        return parsed is not None and was_cleaned(self._files, self._files.absolute(path), parsed)
