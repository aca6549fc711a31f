"""Decide which batches a consumer gets: no control batches, and no batches of aborted transactions."""

from __future__ import annotations

from bisect import bisect_right
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from engine.formats import CONTROL_FLAG, MAGIC_V2, TRANSACTIONAL_FLAG, BatchField, ControlType
from engine.kernels.transactions import next_in_transaction
from engine.log.fetch.reading import find_aborted
from engine.log.segment.producer_rows import unreadable_marker
from engine.log.segment.recovery_walk import read_marker
from engine.record.columns import RecordColumns
from engine.record.control import ControlRecordInvalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.findings import Finding
    from engine.formats import AbortedTxn
    from engine.log.fetch.reading import FetchData, ReadableLog
    from engine.record.windows import Window


class AllRecords:
    """Decides without transactions. See CommittedRecords."""

    def __init__(self, path: str, report: Callable[[Finding], None]) -> None:
        self._path, self._report = path, report
        self._markers = RecordColumns(8)

    def wants(self, window: Window, row: int) -> bool:
        """Does a consumer get the records of this batch?"""
        table = window.batches.table
        attributes = table[BatchField.ATTRIBUTES, row]
        if table[BatchField.MAGIC, row] < MAGIC_V2 or not attributes & (CONTROL_FLAG | TRANSACTIONAL_FLAG):
            return True
        if attributes & CONTROL_FLAG:
            self._ended(window, row)
            return False
        return self._is_committed(window, row)

    def _is_committed(self, window: Window, row: int) -> bool:  # noqa: ARG002  # of the interface
        return True

    def _ended(self, window: Window, row: int) -> None:
        """Process a control batch."""
        self._read_marker(window, row)

    def _read_marker(self, window: Window, row: int) -> ControlType | None:
        """Return the type of a marker; None: an unreadable one, which is reported, or another control record."""
        try:
            marker = read_marker(window, row, self._markers)
        except ControlRecordInvalid as error:
            if window.batches.table[BatchField.VALID, row]:  # a wrong checksum is reported already
                self._report(unreadable_marker(window, row, self._path, error))
            return None
        return None if marker is None else marker.control_type


class CommittedRecords(AllRecords):
    """Decides for the batches of `data`, which was read from `log` at `offset`. Mirrors CompletedFetch.

    Call `wants` once for each batch, in order. If reading indexes means requests to a store, a marker in the same window
    decides first, and then indexes are read only up to the first one that decides.
    """

    def __init__(self, log: ReadableLog, offset: int, data: FetchData, report: Callable[[Finding], None]) -> None:
        assert data.segment is not None  # there are bytes
        super().__init__(data.segment.log_path, report)
        self._log, self._offset, self._data, self._end = log, offset, data, data.segment.next_offset
        self._due: list[tuple[int, int]] = []  # heap of transactions to leave out: first offset, producer
        self._skipped: set[int] = set()  # producers whose current transaction is left out
        self._lasts: dict[int, int] = {}  # by producer: last offset of the last transaction that was found
        self._search: Iterator[Sequence[AbortedTxn]] | None = None  # None: not begun
        self._is_lazy = data.segment.needs_requests
        self._ends: dict[int, list[tuple[int, bool | None]]] = {}  # by producer: (row, is it an abort?) of the markers in
        self._window = -1  # this window, by its first offset
        if not self._is_lazy:
            for some in find_aborted(log, offset, data):
                self._add(some, 0)

    def _add(self, transactions: Sequence[AbortedTxn], base: int) -> None:
        """Add the transactions that end at or after offset `base`."""
        for txn in transactions:
            if txn.last_offset >= base:
                heappush(self._due, (txn.first_offset, txn.producer_id))
                self._lasts[txn.producer_id] = max(txn.last_offset, self._lasts.get(txn.producer_id, -1))

    def _ended(self, window: Window, row: int) -> None:
        self._skip_begun(window, row)
        if self._read_marker(window, row) is ControlType.ABORT:
            self._skipped.discard(window.batches.table[BatchField.PRODUCER_ID, row])

    def _skip_begun(self, window: Window, row: int) -> None:
        last = window.batches.table[BatchField.LAST_OFFSET, row]
        while self._due and self._due[0][0] <= last:
            self._skipped.add(heappop(self._due)[1])

    def _is_committed(self, window: Window, row: int) -> bool:
        self._skip_begun(window, row)
        producer = window.batches.table[BatchField.PRODUCER_ID, row]
        if producer not in self._skipped and self._is_lazy:
            is_aborted = self._aborts_here(window, row, producer)
            if is_aborted is not None:
                return not is_aborted
            self._search_for(window, row, producer)
        return producer not in self._skipped

    def _aborts_here(self, window: Window, row: int, producer: int) -> bool | None:
        """Does the next marker of the producer in this window abort its transaction? None: no marker, or unreadable."""
        table = window.batches.table
        if self._window != table[BatchField.BASE_OFFSET, 0]:
            self._window = table[BatchField.BASE_OFFSET, 0]
            self._ends.clear()
            at = next_in_transaction(table, 0, window.rows)
            while at < window.rows:
                if table[BatchField.ATTRIBUTES, at] & CONTROL_FLAG:
                    self._ends.setdefault(table[BatchField.PRODUCER_ID, at], []).append((at, self._is_abort(window, at)))
                at = next_in_transaction(table, at + 1, window.rows)
        ends = self._ends.get(producer, [])
        place = bisect_right(ends, row, key=lambda end: end[0])
        return ends[place][1] if place < len(ends) else None

    def _is_abort(self, window: Window, row: int) -> bool | None:
        """Is it an abort marker? None: it cannot be read."""
        try:
            marker = read_marker(window, row, self._markers)
        except ControlRecordInvalid:
            return None
        is_valid = marker is not None and window.batches.table[BatchField.VALID, row]
        return marker.control_type is ControlType.ABORT if marker is not None and is_valid else None

    def _search_for(self, window: Window, row: int, producer: int) -> None:
        """Read indexes until the producer's next aborted transaction is found: this one or a later one."""
        table = window.batches.table
        base = table[BatchField.BASE_OFFSET, row]
        if self._search is None:
            is_last = self._end is not None and table[BatchField.LAST_OFFSET, window.rows - 1] + 1 >= self._end
            are_readable = all(is_abort is not None for ends in self._ends.values() for _, is_abort in ends)
            self._search = find_aborted(self._log, self._offset, self._data, after_segment=is_last and are_readable)
        while self._lasts.get(producer, -1) < base:
            some = next(self._search, None)
            if some is None:  # now and from now on
                return
            self._add(some, base)
            self._skip_begun(window, row)
