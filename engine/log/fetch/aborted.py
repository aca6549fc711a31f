"""Aborted transactions that a reader must leave out: by the transaction indexes, or where one is lost by the markers.

An index only exists where a transaction was aborted, so one that is not there tells nothing: the headers of what is read are
walked then, and on until every transaction that is open there has come to its marker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.formats import CONTROL_FLAG, AbortedTxn, BatchField, ControlType
from engine.index.offset import OffsetPosition
from engine.kernels.transactions import next_in_transaction
from engine.log.segment.recovery_walk import read_marker
from engine.record.columns import BatchColumns, RecordColumns
from engine.record.control import ControlRecordInvalid
from engine.record.heads import HeadWalk
from engine.record.soundness import go_on
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.files import OpenFile
    from engine.log.fetch.readable import ReadableLog
    from engine.log.offset_metadata import LogOffsetMetadata
    from engine.log.segment.reading import ReadableSegment
    from engine.record.windows import Window


def aborted_transactions(
    log: ReadableLog, start_offset: int, segment: ReadableSegment, place: LogOffsetMetadata, size: int
) -> list[AbortedTxn]:
    """Those that a reader of `size` bytes of `segment` from `place` on must know. Mirrors LocalLog.addAbortedTransactions."""
    upper = segment.fetch_upper_bound_offset(OffsetPosition(place.message_offset, place.position or 0), size)
    if upper is None:
        following = log.segments.higher_segment(segment.base_offset)
        upper = log.log_end_offset if following is None else following.base_offset
    found: list[AbortedTxn] = []
    is_known = True
    for one in _from(log, segment):
        if one.aborted_are_unknown:
            is_known = False
            continue
        result = one.collect_aborted_txns(start_offset, upper)
        found += result.transactions
        if result.is_complete:
            break
    if not is_known:
        found += _Markers(log, upper).aborted_from(segment, place.position or 0)
        found.sort(key=lambda txn: txn.last_offset)
    return found


def _from(log: ReadableLog, segment: ReadableSegment) -> Iterator[ReadableSegment]:
    """The segment and those after it, as far as they are asked for."""
    following: ReadableSegment | None = segment
    while following is not None:
        yield following
        following = log.segments.higher_segment(following.base_offset)


class _Markers:
    """Follows transactions through headers, up to offset `upper` and until all that began before it are over."""

    def __init__(self, log: ReadableLog, upper: int) -> None:
        self._log, self._upper = log, upper
        self._open: dict[int, int] = {}  # producer → the first offset that was seen of its transaction
        self._aborted: list[AbortedTxn] = []
        self._is_asked = False  # does no index tell of the markers here?
        self._records, self._batches, self._one = RecordColumns(8), BatchColumns(), BatchColumns(16)

    def aborted_from(self, segment: ReadableSegment, position: int) -> list[AbortedTxn]:
        """Those that segments without a sound index end, with batches from byte `position` of `segment` on.

        Each begins where the first of these batches does.
        """
        for one in _from(self._log, segment):
            self._is_asked = one.aborted_are_unknown
            walk, goes_on = HeadWalk(one.log_file, position if one is segment else 0, one.size, batches=self._batches), True
            while goes_on:
                for window in walk:
                    self._follow(window, one.log_file)
                    if self._is_over(window):
                        return self._aborted
                goes_on, _ = go_on(walk)  # who reads there is told of damage
            if one is not segment:
                one.release_log()
        return self._aborted

    def _is_over(self, window: Window) -> bool:
        is_behind = window.batches.table[BatchField.LAST_OFFSET, window.rows - 1] >= self._upper
        return is_behind and all(first >= self._upper for first in self._open.values())

    def _follow(self, window: Window, file: OpenFile) -> None:
        table = window.batches.table
        row = next_in_transaction(table, 0, window.rows)
        while row < window.rows:
            producer = table[BatchField.PRODUCER_ID, row]
            if not table[BatchField.ATTRIBUTES, row] & CONTROL_FLAG:
                self._open.setdefault(producer, table[BatchField.BASE_OFFSET, row])
            else:
                self._end(producer, file, table[BatchField.POSITION, row], table[BatchField.SIZE, row])
            row = next_in_transaction(table, row + 1, window.rows)

    def _end(self, producer: int, file: OpenFile, position: int, size: int) -> None:
        """A control batch. One that cannot be read ends nothing, as for whoever reads the records, and is told of there."""
        for window in LogWalk(file, position, position + size, window_size=size, batches=self._one):
            try:
                marker = read_marker(window, 0, self._records)
            except ControlRecordInvalid:
                return
            if marker is None:
                return
            first, last = self._open.pop(producer, None), window.batches.table[BatchField.LAST_OFFSET, 0]
            if self._is_asked and first is not None and marker.control_type is ControlType.ABORT:
                self._aborted.append(AbortedTxn(0, producer, first, last, last + 1))
