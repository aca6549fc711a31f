"""The open transactions that keep a log from being cleaned: whose they are, since when, and how long nothing came of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.log.errors import CorruptRecord
from engine.log.report import Action, Event
from engine.log.scan.batch_search import first_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.producers.entry import ProducerStateEntry, TxnMetadata

_NAMED = 10  # one by one; of the others only how many there are
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"))


def open_transactions(log: UnifiedLog) -> Iterator[Event]:
    """Each transaction that is open and begins below the active segment, the oldest first, as an event of the log's report.

    Their age counts from the timestamp of their first record up to the log's clock.
    """
    found = list(log.producer_state.ongoing.below(log.segments.active_segment.base_offset))
    for txn in found[:_NAMED]:
        since = _first_timestamp(log, txn)
        age = None if since is None else log.now - since
        entry = log.producer_state.last_entry(txn.producer_id)
        reason = _reason(txn, entry, age, log.now)
        if entry is not None and log.producer_state.is_late(entry, log.now):
            reason += "; that is longer than transaction.max.timeout.ms allows: it hangs until it is aborted"
        yield Event(Action.EXPLAINED, "", reason, first_offset=txn.first_offset, producer_id=txn.producer_id, age_ms=age)
    if len(found) > _NAMED:
        rest = f"{len(found) - _NAMED} more transactions are open, the last one since offset {found[-1].first_offset}"
        yield Event(Action.EXPLAINED, "", rest)


def _first_timestamp(log: UnifiedLog, txn: TxnMetadata) -> int | None:
    """When the transaction began; None where its first batch has no timestamp, is gone, or can not be found."""
    segment = log.segments.floor_segment(txn.first_offset)
    if segment is None:
        return None
    try:
        head = segment.translate_offset(txn.first_offset)
    except CorruptRecord:  # the log says what is wrong where it is cleaned or recovered
        return None
    return None if head is None or head.base_offset != txn.first_offset else first_timestamp(segment.log_file, head)


def _reason(txn: TxnMetadata, entry: ProducerStateEntry | None, age: int | None, now: int) -> str:
    epoch = "" if entry is None else f", epoch {entry.producer_epoch},"
    what = f"producer {txn.producer_id}{epoch} has a transaction open since offset {txn.first_offset}, {_age(age)}"
    if entry is None or entry.last_timestamp < 0:
        return what
    silence = now - entry.last_timestamp
    return f"{what}; it wrote last {_span(silence)} ago" if silence >= 0 else f"{what}; it wrote last {_ahead(silence)}"


def _age(age: int | None) -> str:
    if age is None:
        return "nobody knows for how long: its first record is gone, or has no timestamp"
    return f"for {_span(age)}" if age >= 0 else f"begun {_ahead(age)}"


def _ahead(negative: int) -> str:
    return f"{_span(-negative)} ahead of the clock"


def _span(ms: int) -> str:
    """A length of time, in words where it is long."""
    left, words = ms, []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            words.append(f"{count} {unit}")
    return f"{' '.join(words)} ({ms} ms)" if words else f"{ms} ms"
