"""Print offset and time indexes as kafka-dump-log does, and check each entry against the log of the same segment.

Kafka's tool stops at an entry that points nowhere; this continues with the next one. Kafka's tool reads the whole rest of the
log for every entry of a time index; this reads from the entry's own position (see OffsetSearch).
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.dump.batch_heads import BatchHeads
from engine.dump.reports import DumpReports
from engine.errors import KafkalogError, UnreadableFile
from engine.findings import Finding, First, Where
from engine.formats import LONG_MIN, NO_TIMESTAMP, TIME_INDEX_ENTRY, BatchField
from engine.index.sparse import OffsetIndex, TimeIndex
from engine.kernels.select import largest_timestamps
from engine.kernels.verify import Entries, Timestamps, sound_time_entries
from engine.record.columns import BatchColumns
from engine.record.reader import ChunkReader
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.dump.batch_heads import BatchAt
    from engine.dump.renderer import DumpOptions, DumpRenderer
    from engine.files import OpenFile, ReadOnlyFiles
    from engine.index.sparse import OffsetPosition, TimestampOffset
    from engine.record.windows import Window

_WRONG_KEPT = 50_000  # wrong entries reported one by one
_NEAR = 64  # batches read one by one first: if the offset index is right, the wanted batch is among them
_SMALLEST_BLOCK = 8  # bits of a position in a block: 256 bytes
_BLOCKS = 15  # bits of block numbers: at most 32,768 blocks
_FANOUT = 4  # bits: 16 blocks form a block of the next level
_SUMMARIES_KEPT = 100_000  # blocks kept in memory; only a log made for this purpose has more


class IndexDump:
    """Dumps index files. Findings name the path as the user gave it, Kafka's reports the absolute one."""

    def __init__(
        self, files: ReadOnlyFiles, options: DumpOptions, renderer: DumpRenderer, report: Callable[[Finding], None],
        reports: DumpReports,
    ) -> None:
        self._files, self._options, self._renderer = files, options, renderer
        self._report, self._reports = report, reports

    def offset_index(self, path: str, log_path: str, base_offset: int) -> None:
        """Dump an .index file. Mirrors DumpLogSegments.dumpIndex."""
        index = OffsetIndex.read(self._files, path, base_offset)
        log = self._open_log(path, log_path)
        try:
            if not len(index):
                self._renderer.empty_index(path)
                self._report_problems(index)
            elif self._options.sanity_only:
                self._sanity(index, path)
            else:
                self._offset_entries(index, path, BatchHeads(log) if log else None)
                self._report_problems(index)
        finally:
            if log:
                log.close()

    def _offset_entries(self, index: OffsetIndex, path: str, heads: BatchHeads | None) -> None:
        wrong, limit = _Mismatches(), self._options.max_message_size
        number, count = 0, index.dumped_entries
        while number < count:
            sound = count - number
            if heads:
                sound, several = heads.sound_entries(index, number, count, limit)
                wrong.note_last_offsets(several=several)
                if not sound:
                    entry = index.entry(number)
                    self._check_offset_entry(index, path, number, entry, heads.at(entry.position, limit), wrong)
                    sound = 1
            if not self._options.verify_only:
                self._renderer.index_entries(index, number, number + sound)
            number += sound
        if wrong.are_first_offsets:
            what = f"{count_of(len(wrong.found) + wrong.found.more, 'entry')} with the first offset of the batch, not the last"
            self._report(Finding("index-first-offsets", Where(path), what))
        else:
            self._report_mismatches(index, path, wrong)

    def _check_offset_entry(
        self, index: OffsetIndex, path: str, number: int, entry: OffsetPosition, batch: BatchAt | str, wrong: _Mismatches
    ) -> None:
        """Check an entry that points to `batch`, or to none for the reason in `batch`."""
        is_unused = number == 0 and index.used_entries <= 1 and entry == (index.base_offset, 0) and len(index) > 1
        if isinstance(batch, str):
            if not is_unused:
                self._report(Finding("index-beyond-log", Where(path, number * index.entry_size, entry.offset), batch))
        elif batch.last_offset == entry.offset:
            wrong.note_last_offsets(several=batch.last_offset != batch.base_offset)
        elif not is_unused:
            wrong.add(number, entry.offset, batch)

    def _report_mismatches(self, index: OffsetIndex, path: str, wrong: _Mismatches) -> None:
        absolute = self._files.absolute(path)
        for number, offset, batch in wrong.found:
            self._reports.index_mismatch(absolute, offset, batch.last_offset)
            what = f"entry {number} has offset {offset}, the batch at byte {batch.position} ends at {batch.last_offset}"
            self._report(Finding("index-offset-mismatch", Where(path, number * index.entry_size, offset), what))
        more = wrong.found.more
        if more:
            self._reports.more_mismatches(absolute, more)
            self._report(Finding("index-offset-mismatch", Where(path), count_of(more, "more entry"), more))

    def time_index(
        self, path: str, log_path: str, index_path: str, base_offset: int, *, is_sound: bool = False
    ) -> None:
        """Dump a .timeindex file. Mirrors DumpLogSegments.dumpTimeIndex.

        is_sound  `time_index_is_sound` returned that its entries are those of the log
        """
        index = TimeIndex.read(self._files, path, base_offset)
        if is_sound:
            if not self._options.verify_only:
                self._renderer.index_entries(index, 0, index.dumped_entries)
            self._report_problems(index)
            return
        log = self._open_log(path, log_path)
        try:
            if self._options.sanity_only:
                self._sanity(index, path)
            else:
                check = None
                offsets = self._offset_index_of_segment(path, index_path, base_offset)
                if log:
                    absolute = self._files.absolute(path)
                    check = _TimeEntryCheck(log, offsets, self._options, self._report, self._reports, path, absolute)
                for number, end in _runs(index, check):
                    if not self._options.verify_only:
                        self._renderer.index_entries(index, number, end)
                self._report_problems(index)
        finally:
            if log:
                log.close()

    def _report_problems(self, index: OffsetIndex | TimeIndex) -> None:
        """Report the problems of the file itself, without its log."""
        for finding in index.sanity():
            if finding.code != "timeindex-out-of-order":  # already reported entry by entry
                self._report(finding)

    def _sanity(self, index: OffsetIndex | TimeIndex, path: str) -> None:
        """Report only the result of the check that a broker makes when it opens an index."""
        problem = index.broker_error(self._files.absolute(path))
        if problem is None:
            self._renderer.sound_index(path)
        else:
            self._report(Finding("index-corrupt", Where(path), problem))

    def _open_log(self, path: str, log_path: str) -> OpenFile | None:
        try:
            return self._files.open(log_path)
        except UnreadableFile as error:
            if self._files.exists(log_path):
                raise
            self._report(Finding("log-missing", Where(path), str(error)))
            return None

    def _offset_index_of_segment(self, path: str, index_path: str, base_offset: int) -> OffsetIndex:
        try:
            return OffsetIndex.read(self._files, index_path, base_offset)
        except UnreadableFile as error:
            self._report(Finding("index-missing", Where(path), str(error)))
            return OffsetIndex(b"", base_offset, index_path)


