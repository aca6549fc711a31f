"""Batches whose offsets do not follow one another: by their headers, which keep the range of a batch when the cleaner takes
records out of it. docs/findings.md says which gaps count as losses.
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

KEPT = 1000  # gaps remembered one by one
EVERY_OFFSET = (LONG_MIN, LONG_MAX + 1)


class Gap(NamedTuple):
    """`before` is followed by `after`, at or after byte `position` of the file."""

    before: int
    after: int
    position: int


class HeaderGaps:
    """Collects the gaps of one log by windows of batches.

    base_offset  of the segment, as its name says; None: not known
    compacted    the cleaner is known to have been here
    wanted       first and end of a range of offsets; holes outside are no loss
    """

    def __init__(
        self, base_offset: int | None = None, *, compacted: bool = False, wanted: tuple[int, int] = EVERY_OFFSET
    ) -> None:
        self.compacted = compacted
        self.disorders: First[Gap] = First(KEPT)  # offsets that do not grow
        self._wanted = wanted
        self._holes: First[Gap] = First(KEPT)
        # last offset of the last batch, before the first one that of the segment before; None: what comes next follows nothing
        self._claimed = base_offset - 1 if base_offset is not None and base_offset >= 0 else None

    def feed_batches(self, window: Window) -> None:
        """Take the batches of a window by their headers. A batch with a wrong checksum is not believed."""
        table, rows = window.batches.table, window.rows
        self._claimed = self._follow(table, 0, rows, window.base, self._claimed, holes=True)

    def losses(self) -> list[Gap]:
        """The gaps that no compaction explains, at most 1000 of them."""
        return [] if self.compacted else self._holes

    @property
    def loss_count(self) -> int:
        """How many such gaps there were."""
        return 0 if self.compacted else len(self._holes) + self._holes.more

    def _follow(self, table: memoryview, row: int, last_row: int, base: int, claimed: int | None, *, holes: bool) -> int | None:
        """Follow the headers of batches row … last_row − 1 after the offset `claimed` → the one that is claimed then.

        base   file position that the positions of batches count from
        holes  what lies between them counts, too, not only whether offsets grow
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
        """Note how the batch of `row` does not follow what is claimed → the last offset that is claimed after it."""
        first, last = table[BatchField.BASE_OFFSET, row], table[BatchField.LAST_OFFSET, row]
        position = base + table[BatchField.POSITION, row]
        if not table[BatchField.VALID, row]:
            return None
        if claimed is not None and first <= claimed:
            if table[BatchField.MAGIC, row] < MAGIC_V2 and table[BatchField.ATTRIBUTES, row] & CODEC_MASK:
                return None  # some producers gave their wrappers offset 0
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
    """The losses in the log at `path`; those beyond the first 1000 in one."""
    losses = gaps.losses()
    for gap in losses:
        what = f"{count_of(gap.after - gap.before - 1, 'offset')} missing after offset {gap.before}"
        yield Finding("offset-gap", Where(path, gap.position, gap.after), what)
    if gaps.loss_count > len(losses):
        more = gaps.loss_count - len(losses)
        yield Finding("offset-gap", Where(path), f"{more} more gaps", more)


def explained_finding(gaps: HeaderGaps, path: str) -> Finding:
    """What is said instead of losses that the keys of records explain (`keys`)."""
    count, first = gaps.loss_count, gaps.losses()[0]
    what = f"{count} gaps between batches, as compaction leaves them: every record before them has a key of its own"
    return Finding("gaps-compacted", Where(path, first.position, first.after), what)
