"""Recover many partitions as tasks: what `kafkalog recover` does, with its locks, its quarantine and its checkpoints."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.files import Files, now_ms
from engine.log.logdir.log_manager import Settings
from engine.log.operations.operation import put_marker, take_marker
from engine.log.operations.recover import RecoverOptions
from engine.log.operations.recover import recover as recover_logs
from engine.log.quarantine.seam import QuarantiningFiles
from engine.log.report import Action
from engine.server_config import ServerConfig
from kafkalog_spark.jobs.upkeep import FAILED, TaskLogManager, Work, event_rows, finish, frame_of, opened, run_tasks

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from engine.errors import KafkalogError
    from engine.log.logdir.log_dirs import LogDir, Place
    from engine.log.logdir.log_manager import LogManager
    from engine.log.report import Report

_TASK_BYTES = 128 << 20


def recover(
    spark: SparkSession, *paths: str, config: dict[str, str] | None = None, options: RecoverOptions | None = None,
    now: int | None = None,
) -> DataFrame:
    """Recover every partition below `paths`; what was done, as a table of events.

    Each log dir has a quarantine beside it, each task a part of that: `kafkalog restore` takes them one by one. The small
    files of a log dir are mended first; what of them can not be mended is refused, and partitions are recovered all the same. A
    damaged metadata log stops everything, as it does there.
    config   topic settings over those of the metadata log        options  see RecoverOptions; mark_clean has no effect
    Raises LogDirError, also where a broker runs on one of the log dirs.
    """
    moment = now_ms() if now is None else now
    asked = replace(options or RecoverOptions(), mark_clean=False)
    stamp = datetime.fromtimestamp(moment / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    settings = Settings(ServerConfig(), tuple((config or {}).items()))
    errors: list[KafkalogError] = []
    places: list[Place] = []  # none where a damaged metadata log stops us

    def by_tasks(
        _manager: LogManager, _options: RecoverOptions, chosen: list[Place], *_: object
    ) -> Generator[tuple[Place, Report], None, None]:
        places.extend(chosen)
        yield from ()

    with opened(paths, settings, moment, partial(_log_dirs_quarantine, stamp, moment)) as job:
        reports = list(recover_logs(job.manager, asked, errors, each=by_tasks))
        rows = [row for report in reports for row in event_rows(report)]
        work = Work(settings, moment, partial(_quarantined, stamp, moment), partial(_recover, asked))
        named = {place.log_dir for place in places}
        markers = {
            log_dir: take_marker(job.manager, log_dir)
            for log_dir in job.log_dirs if not log_dir.is_whole and log_dir.path in named
        }  # fmt: skip
        rows += run_tasks(spark, job, places, work, _TASK_BYTES)
        for log_dir, marker in markers.items():
            if marker is not None and not _is_wrong(log_dir, rows):
                put_marker(job.manager, log_dir, marker)
        for log_dir in job.log_dirs:
            finish(job.manager.files_of(log_dir.path))
    return frame_of(spark, rows)


def _is_wrong(log_dir: LogDir, rows: list[dict[str, Any]]) -> bool:
    """Do the events of the log dir say that something could not be done, or is still wrong?"""
    return any(
        (row["action"] in (FAILED, Action.REFUSED.value) or (row["action"] == Action.KEPT.value and row["severity"] != "info"))
        for row in rows if f"{row['directory']}/".startswith(f"{log_dir.path}/")
    )  # fmt: skip


def _recover(asked: RecoverOptions, manager: TaskLogManager) -> Iterator[Report]:
    errors: list[KafkalogError] = []
    yield from recover_logs(manager, asked, errors)


def _log_dirs_quarantine(stamp: str, now: int, files: Files, log_dir: LogDir) -> Files:
    return _quarantine(files, files.resolve(log_dir.path), f"{stamp}-log-dir", now)


def _quarantined(stamp: str, now: int, files: Files, log_dir: LogDir, places: list[Place]) -> Files:
    name = f"{places[0].name.topic}-{places[0].name.partition}"
    return _quarantine(files, files.resolve(log_dir.path), f"{stamp}-{name}", now)


def _quarantine(files: Files, log_dir: str, name: str, now: int) -> Files:
    directory, number = f"{log_dir}.quarantine-{name}", 1
    while files.exists(directory):  # an attempt before this one
        number += 1
        directory = f"{log_dir}.quarantine-{name}-{number}"
    return QuarantiningFiles(files, directory, command="recover", now=now, log_dirs=(log_dir,))
