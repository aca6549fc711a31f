"""kafkalog spark undo."""

from __future__ import annotations

import click

from kafkalog_cli.app import Outcome
from kafkalog_cli.commands.restore import undo as undo_commit
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.interruption import INTERRUPTION, InterruptibleFiles
from kafkalog_cli.options import PATH, format_option, version_option
from kafkalog_cli.output import json_stream

_EXAMPLES = (
    Example("Undo a write that was killed, and remove its staged files:", "kafkalog spark undo /restored/data"),
    Example("Undo the last complete write:", "kafkalog spark undo /restored/data/.kafkalog-sink.json"),
)


@click.command("spark-undo", cls=DocumentedCommand, examples=_EXAMPLES, sections=(Section("Output", ("--format",)),),
               main_options=("--format",), writes=True)
@click.argument("paths", nargs=-1, required=True, type=PATH)
@format_option
@version_option
def command(paths: tuple[str, ...], form: str) -> int:
    """Undo a write of the sink, or an import, as `kafkalog restore` does.

    PATHS are directories in which a write was stopped: an incomplete commit is undone, and the files that its jobs staged are
    removed. A job that still runs there fails, and changes nothing. To undo the last complete write, name the file
    .kafkalog-sink.json in the directory. Needs neither Spark nor Java.
    """
    return undo(paths, Outcome(stream=json_stream(form, command="spark undo")))


def undo(paths: tuple[str, ...], outcome: Outcome) -> int:
    """Undo commits, and return the exit status. After a signal no other log dir is started."""
    for path in paths:
        outcome.at_least(undo_commit(InterruptibleFiles(), path.rstrip("/") or path, outcome))
        if INTERRUPTION.status:
            break
    return outcome.finish(INTERRUPTION.status)
