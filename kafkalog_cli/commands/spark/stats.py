"""kafkalog spark stats."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from engine.dump.json_stream import bytes_field
from kafkalog_cli.app import Outcome, printable
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import Whole
from kafkalog_cli.spark_job import (
    SESSION,
    ReadTotal,
    corruption_option,
    job_options,
    reading,
    rows_of,
    run_job,
    split_option,
    topic_option,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SECTIONS = (
    Section("Input", ("--topic", "--split-bytes", "--on-corruption")), Section("Groups", ("--by", "--top")), SESSION,
    Section("Output", ("--format",)),
)  # fmt: skip
_EXAMPLES = (
    Example("Where the bytes are:", "kafkalog spark stats /var/lib/kafka/data"),
    Example("The keys that take most:", "kafkalog spark stats --by key --topic orders /var/lib/kafka/data"),
)
_CELL = 60  # characters of a value in a text table


@click.command("spark-stats", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS,
               main_options=("--by", "--topic", "--master", "--format"))
@job_options
@topic_option
@split_option("128MiB; by topic, codec or producer 1GiB")
@corruption_option
@click.option("--by", type=click.Choice(["topic", "codec", "producer", "hour", "header", "key"]), default="topic",
              show_default=True, help="Group records and bytes by this.")
@click.option("--top", type=Whole(1), default=20, show_default=True, metavar="N", help="By key: show this many of the largest.")
def command(**values: Any) -> int:
    """Count records and bytes by topic, codec, producer, hour, header or key.

    By topic, codec and producer it reads batch headers only. By key it also counts the bytes that compaction would free.
    """
    return run_job("stats", work, **values)


def work(spark: SparkSession, outcome: Outcome, values: dict[str, Any]) -> int:
    """Count, print the groups, and return the exit status."""
    from kafkalog_spark.jobs.stats import stats

    read = ReadTotal()
    counted = stats(spark, *values["paths"], by=values["by"], top=values["top"], on_plan=read.plan, **reading(values))
    _show(counted, outcome, values["by"])
    if outcome.is_text:
        read.say("read")
    return 0


def _show(frame: DataFrame, outcome: Outcome, by: str) -> None:
    is_text = outcome.is_text
    rows = (row.asDict(recursive=True) for row in rows_of(_printable_times(frame, is_text=is_text)))
    if is_text:
        _table(frame.columns, list(rows))  # the width of columns may depend on the last row
        return
    for row in rows:
        outcome.put("statistics", {"by": by, **_plain(row)}, None)


def _printable_times(frame: DataFrame, *, is_text: bool) -> DataFrame:
    """Return times as text, or as ms: Spark has years beyond Python's range, as of a producer that used µs for ms."""
    from pyspark.sql import functions as f

    for name in (name for name, kind in frame.dtypes if kind == "timestamp"):
        text = f.regexp_replace(f.date_format(name, "yyyy-MM-dd HH:mm:ss.SSSSSS"), "[.]0+$", "")
        frame = frame.withColumn(name, text if is_text else f.unix_millis(name))
    return frame


_HUMP = re.compile("(?<=[a-z])(?=[A-Z])")


def _plain(row: dict[str, Any]) -> dict[str, object]:
    """Return the members of an object: columns of Spark in snake case."""
    plain: dict[str, object] = {}
    for column, value in row.items():
        name = _HUMP.sub("_", column).lower()
        plain |= bytes_field(name, bytes(value)) if isinstance(value, bytes | bytearray) else {name: value}
    return plain


def _table(columns: list[str], rows: list[dict[str, Any]]) -> None:
    texts = [[_cell(row[name]) for name in columns] for row in rows]
    widths = [max(len(name), *(len(line[at]) for line in texts)) if texts else len(name) for at, name in enumerate(columns)]
    numeric = [all(isinstance(row[name], int | None) for row in rows) for name in columns]
    for line in [columns, *texts]:
        columns_of = zip(line, widths, numeric, strict=True)
        click.echo("  ".join(one.rjust(width) if right else one.ljust(width) for one, width, right in columns_of).rstrip())


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    text = bytes(value).decode("utf-8", "backslashreplace") if isinstance(value, bytes | bytearray) else str(value)
    return printable(text if len(text) <= _CELL else text[: _CELL - 1] + "…")
