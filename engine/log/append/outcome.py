"""What became of an input: sums, and the runs of offsets that nobody was told of yet. Little, however long the input is."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol

_MOST = 4096  # runs that may wait before a flush is wanted


class Appended(NamedTuple):
    """Batches that are in the log, one behind the other; of a duplicate, which is alone, where it was already.

    cut_off  see Validated; of what a follower takes as it is, what is wrong inside (BrokenBatch)
    """

    first_offset: int
    last_offset: int
    is_duplicate: bool = False
    cut_off: str | None = None

    @property
    def amount(self) -> int:
        """Offsets that it takes: records, or bytes of a log of 0.7."""
        return self.last_offset - self.first_offset + 1


class Appends(Protocol):
    """Takes what became of batches, in order. A list is one."""

    def append(self, one: Appended, /) -> None:
        """Take the next one."""


class Outcome:
    """An Appends that keeps no more than is asked of it.

    amount     offsets of all batches so far, duplicates too        told  of those that `take` gave out
    last       the latest batches; None: there were none
    cut_off    how many were cut off        first_cut_off  the first of them
    """

    def __init__(self) -> None:
        self.amount = self.told = self.cut_off = 0
        self.last: Appended | None = None
        self.first_cut_off: Appended | None = None
        self._waiting: deque[Appended] = deque()

    def append(self, one: Appended, /) -> None:
        """See Appends. What goes on where the batches before it end becomes one run with them."""
        self.amount += one.amount
        self.last = one
        if one.cut_off is not None:
            self.cut_off += 1
            self.first_cut_off = self.first_cut_off or one
        before = self._waiting[-1] if self._waiting else None
        if before is None or one.is_duplicate or before.is_duplicate or one.first_offset != before.last_offset + 1:
            self._waiting.append(one)
        else:
            self._waiting[-1] = before._replace(last_offset=one.last_offset)

    @property
    def is_waiting(self) -> bool:
        """Is there anything that `take` did not give out?"""
        return bool(self._waiting)

    @property
    def is_full(self) -> bool:
        """Do so many runs wait that their number should not grow?"""
        return len(self._waiting) > _MOST

    def take(self, end_offset: int) -> list[Appended]:
        """The runs below `end_offset`, where batches end; they are forgotten. What comes behind one that is not waits too."""
        taken: list[Appended] = []
        while self._waiting and self._waiting[0].first_offset < end_offset:
            one = self._waiting.popleft()
            if one.last_offset >= end_offset:
                self._waiting.appendleft(one._replace(first_offset=end_offset))
                one = one._replace(last_offset=end_offset - 1)
            taken.append(one)
            self.told += one.amount
        return taken
