"""Check that the offsets of batches increase and belong to their segment. No checksum covers the offset of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.amounts import offsets_text
from engine.findings import Finding, Where
from engine.formats import CODEC_MASK, MAGIC_V2, BatchField
from engine.kernels.select import next_break
from engine.log.errors import CorruptRecord
from engine.log.segment.batch_search import heads

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.log.segment.readable_segment import ReadableSegment
    from engine.record.windows import Window


def stop_before(segment: ReadableSegment, end: int) -> int | None:
    """The byte at which reading of offsets below `end` may stop: the end of the batch that holds end − 1.

    None: not known, because of damage, or because a batch is out of order there and wanted records may follow it.
    """
    try:
        head = segment.translate_offset(end - 1)
    except CorruptRecord:  # the reader finds the damage again and reports it
        return None
    if head is None or head.base_offset >= end:
        return None
    after = head.position + head.size
    return after if _continues_above(segment, after, head.last_offset) else None


def _continues_above(segment: ReadableSegment, position: int, last_offset: int) -> bool:
    """Does the batch at byte `position` begin after `last_offset`? Also true if there is no batch."""
    try:
        head = next(heads(segment.log_file, position, segment.size), None)
    except CorruptRecord:  # damage after the wanted records
        return True
    return head is None or head.base_offset > last_offset or head.magic < MAGIC_V2


class OffsetOrder:
    """Checks the batches of one segment, window by window.

    end     the end offset of the segment: all its batches must be below it
    report  called with offset-order findings
    """

    def __init__(self, segment: ReadableSegment, end: int, report: Callable[[Finding], None]) -> None:
        self._segment, self._first, self._end, self._report = segment, segment.base_offset, end, report
        self._claimed: int | None = None  # last offset of the previous batch
        self._bases = (self._first - 1, self._first - 1)  # base offsets of the last two batches
        self._position = 0  # end of the last batch

    def check(self, window: Window) -> None:
        """Report batches out of order. A batch that cannot belong to this segment is marked as if its checksum were wrong."""
        table, last = window.batches.table, window.rows - 1
        before = table[BatchField.BASE_OFFSET, last - 1] if last else self._bases[1]
        self._bases = before, table[BatchField.BASE_OFFSET, last]
        self._position = window.base + table[BatchField.POSITION, last] + table[BatchField.SIZE, last]
        row, claimed, known = next_break(table, 0, window.rows, self._claimed or 0, self._claimed is not None, True)
        if row == window.rows and (not known or claimed < self._end) and table[BatchField.BASE_OFFSET, 0] >= self._first:
            self._claimed = claimed if known else None
            return
        for row in range(window.rows):
            self._claimed = self._follow(window, row)

    def is_past(self, end: int) -> bool:
        """Were all offsets below `end` read? A single batch that begins at or after `end` may be out of order."""
        if self._bases[1] >= end:
            return end < self._end and self._bases[0] >= end
        claimed = self._claimed
        return claimed is not None and claimed + 1 >= end and _continues_above(self._segment, self._position, claimed)

    def _follow(self, window: Window, row: int) -> int | None:
        """Check one batch. Returns its last offset; None: it is not valid."""
        table = window.batches.table
        first, last = table[BatchField.BASE_OFFSET, row], table[BatchField.LAST_OFFSET, row]
        if not table[BatchField.VALID, row]:
            return None
        is_wrapper = table[BatchField.MAGIC, row] < MAGIC_V2 and table[BatchField.ATTRIBUTES, row] & CODEC_MASK
        if first >= self._end or (first < self._first and not is_wrapper):
            what = f"a batch from offset {first} in a segment of {offsets_text(self._first, self._end)}"
            self._add_finding(window, row, what)
            table[BatchField.VALID, row] = 0
            return self._claimed
        if self._claimed is not None and first <= self._claimed:
            if is_wrapper:
                return None  # some producers wrote offset 0 into compressed sets
            self._add_finding(window, row, f"a batch from offset {first} follows offset {self._claimed}")
        return int(last)

    def _add_finding(self, window: Window, row: int, what: str) -> None:
        table = window.batches.table
        where = Where(self._segment.log_path, window.base + table[BatchField.POSITION, row], table[BatchField.BASE_OFFSET, row])
        self._report(Finding("offset-order", where, what))
