"""A dam against floods of findings: very many batches, entries or segments may be wrong in the same way."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from engine.findings import Finding, Where

if TYPE_CHECKING:
    from collections.abc import Callable

    Report = Callable[[Finding], None]

MAX_FINDINGS = 1000  # of one code about one file that are reported one by one
MAX_OF_A_CODE = 10_000  # about all files of a partition; then only the first about each file


class FindingLimiter:
    """Takes the findings about one partition; `report` gets no more of a code than the limits say, and how many more there are.

    What is said of a file as a whole always comes through. Memory is bounded by the number of files.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._counts: Counter[tuple[str, str]] = Counter()
        self._held: Counter[tuple[str, str]] = Counter()
        self._passed: Counter[str] = Counter()  # by code

    def __call__(self, finding: Finding) -> None:
        """Take one finding."""
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
        """Report how many were held back."""
        for (code, path), count in self._held.items():
            self._report(Finding(code, Where(path), f"{count} more", count))


class FileFindings:
    """Reports findings about the file at `path`."""

    def __init__(self, path: str, report: Report) -> None:
        self._path, self._report = path, report

    def add(self, code: str, what: str, position: int | None = None, offset: int | None = None) -> None:
        """Something wrong at byte `position` of the file, about log offset `offset`."""
        self._report(Finding(code, Where(self._path, position, offset), what))
