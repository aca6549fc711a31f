"""kafkalog spark export. It stands alone, as every command does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from engine.dump.json_stream import text_field
from kafkalog_cli.app import Outcome, printable
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.spark_job import (
    SESSION,
    ReadTotal,
    corruption_option,
    job_options,
    reading,
    run_job,
    split_option,
    topic_option,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

_SECTIONS = (
    Section("Input", ("--topic", "--split-bytes", "--on-corruption")), Section("Result", ("--to", "--mode", "--table")),
    SESSION, Section("Output", ("--format",)),
)  # fmt: skip
_EXAMPLES = (
    Example("Two topics as Parquet:", "kafkalog spark export --topic orders --topic payments --to /lake/kafka /backups"),
    Example("Everything as an Iceberg table:", "kafkalog spark export --table iceberg --to lake.kafka.records /backups"),
)
FORMATS, MODES = ("parquet", "delta", "iceberg"), ("error", "append", "overwrite")


@click.command("spark-export", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS,
               main_options=("--to", "--topic", "--table", "--master"))
@job_options
@topic_option
@split_option("128MiB")
@corruption_option
@click.option("--to", required=True, metavar="DIR", help="Directory of the table; for Iceberg, also a name in a catalog.")
@click.option("--mode", type=click.Choice(MODES), default="error", show_default=True,
              help="If the table exists: fail, append to it, or overwrite it.")
@click.option("--table", type=click.Choice(FORMATS), default="parquet", show_default=True,
              help="The table format; Delta and Iceberg need their packages in the session (spark.jars.packages).")
def command(**values: Any) -> int:
    """Write records as a table, with a folder for each topic."""
    return run_job("export", work, **values)


def work(spark: SparkSession, outcome: Outcome, values: dict[str, Any]) -> int:
    """Export, print where the result is, and return the exit status."""
    from kafkalog_spark.jobs.export import export

    read = ReadTotal()
    how: dict[str, Any] = {name: values[name] for name in ("to", "mode", "table")}
    export(spark, *values["paths"], on_plan=read.plan, **how, **reading(values))
    print_written(outcome, values["to"], ())
    if outcome.is_text:
        read.say("exported")
    return 0


def print_written(outcome: Outcome, to: str, left_out: Iterable[str]) -> None:
    """Print where the result is, and which topics are not in it."""
    outcome.put("written", {**text_field("path", to), "left_out": list(left_out)}, None)
    if outcome.is_text:
        for topic in left_out:
            click.echo(f"not written: {topic}, which only controllers write", err=True)
        click.echo(f"written to {printable(to)}", err=True)
