"""kafkalog spark recover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.spark_events import show_events
from kafkalog_cli.spark_job import SESSION, in_place_options, run_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkalog_cli.app import Outcome

_SECTIONS = (
    Section("What is done", ("--topic", "--config", "--now", "--salvage")), SESSION,
    Section("Output", ("--quiet", "--verbose", "--format")),
)  # fmt: skip
_EXAMPLES = (
    Example("The log dirs of all brokers:", "kafkalog spark recover /backups/broker-*"),
    Example("Only one topic:", "kafkalog spark recover --topic orders /backups/broker-*"),
)


@click.command("spark-recover", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS,
               main_options=(*("--topic", "--salvage"), "--master"), writes=True)
@in_place_options
@click.option("--salvage", is_flag=True, help="Keep the sound batches after damage.")
def command(**values: Any) -> int:
    """Recover the log dirs of many brokers, as `kafkalog recover` does.

    One task works on the log dirs of one broker, with their locks, and keeps what it changes in a quarantine beside each log
    dir. Every executor must see the log dirs. If each host has its own disks, run `kafkalog recover` on each host instead.
    """
    return run_job("recover", work, **values)


def work(spark: SparkSession, outcome: Outcome, values: dict[str, Any]) -> int:
    """Recover, print the events, and return the exit status."""
    from engine.log.operations.recover import RecoverOptions
    from kafkalog_spark.jobs.upkeep import recover

    options = RecoverOptions(salvage=values["salvage"])
    done = recover(
        spark, *values["paths"], config=dict(values["config"]), options=options, now=values["now"], topics=values["topics"]
    )
    return show_events(done, outcome)
