"""Records of `__remote_log_metadata` that no broker can decode: a broker's consumer of the topic ends at the first of them.

Their batches are replaced by ones without records, as the cleaner leaves them: offsets, leader epochs and the state of their
producers stay, and a consumer passes over them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from engine.discovery.names import file_name, parent_of
from engine.errors import KafkalogError, UsageError, argument
from engine.findings import Severity
from engine.formats import BatchField
from engine.log.append.log_end import refuse_damaged_end
from engine.log.cleaner.cleaner import put_in_place, replacing_in
from engine.log.cleaner.rewriting import empty_in_place
from engine.log.operations.operation import Operation
from engine.log.report import Action
from engine.log.segment.splitting import new_cleaned_segment
from engine.record.columns import BatchColumns
from engine.record.windows import LogWalk
from engine.remote.metadata_log import MetadataLogs, operate_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.report import Report
    from engine.log.segment.log_segment import LogSegment
    from engine.log.session import Session

_CODE = "remote-metadata-undecodable"
_WHY = "no broker can decode its records, and a consumer of the topic ends at them: a batch without records is there now"


class NotReplaced(KafkalogError):
    """A batch with such a record and with others."""

    code = "not-replaced"
    exit_status = 4


class Undecodable:
    """Collects findings of such records: their offsets by the directory of their log. `report` takes all findings."""

    def __init__(self, report: Callable[[Finding], None]) -> None:
        self._report = report
        self.offsets: dict[str, list[int]] = {}

    def take(self, finding: Finding) -> None:
        """Take a finding."""
        self._report(finding)
        if finding.code == _CODE and finding.where.offset is not None:
            self.offsets.setdefault(parent_of(finding.where.file), []).append(finding.where.offset)

    def refuse(self, paths: Sequence[str]) -> None:
        """Raise UsageError if there are some: no broker would read what is appended after them. `paths`: to be repaired."""
        for directory, offsets in self.offsets.items():
            what = f"{directory}: a broker's consumer of the topic ends at offset {offsets[0]}, and would not read new records"
            words = " ".join(map(argument, paths))
            raise UsageError(what, f"kafkalog remote repair-metadata --replace-undecodable {words}", path=directory)


def replace_undecodable(session: Session, report: Callable[[Finding], None]) -> Iterator[Report]:
    """Replace them in all logs of the topic in the log dirs of a session. Raises UsageError, UnreadableFile."""
    disk, found = session.dirs.disk, Undecodable(report)
    for log_dir in session.log_dirs:  # each on its own: all copies of a log are repaired
        MetadataLogs(disk, [log_dir.path], found.take, is_needed=False).read()
    yield from operate_on(session, list(found.offsets), _Replace(found.offsets))


class _Replace(Operation):
    name = "remote repair-metadata"
    for_snapshots = False
    of_partitions = True

    def __init__(self, offsets: Mapping[str, Sequence[int]]) -> None:
        self._offsets = offsets

    def work(self, log: UnifiedLog) -> None:
        """Replace the batches of one open log. Raises NotReplaced, with nothing changed, LogDamaged."""
        refuse_damaged_end(log)
        offsets = sorted(self._offsets[log.directory])
        files = log.local_log.partition.files
        _refuse_mixed(files, log, offsets)
        if offsets[-1] >= log.segments.active_segment.base_offset:
            log.roll()  # segments that are written to are not replaced
        for segment, following in pairwise(list(log.segments)):
            own = {offset for offset in offsets if segment.base_offset <= offset < following.base_offset}
            if own:
                _rewrite(files, log, segment, own)
        log.flush(force_flush_active_segment=True)


def _refuse_mixed(files: ReadOnlyFiles, log: UnifiedLog, offsets: Sequence[int]) -> None:
    for segment in log.segments:
        for batch in _batches_with(files, segment, set(offsets)):
            first, last, count, known = batch.first, batch.last, batch.count, batch.undecodable
            if known < count:
                what = (f"{segment.log_path}: of the batch with offsets {first} to {last} a broker can decode "
                        f"{count - known} of {count} records: they may be needed")
                raise NotReplaced(what, "kafkalog remote list --events shows them", path=segment.log_path)


class _Batch:
    """A batch with such records: its bytes [start, end) in the segment, and what takes its place."""

    def __init__(self, base: int, batches: BatchColumns, row: int, undecodable: int) -> None:
        table = batches.table
        self.start = base + table[BatchField.POSITION, row]
        self.end = self.start + table[BatchField.SIZE, row]
        self.first, self.last = table[BatchField.BASE_OFFSET, row], table[BatchField.LAST_OFFSET, row]
        self.count, self.undecodable = table[BatchField.COUNT, row], undecodable
        self.instead = empty_in_place(batches, row)


def _batches_with(files: ReadOnlyFiles, segment: LogSegment, offsets: set[int]) -> Iterator[_Batch]:
    with files.open(segment.log_path) as file:
        for window in LogWalk(file, batches=BatchColumns()):
            table = window.batches.table
            for row in range(window.rows):
                first, last = table[BatchField.BASE_OFFSET, row], table[BatchField.LAST_OFFSET, row]
                found = sum(first <= offset <= last for offset in offsets)
                if found:
                    yield _Batch(window.base, window.batches, row, found)


def _rewrite(files: ReadOnlyFiles, log: UnifiedLog, segment: LogSegment, offsets: set[int]) -> None:
    """Replace a segment by one with the same offsets."""
    name, modified = file_name(segment.log_path), segment.last_modified
    cleaned = new_cleaned_segment(replacing_in(log), segment.base_offset)
    try:
        at = 0
        with files.open(segment.log_path) as file:
            for batch in list(_batches_with(files, segment, offsets)):
                cleaned.append_from_file(file, at, batch.start)
                cleaned.append(batch.last, batch.instead)
                at = batch.end
                log.report.add(Action.REMOVED, name, _WHY, offsets=(batch.first, batch.last + 1), records=batch.count,
                               size=batch.end - batch.start, severity=Severity.WARNING)  # fmt: skip
            cleaned.append_from_file(file, at, segment.size)
        for txn in segment.txn_index:
            cleaned.txn_index.append(txn)
        cleaned.on_become_inactive_segment()
        cleaned.flush()
        cleaned.set_last_modified(modified)
    except BaseException:
        cleaned.delete_if_exists()
        raise
    put_in_place(log, cleaned, [segment])
