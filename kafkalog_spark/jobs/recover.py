"""Recover many partitions as tasks: what `kafkalog recover` does, with its locks, its quarantine and its checkpoints.

It stands alone, as every job does.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.config.server import ServerConfig, Settings
from engine.files import now_ms
from engine.log.logdir.startup import find_start_problems
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
    """Recover every partition below `paths`; what was done, as a table of events.

    Each log dir has a quarantine beside it, each task a part of that: `kafkalog restore` takes them one by one. The small
    files of a log dir are mended first; what of them cannot be mended is refused, and partitions are recovered all the same. A
    damaged metadata log stops everything, as it does there.
    config   topic settings over those of the metadata log        options  see RecoverOptions; mark_clean has no effect
    topics   only their partitions, as if these were the paths: what else is in a log dir stays as it is, its checkpoints too
    Raises OptionError, LogDirError, also where a broker runs on one of the log dirs.
    """
    moment = now_ms() if now is None else now
    settings = Settings(ServerConfig(), tuple((config or {}).items()))
    asked = replace(options or RecoverOptions(), mark_clean=False, settings=settings, now=moment)
    recovery = Recovery()
    with opened(paths, asked, topics, Quarantines("recover", moment, of="log-dir")) as job:
        rows = [row for report in prepare(job.manager, asked, recovery) for row in event_rows(report)]
        work = Assignment(asked, partial(_recover, asked), keeps_for="recover")
        of_tasks = run_tasks(spark, job, recovery.places, work, _TASK_BYTES)
        _note(recovery, of_tasks)
        rows += of_tasks
        rows += [row for report in finish(job.manager, asked, recovery) for row in event_rows(report)]
    return frame_of(spark, rows)


def _note(recovery: Recovery, rows: list[dict[str, Any]]) -> None:
    """Keep what the rows of tasks say about the log dirs of their partitions."""
    by_path = {place.path: place for place in recovery.places}
    for row in rows:
        recovery.note(by_path[row["directory"]], events_in([row]), is_failed=row["action"] == FAILED)


def _recover(asked: RecoverOptions, manager: TaskLogManager) -> Iterator[Report]:
    """The partitions of a task, all in one log dir."""
    [log_dir] = manager.cluster.log_dirs
    problems = find_start_problems(manager.files_of(log_dir.path), manager.cluster)
    for _place, report in recover_partitions(manager, asked, list(log_dir.places), problems):
        yield report
