"""Opening a partition as a starting broker opens it: leftover files, segments, recovery, epochs, producers.

Mirrors LogLoader.load and UnifiedLog.create. Where Kafka's loading ends with an exception ours repairs and says so.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import (
    DELETED,
    FileKind,
    file_name,
    log_file_name,
    offset_index_file_name,
    offset_of,
    time_index_file_name,
)
from engine.errors import UnreadableFile
from engine.findings import Severity
from engine.formats import LONG_MAX, OFFSET_INDEX_ENTRY
from engine.log.append_errors import AppendRefused
from engine.log.errors import (
    CorruptIndex,
    CorruptRecord,
    IndexFull,
    IndexOffsetOverflow,
    InvalidOffset,
    InvalidTimestamp,
    OffsetIndexMissing,
    TransactionOrder,
)
from engine.log.loading.epoch_repair import note_doubts, note_epochs, note_lost_remote_epochs, open_leader_epochs, repair_epochs
from engine.log.loading.leftovers import Leftovers
from engine.log.loading.notes import ALONE, NO_INDEX, note_changes, note_kept, note_missing, note_torn_tail
from engine.log.loading.recovery import recover_segment
from engine.log.loading.shared import Loading, LoadOptions
from engine.log.partition.local_log import LocalLog, fit_indexes
from engine.log.partition.unified_log import UnifiedLog
from engine.log.producers.loading import delete_producer_snapshots, rebuild_producer_state
from engine.log.producers.state_manager import ProducerStateManager
from engine.log.report import Action, Report
from engine.log.segment.log_segments import LogOffsetMetadata
from engine.log.segment.segment_files import Partition
from engine.log.tiering import Starts
from engine.record.windows import MAX_BATCH_BYTES

if TYPE_CHECKING:
    from engine.config.topic import LogConfig
    from engine.files import Files
    from engine.log.segment.extent import Extent
    from engine.log.segment.log_segment import LogSegment

_LOG, _SNAPSHOT = FileKind.LOG.value, FileKind.PRODUCER_SNAPSHOT.value
_INDEXES = (FileKind.OFFSET_INDEX.value, FileKind.TIME_INDEX.value, FileKind.TRANSACTION_INDEX.value)
_FIRST_ENTRY = 16  # bytes that hold it, whatever the index: zeros in a new one


def recover_log(log: Loading) -> tuple[int, int]:
    """Recover what may not have reached the disk; (recovery point, log end offset)."""
    is_read = not log.clean_shutdown and _recover_unflushed(log)
    log_end_offset = _end_unless_below_start(log)
    if not len(log.segments):
        log.new_segment(log.log_start_offset)
    if not is_read and log_end_offset is not None and log.segments.size:
        log.report.unread_below = log_end_offset
    if log.clean_shutdown and log_end_offset is not None:
        note_torn_tail(log)
        return log_end_offset, log_end_offset
    if log_end_offset is None:
        log_end_offset = log.active.read_next_offset()
    return min(log.recovery_point, log_end_offset), log_end_offset


def _recover_unflushed(log: Loading) -> bool:
    """Recover from the segment that holds the recovery point on; the first that loses bytes ends the log. False: none does."""
    # Kafka leaves out one that begins at 2^63 − 1, and all of them where that is the recovery point
    unflushed = [] if log.recovery_point == LONG_MAX else log.segments.values(log.recovery_point)
    note_kept(log, unflushed[0].base_offset if unflushed else LONG_MAX)
    if unflushed and unflushed[0].base_offset > log.segments.base_offsets[0]:
        log.report.unread_below = unflushed[0].base_offset
    log.scans.expect(unflushed)
    lost: dict[int, Extent] = {}
    for number, segment in enumerate(unflushed):
        scan = log.scans.take(segment)
        mark = partial(_mark, log, unflushed, number + 1, lost)
        if recover_segment(log, segment, scan, damage_ends_it=True, before_cut=mark):
            log.scans.close()
            after = unflushed[number + 1 :]
            _remove_segments(log, after, f"after the damage in {log_file_name(segment.base_offset)}", Severity.ERROR, lost)
            log.remove_set_aside()
            delete_producer_snapshots(after, log.producers, log.deferred)
            return True
    return bool(unflushed)


def _mark(log: Loading, segments: list[LogSegment], first: int, lost: dict[int, Extent]) -> None:
    """Mark the segments from the one numbered `first` on as deleted: a crash in between must not bring them back.

    lost  takes, by base offset, what those held that are not there any more then: pieces of a segment that was split
    """
    for segment in segments[first:]:
        if log.deferred.goes_at_once(segment):
            lost[segment.base_offset] = segment.extent()
    log.deferred.mark_segments(segments[first:], newest_first=True)


def _end_unless_below_start(log: Loading) -> int | None:
    """The log end offset; None where there is no segment, or all are removed as they end below the log start."""
    if not len(log.segments):
        return None
    end = log.active.read_next_offset()
    if end >= log.log_start_offset:
        return end
    _remove_segments(log, list(log.segments), f"the log ends at {end}, below its start {log.log_start_offset}",
                     Severity.ERROR if any(segment.size for segment in log.segments) else Severity.WARNING)
    log.epochs.clear_and_flush()
    log.producers.truncate_fully_and_start_at(log.log_start_offset)
    return None


def _remove_segments(
    log: Loading, segments: list[LogSegment], reason: str, severity: Severity, known: dict[int, Extent] | None = None
) -> None:
    for segment in segments:
        log.segments.remove(segment.base_offset)
        extent = (known or {}).get(segment.base_offset) or segment.extent()  # reads all of it: these records are lost
        extent.note(log.report, Action.REMOVED, log_file_name(segment.base_offset), reason, severity=severity)
    log.deferred.mark_segments(segments, newest_first=True)


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


_DEFAULTS = LoadOptions()


def open_log(
    files: Files, directory: str, config: LogConfig, *, now: int, clean_shutdown: bool, options: LoadOptions = _DEFAULTS,
    report: Report | None = None, names: list[str] | None = None,
) -> UnifiedLog:
    """Open the partition in `directory` as a broker does at its start.

    clean_shutdown    the broker before stopped cleanly: nothing is recovered but what lacks an index
    report            takes what is done; default: a new one, `UnifiedLog.report`
    names             of the plain files in the directory, who has just listed them

    What stops a broker is mended: a leader-epoch-checkpoint is rebuilt, a log that cannot be opened as asked for is
    recovered, in the end as a whole. Raises UnreadableFile, UnwritableFile.
    """
    report = Report(directory, "open") if report is None else report
    if not files.exists(directory):
        if not options.creates:
            raise UnreadableFile(f"{directory}: disappeared during the operation", path=directory)
        files.make_directory(directory)
    epochs = open_leader_epochs(files, directory, report, options.tiering)
    epochs.refuses_doubtful = options.refuses_doubtful_epochs
    point = options.recovery_point or 0
    ways = [(clean_shutdown, point), (False, point), (False, 0)]  # as asked for, then what mends more
    reported, stopped_by = len(report.events), None
    for number, (clean, start) in enumerate(ways):
        producers = ProducerStateManager(
            files, directory, producer_id_expiration_ms=options.producer_id_expiration_ms,
            max_transaction_timeout_ms=options.max_transaction_timeout_ms, for_snapshots=options.for_snapshots,
        )
        log = Loading(
            Partition(files, directory, config, now), replace(options, recovery_point=start), report, epochs, producers,
            clean_shutdown=clean, in_order=number > 0, names=None if number else names,
        )
        try:
            return _unified(log)
        except REPAIRABLE as error:
            log.close_handlers()
            if number + 1 == len(ways):
                raise
            report.begin_again(reported)
            if str(error) != stopped_by:
                stopped_by = str(error)
                report.add(Action.REBUILT, "", f"a broker would not start: {error}", severity=Severity.WARNING)
        except BaseException:
            log.close_handlers()
            raise
    raise AssertionError("the last branch returns or raises")


def _unified(log: Loading) -> UnifiedLog:
    try:
        loaded = _loaded(log)
    finally:
        log.scans.close()
    local_log = LocalLog(
        log.partition, log.segments, log.report, recovery_point=loaded.recovery_point, next_offset=loaded.next_offset,
        deferred=log.deferred, names=log.names or (),
    )
    return UnifiedLog(loaded.log_start_offset, local_log, log.epochs, log.producers, is_tiered=loaded.is_tiered)


def _loaded(log: Loading) -> LoadedLogOffsets:
    """Do it all. Mirrors LogLoader.load."""
    leftovers = Leftovers(log.files, log.directory, log.config, log.now, log.report, log_start_offset=log.log_start_offset,
                          policy=log.policy)
    log.names = names = leftovers.resolve(log.names)
    log.listed = names
    epochs, trusted = log.epochs.in_file, log.epochs.entries
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
        repair_epochs(log, next_offset)
    log.remove_set_aside()
    is_as_listed = log.snapshots is None and not log.report.events
    log.producers.remove_stray_snapshots(log.segments.base_offsets, names if is_as_listed else None)
    rebuild_producer_state(log.producers, log.segments, log_start_offset, next_offset, now=log.now,
                           reload_from_clean_shutdown=log.clean_shutdown)
    note_doubts(log)
    note_changes(log, names, epochs, trusted)
    note_epochs(log, next_offset, is_contradictory=epochs != trusted)
    if tiered:
        note_lost_remote_epochs(log, log_start_offset, first)
    log.names = _without_written(log, names)
    if not log.directory.rstrip("/").endswith(_DELETE_DIR):
        note_missing(log)
    active = log.active
    end = LogOffsetMetadata(next_offset, active.base_offset, active.size)
    return LoadedLogOffsets(log_start_offset, recovery_point, end, tiered)


def _without_written(log: Loading, names: list[str]) -> list[str]:
    """Of the `names` those whose files were not rebuilt: the old one may surely be deleted, and the new one missing."""
    recovered = set() if log.snapshots is None else log.snapshots.written
    written = {file_name(path) for path in log.producers.written | recovered}
    return [name for name in names if name not in written]


def load_segment_files(log: Loading) -> None:
    """Open every `.log`, recovering those without an offset index or with a corrupt index."""
    log.segments.close()
    log.segments.clear()
    names, log.listed = log.listed or log.files.plain(log.directory), []
    there, log.unloaded = set(names), names
    removed = {event.path for event in log.report.find(Action.REMOVED)}
    opened = _expect_scans(log, names, there)
    last = max((name for name in names if name.endswith(_LOG)), default="")  # after a clean stop only its indexes are opened
    for name in names:
        is_index = name.endswith(_INDEXES)
        if _stands_beside_its_log(name, there) if is_index else not name.endswith((_LOG, _SNAPSHOT)):
            continue
        offset = offset_of(name)
        if offset is None:
            _report_without_offset(log, name)
        elif name.endswith(_SNAPSHOT):
            continue
        elif is_index:
            _remove_orphan(log, name, offset, there, removed)
        else:
            segment = opened.get(offset) or log.open_segment(offset, there)
            _load_segment(log, segment, there, checks_sizes=not log.clean_shutdown or name == last)
    log.unloaded = []


def _expect_scans(log: Loading, names: list[str], there: set[str]) -> dict[int, LogSegment]:
    """Open the segments without an offset index, which will be recovered, and begin to scan them; by base offset."""
    bases = [offset for name in names if name.endswith(_LOG) and (offset := offset_of(name)) is not None
             and name == log_file_name(offset) and offset_index_file_name(offset) not in there]
    opened = {base: log.open_segment(base, there) for base in bases if not _waits(log, base)}
    log.scans.expect(opened.values())
    return opened


def _waits(log: Loading, base_offset: int) -> bool:
    """Is this segment left to the recovery that follows?"""
    return log.in_order and not log.clean_shutdown and base_offset >= log.recovery_point


def _report_without_offset(log: Loading, name: str) -> None:
    log.report.add(Action.KEPT, name, "its name contains no offset: a broker does not start with this file here",
                   severity=Severity.WARNING)


def _remove_orphan(log: Loading, name: str, offset: int, there: set[str], removed: set[str]) -> None:
    its_log = log_file_name(offset)
    if its_log not in there and not log.files.exists(log.path(its_log)):
        with log.files.open(log.path(name)) as file:
            has_entries = _is_entry(name, file.read(0, _FIRST_ENTRY))
        log.files.remove(log.path(name))
        reason = ALONE if has_entries and its_log + DELETED not in removed else "an index without a log"
        log.report.add(Action.REMOVED, name, reason, severity=Severity.WARNING)


def _load_segment(log: Loading, segment: LogSegment, there: set[str], *, checks_sizes: bool) -> None:
    has_offset_index = offset_index_file_name(segment.base_offset) in there
    has_time_index = time_index_file_name(segment.base_offset) in there
    try:
        segment.sanity_check(time_index_newly_created=not has_time_index, has_offset_index=has_offset_index)
        if checks_sizes:
            segment.refuse_large_indexes()
        if segment.base_offset in log.unsplittable:  # its recovery was given up; its index is a part only
            _recover_while_loading(log, segment, "its offsets do not fit its index (more than 2^31 - 1 after the base offset) "
                                                 "(more than 2^31 - 1 after the base offset)")
    except OffsetIndexMissing:
        if segment.size:
            _recover_while_loading(log, segment, NO_INDEX)
        else:  # as every roll leaves it
            _recover_while_loading(log, segment, "it is empty and has no offset index", Severity.INFO)
    except CorruptIndex as error:
        _recover_while_loading(log, segment, f"an index is corrupt: {error}")
    log.segments.add(segment)


def _recover_while_loading(log: Loading, segment: LogSegment, reason: str, severity: Severity = Severity.WARNING) -> None:
    if _waits(log, segment.base_offset):
        return
    log.report.add(Action.REBUILT, log_file_name(segment.base_offset), reason, severity=severity)
    scan = log.scans.take(segment)
    recover_segment(log, segment, scan, damage_ends_it=False)
    log.scans.keep(segment, scan)


def _stands_beside_its_log(name: str, there: set[str]) -> bool:
    """Does an index with the usual 20 digits have its log among the files that are there? It is nearly always so."""
    digits = name[:20]
    return name[20:21] == "." and digits.isascii() and digits.isdigit() and digits + _LOG in there


def _is_entry(name: str, head: bytes) -> bool:
    """Is `head` the beginning of an index that a log once had? The first entry stands after the first batches, no further."""
    if not name.endswith(FileKind.OFFSET_INDEX.value):
        return head.strip(b"\0") != b""
    if len(head) < OFFSET_INDEX_ENTRY.size:
        return False
    entry = OFFSET_INDEX_ENTRY.read(head)
    return entry.relative_offset >= 0 and 0 < entry.position <= MAX_BATCH_BYTES
