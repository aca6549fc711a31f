"""Aborted transactions that a cleaning has to know, by the transaction indexes."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.formats import AbortedTxn
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.segment.log_segment import LogSegment


def segments_with_aborted(log: UnifiedLog, start_offset: int) -> list[LogSegment]:
    """The segments from the one that holds the offset on whose transaction index has entries: mostly few of very many."""
    first = log.segments.floor_segment(start_offset)
    return [one for one in log.segments.values(None if first is None else first.base_offset) if len(one.txn_index)]


def aborted_transactions(
    log: UnifiedLog, start_offset: int, end_offset: int, segments: Sequence[LogSegment] | None = None
) -> Iterator[AbortedTxn]:
    """Aborted transactions of the segments that the offsets lie in, but for those that begin behind them.

    segments  see `segments_with_aborted`, of this offset or one before it; None: they are looked for

    Some may have ended before `start_offset`: the key pass, which begins in the middle of a segment, then takes what their
    producer writes next for aborted, up to its next marker. Those records only leave older ones of their keys where they
    are. Mirrors UnifiedLog.collectAbortedTransactions.
    """
    first = log.segments.floor_segment(start_offset)
    asked = segments_with_aborted(log, start_offset) if segments is None else segments
    begin = 0 if first is None else bisect_left(asked, first.base_offset, key=lambda segment: segment.base_offset)
    for number in range(begin, len(asked)):
        for txn in asked[number].txn_index.checked():
            if txn.last_offset >= log.log_start_offset and txn.first_offset < end_offset:
                yield txn
            if txn.last_stable_offset >= end_offset:  # later ones begin behind
                return
