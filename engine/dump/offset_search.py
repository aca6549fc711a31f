"""Batches by offset from any byte of a log on, asked for by each entry of a time index."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.formats import LONG_MIN

if TYPE_CHECKING:
    from engine.dump.batch_heads import BatchAt, BatchHeads

_NEAR = 64  # batches that are looked at one by one first: where the offset index is right, the one in question is there
_SMALLEST_BLOCK = 8  # bits of a position in a block: 256 bytes
_BLOCKS = 15  # bits of the numbers of blocks, 32,768 at most
_FANOUT = 4  # bits: 16 blocks make one of the next level
_KEPT = 100_000  # blocks that are remembered; only in a log made for it are there more


class _Passage(NamedTuple):
    """What the batches in a block come to: largest last offset, and where the next block is entered; None: nowhere."""

    largest: int
    behind: int | None


class OffsetSearch:
    """Finds batches from any position on, and walks no part of the log twice at length, however often it is asked.

    How far the batches of a block reach, and where they lead, is remembered, for the position at which the block was
    entered: what begins elsewhere may be other batches. Offsets need not grow. So a question costs some batches at its
    beginning and its end, and a few steps over blocks of blocks.
    """

    def __init__(self, heads: BatchHeads) -> None:
        self._heads = heads
        self._bits = max(_SMALLEST_BLOCK, heads.size.bit_length() - _BLOCKS)
        self._passages: dict[tuple[int, int], _Passage] = {}  # by level, and where the block was entered
        self._last: tuple[int, int, int | None] = (-1, 0, None)  # position and offset of the last question, where it led

    def first(self, position: int, offset: int) -> BatchAt | None:
        """First batch from `position` on that ends at `offset` or behind it; None: there is none, or bytes that are no batch.

        Raises UnreadableFile, and FileChangedWhileReading.
        """
        begin: int | None = position
        if self._last[0] == position and self._last[1] <= offset:
            begin = self._last[2]  # nothing in front of that reached a smaller offset
        found = None if begin is None else self._first(begin, offset)
        self._last = (position, offset, None if found is None else found.position)
        return found

    def _first(self, position: int, offset: int) -> BatchAt | None:
        passed, enters = 0, False
        while passed < _NEAR or not enters:
            batch = self._heads.at(position)
            if isinstance(batch, str):
                return None
            if batch.last_offset >= offset:
                return batch
            behind = position + batch.size
            passed, enters = passed + 1, self._block(0, behind) != self._block(0, position)
            position = behind
        return self._over_blocks(position, offset)

    def _over_blocks(self, position: int, offset: int) -> BatchAt | None:
        """As `first`, from where a block is entered."""
        level = 0
        while True:
            largest, behind = self._passage(level, position)
            if largest >= offset:
                if level == 0:
                    return self._in_block(position, offset)
                level -= 1
            elif behind is None:
                return None
            else:
                level += self._block(level + 1, behind) != self._block(level + 1, position)
                position = behind

    def _in_block(self, position: int, offset: int) -> BatchAt | None:
        while not isinstance(batch := self._heads.at(position), str):
            if batch.last_offset >= offset:
                return batch
            position += batch.size
        return None

    def _passage(self, level: int, position: int) -> _Passage:
        """Through the block of `level` that is entered at `position`."""
        known = self._passages.get((level, position))
        if known is not None:
            return known
        largest, block = LONG_MIN, self._block(level, position)
        behind: int | None = position
        while behind is not None and self._block(level, behind) == block:
            reached, behind = self._passage(level - 1, behind) if level else self._one(behind)
            largest = max(largest, reached)
        if len(self._passages) >= _KEPT:
            self._passages.clear()
        self._passages[level, position] = passage = _Passage(largest, behind)
        return passage

    def _one(self, position: int) -> _Passage:
        batch = self._heads.at(position)
        return _Passage(LONG_MIN, None) if isinstance(batch, str) else _Passage(batch.last_offset, position + batch.size)

    def _block(self, level: int, position: int) -> int:
        return position >> (self._bits + level * _FANOUT)
