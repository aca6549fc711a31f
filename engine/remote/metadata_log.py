"""Read all records of `__remote_log_metadata` in log dirs, as a broker's consumer does, and append records."""

from __future__ import annotations

from dataclasses import replace as replace_in
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import file_name, parent_of, parse_partition_dir
from engine.errors import UsageError
from engine.files import look
from engine.findings import Finding
from engine.formats import RecordField
from engine.kernels.remote import decode_values
from engine.kernels.tables import REMOTE_ROW_SIZE
from engine.log.append.intake import BatchIntake
from engine.log.append.log_end import refuse_damaged_end
from engine.log.fetch.reading import FetchIsolation
from engine.log.fetch.records import FetchColumns, FetchLimits, RecordFetcher
from engine.log.fetch.replicas import read_best_replica
from engine.log.fetch.view import PartitionView
from engine.log.logdir.log_dirs import LogDir, PartitionPath, find_log_dirs
from engine.log.logdir.log_manager import LogManager
from engine.log.operations.operation import Operation, operate
from engine.log.report import Action
from engine.log.tiering import REMOTE_LOG_METADATA_TOPIC
from engine.record.assembly import BatchSpec
from engine.record.builder import NewRecord, split
from engine.record.columns import RECORD_ROWS
from engine.remote.metadata import RemoteLogMetadata
from engine.remote.records import decode_record
from engine.schema.wire import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from engine.files import ReadOnlyFiles
    from engine.log.fetch.records import Run
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.report import Report as OperationReport
    from engine.log.session import Session
    from engine.remote.metadata import PartitionMetadata
    from engine.remote.records import Record

    Report = Callable[[Finding], None]


class Event(NamedTuple):
    """A record of the topic.

    metadata_partition, offset  its location in the topic
    partition  the user partition of the record
    is_taken   False: a broker drops the record, because it is not valid after the earlier ones
    """

    metadata_partition: int
    offset: int
    record: Record
    partition: PartitionMetadata
    is_taken: bool


def is_unfinished(files: ReadOnlyFiles, directory: str) -> bool:
    """Is this log left over from an interrupted command? All its files are empty then."""
    found = (look(files, f"{directory}/{name}") for name in files.list(directory) if not name.endswith(".tmp"))
    return not any(info is not None and info.size for info in found)


