"""Reports of operations on partitions, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.dump.json_stream import error_fields, sentence, text_field
from engine.errors import FileChangedWhileReading, UnreadableFile, UnwritableFile
from engine.findings import Severity
from engine.log.report import Action, leaves_doubt
from kafkalog_cli.app import add_next_step, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.log.report import Event, Report

_CHANGES = (Action.TRUNCATED, Action.REMOVED, Action.MARKED, Action.COMPACTED, Action.MOVED, Action.SALVAGED)
_QUIET = (Action.KEPT, Action.RECOVERED)  # nothing that a reader must know, unless something was wrong


def exit_status(report: Report) -> int:
    """That of its failure · 4: something was refused, or is still wrong · 1: something was wrong and is repaired · 0."""
    if report.failure is not None:
        return report.failure.exit_status
    return max((event_status(event.action, event.severity) for event in report.events), default=0)


def event_status(action: Action, severity: Severity) -> int:
    """What one event makes of the exit status, see `exit_status`."""
    if action is Action.MISSING or leaves_doubt(action, severity):
        return 4
    return 0 if severity is Severity.INFO else 1


def text_lines(report: Report, *, verbose: bool = False) -> Iterator[str]:
    """What was done, a line each, and how the log stands now. `verbose`: also what was kept."""
    shown = report.events if verbose else _shown(report)
    for event in shown:
        yield "  " + printable(_event_text(event))
    if report.failure is not None:
        yield printable(f"{report.directory}: {_failed(report, shown)}")
    elif report.segments is None:  # a log dir: its small files
        yield printable(f"{report.directory}: {_verdict(report)}")
    else:
        yield printable(f"{report.directory}: {_standing(report)}")


def _shown(report: Report) -> list[Event]:
    return [event for event in report.events if event.action not in _QUIET or event.severity is not Severity.INFO]


def _event_text(event: Event) -> str:
    place = f"{event.path} " if event.path else ""
    target = f"-> {event.to} " if event.to else ""
    amounts = ", ".join(_amounts(event))
    return f"{event.action.value} {place}{target}" + (f"({amounts}) " if amounts else "") + f"- {event.reason}"


def _amounts(event: Event) -> Iterator[str]:
    if event.first_offset is not None:
        end = "" if event.end_offset in (None, event.first_offset) else f" to {event.end_offset}"
        yield f"offset {event.first_offset}{end}"
    if event.records is not None:
        yield f"{event.records} records"
    if event.size is not None:
        yield f"{event.size} bytes"


def _standing(report: Report) -> str:
    kept = [event for event in report.events if event.action in _QUIET and event.records is not None]
    records = f", {sum(event.records or 0 for event in kept)} records read" if kept else ""
    end = report.log_end_offset if report.next_end_offset is None else report.next_end_offset
    return (
        f"offsets {min(report.log_start_offset or 0, end or 0)} to {end} in {report.segments} segments, "
        f"{report.size} bytes{records}; {_verdict(report)}{_unread(report)}"
    )


def _failed(report: Report, shown: list[Event]) -> str:
    if shown:
        return "not finished; the last step above may be done only in part"
    is_in_the_middle = isinstance(report.failure, UnreadableFile | UnwritableFile | FileChangedWhileReading)
    return "not finished" if is_in_the_middle else "nothing was done"


def _unread(report: Report) -> str:
    """What recovery believed without reading it."""
    first, end = report.log_start_offset or 0, report.unread_below
    if end is None or end <= first or report.operation != "recover":
        return ""
    return f"; NOT checked: offsets {first} to {end - 1} (recover --full reads all)"


def _verdict(report: Report) -> str:
    if report.is_refused:
        return "done in part" if _is_partly_done(report) else "not done"
    if report.is_doubtful:
        return "problems are left"
    if report.has_problems_left:
        return "records are missing"
    if report.worst is Severity.INFO and report.unread_below is not None:
        return "no problems in the part that was read"
    return {
        Severity.INFO: "no problems", Severity.WARNING: "repaired without loss", Severity.ERROR: "repaired, with loss",
    }[report.worst]


def total_verdict(report: Report) -> tuple[str, Severity] | None:
    """How the report of a partition counts in the total; None: it is of no partition."""
    if report.failure is not None:
        return "failed", Severity.ERROR
    if report.segments is None:
        return None
    if report.is_refused or report.is_doubtful or report.has_problems_left:
        return "with problems left", Severity.ERROR
    fine = "without problems" if report.unread_below is None else "without problems in what was read"
    return {
        Severity.INFO: fine, Severity.WARNING: "repaired without loss", Severity.ERROR: "repaired with loss",
    }[report.worst], report.worst


def has_changes(report: Report) -> bool:
    """Was anything changed, or would be?"""
    return exit_status(report) == 1 or any(event.action in _CHANGES for event in report.events)


def _is_partly_done(report: Report) -> bool:
    """Was a part done of what was refused as a whole?"""
    return any(event.action in _CHANGES or (event.action is Action.REFUSED and (event.records or event.size))
               for event in report.events)


def report_fields(report: Report, *, dry_run: bool = False) -> dict[str, object]:
    """The members of an object `report`."""
    if report.failure is not None:
        add_next_step(report.failure)
    return {
        **text_field("partition", report.directory),
        "operation": report.operation,
        "dry_run": dry_run,
        "exit_status": exit_status(report),
        "log_start_offset": report.log_start_offset,
        "log_end_offset": report.log_end_offset,
        "recovery_point": report.recovery_point,
        "segments": report.segments,
        "bytes": report.size,
        "unread_below": report.unread_below,
        "error": None if report.failure is None else error_fields(report.failure),
        "events": [_event_fields(event) for event in report.events],
    }


def _event_fields(event: Event) -> dict[str, object]:
    values = {
        "action": event.action.value, "severity": event.severity.value,
        **(text_field("file", event.path) if event.path else {}),
        **(text_field("to", event.to) if event.to is not None else {}),
        "first_offset": event.first_offset, "end_offset": event.end_offset, "records": event.records, "bytes": event.size,
        "producer_id": event.producer_id, "age_ms": event.age_ms, "keys": event.keys, "tombstones": event.tombstones,
        "reason": sentence(event.reason),
    }  # fmt: skip
    return {name: value for name, value in values.items() if value is not None}
