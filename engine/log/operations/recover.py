"""Recovering log dirs as a whole, in the order that loses nothing: look, prove the metadata log, mend, then load.

With an overlay for `files_of` the same happens in memory: what is said is what a real run will do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import KafkalogError, UsageError
from engine.files import replace
from engine.findings import Severity
from engine.layout import FileKind, PartitionKind
from engine.log.logdir.cluster_metadata import METADATA_TOPIC
from engine.log.logdir.log_manager import Standing
from engine.log.logdir.startup import Effect, foresee
from engine.log.operations.kafka07 import refuse_offsets_07
from engine.log.operations.mending import mend
from engine.log.operations.salvage import salvage
from engine.log.report import Action, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.log.logdir.log_dirs import LogDir, Place
    from engine.log.logdir.log_manager import LogManager
    from engine.log.logdir.startup import Trouble

OPERATION = "recover"


@dataclass(frozen=True, slots=True)
class RecoverOptions:
    """How to recover.

    recovery_point, log_start_offset  of every log; None: as the checkpoints of its log dir say
    mark_clean    leave a clean shutdown marker in each log dir whose logs are all proven, from their beginning
    """

    clean_start: bool = False
    recovery_point: int | None = None
    log_start_offset: int | None = None
    keep_deleted: bool = False
    salvage: bool = False
    accept_metadata_loss: bool = False
    mark_clean: bool = False
    jobs: int = 1


def recover(
    manager: LogManager, options: RecoverOptions, errors: list[KafkalogError],
    progress: Callable[[Place], object] | None = None,
) -> Iterator[Report]:
    """Recover everything in the manager's log dirs, and report as it goes. `progress` is called behind each partition.

    What can not be done goes to `errors`, and the next partition follows. A damaged metadata log stops everything.
    Log dirs that were named as a whole also get their small files mended and their checkpoints written.
    """
    troubles = foresee(manager.files_of(manager.cluster.log_dirs[0].path), manager.cluster)
    losses = [trouble for trouble in troubles if trouble.effect is Effect.LOSES_TOPICS]
    if losses and not options.accept_metadata_loss:
        for trouble in losses:
            yield _refusal(trouble)
        return
    places = [place for log_dir in manager.cluster.log_dirs for place in _order(log_dir)]
    by_place = {place: [one for one in troubles if one.path.startswith(place.path + "/")] for place in places}
    of_places = {id(trouble) for found in by_place.values() for trouble in found}
    tripped: set[str] = set()  # log dirs that a broker still trips over
    for log_dir in manager.cluster.log_dirs:
        report = Report(log_dir.path, OPERATION)
        own = [trouble for trouble in troubles if trouble.log_dir == log_dir.path and id(trouble) not in of_places]
        if not _mend_all(manager, own, report):
            tripped.add(log_dir.path)
        if log_dir.is_whole:
            _forget_clean_shutdown(manager, log_dir)
        if report.events:
            yield report
    standing: dict[Place, Standing] = {}
    failed: set[str] = set()

    def mend_place(place: Place, report: Report) -> None:
        if not _mend_all(manager, by_place[place], report):
            tripped.add(place.log_dir)

    for place, partition in _each(manager, options, places, standing, errors, mend_place):
        if partition is None:
            failed.add(place.log_dir)
        else:
            yield partition
        if progress is not None:
            progress(place)
    for log_dir in manager.cluster.log_dirs:
        if log_dir.is_whole:
            yield from _finish(manager, options, log_dir, standing, log_dir.path in failed, log_dir.path in tripped)


def _order(log_dir: LogDir) -> list[Place]:
    """The partitions to load, the metadata log first. Deleted and stray ones are nobody's any more."""
    places = log_dir.partitions(PartitionKind.PLAIN, PartitionKind.FUTURE)
    if not log_dir.is_whole:
        places = list(log_dir.places)
    return sorted(places, key=lambda place: place.name.topic != METADATA_TOPIC)


def _refusal(trouble: Trouble) -> Report:
    report = Report(trouble.log_dir, OPERATION)
    report.add(Action.REFUSED, trouble.name, f"{trouble.effect.value}: {trouble.said} - {trouble.what}; {trouble.do}",
               severity=Severity.ERROR)
    return report


def _mend_all(manager: LogManager, troubles: list[Trouble], report: Report) -> bool:
    mended = True
    for trouble in troubles:
        if trouble.effect is Effect.LOSES_TOPICS:
            continue  # accepted; recovering the metadata log says what goes
        mended &= mend(manager.files_of(trouble.log_dir), manager.cluster, trouble, report)
    return mended


