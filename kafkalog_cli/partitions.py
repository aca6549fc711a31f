"""An operation on every partition that was named: open, work, close, report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from engine.errors import KafkalogError
from kafkalog_cli.app import Outcome
from kafkalog_cli.engine_options import opening_from
from kafkalog_cli.render_report import exit_status, json_line, text_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import Files
    from engine.log.report import Report
    from engine.log.unified_log import UnifiedLog
    from kafkalog_cli.engine_options import Opening

    Work = Callable[[UnifiedLog], object]


def run(operation: str, values: dict[str, Any], work: Work | None = None) -> int:
    """Open each of the PATHS, do `work` on its log, close it and say what was done → exit status."""
    from engine.files import Files

    outcome = Outcome()
    try:
        opening = opening_from(values)
    except KafkalogError as error:
        outcome.error(error)
        return outcome.finish()
    status = 0
    for path in values["paths"]:
        status = max(status, _one(Files(), path, operation, opening, work, values["form"], outcome))
    return max(status, outcome.finish())


def _one(
    files: Files, path: str, operation: str, opening: Opening, work: Work | None, form: str, outcome: Outcome,
) -> int:
    from engine.log.report import Report

    directory = path.rstrip("/") or path
    report = Report(directory, operation)
    try:
        change(files, report, opening, work)
    except KafkalogError as error:
        outcome.error(error)
        return error.exit_status
    if form == "json":
        click.echo(json_line(report))
    else:
        for line in text_lines(report):
            click.echo(line)
    return exit_status(report)


def change(files: Files, report: Report, opening: Opening, work: Work | None) -> None:
    """Open the partition of `report`, do `work`, close. What the log refuses is an event of the report."""
    from engine.log.errors import OffsetOutOfRange, RollRefused
    from engine.log.loader import open_log
    from engine.log.report import Action

    log = open_log(
        files, report.directory, opening.config, now=opening.now, clean_shutdown=opening.clean_start,
        recovery_point=opening.recovery_point, log_start_offset=opening.log_start_offset, report=report,
    )
    try:
        if work is not None:
            if opening.high_watermark is not None:
                log.update_high_watermark(opening.high_watermark)
            try:
                work(log)
            except (OffsetOutOfRange, RollRefused) as error:
                report.add(Action.REFUSED, "", str(error))
    except BaseException:
        log.close_handlers()
        raise
    log.close(keep_deleted=opening.keep_deleted)
