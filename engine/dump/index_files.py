"""Offset and time indexes as kafka-dump-log shows and checks them, each entry against the log beside it.

Kafka's tool dies at an entry that points nowhere; this continues with the next; where it reads the whole rest of
the log for every entry of a time index, this reads on from the entry's own position (see OffsetSearch).
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.dump.batch_heads import BatchHeads
from engine.errors import UnreadableFile
from engine.findings import Finding, First, Where
from engine.formats import LONG_MIN, NO_TIMESTAMP, TIME_INDEX_ENTRY, BatchField
from engine.index.offset import OffsetIndex
from engine.index.time import TimeIndex
from engine.kernels.select import largest_timestamps
from engine.kernels.verify import Entries, Timestamps, sound_time_entries
from engine.record.columns import BatchColumns
from engine.record.reader import ChunkReader
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.dump.batch_heads import BatchAt
    from engine.dump.renderer import DumpOptions, DumpRenderer
    from engine.dump.reports import DumpReports
    from engine.files import OpenFile, ReadOnlyFiles
    from engine.index.offset import OffsetPosition
    from engine.index.time import TimestampOffset
    from engine.record.windows import Window

_WRONG_KEPT = 50_000  # wrong entries that are named one by one
_NEAR = 64  # batches that are looked at one by one first: where the offset index is right, the one in question is there
_SMALLEST_BLOCK = 8  # bits of a position in a block: 256 bytes
_BLOCKS = 15  # bits of the numbers of blocks, 32,768 at most
_FANOUT = 4  # bits: 16 blocks make one of the next level
_PASSAGES_KEPT = 100_000  # blocks that are remembered; only in a log made for it are there more


class IndexDump:
    """Dumps index files. Findings name the path as the user gave it, Kafka's reports the absolute one."""

    def __init__(
        self, files: ReadOnlyFiles, options: DumpOptions, renderer: DumpRenderer, report: Callable[[Finding], None],
        reports: DumpReports,
    ) -> None:
        self._files, self._options, self._renderer = files, options, renderer
        self._report, self._reports = report, reports

    def offset_index(self, path: str, log_path: str, base_offset: int) -> None:
        """An .index file. Mirrors DumpLogSegments.dumpIndex."""
        index = OffsetIndex.read(self._files, path, base_offset)
        log = self._open_log(path, log_path)
        try:
            if not len(index):
                self._renderer.empty_index(path)
                self._doubts(index)
            elif self._options.sanity_only:
                self._sanity(index, path)
            else:
                self._offset_entries(index, path, BatchHeads(log) if log else None)
                self._doubts(index)
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
                    self._judge_offset(index, path, number, entry, heads.at(entry.position, limit), wrong)
                    sound = 1
            if not self._options.verify_only:
                self._renderer.entries(index.entry(one) for one in range(number, number + sound))
            number += sound
        if wrong.are_first_offsets:
            what = f"{count_of(len(wrong.found) + wrong.found.more, 'entry')} with the first offset of the batch, not the last"
            self._report(Finding("index-first-offsets", Where(path), what))
        else:
            self._report_mismatches(index, path, wrong)

    def _judge_offset(
        self, index: OffsetIndex, path: str, number: int, entry: OffsetPosition, batch: BatchAt | str, wrong: _Mismatches
    ) -> None:
        """What is wrong with an entry that points to `batch`, or why there is none."""
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

    def time_index(self, path: str, log_path: str, index_path: str, base_offset: int) -> None:
        """A .timeindex file. Mirrors DumpLogSegments.dumpTimeIndex."""
        index = TimeIndex.read(self._files, path, base_offset)
        log = self._open_log(path, log_path)
        try:
            if self._options.sanity_only:
                self._sanity(index, path)
            else:
                self._time_entries(index, path, log, self._offset_index_beside(path, index_path, base_offset))
                self._doubts(index)
        finally:
            if log:
                log.close()

    def _time_entries(self, index: TimeIndex, path: str, log: OpenFile | None, offsets: OffsetIndex) -> None:
        judge = None
        if log:
            absolute = self._files.absolute(path)
            judge = _TimeJudge(log, offsets, self._options, self._report, self._reports, path, absolute)
        previous = NO_TIMESTAMP
        number, count = 0, index.dumped_entries
        while number < count:
            sound = count - number
            if judge:
                sound, previous = judge.sound_entries(index, number, count, previous)
                if not sound:
                    entry, sound = index.entry(number), 1
                    if number or (index.used_entries and entry != (0, index.base_offset)):
                        judge.entry(number, entry, previous)
                    previous = entry.timestamp
            if not self._options.verify_only:
                self._renderer.entries(index.entry(one) for one in range(number, number + sound))
            number += sound

    def _doubts(self, index: OffsetIndex | TimeIndex) -> None:
        """What is wrong with the file itself, whatever its log holds."""
        for finding in index.sanity():
            if finding.code != "timeindex-out-of-order":  # those were reported entry by entry
                self._report(finding)

    def _sanity(self, index: OffsetIndex | TimeIndex, path: str) -> None:
        """Only the check that a broker makes when it opens an index."""
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

    def _offset_index_beside(self, path: str, index_path: str, base_offset: int) -> OffsetIndex:
        try:
            return OffsetIndex.read(self._files, index_path, base_offset)
        except UnreadableFile as error:
            self._report(Finding("index-missing", Where(path), str(error)))
            return OffsetIndex(b"", base_offset, index_path)


