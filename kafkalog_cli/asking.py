"""Before something is done that cannot be undone, or to several log dirs: who sits at a terminal is asked."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from engine.amounts import count_of
from kafkalog_cli.app import printable
from kafkalog_cli.interruption import INTERRUPTION
from kafkalog_cli.options import shown_size
from kafkalog_cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.log.report import Report
    from engine.log.session import Session

    Work = Callable[[Session, Progress], Iterator[Report]]

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


def is_to_be_asked(values: dict[str, Any]) -> bool:
    """May there be a question before a command at all?"""
    return not (values["dry_run"] or values.get("yes", True)) and is_at_terminal()


def ask(name: str, logs: Session, work: Work) -> None:
    """Ask before the command `name` does its work, if it cannot be undone or there are several log dirs. Raises Declined."""
    is_final = logs.dirs.quarantines is None and name not in _ADD_ONLY
    if not is_final and len(logs.log_dirs) < 2:  # several
        return
    names = names_of([log_dir.path for log_dir in logs.log_dirs])
    count = sum(len(log_dir.places) for log_dir in logs.log_dirs)
    undo = "; this cannot be undone" if is_final else ""
    summary = f"{name}: {names}, {count_of(count, 'partition')}, {_size(name, logs, work)}{undo}"
    if not agreed(summary):
        raise Declined


def _size(name: str, logs: Session, work: Work) -> str:
    """The bytes to go, as far as they can be known without reading all of the logs."""
    from engine.log.quarantine.stamps import list_files
    from engine.log.report import Action

    if name not in _DELETE:
        places = (place.path for log_dir in logs.log_dirs for place in log_dir.places)
        most = sum(stamp.size for path in places for stamp in list_files(logs.dirs.disk, path).values())
        return f"deletes or replaces at most {shown_size(most)} (--dry-run shows how much)"
    gone = (Action.REMOVED, Action.MARKED, Action.TRUNCATED)
    reports = logs.rehearse(lambda logs: work(logs, Progress()))
    size = sum(event.size or 0 for report in reports for event in report.events if event.action in gone)
    return f"deletes {shown_size(size)}"
