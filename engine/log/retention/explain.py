"""Say of each segment that retention leaves why it stays and when it will go. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.layout import log_file_name
from engine.log.moment import moment
from engine.log.report import Action

if TYPE_CHECKING:
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.segment.log_segment import LogSegment

_DECADE_MS = 10 * 366 * 24 * 3600 * 1000


def explain_retention(log: UnifiedLog) -> None:
    """Note every segment that is left in the log's report, the oldest first. Call it behind `delete_old_segments`."""
    segments = list(log.segments)
    goes_at: int | None = None
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        goes_at = _later(goes_at, segment, log)
        end_offset = log.log_end_offset if following is None else following.base_offset
        reason = "; ".join(_reasons(log, segment, following, is_first=segment is segments[0], goes_at=goes_at))
        log.report.add(Action.EXPLAINED, log_file_name(segment.base_offset), reason,
                       offsets=(segment.base_offset, end_offset), size=segment.size)


def _later(before: int | None, segment: LogSegment, log: UnifiedLog) -> int:
    """When time alone lets `segment` go, ms: not before those in front of it."""
    own = segment.largest_timestamp + log.config.retention_ms + 1
    return own if before is None else max(before, own)


def _reasons(
    log: UnifiedLog, segment: LogSegment, following: LogSegment | None, *, is_first: bool, goes_at: int
) -> list[str]:
    if following is None and not segment.size:
        return ["stays: the active segment is empty"]
    upper_bound = log.log_end_offset if following is None else following.base_offset
    if log.high_watermark < upper_bound:
        return [f"stays: not all of it lies below the high watermark {log.high_watermark}"]
    if log.is_tiered:
        return ["stays: a broker deletes it once it is in remote storage"]
    if not log.config.delete:
        policy = log.config.cleanup_policy or "empty"
        return [f"stays: cleanup.policy is {policy}, so only what lies below the log start offset goes"]
    found = [_size(log) if is_first else "stays at least as long as the segment before it", *_timestamp(log, segment)]
    if log.config.retention_ms < 0:
        return [*found, "retention.ms=-1: it never goes by time"]
    return [*found, f"goes by time at {moment(goes_at)}"]


def _size(log: UnifiedLog) -> str:
    limit = log.config.retention_size
    if limit < 0:
        return "stays: retention.bytes is not set"
    return f"stays: {log.size} bytes are there, and without it less than retention.bytes={limit} would be left"


def _timestamp(log: UnifiedLog, segment: LogSegment) -> list[str]:
    """What the segment's age is measured by, and what is odd about it."""
    largest = segment.largest_record_timestamp
    if largest is None:
        return [f"no record has a timestamp: that of the file counts, {moment(segment.last_modified)}"]
    record = segment.find_offset_by_timestamp(largest, segment.base_offset)
    carrier = "" if record is None else f" of the record at offset {record.offset}"
    found = [f"its largest timestamp is {moment(largest)}{carrier}"]
    if largest > log.now:
        unit = _unit(largest, log.now)
        shield = "it and all behind it stay until then"
        found.append(f"which lies in the future ({unit}): {shield}" if unit else f"which lies in the future: {shield}")
    return found


def _unit(timestamp: int, now: int) -> str | None:
    """What the producer may have meant by a timestamp that lies far ahead."""
    for factor, unit in ((1000, "microseconds"), (1_000_000, "nanoseconds")):
        if abs(timestamp // factor - now) < _DECADE_MS:
            return f"as {unit} it would be {moment(timestamp // factor)}"
    return None