class _Mismatches:
    """Entries of an offset index whose offset is not the last one of their batch."""

    def __init__(self) -> None:
        self.found: First[tuple[int, int, BatchAt]] = First(_WRONG_KEPT)  # (number of the entry, its offset, its batch)
        self._by_first_offset = True  # may all entries be first offsets of appends?

    @property
    def are_first_offsets(self) -> bool:
        """Return whether a broker before 2.0 wrote the index: entries had the first offset of an append, not the last."""
        return bool(self.found) and self._by_first_offset

    def add(self, number: int, offset: int, batch: BatchAt) -> None:
        """Add entry `number`, whose `offset` is not the last one of its batch."""
        self._by_first_offset = self._by_first_offset and batch.base_offset == offset
        self.found.take((number, offset, batch))

    def note_last_offsets(self, *, several: bool) -> None:
        """Note entries with the last offsets of their batches; `several`: one of these batches has several offsets."""
        if several:
            self._by_first_offset = False


class _TimeEntryCheck:
    """Checks the entries of a time index, in order.

    offsets   the offset index of the segment   path, absolute  of the time index, for findings and for Kafka's reports
    """

    def __init__(
        self, log: OpenFile, offsets: OffsetIndex, options: DumpOptions, report: Callable[[Finding], None],
        reports: DumpReports, path: str, absolute: str,
    ) -> None:
        heads = BatchHeads(log)
        self._offsets, self._search = offsets, OffsetSearch(heads)
        self._timestamps = LargestTimestamps(log, heads, options, report)
        self._report, self._reports, self._path, self._absolute = report, reports, path, absolute

    def sound_entries(self, index: TimeIndex, number: int, count: int, previous: int) -> tuple[int, int]:
        """Return how many of the entries number … count − 1 a quick check finds valid, and the timestamp of the last one."""
        known = self._timestamps.known_window
        if known is None or not self._offsets.leads_by_growing_offsets:
            return 0, previous
        entries, offsets = Entries(index.whole, index.base_offset), Entries(self._offsets.whole, self._offsets.base_offset)
        found, last = sound_time_entries(entries, number, count, offsets, known, previous)
        return int(found), int(last)

    def entry(self, number: int, entry: TimestampOffset, previous: int) -> None:
        """Check entry `number`; `previous` is the timestamp of the entry before it."""
        where = Where(self._path, number * TIME_INDEX_ENTRY.size, entry.offset)
        batch = self._search.first(self._offsets.lookup(entry.offset, zero_tail=True).position, entry.offset)
        if batch is None or batch.last_offset != entry.offset:
            self._reports.not_found(self._absolute, entry.offset, -1 if batch is None else batch.last_offset)
            what = f"entry {number}: no batch ends at offset {entry.offset}"
            self._report(Finding("timeindex-offset-not-found", where, what))
            return
        largest = self._timestamps.of(batch)
        if largest is not None and largest != entry.timestamp:
            self._reports.timestamp_mismatch(self._absolute, entry.timestamp, largest)
            what = f"entry {number} has {entry.timestamp} ms, the batch's largest is {largest}"
            self._report(Finding("timeindex-timestamp-mismatch", where, what))
        if previous >= entry.timestamp:
            self._reports.out_of_order(self._absolute, entry.timestamp, previous)
            what = f"entry {number}: {entry.timestamp} ms after {previous}"
            self._report(Finding("timeindex-out-of-order", where, what))


