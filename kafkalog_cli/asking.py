"""Before something is done that cannot be undone, or to several log dirs: who sits at a terminal is asked."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from engine.amounts import count_of
from kafkalog_cli.amounts import shown_size
from kafkalog_cli.app import printable
from kafkalog_cli.interruption import INTERRUPTION
from kafkalog_cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from engine.errors import KafkalogError
    from engine.files import Files
    from engine.log.logdir.log_dirs import LogDir
    from engine.log.logdir.log_manager import LogManager
    from engine.log.report import Report
    from kafkalog_cli.engine_options import Opening

    Perform = Callable[[LogManager, Opening, Progress], Generator[Report, None, None]]

DECLINED = 4  # exit status: nothing was changed
_YES = ("y", "yes")
_ADD_ONLY = ("append", "roll")  # commands after which everything is there that was there before
_DELETE = ("delete-records", "retain", "truncate")  # which read little: what they delete is known before they do
_SHOWN = 4  # log dirs


class Declined(Exception):  # no error: the user's answer
    """The user does not want it."""


def is_at_terminal() -> bool:
    """Does somebody sit there who reads a question and can answer it? Not in a pipe, nor with output to a file."""
    return sys.stdin is not None and all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def agreed(summary: str) -> bool:
    """Print the summary and ask. True without a word where nobody sits at a terminal."""
    if not is_at_terminal():
        return True
    click.echo(printable(summary), err=True)
    click.echo("Continue? [y/N] ", err=True, nl=False)
    with INTERRUPTION.at_once():
        answer = sys.stdin.readline()
    if answer.strip().lower() in _YES:
        return True
    click.echo("nothing was changed", err=True)
    return False


def names_of(log_dirs: list[str]) -> str:
    """How many log dirs, and which."""
    shown = ", ".join(log_dirs[:_SHOWN]) + (", …" if len(log_dirs) > _SHOWN else "")
    return f"{count_of(len(log_dirs), 'log dir')} ({shown})"


class Question:
    """What is to be asked before an operation on logs. `is_kept`: in a quarantine is kept what it changes."""

    def __init__(
        self, operation: str, perform: Perform, opening: Opening, errors: list[KafkalogError], *, is_kept: bool
    ) -> None:
        self._operation, self._perform, self._opening, self._errors = operation, perform, opening, errors
        self._is_final = not is_kept and operation not in _ADD_ONLY

    def is_to_be_asked(self, values: dict[str, Any]) -> bool:
        """May there be a question at all?"""
        return not (self._opening.dry_run or values.get("yes", True)) and is_at_terminal()

    def ask(self, files: Files, log_dirs: list[LogDir]) -> None:
        """Ask, where it cannot be undone or there are several log dirs. Raises Declined."""
        if not self._is_final and len(log_dirs) < 2:  # several
            return
        names = names_of([log_dir.path for log_dir in log_dirs])
        count = sum(len(log_dir.places) for log_dir in log_dirs)
        undo = "; this cannot be undone" if self._is_final else ""
        summary = f"{self._operation}: {names}, {count_of(count, 'partition')}, {self._size(files, log_dirs)}{undo}"
        if not agreed(summary):
            raise Declined

    def _size(self, files: Files, log_dirs: list[LogDir]) -> str:
        """The bytes to go, as far as they can be known without reading all of the logs."""
        from engine.log.logdir.log_manager import LogManager
        from engine.log.logdir.startup import survey
        from engine.log.report import Action
        from engine.overlay import OverlayFiles

        if self._operation not in _DELETE:
            return f"deletes or replaces at most {shown_size(_size_of(files, log_dirs))} (--dry-run shows how much)"
        overlay = OverlayFiles(files, self._opening.now)
        manager = LogManager(lambda _path: overlay, survey(files, log_dirs), self._opening.settings, self._opening.now)
        gone = (Action.REMOVED, Action.MARKED, Action.TRUNCATED)
        reports = self._perform(manager, self._opening, Progress())
        size = sum(event.size or 0 for report in reports for event in report.events if event.action in gone)
        self._errors.clear()  # the work itself will tell
        return f"deletes {shown_size(size)}"


def _size_of(files: Files, log_dirs: list[LogDir]) -> int:
    from engine.log.quarantine.stamps import list_files

    places = (place.path for log_dir in log_dirs for place in log_dir.places)
    return sum(stamp.size for path in places for stamp in list_files(files, path).values())
