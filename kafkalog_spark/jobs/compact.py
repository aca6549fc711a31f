"""Compact many partitions as tasks, each with the engine's own cleaner: nothing of them passes through Spark.

A partition whose keys do not fit one task's offset map is cleaned by many tasks (see `shuffling`). The driver commits: it puts
new segments in the place of the old ones once all of them are written.
"""

from __future__ import annotations

import logging
import re
import time
from dataclasses import replace
from functools import partial
from secrets import randbits
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from engine.config.server import ServerConfig
from engine.discovery.names import METADATA_TOPIC
from engine.errors import KafkalogError, UnreadableFile
from engine.files import Files, now_ms, remove_tree
from engine.findings import Severity
from engine.log.cleaner.compaction import INSTEAD, METADATA_LOG, CompactionOptions, note_round
from engine.log.cleaner.offset_map import capacity_of
from engine.log.cleaner.pieces import put_planned
from engine.log.cleaner.round_plan import plan_round
from engine.log.logdir.settings import Settings
from engine.log.operations.compact import LogCompactor
from engine.log.operations.operation import OperationOptions, operate, put_marker, take_marker
from engine.log.report import Action, Report
from kafkalog_spark.errors import OptionError, first_sentence
from kafkalog_spark.jobs.shuffling import Unsuited, clean_by_shuffle
from kafkalog_spark.jobs.upkeep import (
    EVENT_TYPES,
    Assignment,
    TaskLogManager,
    event_rows,
    frame_of,
    opened,
    run_here,
    run_tasks,
)
from kafkalog_spark.tasks import packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from engine.log.cleaner.checkpoint import LogToClean
    from engine.log.cleaner.round_plan import RoundPlan
    from engine.log.logdir.log_dirs import LogDir, Place
    from engine.log.partition.unified_log import UnifiedLog
    from kafkalog_spark.jobs.holds import Hold
    from kafkalog_spark.jobs.shuffling import WrittenGroups
    from kafkalog_spark.jobs.upkeep import Job

DEDUPE_BUFFER_SIZE = 96 << 20  # bytes: a broker's 128 MiB would make a worker larger than 300 MB
STAGING = ".kafkalog-compaction"  # in a partition directory, where brokers look for no directories
SHUFFLE = ("auto", "always", "never")
_OTHER_WORDS = {
    "--explain tells": "kafkalog compact --explain tells",
    "--min-dirty-ratio sets another": "--config min.cleanable.dirty.ratio=… sets another",
}
_CANCELLED = re.compile(r"\bJob \d+ cancelled")  # by the user: Spark says so in these words
_LOG = logging.getLogger("kafkalog")
_TASK_BYTES = 64 << 20  # of logs: a partition larger than that has a task of its own


def compact(
    spark: SparkSession, *paths: str, config: dict[str, str] | None = None, options: CompactionOptions | None = None,
    shuffle: str = "auto", clean_start: bool = False, now: int | None = None, topics: Collection[str] = (),
) -> DataFrame:
    """Compact the partitions below `paths` that are due, as `kafkalog compact` would; what was done, as a table of events.

    config   topic settings over those of the metadata log
    options  see CompactionOptions; the buffer is a task's. None: with DEDUPE_BUFFER_SIZE
    shuffle  auto: partitions whose dirty records may not fit the offset map of one task are cleaned by many tasks, which
             shuffle digests of keys: in one round, as with a map that holds them all; always, never
    topics   only their partitions, as if these were the paths
    Raises OptionError, LogDirError, also where a broker runs on one of the log dirs.
    """
    if shuffle not in SHUFFLE:
        raise OptionError(f"shuffle is {shuffle!r}: there are {', '.join(SHUFFLE)}")
    moment = now_ms() if now is None else now
    asked = options or CompactionOptions(dedupe_buffer_size=DEDUPE_BUFFER_SIZE)
    asked = replace(asked, secret=(randbits(64), randbits(64)))
    settings = Settings(ServerConfig(), tuple((config or {}).items()))
    with opened(paths, settings, moment, _plain, topics) as job:
        for place in (place for log_dir in job.log_dirs for place in log_dir.places):  # whether it is due still or not
            _clear_of_dead_job(place)
        chooser = LogCompactor(asked, explain=False, on_bytes=_unsaid, clock=time.perf_counter)
        told = [*_metadata_logs(job), *chooser.choose(job.manager, 1)]
        places = [
            place for log_dir in job.manager.cluster.log_dirs for place in log_dir.places if place.name.topic != METADATA_TOPIC
        ]
        markers = {log_dir: take_marker(job.manager, log_dir) for log_dir in job.log_dirs}
        clean = {log_dir.path for log_dir, marker in markers.items() if clean_start or marker is not None}
        work = Assignment(settings, moment, _plain, partial(_compact, asked, clean, shuffle))
        rows = [dict.fromkeys(EVENT_TYPES) | row for report in told for row in event_rows(report)]
        rows += run_tasks(spark, job, places, work, _TASK_BYTES)
        for place in places:
            if place.path in job.plans:
                rows += _tried(spark, job, place, asked, clean, work)
        for log_dir, marker in markers.items():
            if marker is not None and log_dir.path not in job.half_done:
                put_marker(job.manager, log_dir, marker)
    return frame_of(spark, [row | {"reason": _in_words_of_the_job(str(row["reason"]))} for row in rows])