def _runs(index: TimeIndex, check: _TimeEntryCheck | None) -> Iterator[tuple[int, int]]:
    """Check the entries that kafka-dump-log reads; return them, as ranges, after their check."""
    previous = NO_TIMESTAMP
    number, count = 0, index.dumped_entries
    while number < count:
        sound = count - number
        if check:
            sound, previous = check.sound_entries(index, number, count, previous)
            if not sound:
                entry, sound = index.entry(number), 1
                if number or (index.used_entries and entry != (0, index.base_offset)):
                    check.entry(number, entry, previous)
                previous = entry.timestamp
        yield number, number + sound
        number += sound


def time_index_is_sound(
    files: ReadOnlyFiles, options: DumpOptions, path: str, log_path: str, index_path: str, base_offset: int
) -> bool:
    """Return whether the check of a time index with log and offset index finds no problem; False if one is unreadable."""
    found: list[Finding] = []
    try:
        index, offsets = TimeIndex.read(files, path, base_offset), OffsetIndex.read(files, index_path, base_offset)
        with files.open(log_path) as log:
            check = _TimeEntryCheck(log, offsets, options, found.append, DumpReports(), path, path)
            return all(not found for _ in _runs(index, check)) and not found
    except KafkalogError:
        return False  # `time_index` reports it


class _BlockSummary(NamedTuple):
    """The batches of a block, read from one position: largest last offset, first position after the block (None: the end)."""

    largest: int
    after: int | None