class MetadataLogs:
    """The logs of `__remote_log_metadata` in the log dirs `paths`; of several copies the one that a leader would have.

    report       receives damage, and records that cannot be decoded: a broker's consumer stops at each of them
    directories  of the logs, by partition of the topic
    Raises UsageError if no log is found and `is_needed` is set, UnreadableFile.
    """

    def __init__(self, files: ReadOnlyFiles, paths: Iterable[str], report: Report, *, is_needed: bool = True) -> None:
        self._files, self._report = files, report
        replicas: dict[int, list[str]] = {}
        named = list(paths)
        for log_dir in find_log_dirs(files, named):
            for replica in log_dir.partitions():
                if replica.name.topic == REMOTE_LOG_METADATA_TOPIC and not is_unfinished(files, replica.path):
                    replicas.setdefault(replica.name.partition, []).append(replica.path)
        if not replicas and is_needed:
            what = f"no log of {REMOTE_LOG_METADATA_TOPIC} in {', '.join(named)}"
            do = "name the log dirs of all brokers that hold replicas of the topic"
            raise UsageError(what, do)
        self.directories = {
            number: read_best_replica(files, replicas[number], report) for number in sorted(replicas)
        }

    def read(self) -> RemoteLogMetadata:
        """Read and apply all records. Raises UnreadableFile, FileChangedWhileReading."""
        metadata, kinds, rows = RemoteLogMetadata(), bytearray(RECORD_ROWS), bytearray(RECORD_ROWS * REMOTE_ROW_SIZE)
        for number, run in self._runs():
            count = run.end - run.first
            if not decode_values(run.chunk.data, run.chunk.records.table, run.first, run.end, kinds, rows):
                raise AssertionError("a run of records does not fit its columns")
            metadata.apply_rows(
                memoryview(kinds)[:count], memoryview(rows)[: count * REMOTE_ROW_SIZE], number, partial(self._record, run)
            )
        return metadata

    def events(self, metadata: RemoteLogMetadata) -> Iterator[Event]:
        """Read record by record, and apply each to `metadata`. Raises as `read` does."""
        for number, run in self._runs():
            offsets = run.chunk.records.field(RecordField.OFFSET)
            for index in range(run.end - run.first):
                record = self._record(run, index)
                if record is not None:
                    partition = metadata.of(record, number)
                    yield Event(number, offsets[run.first + index], record, partition, partition.apply(record))

    def _runs(self) -> Iterator[tuple[int, Run]]:
        """Yield (partition of the topic, run of records) for all logs."""
        columns = FetchColumns()
        for number, directory in self.directories.items():
            view = PartitionView(self._files, directory, self._report)
            try:
                fetcher = RecordFetcher(
                    view, view.log_start_offset, FetchIsolation.HIGH_WATERMARK, self._report,
                    FetchLimits(only_sound=True), columns=columns,
                )
                for run in fetcher.runs():
                    yield number, run
            finally:
                view.close()

    def _record(self, run: Run, index: int) -> Record | None:
        """Decode the record of a run with that index; None: it cannot be decoded, which is reported."""
        records, column = run.chunk.records.table, run.first + index
        at, size = records[RecordField.VALUE_POSITION, column], records[RecordField.VALUE_SIZE, column]
        try:
            return decode_record(None if size < 0 else bytes(run.chunk.data[at : at + size]))
        except SchemaError as error:
            where = run.chunk.where(column, run.path, run.base)
            self._report(Finding("remote-metadata-undecodable", where, f"the record cannot be decoded: {error}"))
            return None


_BATCH = 16384  # bytes; the default batch.size of a producer


class AppendRecords(Operation):
    """Appends records to logs of the topic.

    command  the name of the command, for reports
    values   of the records, by directory of the log
    """

    for_snapshots = False
    of_partitions = True

    def __init__(self, command: str, values: Mapping[str, Sequence[bytes]]) -> None:
        self.name, self._values = command, values

    def work(self, log: UnifiedLog) -> None:
        """Append to one open log, as its leader does. Raises LogDamaged if readers would not reach the new records."""
        refuse_damaged_end(log)
        values = self._values[log.directory]
        intake = BatchIntake(log, log.leader_epoch_cache.latest_epoch or 0)
        first = log.log_end_offset
        records = (NewRecord(number, log.now, None, value) for number, value in enumerate(values))
        for batch in split(records, BatchSpec(), _BATCH):
            intake.take(bytearray(batch), is_last=True)
        log.flush(force_flush_active_segment=True)
        offsets = (first, log.log_end_offset)
        log.report.add(Action.CREATED, "", "records of remote segments", offsets=offsets, records=len(values))


def append_records(session: Session, command: str, values: Mapping[str, Sequence[bytes]]) -> Iterator[OperationReport]:
    """Append records to logs of the topic in the log dirs of a session. `values`: by directory of the log."""
    return operate_on(session, list(values), AppendRecords(command, values))


def operate_on(session: Session, directories: Sequence[str], operation: Operation) -> Iterator[OperationReport]:
    """Run an operation on logs of the topic in the log dirs of a session."""
    for log_dir in session.log_dirs:
        own = [path for path in directories if parent_of(path) == log_dir.path.rstrip("/")]
        names = [(path, parse_partition_dir(file_name(path))) for path in own]
        replicas = tuple(PartitionPath(path, log_dir.path, name) for path, name in names if name is not None)
        if replicas:
            cluster = replace_in(session.manager.cluster, log_dirs=(LogDir(log_dir.path, False, replicas, (), ()),))
            manager = LogManager(session.manager.files_of, cluster, session.options.settings, session.options.now)
            yield from operate(manager, session.options, operation)