def _forget_clean_shutdown(manager: LogManager, log_dir: LogDir) -> None:
    """From here on the directory is no longer as a broker left it."""
    files, path = manager.files_of(log_dir.path), f"{log_dir.path}/{FileKind.CLEAN_SHUTDOWN.value}"
    if files.exists(path):
        files.remove(path)
        files.sync_directory(log_dir.path)


def _each(
    manager: LogManager, options: RecoverOptions, places: list[Place], standing: dict[Place, Standing],
    errors: list[KafkalogError], prepare: Callable[[Place, Report], object],
) -> Iterator[tuple[Place, Report | None]]:
    """Recover partitions, several at a time, and report in the order of `places`. None: it could not be done."""
    segment_jobs = options.jobs if len(places) == 1 else 1

    def work(place: Place) -> Report | KafkalogError:
        try:
            if manager.is_07(place):
                return _one_07(manager, options, place)
            report, standing[place] = _one(manager, options, place, segment_jobs, prepare)
        except KafkalogError as error:
            return error
        return report

    if options.jobs <= 1 or len(places) <= 1:
        results: Iterator[Report | KafkalogError] = map(work, places)
        yield from _told(places, results, errors)
        return
    from concurrent.futures import ThreadPoolExecutor  # it takes a while to load

    pool = ThreadPoolExecutor(options.jobs, thread_name_prefix="kafkalog-recover")
    try:
        yield from _told(places, pool.map(work, places), errors)
    finally:
        pool.shutdown(cancel_futures=True)


def _told(
    places: list[Place], results: Iterator[Report | KafkalogError], errors: list[KafkalogError],
) -> Iterator[tuple[Place, Report | None]]:
    for place, result in zip(places, results, strict=True):
        if isinstance(result, KafkalogError):
            errors.append(result)
            yield place, None
        else:
            yield place, result


def _one(
    manager: LogManager, options: RecoverOptions, place: Place, jobs: int, prepare: Callable[[Place, Report], object]
) -> tuple[Report, Standing]:
    report = Report(place.path, OPERATION)
    prepare(place, report)
    files = manager.files_of(place.log_dir)
    if options.salvage:
        salvage(files, place.path, report)
    log = manager.load(
        place, report, clean_start=options.clean_start,
        recovery_point=0 if options.mark_clean else options.recovery_point,
        log_start_offset=options.log_start_offset, jobs=jobs,
    )
    try:
        if options.mark_clean:
            log.flush(force_flush_active_segment=True)
        standing = Standing.of(log)
    except BaseException:
        log.close_handlers()
        raise
    log.close(keep_deleted=options.keep_deleted)
    return report, standing


def _one_07(manager: LogManager, options: RecoverOptions, place: Place) -> Report:
    """A log of 0.7. Its offsets are places in its files: no byte can go from between others."""
    refuse_offsets_07(place, options.recovery_point, options.log_start_offset)
    if options.salvage:
        what = f"{place.path}: a log of Kafka 0.7, whose offsets are the places of its bytes: damage can not be taken out of it"
        raise UsageError(what, do="leave --salvage out")
    report = Report(place.path, OPERATION)
    manager.load_07(place, report, clean_start=options.clean_start and not options.mark_clean).close()
    return report


def _is_of_07(manager: LogManager, log_dir: LogDir) -> bool:
    """Are all logs in the log dir of Kafka 0.7? Those that can not be looked into are not."""
    try:
        return bool(log_dir.places) and all(manager.is_07(place) for place in log_dir.places)
    except KafkalogError:
        return False


def _finish(
    manager: LogManager, options: RecoverOptions, log_dir: LogDir, standing: dict[Place, Standing], failed: bool,
    tripped: bool,
) -> Iterator[Report]:
    if not _is_of_07(manager, log_dir):  # which has no checkpoints
        manager.checkpoint(log_dir, {place: one for place, one in standing.items() if place.log_dir == log_dir.path})
    if not options.mark_clean:
        return
    report = Report(log_dir.path, OPERATION)
    name = FileKind.CLEAN_SHUTDOWN.value
    if failed or tripped or options.clean_start:
        why = ("a partition could not be recovered" if failed else "a broker still trips over what is named above" if tripped
               else "with --clean-start nothing is proven")
        report.add(Action.REFUSED, name, f"the log dir is not marked as cleanly stopped: {why}", severity=Severity.ERROR)
    else:
        # empty: the controller is told no broker epoch, and so nothing false (KIP-966)
        replace(manager.files_of(log_dir.path), f"{log_dir.path}/{name}", [b""])
        report.add(Action.CREATED, name, "every log is proven: a broker skips its recovery")
    yield report
