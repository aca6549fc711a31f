"""kafkalog retain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.engine_options import OPENING, OUTPUT, SETTINGS, engine_options
from kafkalog_cli.help import DocumentedCommand, Example, Section

if TYPE_CHECKING:
    from engine.log.unified_log import UnifiedLog

_SECTIONS = (Section("What is done", ("--keep-deleted",)), OPENING, SETTINGS, OUTPUT)
_EXAMPLES = (
    Example("Delete what is older than a day:", "kafkalog retain --config retention.ms=86400000 data/orders-7"),
    Example("Keep about a gigabyte:",
            "kafkalog retain --config retention.bytes=1073741824 --config retention.ms=-1 data/orders-7"),
)


@click.command("retain", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, writes=True)
@engine_options
def command(**values: Any) -> int:
    """Delete the segments that retention allows: by log start offset, by size, by time.

    Exactly what a broker deletes at its next check: whole segments from the oldest on, none above the high watermark.
    """
    from kafkalog_cli.partitions import run

    def retain(log: UnifiedLog) -> None:
        from engine.log.retention import delete_old_segments

        delete_old_segments(log)

    return run("retain", values, retain)
