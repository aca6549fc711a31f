"""Shared code of the jobs that change logs: locks and checkpoints on the driver, partitions in tasks.

The driver holds the locks of all log dirs while tasks run, does the work on log dirs as a whole, and writes the checkpoints
from the results of the tasks. A task applies the engine's operations to whole partitions, and only while its job runs: see
`holds`.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from engine.discovery.names import PartitionKind, file_name
from engine.discovery.patterns import expand
from engine.errors import KafkalogError
from engine.files import Files
from engine.findings import Severity
from engine.log.logdir.log_dirs import LogDir, PartitionPath, find_log_dirs, refuse_other_owner
from engine.log.logdir.log_manager import CheckpointOffsets, LogManager
from engine.log.operations.operation import LEFT_ALONE, note
from engine.log.report import Action
from engine.log.session import Quarantines, session
from kafkalog_spark.errors import LogDirError, OptionError
from kafkalog_spark.jobs.job_locks import JobLock, hold_log_dirs, lock_partition
from kafkalog_spark.table.columns import rows_as_batches
from kafkalog_spark.table.partitions import check_utf8, log_size
from kafkalog_spark.table.places import local_path
from kafkalog_spark.table.planning import Piece, pack
from kafkalog_spark.tasks import run

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from engine.log.logdir.startup import Cluster
    from engine.log.report import Report
    from engine.log.session import OpenOptions

    Operate = Callable[["TaskLogManager"], Iterator[Report]]

EVENT_TYPES: dict[str, pa.DataType] = {
    "directory": pa.string(), "operation": pa.string(), "action": pa.string(), "code": pa.string(), "file": pa.string(),
    "reason": pa.string(),
    "firstOffset": pa.int64(), "endOffset": pa.int64(), "records": pa.int64(), "bytes": pa.int64(), "severity": pa.string(),
    "exitStatus": pa.int32(),
}  # fmt: skip
_NOTE_TYPES = EVENT_TYPES | {
    "firstBaseOffset": pa.int64(), "logStartOffset": pa.int64(), "recoveryPoint": pa.int64(),
    "cleanUntil": pa.int64(), "leftAlone": pa.bool_(),
}  # fmt: skip
_SCHEMA = pa.schema(list(_NOTE_TYPES.items()))
FAILED = "failed"  # action of a row that says why the work on a log failed
FOUND = "found"  # action of a row with a finding, which is not an event
_MAX_SIMILAR = 1000  # most rows of a log with the same action, code and severity
OFFSETS_LEFT = "offsets_left"  # action of a row with the final offsets of a log: for the driver, not for the user


class TaskLogManager(LogManager):
    """The log manager in a task. It does not write checkpoints, but notes the offsets for the driver."""

    def __init__(self, *values: Any) -> None:
        super().__init__(*values)
        self.noted: dict[PartitionPath, CheckpointOffsets] = {}
        self.clean_until: dict[str, int] = {}  # partition directory → offset

    def checkpoint(self, log_dir: LogDir, offsets_left: Mapping[PartitionPath, CheckpointOffsets]) -> None:  # noqa: ARG002  # one was given to us
        """Note the offsets that the driver will write."""
        self.noted.update(offsets_left)

    checkpoint_log_starts = checkpoint


class Assignment(NamedTuple):
    """The operation that tasks apply to partitions.

    keeps_for  command whose quarantine keeps copies of what is changed; None: no quarantine
    """

    options: OpenOptions
    operate: Operate
    keeps_for: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """Locked log dirs, with the driver's log manager.

    hold       the lock that tasks check
    half_done  log dirs in which the work on a log failed midway
    """

    log_dirs: list[LogDir]
    manager: LogManager
    hold: JobLock
    half_done: set[str] = field(default_factory=set)

    @property
    def cluster(self) -> Cluster:
        """Identities and metadata log, which the driver has read, and the log dirs without their partitions and files."""
        bare = (replace(log_dir, directories=(), foreign=(), files=()) for log_dir in self.log_dirs)
        return replace(self.manager.cluster, log_dirs=tuple(bare))


@contextmanager
def opened(
    paths: Sequence[str], options: OpenOptions, topics: Collection[str] = (), quarantines: Quarantines | None = None
) -> Iterator[Job]:
    """Lock the log dirs below `paths`; at the end finish their quarantines.

    topics  only partitions of these, as if they were the paths (see LogDir); empty: all
    Raises LogDirError, also if a broker runs; OptionError for a topic that does not exist.
    """
    files = Files()
    try:
        found = check_utf8(find_log_dirs(files, [one for path in paths for one in expand(files, local_path(str(path)))]))
        found = _narrowed(found, topics) if topics else found
        log_dirs = [log_dir for log_dir in found if log_dir.directories or not topics]
        named = [log_dir.path for log_dir in log_dirs]
        refuse_other_owner(files, (*named, *(partition.path for log_dir in log_dirs for partition in log_dir.directories)))
        # topic settings may also come from the metadata log in a log dir without partitions of these topics
        with session(files, log_dirs, options, quarantines, around=found) as logs, hold_log_dirs(files, named) as hold:
            try:
                logs.dirs.begin()
                yield Job(log_dirs, logs.manager, hold)
            finally:
                logs.dirs.finish()
                for error in logs.dirs.errors:  # overrides other errors: `restore` needs a finished quarantine
                    raise error
    except KafkalogError as error:
        raise LogDirError(str(error)) from None


def _narrowed(log_dirs: list[LogDir], topics: Collection[str]) -> list[LogDir]:
    """Return the log dirs with only the partitions of `topics`, without those marked for deletion. Raises OptionError."""
    narrowed = []
    for log_dir in log_dirs:
        partitions = log_dir.partitions(PartitionKind.PLAIN, PartitionKind.FUTURE) if log_dir.is_whole else log_dir.directories
        narrowed.append(LogDir(log_dir.path, False, tuple(one for one in partitions if one.name.topic in topics), (), ()))
    there = {partition.name.topic for log_dir in narrowed for partition in log_dir.directories}
    if missing := sorted(set(topics) - there):
        raise OptionError(f"no such topic: {', '.join(missing)}")
    return narrowed


def pieces_of(partitions: Iterable[PartitionPath]) -> list[Piece]:
    """Return partitions as pieces with the bytes of their logs: 0 if they cannot be read, which the task then reports."""
    files = Files()
    return [Piece(partition.path, partition.log_dir, 0, 0, 0, log_size(files, partition.path)) for partition in partitions]


def run_tasks(
    spark: SparkSession, job: Job, partitions: list[PartitionPath], work: Assignment, split_bytes: int
) -> list[dict[str, Any]]:
    """Run the operation on all partitions in tasks, then write the checkpoints of their log dirs. Returns the events as rows.

    Raises LogDirError, and the error of Spark if a task fails for good: then no checkpoint is written.
    """
    by_path = {partition.path: partition for partition in partitions}
    splits = [[by_path[piece.directory] for piece in split] for split in pack(pieces_of(partitions), split_bytes)]

    def task(own: list[PartitionPath]) -> Iterator[pa.RecordBatch]:
        try:
            yield from rows_as_batches(_rows(own, work, cluster, hold), _SCHEMA)
        except KafkalogError as error:  # an error of the log dir; the failure of one log is a row
            raise LogDirError(str(error)) from None

    cluster, hold = job.cluster, job.hold
    if not partitions:
        return []
    found = run(spark, splits, _SCHEMA, task).collect()  # Spark's iterator would run only two tasks at a time
    return _apply_results(job, by_path, (row.asDict() for row in found))


def _apply_results(job: Job, by_path: dict[str, PartitionPath], found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events among the rows of the tasks, and write the final offsets in the other rows to the checkpoints."""
    rows: list[dict[str, Any]] = []
    offsets_left: dict[str, dict[PartitionPath, CheckpointOffsets]] = {}
    clean: dict[str, dict[str, int]] = {}
    try:
        for row in found:
            if row["action"] != OFFSETS_LEFT:
                rows.append({name: row.get(name) for name in EVENT_TYPES})
                if row["action"] == FAILED and not row["leftAlone"]:
                    job.half_done.add(by_path[row["directory"]].log_dir)
                continue
            partition = by_path[row["directory"]]
            if row.get("recoveryPoint") is not None:
                left = CheckpointOffsets(row["firstBaseOffset"], row["logStartOffset"], row["recoveryPoint"])
                offsets_left.setdefault(partition.log_dir, {})[partition] = left
            if row.get("cleanUntil") is not None:
                clean.setdefault(partition.log_dir, {})[partition.path] = row["cleanUntil"]
    finally:
        _checkpoint(job, offsets_left, clean)
    return rows


