"""Dump files in kafka-dump-log's order: what is in which file, and what is wrong with it.

Mirrors DumpLogSegments.main.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.discovery.names import FileKind, FileName, file_name, parse_file_name, parse_long, partition_of
from engine.dump.gaps import gaps_of, report_gaps
from engine.dump.log_file import LogDump
from engine.dump.renderer import base_offset_of, check_log_name
from engine.dump.reports import DumpReports
from engine.errors import UnreadableFile
from engine.findings import Finding, Where

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.dump.index_files import IndexDump
    from engine.dump.renderer import DumpOptions, DumpRenderer
    from engine.dump.selection import Selector
    from engine.files import ReadOnlyFiles

LOGS = (FileKind.LOG, FileKind.KRAFT_SNAPSHOT, FileKind.BOOTSTRAP_CHECKPOINT)
_BY_SUFFIX = {
    ".log": FileKind.LOG,
    ".checkpoint": FileKind.KRAFT_SNAPSHOT,
    ".index": FileKind.OFFSET_INDEX,
    ".timeindex": FileKind.TIME_INDEX,
    ".snapshot": FileKind.PRODUCER_SNAPSHOT,
    ".txnindex": FileKind.TRANSACTION_INDEX,
}


class Dump:
    """Dumps files one after another.

    renderer  shows what they hold    report  takes what is wrong, as it is found
    reports   what kafka-dump-log would say on stderr at the end
    selector  decides what is shown of logs; None: everything
    """

    def __init__(
        self, files: ReadOnlyFiles, options: DumpOptions, renderer: DumpRenderer, report: Callable[[Finding], None],
        selector: Selector | None = None,
    ) -> None:
        self._files, self._options, self._renderer, self._report = files, options, renderer, report
        self._selector = selector
        self.reports = DumpReports()
        self._index_dump: IndexDump | None = None

    @property
    def _indexes(self) -> IndexDump:
        if self._index_dump is None:
            from engine.dump.index_files import IndexDump  # here and below: what a log does not need is not loaded

            self._index_dump = IndexDump(self._files, self._options, self._renderer, self._report, self.reports)
        return self._index_dump

    def dump(self, path: str, name: FileName) -> None:
        """Show one file, as what its name says. Raises UnreadableFile."""
        self._renderer.file(path, name)
        kind = name.kind
        if kind in LOGS:
            self._log(path, name)
        elif kind is FileKind.LOG_07:
            check_log_name(path, name, self._report)
            if self._selector is not None:
                self._selector.next_file()
            with self._files.open(path) as file:
                self._renderer.log_07(file, path, self._selector)
        elif kind is FileKind.OFFSET_INDEX:
            self._indexes.offset_index(path, self._beside(path, name, ".log"), base_offset_of(path, name, self._report))
        elif kind is FileKind.TIME_INDEX:
            log, index = self._beside(path, name, ".log"), self._beside(path, name, ".index")
            self._indexes.time_index(path, log, index, base_offset_of(path, name, self._report))
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
            return  # most segments have none: no transaction was aborted there
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
        for finding in snapshot.sanity():  # what Kafka accepts, and we doubt
            self._report(finding)
        for entry in snapshot:
            self._renderer.entry(entry)

    def _beside(self, path: str, name: FileName, suffix: str) -> str:
        """The file of the same segment with another suffix; one that was renamed in the same way goes first."""
        directory = path[: len(path) - len(file_name(path))]
        plain = directory + file_name(path).split(".")[0] + suffix
        return plain + name.suffix if name.suffix and self._files.exists(plain + name.suffix) else plain


def kafka_file_name(path: str) -> FileName | None:
    """What kafka-dump-log takes the file for: by its suffix from the last dot, nothing else; None: it ignores it."""
    name = file_name(path)
    dot = name.rfind(".")
    kind = _BY_SUFFIX.get(name[dot:]) if dot >= 0 else None
    if kind is None:
        return None
    if kind is FileKind.KRAFT_SNAPSHOT:
        parsed = parse_file_name(name)
        return parsed if parsed is not None and parsed.kind in LOGS else FileName(kind)
    return FileName(kind, parse_long(name.split(".")[0]))
