"""The transactions of a partition: the open ones, and those whose marker may lie above the high watermark."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.log.producers.entry import TxnMetadata


class Transactions:
    """Open transactions by the offset that they begin at, the lowest first."""

    def __init__(self) -> None:
        self._by_offset: dict[int, TxnMetadata] = {}
        self._offsets: list[int] = []

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, txn: TxnMetadata) -> None:
        """Add `txn`; one that begins at the same offset goes."""
        if txn.first_offset not in self._by_offset:
            insort(self._offsets, txn.first_offset)
        self._by_offset[txn.first_offset] = txn

    def take(self, first_offset: int) -> TxnMetadata | None:
        """Remove and return the transaction that begins at `first_offset`."""
        txn = self._by_offset.pop(first_offset, None)
        if txn is not None:
            self._offsets.remove(first_offset)
        return txn

    def first(self, wanted: Callable[[TxnMetadata], bool] = lambda _: True) -> TxnMetadata | None:
        """The lowest transaction that is `wanted`."""
        return next((txn for offset in self._offsets if wanted(txn := self._by_offset[offset])), None)

    def clear(self) -> None:
        """Forget all."""
        self._by_offset.clear()
        self._offsets.clear()


class EndedTransactions:
    """Transactions by the offset of their marker, for one question: where does the oldest begin that ended at or above X?

    While a log is recovered X stays below all of them, and there may be millions. One that began later than another, and
    ended before it, is never the answer: it is not kept. Each of the others takes 16 bytes.
    """

    def __init__(self) -> None:
        self._first, self._last = array("q"), array("q")  # both grow

    def __len__(self) -> int:
        return len(self._last)

    @property
    def first_offset(self) -> int | None:
        """Where the oldest one begins."""
        return self._first[0] if self._first else None

    def put(self, first_offset: int, last_offset: int) -> None:
        """Add the transaction from `first_offset` to its marker at `last_offset`."""
        if not self._last or (last_offset > self._last[-1] and first_offset > self._first[-1]):
            self._first.append(first_offset)
            self._last.append(last_offset)
            return
        at = bisect_left(self._last, last_offset)
        if at < len(self._last) and self._first[at] <= first_offset:
            return
        end = bisect_right(self._last, last_offset, at)
        start = bisect_left(self._first, first_offset, 0, end)
        self._first[start:end] = array("q", (first_offset,))
        self._last[start:end] = array("q", (last_offset,))

    def remove_ended_below(self, offset: int) -> None:
        """Forget those whose marker lies below `offset`."""
        at = bisect_left(self._last, offset)
        del self._first[:at], self._last[:at]

    def clear(self) -> None:
        """Forget all."""
        del self._first[:], self._last[:]