class OffsetSearch:
    """Finds batches by offset from any position on, without reading a part of the log repeatedly.

    The summary of each block is kept by the position of its first batch, since other positions may yield other batches. Offsets
    need not grow. A search reads a few batches at its start and its end, and some summaries of blocks and of blocks of blocks.
    """

    def __init__(self, heads: BatchHeads) -> None:
        self._heads = heads
        self._bits = max(_SMALLEST_BLOCK, heads.size.bit_length() - _BLOCKS)
        self._summaries: dict[tuple[int, int], _BlockSummary] = {}  # by level, and position of the first batch in the block
        self._last: tuple[int, int, int | None] = (-1, 0, None)  # position and offset of the last search, and its result

    def first(self, position: int, offset: int) -> BatchAt | None:
        """Return the first batch from `position` on that ends at `offset` or later; None: not before the end or damage.

        Raises UnreadableFile, and FileChangedWhileReading.
        """
        begin: int | None = position
        if self._last[0] == position and self._last[1] <= offset:
            begin = self._last[2]  # all batches before it end at smaller offsets
        found = None if begin is None else self._first(begin, offset)
        self._last = (position, offset, None if found is None else found.position)
        return found

    def _first(self, position: int, offset: int) -> BatchAt | None:
        count, is_at_block = 0, False
        while count < _NEAR or not is_at_block:
            batch = self._heads.at(position)
            if isinstance(batch, str):
                return None
            if batch.last_offset >= offset:
                return batch
            after = position + batch.size
            count, is_at_block = count + 1, self._block(0, after) != self._block(0, position)
            position = after
        return self._over_blocks(position, offset)

    def _over_blocks(self, position: int, offset: int) -> BatchAt | None:
        """As `first`, from the start of a block."""
        level = 0
        while True:
            largest, after = self._summary(level, position)
            if largest >= offset:
                if level == 0:
                    return self._in_block(position, offset)
                level -= 1
            elif after is None:
                return None
            else:
                level += self._block(level + 1, after) != self._block(level + 1, position)
                position = after

    def _in_block(self, position: int, offset: int) -> BatchAt | None:
        while not isinstance(batch := self._heads.at(position), str):
            if batch.last_offset >= offset:
                return batch
            position += batch.size
        return None

    def _summary(self, level: int, position: int) -> _BlockSummary:
        """Return the summary of the block of `level` whose first batch is at `position`."""
        known = self._summaries.get((level, position))
        if known is not None:
            return known
        largest, block = LONG_MIN, self._block(level, position)
        after: int | None = position
        while after is not None and self._block(level, after) == block:
            reached, after = self._summary(level - 1, after) if level else self._batch_summary(after)
            largest = max(largest, reached)
        if len(self._summaries) >= _SUMMARIES_KEPT:
            self._summaries.clear()
        self._summaries[level, position] = summary = _BlockSummary(largest, after)
        return summary

    def _batch_summary(self, position: int) -> _BlockSummary:
        batch = self._heads.at(position)
        if isinstance(batch, str):
            return _BlockSummary(LONG_MIN, None)
        return _BlockSummary(batch.last_offset, position + batch.size)

    def _block(self, level: int, position: int) -> int:
        return position >> (self._bits + level * _FANOUT)


_ROWS = 256  # batches decoded in one call
_DENSE = 1 << 10  # bytes: if batches are smaller, the index has an entry for few of them, and only those are decoded
_REMEMBERED = 100_000  # batches whose results are kept


class LargestTimestamps:
    """The largest timestamps of batches of one log, mostly requested in the order of their positions.

    Results are kept: an index may point to a batch repeatedly, or in any order.

    report  receives problems with the records of a requested batch, once
    """

    def __init__(self, log: OpenFile, heads: BatchHeads, options: DumpOptions, report: Callable[[Finding], None]) -> None:
        self._log, self._heads, self._report = log, heads, report
        self._max_batch_bytes = options.max_batch_bytes
        self._damage: list[Finding] = []
        self._reader = ChunkReader(log.path, self._damage.append, options.max_decompressed_bytes)
        self._batches = BatchColumns(_ROWS)
        self._largest = memoryview(array("q", [0] * _ROWS))
        self.known_window: Timestamps | None = None  # the batches decoded last; None: none yet
        self._known: dict[int, int | None] = {}  # by position of the batch
        self._singly: set[int] = set()  # positions of batches that could not be decoded together with others

    def of(self, batch: BatchAt) -> int | None:
        """Return the largest timestamp, −1 at least; None if there are no records, or not all of them can be read.

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
        """Decode `batch` and those after it that are in memory; only if they are dense enough and all of them are sound."""
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
                return None  # the cleaner removed all records, and with them the source of the entry
            largest = self._read(part)
            if largest is None:
                for finding in self._damage:
                    self._report(finding)
                return None
            answer = max(answer, *largest[: part.rows])
        return answer

    def _read(self, window: Window) -> memoryview | None:
        """Return the largest timestamp of each batch of the window; None if one of them is corrupt, see `_damage`."""
        self._damage.clear()
        self.known_window = None
        for row in range(window.rows):
            self._largest[row] = NO_TIMESTAMP
        for chunk in self._reader.chunks(window):
            largest_timestamps(chunk.records.table, chunk.first, chunk.end, self._largest)
        return None if self._damage else self._largest
