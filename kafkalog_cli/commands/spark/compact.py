"""kafkalog spark compact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import size_option
from kafkalog_cli.spark_events import show_events
from kafkalog_cli.spark_job import SESSION, in_place_options, run_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkalog_cli.app import Outcome

_SECTIONS = (
    Section("What is done", ("--topic", "--config", "--now", "--force", "--dedupe-buffer-size")), SESSION,
    Section("Output", ("--quiet", "--verbose", "--format")),
)  # fmt: skip
_EXAMPLES = (
    Example("Only one topic:", "kafkalog spark compact --topic users /backups/broker-*"),
    Example("What is due, however many keys it has:", "kafkalog spark compact --dedupe-buffer-size 64MiB /backups/broker-*"),
)


@click.command("spark-compact", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS,
               main_options=(*("--topic", "--force", "--dedupe-buffer-size"), "--master"), writes=True)
@in_place_options
@click.option("--force", is_flag=True, help="Also logs below their dirty ratio.")
@size_option("--dedupe-buffer-size", default=96 << 20,
             help="Memory of a task for keys, 24 bytes each. More keys take more rounds.")
def command(**values: Any) -> int:
    """Compact the partitions that are due, as `kafkalog compact` does.

    One task works on the log dirs of one broker, with their locks. A partition with more keys than fit in the memory of a task
    takes several rounds. Every executor must see the log dirs. If each host has its own disks, run `kafkalog compact` on each
    host instead.
    """
    return run_job("compact", work, **values)


def work(spark: SparkSession, outcome: Outcome, values: dict[str, Any]) -> int:
    """Compact, print the events, and return the exit status."""
    from engine.log.cleaner.compaction import CompactionOptions
    from kafkalog_spark.jobs.upkeep import compact

    options = CompactionOptions(force=values["force"], dedupe_buffer_size=values["dedupe_buffer_size"])
    done = compact(
        spark, *values["paths"], config=dict(values["config"]), options=options, now=values["now"], topics=values["topics"]
    )
    return show_events(done, outcome)
