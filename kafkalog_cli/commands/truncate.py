"""kafkalog truncate."""

from __future__ import annotations

from typing import Any

import click

from engine.formats import LONG_MAX, LONG_MIN
from kafkalog_cli.engine_options import OPENING, OUTPUT, SETTINGS, WHICH, engine_options, quarantine_options
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import Whole

_SECTIONS = (
    WHICH,
    Section("Action", ("--to", "--fully", "--keep-deleted", "--quarantine", "--no-quarantine")),
    OPENING, SETTINGS, OUTPUT,
)
_MAIN = ("--to", "--fully", "--no-quarantine", "--quarantine", "--dry-run")
_EXAMPLES = (
    Example("Delete everything from offset 4171 on:", "kafkalog truncate --to 4171 data/orders-7"),
    Example("Empty the partition; the next record gets offset 5000:", "kafkalog truncate --fully --to 5000 data/orders-7"),
)


@click.command("truncate", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN, writes=True)
@engine_options
@quarantine_options
@click.option("--to", "target", type=Whole(LONG_MIN, LONG_MAX - 1), required=True, metavar="N",
              help="New end offset of the log. A batch that contains it is deleted whole.")
@click.option("--fully", is_flag=True, help="Delete everything; the log starts and ends at N.")
def command(target: int, fully: bool, **values: Any) -> int:
    """Truncate partitions to an offset, as a follower does when its leader does not have the records after it.

    Truncated and removed data is kept in a quarantine; `kafkalog restore` puts it back. Removed segments are moved there, which
    takes no disk space on the same file system.
    """
    from engine.log.operations.at_offset import Truncate
    from kafkalog_cli.partitions import run_operation

    return run_operation(values, Truncate(target, fully=fully))
