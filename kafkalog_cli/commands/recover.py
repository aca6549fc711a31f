"""kafkalog recover."""

from __future__ import annotations

from typing import Any

import click

from kafkalog_cli.engine_options import OPENING, OUTPUT, SETTINGS, engine_options
from kafkalog_cli.help import DocumentedCommand, Example, Section

_SECTIONS = (OPENING, Section("What is done", ("--keep-deleted", "--no-quarantine")), SETTINGS, OUTPUT)
_EXAMPLES = (
    Example("Repair a partition after a crash, as a broker would at its start:", "kafkalog recover data/orders-7"),
    Example("Only from the recovery point of the log dir's checkpoint on:",
            "kafkalog recover --recovery-point 40960 data/orders-7"),
)


@click.command("recover", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, writes=True)
@engine_options
@click.option("--no-quarantine", is_flag=True, help="Keep no copy of what is cut.")
def command(**values: Any) -> int:
    """Open partitions as a broker does after an unclean stop, and close them again.

    Batches are checked one by one from the recovery point on; the log is cut at the first that is not sound, and what
    lies behind it is removed. Indexes are rebuilt, left-overs of interrupted deletions, compactions and splits are
    settled, producer snapshots and leader epochs brought in line.
    """
    from kafkalog_cli.partitions import run

    return run("recover", values)
