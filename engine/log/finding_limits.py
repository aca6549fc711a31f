"""Limits on repeated findings: very many batches, entries or segments may have the same problem."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from engine.findings import Finding, Where

if TYPE_CHECKING:
    from collections.abc import Callable

    Report = Callable[[Finding], None]

MAX_FINDINGS = 1000  # findings with one code about one file
MAX_OF_A_CODE = 10_000  # findings with one code about a partition; after that only the first about each file is reported


class FindingLimiter:
    """Passes the findings about one partition to `report`, up to the limits for each code, and then the number of the others.

    Findings about a file as a whole are always passed. Memory is bounded by the number of files.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._counts: Counter[tuple[str, str]] = Counter()
        self._held: Counter[tuple[str, str]] = Counter()
        self._passed: Counter[str] = Counter()  # by code

    def __call__(self, finding: Finding) -> None:
        """Report the finding, or count it if the limit for its code is reached."""
        if finding.where.position is None and finding.where.offset is None:
            self._report(finding)
            return
        key = (finding.code, finding.where.file)
        self._counts[key] = count = self._counts[key] + 1
        if count > (MAX_FINDINGS if self._passed[finding.code] < MAX_OF_A_CODE else 1):
            self._held[key] += 1
            return
        self._passed[finding.code] += 1
        self._report(finding)

    def finish(self) -> None:
        """Report the number of findings that were not passed."""
        for (code, path), count in self._held.items():
            self._report(Finding(code, Where(path), f"{count} more", count))


class FileFindings:
    """Reports findings about the file at `path`."""

    def __init__(self, path: str, report: Report) -> None:
        self._path, self._report = path, report

    def add(self, code: str, what: str, position: int | None = None, offset: int | None = None) -> None:
        """Report a problem at byte `position` of the file, or at log offset `offset`."""
        self._report(Finding(code, Where(self._path, position, offset), what))
