"""Reports of operations on partitions, as text and as JSON; the exit status of each."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from engine.amounts import count_of, offsets_text
from engine.discovery.names import FileKind
from engine.dump.json_stream import error_fields, sentence, text_field
from engine.errors import FileChangedWhileReading, UnreadableFile, UnwritableFile
from engine.findings import Severity
from engine.log.report import Action, leaves_doubt, loses_records, lost_offsets
from kafkalog_cli.app import add_next_step, printable
from kafkalog_cli.log_map import map_line
from kafkalog_cli.options import shown_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.log.report import Event, Report
    from engine.log.verify.partition import Verification

_CHANGES = (Action.TRUNCATED, Action.REMOVED, Action.MARKED, Action.COMPACTED, Action.MOVED, Action.SALVAGED)
_UNCHANGED = (Action.KEPT, Action.RECOVERED, Action.EXPLAINED, Action.REFUSED, Action.MISSING)  # the files are unchanged
QUIET = (Action.KEPT, Action.RECOVERED)  # not worth printing, unless there was a problem
_HOUSEKEEPING = (Action.REMOVED, Action.REBUILT, Action.RENAMED, Action.CREATED)
_CACHES = (".snapshot", ".index", ".timeindex", ".txnindex")  # a broker rebuilds them from the log
_COLOURS = {Severity.WARNING: "yellow", Severity.ERROR: "red"}
_PAST = {action: action.value for action in Action} | {Action.EXPLAINED: "note:"}
_FUTURE = _PAST | {
    Action.KEPT: "would keep", Action.RECOVERED: "would recover", Action.TRUNCATED: "would truncate",
    Action.REMOVED: "would remove", Action.MARKED: "would mark", Action.REBUILT: "would rebuild",
    Action.RENAMED: "would rename", Action.CREATED: "would create", Action.SPLIT: "would split",
    Action.COMPACTED: "would compact", Action.MOVED: "would move", Action.SALVAGED: "would salvage",
    Action.REFUSED: "would refuse",
}  # fmt: skip


def exit_status(report: Report) -> int:
    """Return the exit status of its failure, or 4: refused or still a problem · 1: repaired · 0: no problem."""
    if report.failure is not None:
        return report.failure.exit_status
    return max((event_status(event.action, event.severity) for event in report.events), default=0)


def event_status(action: Action, severity: Severity) -> int:
    """Return the contribution of one event to the exit status, see `exit_status`."""
    if action is Action.MISSING or leaves_doubt(action, severity):
        return 4
    return 0 if severity is Severity.INFO else 1


def action_text(action: Action, *, dry_run: bool = False) -> str:
    """Return the verb of an event: what was done, or would be done."""
    return (_FUTURE if dry_run else _PAST)[action]


def text_lines(report: Report, *, verbose: bool = False, dry_run: bool = False) -> Iterator[str]:
    """Return one line per event, losses first, and the state of the log. `verbose`: also housekeeping, and what was kept."""
    shown = report.events if verbose else [event for event in report.events if not _is_quiet(event)]
    for event in sorted(shown, key=_rank):
        text = printable(f"  {action_text(event.action, dry_run=dry_run)} {_event_text(event)}")
        colour = _COLOURS.get(event.severity)
        yield text if colour is None else click.style(text, fg=colour)
    line = report_map(report, report.log_start_offset) if dry_run and report.operation == "recover" else None
    if line is not None:
        yield line
    if report.failure is not None:
        yield printable(f"{report.directory}: {_failed(report, is_under_way=bool(shown), dry_run=dry_run)}")
    elif report.segments is None:  # a log dir: its small files
        yield printable(f"{report.directory}: {_verdict(report, dry_run=dry_run)}")
    else:
        yield printable(f"{report.directory}: {_log_state(report, dry_run=dry_run)}")


def report_map(report: Report, start: int | None) -> str | None:
    """Return the map of a log from offset `start`; None: nothing would be lost, or stdout is not a terminal."""
    lost = lost_offsets(report)
    ends = [end for end in (report.log_end_offset, *(end for _, end in lost)) if end is not None]
    starts = [*([] if start is None else [start]), *(first for first, _ in lost)]
    return map_line(lost, min(starts), max(ends), read_from=report.unread_below) if lost else None


def housekeeping(report: Report) -> int:
    """Return the number of small files that were updated: without a problem, and without records."""
    return len({event.path for event in report.events if _is_housekeeping(event)})


def housekeeping_line(count: int, *, dry_run: bool) -> str:
    """Return the line for `count` such files."""
    return f"{count_of(count, 'small file')} {'would be ' if dry_run else ''}brought up to date; -v lists them"


def _is_housekeeping(event: Event) -> bool:
    is_cache = event.path.endswith(_CACHES) or (event.action is Action.REBUILT and event.path.endswith(FileKind.LOG.value))
    return event.severity is Severity.INFO and event.action in _HOUSEKEEPING and is_cache


def _is_quiet(event: Event) -> bool:
    return (event.severity is Severity.INFO and event.action in QUIET) or _is_housekeeping(event)


def _rank(event: Event) -> int:
    return 0 if event.action is Action.MISSING or loses_records(event) else 1


def _event_text(event: Event) -> str:
    path, reason = f"{event.path} " if event.path else "", event.reason
    if _is_housekeeping(event):
        reason += " (a cache; no records)"
    if event.action is Action.REBUILT and event.path.endswith(FileKind.LOG.value):
        path = f"indexes of {path}"
    elif event.action is Action.MOVED and not path:  # "log start offset: records were deleted"
        path, _, reason = reason.partition(": ")
        path += " "
    target = f"-> {event.to} " if event.to else ""
    amounts = ", ".join(_amounts(event))
    start = path + target + (f"({amounts}) " if amounts else "")
    return f"{start}- {reason}" if start else reason


def _amounts(event: Event) -> Iterator[str]:
    if event.action is Action.MOVED:
        yield f"from offset {event.first_offset} to {event.end_offset}"
    elif event.first_offset is not None:
        yield offsets_text(event.first_offset, event.end_offset)
    if event.records is not None:
        yield count_of(event.records, "record")
    if event.size is not None:
        yield shown_size(event.size)


def _log_state(report: Report, *, dry_run: bool) -> str:
    kept = [event for event in report.events if event.action in QUIET and event.records is not None]
    records = f", {count_of(sum(event.records or 0 for event in kept), 'record')} read" if kept else ""
    end = report.log_end_offset if report.next_end_offset is None else report.next_end_offset
    offsets = offsets_text(min(report.log_start_offset or 0, end or 0), end)
    return (
        f"{offsets} in {count_of(report.segments or 0, 'segment')}, "
        f"{shown_size(report.size or 0)}{records}; {_verdict(report, dry_run=dry_run)}{_unread(report)}"
    )


def _failed(report: Report, *, is_under_way: bool, dry_run: bool) -> str:
    if dry_run:
        return "would fail"
    if is_under_way:
        return "not finished; the last step may be done only in part"
    is_in_the_middle = isinstance(report.failure, UnreadableFile | UnwritableFile | FileChangedWhileReading)
    return "not finished" if is_in_the_middle else "nothing was done"


def _unread(report: Report) -> str:
    """Return the text about offsets that recovery did not check."""
    first, end = report.log_start_offset or 0, report.unread_below
    if end is None or end <= first or report.operation != "recover":
        return ""
    return f"; NOT checked: {offsets_text(first, end)} (recover --full reads all)"


def _verdict(report: Report, *, dry_run: bool) -> str:
    if report.operation == "undelete" and {event.action for event in report.events} == {Action.EXPLAINED}:
        return "nothing was done"  # and nothing was read
    if report.is_refused:
        is_part = _is_partly_done(report)
        if dry_run:
            return "would be done in part" if is_part else "would not be done"
        return "done in part" if is_part else "not done"
    if report.is_doubtful:
        return "problems would be left" if dry_run else "problems are left"
    if report.has_problems_left:
        return "records are missing"
    if report.worst is Severity.INFO:
        return "no problems" if report.unread_below is None else "no problems in the part that was read"
    how = "repaired without loss" if report.worst is Severity.WARNING else "repaired, with loss of records"
    return f"would be {how}" if dry_run else how


def total_verdict(report: Report, *, dry_run: bool = False) -> tuple[str, Severity] | None:
    """Return the verdict of a report and its severity for the total; None: it is not of a partition."""
    if report.failure is not None:
        return "would fail" if dry_run else "failed", Severity.ERROR
    if report.segments is None:
        return None
    if report.is_refused or report.is_doubtful or report.has_problems_left:
        return "with problems left", Severity.ERROR
    if report.worst is Severity.INFO:
        is_changed = any(event.action not in _UNCHANGED and not _is_housekeeping(event) for event in report.events)
        fine = "without problems" if report.unread_below is None else "without problems in what was read"
        return "would change" if dry_run and is_changed else fine, report.worst
    how = "without loss" if report.worst is Severity.WARNING else "with loss of records"
    return f"would be repaired {how}" if dry_run else f"repaired {how}", report.worst


def has_changes(report: Report) -> bool:
    """Return whether anything was changed, or would be."""
    return exit_status(report) == 1 or any(event.action not in _UNCHANGED for event in report.events)


def _is_partly_done(report: Report) -> bool:
    """Return whether a refused operation was partly done."""
    return any(event.action in _CHANGES or (event.action is Action.REFUSED and (event.records or event.size))
               for event in report.events)


def report_fields(report: Report, *, dry_run: bool = False) -> dict[str, object]:
    """Return the members of an object `report`."""
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


_COUNTS = (
    "segments", "bytes", "batches", "offset_entries", "time_entries", "aborted_transactions", "producer_snapshots",
    "leader_epochs",
)


def verification_verdict(done: Verification) -> str:
    """Return the verdict about a partition that was verified."""
    if done.is_log_damaged:
        return "log damaged"
    if done.is_broken:
        return "broken"
    if done.worst not in (None, Severity.INFO):
        return "offsets missing"
    return "sound locally" if done.is_partly_remote else "sound"


def verification_map(done: Verification) -> str | None:
    """Return the map of the bytes that were read; None: they have no damage, or stdout is not a terminal."""
    from engine.log.verify.partition import MAP_CELLS

    lost, at = [], 0
    for span in done.logs:
        lost += [(at + cell * span.size // MAP_CELLS, at - -(cell + 1) * span.size // MAP_CELLS) for cell in span.damaged]
        at += span.size
    return map_line(lost, 0, at) if lost else None


def verification_fields(done: Verification, remote_segments: int = 0) -> dict[str, object]:
    """Return the members of an object `verification`."""
    counts = {name: value for name, value in asdict(done).items() if name in _COUNTS}
    verdict = verification_verdict(done).replace(" ", "-")
    return {**text_field("path", done.path), **counts, "remote_segments": remote_segments, "verdict": verdict}
