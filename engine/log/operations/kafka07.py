"""What commands do to logs of Kafka 0.7, behind their opening (`engine.log.logdir.logs_07`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import UsageError
from engine.log.report import Action

if TYPE_CHECKING:
    from engine.log.kafka07.log import Log07
    from engine.log.kafka07.segment import Segment07
    from engine.log.logdir.log_dirs import Place
    from engine.log.report import Report


def refuse_offsets_07(place: Place, *offsets: int | None) -> None:
    """Raise UsageError if a recovery point, log start offset or high watermark was given."""
    if any(offset is not None for offset in offsets):
        what = f"{place.path}: a log of Kafka 0.7, which keeps no recovery point, log start offset or high watermark"
        raise UsageError(what, do="leave these options out")


def retain_07(log: Log07, report: Report, now: int) -> None:
    """Delete what is too old, then what is too much. Mirrors LogManager.cleanupLogs of 0.7.2."""
    before = {segment.path for segment in log.segments}
    gone = [(segment, "last changed more than the retention time ago") for segment in log.delete_expired(now)]
    gone += [(segment, "the retention size is left without it") for segment in log.delete_excess(now)]
    for segment, why in gone:
        report.add(Action.REMOVED, segment.name, why, offsets=_offsets(segment), size=segment.size)
    for segment in log.segments:
        if segment.path not in before:
            report.add(Action.CREATED, segment.name, "a log of 0.7 has one file at least", offsets=(segment.start, None))


def explain_retention_07(log: Log07, report: Report, now: int) -> None:
    """Note every segment that is left, the oldest first, and when time lets it go."""
    for segment in log.segments:
        by_time = f"goes by time {log.config.retention_ms} ms after its last change, {now - segment.modified_ms()} ms ago"
        limit = log.config.retention_size
        by_size = "no limit of size" if limit < 0 else f"goes by size when {limit} bytes are left without it"
        why = f"stays: {by_time}; {by_size}"
        report.add(Action.EXPLAINED, segment.name, why, offsets=_offsets(segment), size=segment.size)


def _offsets(segment: Segment07) -> tuple[int, int]:
    return segment.start, segment.start + segment.size
