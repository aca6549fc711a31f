"""kafkalog retain."""

from __future__ import annotations

from typing import Any

import click

from kafkalog_cli.engine_options import OPENING, OUTPUT, SETTINGS, engine_options, quarantine_option
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import Size

_DONE = Section("What is done", ("--explain", "--free", "--as-much-as-possible", "--keep-deleted", "--quarantine"))
_SECTIONS = (_DONE, OPENING, SETTINGS, OUTPUT)
_EXAMPLES = (
    Example("Delete what is older than a day:", "kafkalog retain --config retention.ms=86400000 data/orders-7"),
    Example("What would go now, and when will the rest?", "kafkalog retain --explain data/orders-7"),
    Example("The disk is full: delete the oldest records until ten gigabytes are free:", "kafkalog retain --free 10GiB data"),
    Example("Keep about a gigabyte:",
            "kafkalog retain --config retention.bytes=1073741824 --config retention.ms=-1 data/orders-7"),
)


@click.command("retain", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, writes=True)
@engine_options
@quarantine_option
@click.option("--explain", is_flag=True, help="Change nothing: say of every segment why it goes or stays, and when it will go.")
@click.option("--free", "wanted", type=Size(), metavar="BYTES",
              help="An emergency: whatever retention says, delete left-overs and then the oldest segments of all logs, "
              "until the disk of each log dir has BYTES free; where it has them already, nothing but left-overs goes. "
              "Segments of compacted and internal topics, and of topics with remote storage, are left alone. If BYTES cannot "
              "become free, nothing is deleted.")
@click.option("--as-much-as-possible", is_flag=True, help="With --free: delete what may go even if BYTES cannot become free.")
def command(wanted: int | None, explain: bool, as_much_as_possible: bool, **values: Any) -> int:
    """Delete the segments that retention allows: by log start offset, by size, by time.

    Exactly what a broker deletes at its next check: whole segments from the oldest on, none above the high watermark. In
    log dirs the directories of deleted topics go too.

    retain is there to free space, and keeps nothing. With --quarantine DIR what it deletes is moved there, from where
    `kafkalog restore` puts it back: that frees space only where DIR lies on another file system.
    """
    from kafkalog_cli.retaining import retain

    if as_much_as_possible and wanted is None:
        raise click.UsageError("--as-much-as-possible is for --free")
    values["dry_run"] = values["dry_run"] or explain
    return retain(values, wanted, explain=explain, as_much_as_possible=as_much_as_possible)
