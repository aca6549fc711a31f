"""The quarantines that the options of a command ask for, and what is said of them in the end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from engine.errors import KafkalogError, argument
from kafkalog_cli.app import kept_fields, kept_in
from kafkalog_cli.options import shown_size
from kafkalog_cli.output import say_at_any_rate

if TYPE_CHECKING:
    from engine.dump.json_stream import JsonStream
    from engine.log.quarantine.seam import QuarantiningFiles
    from engine.log.session import Quarantines


def quarantines_for(command: str, values: dict[str, Any]) -> Quarantines | None:
    """What the options ask for; None: nothing is kept. A command without --no-quarantine keeps only what it is asked to."""
    is_chosen = values.get("quarantine") is not None
    if is_chosen and values.get("no_quarantine"):
        raise click.UsageError("--quarantine and --no-quarantine exclude each other")
    if not is_chosen and values.get("no_quarantine", True):
        return None
    from engine.files import now_ms
    from engine.log.session import Quarantines

    now = now_ms() if values["now"] is None else values["now"]
    return Quarantines(command, now, values["quarantine"], unless=_elsewhere(), dry_run=values["dry_run"])


def say_kept(quarantines: Quarantines, form: str, *, dry_run: bool) -> None:
    """Print where it is kept, whatever happened to the work and to the output, whose form is `form`."""
    for made in quarantines.made:
        if made.is_used:
            say_at_any_rate(would_keep(made) if dry_run else kept_in(made), err=form != "text" or sys.exc_info()[0] is not None)
    for made in quarantines.made:
        _say_unfinished(made)


def put_kept(quarantines: Quarantines | None, stream: JsonStream | None, *, dry_run: bool) -> None:
    """The same as objects `kept` of `stream`, once the quarantines are finished."""
    if quarantines is None or stream is None:
        return
    for made in quarantines.made:
        if made.is_used:
            stream.put("kept", kept_fields(made, dry_run=dry_run))


def would_keep(quarantine: QuarantiningFiles) -> str:
    """The line of a dry run that says where a command would keep what it changes."""
    return f"would keep in quarantine: {shown_size(quarantine.stored_size)}, in {argument(quarantine.directory)}"


def _say_unfinished(quarantine: QuarantiningFiles) -> None:
    """Say which commands before this one were stopped in the same log dirs, and how to undo them."""
    from engine.files import ReadOnlyFiles
    from engine.log.quarantine.kept import left_unfinished

    own = (quarantine.directory,) if quarantine.is_used else ()
    for log_dir in quarantine.log_dirs:
        try:
            earlier = [kept.path for kept in left_unfinished(ReadOnlyFiles(), log_dir, quarantine.directory)]
        except KafkalogError:  # of a hint: what matters was reported
            continue
        if earlier:
            paths = " ".join(argument(path) for path in (*own, *earlier))
            what = "a command that was stopped changed this log dir before" if len(earlier) == 1 else (
                f"{len(earlier)} commands that were stopped changed this log dir before")
            say_at_any_rate(f"{what}; undo everything with: kafkalog restore --salvage {paths}", err=True)


def _elsewhere() -> str:
    other = "--no-quarantine" in (option for one in click.get_current_context().command.params for option in one.opts)
    return "--quarantine DIR chooses another place" + (", --no-quarantine keeps nothing" if other else "")
