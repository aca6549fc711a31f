"""Compact many partitions in Spark tasks, with the engine's cleaner: no record passes through Spark.

A partition is compacted by one task, in several rounds if its keys do not fit in the offset map.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from secrets import randbits
from typing import TYPE_CHECKING

from engine.config.server import ServerConfig, Settings
from engine.discovery.names import METADATA_TOPIC
from engine.files import now_ms
from engine.log.cleaner.compaction import INSTEAD, METADATA_LOG, CompactionOptions
from engine.log.logdir.log_manager import remove_marker, write_marker
from engine.log.operations.compact import Compact
from engine.log.operations.operation import operate
from engine.log.report import Action, Report
from engine.log.session import OpenOptions
from kafkalog_spark.jobs.upkeep import (
    EVENT_TYPES,
    Assignment,
    TaskLogManager,
    event_rows,
    frame_of,
    opened,
    run_tasks,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from engine.log.partition.unified_log import UnifiedLog
    from kafkalog_spark.jobs.upkeep import Job

DEDUPE_BUFFER_SIZE = 96 << 20  # bytes: with a broker's 128 MiB a worker would need more than 300 MB
_OPTIONS_OF_JOB = {
    "--explain shows why": "kafkalog compact --explain shows why",
    "--min-dirty-ratio sets another": "--config min.cleanable.dirty.ratio=… sets another",
}
_TASK_BYTES = 64 << 20  # bytes of logs in a task: a larger partition has a task of its own


def compact(
    spark: SparkSession, *paths: str, config: dict[str, str] | None = None, options: CompactionOptions | None = None,
    clean_start: bool = False, now: int | None = None, topics: Collection[str] = (),
) -> DataFrame:
    """Compact the partitions below `paths` that are due, as `kafkalog compact` does. Returns a table of events.

    config   topic settings that override those of the metadata log
    options  see CompactionOptions; each task has its own buffer. None: with DEDUPE_BUFFER_SIZE
    topics   compact only their partitions, as if these were the paths
    Raises OptionError; LogDirError, also if a broker runs on one of the log dirs.
    """
    moment = now_ms() if now is None else now
    asked = options or CompactionOptions(dedupe_buffer_size=DEDUPE_BUFFER_SIZE)
    asked = replace(asked, secret=(randbits(64), randbits(64)))
    how = OpenOptions(settings=Settings(ServerConfig(), tuple((config or {}).items())), now=moment)
    with opened(paths, how, topics) as job:
        chooser = Compact(asked, explain=False, on_bytes=_ignore, clock=time.perf_counter)
        reported = [*_metadata_logs(job), *chooser.choose(job.manager, 1)]
        partitions = [
            partition for log_dir in job.manager.cluster.log_dirs for partition in log_dir.directories
            if partition.name.topic != METADATA_TOPIC
        ]
        markers = {log_dir: remove_marker(job.manager, log_dir) for log_dir in job.log_dirs}
        clean = {log_dir.path for log_dir, marker in markers.items() if clean_start or marker is not None}
        work = Assignment(how, partial(_compact, asked, how, clean))
        rows = [dict.fromkeys(EVENT_TYPES) | row for report in reported for row in event_rows(report)]
        rows += run_tasks(spark, job, partitions, work, _TASK_BYTES)
        for log_dir, marker in markers.items():
            if marker is not None and log_dir.path not in job.half_done:
                write_marker(job.manager, log_dir, marker)
    return frame_of(spark, [row | {"reason": _replace_options(str(row["reason"]))} for row in rows])


def _metadata_logs(job: Job) -> Iterator[Report]:
    """Report metadata logs that are named directly as refused, as the command does."""
    for partition in (partition for log_dir in job.log_dirs if not log_dir.is_whole for partition in log_dir.directories):
        if partition.name.topic == METADATA_TOPIC:
            report = Report(partition.path, "compact")
            report.add(Action.REFUSED, "", f"not compacted: {METADATA_LOG}; {INSTEAD}")
            yield report


def _replace_options(reason: str) -> str:
    """Replace advice that names an option which the job does not have."""
    for option, other in _OPTIONS_OF_JOB.items():
        reason = reason.replace(option, other)
    return reason


def _ignore(_size: int) -> None:
    """Ignore the number of bytes."""


def _compact(asked: CompactionOptions, options: OpenOptions, clean: set[str], manager: TaskLogManager) -> Iterator[Report]:
    def note(log: UnifiedLog, offset: int) -> None:
        manager.clean_until[log.directory] = offset

    compactor = Compact(asked, explain=False, on_bytes=_ignore, clock=time.perf_counter, on_clean=note)
    how = replace(options, clean_start=all(log_dir.path in clean for log_dir in manager.cluster.log_dirs))
    yield from operate(manager, how, compactor)
