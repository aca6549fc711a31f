"""Offset and time indexes as kafka-dump-log shows and checks them, each entry against the log beside it.

Where Kafka's tool dies at an entry that points nowhere, this goes on with the next; where it reads the whole rest of
the log for every entry of a time index, this reads on from the entry's own position (see OffsetSearch).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.amounts import count_of
from engine.dump.batch_heads import BatchHeads
from engine.dump.offset_search import LargestTimestamps, OffsetSearch
from engine.errors import UnreadableFile
from engine.findings import Finding, Where
from engine.formats import NO_TIMESTAMP, TIME_INDEX_ENTRY
from engine.index.offset import OffsetIndex
from engine.index.time import TimeIndex
from engine.kernels.verify import Entries, sound_time_entries

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.dump.batch_heads import BatchAt
    from engine.dump.renderer import DumpOptions, DumpRenderer
    from engine.dump.reports import DumpReports
    from engine.files import OpenFile, ReadOnlyFiles
    from engine.index.offset import OffsetPosition
    from engine.index.time import TimestampOffset

_KEPT = 50_000  # wrong entries that are named one by one


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
            what = f"{count_of(wrong.count, 'entry')} with the first offset of the batch, not the last"
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
        for number, offset, batch in wrong.kept:
            self._reports.index_mismatch(absolute, offset, batch.last_offset)
            what = f"entry {number} has offset {offset}, the batch at byte {batch.position} ends at {batch.last_offset}"
            self._report(Finding("index-offset-mismatch", Where(path, number * index.entry_size, offset), what))
        more = wrong.count - len(wrong.kept)
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
        self.kept: list[tuple[int, int, BatchAt]] = []  # (number of the entry, its offset, its batch) of the first ones
        self.count = 0
        self._by_first_offset = True  # does nothing say that the index goes by last offsets?

    @property
    def are_first_offsets(self) -> bool:
        """Did a broker before 2.0 write the index? It named the first offset of an append, not the last."""
        return self.count > 0 and self._by_first_offset

    def add(self, number: int, offset: int, batch: BatchAt) -> None:
        """Entry `number` says `offset`, which is not the last of its batch."""
        self.count += 1
        self._by_first_offset = self._by_first_offset and batch.base_offset == offset
        if len(self.kept) < _KEPT:
            self.kept.append((number, offset, batch))

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
