"""The transactions of a partition: open ones, and ended ones whose marker may be above the high watermark."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from engine.kernels.producers import close_transaction, first_of_others, open_transaction
from engine.kernels.tables import Applied, Bound
from engine.log.producers.entry import TxnMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOM = 16  # transactions to allocate space for at least


class Transactions:
    """Open transactions by first offset, the lowest first: two columns of 8 bytes, which kernels use too."""

    def __init__(self) -> None:
        self._offsets, self._producers = array("q"), array("q")
        self._bounds = array("q", (0, 0))

    def __len__(self) -> int:
        return self._bounds[Bound.TO] - self._bounds[Bound.FROM]

    @property
    def columns(self) -> tuple[memoryview, memoryview, memoryview]:
        """First offsets, producers, and the range of valid rows, see kernels.producers."""
        return memoryview(self._offsets), memoryview(self._producers), memoryview(self._bounds)

    def make_room(self) -> None:
        """Allocate space for one more."""
        start, end = self._bounds
        if end < len(self._offsets):
            return
        more = bytes(8 * max(_ROOM, end - start))
        self._offsets = self._offsets[start:end] + array("q", more)
        self._producers = self._producers[start:end] + array("q", more)
        self._bounds[Bound.FROM], self._bounds[Bound.TO] = 0, end - start

    def put(self, txn: TxnMetadata) -> None:
        """Add `txn`; it replaces one with the same first offset."""
        self.make_room()
        open_transaction(*self.columns, txn.first_offset, txn.producer_id)

    def take(self, first_offset: int) -> bool:
        """Remove the transaction that begins at `first_offset`. Returns whether there was one."""
        return bool(close_transaction(*self.columns, first_offset) == Applied.DONE)

    def first(self) -> TxnMetadata | None:
        """The transaction with the lowest first offset."""
        return self._at(self._bounds[Bound.FROM]) if len(self) else None

    def first_of_others(self, producer_id: int) -> TxnMetadata | None:
        """The transaction with the lowest first offset of other producers."""
        at = first_of_others(*self.columns[1:], producer_id)
        return self._at(at) if at >= 0 else None

    def below(self, offset: int) -> Iterator[TxnMetadata]:
        """Yield the transactions that begin below `offset`, the lowest first."""
        start, end = self._bounds
        for place in range(start, bisect_left(self._offsets, offset, start, end)):
            yield self._at(place)

    def _at(self, place: int) -> TxnMetadata:
        return TxnMetadata(self._producers[place], self._offsets[place])

    def clear(self) -> None:
        """Remove all."""
        del self._offsets[:], self._producers[:]
        self._bounds[Bound.FROM] = self._bounds[Bound.TO] = 0


class EndedTransactions:
    """Ended transactions by the offset of their marker, for one query: the lowest first offset among those not below X.

    During recovery X stays below all of them, and there may be millions. A transaction that began later than another one and
    ended before it is never the result, so it is not stored. Each stored one needs 16 bytes.
    """

    def __init__(self) -> None:
        self._first, self._last = array("q"), array("q")  # both ascending

    def __len__(self) -> int:
        return len(self._last)

    @property
    def first_offset(self) -> int | None:
        """The lowest first offset."""
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
        """Remove those whose marker is below `offset`."""
        at = bisect_left(self._last, offset)
        del self._first[:at], self._last[:at]

    def clear(self) -> None:
        """Remove all."""
        del self._first[:], self._last[:]
