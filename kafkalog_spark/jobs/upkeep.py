"""What jobs that change logs share: locks and checkpoints on the driver, partitions as tasks.

The driver holds the locks of all log dirs while tasks work, does what concerns a log dir as a whole, and writes the
checkpoints from what the tasks say. A task works on whole partitions, by the engine's own operations, and never without the
job: see `holds`.
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
from kafkalog_spark.jobs.holds import JobLock, held, own_lock
from kafkalog_spark.table.columns import rows_as_batches
from kafkalog_spark.table.partitions import check_utf8, log_size
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
FAILED = "failed"  # why a log was not worked on to the end
FOUND = "found"  # a finding besides: no event of the command either
_OF_A_KIND = 1000  # rows of a log with the same action and severity
OFFSETS_LEFT = "offsets_left"  # how a log was left: for the driver, not for the user


class TaskLogManager(LogManager):
    """A manager within a task: checkpoints of the log dir are not written but noted, for the driver."""

    def __init__(self, *values: Any) -> None:
        super().__init__(*values)
        self.noted: dict[PartitionPath, CheckpointOffsets] = {}
        self.clean_until: dict[str, int] = {}  # partition directory → offset

    def checkpoint(self, log_dir: LogDir, offsets_left: Mapping[PartitionPath, CheckpointOffsets]) -> None:  # noqa: ARG002  # one was given to us
        """Keep what the driver will write."""
        self.noted.update(offsets_left)

    checkpoint_log_starts = checkpoint


class Assignment(NamedTuple):
    """What tasks do to partitions, and what they need to know for it.

    keeps_for  the command whose quarantine keeps what is changed; None: nothing is kept
    """

    options: OpenOptions
    operate: Operate
    keeps_for: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """Log dirs that are locked, with the driver's manager.

    hold   what tasks need for their work
    half_done  log dirs in which something failed in the middle
    """

    log_dirs: list[LogDir]
    manager: LogManager
    hold: JobLock
    half_done: set[str] = field(default_factory=set)

    @property
    def cluster(self) -> Cluster:
        """Identities and the metadata log, which were read once, and the log dirs without what is in them."""
        bare = (replace(log_dir, places=(), foreign=(), files=()) for log_dir in self.log_dirs)
        return replace(self.manager.cluster, log_dirs=tuple(bare))


@contextmanager
def opened(
    paths: Sequence[str], options: OpenOptions, topics: Collection[str] = (), quarantines: Quarantines | None = None
) -> Iterator[Job]:
    """Lock the log dirs below `paths`, and finish their quarantines in the end.

    topics  only partitions of these, as if they had been named themselves (see LogDir); none: all
    Raises LogDirError, also where a broker runs, and OptionError for a topic that is not there.
    """
    files = Files()
    try:
        found = check_utf8(find_log_dirs(files, [one for path in paths for one in expand(files, str(path))]))
        found = _narrowed(found, topics) if topics else found
        log_dirs = [log_dir for log_dir in found if log_dir.places or not topics]
        named, places = [log_dir.path for log_dir in log_dirs], [place.path for one in log_dirs for place in one.places]
        refuse_other_owner(files, (*named, *places))
        # settings of topics also come from log dirs where none of their partitions is
        with session(files, log_dirs, options, quarantines, around=found) as logs, held(files, named) as hold:
            try:
                logs.dirs.begin()
                yield Job(log_dirs, logs.manager, hold)
            finally:
                logs.dirs.finish()
                for error in logs.dirs.errors:  # whatever else failed: restoring asks how things were left
                    raise error
    except KafkalogError as error:
        raise LogDirError(str(error)) from None


def _narrowed(log_dirs: list[LogDir], topics: Collection[str]) -> list[LogDir]:
    """The log dirs with nothing but partitions of `topics`; of whole ones not those that are deleted. Raises OptionError."""
    narrowed = []
    for log_dir in log_dirs:
        places = log_dir.partitions(PartitionKind.PLAIN, PartitionKind.FUTURE) if log_dir.is_whole else log_dir.places
        narrowed.append(LogDir(log_dir.path, False, tuple(one for one in places if one.name.topic in topics), (), ()))
    there = {place.name.topic for log_dir in narrowed for place in log_dir.places}
    if missing := sorted(set(topics) - there):
        raise OptionError(f"no such topic: {', '.join(missing)}")
    return narrowed


def pieces_of(places: Iterable[PartitionPath]) -> list[Piece]:
    """Partitions as pieces, with the bytes of their logs, as far as those can be read: else the task reports why not."""
    files = Files()
    return [Piece(place.path, place.log_dir, 0, 0, 0, log_size(files, place.path)) for place in places]


def run_tasks(
    spark: SparkSession, job: Job, places: list[PartitionPath], work: Assignment, split_bytes: int
) -> list[dict[str, Any]]:
    """Do the work on all `places`; the events as rows. The checkpoints of their log dirs are written in the end.

    Raises LogDirError, and what Spark raises where a task fails for good: then no checkpoint has the others.
    """
    by_path = {place.path: place for place in places}
    splits = [[by_path[piece.directory] for piece in split] for split in pack(pieces_of(places), split_bytes)]

    def task(mine: list[PartitionPath]) -> Iterator[pa.RecordBatch]:
        try:
            yield from rows_as_batches(_rows(mine, work, cluster, hold), _SCHEMA)
        except KafkalogError as error:  # what concerns one log is a row; this concerns its log dir
            raise LogDirError(str(error)) from None

    cluster, hold = job.cluster, job.hold
    if not places:
        return []
    found = run(spark, splits, _SCHEMA, task).collect()  # an iterator of Spark's would run them two by two
    return _taken(job, by_path, (row.asDict() for row in found))


def _taken(job: Job, by_path: dict[str, PartitionPath], found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events among the rows that tasks found; the state of the logs is written to the checkpoints."""
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
            place = by_path[row["directory"]]
            if row.get("recoveryPoint") is not None:
                left = CheckpointOffsets(row["firstBaseOffset"], row["logStartOffset"], row["recoveryPoint"])
                offsets_left.setdefault(place.log_dir, {})[place] = left
            if row.get("cleanUntil") is not None:
                clean.setdefault(place.log_dir, {})[place.path] = row["cleanUntil"]
    finally:
        _checkpoint(job, offsets_left, clean)
    return rows


