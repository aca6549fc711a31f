"""The records that a consumer reads from a log, from an offset on, without control records and aborted transactions.

`by_time` merges the records of several logs by timestamp.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from engine.findings import Finding, Where
from engine.formats import (
    CONTROL_FLAG,
    INT_MAX,
    LONG_MAX,
    LONG_MIN,
    MAGIC_V2,
    BatchField,
    RecordField,
)
from engine.kernels.select import largest_timestamp, next_unsound
from engine.kernels.transactions import next_in_transaction
from engine.log.continuity.header_gaps import HeaderGaps
from engine.log.continuity.offset_order import OffsetOrder, stop_before
from engine.log.errors import CorruptRecord
from engine.log.fetch.filtering import AllRecords, CommittedRecords
from engine.log.fetch.reading import FetchIsolation, read, read_from_damage
from engine.record.batch import Record, RecordBatch
from engine.record.codecs.bounded import MAX_DECOMPRESSED_BYTES
from engine.record.columns import RECORD_ROWS, BatchColumns, RecordColumns
from engine.record.reader import ChunkReader
from engine.record.selection import EVERYTHING, RecordMatcher
from engine.record.soundness import resume_after_damage
from engine.record.windows import LogWalk, Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.log.fetch.reading import FetchData, ReadableLog
    from engine.log.segment.readable_segment import ReadableSegment
    from engine.record.reader import Chunk
    from engine.record.selection import Selection
    from engine.record.windows import Window
    Report = Callable[[Finding], None]
    from collections.abc import Sequence

_LARGEST_FETCH = INT_MAX  # bytes: a whole segment


class Run(NamedTuple):
    """Records first … end − 1 of a chunk, all of them wanted. Valid until the next run is requested."""

    chunk: Chunk
    first: int
    end: int
    base: int  # file position that the positions of the chunk's batches count from
    path: str  # of the .log

    def at_most(self, limit: int | None) -> Run:
        """The first `limit` of the records; None: all."""
        return self if limit is None else self._replace(end=min(self.end, self.first + limit))

    def records(self) -> Iterator[Record]:
        """The records as objects, with copies of their bytes."""
        rows = self.chunk.records.field(RecordField.BATCH)
        row, batch = -1, None
        for column in range(self.first, self.end):
            if batch is None or rows[column] != row:
                row = rows[column]
                batch = RecordBatch(self.chunk.batches, row, self.base)
            yield Record(self.chunk, column, batch)


class FetchColumns:
    """Columns that fetchers reuse one after the other: for many small partitions, allocating them is half of the work."""

    def __init__(self) -> None:
        self.batches, self.records = BatchColumns(), RecordColumns()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """Limits of a read.

    max_bytes  bytes of batches to read; the first batch is read in any case. None: all
    end        offset before which reading stops. None: the end that the isolation level allows
    only_sound leave out batches with a wrong checksum, and continue if damage hides the first batch
    max_decompressed_bytes  of one batch; a larger one is reported and left out
    """

    max_bytes: int | None = None
    end: int | None = None
    only_sound: bool = False
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES


_UNLIMITED = FetchLimits()


class RecordFetcher:
    """Reads a log from `offset` on. Iterating again continues after the last record, with records appended since then.

    report     called with damage; reading then continues with the next sound batch
    columns    to reuse; their old content is overwritten
    selection  only the records that it selects. Its offsets limit the read; its limit and tail are applied elsewhere

    bytes_read       so far, of batches
    batches_skipped  so far: by their headers, the selection has no record of them
    gapped           segments so far, by their paths, in which offsets are missing between batches without a trace of compaction
    """

    def __init__(
        self, log: ReadableLog, offset: int, isolation: FetchIsolation, report: Report, limits: FetchLimits = _UNLIMITED, *,
        columns: FetchColumns | None = None, selection: Selection = EVERYTHING,
    ) -> None:  # fmt: skip
        self._columns = FetchColumns() if columns is None else columns
        self._log, self._isolation, self._report = log, isolation, report
        self.offset = offset  # the next offset to read
        self._left = limits.max_bytes
        self._end = min(LONG_MAX if limits.end is None else limits.end, selection.end_offset)
        self._selection = selection
        self._matcher = None if selection == EVERYTHING else RecordMatcher(selection)
        self._only_sound = limits.only_sound
        self._limit = limits.max_decompressed_bytes
        self._is_first = True
        self.bytes_read = self.batches_skipped = 0
        self.gapped: set[str] = set()

    def __iter__(self) -> Iterator[Record]:
        """Records, with copies of their bytes. Raises OffsetOutOfRange, UnreadableFile, FileChangedWhileReading."""
        for run in self.runs():
            yield from run.records()

    def runs(self) -> Iterator[Run]:
        """Yield the same records as runs of columns. Raises the same, and CorruptRecord if damage hides the first batch."""
        segment: ReadableSegment | None = None
        while (self._left is None or self._left > 0 or self._is_first) and self.offset < self._end:
            size = _LARGEST_FETCH if self._left is None else min(self._left, _LARGEST_FETCH)
            data, before = self._read(size), self.offset
            if segment is not None and segment is not data.segment:
                segment.release_log()
            segment = data.segment
            if segment is None or not data.size:
                return
            yield from self._runs(data, is_cut=self._left is not None and data.size >= size)
            if self.offset == before:  # no whole batch was read
                return
            self._is_first = False

    def _read(self, size: int) -> FetchData:
        try:
            return read(
                self._log, self.offset, size, self._isolation, min_one_message=self._is_first, finds_aborted=False
            )
        except CorruptRecord:
            if not self._only_sound:
                raise
            return read_from_damage(self._log, self.offset, self._isolation)  # reading there reports the damage

    def _runs(self, data: FetchData, *, is_cut: bool) -> Iterator[Run]:
        """Yield the wanted records of `data`. is_cut: the bytes may end within a batch."""
        assert data.segment is not None
        file, start = data.segment.log_file, data.place.position or 0
        reader = ChunkReader(
            file.path, self._report, self._limit, self._columns.records, literals=self._selection.literals(),
            on_remark=lambda remark, _kind: self._report(remark),
        )  # fmt: skip
        filtering = self._filter(data)
        walk = LogWalk(file, start, self._stop(data.segment, start + data.size), batches=self._columns.batches)
        order = OffsetOrder(data.segment, self._reach(data.segment), self._report)
        gaps = HeaderGaps(None if start else data.segment.base_offset)
        after = data.segment.base_offset  # offset after the last batch; `offset` may be inside the next one
        while True:
            for window in walk:
                self._check(window, file.path)
                order.check(window)
                self._note_gaps(gaps, window, file.path)
                last = window.rows - 1
                self.bytes_read += window.batches.table[BatchField.POSITION, last] + window.batches.table[BatchField.SIZE, last]
                yield from self._window(window, reader, filtering, file.path)
                after = max(after, self._move_after(window))
                if self.offset >= self._end and order.is_past(self._end):
                    return
            if walk.stop is Stop.TORN and is_cut:
                break
            resumes, findings = resume_after_damage(walk, after if self._only_sound else None, self.offset)
            for finding in findings:
                self._report(finding)
            if not resumes:
                if self._left is None or findings:
                    self._move_on(data.segment, walk.end, start + data.size)
                break
        if self._left is not None:
            self._left -= walk.position - start
            if walk.position < start + data.size:
                self._left = 0  # the next batch does not fit

    def _note_gaps(self, gaps: HeaderGaps, window: Window, path: str) -> None:
        if path not in self.gapped:
            gaps.feed_batches(window)
            if gaps.losses():
                self.gapped.add(path)

    def _filter(self, data: FetchData) -> AllRecords:
        assert data.segment is not None
        if self._isolation is FetchIsolation.READ_COMMITTED:
            return CommittedRecords(self._log, self.offset, data, self._report)
        return AllRecords(data.segment.log_path, self._report)

    def _move_after(self, window: Window) -> int:
        """Move `offset` after the window's batches and return it. With `only_sound`, wrong checksums are not used."""
        table, row = window.batches.table, window.rows - 1
        while self._only_sound and row >= 0 and not table[BatchField.VALID, row]:
            row -= 1
        after: int = table[BatchField.LAST_OFFSET, row] + 1 if row >= 0 else 0
        self.offset = max(self.offset, after)
        return after

    def _move_on(self, segment: ReadableSegment, end: int, reach: int) -> None:
        """Move `offset` after the segment, or to the end of the read, if all bytes up to there were read."""
        if end < reach:  # see `_stop`
            self.offset = max(self.offset, self._end)
        elif end >= segment.size:
            self.offset = max(self.offset, self._reach(segment))

    def _reach(self, segment: ReadableSegment) -> int:
        """The offset after the segment: the base offset of the next one, or the log end."""
        if segment.next_offset is not None:
            return segment.next_offset
        following = self._log.segments.higher_segment(segment.base_offset)
        return self._log.log_end_offset if following is None else following.base_offset

    def _stop(self, segment: ReadableSegment, stop: int) -> int:
        """The byte of the segment at which reading may stop, at most `stop`."""
        where = None if self._end >= self._reach(segment) else stop_before(segment, self._end)
        return stop if where is None else min(stop, where)

    def _check(self, window: Window, path: str) -> None:
        table = window.batches.table
        row = next_unsound(table, 0, window.rows)
        while row < window.rows:
            where = Where(path, window.base + table[BatchField.POSITION, row], table[BatchField.BASE_OFFSET, row])
            magic = table[BatchField.MAGIC, row]
            if not 0 <= magic <= MAGIC_V2:  # the checksum does not cover it
                self._report(Finding("unknown-magic", where, f"magic {magic}, read as {MAGIC_V2}: consumers stop here"))
            if not table[BatchField.VALID, row]:
                self._report(Finding("crc-mismatch", where, "the stored checksum does not match: consumers stop here"))
            row = next_unsound(table, row + 1, window.rows)

    def _plain(self, window: Window, row: int) -> int:
        """The row after the batches from `row` on that every consumer wants: sound, and not part of a transaction."""
        end: int = next_in_transaction(window.batches.table, row, window.rows)
        return min(end, next_unsound(window.batches.table, row, end)) if self._only_sound else end

    def _wants(self, filtering: AllRecords, window: Window, row: int) -> bool:
        is_data = not window.batches.table[BatchField.ATTRIBUTES, row] & CONTROL_FLAG
        if is_data and self._matcher is not None and not self._selection.may_match(window.batches.table, row):
            self.batches_skipped += 1
            return False  # without a search for aborted transactions
        wanted = filtering.wants(window, row)
        return wanted and not (self._only_sound and not window.batches.table[BatchField.VALID, row])

    def _window(self, window: Window, reader: ChunkReader, filtering: AllRecords, path: str) -> Iterator[Run]:
        """Yield the wanted records of the window, as runs of wanted batches."""
        table, row = window.batches.table, 0
        while row < window.rows:
            end = self._plain(window, row)
            if end == row:
                if not self._wants(filtering, window, row):
                    row += 1
                    continue
                end = row + 1
            rows = [(row, end)] if self._matcher is None else list(self._selection.runs(window, row, end))
            self.batches_skipped += end - row - sum(after - begin for begin, after in rows)
            for begin, after in rows:
                for chunk in reader.chunks(window, begin, after):
                    first, last = self._wanted(chunk)
                    if first < last:
                        yield Run(chunk, first, last, window.base, path)
            self.offset = max(self.offset, table[BatchField.LAST_OFFSET, end - 1] + 1)
            row = end

    def _wanted(self, chunk: Chunk) -> tuple[int, int]:
        """(first, end) of the wanted records of the chunk. A selection moves them to the front."""
        offsets, first, last = chunk.records.field(RecordField.OFFSET), chunk.first, chunk.end
        while first < last and offsets[first] < self.offset:
            first += 1
        while first < last and offsets[last - 1] >= self._end:
            last -= 1
        if self._matcher is None:
            return first, last
        return 0, self._matcher.pack(chunk._replace(end=last), first)


