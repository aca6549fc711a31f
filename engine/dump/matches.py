"""How much of a log a selection chooses: for --count, and for --tail, which shows what is left when the rest is known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.dump.gaps import gaps_of, report_gaps
from engine.dump.log_file import LogDump
from engine.dump.selection import Selector
from engine.dump.skipping import start_position

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.dump.options import DumpOptions
    from engine.dump.reports import DumpReports
    from engine.dump.selection import Selection
    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.layout import FileName
    from engine.record.reader import Chunk
    from engine.record.windows import Window


class Tally:
    """Counts instead of showing. A LogRenderer."""

    def __init__(self) -> None:
        self.batch_count = 0
        self.record_count = 0

    def batches(self, _window: Window, row: int, last_row: int) -> None:
        """Count batches."""
        self.batch_count += last_row - row

    def records(self, chunk: Chunk, _base: int) -> None:
        """Count batches and records."""
        self.batch_count += chunk.last_row - chunk.first_row
        self.record_count += chunk.end - chunk.first

    def trailing(self, count: int) -> None:
        """Nothing to count."""


def tally(
    files: ReadOnlyFiles, path: str, name: FileName, options: DumpOptions, selection: Selection,
    report: Callable[[Finding], None], reports: DumpReports,
) -> Tally:
    """Count the matches in one log. Raises UnreadableFile."""
    counted, gaps = Tally(), gaps_of(files, path, name, selection)
    selector = Selector(replace(selection, limit=None, tail=None))
    with files.open(path) as file:
        start = start_position(files, path, name, file, selection)
        try:
            LogDump(file, path, options, counted, report, gaps, selector).run(start)
        finally:
            report_gaps(gaps, path, files.absolute(path), report, reports)
    return counted
