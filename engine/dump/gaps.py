"""Offsets that do not follow one another: which gaps the cleaner left, and which are losses.

kafka-dump-log calls every gap an error, also the start of a log that does not begin at 0. A gap inside the offset
range that a batch claims can only come from the cleaner; one between batches, or before the first, counts as the
cleaner's where it is known to have been at work: by its checkpoint, by the topic, by traces in the same log, or by the keys
of its records. docs/findings.md has the whole rule; verify follows it, too.

Deep iteration compares records. A walk that does not read them compares what batch headers claim. That finds the same
losses. Whether batches follow one another is asked of their headers in both: one that claims offsets of the batch after it
shows nothing of that in its records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.amounts import count_of
from engine.discovery.names import FileKind
from engine.findings import Finding, Where
from engine.formats import CODEC_MASK, MAGIC_V2, BatchField, RecordField
from engine.kernels.select import next_cleaned, next_gap
from engine.log.continuity.cleaner_traces import was_cleaned
from engine.log.continuity.header_gaps import KEPT, Gap, HeaderGaps, explained_finding, loss_findings
from engine.record.selection import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.discovery.names import FileName
    from engine.dump.reports import DumpReports
    from engine.files import ReadOnlyFiles
    from engine.record.reader import Chunk
    from engine.record.selection import Selection


class Gaps(HeaderGaps):
    """Collects the gaps of one log: by chunks of records, or by windows of batches whose records nobody reads."""

    def __init__(self, base_offset: int | None = None, *, compacted: bool = False, wanted: Selection = EVERYTHING) -> None:
        super().__init__(base_offset, compacted=compacted, wanted=(wanted.first_offset, wanted.end_offset))
        # offset of the last record; where none was seen yet, what the first one should follow, if that is known
        self._previous = self._claimed
        self._headers_end = self._claimed  # where records are read: the last offset that batches claim so far
        self._unread = False  # did the last batch that was seen have no records?
        self._told: set[int] = set()  # where their headers say already that offsets do not grow
        self._base = 0

    def feed(self, chunk: Chunk, base: int) -> None:
        """Take the records of a chunk, whose window begins at file position `base`."""
        table = chunk.records.table
        self._base = base
        self._follow_headers(chunk)
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
            self._unread = False
        for empty in range(row, chunk.last_row):
            self._unread = True
            self._claimed = _claim(chunk.batches.table, empty, self._claimed)

    def _follow_headers(self, chunk: Chunk) -> None:
        table, known = chunk.batches.table, len(self.disorders)
        self._headers_end = self._follow(table, chunk.first_row, chunk.last_row, self._base, self._headers_end, holes=False)
        self._told.update(gap.position for gap in self.disorders[known:])

    def begin_anywhere(self) -> None:
        """The walk does not begin at the beginning: what comes first follows nothing."""
        self._claimed = self._previous = self._headers_end = None

    def _gap(self, chunk: Chunk, record: int) -> None:
        records, batches = chunk.records.table, chunk.batches.table
        before = self._previous
        assert before is not None  # feed has set it
        after = records[RecordField.OFFSET, record]
        row = records[RecordField.BATCH, record]
        gap = Gap(before, after, self._base + batches[BatchField.POSITION, row])
        if after <= before:
            is_first = record == chunk.first or records[RecordField.BATCH, record - 1] != row
            is_inside = row < chunk.first_row or not is_first
            if is_inside or (gap.position not in self._told and len(self.disorders) < KEPT):  # after those headers count
                self._disorder(gap)
        elif not self._is_claimed(chunk, record):
            self._hole(gap)
        elif batches[BatchField.MAGIC, row] < MAGIC_V2 and not self._follows_unread(chunk, record):
            self.compacted = True  # headers of format 2 say so themselves: what they do not is damage

    def _without_records(self, chunk: Chunk, record: int) -> range | None:
        """The batches of the chunk between that of the record before and this one's, which have none; None: both are in one."""
        batch = chunk.records.field(RecordField.BATCH)
        inside = record > chunk.first
        first = batch[record - 1] + 1 if inside else chunk.first_row
        return range(first, batch[record]) if first <= batch[record] else None

    def _follows_unread(self, chunk: Chunk, record: int) -> bool:
        """Are there entries of formats 0 and 1 before it whose records could not be read? None of them is without records."""
        between = self._without_records(chunk, record)
        return between is not None and (len(between) > 0 or (self._unread and between.start == chunk.first_row))

    def _is_claimed(self, chunk: Chunk, record: int) -> bool:
        """Do batches claim all the offsets between the record before and this one?"""
        between, batches = self._without_records(chunk, record), chunk.batches.table
        if between is None:
            return True
        row = between.stop
        claimed = batches[BatchField.LAST_OFFSET, between.start - 1] if record > chunk.first else self._claimed
        for empty in between:
            claimed = _claim(batches, empty, claimed)
        if claimed is None:
            return False
        if batches[BatchField.MAGIC, row] < MAGIC_V2:  # a wrapper does not say where it begins
            return bool(chunk.records.table[RecordField.OFFSET, record] == claimed + 1)
        return bool(batches[BatchField.BASE_OFFSET, row] == claimed + 1)


