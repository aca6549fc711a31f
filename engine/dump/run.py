"""Dump files in kafka-dump-log's order, and report the problems in them.

Mirrors DumpLogSegments.main. `LogDump` walks a log, `tally` counts the records of a selection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.background import Background
from engine.discovery.names import LOGS, FileKind, FileName, file_name, parse_file_name, parse_long, partition_of
from engine.dump.gaps import gaps_of, report_gaps
from engine.dump.renderer import UNLIMITED, base_offset_of, check_log_name
from engine.dump.reports import DumpReports
from engine.errors import UnreadableFile
from engine.findings import Finding, Where
from engine.record.reader import ChunkReader
from engine.record.soundness import resume_after_damage, too_large, unsound_batches
from engine.record.windows import MAX_LOG_SIZE, LogWalk, Stop, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from engine.dump.gaps import Gaps
    from engine.dump.index_files import IndexDump
    from engine.dump.renderer import DumpOptions, DumpRenderer, LogRenderer
    from engine.dump.selection import Selector
    from engine.files import OpenFile, ReadOnlyFiles
    from engine.record.reader import Chunk
    from engine.record.selection import Selection

_BY_SUFFIX = {
    ".log": FileKind.LOG,
    ".checkpoint": FileKind.KRAFT_SNAPSHOT,
    ".index": FileKind.OFFSET_INDEX,
    ".timeindex": FileKind.TIME_INDEX,
    ".snapshot": FileKind.PRODUCER_SNAPSHOT,
    ".txnindex": FileKind.TRANSACTION_INDEX,
}


class Dump:
    """Dumps files in order.

    renderer  writes the content       report  receives problems as they are found
    reports   collects what kafka-dump-log prints to stderr at the end
    selector  selects records of logs; None: all
    """

    def __init__(
        self, files: ReadOnlyFiles, options: DumpOptions, renderer: DumpRenderer, report: Callable[[Finding], None],
        selector: Selector | None = None,
    ) -> None:
        self._files, self._options, self._renderer, self._report = files, options, renderer, report
        self._selector = selector
        self.reports = DumpReports()
        self._index_dump: IndexDump | None = None
        self._sound_time_indexes: set[str] = set()  # paths; they were checked while their logs were dumped

    @property
    def _indexes(self) -> IndexDump:
        if self._index_dump is None:
            from engine.dump.index_files import IndexDump  # here and below: imported only if needed

            self._index_dump = IndexDump(self._files, self._options, self._renderer, self._report, self.reports)
        return self._index_dump

    def dump(self, path: str, name: FileName, others: Collection[str] = ()) -> None:
        """Dump one file, of the kind of its name. Raises UnreadableFile.

        others  files that are dumped, too: with several threads, the time index of a log is checked while the log is dumped
        """
        self._renderer.file(path, name)
        kind = name.kind
        if kind in LOGS:
            with Background[bool]("time-index") as thread:
                time_index = self._sibling(path, name, ".timeindex")
                if self._options.jobs > 1 and time_index in others:
                    self._begin_time_index(thread, time_index, path, name)
                self._log(path, name)
                if thread.is_busy and thread.wait():
                    self._sound_time_indexes.add(time_index)
        elif kind is FileKind.LOG_07:
            check_log_name(path, name, self._report)
            if self._selector is not None:
                self._selector.next_file()
            with self._files.open(path) as file:
                self._renderer.log_07(file, path, self._selector)
        elif kind is FileKind.OFFSET_INDEX:
            self._indexes.offset_index(path, self._sibling(path, name, ".log"), base_offset_of(path, name, self._report))
        elif kind is FileKind.TIME_INDEX:
            log, index = self._sibling(path, name, ".log"), self._sibling(path, name, ".index")
            base_offset, is_sound = base_offset_of(path, name, self._report), path in self._sound_time_indexes
            self._indexes.time_index(path, log, index, base_offset, is_sound=is_sound)
        elif kind is FileKind.TRANSACTION_INDEX:
            self._transaction_index(path, name)
        elif kind is FileKind.PRODUCER_SNAPSHOT:
            self._producer_snapshot(path)
        else:
            self._small_file(path, kind)

    def _small_file(self, path: str, kind: FileKind) -> None:
        from engine.dump.renderer import SMALL_FILES, read_small_file

        if kind in SMALL_FILES:
            entries, findings = read_small_file(self._files, path, kind)
            for entry in entries:
                self._renderer.entry(entry)
            for finding in findings:
                self._report(finding)

    def _begin_time_index(self, thread: Background[bool], path: str, log: str, name: FileName) -> None:
        """Check the time index at `path` in a thread; `name` is that of its log."""
        from engine.dump.index_files import time_index_is_sound

        files, options, base_offset = self._files, self._options, name.base_offset
        if base_offset is not None and not options.sanity_only:
            index = self._sibling(log, name, ".index")
            thread.begin(lambda: time_index_is_sound(files, options, path, log, index, base_offset))

    def _log(self, path: str, name: FileName) -> None:
        check_log_name(path, name, self._report)
        gaps = gaps_of(self._files, path, name, self._selector.selection if self._selector is not None else None)
        renderer = self._renderer.log(path, partition_of(self._files.absolute(path)))
        with self._files.open(path) as file:
            try:
                start = 0
                if self._selector is not None:
                    from engine.dump.selection import start_position

                    self._selector.next_file()
                    start = start_position(self._files, path, name, file, self._selector.selection)
                LogDump(file, path, self._options, renderer, self._report, gaps, self._selector).run(start)
            finally:
                report_gaps(gaps, self._files, path, name, self._report, self.reports)

    def _transaction_index(self, path: str, name: FileName) -> None:
        base_offset = base_offset_of(path, name, self._report)
        try:
            from engine.index.transaction import TransactionIndex

            index = TransactionIndex.read(self._files, path, base_offset)
        except UnreadableFile:
            if self._files.exists(path):
                raise
            return  # usual: the segment has no aborted transaction
        for txn in index:
            self._renderer.entry(txn)
        for finding in index.sanity():
            self._report(finding)

    def _producer_snapshot(self, path: str) -> None:
        from engine.checkpoint.producer_snapshot import ProducerSnapshot

        snapshot = ProducerSnapshot.read(self._files, path)
        problem = snapshot.error()
        if problem is not None:
            self._report(Finding("snapshot-corrupt", Where(path), problem))
            return
        for finding in snapshot.sanity():  # problems that Kafka ignores
            self._report(finding)
        for entry in snapshot:
            self._renderer.entry(entry)

    def _sibling(self, path: str, name: FileName, suffix: str) -> str:
        """Return the file of the same segment with another suffix, preferably with the same addition, such as `.deleted`."""
        directory = path[: len(path) - len(file_name(path))]
        plain = directory + file_name(path).split(".")[0] + suffix
        return plain + name.suffix if name.suffix and self._files.exists(plain + name.suffix) else plain


def kafka_file_name(path: str) -> FileName | None:
    """Return the kind of file for kafka-dump-log, which uses only the suffix from the last dot; None: it ignores the file."""
    name = file_name(path)
    dot = name.rfind(".")
    kind = _BY_SUFFIX.get(name[dot:]) if dot >= 0 else None
    if kind is None:
        return None
    if kind is FileKind.KRAFT_SNAPSHOT:
        parsed = parse_file_name(name)
        return parsed if parsed is not None and parsed.kind in LOGS else FileName(kind)
    return FileName(kind, parse_long(name.split(".")[0]))


class LogDump:
    """Dumps one open log.

    path      as the user gave it             gaps   collects gaps in the offsets
    report    receives all other problems
    selector  selects records; None: all
    """

    def __init__(
        self, file: OpenFile, path: str, options: DumpOptions, renderer: LogRenderer, report: Callable[[Finding], None],
        gaps: Gaps, selector: Selector | None = None,
    ) -> None:
        self._file, self._path, self._options, self._renderer = file, path, options, renderer
        self._report, self._gaps = report, gaps
        literals = () if selector is None else selector.selection.literals()
        self._reader = ChunkReader(path, report, options.max_decompressed_bytes, literals=literals,
                                   on_remark=lambda remark, _kind: report(remark), with_overlong=True)  # fmt: skip
        self._selector = selector

    def run(self, start: int = 0) -> None:
        """Walk the log from byte `start` on, at which a batch begins."""
        options = self._options
        size = self._file.size()
        readable = min(size, MAX_LOG_SIZE)
        end = readable if options.max_bytes == UNLIMITED else min(readable, options.max_bytes)
        larger = too_large(self._path, size)
        if larger is not None:
            self._report(larger)
        if start:
            self._gaps.begin_anywhere()
        walk = LogWalk(self._file, start, end, max_batch_bytes=options.max_batch_bytes, alternates=options.jobs > 1)
        resumes = True
        with Background[Window]("read-ahead") as thread:
            while resumes:
                for window in thread.ahead(walk) if options.jobs > 1 else walk:
                    if not self._dump_window(window):
                        return
                resumes, findings = resume_after_damage(walk, search=options.continue_on_corruption, is_cut=end < size)
                if not resumes and walk.stop is Stop.TORN and options.max_bytes == UNLIMITED:
                    self._renderer.trailing(size - walk.position)
                for finding in findings:
                    self._report(finding)

    def _dump_window(self, window: Window) -> bool:
        """Write and check a window; returns False if the selection has nothing after it."""
        self._check_headers(window)
        if self._selector is None:
            self._show(window)
            return True
        self._gaps.feed_batches(window)
        self._select(self._selector, window)
        return not (self._selector.is_past(window) or self._selector.finished)

    def _show(self, window: Window) -> None:
        """Write the whole content of a window."""
        if not self._options.iterates:
            self._gaps.feed_batches(window)
            self._renderer.batches(window, 0, window.rows)
            return
        for chunk in self._reader.chunks(window):
            self._gaps.feed(chunk.without_records() if chunk.is_overlong else chunk, window.base)
            self._renderer.records(chunk, window.base)

    def _select(self, selector: Selector, window: Window) -> None:
        """Write the selected content of a window."""
        for row, last_row in selector.runs(window):
            if selector.finished:
                return
            if not self._options.iterates:
                self._renderer.batches(window, *selector.batches(row, last_row))
                continue
            for chunk in self._reader.chunks(window, row, last_row):
                if chunk.is_overlong:
                    continue  # a selection needs records
                self._renderer.matches(chunk, window.base, selector)

    def _check_headers(self, window: Window) -> None:
        for _, finding in unsound_batches(self._path, window, codecs=not self._options.iterates):
            self._report(finding)


class Tally:
    """A LogRenderer that counts instead of writing."""

    def __init__(self) -> None:
        self.batch_count = 0
        self.record_count = 0

    def batches(self, _window: Window, row: int, last_row: int) -> None:
        """Count batches."""
        self.batch_count += last_row - row

    def records(self, _chunk: Chunk, _base: int) -> None:
        """Never called: `tally` always has a selection."""
        raise AssertionError("records without a selection")

    def matches(self, chunk: Chunk, base: int, selector: Selector) -> None:
        """Count matches."""
        records, batches = selector.count(chunk, base)
        self.record_count += records
        self.batch_count += batches

    def trailing(self, count: int) -> None:
        """Nothing to count."""


def tally(
    files: ReadOnlyFiles, path: str, name: FileName, options: DumpOptions, selection: Selection,
    report: Callable[[Finding], None], reports: DumpReports,
) -> Tally:
    """Count the matches in one log. Raises UnreadableFile.

    A log of 0.7 has entries instead of batches, and messages instead of records, those in compressed sets included.
    """
    from engine.dump.selection import Selector, start_position

    counted = Tally()
    selector = Selector(selection._replace(limit=None, tail=None))
    check_log_name(path, name, report)
    if name.kind is FileKind.LOG_07:
        from engine.dump.entries_07 import Entries07

        with files.open(path) as file:
            entries = Entries07(file, path, options, report, selector)
            for entry in entries:
                counted.batch_count += 1
                counted.record_count += 1 if entry.codec == 0 else sum(1 for _ in entries.inside(entry))
        return counted
    gaps = gaps_of(files, path, name, selection)
    with files.open(path) as file:
        start = start_position(files, path, name, file, selection)
        try:
            LogDump(file, path, options, counted, report, gaps, selector).run(start)
        finally:
            report_gaps(gaps, files, path, name, report, reports)
    return counted
