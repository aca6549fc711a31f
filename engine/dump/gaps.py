"""Gaps in the offsets of a log: those that the cleaner left, and those that are losses.

kafka-dump-log calls every gap an error, even a log that does not begin at 0. A gap inside the offset range of a batch can only
come from the cleaner. A gap between batches, or before the first one, counts as the cleaner's if the cleaner is known to have
worked on the log: from its checkpoint, the topic, traces in the same log, or the keys of its records. docs/findings.md has the
whole rule; verify follows it, too.

Deep iteration compares records; a walk that does not read records compares the ranges of batch headers, and finds the same
losses. Both use the headers to check that batches follow each other: records do not show that a header claims offsets of the
next batch.
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
    """Collects the gaps of one log: by chunks of records, or by windows of batches without their records."""

    def __init__(self, base_offset: int | None = None, *, compacted: bool = False, wanted: Selection = EVERYTHING) -> None:
        super().__init__(base_offset, compacted=compacted, wanted=(wanted.first_offset, wanted.end_offset))
        # offset of the last record; before the first one, the offset that it should follow, None if unknown
        self._previous = self._claimed
        self._headers_end = self._claimed  # if records are read: the last offset in batch headers so far
        self._unread = False  # has the last batch no records?
        self._reported: set[int] = set()  # positions at which headers already show that offsets do not grow
        self._base = 0

    def feed(self, chunk: Chunk, base: int) -> None:
        """Check the records of a chunk, whose window begins at file position `base`."""
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
        self._reported.update(gap.position for gap in self.disorders[known:])

    def begin_anywhere(self) -> None:
        """Start the walk in the middle of the log: the first batch follows nothing."""
        self._claimed = self._previous = self._headers_end = None

    def _gap(self, chunk: Chunk, record: int) -> None:
        records, batches = chunk.records.table, chunk.batches.table
        before = self._previous
        assert before is not None  # set by feed
        after = records[RecordField.OFFSET, record]
        row = records[RecordField.BATCH, record]
        gap = Gap(before, after, self._base + batches[BatchField.POSITION, row])
        if after <= before:
            is_first = record == chunk.first or records[RecordField.BATCH, record - 1] != row
            is_inside = row < chunk.first_row or not is_first
            if is_inside or (gap.position not in self._reported and len(self.disorders) < KEPT):  # not reported yet
                self._disorder(gap)
        elif not self._is_claimed(chunk, record):
            self._hole(gap)
        elif batches[BatchField.MAGIC, row] < MAGIC_V2 and not self._follows_unread(chunk, record):
            self.compacted = True  # format 2: headers show compaction, and a gap that they do not show is damage

    def _without_records(self, chunk: Chunk, record: int) -> range | None:
        """Return the batches without records between those of the previous and this record; None: both are in one batch."""
        batch = chunk.records.field(RecordField.BATCH)
        inside = record > chunk.first
        first = batch[record - 1] + 1 if inside else chunk.first_row
        return range(first, batch[record]) if first <= batch[record] else None

    def _follows_unread(self, chunk: Chunk, record: int) -> bool:
        """Return whether unread entries of formats 0 or 1 come before the record; such entries always have records."""
        between = self._without_records(chunk, record)
        return between is not None and (len(between) > 0 or (self._unread and between.start == chunk.first_row))

    def _is_claimed(self, chunk: Chunk, record: int) -> bool:
        """Return whether batches claim all offsets between the previous record and this one."""
        between, batches = self._without_records(chunk, record), chunk.batches.table
        if between is None:
            return True
        row = between.stop
        claimed = batches[BatchField.LAST_OFFSET, between.start - 1] if record > chunk.first else self._claimed
        for empty in between:
            claimed = _claim(batches, empty, claimed)
        if claimed is None:
            return False
        if batches[BatchField.MAGIC, row] < MAGIC_V2:  # a wrapper has no first offset
            return bool(chunk.records.table[RecordField.OFFSET, record] == claimed + 1)
        return bool(batches[BatchField.BASE_OFFSET, row] == claimed + 1)


def _claim(batches: memoryview, row: int, claimed: int | None) -> int | None:
    """Return the last offset of batch `row`, which has no records, if it begins right after `claimed`; else None.

    A compressed wrapper of format 0 or 1 has no first offset: it must only end after `claimed`.
    """
    last: int = batches[BatchField.LAST_OFFSET, row]
    if claimed is None:
        return None
    if batches[BatchField.MAGIC, row] < MAGIC_V2 and batches[BatchField.ATTRIBUTES, row] & CODEC_MASK:
        return last if last > claimed and batches[BatchField.VALID, row] else None
    return last if batches[BatchField.BASE_OFFSET, row] == claimed + 1 else None


def gaps_of(files: ReadOnlyFiles, path: str, name: FileName, wanted: Selection | None = None) -> Gaps:
    """Return the collector of gaps for the log at `path`."""
    base_offset = name.base_offset if name.kind is FileKind.LOG else None
    compacted = was_cleaned(files, files.absolute(path), name)
    return Gaps(base_offset, compacted=compacted, wanted=wanted or EVERYTHING)


def report_gaps(
    gaps: Gaps, files: ReadOnlyFiles, path: str, name: FileName, report: Callable[[Finding], None], reports: DumpReports
) -> None:
    """Report the gaps of the log at `path`: as findings, and for kafka-dump-log's reports."""
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
        return  # the cleaner works from the start of a log, so it worked here, too
    if keys_explain_gaps(files, path, [gap.position for gap in losses], earlier, following):
        report(explained_finding(gaps, path))
        return
    for gap in losses:
        reports.gap(absolute, gap.before, gap.after)
    if gaps.loss_count > len(losses):
        reports.more_gaps(absolute, gaps.loss_count - len(losses))
    for finding in loss_findings(gaps, path):
        report(finding)
