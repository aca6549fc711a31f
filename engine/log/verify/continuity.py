"""Whether the segments of a partition follow one another: a gap between two of them may be a segment that is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.findings import Finding, Where
from engine.formats import BatchField
from engine.kernels.verify import next_hole
from engine.layout import log_file_name, parse_file_name
from engine.log.scan.cleaned import was_cleaned

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import ReadOnlyFiles
    from engine.record.windows import Window

    Report = Callable[[Finding], None]


class _Gap(NamedTuple):
    """Offsets [first, end) that no segment holds."""

    first: int
    end: int


class ContinuityCheck:
    """Tell it of every segment, from the first on, and feed it the windows of each. `directory` is the partition's."""

    def __init__(self, files: ReadOnlyFiles, directory: str, report: Report) -> None:
        self._files, self._directory, self._report = files, directory, report
        self._gaps: list[_Gap] = []
        self._end: int | None = None  # behind the last offset so far
        self._has_holes = False  # inside a segment: the cleaner was here

    @property
    def log_end(self) -> int | None:
        """Behind the last offset, or where an empty last segment begins; None without segments."""
        return self._end

    def begin_segment(self, base_offset: int) -> None:
        """A segment begins."""
        if self._end is not None and self._end < base_offset:
            self._gaps.append(_Gap(self._end, base_offset))
        self._end = base_offset

    def feed(self, window: Window) -> None:
        """Follow the offsets of the window's batches."""
        assert self._end is not None  # begin_segment has set it
        table, rows = window.batches.table, window.rows
        if not self._has_holes:
            self._has_holes = next_hole(table, 0, rows, self._end - 1) < rows
        self._end = max(self._end, table[BatchField.LAST_OFFSET, rows - 1] + 1)

    def finish(self) -> None:
        """The log ends: report the gaps that no compaction explains."""
        for gap in [] if self._has_holes else self._gaps:
            name = log_file_name(gap.first)
            parsed = parse_file_name(name)
            absolute = self._files.absolute(f"{self._directory}/{name}")
            if parsed is None or not was_cleaned(self._files, absolute, parsed):
                what = f"no segment holds offsets {gap.first} to {gap.end - 1}: {name} may be lost"
                self._report(Finding("offset-gap", Where(self._directory, None, gap.first), what))
