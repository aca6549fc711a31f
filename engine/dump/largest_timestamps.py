"""The largest timestamp among a batch's records: what an entry of a time index was made from."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from engine.formats import NO_TIMESTAMP, BatchField
from engine.kernels.select import largest_timestamps
from engine.record.columns import BatchColumns
from engine.record.reader import ChunkReader
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.dump.batch_heads import BatchAt, BatchHeads
    from engine.dump.options import DumpOptions
    from engine.files import OpenFile
    from engine.findings import Finding
    from engine.record.windows import Window

_ROWS = 256  # batches that are decoded together
_DENSE = 1 << 10  # bytes: where batches are smaller, an index names few of them, and only those are decoded
_KEPT = 100_000  # batches whose answers are remembered


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
        self._known: dict[int, int | None] = {}  # by position of the batch
        self._singly: set[int] = set()  # positions of batches that could not be decoded together

    def of(self, batch: BatchAt) -> int | None:
        """−1 at least; None where there are no records, or they could not all be read.

        Raises UnreadableFile, and FileChangedWhileReading.
        """
        known = self._known
        if batch.position not in known:
            if len(known) > _KEPT or len(self._singly) > _KEPT:
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
        for row in range(window.rows):
            self._largest[row] = NO_TIMESTAMP
        for chunk in self._reader.chunks(window):
            largest_timestamps(chunk.records.table, chunk.first, chunk.end, self._largest)
        return None if self._damage else self._largest
