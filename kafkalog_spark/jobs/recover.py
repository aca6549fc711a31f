"""Recover many partitions in Spark tasks, as `kafkalog recover` does, with its locks, quarantine and checkpoints.

It stands alone, as every job does.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.config.server import ServerConfig, Settings
from engine.files import now_ms
from engine.log.logdir.start_problems import find_start_problems
from engine.log.operations.recover import RecoverOptions, Recovery, finish, prepare, recover_partitions
from engine.log.session import Quarantines
from kafkalog_spark.jobs.upkeep import (
    FAILED,
    Assignment,
    TaskLogManager,
    event_rows,
    events_in,
    frame_of,
    opened,
    run_tasks,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from engine.log.report import Report

_TASK_BYTES = 128 << 20


def recover(
    spark: SparkSession, *paths: str, config: dict[str, str] | None = None, options: RecoverOptions | None = None,
    now: int | None = None, topics: Collection[str] = (),
) -> DataFrame:
    """Recover every partition below `paths`. Returns a table of events.

    The driver and each task write a quarantine of their own next to the log dir; `kafkalog restore` restores them one by one.
    The small files of a log dir are repaired first. A small file that cannot be repaired is reported as refused, and the
    partitions are still recovered. A damaged metadata log stops the job, as it stops the command.

    config   topic settings that override those of the metadata log
    options  see RecoverOptions; mark_clean has no effect
    topics   recover only their partitions, as if these were the paths: the rest of a log dir and its checkpoints stay unchanged
    Raises OptionError; LogDirError, also if a broker runs on one of the log dirs.
    """
    moment = now_ms() if now is None else now
    settings = Settings(ServerConfig(), tuple((config or {}).items()))
    asked = replace(options or RecoverOptions(), mark_clean=False, settings=settings, now=moment)
    recovery = Recovery()
    with opened(paths, asked, topics, Quarantines("recover", moment, of="log-dir")) as job:
        rows = [row for report in prepare(job.manager, asked, recovery) for row in event_rows(report)]
        work = Assignment(asked, partial(_recover, asked), keeps_for="recover")
        of_tasks = run_tasks(spark, job, recovery.partitions, work, _TASK_BYTES)
        _note(recovery, of_tasks)
        rows += of_tasks
        rows += [row for report in finish(job.manager, asked, recovery) for row in event_rows(report)]
    return frame_of(spark, rows)


def _note(recovery: Recovery, rows: list[dict[str, Any]]) -> None:
    """Add the results of the tasks to `recovery`."""
    by_path = {partition.path: partition for partition in recovery.partitions}
    for row in rows:
        recovery.note(by_path[row["directory"]], events_in([row]), is_failed=row["action"] == FAILED)


def _recover(asked: RecoverOptions, manager: TaskLogManager) -> Iterator[Report]:
    """Recover the partitions of a task, which are all in one log dir."""
    [log_dir] = manager.cluster.log_dirs
    problems = find_start_problems(manager.files_of(log_dir.path), manager.cluster)
    for _partition, report in recover_partitions(manager, asked, list(log_dir.directories), problems):
        yield report
