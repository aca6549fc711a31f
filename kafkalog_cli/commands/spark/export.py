"""kafkalog spark export. It stands alone, as every command does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from engine.amounts import count_of, size_text
from engine.dump.json_stream import text_field
from kafkalog_cli.app import Outcome, printable
from kafkalog_cli.decoders import DECODING, decode_options
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import PATH, size_option
from kafkalog_cli.selecting import OffsetRange, isolation_option, time_option
from kafkalog_cli.spark_job import (
    SESSION,
    ReadTotal,
    corruption_option,
    job_options,
    reading,
    run_job,
    split_option,
    table_options,
    topic_option,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

_SECTIONS = (
    Section("Which records", ("--topic", "--offset", "--time", "--isolation", "--split-bytes", "--on-corruption")),
    Section("Result", ("--to", "--mode", "--table", "--columns", "--partition-by", "--target-file-size", *DECODING,
                       "--checkpoint")),
    SESSION, Section("Output", ("--format",)),
)  # fmt: skip
_EXAMPLES = (
    Example("Two topics as Parquet:", "kafkalog spark export --topic orders --topic payments --to /lake/kafka /backups"),
    Example("What is new since the last run, by day:",
            "kafkalog spark export --checkpoint /lake/state --partition-by topic,date --to /lake/kafka /backups"),
    Example("Everything as an Iceberg table:", "kafkalog spark export --table iceberg --to lake.kafka.records /backups"),
)


@click.command("spark-export", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS,
               main_options=("--to", "--topic", "--table", "--checkpoint", "--master"))
@job_options
@topic_option
@click.option("--offset", "offsets", type=OffsetRange(), metavar="A:B",
              help="Offsets from A up to, not including, B, of each partition.")
@time_option
@isolation_option
@split_option("128MiB")
@corruption_option
@click.option("--to", required=True, metavar="DIR",
              help="Directory of the table; for Delta and Iceberg also a name in a catalog.")
@table_options("If the table exists: fail, append to it, or overwrite it.")
@click.option("--columns", metavar="NAME,…", help="The columns, as of the data source, and decodedKey and decodedValue.")
@click.option("--partition-by", metavar="NAME,…", default="topic", show_default=True,
              help="Folders of the table: topic, date, or hour of the timestamp (UTC).")
@size_option("--target-file-size", default=None, least=1,
             help="Write files of about these bytes of logs. Default: a file for each task and folder.")
@decode_options("Add, as JSON in the columns decodedKey and decodedValue,")
@click.option("--checkpoint", type=PATH, metavar="DIR",
              help="Export what is new since the last run with this directory, into a folder run=N of the table.")
def command(**values: Any) -> int:
    """Write records as a Parquet, ORC, Delta or Iceberg table.

    Run it again with --mode overwrite to replace the table, or with --checkpoint to add new records. A run with --checkpoint
    that was stopped is completed by the next one: no record is lost or written twice.
    """
    return run_job("export", work, **values)


_OWN = (
    "to", "mode", "table", "columns", "partition_by", "target_file_size", "decode", "schema", "checkpoint", "offsets", "times",
)  # fmt: skip


def work(spark: SparkSession, outcome: Outcome, values: dict[str, Any]) -> int:
    """Export, print where the result is, and return the exit status."""
    from kafkalog_spark.jobs.export import export
    from kafkalog_spark.tasks import Counters

    read, counters = ReadTotal(), Counters(spark)
    how: dict[str, Any] = {name: values[name] for name in _OWN if values[name] is not None}
    options = reading(values) | {"kafka.isolation.level": values["isolation"]}
    export(spark, *values["paths"], on_plan=read.plan, counters=counters, **how, **options)
    print_written(outcome, values["to"], ())
    if outcome.is_text:
        if counters.counts is not None:
            size, skipped = counters.counts.bytes_read, counters.counts.batches_skipped
            click.echo(f"{size_text(size)} of batches read; {count_of(skipped, 'batch')} skipped by filters", err=True)
        read.say("exported")
    return 0


def print_written(outcome: Outcome, to: str, left_out: Iterable[str]) -> None:
    """Print where the result is, and which topics are not in it."""
    outcome.put("written", {**text_field("path", to), "left_out": list(left_out)}, None)
    if outcome.is_text:
        for topic in left_out:
            click.echo(f"not written: {topic}, which only controllers write", err=True)
        click.echo(f"written to {printable(to)}", err=True)