def last_matches(
    log: ReadableLog, start: int, isolation: FetchIsolation, selection: Selection, count: int
) -> tuple[int, int]:
    """Find the offset, at least `start`, from which the log has the last `count` matches. Returns (offset, matches).

    More than `count` matches are possible; fewer only if the offset is `start`. Damage is not reported here.
    Raises UnreadableFile, OffsetOutOfRange.
    """
    span, columns = count, FetchColumns()
    while True:
        offset = max(start, log.log_end_offset - span)
        try:
            fetcher = RecordFetcher(log, offset, isolation, lambda _finding: None, selection=selection, columns=columns)
            found = sum(run.end - run.first for run in fetcher.runs())
        except CorruptRecord:  # damage hides the first batch; try an earlier offset
            found = 0
        if found >= count or offset == start:
            return offset, found
        span = max(span * 8, RECORD_ROWS)


def by_time(logs: Sequence[Iterator[Run]]) -> Iterator[tuple[int, Run]]:
    """Split and merge the runs of `logs` so that timestamps increase. Yields (index of the log, run).

    The records of one log keep their order: a record with a smaller timestamp than an earlier one follows that one directly.
    Equal timestamps are in the order of `logs`. Each log needs its own columns.
    """
    heads: list[tuple[int, int, Run]] = []  # (timestamp for the order, index of the log, rest of its run)

    def follow(log: int, before: int, run: Run | None) -> None:
        if run is None:
            run = next(logs[log], None)
        if run is not None:
            heappush(heads, (max(before, run.chunk.records.table[RecordField.TIMESTAMP, run.first]), log, run))

    for log in range(len(logs)):
        follow(log, LONG_MIN, None)
    while heads:
        time, log, run = heappop(heads)
        end = run.end
        if heads:
            times, end = run.chunk.records.field(RecordField.TIMESTAMP), run.first
            while end < run.end and (max(time, times[end]), log) < heads[0][:2]:
                time, end = max(time, times[end]), end + 1
        else:
            time = max(time, largest_timestamp(run.chunk.records.table, run.first, run.end))
        yield log, run._replace(end=end)
        follow(log, time, run._replace(first=end) if end < run.end else None)
