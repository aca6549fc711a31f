"""Offsets that do not follow one another: which gaps the cleaner left, and which are losses.

kafka-dump-log calls every gap an error, also the start of a log that does not begin at 0. A gap inside the offset
range that a batch claims can only come from the cleaner; one between batches, or before the first, counts as the
cleaner's where it is known to have been at work: by its checkpoint, by the topic, or by traces in the same log.

Deep iteration compares records. A walk that does not read them compares what batch headers claim, for the cleaner keeps
the range of a batch when it takes records out of it. That finds the same losses, and also headers that claim offsets of the
batch behind them, which records do not show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.dump.selection import EVERYTHING
from engine.findings import Finding, Where
from engine.formats import CODEC_MASK, MAGIC_V2, BatchField, RecordField
from engine.kernels.select import next_break, next_cleaned, next_gap
from engine.layout import FileKind
from engine.log.scan.cleaned import was_cleaned

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.dump.reports import DumpReports
    from engine.dump.selection import Selection
    from engine.files import ReadOnlyFiles
    from engine.layout import FileName
    from engine.record.reader import Chunk
    from engine.record.windows import Window

_KEPT = 1000  # gaps remembered one by one


class Gap(NamedTuple):
    """`before` is followed by `after`, at or behind byte `position` of the file."""

    before: int
    after: int
    position: int


class Gaps:
    """Collects the gaps of one log: by chunks of records, or by windows of batches whose records nobody reads.

    base_offset  of the segment, as its name says; None: not known
    compacted    the cleaner is known to have been here: its checkpoint or the topic says so
    wanted       holes outside its range of offsets are no loss
    """

    def __init__(
        self, base_offset: int | None = None, *, compacted: bool = False, wanted: Selection = EVERYTHING
    ) -> None:
        self.compacted = compacted
        self._wanted = wanted
        self.disorders: list[Gap] = []  # offsets that do not grow
        self._holes: list[Gap] = []
        self._hole_count = 0
        # last offset of the last batch, before the first one that of the segment before; None: batches behind the last
        # record do not follow one another
        self._claimed = base_offset - 1 if base_offset is not None and base_offset >= 0 else None
        # offset of the last record; where none was seen yet, what the first one should follow, if that is known
        self._previous = self._claimed
        self._base = 0

    def feed(self, chunk: Chunk, base: int) -> None:
        """Take the records of a chunk, whose window begins at file position `base`."""
        table = chunk.records.table
        self._base = base
        record = chunk.first
        if not self.compacted and chunk.last_row > chunk.first_row:
            self.compacted = next_cleaned(chunk.batches.table, chunk.first_row, chunk.last_row) < chunk.last_row
        if self._previous is None and record < chunk.end:
            self._previous = table[RecordField.OFFSET, record]
            record += 1
        while record < chunk.end:
            found = next_gap(table, record, chunk.end, self._previous)
            if found > record:
                self._previous = table[RecordField.OFFSET, found - 1]
            if found < chunk.end:
                self._gap(chunk, found)
                self._previous = table[RecordField.OFFSET, found]
            record = found + 1
        row = chunk.first_row
        if chunk.first < chunk.end:
            row = table[RecordField.BATCH, chunk.end - 1]
            self._claimed = chunk.batches.table[BatchField.LAST_OFFSET, row]
            row += 1
        for empty in range(row, chunk.last_row):
            self._claimed = _claim(chunk.batches.table, empty, self._claimed)

    def begin_anywhere(self) -> None:
        """The walk does not begin at the beginning: what comes first follows nothing."""
        self._claimed = self._previous = None

    def feed_batches(self, window: Window) -> None:
        """Take the batches of a window by their headers. A batch with a wrong checksum is not believed."""
        table, row = window.batches.table, 0
        while True:
            known = self._claimed is not None
            row, claimed, known = next_break(table, row, window.rows, self._claimed or 0, known, self.compacted)
            self._claimed = claimed if known else None
            if row >= window.rows:
                return
            if not self.compacted and next_cleaned(table, row, row + 1) == row:
                self.compacted = True
                continue
            self._claimed = self._break(table, row, window.base)
            row += 1

    def _break(self, table: memoryview, row: int, base: int) -> int | None:
        """Note how the batch of `row` does not follow what is claimed → the last offset that is claimed behind it."""
        first, last = table[BatchField.BASE_OFFSET, row], table[BatchField.LAST_OFFSET, row]
        position, claimed = base + table[BatchField.POSITION, row], self._claimed
        if not table[BatchField.VALID, row]:
            return None
        if claimed is not None and first <= claimed:
            if table[BatchField.MAGIC, row] < MAGIC_V2 and table[BatchField.ATTRIBUTES, row] & CODEC_MASK:
                return None  # some producers gave their wrappers offset 0
            self._disorder(Gap(claimed, first, position))
        elif claimed is not None and first > claimed + 1 and not self.compacted:
            self._hole(Gap(claimed, first, position))
        if last < first or last - first >= 2**31:
            self._disorder(Gap(first, last, position))
            return None
        return int(last)

    def losses(self) -> list[Gap]:
        """The gaps that no compaction explains, at most 1000 of them."""
        return [] if self.compacted else self._holes

    @property
    def loss_count(self) -> int:
        """How many such gaps there were."""
        return 0 if self.compacted else self._hole_count

    def _gap(self, chunk: Chunk, record: int) -> None:
        records, batches = chunk.records.table, chunk.batches.table
        before = self._previous
        assert before is not None  # feed has set it
        after = records[RecordField.OFFSET, record]
        row = records[RecordField.BATCH, record]
        gap = Gap(before, after, self._base + batches[BatchField.POSITION, row])
        if after <= before:
            self._disorder(gap)
        elif self._is_claimed(chunk, record):
            self.compacted = True
        else:
            self._hole(gap)

    def _disorder(self, gap: Gap) -> None:
        if len(self.disorders) < _KEPT:
            self.disorders.append(gap)

    def _hole(self, gap: Gap) -> None:
        if gap.before + 1 < self._wanted.end_offset and gap.after > self._wanted.first_offset:
            self._hole_count += 1
            if len(self._holes) < _KEPT:
                self._holes.append(gap)

    def _is_claimed(self, chunk: Chunk, record: int) -> bool:
        """Do batches claim all the offsets between the record before and this one?"""
        records, batches = chunk.records.table, chunk.batches.table
        row = records[RecordField.BATCH, record]
        inside = record > chunk.first
        if inside and records[RecordField.BATCH, record - 1] == row:
            return True
        first = records[RecordField.BATCH, record - 1] + 1 if inside else chunk.first_row
        if row < first:
            return True  # the batch began in the chunk before
        claimed = batches[BatchField.LAST_OFFSET, first - 1] if inside else self._claimed
        for empty in range(first, row):
            claimed = _claim(batches, empty, claimed)
        if claimed is None:
            return False
        if batches[BatchField.MAGIC, row] < MAGIC_V2:  # a wrapper does not say where it begins
            return bool(records[RecordField.OFFSET, record] == claimed + 1)
        return bool(batches[BatchField.BASE_OFFSET, row] == claimed + 1)


def _claim(batches: memoryview, row: int, claimed: int | None) -> int | None:
    """The last offset of batch `row`, which has no records, if it begins right behind `claimed`; else None."""
    if claimed is None or batches[BatchField.BASE_OFFSET, row] != claimed + 1:
        return None
    last: int = batches[BatchField.LAST_OFFSET, row]
    return last


def gaps_of(files: ReadOnlyFiles, path: str, name: FileName, wanted: Selection | None = None) -> Gaps:
    """What collects the gaps of the log at `path`."""
    base_offset = name.base_offset if name.kind is FileKind.LOG else None
    compacted = was_cleaned(files, files.absolute(path), name)
    return Gaps(base_offset, compacted=compacted, wanted=wanted or EVERYTHING)


def report_gaps(
    gaps: Gaps, path: str, absolute: str, report: Callable[[Finding], None], reports: DumpReports
) -> None:
    """What was collected of the log at `path`: as findings, and as kafka-dump-log's last words."""
    for gap in gaps.disorders:
        reports.gap(absolute, gap.before, gap.after)
        where = Where(path, gap.position, gap.after)
        report(Finding("offset-order", where, f"offset {gap.after} follows offset {gap.before}"))
    for gap in gaps.losses():
        reports.gap(absolute, gap.before, gap.after)
        what = f"{gap.after - gap.before - 1} offsets are missing behind offset {gap.before}"
        report(Finding("offset-gap", Where(path, gap.position, gap.after), what))
    unnamed = gaps.loss_count - len(gaps.losses())
    if unnamed:
        report(Finding("offset-gap", Where(path), f"{unnamed} more gaps"))
