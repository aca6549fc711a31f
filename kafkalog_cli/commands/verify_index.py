"""kafkalog verify-index."""

from __future__ import annotations

import click

from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import Whole, version_option

_SECTIONS = (Section("Output", ("--format", "--jobs")),)
_EXAMPLES = (
    Example("All files of a partition against its log:", "kafkalog verify-index /var/lib/kafka/data/orders-7"),
    Example("All partitions of a log dir; what is wrong as JSON, one object a line:",
            "kafkalog verify-index --format jsonl /var/lib/kafka/data"),
)


@click.command("verify-index", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS)
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option("--format", "form", type=click.Choice(["text", "json", "jsonl"]), default="text", show_default=True,
              help="A line for each partition, one JSON document, or one JSON object a line.")
@click.option("--jobs", type=Whole(1, 64), metavar="N", help="Read so many partitions side by side; default: one per core.")
@version_option
def command(paths: tuple[str, ...], form: str, jobs: int | None) -> int:
    """Compare every index of a partition with its log.

    Each entry of offset, time and transaction indexes, of producer snapshots and of the leader epochs is held against
    the batches, which are read once, and their checksums are computed on the way. What is wrong is named together with
    whether it does harm; what older brokers wrote differently is not wrong. PATHS are partition directories, log
    directories, trees of them, quoted patterns, or a file of a partition. Nothing is ever written.
    """
    from engine.files import ReadOnlyFiles
    from kafkalog_cli.verify import verify_all

    return verify_all(ReadOnlyFiles(), paths, form, jobs)
