"""kafkalog delete-records."""

from __future__ import annotations

from typing import Any

import click

from kafkalog_cli.engine_options import OPENING, OUTPUT, SETTINGS, WHICH, engine_options, quarantine_options
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import Whole

_SECTIONS = (
    WHICH, Section("Action", ("--before", "--keep-deleted", "--quarantine", "--no-quarantine")), OPENING, SETTINGS, OUTPUT,
)
_MAIN = ("--before", "--no-quarantine", "--quarantine", "--dry-run")
_EXAMPLES = (
    Example("Delete the records below offset 4096, in whole segments:",
            "kafkalog delete-records --before 4096 data/orders-7"),
    Example("See which segments that would be:", "kafkalog delete-records --before 4096 --dry-run data/orders-7"),
)


@click.command("delete-records", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN, writes=True)
@engine_options
@quarantine_options
@click.option("--before", "target", type=Whole(0), required=True, metavar="N",
              help="Set the log start offset to N, which may not be above the high watermark.")
def command(target: int, **values: Any) -> int:
    """Move the log start offset up and delete the segments below it, as a broker does for DeleteRecords.

    The new log start offset is written to log-start-offset-checkpoint of the log dir. A segment that contains the offset stays.
    delete-records does not apply retention: run `retain` for that.

    Deleted segments are moved to a quarantine; `kafkalog restore` puts them back. Their disk space is free when `kafkalog
    restore --prune` deletes the quarantine, or at once with --no-quarantine.
    """
    from engine.log.operations.at_offset import DeleteRecords
    from kafkalog_cli.partitions import run_operation

    return run_operation(values, DeleteRecords(target))
