"""kafkalog roll."""

from __future__ import annotations

from typing import Any

import click

from engine.formats import LONG_MAX
from kafkalog_cli.engine_options import OPENING, OUTPUT, SETTINGS, WHICH, engine_options
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import Whole

_SECTIONS = (WHICH, Section("Action", ("--to", "--keep-deleted")), OPENING, SETTINGS, OUTPUT)
_MAIN = ("--to", "--dry-run")
_EXAMPLES = (
    Example("Close the active segment, so that retention can delete it:", "kafkalog roll data/orders-7"),
    Example("In all partitions of a topic:", "kafkalog roll --topic orders --config-file server.properties"),
)


@click.command("roll", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN, writes=True)
@engine_options
@click.option("--to", "expected", type=Whole(0, LONG_MAX - 1), default=0, metavar="N",
              help="Base offset of the new segment; not before the log end.")
def command(expected: int, **values: Any) -> int:
    """Close the active segment and begin a new one at the end of the log."""
    from engine.log.operations.at_offset import Roll
    from kafkalog_cli.partitions import run_operation

    return run_operation(values, Roll(expected))
