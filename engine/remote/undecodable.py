"""Replace records of `__remote_log_metadata` that no broker can decode; a broker's consumer of the topic stops at them.

Their batches are replaced by batches without records, as the cleaner writes them. Offsets, leader epochs and the state of
producers stay, and consumers skip the batch. A broker also waits until it has read the record before the log end
(ConsumerTask.maybeMarkUserPartitionsAsReady). So if these batches are at the log end, a copy of the last record before them is
appended. The copy has no effect, because a segment may repeat its state.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from engine.amounts import offsets_text
from engine.discovery.names import file_name, parent_of
from engine.errors import KafkalogError, UsageError, argument
from engine.findings import Severity
from engine.formats import BatchField
from engine.log.cleaner.cleaner import replace_group, replacing_in
from engine.log.cleaner.rewriting import empty_in_place
from engine.log.report import Action
from engine.log.segment.splitting import new_cleaned_segment
from engine.record.columns import BatchColumns
from engine.record.windows import LogWalk
from engine.remote.metadata import RemoteLogMetadata
from engine.remote.metadata_log import AppendRecords, MetadataLogs, operate_on
from engine.remote.records import PartitionRecord, encode_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.report import Report
    from engine.log.segment.log_segment import LogSegment
    from engine.log.session import Session
    from engine.remote.records import SegmentRecord, UpdateRecord

_CODE = "remote-metadata-undecodable"
_WHY = "no broker can decode its records, and a consumer of the topic stops at them: replaced by a batch without records"


class NotReplaced(KafkalogError):
    """A batch that also has records that can be decoded."""

    code = "not-replaced"
    exit_status = 4


class Undecodable:
    """Collects the offsets of undecodable records from findings, by directory of the log. `report` receives all findings."""

    def __init__(self, report: Callable[[Finding], None]) -> None:
        self._report = report
        self.offsets: dict[str, list[int]] = {}

    def take(self, finding: Finding) -> None:
        """Receive a finding."""
        self._report(finding)
        if finding.code == _CODE and finding.where.offset is not None:
            self.offsets.setdefault(parent_of(finding.where.file), []).append(finding.where.offset)

    def refuse(self, paths: Sequence[str]) -> None:
        """Raise UsageError if there are any: no broker would read later records. `paths`: log dirs to name in the advice."""
        for directory, offsets in self.offsets.items():
            what = f"{directory}: a broker's consumer of the topic stops at offset {offsets[0]}, and would not read new records"
            words = " ".join(map(argument, paths))
            raise UsageError(what, f"kafkalog remote repair-metadata --replace-undecodable {words}", path=directory)


def replace_undecodable(session: Session, report: Callable[[Finding], None]) -> Iterator[Report]:
    """Replace undecodable records in all logs of the topic in a session's log dirs. Raises UsageError, UnreadableFile."""
    disk, found = session.dirs.disk, Undecodable(report)
    last: dict[str, tuple[int, SegmentRecord | UpdateRecord]] = {}
    for log_dir in session.log_dirs:  # one at a time: repair all copies of a log
        logs = MetadataLogs(disk, [log_dir.path], found.take, is_needed=False)
        for event in logs.events(RemoteLogMetadata()):
            directory = logs.directories[event.metadata_partition]
            if isinstance(event.record, PartitionRecord):  # brokers do not write it
                last.pop(directory, None)
            else:
                last[directory] = event.offset, event.record
    yield from operate_on(session, list(found.offsets), _Replace(found.offsets, last))


class _Replace(AppendRecords):
    """Replaces batches in logs of the topic.

    offsets  of undecodable records, by directory of the log
    last     (offset, record) of the last decodable record, by directory of the log
    """

    def __init__(
        self, offsets: Mapping[str, Sequence[int]], last: Mapping[str, tuple[int, SegmentRecord | UpdateRecord]]
    ) -> None:
        copies = {
            directory: [encode_record(last[directory][1])] for directory, own in offsets.items()
            if directory in last and last[directory][0] < max(own)
        }  # fmt: skip
        super().__init__("remote repair-metadata", copies)
        self._offsets, self._last = offsets, last

    def work(self, log: UnifiedLog) -> None:
        """Replace the batches of one open log. Raises NotReplaced before anything is changed, LogDamaged."""
        offsets = sorted(self._offsets[log.directory])
        files = log.local_log.partition.files
        _refuse_mixed(files, log, offsets)
        if log.directory not in self._last:
            what = f"{log.directory}: no broker can decode any of its records"
            do = f"kafkalog delete-records --before {log.log_end_offset} {argument(log.directory)}"
            raise NotReplaced(what, do, path=log.directory)
        if log.directory in self._values:
            super().work(log)  # before the replacement: an interrupted command can then be run again
        if offsets[-1] >= log.segments.active_segment.base_offset:
            log.roll()  # the active segment cannot be replaced
        for segment, following in pairwise(list(log.segments)):
            own = offsets[bisect_left(offsets, segment.base_offset) : bisect_left(offsets, following.base_offset)]
            if own:
                _rewrite(files, log, segment, own)


def _refuse_mixed(files: ReadOnlyFiles, log: UnifiedLog, offsets: Sequence[int]) -> None:
    for segment in log.segments:
        for batch in _batches_with(files, segment, offsets):
            first, last, count, known = batch.first, batch.last, batch.count, batch.undecodable
            if known < count:
                what = (f"{segment.log_path}: of the batch with {offsets_text(first, last + 1)} a broker can decode "
                        f"{count - known} of {count} records: they may be needed")
                raise NotReplaced(what, "kafkalog remote list --events shows them", path=segment.log_path)


class _Batch:
    """A batch with undecodable records: bytes [start, end) in the segment, and the batch that replaces it."""

    def __init__(self, base: int, batches: BatchColumns, row: int, undecodable: int) -> None:
        table = batches.table
        self.start = base + table[BatchField.POSITION, row]
        self.end = self.start + table[BatchField.SIZE, row]
        self.first, self.last = table[BatchField.BASE_OFFSET, row], table[BatchField.LAST_OFFSET, row]
        self.count, self.undecodable = table[BatchField.COUNT, row], undecodable
        self.replacement = empty_in_place(batches, row)


def _batches_with(files: ReadOnlyFiles, segment: LogSegment, offsets: Sequence[int]) -> Iterator[_Batch]:
    """Yield the batches of a segment with at least one of `offsets`, which are sorted."""
    with files.open(segment.log_path) as file:
        for window in LogWalk(file, batches=BatchColumns()):
            table = window.batches.table
            for row in range(window.rows):
                first, last = table[BatchField.BASE_OFFSET, row], table[BatchField.LAST_OFFSET, row]
                found = bisect_right(offsets, last) - bisect_left(offsets, first)
                if found > 0:
                    yield _Batch(window.base, window.batches, row, found)


def _rewrite(files: ReadOnlyFiles, log: UnifiedLog, segment: LogSegment, offsets: Sequence[int]) -> None:
    """Replace a segment by a copy with the batches of `offsets` replaced."""
    name, modified = file_name(segment.log_path), segment.last_modified
    cleaned = new_cleaned_segment(replacing_in(log), segment.base_offset)
    try:
        at = 0
        with files.open(segment.log_path) as file:
            for batch in list(_batches_with(files, segment, offsets)):
                cleaned.append_from_file(file, at, batch.start)
                cleaned.append(batch.last, batch.replacement)
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
    replace_group(log, cleaned, [segment])