def _metadata_logs(job: Job) -> Iterator[Report]:
    """Logs of the cluster's metadata that were named themselves: what the command says of them."""
    for place in (place for log_dir in job.log_dirs if not log_dir.is_whole for place in log_dir.places):
        if place.name.topic == METADATA_TOPIC:
            report = Report(place.path, "compact")
            report.add(Action.REFUSED, "", f"not compacted: {METADATA_LOG}; {INSTEAD}")
            yield report


def _in_words_of_the_job(reason: str) -> str:
    """What the command says can be done, where the job has no such option."""
    for option, other in _OTHER_WORDS.items():
        reason = reason.replace(option, other)
    return reason


def _tried(
    spark: SparkSession, job: Job, place: Place, asked: CompactionOptions, clean: set[str], work: Assignment
) -> list[dict[str, Any]]:
    """`_by_shuffle`; where that fails for good, one partition has failed: the others go on."""
    try:
        return _by_shuffle(spark, job, place, asked, clean, work)
    except Exception as error:  # Spark's, of many classes
        if _CANCELLED.search(str(error)):
            raise
        job.half_done.add(place.log_dir)
        report = Report(place.path, "compact")
        report.failure = KafkalogError(f"not compacted: {first_sentence(error)}")
        return [{name: row.get(name) for name in EVENT_TYPES} for row in event_rows(report)]


def _by_shuffle(
    spark: SparkSession, job: Job, place: Place, asked: CompactionOptions, clean: set[str], work: Assignment
) -> list[dict[str, Any]]:
    """Do the round that a task has planned; where that can not be, let one task do it with its offset map."""
    plan: RoundPlan = unpacked(job.plans.pop(place.path))
    files, staging = Files(), f"{place.path}/{STAGING}"
    directory = f"{staging}/{uuid4().hex}"
    try:
        for path in (staging, directory):
            files.make_directory(path)
        check = partial(_check, job.hold, place.log_dir)
        written = clean_by_shuffle(spark, plan, asked.secret, asked.dedupe_buffer_size, directory, check)
    except Unsuited as error:
        _clear(files, staging)
        told = {"directory": place.path, "operation": "compact", "action": Action.EXPLAINED.value, "file": "",
                "reason": f"not by shuffle: {error}", "severity": Severity.INFO.value}  # fmt: skip
        alone = work._replace(operate=partial(_compact, asked, clean, "never"))
        return [dict.fromkeys(EVENT_TYPES) | told, *run_tasks(spark, job, [place], alone, _TASK_BYTES)]
    else:
        return run_here(job, [place], work._replace(operate=partial(_put, plan, written, place.log_dir in clean)))
    finally:
        _clear(files, staging)


def _check(hold: Hold, log_dir: str) -> None:
    hold.check(Files(), log_dir)


def _clear(files: Files, staging: str) -> None:
    """Remove what tasks wrote. An attempt that Spark gave up may still write there: what it leaves the next job removes."""
    try:
        remove_tree(files, staging)
    except KafkalogError as error:
        _LOG.warning("%s is left behind: %s", staging, error)


def _clear_of_dead_job(place: Place) -> None:
    """Remove what a job that died has left; of a directory that nobody may look into the work on it tells."""
    staging = f"{place.path}/{STAGING}"
    try:
        remove_tree(Files(), staging)
    except UnreadableFile as error:
        _LOG.info("%s is not looked for: %s", staging, error)


def _put(plan: RoundPlan, written: WrittenGroups, was_clean: bool, manager: TaskLogManager) -> Iterator[Report]:
    """The commit of a round: new segments take the places of the old ones, as the cleaner's do.

    A task of ours has closed the log, so that nothing is recovered here; after an unclean stop its recovery point stays where
    it was, for nobody has brought the rest of the log to the disk.
    """
    def put(log: UnifiedLog) -> None:
        put_planned(log, plan, written.directories)
        note_round(log, written.stats, plan.first_dirty_offset, plan.first_uncleanable_offset)
        manager.clean_until[log.directory] = plan.first_uncleanable_offset

    errors: list[KafkalogError] = []
    yield from operate(manager, OperationOptions("compact", clean_start=True), put, errors)
    if not was_clean:
        manager.noted.clear()


def _plain(files: Files, _log_dir: LogDir) -> Files:
    return files


def _unsaid(_size: int) -> None:
    """Nobody is told of bytes."""


def _compact(asked: CompactionOptions, clean: set[str], shuffle: str, manager: TaskLogManager) -> Iterator[Report]:
    def note(log: UnifiedLog, offset: int) -> None:
        manager.clean_until[log.directory] = offset

    def hand_over(log: UnifiedLog, target: LogToClean) -> bool:
        first, end = target.offsets.first_dirty_offset, target.first_uncleanable_offset
        if shuffle == "never" or (shuffle == "auto" and end - first <= capacity_of(asked.dedupe_buffer_size)):
            return False
        plan = plan_round(log, first, end)
        if not plan.fits_bits:
            log.report.add(Action.EXPLAINED, "", "not by shuffle: offsets are too far apart for a bit each")
            return False
        manager.plans[log.directory] = packed(plan)
        return True

    errors: list[KafkalogError] = []
    compactor = LogCompactor(
        asked, explain=False, on_bytes=_unsaid, clock=time.perf_counter, on_clean=note, hand_over=hand_over
    )
    how = OperationOptions("compact", all(log_dir.path in clean for log_dir in manager.cluster.log_dirs))
    yield from operate(manager, how, compactor.work, errors)
