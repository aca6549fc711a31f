"""Which part of a compacted log can be cleaned now, and why not more of it. Mirrors LogCleanerManager and LogToClean."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from engine.log.partition.unified_log import UnifiedLog


class Bound(Enum):
    """What keeps the cleaner from going further."""

    ACTIVE_SEGMENT = "active segment"  # is never cleaned
    HIGH_WATERMARK = "high watermark"  # what is not replicated may still be truncated
    OPEN_TRANSACTION = "open transaction"  # nobody knows yet whether its records count
    UNREPLICATED_END = "transaction that ends above the high watermark"  # its marker may still be truncated
    MIN_COMPACTION_LAG = "min.compaction.lag.ms"  # the segment is too young


class OffsetsToClean(NamedTuple):
    """The dirty part that may be cleaned: first_dirty_offset … first_uncleanable_dirty_offset − 1."""

    first_dirty_offset: int
    first_uncleanable_dirty_offset: int
    force_update_checkpoint: bool  # the checkpoint was of no use: below the log's start, or beyond its end
    bound: Bound


class LogToClean(NamedTuple):
    """A log and what of it can be cleaned. Bytes are sizes of whole segments."""

    offsets: OffsetsToClean
    first_uncleanable_offset: int  # base of the segment that holds the first uncleanable dirty offset
    clean_bytes: int
    cleanable_bytes: int
    max_compaction_delay_ms: int  # how long the oldest dirty record has been waiting beyond max.compaction.lag.ms

    @property
    def total_bytes(self) -> int:
        """Bytes that a round would read."""
        return self.clean_bytes + self.cleanable_bytes

    @property
    def cleanable_ratio(self) -> float:
        """Dirty bytes by all bytes, 0 … 1."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    def is_due(self, min_cleanable_ratio: float) -> bool:
        """Would the broker's cleaner take it? Mirrors the filters of grabFilthiestCompactedLog."""
        if not self.total_bytes:
            return False
        overdue = self.max_compaction_delay_ms > 0 and self.cleanable_bytes > 0
        return overdue or self.cleanable_ratio > min_cleanable_ratio


def log_to_clean(log: UnifiedLog, last_clean_offset: int | None, now: int) -> LogToClean:
    """What of `log` can be cleaned, given the offset up to which it is clean (None: never cleaned)."""
    offsets = cleanable_offsets(log, last_clean_offset, now)
    active = log.segments.active_segment.base_offset
    behind = log.segments.non_active_segments_from(offsets.first_uncleanable_dirty_offset)
    first_uncleanable = behind[0].base_offset if behind else active
    first_dirty = offsets.first_dirty_offset
    dirty = log.segments.values(min(first_dirty, first_uncleanable), first_uncleanable)
    return LogToClean(
        offsets,
        first_uncleanable,
        sum(segment.size for segment in log.segments.values(0, first_dirty)),
        sum(segment.size for segment in dirty),
        max_compaction_delay(log, first_dirty, now),
    )


def cleanable_offsets(log: UnifiedLog, last_clean_offset: int | None, now: int) -> OffsetsToClean:
    """The dirty range that may be cleaned. Mirrors LogCleanerManager.cleanableOffsets."""
    first_dirty, force_update = log.log_start_offset, False
    if last_clean_offset is not None:
        if log.log_start_offset <= last_clean_offset <= log.log_end_offset:
            first_dirty = last_clean_offset
        else:
            force_update = True
    bounds = [(log.segments.active_segment.base_offset, Bound.ACTIVE_SEGMENT), (log.last_stable_offset, _stable_bound(log))]
    lag = log.config.min_compaction_lag_ms
    if lag > 0:
        for segment in log.segments.non_active_segments_from(first_dirty):
            if segment.largest_timestamp > now - lag:
                bounds.append((segment.base_offset, Bound.MIN_COMPACTION_LAG))
                break
    first_uncleanable, bound = min(bounds, key=lambda pair: pair[0])
    return OffsetsToClean(first_dirty, max(first_dirty, first_uncleanable), force_update, bound)


def max_compaction_delay(log: UnifiedLog, first_dirty_offset: int, now: int) -> int:
    """Ms by which the oldest dirty segment has outlived max.compaction.lag.ms, 0 where none has."""
    dirty = log.segments.non_active_segments_from(first_dirty_offset)
    firsts = [first for first in (segment.first_batch_timestamp for segment in dirty) if first > 0]
    clean_until = now - log.config.max_compaction_lag_ms
    return max(0, clean_until - min(firsts)) if firsts else 0


def _stable_bound(log: UnifiedLog) -> Bound:
    """What the last stable offset stands for."""
    if log.last_stable_offset >= log.high_watermark:
        return Bound.HIGH_WATERMARK
    undecided = log.producer_state.first_undecided_offset
    is_open = undecided is not None and undecided <= log.last_stable_offset
    return Bound.OPEN_TRANSACTION if is_open else Bound.UNREPLICATED_END
