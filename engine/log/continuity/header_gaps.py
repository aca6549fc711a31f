"""Find batches whose offsets are not consecutive, from their headers. A header keeps its offset range when the cleaner removes
records of the batch. docs/findings.md says which gaps count as losses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.findings import Finding, First, Where
from engine.formats import CODEC_MASK, INT_MAX, LONG_MAX, LONG_MIN, MAGIC_V2, BatchField
from engine.kernels.select import next_break, next_cleaned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.record.windows import Window

KEPT = 1000  # gaps that are stored one by one
EVERY_OFFSET = (LONG_MIN, LONG_MAX + 1)


class Gap(NamedTuple):
    """After offset `before`, the batch at byte `position` of the file begins at offset `after`."""

    before: int
    after: int
    position: int


class HeaderGaps:
    """Collects the gaps of one log from windows of batches.

    base_offset  from the name of the segment; None: not known
    compacted    the cleaner is known to have processed the log
    wanted       first and end of a range of offsets; gaps outside of it are not losses
    """

    def __init__(
        self, base_offset: int | None = None, *, compacted: bool = False, wanted: tuple[int, int] = EVERY_OFFSET
    ) -> None:
        self.compacted = compacted
        self.disorders: First[Gap] = First(KEPT)  # offsets that do not increase
        self._wanted = wanted
        self._holes: First[Gap] = First(KEPT)
        # last offset of the previous batch or segment; None: the next batch is not compared with anything
        self._claimed = base_offset - 1 if base_offset is not None and base_offset >= 0 else None

    def feed_batches(self, window: Window) -> None:
        """Check the headers of a window's batches. A batch with a wrong checksum is not used."""
        table, rows = window.batches.table, window.rows
        self._claimed = self._follow(table, 0, rows, window.base, self._claimed, holes=True)

    def losses(self) -> list[Gap]:
        """The first 1000 gaps that compaction does not explain."""
        return [] if self.compacted else self._holes

    @property
    def loss_count(self) -> int:
        """Number of all such gaps."""
        return 0 if self.compacted else len(self._holes) + self._holes.more

    def _follow(self, table: memoryview, row: int, last_row: int, base: int, claimed: int | None, *, holes: bool) -> int | None:
        """Check the headers of batches row … last_row − 1 after the offset `claimed`. Returns the last offset in them.

        base   file position that the positions of batches count from
        holes  report gaps, not only offsets that do not increase
        """
        while True:
            known = claimed is not None
            row, claimed, known = next_break(table, row, last_row, claimed or 0, known, not holes or self.compacted)
            claimed = claimed if known else None
            if row >= last_row:
                return claimed
            if holes and not self.compacted and next_cleaned(table, row, row + 1) == row:
                self.compacted = True
                continue
            claimed = self._break(table, row, base, claimed, holes=holes)
            row += 1

    def _break(self, table: memoryview, row: int, base: int, claimed: int | None, *, holes: bool) -> int | None:
        """Record how the batch of `row` does not follow `claimed`. Returns its last offset, or None if that is not valid."""
        first, last = table[BatchField.BASE_OFFSET, row], table[BatchField.LAST_OFFSET, row]
        position = base + table[BatchField.POSITION, row]
        if not table[BatchField.VALID, row]:
            return None
        if claimed is not None and first <= claimed:
            if table[BatchField.MAGIC, row] < MAGIC_V2 and table[BatchField.ATTRIBUTES, row] & CODEC_MASK:
                return None  # some producers wrote offset 0 into compressed sets
            self._disorder(Gap(claimed, first, position))
        elif holes and claimed is not None and first > claimed + 1 and not self.compacted:
            self._hole(Gap(claimed, first, position))
        if last < first or last - first > INT_MAX:
            self._disorder(Gap(first, last, position))
            return None
        return int(last)

    def _disorder(self, gap: Gap) -> None:
        self.disorders.take(gap)

    def _hole(self, gap: Gap) -> None:
        first, end = self._wanted
        if gap.before + 1 < end and gap.after > first:
            self._holes.take(gap)


def loss_findings(gaps: HeaderGaps, path: str) -> Iterator[Finding]:
    """Yield a finding for each loss in the log at `path`, and one for all losses beyond the first 1000."""
    losses = gaps.losses()
    for gap in losses:
        what = f"{count_of(gap.after - gap.before - 1, 'offset')} missing after offset {gap.before}"
        yield Finding("offset-gap", Where(path, gap.position, gap.after), what)
    if gaps.loss_count > len(losses):
        more = gaps.loss_count - len(losses)
        yield Finding("offset-gap", Where(path), count_of(more, "more gap"), more)


def explained_finding(gaps: HeaderGaps, path: str) -> Finding:
    """The finding for gaps that the keys of the records explain."""
    count, first = gaps.loss_count, gaps.losses()[0]
    what = f"{count} gaps between batches, as compaction leaves them: every record before them has a key of its own"
    return Finding("gaps-compacted", Where(path, first.position, first.after), what)
