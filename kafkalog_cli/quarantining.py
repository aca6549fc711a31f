"""The question before a command that cannot be undone; quarantines by options, and the messages about them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from engine.amounts import count_of
from engine.errors import KafkalogError, argument
from kafkalog_cli.app import kept_fields, kept_in, printable
from kafkalog_cli.interruption import INTERRUPTION
from kafkalog_cli.options import shown_size
from kafkalog_cli.output import print_always
from kafkalog_cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.dump.json_stream import JsonStream
    from engine.log.quarantine.quarantining_files import QuarantiningFiles
    from engine.log.report import Report
    from engine.log.session import Quarantines, Session
    Work = Callable[[Session, Progress], Iterator[Report]]

DECLINED = 4  # exit status if nothing was changed
_YES = ("y", "yes")
_ADD_ONLY = ("append", "roll")  # commands that remove nothing
_DELETE = ("delete-records", "retain", "truncate")  # commands that read little: the amount they delete is known before
_SHOWN = 4  # log dirs in a message


def quarantines_for(command: str, values: dict[str, Any]) -> Quarantines | None:
    """Return the quarantines for the options; None: keep nothing. Commands without --no-quarantine keep only on request."""
    is_chosen = values.get("quarantine") is not None
    if is_chosen and values.get("no_quarantine"):
        raise click.UsageError("--quarantine and --no-quarantine exclude each other")
    if not is_chosen and values.get("no_quarantine", True):
        return None
    from engine.files import now_ms
    from engine.log.session import Quarantines

    now = now_ms() if values["now"] is None else values["now"]
    return Quarantines(command, now, values["quarantine"], unless=_elsewhere(), dry_run=values["dry_run"])


def print_kept(quarantines: Quarantines, form: str, *, dry_run: bool) -> None:
    """Print where data is kept, even if the work or its output, of form `form`, failed."""
    for made in quarantines.made:
        if made.is_used:
            print_always(would_keep(made) if dry_run else kept_in(made), err=form != "text" or sys.exc_info()[0] is not None)
    for made in quarantines.made:
        _print_unfinished(made)


def put_kept(quarantines: Quarantines | None, stream: JsonStream | None, *, dry_run: bool) -> None:
    """Write objects `kept` to `stream`, once the quarantines are complete."""
    if quarantines is None or stream is None:
        return
    for made in quarantines.made:
        if made.is_used:
            stream.put("kept", kept_fields(made, dry_run=dry_run))


def would_keep(quarantine: QuarantiningFiles) -> str:
    """Return the line of a dry run that says where a command would keep data."""
    return f"would keep in quarantine: {shown_size(quarantine.stored_size)}, in {argument(quarantine.directory)}"


def _print_unfinished(quarantine: QuarantiningFiles) -> None:
    """Report interrupted earlier commands in the same log dirs, and how to undo them."""
    from engine.files import ReadOnlyFiles
    from engine.log.quarantine.kept import left_unfinished

    own = (quarantine.directory,) if quarantine.is_used else ()
    for log_dir in quarantine.log_dirs:
        try:
            earlier = [kept.path for kept in left_unfinished(ReadOnlyFiles(), log_dir, quarantine.directory)]
        except KafkalogError:  # only a hint: the result was reported
            continue
        if earlier:
            paths = " ".join(argument(path) for path in (*own, *earlier))
            what = "a command that was stopped changed this log dir before" if len(earlier) == 1 else (
                f"{len(earlier)} commands that were stopped changed this log dir before")
            print_always(f"{what}; undo everything with: kafkalog restore --salvage {paths}", err=True)


def _elsewhere() -> str:
    other = "--no-quarantine" in (option for one in click.get_current_context().command.params for option in one.opts)
    return "--quarantine DIR chooses another place" + (", --no-quarantine keeps nothing" if other else "")


class Declined(Exception):  # not an error: the user's answer
    """The user declined."""


def is_at_terminal() -> bool:
    """Return whether a user can read a question and answer it: stdin, stdout and stderr are terminals."""
    return sys.stdin is not None and all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def agreed(summary: str) -> bool:
    """Print the summary and ask. True without a question if no terminal is there."""
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
    """Return the number and the paths of log dirs."""
    shown = ", ".join(log_dirs[:_SHOWN]) + (", …" if len(log_dirs) > _SHOWN else "")
    return f"{count_of(len(log_dirs), 'log dir')} ({shown})"


def is_to_be_asked(values: dict[str, Any]) -> bool:
    """Return whether a question is possible at all."""
    return not (values["dry_run"] or values.get("yes", True)) and is_at_terminal()


def ask(name: str, logs: Session, work: Work) -> None:
    """Ask before the command `name` does its work, if it cannot be undone or there are several log dirs. Raises Declined."""
    is_final = logs.dirs.quarantines is None and name not in _ADD_ONLY
    if not is_final and len(logs.log_dirs) < 2:  # several
        return
    names = names_of([log_dir.path for log_dir in logs.log_dirs])
    count = sum(len(log_dir.directories) for log_dir in logs.log_dirs)
    undo = "; this cannot be undone" if is_final else ""
    summary = f"{name}: {names}, {count_of(count, 'partition')}, {_size(name, logs, work)}{undo}"
    if not agreed(summary):
        raise Declined


def _size(name: str, logs: Session, work: Work) -> str:
    """Return the bytes to be deleted, as far as known without reading the logs."""
    from engine.log.quarantine.stamps import list_files
    from engine.log.report import Action

    if name not in _DELETE:
        places = (place.path for log_dir in logs.log_dirs for place in log_dir.directories)
        most = sum(stamp.size for path in places for stamp in list_files(logs.dirs.disk, path).values())
        return f"deletes or replaces at most {shown_size(most)} (--dry-run shows how much)"
    gone = (Action.REMOVED, Action.MARKED, Action.TRUNCATED)
    reports = logs.rehearse(lambda logs: work(logs, Progress()))
    size = sum(event.size or 0 for report in reports for event in report.events if event.action in gone)
    return f"deletes {shown_size(size)}"
