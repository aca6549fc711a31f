"""Recovering what may not have reached the disk: the segments from the recovery point on, and where the log ends then.

Mirrors LogLoader.recoverLog.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from engine.findings import Severity
from engine.formats import LONG_MAX
from engine.layout import log_file_name
from engine.log.loading.notes import note_kept, note_torn_tail
from engine.log.producers.loading import delete_producer_snapshots
from engine.log.report import Action

if TYPE_CHECKING:
    from engine.log.loading.shared import Loading
    from engine.log.scan.extent import Extent
    from engine.log.segment.log_segment import LogSegment


def recover_log(log: Loading) -> tuple[int, int]:
    """Recover what may not have reached the disk; (recovery point, log end offset)."""
    is_read = not log.clean_shutdown and _recover_unflushed(log)
    log_end_offset = _end_unless_below_start(log)
    if not len(log.segments):
        log.new_segment(log.log_start_offset)
    if not is_read and log_end_offset is not None and log.segments.size:
        log.report.unread_below = log_end_offset
    if log.clean_shutdown and log_end_offset is not None:
        note_torn_tail(log)
        return log_end_offset, log_end_offset
    if log_end_offset is None:
        log_end_offset = log.active.read_next_offset()
    return min(log.recovery_point, log_end_offset), log_end_offset


def _recover_unflushed(log: Loading) -> bool:
    """Recover from the segment that holds the recovery point on; the first that loses bytes ends the log. False: none does."""
    # Kafka leaves out one that begins at 2^63 − 1, and all of them where that is the recovery point
    unflushed = [] if log.recovery_point == LONG_MAX else log.segments.values(log.recovery_point)
    note_kept(log, unflushed[0].base_offset if unflushed else LONG_MAX)
    if unflushed and unflushed[0].base_offset > log.segments.base_offsets[0]:
        log.report.unread_below = unflushed[0].base_offset
    log.scans.expect(unflushed)
    lost: dict[int, Extent] = {}
    for number, segment in enumerate(unflushed):
        scan = log.scans.take(segment)
        mark = partial(_mark, log, unflushed, number + 1, lost)
        if log.recover_segment(segment, scan, damage_ends_it=True, before_cut=mark):
            log.scans.close()
            behind = unflushed[number + 1 :]
            _remove_segments(log, behind, f"behind the damage in {log_file_name(segment.base_offset)}", Severity.ERROR, lost)
            log.remove_set_aside()
            delete_producer_snapshots(behind, log.producers, log.deferred)
            return True
    return bool(unflushed)


def _mark(log: Loading, segments: list[LogSegment], first: int, lost: dict[int, Extent]) -> None:
    """Mark the segments from the one numbered `first` on as deleted: a crash in between must not bring them back.

    lost  takes, by base offset, what those held that are not there any more then: pieces of a segment that was split
    """
    for segment in segments[first:]:
        if log.deferred.goes_at_once(segment):
            lost[segment.base_offset] = segment.extent()
    log.deferred.mark_segments(segments[first:], newest_first=True)


def _end_unless_below_start(log: Loading) -> int | None:
    """The log end offset; None where there is no segment, or all are removed as they end below the log start."""
    if not len(log.segments):
        return None
    end = log.active.read_next_offset()
    if end >= log.log_start_offset:
        return end
    _remove_segments(log, list(log.segments), f"the log ends at {end}, below its start {log.log_start_offset}",
                     Severity.ERROR if any(segment.size for segment in log.segments) else Severity.WARNING)
    log.epochs.clear_and_flush()
    log.producers.truncate_fully_and_start_at(log.log_start_offset)
    return None


def _remove_segments(
    log: Loading, segments: list[LogSegment], reason: str, severity: Severity, known: dict[int, Extent] | None = None
) -> None:
    for segment in segments:
        log.segments.remove(segment.base_offset)
        extent = (known or {}).get(segment.base_offset) or segment.extent()  # reads all of it: these records are lost
        extent.note(log.report, Action.REMOVED, log_file_name(segment.base_offset), reason, severity=severity)
    log.deferred.mark_segments(segments, newest_first=True)
