"""During cleaning: which batches belong to aborted transactions, and which markers are still needed.

Mirrors CleanedTransactionMetadata.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from heapq import merge
from itertools import islice
from operator import gt
from typing import TYPE_CHECKING

from engine.formats import AbortedTxn, BatchField, ControlType, Status
from engine.kernels import verdicts
from engine.kernels.tables import TXN_FIELDS, TXN_WORDS, TxnBatch, TxnFlag, TxnState
from engine.kernels.transactions import Transactions, decide, decide_rows, move_producers, pack_producers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.producers.entry import ProducerStateEntry
    from engine.log.segment.log_segment import LogSegment
    from engine.record.windows import Window


_LEAST = 64  # half the number of producers in the smallest table
_MOST_KEPT = 1024  # aborted transactions that are collected before they are passed to `keep`
_RUN = 4096  # aborted transactions that are Python objects at the same time
_MANY = 10_000  # aborted transactions after which finished ones are removed from memory
_FIRST, _OWNER = AbortedTxn._fields.index("first_offset"), AbortedTxn._fields.index("producer_id")
_MARKERS = {ControlType.COMMIT: TxnBatch.COMMIT, ControlType.ABORT: TxnBatch.ABORT}


class CleanedTransactionMetadata:
    """Transactions at the current position of a walk over a log.

    keep            called for aborted transactions that still have records: entries of the new transaction index
    concerned_from  transactions whose records end below this offset count neither as `unlisted_abort` nor as `undecided`
    """

    def __init__(self, keep: Callable[[AbortedTxn], None] | None = None, *, concerned_from: int = 0) -> None:
        self.keep = keep
        self._aborted = _columns()  # open or later transactions, by first offset: there may be a million
        self._state = array("q", bytes(8 * TXN_FIELDS))
        self._state[TxnState.FROM] = concerned_from
        self._slots = array("q", bytes(8 * TXN_WORDS * 2 * _LEAST))
        self._kept = array("q", bytes(8 * _MOST_KEPT))

    @property
    def unlisted_abort(self) -> int:
        """Offset of the last abort marker of a transaction that has records but was not listed as aborted; −1: none."""
        return self._state[TxnState.UNREPORTED_ABORT] - 1

    def undecided(self) -> set[int]:
        """Producers with records in a transaction that is not listed as aborted and whose marker was not read yet."""
        slots = self._slots
        return {slots[at] for at in range(0, len(slots), TXN_WORDS) if slots[at + 1] & TxnFlag.COMMITTED}

    def add_aborted_transactions(self, transactions: Iterable[AbortedTxn]) -> None:
        """Add aborted transactions that the walk may reach."""
        known = len(self._aborted[_FIRST])
        _extend(self._aborted, transactions)
        if len(self._aborted[_FIRST]) == known:
            return
        self._forget()
        next_one = self._state[TxnState.NEXT]
        firsts = self._aborted[_FIRST][next_one:]
        if any(map(gt, firsts, islice(firsts, 1, None))):
            order = sorted(range(len(firsts)), key=firsts.__getitem__)
            for column in self._aborted:
                column[next_one:] = array("q", map(column[next_one:].__getitem__, order))

    def on_control_batch_read(self, producer_id: int, last_offset: int, kind: ControlType | None) -> bool:
        """Process a control batch. Returns whether it can be dropped.

        kind  of its record; None: an earlier cleaning removed the record. Only markers can be dropped.
        """
        meaning = TxnBatch.EMPTY if kind is None else _MARKERS.get(kind, TxnBatch.OTHER)
        return self._decide(producer_id, last_offset, meaning)

    def on_window_read(self, window: Window, kind_of: Callable[[Window, int], ControlType | None], row: int = 0) -> memoryview:
        """Process the transactional and control batches of a window from `row` on. Returns 1 for each that can be dropped.

        kind_of  returns the `kind` for `on_control_batch_read`, for control batches that are not plain markers
        """
        dropped, status = memoryview(bytearray(window.rows)), int(Status.FULL)
        table = window.batches.table
        while status != Status.END:
            row, status = decide_rows(window.data, table, row, window.rows, self._memory(), dropped)
            if status == Status.BAD_RECORD:
                producer_id, last_offset = table[BatchField.PRODUCER_ID, row], table[BatchField.LAST_OFFSET, row]
                dropped[row] = self.on_control_batch_read(producer_id, last_offset, kind_of(window, row))
                row += 1
            elif status == Status.FULL:
                self._make_room()
            elif status != Status.END:
                raise AssertionError("batches, flags and transactions do not match")
        self._pass_kept()
        return dropped

    def _memory(self) -> Transactions:
        """The state as the kernels read it."""
        firsts, owners = self._aborted[_FIRST], self._aborted[_OWNER]
        return Transactions(*(memoryview(one) for one in (self._slots, self._state, firsts, owners, self._kept)))

    def _decide(self, producer_id: int, last_offset: int, kind: TxnBatch) -> bool:
        while (answer := decide(self._memory(), producer_id, last_offset, kind)) == -1:
            self._make_room()
        if answer < 0:
            raise AssertionError("transactions do not match")
        self._pass_kept()
        return bool(answer)

    def _pass_kept(self) -> None:
        """Pass aborted transactions to `keep`, in the order of their markers, if records of theirs were read."""
        if self.keep is not None:
            for number in self._kept[: self._state[TxnState.KEPT]]:
                self.keep(AbortedTxn(*(column[number] for column in self._aborted)))
        self._state[TxnState.KEPT] = 0

    def _make_room(self) -> None:
        self._pass_kept()
        slot_count = len(self._slots) // TXN_WORDS
        if 2 * (self._state[TxnState.PRODUCERS] + 1) > slot_count:
            self._move(slot_count)  # without producers that have no open transaction
            if 4 * self._state[TxnState.PRODUCERS] > slot_count:
                self._move(2 * slot_count)

    def _move(self, slot_count: int) -> None:
        slots = array("q", bytes(8 * TXN_WORDS * slot_count))
        self._state[TxnState.PRODUCERS] = move_producers(memoryview(self._slots), memoryview(slots))
        self._slots = slots

    def _forget(self) -> None:
        """Remove aborted transactions that are finished, if there are many."""
        next_one = self._state[TxnState.NEXT]
        if next_one < _MANY:
            return
        most = self._state[TxnState.PRODUCERS]
        packed, numbers = (array("q", bytes(8 * words * most)) for words in (TXN_WORDS, 1))
        count, known = pack_producers(memoryview(self._slots), memoryview(packed), memoryview(numbers))
        self._aborted = [array("q", map(column.__getitem__, numbers[:known])) + column[next_one:] for column in self._aborted]
        self._slots, self._state[TxnState.NEXT] = packed[: TXN_WORDS * count], known
        slot_count = 2 * _LEAST
        while slot_count < 4 * count:
            slot_count *= 2
        self._move(slot_count)


def _columns() -> list[array[int]]:
    """A column for each field of AbortedTxn."""
    return [array("q") for _ in AbortedTxn._fields]


def _extend(columns: list[array[int]], transactions: Iterable[AbortedTxn]) -> None:
    left = iter(transactions)
    while some := list(islice(left, _RUN)):
        for column, numbers in zip(columns, zip(*some, strict=True), strict=True):
            column.extend(numbers)


def segments_with_aborted(log: UnifiedLog, start_offset: int) -> list[LogSegment]:
    """The segments from the one with the offset on whose transaction index has entries; usually few."""
    first = log.segments.floor_segment(start_offset)
    return [one for one in log.segments.values(None if first is None else first.base_offset) if len(one.txn_index)]


def aborted_transactions(
    log: UnifiedLog, start_offset: int, end_offset: int, segments: Sequence[LogSegment] | None = None
) -> Iterator[AbortedTxn]:
    """Yield aborted transactions of the segments that contain the offsets, except those that begin later.

    segments  from `segments_with_aborted`, for this offset or a lower one; None: they are searched

    Some may have ended before `start_offset`. The key pass begins in the middle of a segment, so it may treat later records of
    the same producer as aborted, up to its next marker. The only effect is that older records of those keys are retained.
    Mirrors UnifiedLog.collectAbortedTransactions.
    """
    first = log.segments.floor_segment(start_offset)
    asked = segments_with_aborted(log, start_offset) if segments is None else segments
    begin = 0 if first is None else bisect_left(asked, first.base_offset, key=lambda segment: segment.base_offset)
    for number in range(begin, len(asked)):
        for txn in asked[number].txn_index.checked():
            if txn.last_offset >= log.log_start_offset and txn.first_offset < end_offset:
                yield txn
            if txn.last_stable_offset >= end_offset:  # later ones begin after
                return


_PRODUCERS = 16_384  # producers that are Python objects at the same time


class LastRecords:
    """The last records of producers before a round, 18 bytes each, because there may be a million producers.

    ids, offsets, epochs  columns ordered by id: last data offset (−1: only markers are known) and epoch
    round_end             the last offset of the round
    """

    def __init__(self, producers: Iterable[ProducerStateEntry], round_end: int) -> None:
        self.ids, self.offsets, self.epochs, self.round_end = array("q"), array("q"), array("h"), round_end
        for producer_id, offset, epoch in merge(*(zip(*run, strict=True) for run in _runs(iter(producers)))):
            self.ids.append(producer_id)
            self.offsets.append(offset)
            self.epochs.append(epoch)

    @property
    def columns(self) -> verdicts.LastRecords:
        """The columns as the kernels read them."""
        return verdicts.LastRecords(memoryview(self.ids), memoryview(self.offsets), memoryview(self.epochs), self.round_end)


def _runs(producers: Iterator[ProducerStateEntry]) -> Iterator[tuple[array[int], array[int], array[int]]]:
    """Yield ids, last data offsets and epochs of a limited number of producers at a time, ordered by id."""
    while some := list(islice(producers, _PRODUCERS)):
        rows = sorted((entry.producer_id, entry.last_data_offset, entry.producer_epoch) for entry in some)
        ids, offsets, epochs = zip(*rows, strict=True)
        yield array("q", ids), array("q", offsets), array("h", epochs)
