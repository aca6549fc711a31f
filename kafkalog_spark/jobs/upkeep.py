"""Recover and compact the log dirs of many brokers: one task for each broker, which does what the command does.

A task locks `.lock` of its log dirs, as the commands do. So neither a broker nor another attempt of the task can work there
meanwhile, whatever Spark starts twice or gives up.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from secrets import randbits
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from engine.arrow.rows import rows_as_batches
from engine.config.server import ServerConfig, Settings
from engine.discovery.names import PartitionKind
from engine.discovery.patterns import expand
from engine.errors import KafkalogError, LogDirLocked
from engine.files import Files, now_ms
from engine.findings import Severity
from engine.log.cleaner.compaction import CompactionOptions
from engine.log.logdir.log_dirs import LogDir, find_log_dirs, locked, refuse_other_owner
from engine.log.logdir.startup import by_broker
from engine.log.operations.compact import Compact
from engine.log.operations.operation import operate
from engine.log.operations.recover import RecoverOptions
from engine.log.operations.recover import recover as recover_logs
from engine.log.session import OpenOptions, Quarantines, Session, session
from kafkalog_spark.errors import OptionError, as_log_dir_errors
from kafkalog_spark.table.partitions import check_utf8
from kafkalog_spark.table.places import local_path
from kafkalog_spark.tasks import run

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from engine.log.report import Report

    Operate = Callable[[Session], Iterator[Report]]

DEDUPE_BUFFER_SIZE = 96 << 20  # bytes: with a broker's 128 MiB a worker would need more than 300 MB
EVENT_TYPES: dict[str, pa.DataType] = {
    "directory": pa.string(), "operation": pa.string(), "action": pa.string(), "code": pa.string(), "file": pa.string(),
    "reason": pa.string(),
    "firstOffset": pa.int64(), "endOffset": pa.int64(), "records": pa.int64(), "bytes": pa.int64(), "severity": pa.string(),
    "exitStatus": pa.int32(),
}  # fmt: skip
_SCHEMA = pa.schema(list(EVENT_TYPES.items()))
FAILED = "failed"  # action of a row that says why the work on a log failed
FOUND = "found"  # action of a row with a finding, which is not an event
_MAX_SIMILAR = 1000  # most rows of a log with the same action, code and severity
_PATIENCE = 600.0  # seconds to wait for another attempt at the same log dirs
_AGAIN = 0.2  # seconds between two tries
_GRACE = 2.0  # seconds for Spark to kill the later one of two attempts


class Assignment(NamedTuple):
    """The work of all tasks.

    topics      only partitions of these, as if they were the paths; empty: all
    quarantine  command whose quarantines keep what is changed; None: nothing is kept
    """

    options: OpenOptions
    topics: Collection[str]
    operate: Operate
    quarantine: str | None = None


def recover(
    spark: SparkSession, *paths: str, config: dict[str, str] | None = None, options: RecoverOptions | None = None,
    now: int | None = None, topics: Collection[str] = (),
) -> DataFrame:
    """Recover every partition below `paths`, as `kafkalog recover` does. Returns a table of events.

    config   topic settings that override those of the metadata log
    options  see RecoverOptions
    now      ms since 1970; None: the clock of this machine
    topics   recover only their partitions, as if these were the paths: the rest of a log dir and its checkpoints stay unchanged
    Raises OptionError; LogDirError, also if a broker runs on one of the log dirs.
    """
    moment = now_ms() if now is None else now
    settings = Settings(ServerConfig(), tuple((config or {}).items()))
    asked = replace(options or RecoverOptions(), settings=settings, now=moment, jobs=_cores(spark))
    return _on_brokers(spark, paths, Assignment(asked, topics, partial(_recover, asked), "recover"))


def compact(
    spark: SparkSession, *paths: str, config: dict[str, str] | None = None, options: CompactionOptions | None = None,
    clean_start: bool = False, now: int | None = None, topics: Collection[str] = (),
) -> DataFrame:
    """Compact the partitions below `paths` that are due, as `kafkalog compact` does. Returns a table of events.

    options  see CompactionOptions; each task has its own buffer. None: with DEDUPE_BUFFER_SIZE
    config, now, topics  as for `recover`
    Raises OptionError; LogDirError, also if a broker runs on one of the log dirs.
    """
    settings = Settings(ServerConfig(), tuple((config or {}).items()))
    opening = OpenOptions(
        settings=settings, now=now_ms() if now is None else now, clean_start=clean_start, jobs=_cores(spark)
    )
    asked = options or CompactionOptions(dedupe_buffer_size=DEDUPE_BUFFER_SIZE)
    asked = replace(asked, secret=(randbits(64), randbits(64)))
    return _on_brokers(spark, paths, Assignment(opening, topics, partial(_compact, asked)))


def _cores(spark: SparkSession | None) -> int:
    """Return the number of cores that Spark gives to a task: as many partitions are worked on at a time."""
    return 1 if spark is None else int(spark.conf.get("spark.task.cpus", "1") or 1)


def _recover(asked: RecoverOptions, logs: Session) -> Iterator[Report]:
    yield from recover_logs(logs.manager, asked)


def _compact(asked: CompactionOptions, logs: Session) -> Iterator[Report]:
    compactor = Compact(asked, explain=False, on_bytes=lambda _size: None, clock=time.perf_counter)
    yield from compactor.choose(logs.manager, logs.options.jobs)
    yield from operate(logs.manager, logs.options, compactor)


def _on_brokers(spark: SparkSession, paths: Sequence[str], work: Assignment) -> DataFrame:
    """Do the work in tasks, and return their rows. No task starts if a broker runs on one of the log dirs."""
    files = Files()
    with as_log_dir_errors():
        found = check_utf8(find_log_dirs(files, [one for path in paths for one in expand(files, local_path(str(path)))]))
        groups = [(_named(group), work) for group in by_broker(files, found)]
        log_dirs = _narrowed(found, work.topics)
        _refuse_others(files, log_dirs)
        with locked(files, [one.path for one in log_dirs], _directories(log_dirs)):
            pass  # each task locks again what it works on
    rows = run(spark, [[group] for group in groups], _SCHEMA, task).collect()  # at once, and never again
    return frame_of(spark, [row.asDict() for row in rows])


def _named(log_dirs: list[LogDir]) -> list[str]:
    """Return the paths by which a task finds the log dirs again: an attempt may have removed directories before."""
    return [path for one in log_dirs for path in ([one.path] if one.is_whole else _directories([one]))]


def _directories(log_dirs: Iterable[LogDir]) -> list[str]:
    return [partition.path for log_dir in log_dirs for partition in log_dir.directories]


def _narrowed(log_dirs: list[LogDir], topics: Collection[str], *, is_known: bool = False) -> list[LogDir]:
    """Return the log dirs with only the partitions of `topics`, without those marked for deletion; all, if there are no topics.

    is_known  the topics exist, perhaps elsewhere. Otherwise raises OptionError for one that does not.
    """
    if not topics:
        return log_dirs
    narrowed = []
    for log_dir in log_dirs:
        partitions = log_dir.partitions(PartitionKind.PLAIN, PartitionKind.FUTURE) if log_dir.is_whole else log_dir.directories
        narrowed.append(LogDir(log_dir.path, False, tuple(one for one in partitions if one.name.topic in topics), (), ()))
    there = {partition.name.topic for log_dir in narrowed for partition in log_dir.directories}
    if not is_known and (missing := sorted(set(topics) - there)):
        raise OptionError(f"no such topic: {', '.join(missing)}")
    return [log_dir for log_dir in narrowed if log_dir.directories]


def _refuse_others(files: Files, log_dirs: list[LogDir]) -> None:
    """Raise NotAllowed if this process runs as root and one of the directories belongs to another user."""
    refuse_other_owner(files, (*(one.path for one in log_dirs), *_directories(log_dirs)))


def task(groups: list[tuple[list[str], Assignment]]) -> Iterator[pa.RecordBatch]:
    """Do the work on the log dirs of one broker. An error is a row, so that the results for other brokers are not lost."""
    for paths, work in groups:
        yield from rows_as_batches(_rows(paths, work), _SCHEMA)


def _rows(paths: list[str], work: Assignment) -> Iterator[dict[str, Any]]:
    try:
        yield from _reported(paths, work)
    except KafkalogError as error:
        yield _failure(error) | {"directory": paths[0]}


def _reported(paths: list[str], work: Assignment) -> Iterator[dict[str, Any]]:
    files = Files()
    around = find_log_dirs(files, paths)
    log_dirs = _narrowed(around, work.topics, is_known=True)
    _refuse_others(files, log_dirs)
    if not log_dirs:
        return
    quarantines = None if work.quarantine is None else Quarantines(work.quarantine, work.options.now)
    with ExitStack() as stack:
        logs = _opened(stack, lambda: session(files, log_dirs, work.options, quarantines, around=around))
        for report in logs.run(work.operate):
            yield from _limit_similar(event_rows(report))
        logs.dirs.finish()
        for error in logs.dirs.errors:  # overrides other errors: `restore` needs a finished quarantine
            raise error


def _opened(stack: ExitStack, begin: Callable[[], Any]) -> Session:
    """Open the log dirs. Waits for another attempt at them, which Spark may have lost or started twice.

    A failure without waiting would use up the four attempts of a task within a second. Raises LogDirLocked after _PATIENCE.
    """
    until = time.monotonic() + _PATIENCE
    has_waited = False
    while True:
        try:
            logs: Session = stack.enter_context(begin())
        except LogDirLocked:
            if time.monotonic() >= until:
                raise
            has_waited = True
            time.sleep(_AGAIN)
        else:
            if has_waited:  # if the other attempt succeeded, Spark kills this one now; if it died, this one does the work
                time.sleep(_GRACE)
            return logs


def event_rows(report: Report) -> Iterator[dict[str, Any]]:
    """Return the events, findings and failure of a report as rows."""
    same = {"directory": report.directory, "operation": report.operation}
    for event in report.events:
        yield same | {
            "action": event.action.value, "file": event.path, "reason": event.reason,
            "firstOffset": event.first_offset, "endOffset": event.end_offset, "records": event.records, "bytes": event.size,
            "severity": event.severity.value,
        }  # fmt: skip
    for finding in report.findings:
        file = finding.where.file.removeprefix(f"{report.directory}/")  # relative, as in events
        yield same | {"action": FOUND, "code": finding.code, "file": file, "reason": finding.what,
                      "firstOffset": finding.where.offset, "severity": finding.severity.value}  # fmt: skip
    if report.failure is not None:
        yield same | _failure(report.failure)


def _failure(error: KafkalogError) -> dict[str, Any]:
    return {"action": FAILED, "code": error.code, "file": "", "reason": str(error), "severity": Severity.ERROR.value,
            "exitStatus": error.exit_status}  # fmt: skip


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


def frame_of(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    """Return events as a data frame with the columns EVENT_TYPES."""
    from kafkalog_spark.schema import ddl_of

    return spark.createDataFrame([tuple(row.get(name) for name in EVENT_TYPES) for row in rows], ddl_of(_SCHEMA))
