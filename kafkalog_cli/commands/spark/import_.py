"""kafkalog spark import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.commands.spark.export import print_written
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.spark_job import SESSION, config_option, job_options, run_job, table_options, topic_option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkalog_cli.app import Outcome

_SECTIONS = (
    Section("Input", ("--topic", "--table")), Section("Result", ("--to", "--mode", "--config")), SESSION,
    Section("Output", ("--format",)),
)  # fmt: skip
_EXAMPLES = (
    Example("One topic more, into the same directory:",
            "kafkalog spark import --mode append --topic orders --to /restored/data /lake/kafka"),
    Example("A table of export, into partition directories:", "kafkalog spark import --to /restored/data /lake/kafka"),
)


@click.command("spark-import", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS,
               main_options=("--to", "--topic", "--mode", "--master"), writes=True)
@job_options
@topic_option
@click.option("--to", required=True, metavar="DIR", help="Directory for the partition directories.")
@table_options("If DIR has content: fail, append to the partitions, or replace the topics of the table.")
@config_option
def command(**values: Any) -> int:
    """Write tables of `kafkalog spark export` back into partition directories, with their offsets and timestamps.

    PATHS are tables. The cluster's metadata log is left out, because only controllers write it. Every record comes back as
    CreateTime. --config compression.type sets the codec of the batches.
    """
    return run_job("import", work, is_local=False, **values)


def work(spark: SparkSession, outcome: Outcome, values: dict[str, Any]) -> int:
    """Import, print where the result is, and return the exit status."""
    from kafkalog_spark.jobs.export import import_

    left_out = import_(
        spark, *values["paths"], to=values["to"], mode=values["mode"], table=values["table"], config=dict(values["config"]),
        topics=values["topics"],
    )  # fmt: skip
    print_written(outcome, values["to"], left_out)
    return 0