class _Mismatches:
    """Entries of an offset index that do not name the last offset of their batch."""

    def __init__(self) -> None:
        self.found: First[tuple[int, int, BatchAt]] = First(_WRONG_KEPT)  # (number of the entry, its offset, its batch)
        self._by_first_offset = True  # does nothing show that the index holds last offsets?

    @property
    def are_first_offsets(self) -> bool:
        """Did a broker before 2.0 write the index? It named the first offset of an append, not the last."""
        return bool(self.found) and self._by_first_offset

    def add(self, number: int, offset: int, batch: BatchAt) -> None:
        """Entry `number` says `offset`, which is not the last of its batch."""
        self._by_first_offset = self._by_first_offset and batch.base_offset == offset
        self.found.take((number, offset, batch))

    def note_last_offsets(self, *, several: bool) -> None:
        """Entries name the last offsets of their batches; `several`: one of these has others."""
        if several:
            self._by_first_offset = False


class _TimeJudge:
    """What is wrong with entries of a time index, taken one after the other.

    offsets   the offset index beside it        path, absolute  of the time index, for findings and for Kafka's reports
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
        """How many of the entries number … count − 1 are right at a glance → (how many, timestamp of the last one)."""
        known = self._timestamps.known_window
        if known is None or not self._offsets.leads_by_growing_offsets:
            return 0, previous
        entries, offsets = Entries(index.whole, index.base_offset), Entries(self._offsets.whole, self._offsets.base_offset)
        found, last = sound_time_entries(entries, number, count, offsets, known, previous)
        return int(found), int(last)

    def entry(self, number: int, entry: TimestampOffset, previous: int) -> None:
        """Report what is wrong with entry `number`; `previous` is the timestamp of the one before it."""
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


class _Passage(NamedTuple):
    """What the batches in a block come to: largest last offset, and where the next block is entered; None: nowhere."""

    largest: int
    after: int | None


class OffsetSearch:
    """Finds batches from any position on, and walks no part of the log twice at length, however often it is asked.

    How far the batches of a block reach, and where they lead, is remembered, for the position at which the block was
    entered: what begins elsewhere may be other batches. Offsets need not grow. So a question costs some batches at its
    beginning and its end, and a few steps over blocks of blocks.
    """

    def __init__(self, heads: BatchHeads) -> None:
        self._heads = heads
        self._bits = max(_SMALLEST_BLOCK, heads.size.bit_length() - _BLOCKS)
        self._passages: dict[tuple[int, int], _Passage] = {}  # by level, and where the block was entered
        self._last: tuple[int, int, int | None] = (-1, 0, None)  # position and offset of the last question, where it led

    def first(self, position: int, offset: int) -> BatchAt | None:
        """First batch from `position` on that ends at `offset` or after it; None: there is none, or bytes that are no batch.

        Raises UnreadableFile, and FileChangedWhileReading.
        """
        begin: int | None = position
        if self._last[0] == position and self._last[1] <= offset:
            begin = self._last[2]  # nothing before that reached a smaller offset
        found = None if begin is None else self._first(begin, offset)
        self._last = (position, offset, None if found is None else found.position)
        return found

    def _first(self, position: int, offset: int) -> BatchAt | None:
        passed, enters = 0, False
        while passed < _NEAR or not enters:
            batch = self._heads.at(position)
            if isinstance(batch, str):
                return None
            if batch.last_offset >= offset:
                return batch
            after = position + batch.size
            passed, enters = passed + 1, self._block(0, after) != self._block(0, position)
            position = after
        return self._over_blocks(position, offset)

    def _over_blocks(self, position: int, offset: int) -> BatchAt | None:
        """As `first`, from where a block is entered."""
        level = 0
        while True:
            largest, after = self._passage(level, position)
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

    def _passage(self, level: int, position: int) -> _Passage:
        """Through the block of `level` that is entered at `position`."""
        known = self._passages.get((level, position))
        if known is not None:
            return known
        largest, block = LONG_MIN, self._block(level, position)
        after: int | None = position
        while after is not None and self._block(level, after) == block:
            reached, after = self._passage(level - 1, after) if level else self._one(after)
            largest = max(largest, reached)
        if len(self._passages) >= _PASSAGES_KEPT:
            self._passages.clear()
        self._passages[level, position] = passage = _Passage(largest, after)
        return passage

    def _one(self, position: int) -> _Passage:
        batch = self._heads.at(position)
        return _Passage(LONG_MIN, None) if isinstance(batch, str) else _Passage(batch.last_offset, position + batch.size)

    def _block(self, level: int, position: int) -> int:
        return position >> (self._bits + level * _FANOUT)


_ROWS = 256  # batches that are decoded together
_DENSE = 1 << 10  # bytes: where batches are smaller, an index names few of them, and only those are decoded
_REMEMBERED = 100_000  # batches whose answers are remembered


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
        self.known_window: Timestamps | None = None  # the batches that were decoded together last; None: none were
        self._known: dict[int, int | None] = {}  # by position of the batch
        self._singly: set[int] = set()  # positions of batches that could not be decoded together

    def of(self, batch: BatchAt) -> int | None:
        """−1 at least; None if there are no records, or they could not all be read.

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
        """`batch` and those after it that are in memory, if they are worth it and nothing is wrong with any of them."""
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
                return None  # the cleaner emptied the batch, and with it went what the entry was made from
            largest = self._read(part)
            if largest is None:
                for finding in self._damage:
                    self._report(finding)
                return None
            answer = max(answer, *largest[: part.rows])
        return answer

    def _read(self, window: Window) -> memoryview | None:
        """The largest timestamp of each of the window's batches; None if something is wrong with one, see `_damage`."""
        self._damage.clear()
        self.known_window = None
        for row in range(window.rows):
            self._largest[row] = NO_TIMESTAMP
        for chunk in self._reader.chunks(window):
            largest_timestamps(chunk.records.table, chunk.first, chunk.end, self._largest)
        return None if self._damage else self._largest
