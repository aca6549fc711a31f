"""Report what the cleaner would do with a log now, and what limits it. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.amounts import count_of, exact_duration
from engine.findings import Severity
from engine.log.cleaner.checkpoint import Bound, LogToClean, log_to_clean
from engine.log.cleaner.cleaner import Cleaner, LogCleaningAborted
from engine.log.cleaner.compaction import METADATA_LOG, OUTSIDE, is_metadata_log, without_key
from engine.log.cleaner.offset_map import SkimpyOffsetMap
from engine.log.cleaner.outcome import Uncleanable
from engine.log.errors import CorruptRecord
from engine.log.report import Action, Event, moment
from engine.log.segment.batch_search import first_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.log.cleaner.compaction import CompactionOptions
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.producers.entry import ProducerStateEntry, TxnMetadata


_MOST_LISTED = 10  # open transactions that are reported one by one; the others are only counted


def open_transactions(log: UnifiedLog) -> Iterator[Event]:
    """Yield an event for each open transaction that begins below the active segment, the oldest first.

    Its age is the time from its first record's timestamp to the log's clock.
    """
    found = list(log.producer_state.ongoing.below(log.segments.active_segment.base_offset))
    for txn in found[:_MOST_LISTED]:
        since = _first_timestamp(log, txn)
        age = None if since is None else log.now - since
        entry = log.producer_state.last_entry(txn.producer_id)
        reason = _reason(txn, entry, age, log.now)
        if entry is not None and log.producer_state.is_late(entry, log.now):
            reason += "; that is longer than transaction.max.timeout.ms allows: it hangs until it is aborted"
        yield Event(Action.EXPLAINED, "", reason, first_offset=txn.first_offset, producer_id=txn.producer_id, age_ms=age)
    if len(found) > _MOST_LISTED:
        more = count_of(len(found) - _MOST_LISTED, "more open transaction")
        rest = f"{more}, the last one since offset {found[-1].first_offset}"
        yield Event(Action.EXPLAINED, "", rest)


def _first_timestamp(log: UnifiedLog, txn: TxnMetadata) -> int | None:
    """The start time of the transaction; None if its first batch has no timestamp, was deleted or is not found."""
    segment = log.segments.floor_segment(txn.first_offset)
    if segment is None:
        return None
    try:
        head = segment.translate_offset(txn.first_offset)
    except CorruptRecord:  # cleaning or recovering the log reports the damage
        return None
    return None if head is None or head.base_offset != txn.first_offset else first_timestamp(segment.log_file, head)


def _reason(txn: TxnMetadata, entry: ProducerStateEntry | None, age: int | None, now: int) -> str:
    epoch = "" if entry is None else f", epoch {entry.producer_epoch},"
    what = f"producer {txn.producer_id}{epoch} has a transaction open since offset {txn.first_offset}, {_age(age)}"
    if entry is None or entry.last_timestamp < 0:
        return what
    silence = now - entry.last_timestamp
    return f"{what}; its last write was {exact_duration(silence)} ago" if silence >= 0 else (f"{what}; its last write was "
                                                                                    f"{_ahead(silence)}")


def _age(age: int | None) -> str:
    if age is None:
        return "since an unknown time: its first record was deleted or has no timestamp"
    return f"for {exact_duration(age)}" if age >= 0 else f"begun {_ahead(age)}"


def _ahead(negative: int) -> str:
    return f"{exact_duration(-negative)} ahead of the clock"


def explain_compaction(
    log: UnifiedLog, options: CompactionOptions, on_bytes: Callable[[int], None], on_share: Callable[[float], object],
) -> None:  # fmt: skip
    """Report whether the log is due, how far it can be cleaned and why not further, and what would be deleted.

    on_bytes, on_share  see Cleaner

    Reads all that a round would read. Raises the errors of reading a log; damage is reported.
    """
    if is_metadata_log(log):
        log.report.add(Action.EXPLAINED, "", f"nothing would be deleted: {METADATA_LOG}")
        return
    target = log_to_clean(log, options.first_dirty_offset, log.now)
    for reason in (_policy(log), _due(log, target, options), *_limits(log, target)):
        log.report.add(Action.EXPLAINED, "", reason)
    if target.offsets.bound is Bound.OPEN_TRANSACTION:
        log.report.events.extend(open_transactions(log))
    offsets = target.offsets
    if offsets.first_dirty_offset >= target.first_uncleanable_offset:
        log.report.add(Action.EXPLAINED, "", "nothing would be deleted: no dirty segment can be cleaned")
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
        then = "the segment would be split, and the round would start again"
        log.report.add(Action.EXPLAINED, "", f"a round would end early: {error}; {then}")
        return
    log.report.add(Action.EXPLAINED, "", _keys(stats.map_entries, offset_map.capacity, end_offset, target))
    if stats.invalid_messages_read:
        what = without_key(stats, "would be dropped")
        log.report.add(Action.EXPLAINED, "", what, records=stats.invalid_messages_read)
    deleted = stats.messages_deleted
    log.report.add(
        Action.EXPLAINED, "", f"would delete {deleted} of {count_of(stats.messages_met, 'record')} and leave "
        f"{stats.bytes_written} of {count_of(stats.bytes_read, 'byte')}; {count_of(stats.segments_before, 'segment')} would "
        f"become {stats.segments_after}",
        offsets=(offsets.first_dirty_offset, end_offset), records=deleted, size=stats.bytes_read - stats.bytes_written,
        keys=stats.map_entries, tombstones=stats.tombstones_removed,
    )  # fmt: skip


def _keys(count: int, capacity: int, end_offset: int, target: LogToClean) -> str:
    if end_offset >= target.first_uncleanable_offset:
        return f"{count_of(count, 'distinct key')}; the offset map holds {capacity}"
    full = f"the offset map is full with {count_of(count, 'distinct key')} of {capacity} at offset {end_offset}"
    return f"{full}: further rounds are needed, or a larger --dedupe-buffer-size"


def _policy(log: UnifiedLog) -> str:
    policy = log.config.cleanup_policy or "empty"
    return f"cleanup.policy is {policy}: " + ("the topic is compacted" if log.config.compact else "a broker never compacts it")


def _due(log: UnifiedLog, target: LogToClean, options: CompactionOptions) -> str:
    ratio = log.config.min_cleanable_ratio if options.min_dirty_ratio is None else options.min_dirty_ratio
    what = (
        f"dirty ratio {target.cleanable_ratio:.2f}: {count_of(target.cleanable_bytes, 'dirty byte')} that may be cleaned, "
        f"{count_of(target.clean_bytes, 'clean byte')}"
    )
    if target.max_compaction_delay_ms and target.cleanable_bytes:
        return f"{what}; due, because max.compaction.lag.ms was over {exact_duration(target.max_compaction_delay_ms)} ago"
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
        yield f"only whole segments are cleaned: the segment at offset {target.first_uncleanable_offset} would not change"


def _lag(log: UnifiedLog, target: LogToClean) -> str:
    """If a segment is too young: its age, and when it is due."""
    segment = log.segments.get(target.first_uncleanable_offset)
    if target.offsets.bound is not Bound.MIN_COMPACTION_LAG or segment is None:
        return ""
    newest, least = segment.largest_timestamp, log.config.min_compaction_lag_ms
    age = f"is {exact_duration(log.now - newest)} old, min.compaction.lag.ms={least}: due from {moment(newest + least)} on"
    return f"; the largest timestamp of that segment, {moment(newest)}, {age}"
