"""What commands share: findings on stderr, and the exit status that they decide."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import click

from engine.findings import Severity

if TYPE_CHECKING:
    from engine.errors import KafkalogError
    from engine.findings import Finding

SHOWN_PER_CODE = 10  # findings of one code and file that are written out; more are counted
_COLOURS = {Severity.INFO: "blue", Severity.WARNING: "yellow", Severity.ERROR: "red"}


def say_interpreted() -> None:
    """Tell people, not scripts, that this runs without compiled kernels. For commands that read records."""
    from engine.kernels import BUILD

    if BUILD == "interpreted" and sys.stderr.isatty():
        click.echo("kafkalog: the kernels are not compiled: same results, about ten times slower", err=True)


class Outcome:
    """Collects findings and errors, writes them to stderr, knows the exit status.

    quiet_codes  codes that something else reports in its own words; they count all the same
    """

    def __init__(self, quiet_codes: frozenset[str] = frozenset()) -> None:
        self._quiet = quiet_codes
        self._counts: Counter[tuple[str, str]] = Counter()
        self._explained: set[str] = set()
        self._status = 0
        self._explain = sys.stderr.isatty()

    def finding(self, finding: Finding) -> None:
        """Take one finding."""
        if finding.severity is not Severity.INFO:
            self._status = max(self._status, 4)
        if finding.code in self._quiet:
            return
        key = (finding.code, finding.where.file)
        self._counts[key] += 1
        if self._counts[key] <= SHOWN_PER_CODE:
            self._show(finding)

    def error(self, error: KafkalogError) -> None:
        """Take work that could not be done."""
        self._status = max(self._status, error.exit_status)
        _line("error", error.code, "red", str(error), error.do)

    def finish(self) -> int:
        """Say what was left out; returns the exit status."""
        for (code, path), count in self._counts.items():
            if count > SHOWN_PER_CODE:
                click.echo(f"{printable(path)}: {count - SHOWN_PER_CODE} more findings [{code}]", err=True)
        return self._status

    def _show(self, finding: Finding) -> None:
        kind = finding.kind
        place = finding.where.file
        if finding.where.position is not None:
            place += f" at byte {finding.where.position}"
        if finding.where.offset is not None:
            place += f", offset {finding.where.offset}"
        _line(kind.severity.value, finding.code, _COLOURS[kind.severity], f"{place}: {finding.what}", None)
        if self._explain and finding.code not in self._explained:
            self._explained.add(finding.code)
            click.echo(f"  why  {kind.why}\n  do   {kind.do.replace('{path}', finding.where.file)}", err=True)


def _line(severity: str, code: str, colour: str, message: str, do: str | None) -> None:
    click.echo(f"{click.style(f'{severity}[{code}]', fg=colour, bold=True)} {printable(message)}", err=True)
    if do:
        click.echo(f"  do   {printable(do)}", err=True)


def printable(text: str) -> str:
    """Text for stderr: control characters and undecodable bytes of file names shown escaped."""
    from engine.log.record_text import terminal_safe

    return terminal_safe(text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))