def _checkpoint(
    job: Job, offsets_left: dict[str, dict[PartitionPath, CheckpointOffsets]], clean: dict[str, dict[str, int]]
) -> None:
    """Write the checkpoints of each log dir. The path of a partition need not begin with that of its log dir."""
    from engine.log.cleaner.checkpoint import write_clean_offsets

    for log_dir in job.log_dirs:
        files = job.manager.files_of(log_dir.path)
        if log_dir.path in offsets_left:
            note(job.manager, log_dir, offsets_left[log_dir.path])
        write_clean_offsets(files, clean.get(log_dir.path, {}))


def _rows(partitions: list[PartitionPath], work: Assignment, cluster: Cluster, hold: JobLock) -> Iterator[dict[str, Any]]:
    """Do the work of one task, log dir by log dir."""
    files = Files()
    for log_dir in cluster.log_dirs:
        own = [partition for partition in partitions if partition.log_dir == log_dir.path]
        if not own:
            continue
        refuse_other_owner(files, (log_dir.path, *(partition.path for partition in own)))
        with ExitStack() as stack:
            for partition in own:
                lock = lock_partition(files, log_dir.path, partition.path)
                stack.callback(lock.release)
            hold.check(files, log_dir.path)  # after the wait for the locks
            part, task_files = replace(log_dir, directories=tuple(own)), files
            if work.keeps_for is not None:
                quarantines = Quarantines(work.keeps_for, work.options.now, of=file_name(own[0].path))
                task_files = quarantines.begin(files, log_dir.path)
                stack.callback(_finish, quarantines)

            def files_of(path: str, task_files: Files = task_files) -> Files:
                hold.check(files, path)  # operations call files_of first for each log
                return task_files

            manager = TaskLogManager(files_of, replace(cluster, log_dirs=(part,)), work.options.settings, work.options.now)
            for report in work.operate(manager):
                yield from _limit_similar(event_rows(report))
            yield from _offset_rows(manager)


