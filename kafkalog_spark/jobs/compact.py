"""Compact many partitions as tasks, each with the engine's own cleaner: nothing of them passes through Spark."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from secrets import randbits
from typing import TYPE_CHECKING

from engine.files import Files, now_ms
from engine.log.cleaner.compaction import CompactionOptions
from engine.log.logdir.log_manager import Settings
from engine.log.operations.compact import LogCompactor
from engine.log.operations.operation import OperationOptions, operate
from engine.server_config import ServerConfig
from kafkalog_spark.jobs.upkeep import TaskLogManager, Work, frame_of, opened, run_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from engine.errors import KafkalogError
    from engine.log.logdir.log_dirs import LogDir, Place
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.report import Report

_TASK_BYTES = 64 << 20  # of logs: a partition larger than that has a task of its own


def compact(
    spark: SparkSession, *paths: str, config: dict[str, str] | None = None, options: CompactionOptions | None = None,
    clean_start: bool = False, now: int | None = None,
) -> DataFrame:
    """Compact the partitions below `paths` that are due, as `kafkalog compact` would; what was done, as a table of events.

    config   topic settings over those of the metadata log        options  see CompactionOptions; the buffer is a task's
    Raises LogDirError, also where a broker runs on one of the log dirs.
    """
    moment = now_ms() if now is None else now
    asked = options or CompactionOptions()
    asked = replace(asked, secret=(randbits(64), randbits(64)))
    settings = Settings(ServerConfig(), tuple((config or {}).items()))
    with opened(paths, settings, moment, lambda files, _log_dir: files) as job:
        chooser = LogCompactor(asked, explain=False, on_bytes=_unsaid, clock=time.perf_counter)
        chooser.choose(job.manager, 1)
        places = [place for log_dir in job.manager.cluster.log_dirs for place in log_dir.places]
        how = OperationOptions("compact", clean_start)
        work = Work(settings, moment, _plain, partial(_compact, asked, how))
        rows = run_tasks(spark, job, places, work, _TASK_BYTES)
    return frame_of(spark, rows)


def _plain(files: Files, _log_dir: LogDir, _places: list[Place]) -> Files:
    return files


def _unsaid(_size: int) -> None:
    """Nobody is told of bytes."""


def _compact(asked: CompactionOptions, how: OperationOptions, manager: TaskLogManager) -> Iterator[Report]:
    def note(log: UnifiedLog, offset: int) -> None:
        manager.clean_until[log.directory] = offset

    errors: list[KafkalogError] = []
    compactor = LogCompactor(asked, explain=False, on_bytes=_unsaid, clock=time.perf_counter, on_clean=note)
    yield from operate(manager, how, compactor.work, errors)
