"""Which batches of a log belong to aborted transactions, and which markers are still needed, while it is cleaned.

Mirrors CleanedTransactionMetadata.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from engine.formats import ControlType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.formats import AbortedTxn


class _Aborted:
    """An aborted transaction that the walk is in. `observed`: has a batch of it been seen?"""

    __slots__ = ("observed", "txn")

    def __init__(self, txn: AbortedTxn, *, observed: bool = False) -> None:
        self.txn = txn
        self.observed = observed


class CleanedTransactionMetadata:
    """Transactions around the place that a walk over the log has reached.

    keep  takes the aborted transactions whose data were still seen: entries of the new transaction index
    """

    def __init__(self, keep: Callable[[AbortedTxn], None] | None = None) -> None:
        self.keep = keep
        self._ahead: list[tuple[int, int, AbortedTxn]] = []  # a heap by first offset
        self._aborted: dict[int, _Aborted] = {}
        self._committed: set[int] = set()

    def copy(self) -> CleanedTransactionMetadata:
        """Another one that has read what this one has, and keeps nothing."""
        other = CleanedTransactionMetadata()
        other._ahead = list(self._ahead)
        for producer_id, aborted in self._aborted.items():
            other._aborted[producer_id] = _Aborted(aborted.txn, observed=aborted.observed)
        other._committed = set(self._committed)
        return other

    def add_aborted_transactions(self, transactions: Iterable[AbortedTxn]) -> None:
        """Aborted transactions that may lie ahead."""
        for number, txn in enumerate(transactions):
            heappush(self._ahead, (txn.first_offset, len(self._ahead) + number, txn))

    def on_control_batch_read(self, producer_id: int, last_offset: int, kind: ControlType | None) -> bool:
        """A control batch was met: can it be dropped, as far as its transaction goes?

        kind  of its record; None: it has none, an earlier cleaning emptied it. Other kinds than markers stay.
        """
        self._consume_up_to(last_offset)
        if kind is None:
            return True
        if kind is ControlType.COMMIT:
            seen = producer_id in self._committed
            self._committed.discard(producer_id)
            return not seen
        if kind is not ControlType.ABORT:
            return False
        aborted = self._aborted.pop(producer_id, None)
        if aborted is None or not aborted.observed:
            return True
        if self.keep is not None:
            self.keep(aborted.txn)
        return False

    def on_batch_read(self, producer_id: int, last_offset: int, is_transactional: bool) -> bool:
        """A batch of data was met: does it belong to an aborted transaction?"""
        self._consume_up_to(last_offset)
        if not is_transactional:
            return False
        aborted = self._aborted.get(producer_id)
        if aborted is None:
            self._committed.add(producer_id)
            return False
        aborted.observed = True
        return True

    def _consume_up_to(self, offset: int) -> None:
        while self._ahead and self._ahead[0][0] <= offset:
            txn = heappop(self._ahead)[2]
            self._aborted.setdefault(txn.producer_id, _Aborted(txn))