def _finish(quarantines: Quarantines) -> None:
    """Finish the quarantines, and raise the first error."""
    for error in quarantines.finish():
        raise error


def _offset_rows(manager: TaskLogManager) -> Iterator[dict[str, Any]]:
    for partition, left in manager.noted.items():
        yield {
            "directory": partition.path, "action": OFFSETS_LEFT, "firstBaseOffset": left.first_base_offset,
            "logStartOffset": left.log_start_offset, "recoveryPoint": left.recovery_point,
        }  # fmt: skip
    for directory, offset in manager.clean_until.items():
        yield {"directory": directory, "action": OFFSETS_LEFT, "cleanUntil": offset}


def event_rows(report: Report) -> Iterator[dict[str, Any]]:
    """Return the events, findings and failure of a report as rows."""
    same = {"directory": report.directory, "operation": report.operation}
    for event in report.events:
        yield same | {
            "action": event.action.value, "file": event.path, "reason": event.reason, "firstOffset": event.first_offset,
            "endOffset": event.end_offset, "records": event.records, "bytes": event.size, "severity": event.severity.value,
        }  # fmt: skip
    for finding in report.findings:
        file = finding.where.file.removeprefix(f"{report.directory}/")  # relative, as in events
        yield same | {"action": FOUND, "code": finding.code, "file": file, "reason": finding.what,
                      "firstOffset": finding.where.offset, "severity": finding.severity.value}  # fmt: skip
    if report.failure is not None:
        yield same | {
            "action": FAILED, "code": report.failure.code, "file": "", "reason": str(report.failure), "severity": "error",
            "exitStatus": report.failure.exit_status, "leftAlone": isinstance(report.failure, LEFT_ALONE),
        }  # fmt: skip


def _limit_similar(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the first _MAX_SIMILAR rows of each kind, then one row that sums up the others: all rows must fit in the driver."""
    counts: Counter[tuple[str, str | None, str]] = Counter()
    more: dict[tuple[str, str | None, str], dict[str, Any]] = {}
    for row in rows:
        kind = row["action"], row.get("code"), row["severity"]
        counts[kind] += 1
        if counts[kind] <= _MAX_SIMILAR:
            yield row
            continue
        rest = more.setdefault(kind, {name: row.get(name) for name in ("directory", "operation", "action", "code", "severity")})
        for name in ("records", "bytes"):
            if row.get(name) is not None:
                rest[name] = rest.get(name, 0) + row[name]
    for kind, rest in more.items():
        yield rest | {"file": "", "reason": f"{counts[kind] - _MAX_SIMILAR} more of these"}


def events_in(rows: Iterable[Any]) -> Iterator[tuple[Action, Severity]]:
    """Yield action and severity of the events among the rows, without rows of failures and findings."""
    for row in rows:
        if row["action"] not in (FAILED, FOUND):
            yield Action(row["action"]), Severity(row["severity"])


def frame_of(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    """Return events as a data frame with the columns EVENT_TYPES."""
    from kafkalog_spark.schema import ddl_of

    schema = pa.schema(list(EVENT_TYPES.items()))
    return spark.createDataFrame([tuple(row.get(name) for name in EVENT_TYPES) for row in rows], ddl_of(schema))
