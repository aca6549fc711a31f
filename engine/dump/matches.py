"""How much of a log a selection chooses: for --count, and for --tail, which shows what is left when the rest is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.discovery.names import FileKind
from engine.dump.entries_07 import Entries07
from engine.dump.gaps import gaps_of, report_gaps
from engine.dump.log_file import LogDump
from engine.dump.renderer import check_log_name
from engine.dump.selection import Selector, start_position

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.discovery.names import FileName
    from engine.dump.renderer import DumpOptions
    from engine.dump.reports import DumpReports
    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.record.reader import Chunk
    from engine.record.selection import Selection
    from engine.record.windows import Window


class Tally:
    """Counts instead of showing. A LogRenderer."""

    def __init__(self) -> None:
        self.batch_count = 0
        self.record_count = 0

    def batches(self, _window: Window, row: int, last_row: int) -> None:
        """Count batches."""
        self.batch_count += last_row - row

    def records(self, _chunk: Chunk, _base: int) -> None:
        """A tally always has a selection: see `matches`."""
        raise AssertionError("records without a selection")

    def matches(self, chunk: Chunk, base: int, selector: Selector) -> None:
        """Count what fits."""
        records, batches = selector.count(chunk, base)
        self.record_count += records
        self.batch_count += batches

    def trailing(self, count: int) -> None:
        """Nothing to count."""


def tally(
    files: ReadOnlyFiles, path: str, name: FileName, options: DumpOptions, selection: Selection,
    report: Callable[[Finding], None], reports: DumpReports,
) -> Tally:
    """Count the matches in one log. Raises UnreadableFile.

    A log of 0.7 has entries instead of batches, and messages instead of records, those in compressed sets included.
    """
    counted = Tally()
    selector = Selector(selection._replace(limit=None, tail=None))
    check_log_name(path, name, report)
    if name.kind is FileKind.LOG_07:
        with files.open(path) as file:
            entries = Entries07(file, path, options, report, selector)
            for entry in entries:
                counted.batch_count += 1
                counted.record_count += 1 if entry.codec == 0 else sum(1 for _ in entries.inside(entry))
        return counted
    gaps = gaps_of(files, path, name, selection)
    with files.open(path) as file:
        start = start_position(files, path, name, file, selection)
        try:
            LogDump(file, path, options, counted, report, gaps, selector).run(start)
        finally:
            report_gaps(gaps, files, path, name, report, reports)
    return counted
