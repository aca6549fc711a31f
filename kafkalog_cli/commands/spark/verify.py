"""kafkalog spark verify."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from engine.findings import Severity
from kafkalog_cli.app import UNREADABLE, Outcome, printable
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import quiet_option, verbose_option
from kafkalog_cli.spark_job import (
    SESSION,
    ReadTotal,
    config_option,
    finding,
    job_options,
    reading,
    rows_of,
    run_job,
    split_option,
    topic_option,
)

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

_SECTIONS = (
    Section("Input", ("--topic", "--config", "--split-bytes")), SESSION,
    Section("Output", ("--quiet", "--verbose", "--format")),
)  # fmt: skip
_EXAMPLES = (
    Example("Every partition of many log dirs, replicas against each other:", "kafkalog spark verify /backups/broker-*"),
    Example("On a cluster:", "kafkalog spark verify --master spark://head:7077 /backups"),
)


@click.command("spark-verify", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS,
               main_options=("--topic", "--master", "--format"))
@job_options
@topic_option
@config_option
@split_option("128MiB")
@quiet_option
@verbose_option
def command(**values: Any) -> int:
    """Check every file of every partition against its log, and compare replicas with each other.

    Replicas of a partition are compared: where two copies hold different batches at the same offsets is an error. A gap in a
    topic that is known not to be compacted is a loss. Topic settings come from the metadata logs in the log dirs, or --config.
    """
    return run_job("verify", work, **values)


def work(spark: SparkSession, outcome: Outcome, values: dict[str, Any]) -> int:
    """Verify, print the findings, and return the exit status."""
    from kafkalog_spark.jobs.verify import verify

    read = ReadTotal()
    severities: Counter[str] = Counter()
    is_unreadable = False
    found = verify(spark, *values["paths"], config=dict(values["config"]), on_plan=read.plan, **reading(values))
    for row in rows_of(found):
        severities[row["severity"]] += 1
        is_unreadable |= row["code"] == UNREADABLE
        read.note(row)
        if outcome.is_text:
            if not (outcome.is_quiet and row["severity"] == Severity.INFO.value):
                click.echo(_finding_line(row))
        else:
            outcome.finding(finding(row["code"], row["severity"], row["file"], row["what"], row["position"], row["offset"]))
    said = ", ".join(f"{severities[name]} {name}" for name in ("error", "warning", "info") if severities[name])
    if outcome.is_text:
        click.echo(said or "no problem found", err=True)
        read.say("sound", quiet=outcome.is_quiet)
    if is_unreadable:
        return 8
    return 4 if severities["error"] or severities["warning"] else 0


def _finding_line(row: Row) -> str:
    where = row["file"] + ("" if row["position"] is None else f" at byte {row['position']}")
    where += "" if row["offset"] is None else f", offset {row['offset']}"
    return f"{row['severity']}[{row['code']}] {printable(where)}: {printable(row['what'])}"
