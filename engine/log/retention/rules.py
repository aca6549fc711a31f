"""Which segments retention deletes: below the log start offset, above the size limit, older than the time limit.

Mirrors UnifiedLog.deleteOldSegments. `verdicts` gives the reason for every segment that is deleted or kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of, exact_duration
from engine.discovery.names import log_file_name
from engine.log.report import Action, moment

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.segment.log_segment import LogSegment

    Breach = Callable[[LogSegment, LogSegment | None], str | None]  # (segment, next one) → why it is deleted, or None


TIERED_STAY = ("remote.storage.enable: segments from the log start offset on are kept, because a broker deletes them only "
               "after it copied them to remote storage")


class Verdict(NamedTuple):
    """Why a segment is deleted or kept."""

    segment: LogSegment
    is_deleted: bool
    why: str


def delete_old_segments(log: UnifiedLog) -> int:
    """Delete what retention allows at the time `log.now`. Returns the number of segments. Mirrors deleteOldSegments.

    The rules are applied one after the other: log start offset, size, time. Each deletes from the oldest segment up to the
    first that it keeps. A topic without cleanup.policy=delete only loses segments below the log start offset. So does a
    tiered log: a broker deletes its local segments after it has copied them, and only its RemoteLogManager knows which
    ones it has copied.
    """
    deleted = delete_below_log_start_offset(log)
    if log.is_tiered:
        log.report.add(Action.EXPLAINED, "", TIERED_STAY)
    elif log.config.delete:
        deleted += _delete(log, beyond_size(log))
        deleted += _delete(log, beyond_time(log))
    return deleted


def deletable(log: UnifiedLog) -> list[LogSegment]:
    """The segments that `delete_old_segments` deletes."""
    return list(log.segments)[: _counts(log)[-1]]


def deciding_settings(log: UnifiedLog) -> list[str]:
    """The settings by which `delete_old_segments` deletes segments that are not below the log start offset."""
    by_start, by_size, by_time = _counts(log)
    rules = (("retention.bytes", by_start < by_size), ("retention.ms", by_size < by_time))
    return [name for name, deletes in rules if deletes]


def _counts(log: UnifiedLog) -> tuple[int, int, int]:
    """The number of segments that are deleted after each rule: log start offset, size, time."""
    by_start = len(deletable_below(log, log.log_start_offset))
    if log.is_tiered or not log.config.delete:
        return by_start, by_start, by_start
    by_size = max(by_start, _count(log, beyond_size(log)))
    return by_start, by_size, by_size + _count(log, beyond_time(log), by_size)


def deletable_below(log: UnifiedLog, start: int) -> list[LogSegment]:
    """The segments that `delete_below_log_start_offset` would delete with the log start offset `start`."""
    if start > log.high_watermark:
        return []
    return list(log.segments)[: _count(log, below(max(start, log.log_start_offset)))]


def _count(log: UnifiedLog, breach: Breach | None, first: int = 0) -> int:
    return 0 if breach is None else sum(verdict.is_deleted for verdict in verdicts(log, breach, first))


def delete_below_log_start_offset(log: UnifiedLog) -> int:
    """Delete the segments that are entirely below the log start offset. Returns their number."""
    return _delete(log, below(log.log_start_offset))


def _delete(log: UnifiedLog, breach: Breach | None) -> int:
    """Delete the oldest segments for which `breach` returns a reason, with one event each."""
    if breach is None:
        return 0
    deleted = [verdict for verdict in verdicts(log, breach) if verdict.is_deleted]
    if not deleted:
        return 0
    reasons = {verdict.segment.base_offset: verdict.why for verdict in deleted}
    return log.delete_segments([verdict.segment for verdict in deleted], reasons)


def verdicts(log: UnifiedLog, breach: Breach, first: int = 0) -> list[Verdict]:
    """The verdicts from segment number `first` up to and including the first kept one. Mirrors deletableSegments."""
    segments = list(log.segments)[first:]
    found: list[Verdict] = []
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        upper_bound = log.log_end_offset if following is None else following.base_offset
        if log.high_watermark < upper_bound:
            why = f"the high watermark {log.high_watermark} is before the end of the segment, {upper_bound}"
            return [*found, Verdict(segment, False, why)]
        reason = breach(segment, following)
        if reason is None:
            return [*found, Verdict(segment, False, "not yet")]
        if following is None and not segment.size:
            return [*found, Verdict(segment, False, "the active segment is empty")]
        found.append(Verdict(segment, True, reason))
    return found


def below(start: int) -> Breach:
    """Delete a segment if the next one begins at or below the log start offset `start`."""

    def breach(_segment: LogSegment, following: LogSegment | None) -> str | None:
        if following is None or following.base_offset > start:
            return None
        return f"all its offsets are below the log start offset {start}"

    return breach


def beyond_size(log: UnifiedLog) -> Breach | None:
    """Delete a segment while at least retention.bytes remain without it. None: no limit, or not reached."""
    limit, size = log.config.retention_size, log.size
    if limit < 0 or size < limit:
        return None
    excess = size - limit

    def breach(segment: LogSegment, _following: LogSegment | None) -> str | None:
        nonlocal excess
        if excess < segment.size:
            return None
        excess -= segment.size
        return f"{limit + excess} bytes remain without it, retention.bytes={limit}"

    return breach


def beyond_time(log: UnifiedLog) -> Breach | None:
    """Delete a segment that is older than retention.ms, by its largest timestamp, or its modification time if it has none."""
    limit, now = log.config.retention_ms, log.now
    if limit < 0:
        return None

    def breach(segment: LogSegment, _following: LogSegment | None) -> str | None:
        largest = segment.largest_timestamp
        if now - largest <= limit:
            return None
        return f"its largest timestamp, {moment(largest)}, is {exact_duration(now - largest)} old, retention.ms={limit}"

    return breach


_DECADE_MS = 10 * 366 * 24 * 3600 * 1000


def explain_retention(log: UnifiedLog) -> None:
    """Report every remaining segment, the oldest first. Call it after `delete_old_segments`."""
    segments = list(log.segments)
    deletable_at: int | None = None
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        deletable_at = _later(deletable_at, segment, log)
        end_offset = log.log_end_offset if following is None else following.base_offset
        reason = "; ".join(_reasons(log, segment, following, is_first=segment is segments[0], deletable_at=deletable_at))
        log.report.add(Action.EXPLAINED, log_file_name(segment.base_offset), reason,
                       offsets=(segment.base_offset, end_offset), size=segment.size)


def _later(before: int | None, segment: LogSegment, log: UnifiedLog) -> int:
    """Ms: when retention by time deletes `segment`, not earlier than the segments before it."""
    own = segment.largest_timestamp + log.config.retention_ms + 1
    return own if before is None else max(before, own)


def _reasons(
    log: UnifiedLog, segment: LogSegment, following: LogSegment | None, *, is_first: bool, deletable_at: int
) -> list[str]:
    if following is None and not segment.size:
        return ["kept: the active segment is empty"]
    upper_bound = log.log_end_offset if following is None else following.base_offset
    if log.high_watermark < upper_bound:
        return [f"kept: not all its offsets are below the high watermark {log.high_watermark}"]
    if log.is_tiered:
        return ["kept: a broker deletes it after it copied it to remote storage"]
    if not log.config.delete:
        policy = log.config.cleanup_policy or "empty"
        return [f"kept: cleanup.policy is {policy}, so only segments below the log start offset are deleted"]
    found = [_size(log) if is_first else "kept at least as long as the segment before it", *_timestamp(log, segment)]
    if log.config.retention_ms < 0:
        return [*found, "never deletable by time: retention.ms=-1"]
    return [*found, f"deletable by time at {moment(deletable_at)}"]


def _size(log: UnifiedLog) -> str:
    limit = log.config.retention_size
    if limit < 0:
        return "not by size: retention.bytes is not set"
    size = count_of(log.size, "byte")
    return f"not by size: the log has {size}, and less than retention.bytes={limit} would remain without it"


def _timestamp(log: UnifiedLog, segment: LogSegment) -> list[str]:
    """The timestamp that determines the segment's age; a note if it is unusual."""
    largest = segment.largest_record_timestamp
    if largest is None:
        return [f"no record has a timestamp, so the file's modification time counts, {moment(segment.last_modified)}"]
    record = segment.find_offset_by_timestamp(largest, segment.base_offset)
    carrier = "" if record is None else f" of the record at offset {record.offset}"
    found = [f"its largest timestamp is {moment(largest)}{carrier}"]
    if largest > log.now:
        unit = _unit(largest, log.now)
        shield = "it and all later segments are kept until then"
        found.append(f"which is in the future ({unit}): {shield}" if unit else f"which is in the future: {shield}")
    return found


def _unit(timestamp: int, now: int) -> str | None:
    """The unit that the producer may have used, if the timestamp is far in the future."""
    for factor, unit in ((1000, "microseconds"), (1_000_000, "nanoseconds")):
        if abs(timestamp // factor - now) < _DECADE_MS:
            return f"as {unit} it would be {moment(timestamp // factor)}"
    return None
