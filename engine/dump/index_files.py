"""Offset and time indexes as kafka-dump-log shows and checks them, each entry against the log beside it.

Where Kafka's tool dies at an entry that points nowhere, this goes on with the next; where it reads the whole rest of
the log for every entry of a time index, this reads on from the entry's own position (see OffsetSearch).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.dump.batch_heads import BatchHeads
from engine.dump.largest_timestamps import LargestTimestamps
from engine.dump.offset_search import OffsetSearch
from engine.errors import UnreadableFile
from engine.findings import Finding, Where
from engine.formats import NO_TIMESTAMP
from engine.index.offset import OffsetIndex
from engine.index.time import TimeIndex

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.dump.batch_heads import BatchAt
    from engine.dump.options import DumpOptions
    from engine.dump.renderer import DumpRenderer
    from engine.dump.reports import DumpReports
    from engine.files import OpenFile, ReadOnlyFiles

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
        wrong: list[tuple[int, int, BatchAt]] = []
        wrong_count = 0
        by_first_offset = True  # brokers before 2.0 indexed the first offset of an append, not the last
        for number, entry in enumerate(index.dumped()):
            batch = heads.at(entry.position, self._options.max_message_size) if heads else None
            unused = number == 0 and index.used_entries <= 1 and entry == (index.base_offset, 0) and len(index) > 1
            if isinstance(batch, str):
                if not unused:
                    where = Where(path, number * index.entry_size, entry.offset)
                    self._report(Finding("index-beyond-log", where, batch))
            elif batch is not None:
                if batch.last_offset != entry.offset:
                    if not unused:
                        wrong_count += 1
                        by_first_offset = by_first_offset and batch.base_offset == entry.offset
                        if len(wrong) < _KEPT:
                            wrong.append((number, entry.offset, batch))
                elif batch.last_offset != batch.base_offset:
                    by_first_offset = False
            if not self._options.verify_only:
                self._renderer.entry(entry)
        if wrong and by_first_offset:
            what = f"{wrong_count} entries name the first offset of their batch, not the last"
            self._report(Finding("index-first-offsets", Where(path), what))
            return
        for number, offset, batch in wrong:
            self._reports.index_mismatch(self._files.absolute(path), offset, batch.last_offset)
            what = f"entry {number} says offset {offset}, the batch at byte {batch.position} ends at {batch.last_offset}"
            self._report(Finding("index-offset-mismatch", Where(path, number * index.entry_size, offset), what))
        if wrong_count > len(wrong):
            more = wrong_count - len(wrong)
            self._reports.more_mismatches(self._files.absolute(path), more)
            self._report(Finding("index-offset-mismatch", Where(path), f"{more} more entries", more))

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
        heads = BatchHeads(log) if log else None
        timestamps = LargestTimestamps(log, heads, self._options, self._report) if heads and log else None
        search = OffsetSearch(heads) if heads else None
        absolute = self._files.absolute(path)
        previous = NO_TIMESTAMP
        for number, entry in enumerate(index.dumped()):
            unused = (number == 0 and not index.used_entries) or (number == 0 and entry == (0, index.base_offset))
            if search and timestamps and not unused:
                where = Where(path, number * index.entry_size, entry.offset)
                position = offsets.lookup(entry.offset, zero_tail=True).position
                batch = search.first(position, entry.offset)
                if batch is None or batch.last_offset != entry.offset:
                    found = -1 if batch is None else batch.last_offset
                    self._reports.not_found(absolute, entry.offset, found)
                    what = f"entry {number}: no batch ends at offset {entry.offset}"
                    self._report(Finding("timeindex-offset-not-found", where, what))
                else:
                    largest = timestamps.of(batch)
                    if largest not in (None, entry.timestamp):
                        self._reports.timestamp_mismatch(absolute, entry.timestamp, largest)
                        what = f"entry {number} says {entry.timestamp} ms, the batch's largest is {largest}"
                        self._report(Finding("timeindex-timestamp-mismatch", where, what))
                    if previous >= entry.timestamp:
                        self._reports.out_of_order(absolute, entry.timestamp, previous)
                        what = f"entry {number}: {entry.timestamp} ms after {previous}"
                        self._report(Finding("timeindex-out-of-order", where, what))
            if not self._options.verify_only:
                self._renderer.entry(entry)
            previous = entry.timestamp

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