def _checkpoint(
    job: Job, offsets_left: dict[str, dict[PartitionPath, CheckpointOffsets]], clean: dict[str, dict[str, int]]
) -> None:
    """Write what is known by log dir; a partition may be spelled in another way than the log dir around it."""
    from engine.log.cleaner.checkpoint import write_clean_offsets

    for log_dir in job.log_dirs:
        files = job.manager.files_of(log_dir.path)
        if log_dir.path in offsets_left:
            note(job.manager, log_dir, offsets_left[log_dir.path])
        write_clean_offsets(files, clean.get(log_dir.path, {}))


def _rows(places: list[PartitionPath], work: Assignment, cluster: Cluster, hold: JobLock) -> Iterator[dict[str, Any]]:
    """The work of one task, log dir by log dir."""
    files = Files()
    for log_dir in cluster.log_dirs:
        mine = [place for place in places if place.log_dir == log_dir.path]
        if not mine:
            continue
        refuse_other_owner(files, (log_dir.path, *(place.path for place in mine)))
        with ExitStack() as stack:
            for place in mine:
                lock = own_lock(files, log_dir.path, place.path)
                stack.callback(lock.release)
            hold.check(files, log_dir.path)  # after the wait for the locks
            part, seam = replace(log_dir, places=tuple(mine)), files
            if work.keeps_for is not None:
                kept = Quarantines(work.keeps_for, work.options.now, of=file_name(mine[0].path))
                seam = kept.begin(files, log_dir.path)
                stack.callback(_finish, kept)

            def files_of(path: str, seam: Files = seam) -> Files:
                hold.check(files, path)  # whatever is done to a log begins with this
                return seam

            manager = TaskLogManager(files_of, replace(cluster, log_dirs=(part,)), work.options.settings, work.options.now)
            for report in work.operate(manager):
                yield from _first_of_each(event_rows(report))
            yield from _offset_rows(manager)


def _finish(quarantines: Quarantines) -> None:
    """Raise the first reason why a quarantine could not be finished."""
    for error in quarantines.finish():
        raise error


def _offset_rows(manager: TaskLogManager) -> Iterator[dict[str, Any]]:
    for place, left in manager.noted.items():
        yield {
            "directory": place.path, "action": OFFSETS_LEFT, "firstBaseOffset": left.first_base_offset,
            "logStartOffset": left.log_start_offset, "recoveryPoint": left.recovery_point,
        }  # fmt: skip
    for directory, offset in manager.clean_until.items():
        yield {"directory": directory, "action": OFFSETS_LEFT, "cleanUntil": offset}


def event_rows(report: Report) -> Iterator[dict[str, Any]]:
    """The events of a report, its findings and its failure, as rows."""
    same = {"directory": report.directory, "operation": report.operation}
    for event in report.events:
        yield same | {
            "action": event.action.value, "file": event.path, "reason": event.reason, "firstOffset": event.first_offset,
            "endOffset": event.end_offset, "records": event.records, "bytes": event.size, "severity": event.severity.value,
        }  # fmt: skip
    for finding in report.findings:
        file = finding.where.file.removeprefix(f"{report.directory}/")  # as events have it
        yield same | {"action": FOUND, "code": finding.code, "file": file, "reason": finding.what,
                      "firstOffset": finding.where.offset, "severity": finding.severity.value}  # fmt: skip
    if report.failure is not None:
        yield same | {
            "action": FAILED, "code": report.failure.code, "file": "", "reason": str(report.failure), "severity": "error",
            "exitStatus": report.failure.exit_status, "leftAlone": isinstance(report.failure, LEFT_ALONE),
        }  # fmt: skip


def _first_of_each(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The first rows of each kind, and in one row what was left out: the driver takes those of all tasks at once."""
    counts: Counter[tuple[str, str | None, str]] = Counter()
    more: dict[tuple[str, str | None, str], dict[str, Any]] = {}
    for row in rows:
        kind = row["action"], row.get("code"), row["severity"]
        counts[kind] += 1
        if counts[kind] <= _OF_A_KIND:
            yield row
            continue
        rest = more.setdefault(kind, {name: row.get(name) for name in ("directory", "operation", "action", "code", "severity")})
        for name in ("records", "bytes"):
            if row.get(name) is not None:
                rest[name] = rest.get(name, 0) + row[name]
    for kind, rest in more.items():
        yield rest | {"file": "", "reason": f"{counts[kind] - _OF_A_KIND} more of these"}


def events_in(rows: Iterable[Any]) -> Iterator[tuple[Action, Severity]]:
    """What the events among such rows were, and how bad: rows of failures and findings are left out."""
    for row in rows:
        if row["action"] not in (FAILED, FOUND):
            yield Action(row["action"]), Severity(row["severity"])


def frame_of(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    """Events as a table."""
    from kafkalog_spark.schema import ddl_of

    schema = pa.schema(list(EVENT_TYPES.items()))
    return spark.createDataFrame([tuple(row.get(name) for name in EVENT_TYPES) for row in rows], ddl_of(schema))
