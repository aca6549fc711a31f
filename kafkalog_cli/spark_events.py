"""The output of jobs that change logs: the events of each partition, as the commands print them."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import click

from engine.discovery.names import file_name, parse_partition_dir
from engine.dump.json_stream import error_fields, sentence, text_field
from engine.errors import KafkalogError
from engine.findings import Severity
from kafkalog_cli.app import Outcome, Total, printable
from kafkalog_cli.spark_job import finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, Row


def show_events(frame: DataFrame, outcome: Outcome) -> int:
    """Print what was done; returns the exit status of the command for the same events and failures."""
    status = 0
    total = Total()
    rows = frame.toLocalIterator()  # made by the driver: no task runs again
    for directory, of_one in groupby(rows, key=lambda row: row["directory"]):
        of_this = _show_events(directory, of_one, outcome)
        status = max(status, of_this)
        if parse_partition_dir(file_name(directory)) is not None:  # else a log dir
            total.add(*_VERDICTS.get(of_this, ("failed", Severity.ERROR)))
    if outcome.is_text:
        total.say("done", quiet=outcome.is_quiet)
    return status


_VERDICTS = {  # by exit status
    0: ("without problems", Severity.INFO), 1: ("repaired", Severity.WARNING), 4: ("with problems left", Severity.ERROR),
}  # fmt: skip


def _show_events(directory: str, rows: Iterable[Row], outcome: Outcome) -> int:
    """Print what was done to one partition or log dir; returns the exit status. In JSON it is a `report` after its findings."""
    from engine.log.report import Action
    from kafkalog_cli.render_report import QUIET, event_status
    from kafkalog_spark.jobs.upkeep import FAILED, FOUND

    events, operation, status = [], "", 0
    failure: KafkalogError | None = None
    for row in rows:
        operation = row["operation"]
        if row["action"] == FAILED:
            status = max(status, row["exitStatus"])
        elif row["action"] != FOUND:
            status = max(status, event_status(Action(row["action"]), Severity(row["severity"])))
        if outcome.is_text:
            is_fine = row["severity"] == Severity.INFO.value
            if not is_fine or outcome.is_verbose or not (outcome.is_quiet or row["action"] in QUIET):
                click.echo(_event_line(row))
        elif row["action"] == FOUND:
            file = f"{directory}/{row['file']}" if row["file"] else directory
            outcome.finding(finding(row["code"], row["severity"], file, row["reason"], None, row["firstOffset"]))
        elif row["action"] == FAILED:
            failure = KafkalogError(row["reason"], path=directory)
            failure.code, failure.exit_status = row["code"], row["exitStatus"]
        else:
            events.append(_event_fields(row))
    if not outcome.is_text:
        outcome.put("report", {
            **text_field("partition", directory), "operation": operation, "dry_run": False, "exit_status": status,
            **dict.fromkeys(_UNKNOWN), "error": None if failure is None else error_fields(failure), "events": events,
        }, None)  # fmt: skip
        if failure is not None:
            outcome.error(failure)
    return status


_UNKNOWN = ("log_start_offset", "log_end_offset", "recovery_point", "segments", "bytes", "unread_below")  # to the driver


def _event_fields(row: Row) -> dict[str, object]:
    fields = {
        "action": row["action"], "severity": row["severity"], **(text_field("file", row["file"]) if row["file"] else {}),
        "first_offset": row["firstOffset"], "end_offset": row["endOffset"], "records": row["records"], "bytes": row["bytes"],
        "reason": sentence(row["reason"]),
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}


def _event_line(row: Row) -> str:
    from engine.log.report import Action
    from kafkalog_cli.render_report import action_text

    where = f"{row['directory']}/{row['file']}" if row["file"] else row["directory"]
    to = "" if row["endOffset"] is None else f" to {row['endOffset']}"
    offsets = "" if row["firstOffset"] is None else f" (offset {row['firstOffset']}{to})"
    if row["code"] is not None:  # a finding, or a failure
        return f"{row['severity']}[{row['code']}] {printable(where)}{offsets}: {printable(row['reason'])}"
    return f"  {action_text(Action(row['action']))} {printable(where)}{offsets} - {printable(row['reason'])}"
