"""The end of the text of a command that saw several partitions: how many of which verdict, and the next command."""

from __future__ import annotations

import shlex
from collections import Counter
from time import perf_counter
from typing import TYPE_CHECKING

import click

from engine.amounts import count_of, duration_text
from engine.findings import Severity
from kafkalog_cli.app import printable
from kafkalog_cli.options import shown_size
from kafkalog_cli.streams import colour_choice

if TYPE_CHECKING:
    from collections.abc import Iterable

_COLOURS = {Severity.INFO: "green", Severity.WARNING: "yellow", Severity.ERROR: "red"}


class Total:
    """Counts partitions by verdict, from when it is made."""

    def __init__(self) -> None:
        self._begun = perf_counter()
        self._counts: Counter[tuple[Severity, str]] = Counter()
        self._size = 0

    def add(self, verdict: str, severity: Severity, size: int) -> None:
        """Take one partition, of `size` bytes."""
        self._counts[severity, verdict] += 1
        self._size += size

    def say(self, next_command: Iterable[str] = (), *, quiet: bool = False) -> None:
        """Print it where there were several partitions; `quiet`: and something is wrong with one."""
        count = self._counts.total()
        if count < 2 or (quiet and all(severity is Severity.INFO for severity, _ in self._counts)):  # several
            return
        ranks = list(Severity)
        parts = ", ".join(
            click.style(f"{number} {verdict}", fg=_COLOURS[severity])
            for (severity, verdict), number in sorted(self._counts.items(), key=lambda one: (ranks.index(one[0][0]), one[0][1]))
        )
        took = duration_text(round((perf_counter() - self._begun) * 1000))
        click.echo(f"{count_of(count, 'partition')}: {parts}; {shown_size(self._size)} in {took}", color=colour_choice())
        words = list(next_command)
        if words:
            click.echo(f"next: {printable(shlex.join(words))}")
