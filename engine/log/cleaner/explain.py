"""Say of a log what the cleaner would do with it now, and what keeps it from doing more. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.findings import Severity
from engine.log.cleaner.cleaner import Cleaner, LogCleaningAborted
from engine.log.cleaner.compaction import METADATA_LOG, OUTSIDE, is_metadata_log, without_key
from engine.log.cleaner.manager import Bound, LogToClean, log_to_clean
from engine.log.cleaner.offset_map import SkimpyOffsetMap
from engine.log.cleaner.uncleanable import Uncleanable
from engine.log.cleaner.undecided import open_transactions
from engine.log.report import Action

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.log.cleaner.compaction import CompactionOptions
    from engine.log.partition.unified_log import UnifiedLog


def explain_compaction(
    log: UnifiedLog, options: CompactionOptions, on_bytes: Callable[[int], None], on_share: Callable[[float], object],
) -> None:  # fmt: skip
    """Note in the log's report: is it due, how far it can be cleaned and why not further, what would go.

    on_bytes, on_share  see Cleaner

    Reads all that a round would read. Raises what reading a log may raise; damage is noted.
    """
    if is_metadata_log(log):
        log.report.add(Action.EXPLAINED, "", f"nothing would go: {METADATA_LOG}")
        return
    target = log_to_clean(log, options.first_dirty_offset, log.now)
    for reason in (_policy(log), _due(log, target, options), *_limits(log, target)):
        log.report.add(Action.EXPLAINED, "", reason)
    if target.offsets.bound is Bound.OPEN_TRANSACTION:
        log.report.events.extend(open_transactions(log))
    offsets = target.offsets
    if offsets.first_dirty_offset >= target.first_uncleanable_offset:
        log.report.add(Action.EXPLAINED, "", "nothing would go: there is no dirty segment that may be cleaned")
        return
    offset_map = SkimpyOffsetMap(options.dedupe_buffer_size, options.secret)
    try:
        whole = options.rounds is None
        cleaner = Cleaner(offset_map, log.now, on_bytes, dry_run=True, on_share=on_share, rounds=1, whole=whole)
        end_offset, stats = cleaner.clean(log, offsets.first_dirty_offset, target.first_uncleanable_offset)
    except Uncleanable as error:
        log.report.add(Action.KEPT, "", f"a round would fail: {error}; {error.do}", severity=Severity.ERROR)
        return
    except LogCleaningAborted as error:
        then = "the segment would be split, and the round begun anew"
        log.report.add(Action.EXPLAINED, "", f"a round would end early: {error}; {then}")
        return
    log.report.add(Action.EXPLAINED, "", _keys(stats.map_entries, offset_map.capacity, end_offset, target))
    if stats.invalid_messages_read:
        what = without_key(stats, "would be dropped")
        log.report.add(Action.EXPLAINED, "", what, records=stats.invalid_messages_read)
    gone = stats.messages_gone
    log.report.add(
        Action.EXPLAINED, "", f"of {stats.messages_met} records {gone} would go, of {stats.bytes_read} bytes "
        f"{stats.bytes_written} would stay; {stats.segments_before} segments would become {stats.segments_after}",
        offsets=(offsets.first_dirty_offset, end_offset), records=gone, size=stats.bytes_read - stats.bytes_written,
        keys=stats.map_entries, tombstones=stats.tombstones_removed,
    )  # fmt: skip


def _keys(count: int, capacity: int, end_offset: int, target: LogToClean) -> str:
    if end_offset >= target.first_uncleanable_offset:
        return f"{count} distinct keys; the offset map holds {capacity}"
    full = f"the offset map is full with {count} distinct keys of {capacity} at offset {end_offset}"
    return f"{full}: further rounds are needed, or a larger --dedupe-buffer-size"


def _policy(log: UnifiedLog) -> str:
    policy = log.config.cleanup_policy or "empty"
    return f"cleanup.policy is {policy}: " + ("the topic is compacted" if log.config.compact else "a broker never compacts it")


def _due(log: UnifiedLog, target: LogToClean, options: CompactionOptions) -> str:
    ratio = log.config.min_cleanable_ratio if options.min_dirty_ratio is None else options.min_dirty_ratio
    what = (
        f"dirty ratio {target.cleanable_ratio:.2f}: {target.cleanable_bytes} dirty bytes that may be cleaned, "
        f"{target.clean_bytes} clean ones"
    )
    if target.max_compaction_delay_ms and target.cleanable_bytes:
        return f"{what}; due, because max.compaction.lag.ms was over {target.max_compaction_delay_ms} ms ago"
    return f"{what}; " + (f"due, it is above {ratio:.2f}" if target.is_due(ratio) else f"not due, {ratio:.2f} must be exceeded")


def _limits(log: UnifiedLog, target: LogToClean) -> Iterator[str]:
    offsets = target.offsets
    if offsets.force_update_checkpoint:
        yield OUTSIDE
    yield (
        f"dirty from offset {offsets.first_dirty_offset}, uncleanable from {offsets.first_uncleanable_dirty_offset}: "
        f"{offsets.bound.value}{_lag(log, target)}"
    )
    if target.first_uncleanable_offset < offsets.first_uncleanable_dirty_offset:
        yield f"whole segments only: the one that begins at {target.first_uncleanable_offset} stays as it is"


def _lag(log: UnifiedLog, target: LogToClean) -> str:
    """Of a segment that is too young: how young, and until when."""
    segment = log.segments.get(target.first_uncleanable_offset)
    if target.offsets.bound is not Bound.MIN_COMPACTION_LAG or segment is None:
        return ""
    newest, least = segment.largest_timestamp, log.config.min_compaction_lag_ms
    age = f"is {log.now - newest} ms old, {least} must be over: it may be cleaned from {newest + least} on"
    return f"; the largest timestamp of that segment, {newest}, {age}"
