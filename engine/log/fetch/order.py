"""Do the offsets of batches grow, and lie where their segment has them? No checksum covers the offset of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.findings import Finding, Where
from engine.formats import CODEC_MASK, MAGIC_V2, BatchField
from engine.kernels.select import next_break

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.record.windows import Window


class OffsetOrder:
    """Follows the batches of one segment, window by window.

    first, end  offsets that its batches may begin at: first … end − 1
    report      takes offset-order
    """

    def __init__(self, path: str, first: int, end: int, report: Callable[[Finding], None]) -> None:
        self._path, self._first, self._end, self._report = path, first, end, report
        self._claimed: int | None = None  # last offset of the batch before

    def check(self, window: Window) -> None:
        """Report what does not follow. A batch that can not be of this segment is marked as one whose checksum is wrong."""
        table = window.batches.table
        row, claimed, known = next_break(table, 0, window.rows, self._claimed or 0, self._claimed is not None, True)
        if row == window.rows and (not known or claimed < self._end) and table[BatchField.BASE_OFFSET, 0] >= self._first:
            self._claimed = claimed if known else None
            return
        for row in range(window.rows):
            self._claimed = self._follow(window, row)

    def _follow(self, window: Window, row: int) -> int | None:
        """One batch → the last offset that is claimed behind it; None: not known."""
        table = window.batches.table
        first, last = table[BatchField.BASE_OFFSET, row], table[BatchField.LAST_OFFSET, row]
        if not table[BatchField.VALID, row]:
            return None
        is_wrapper = table[BatchField.MAGIC, row] < MAGIC_V2 and table[BatchField.ATTRIBUTES, row] & CODEC_MASK
        if first >= self._end or (first < self._first and not is_wrapper):
            self._say(window, row, f"a batch from offset {first} in a segment of offsets {self._first} to {self._end - 1}")
            table[BatchField.VALID, row] = 0
            return self._claimed
        if self._claimed is not None and first <= self._claimed:
            if is_wrapper:
                return None  # some producers gave their wrappers offset 0
            self._say(window, row, f"a batch from offset {first} follows offset {self._claimed}")
        return int(last)

    def _say(self, window: Window, row: int, what: str) -> None:
        table = window.batches.table
        where = Where(self._path, window.base + table[BatchField.POSITION, row], table[BatchField.BASE_OFFSET, row])
        self._report(Finding("offset-order", where, what))
