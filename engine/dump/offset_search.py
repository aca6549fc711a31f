"""Batches by offset from any byte of a log on, asked for by each entry of a time index."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from engine.formats import LONG_MIN, NO_TIMESTAMP, BatchField
from engine.kernels.select import largest_timestamps
from engine.kernels.verify import Timestamps
from engine.record.columns import BatchColumns
from engine.record.reader import ChunkReader
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.dump.batch_heads import BatchAt, BatchHeads
    from engine.dump.renderer import DumpOptions
    from engine.files import OpenFile
    from engine.findings import Finding
    from engine.record.windows import Window


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


_ROWS = 256  # batches that are decoded together
_DENSE = 1 << 10  # bytes: where batches are smaller, an index names few of them, and only those are decoded
_REMEMBERED = 100_000  # batches whose answers are remembered


class LargestTimestamps:
    """Of batches of one log, which are asked for in the order of their positions mostly.

    Answers are remembered: an index may name a batch as often as it likes, or name them in any order.

    report  takes what is wrong with the records of a batch that was asked for, once
    """

    def __init__(self, log: OpenFile, heads: BatchHeads, options: DumpOptions, report: Callable[[Finding], None]) -> None:
        self._log, self._heads, self._report = log, heads, report
        self._max_batch_bytes = options.max_batch_bytes
        self._damage: list[Finding] = []
        self._reader = ChunkReader(log.path, self._damage.append, options.max_decompressed_bytes)
        self._batches = BatchColumns(_ROWS)
        self._largest = memoryview(array("q", [0] * _ROWS))
        self.known_window: Timestamps | None = None  # the batches that were decoded together last; None: none were
        self._known: dict[int, int | None] = {}  # by position of the batch
        self._singly: set[int] = set()  # positions of batches that could not be decoded together

    def of(self, batch: BatchAt) -> int | None:
        """−1 at least; None where there are no records, or they could not all be read.

        Raises UnreadableFile, and FileChangedWhileReading.
        """
        known = self._known
        if batch.position not in known:
            if len(known) > _REMEMBERED or len(self._singly) > _REMEMBERED:
                known.clear()
                self._singly.clear()
            if batch.position not in self._singly:
                known |= self._from(batch)
            if batch.position not in known:
                known[batch.position] = self._alone(batch)
        return known[batch.position]

    def _from(self, batch: BatchAt) -> dict[int, int | None]:
        """`batch` and those behind it that are in memory, if they are worth it and nothing is wrong with any of them."""
        window = self._heads.window(batch, self._batches, rows=_ROWS)
        if window is None:
            return {}
        table = self._batches.table
        sizes = [table[BatchField.SIZE, row] for row in range(window.rows)]
        rows = next((row for row, size in enumerate(sizes) if size > self._max_batch_bytes), window.rows)
        if rows == 0 or sum(sizes[:rows]) // rows < _DENSE:
            return {}
        positions = [window.base + table[BatchField.POSITION, row] for row in range(rows)]
        rows = next((row for row, at in enumerate(positions) if at in self._known), rows)
        largest = self._read(window._replace(rows=rows))
        if largest is None:
            self._singly.update(positions[:rows])
            return {}
        self.known_window = Timestamps(table, rows, window.base, self._largest)
        return {positions[row]: None if table[BatchField.COUNT, row] == 0 else largest[row] for row in range(rows)}

    def _alone(self, batch: BatchAt) -> int | None:
        windows: Iterable[Window]
        window = self._heads.window(batch, self._batches) if batch.size <= self._max_batch_bytes else None
        if window is not None:
            windows = (window,)
        else:
            end, limit = batch.position + batch.size, self._max_batch_bytes
            windows = LogWalk(self._log, batch.position, end, max_batch_bytes=limit, batches=self._batches)
        answer = NO_TIMESTAMP
        for part in windows:
            if not part.rows:
                continue
            if part.batches.table[BatchField.COUNT, 0] == 0:
                return None  # the cleaner emptied the batch, and with it went what the entry was made from
            largest = self._read(part)
            if largest is None:
                for finding in self._damage:
                    self._report(finding)
                return None
            answer = max(answer, *largest[: part.rows])
        return answer

    def _read(self, window: Window) -> memoryview | None:
        """The largest timestamp of each of the window's batches; None where something is wrong with one, see `_damage`."""
        self._damage.clear()
        self.known_window = None
        for row in range(window.rows):
            self._largest[row] = NO_TIMESTAMP
        for chunk in self._reader.chunks(window):
            largest_timestamps(chunk.records.table, chunk.first, chunk.end, self._largest)
        return None if self._damage else self._largest
