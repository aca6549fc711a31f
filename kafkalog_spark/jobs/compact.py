"""Compact many partitions as tasks, each with the engine's own cleaner: nothing of them passes through Spark."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from secrets import randbits
from typing import TYPE_CHECKING, Any

from engine.files import Files, now_ms
from engine.log.cleaner.compaction import CompactionOptions
from engine.log.logdir.cluster_metadata import METADATA_TOPIC
from engine.log.logdir.log_manager import Settings
from engine.log.operations.compact import LogCompactor
from engine.log.operations.operation import OperationOptions, operate, put_marker, take_marker
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
        places = [
            place for log_dir in job.manager.cluster.log_dirs for place in log_dir.places if place.name.topic != METADATA_TOPIC
        ]
        markers = {log_dir: take_marker(job.manager, log_dir) for log_dir in job.log_dirs}
        clean = {log_dir.path for log_dir, marker in markers.items() if clean_start or marker is not None}
        rows = run_tasks(spark, job, places, Work(settings, moment, _plain, partial(_compact, asked, clean)), _TASK_BYTES)
        for log_dir, marker in markers.items():
            if marker is not None and not _failed(log_dir, rows):
                put_marker(job.manager, log_dir, marker)
    return frame_of(spark, rows)


def _plain(files: Files, _log_dir: LogDir, _places: list[Place]) -> Files:
    return files


def _unsaid(_size: int) -> None:
    """Nobody is told of bytes."""


def _failed(log_dir: LogDir, rows: list[dict[str, Any]]) -> bool:
    return any(row["action"] == "failed" and row["directory"].startswith(log_dir.path + "/") for row in rows)


def _compact(asked: CompactionOptions, clean: set[str], manager: TaskLogManager) -> Iterator[Report]:
    def note(log: UnifiedLog, offset: int) -> None:
        manager.clean_until[log.directory] = offset

    errors: list[KafkalogError] = []
    compactor = LogCompactor(asked, explain=False, on_bytes=_unsaid, clock=time.perf_counter, on_clean=note)
    how = OperationOptions("compact", all(log_dir.path in clean for log_dir in manager.cluster.log_dirs))
    yield from operate(manager, how, compactor.work, errors)
