"""kafkalog delete-records."""

from __future__ import annotations

from typing import Any

import click

from kafkalog_cli.engine_options import OPENING, OUTPUT, SETTINGS, engine_options, quarantine_options
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import Whole

_SECTIONS = (
    Section("What is done", ("--before", "--keep-deleted", "--quarantine", "--no-quarantine")), OPENING, SETTINGS, OUTPUT,
)
_MAIN = ("--before", "--no-quarantine", "--quarantine", "--dry-run")
_EXAMPLES = (
    Example("Delete the records below offset 4096, in whole segments:",
            "kafkalog delete-records --before 4096 data/orders-7"),
)


@click.command("delete-records", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN, writes=True)
@engine_options
@quarantine_options
@click.option("--before", "target", type=Whole(0), required=True, metavar="N",
              help="Set the log start offset to N, which may not be above the high watermark.")
def command(target: int, **values: Any) -> int:
    """Move the log start offset up and delete the segments that lie below it whole.

    The offset itself lives in log-start-offset-checkpoint of the log dir. What retention allows besides stays: `retain`
    deletes that.

    Removed segments are moved to a quarantine, from which `kafkalog restore` puts them back: the disk has their room again
    when `kafkalog restore --prune` has deleted the quarantine, or at once with --no-quarantine.
    """
    from engine.log.operations.at_offset import DeleteRecords
    from kafkalog_cli.partitions import run_operation

    return run_operation(values, DeleteRecords(target))
