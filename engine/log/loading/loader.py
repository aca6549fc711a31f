"""Opening a partition as a starting broker opens it: left-overs, segments, recovery, epochs, producers.

Mirrors LogLoader.load and UnifiedLog.create. Where Kafka's loading ends with an exception ours repairs and says so.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import UnreadableFile
from engine.findings import Severity
from engine.layout import file_name
from engine.log.append_errors import AppendRefused
from engine.log.errors import (
    CorruptIndex,
    CorruptRecord,
    IndexFull,
    IndexOffsetOverflow,
    InvalidOffset,
    InvalidTimestamp,
    TransactionOrder,
)
from engine.log.loading.epoch_check import note_epochs
from engine.log.loading.epoch_repair import note_lost_remote_epochs, open_leader_epochs, settle_epochs
from engine.log.loading.notes import note_changes, note_missing
from engine.log.loading.open_segments import load_segment_files
from engine.log.loading.shared import Loading
from engine.log.loading.unflushed import recover_log
from engine.log.offset_metadata import LogOffsetMetadata
from engine.log.partition.local_log import LocalLog, fit_indexes
from engine.log.partition.unified_log import UnifiedLog
from engine.log.producers.loading import rebuild_producer_state
from engine.log.producers.state_manager import ProducerStateManager
from engine.log.report import Action, Report
from engine.log.segment.leftovers import Leftovers
from engine.log.tiering import Starts, Tiering

if TYPE_CHECKING:
    from engine.config import LogConfig
    from engine.files import Files

# what stops a broker and an (unclean) recovery mends
REPAIRABLE = (
    AppendRefused, CorruptIndex, CorruptRecord, IndexFull, IndexOffsetOverflow, InvalidOffset, InvalidTimestamp,
    TransactionOrder,
)  # fmt: skip
_DELETE_DIR = "-delete"


class LoadedLogOffsets(NamedTuple):
    """Where a loaded log begins, from where it is not surely on the disk, and where it ends."""

    log_start_offset: int
    recovery_point: int
    next_offset: LogOffsetMetadata
    is_tiered: bool


def open_log(
    files: Files, directory: str, config: LogConfig, *, now: int, clean_shutdown: bool, recovery_point: int = 0,
    log_start_offset: int = 0, producer_id_expiration_ms: int = 86_400_000, max_transaction_timeout_ms: int = 900_000,
    report: Report | None = None, jobs: int = 1, create: bool = True, for_snapshots: bool = False,
    names: list[str] | None = None, tiering: Tiering = Tiering.UNTIERED, settles_epochs: bool = False,
) -> UnifiedLog:
    """Open the partition in `directory`, making it where there is none, as a broker does at its start.

    clean_shutdown    the broker before stopped cleanly: nothing is recovered but what lacks an index
    recovery_point, log_start_offset   as the log dir's checkpoints have them
    tiering           are older segments in remote storage? Then the log start offset may be below the first segment. If that
                      is unknown, a checkpoint had `log_start_offset`
    report            takes what is done; default: a new one, `UnifiedLog.report`
    jobs              segments that are read side by side
    for_snapshots     nobody is going to append or to read: of producers only what snapshots need is remembered
    names             of the plain files in the directory, who has just listed them
    settles_epochs    leave leader epochs as they stay: Kafka's next start may change what its first one leaves
    create            make the directory; else one that is gone is UnreadableFile: it was there when it was looked for

    What stops a broker is mended: a leader-epoch-checkpoint is made anew, a log that can not be opened as asked for is
    recovered, in the end as a whole. Raises UnreadableFile, UnwritableFile.
    """
    report = Report(directory, "open") if report is None else report
    if not files.exists(directory):
        if not create:
            raise UnreadableFile(f"{directory}: disappeared while it was worked on", path=directory)
        files.make_directory(directory)
    epochs = open_leader_epochs(files, directory, report, tiering)
    ways = [(clean_shutdown, recovery_point), (False, recovery_point), (False, 0)]  # as asked for, then what mends more
    told, stopped_by = len(report.events), None
    for number, (clean, point) in enumerate(ways):
        producers = ProducerStateManager(files, directory, producer_id_expiration_ms=producer_id_expiration_ms,
                                         max_transaction_timeout_ms=max_transaction_timeout_ms, for_snapshots=for_snapshots)
        log = Loading(files, directory, config, now=now, clean_shutdown=clean, recovery_point=point,
                      log_start_offset=log_start_offset, epochs=epochs, producers=producers, report=report, jobs=jobs,
                      in_order=number > 0, names=None if number else names, tiering=tiering, settles_epochs=settles_epochs)
        try:
            return _unified(log)
        except REPAIRABLE as error:
            log.close_handlers()
            if number + 1 == len(ways):
                raise
            report.begin_again(told)
            if str(error) != stopped_by:
                stopped_by = str(error)
                report.add(Action.REBUILT, "", f"a broker would not start: {error}", severity=Severity.WARNING)
        except BaseException:
            log.close_handlers()
            raise
    raise AssertionError("the last way returns or raises")


def _unified(log: Loading) -> UnifiedLog:
    try:
        loaded = _loaded(log)
    finally:
        log.scans.close()
    local_log = LocalLog(
        log.files, log.directory, log.config, log.segments, now=log.now, recovery_point=loaded.recovery_point,
        next_offset=loaded.next_offset, report=log.report, deferred=log.deferred, names=log.names or (),
    )
    return UnifiedLog(loaded.log_start_offset, local_log, log.epochs, log.producers, is_tiered=loaded.is_tiered)


def _loaded(log: Loading) -> LoadedLogOffsets:
    """Do it all. Mirrors LogLoader.load."""
    log.names = names = Leftovers(log.files, log.directory, log.config, log.now, log.report).settle(log.names)
    log.listed = names
    epochs, believed = log.epochs.in_file, log.epochs.entries
    log.retry_on_overflow(partial(load_segment_files, log))
    if log.directory.rstrip("/").endswith(_DELETE_DIR):
        if not len(log.segments):
            log.new_segment(0)
        recovery_point = next_offset = 0
    else:
        recovery_point, next_offset = log.retry_on_overflow(partial(recover_log, log))
        fit_indexes(log.report, log.active)
    log.epochs.truncate_from_end(next_offset)
    first, first_epoch = log.segments.base_offsets[0], next((entry.start_offset for entry in log.epochs.entries), None)
    tiered = Starts(log.log_start_offset, first, first_epoch).are_of_tiered(log.tiering)
    log_start_offset = log.log_start_offset if tiered else max(log.log_start_offset, first)
    log.epochs.truncate_from_start(log.log_start_offset)
    if log.settles_epochs:
        settle_epochs(log, next_offset)
    log.remove_set_aside()
    is_as_listed = log.snapshots is None and not log.report.events
    log.producers.remove_stray_snapshots(log.segments.base_offsets, names if is_as_listed else None)
    rebuild_producer_state(log.producers, log.segments, log_start_offset, next_offset, now=log.now,
                           reload_from_clean_shutdown=log.clean_shutdown)
    note_changes(log, names, epochs, believed)
    note_epochs(log, next_offset, is_contradictory=epochs != believed)
    if tiered:
        note_lost_remote_epochs(log, log_start_offset, first)
    log.names = _without_written(log, names)
    if not log.directory.rstrip("/").endswith(_DELETE_DIR):
        note_missing(log)
    active = log.active
    end = LogOffsetMetadata(next_offset, active.base_offset, active.size)
    return LoadedLogOffsets(log_start_offset, recovery_point, end, tiered)


def _without_written(log: Loading, names: list[str]) -> list[str]:
    """Of the `names` those whose files were not made anew: the old one may be gone for sure, and the new one not there."""
    recovered = set() if log.snapshots is None else log.snapshots.written
    written = {file_name(path) for path in log.producers.written | recovered}
    return [name for name in names if name not in written]