def _claim(batches: memoryview, row: int, claimed: int | None) -> int | None:
    """The last offset of batch `row`, which has no records, if it begins right after `claimed`; else None.

    A compressed wrapper of format 0 or 1 does not say where it begins: it only must end after `claimed`.
    """
    last: int = batches[BatchField.LAST_OFFSET, row]
    if claimed is None:
        return None
    if batches[BatchField.MAGIC, row] < MAGIC_V2 and batches[BatchField.ATTRIBUTES, row] & CODEC_MASK:
        return last if last > claimed and batches[BatchField.VALID, row] else None
    return last if batches[BatchField.BASE_OFFSET, row] == claimed + 1 else None


def gaps_of(files: ReadOnlyFiles, path: str, name: FileName, wanted: Selection | None = None) -> Gaps:
    """What collects the gaps of the log at `path`."""
    base_offset = name.base_offset if name.kind is FileKind.LOG else None
    compacted = was_cleaned(files, files.absolute(path), name)
    return Gaps(base_offset, compacted=compacted, wanted=wanted or EVERYTHING)


def report_gaps(
    gaps: Gaps, files: ReadOnlyFiles, path: str, name: FileName, report: Callable[[Finding], None], reports: DumpReports
) -> None:
    """What was collected of the log at `path`: as findings, and as kafka-dump-log's last words."""
    absolute = files.absolute(path)
    for gap in sorted(gaps.disorders, key=lambda gap: gap.position):
        reports.gap(absolute, gap.before, gap.after)
        where = Where(path, gap.position, gap.after)
        report(Finding("offset-order", where, f"offset {gap.after} follows offset {gap.before}"))
    more = gaps.disorders.more
    if more:
        reports.more_gaps(absolute, more)
        report(Finding("offset-order", Where(path), f"{count_of(more, 'more offset')} out of order", more))
    losses = gaps.losses()
    if not losses:
        return
    from engine.dump.selection import segments_around
    from engine.log.continuity.cleaner_traces import has_traces, keys_explain_gaps

    earlier, following = segments_around(files, path, name)
    if has_traces(files, following):
        return  # the cleaner works from the beginning on: it was here, too
    if keys_explain_gaps(files, path, [gap.position for gap in losses], earlier, following):
        report(explained_finding(gaps, path))
        return
    for gap in losses:
        reports.gap(absolute, gap.before, gap.after)
    if gaps.loss_count > len(losses):
        reports.more_gaps(absolute, gaps.loss_count - len(losses))
    for finding in loss_findings(gaps, path):
        report(finding)
