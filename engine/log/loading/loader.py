"""Open a partition as a starting broker does: leftover files, segments, recovery, epochs, producers.

Mirrors LogLoader.load and UnifiedLog.create. If Kafka's loading would fail with an exception, this repairs and reports.
What loading found and did not change is noted at the end.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import offsets_text
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
from engine.log.epochs.leader_epoch_cache import LeaderEpochFileCache
from engine.log.errors import (
    CorruptIndex,
    CorruptRecord,
    IndexFull,
    IndexOffsetOverflow,
    InvalidOffset,
    InvalidTimestamp,
    OffsetIndexMissing,
    SegmentTooLarge,
    SplitFailed,
    TransactionOrder,
)
from engine.log.loading.epoch_repair import note_doubts, note_epochs, note_lost_remote_epochs, open_leader_epochs, repair_epochs
from engine.log.loading.leftovers import Leftovers
from engine.log.loading.recovery import recover_segment
from engine.log.loading.shared import Loading, LoadOptions
from engine.log.partition.local_log import LocalLog, fit_indexes
from engine.log.partition.unified_log import UnifiedLog
from engine.log.producers.state_manager import ProducerStateManager, delete_producer_snapshots, rebuild_producer_state
from engine.log.report import Action, Report
from engine.log.segment.batch_search import last_head
from engine.log.segment.log_segment import Partition
from engine.log.segment.log_segments import LogOffsetMetadata
from engine.log.segment.readable_segment import SegmentIndexes
from engine.log.tiering import Starts
from engine.record.windows import MAX_BATCH_BYTES

if TYPE_CHECKING:
    from engine.checkpoint.checkpoints import EpochEntry
    from engine.config.topic import LogConfig
    from engine.files import Files
    from engine.log.segment.extent import Extent
    from engine.log.segment.log_segment import LogSegment


_LOG, _SNAPSHOT = FileKind.LOG.value, FileKind.PRODUCER_SNAPSHOT.value
_INDEXES = (FileKind.OFFSET_INDEX.value, FileKind.TIME_INDEX.value, FileKind.TRANSACTION_INDEX.value)
_FIRST_ENTRY = 16  # bytes of the first entry of any index: zeros in a new one


def recover_log(log: Loading) -> tuple[int, int]:
    """Recover segments that may not be on the disk. Returns (recovery point, log end offset)."""
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
    """Recover the segments from the recovery point on; the first that loses bytes becomes the last. False: there is none."""
    # Kafka does not recover a segment that begins at 2^63 − 1, and none if that is the recovery point
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
    """Mark the segments from number `first` on as deleted, so that a crash in between does not bring them back.

    lost  receives, by base offset, the extents of segments that marking removes at once: pieces of a split segment
    """
    for segment in segments[first:]:
        if log.deferred.is_deleted_at_once(segment):
            lost[segment.base_offset] = segment.extent()
    log.deferred.mark_segments(segments[first:], newest_first=True)


def _end_unless_below_start(log: Loading) -> int | None:
    """The log end offset; None if there is no segment, or all were removed because they end below the log start offset."""
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
        extent = (known or {}).get(segment.base_offset) or segment.extent()  # reads all of it, because these records are lost
        extent.note(log.report, Action.REMOVED, log_file_name(segment.base_offset), reason, severity=severity)
    log.deferred.mark_segments(segments, newest_first=True)


# errors that stop a broker, and that an (unclean) recovery repairs
REPAIRABLE = (
    AppendRefused, CorruptIndex, CorruptRecord, IndexFull, IndexOffsetOverflow, InvalidOffset, InvalidTimestamp,
    TransactionOrder,
)  # fmt: skip
BROKER_STOPS = (*REPAIRABLE, SegmentTooLarge, SplitFailed)  # exceptions other than of I/O: they end the start
_DELETE_DIR = "-delete"


class LoadedLogOffsets(NamedTuple):
    """Start of a loaded log, the offset from which it may not be on the disk, and its end."""

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

    clean_shutdown    the broker was stopped cleanly: only segments without an index are recovered
    report            receives what is done; default: a new one, `UnifiedLog.report`
    names             of the plain files in the directory, if they were just listed

    Problems that stop a broker are repaired: a leader-epoch-checkpoint is rebuilt; a log that cannot be opened with the given
    options is recovered, as a whole if necessary. If `options.repairs` is False, the error at which a broker stops is raised:
    MalformedCheckpoint or one of BROKER_STOPS. Raises UnreadableFile, UnwritableFile.
    """
    report = Report(directory, "open") if report is None else report
    if not files.exists(directory):
        if not options.creates:
            raise UnreadableFile(f"{directory}: disappeared during the operation", path=directory)
        files.make_directory(directory)
    epochs = (open_leader_epochs(files, directory, report, options.tiering) if options.repairs
              else LeaderEpochFileCache(files, directory))
    epochs.refuses_doubtful = options.refuses_doubtful_epochs
    point = options.recovery_point or 0
    ways = [(clean_shutdown, point), (False, point), (False, 0)]  # as requested, then with more recovery
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
            if number + 1 == len(ways) or not options.repairs:
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
    """Load the log. Mirrors LogLoader.load."""
    leftovers = Leftovers(log.files, log.directory, log.config, log.now, log.report, log_start_offset=log.log_start_offset,
                          policy=log.policy)
    log.names = names = leftovers.resolve(log.names)
    log.listed = names
    epochs, trusted = log.epochs.in_file, log.epochs.entries
    with log.epochs.written_once():
        log.retry_on_overflow(partial(load_segment_files, log))
        if log.directory.rstrip("/").endswith(_DELETE_DIR):
            if not len(log.segments):
                log.new_segment(0)
            recovery_point = next_offset = 0
        else:
            recovery_point, next_offset = log.retry_on_overflow(partial(recover_log, log))
            fit_indexes(log.report, log.active, repairs=log.repairs)
        log.epochs.truncate_from_end(next_offset)
        first, first_epoch = log.segments.base_offsets[0], next((entry.start_offset for entry in log.epochs.entries), None)
        tiered = Starts(log.log_start_offset, first, first_epoch).are_of_tiered(log.tiering)
        log_start_offset = log.log_start_offset if tiered else max(log.log_start_offset, first)
        log.epochs.truncate_from_start(log.log_start_offset)
        if log.stabilizes_epochs:
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
    """The `names` of files that were not rebuilt: of a rebuilt one the old file may be deleted and the new one not synced."""
    recovered = set() if log.snapshots is None else log.snapshots.written
    written = {file_name(path) for path in log.producers.written | recovered}
    return [name for name in names if name not in written]


def load_segment_files(log: Loading) -> None:
    """Open every `.log`, recovering those without an offset index or with a corrupt index."""
    log.segments.close()
    log.segments.clear()
    names, log.listed = log.listed or log.files.plain(log.directory), []
    existing, log.unloaded = set(names), names
    removed = {event.path for event in log.report.find(Action.REMOVED)}
    opened = _expect_scans(log, names, existing)
    last = max((name for name in names if name.endswith(_LOG)), default="")  # after a clean stop only its indexes are checked
    for name in names:
        is_index = name.endswith(_INDEXES)
        if _has_log(name, existing) if is_index else not name.endswith((_LOG, _SNAPSHOT)):
            continue
        offset = offset_of(name)
        if offset is None:
            _report_without_offset(log, name)
        elif name.endswith(_SNAPSHOT):
            continue
        elif is_index:
            _remove_orphan(log, name, offset, existing, removed)
        else:
            segment = opened.get(offset) or log.open_segment(offset, existing)
            _load_segment(log, segment, existing, checks_sizes=not log.clean_shutdown or name == last)
    log.unloaded = []


def _expect_scans(log: Loading, names: list[str], existing: set[str]) -> dict[int, LogSegment]:
    """Open the segments that will be recovered because they have no offset index, and begin to scan them; by base offset."""
    bases = [offset for name in names if name.endswith(_LOG) and (offset := offset_of(name)) is not None
             and name == log_file_name(offset) and offset_index_file_name(offset) not in existing]
    opened = {base: log.open_segment(base, existing) for base in bases if not _waits(log, base)}
    log.scans.expect(opened.values())
    return opened


def _waits(log: Loading, base_offset: int) -> bool:
    """Is this segment left to the recovery from the recovery point on?"""
    return log.in_order and not log.clean_shutdown and base_offset >= log.recovery_point


def _report_without_offset(log: Loading, name: str) -> None:
    log.report.add(Action.KEPT, name, "its name contains no offset: a broker does not start with this file here",
                   severity=Severity.WARNING)


def _remove_orphan(log: Loading, name: str, offset: int, existing: set[str], removed: set[str]) -> None:
    its_log = log_file_name(offset)
    if its_log not in existing and not log.files.exists(log.path(its_log)):
        with log.files.open(log.path(name)) as file:
            has_entries = _is_entry(name, file.read(0, _FIRST_ENTRY))
        reason = "an index without a log"
        if has_entries and its_log + DELETED not in removed:
            reason = "an index with entries but without a log"
            log.orphans.setdefault(offset, (name, SegmentIndexes.read(log.files, log.directory, offset).end))
        log.files.remove(log.path(name))
        log.report.add(Action.REMOVED, name, reason, severity=Severity.WARNING)


def _load_segment(log: Loading, segment: LogSegment, existing: set[str], *, checks_sizes: bool) -> None:
    has_offset_index = offset_index_file_name(segment.base_offset) in existing
    has_time_index = time_index_file_name(segment.base_offset) in existing
    try:
        segment.sanity_check(time_index_newly_created=not has_time_index, has_offset_index=has_offset_index)
        if checks_sizes:
            segment.refuse_large_indexes()
        if segment.base_offset in log.unsplittable:  # its recovery was given up, so its index is incomplete
            _recover_while_loading(log, segment, "its offsets do not fit its index (more than 2^31 - 1 after the base offset)")
    except OffsetIndexMissing:
        if segment.size:
            _recover_while_loading(log, segment, NO_INDEX)
        else:  # every roll leaves such a segment
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


def _has_log(name: str, existing: set[str]) -> bool:
    """Is it an index with the usual 20 digits whose log is in the directory? Nearly all indexes are."""
    digits = name[:20]
    return name[20:21] == "." and digits.isascii() and digits.isdigit() and digits + _LOG in existing


def _is_entry(name: str, head: bytes) -> bool:
    """Is `head` the start of an index of a former log? Its first entry points to the end of a first batch, no further."""
    if not name.endswith(FileKind.OFFSET_INDEX.value):
        return head.strip(b"\0") != b""
    if len(head) < OFFSET_INDEX_ENTRY.size:
        return False
    entry = OFFSET_INDEX_ENTRY.read(head)
    return entry.relative_offset >= 0 and 0 < entry.position <= MAX_BATCH_BYTES


_SNAPSHOT, _EPOCHS = FileKind.PRODUCER_SNAPSHOT.value, FileKind.LEADER_EPOCH_CHECKPOINT.value
NO_INDEX = "its offset index is missing"  # why a segment is recovered while it is loaded


def note_changes(log: Loading, names: list[str], epochs: list[EpochEntry], trusted: list[EpochEntry]) -> None:
    """Report changes of the producer snapshots `names` and of the `epochs` in the file.

    trusted  those of the `epochs` that no other entry contradicts
    """
    corrupt = {event.path for event in log.report.find(Action.REMOVED)}
    left = log.producers.snapshot_paths
    removed = [name for name in names if name.endswith(_SNAPSHOT) and log.path(name) not in left]
    for name in removed:
        if name not in corrupt and not log.files.exists(log.path(name)):
            log.report.add(Action.REMOVED, name, "outdated producer snapshot")
    if log.epochs.in_file != epochs:
        before, after = (", ".join(f"{epoch}@{start}" for epoch, start in entries) or "none"
                         for entries in (epochs, log.epochs.entries))
        but = "" if epochs == trusted else ("; both epochs and offsets must increase: of two entries that do not, the later "
                                             "one is kept")
        log.report.add(Action.REBUILT, _EPOCHS, f"epochs were {before}, are {after}{but}",
                       severity=Severity.WARNING if but else Severity.INFO)


def note_missing(log: Loading) -> None:
    """Report missing segments of which only an index is left: nothing shows that they were deleted."""
    reported = {event.path for event in log.report.find(Action.MISSING)}
    for offset, (name, end) in log.orphans.items():
        if log_file_name(offset) in reported:
            continue
        floor, higher = log.segments.floor_segment(offset), log.segments.higher_segment(offset)
        first = offset if floor is None else floor.read_next_offset()
        if first <= offset:
            why = (f"the .log file is missing, only {name} is left: put it back (from a backup, lost+found, an "
                   "unmounted disk) before a broker starts, which continues without it")
            known_end = end if end > offset else None
            log.report.add(Action.MISSING, log_file_name(offset), why, severity=Severity.ERROR,
                           offsets=(first, known_end if higher is None else higher.base_offset))


def note_torn_tail(log: Loading) -> None:
    """Report bytes after the last batch: after a clean stop nothing truncates them, and appends would follow them.

    Also report an index with offsets that the log does not have: Kafka treats such a log as empty.
    """
    segment = log.active
    head = segment.translate_offset(segment.offset_index.last_offset)
    if head is None and len(segment.offset_index) and segment.size:
        why = (f"its offset index reaches offset {segment.offset_index.last_offset}, after the end of the log: a broker "
               f"takes {segment.base_offset} as the log end. recover without --clean-start reads the log")
        log.report.add(Action.KEPT, log_file_name(segment.base_offset), why, size=segment.size, severity=Severity.ERROR)
        return
    is_first = head is not None and head.position == 0 and head.base_offset >= segment.base_offset
    if not is_first and not segment.begins_within_name(LONG_MAX):
        held = segment.extent()
        if held.first_offset is not None and held.end_offset is not None and held.end_offset <= segment.base_offset:
            why = (f"its batches have {offsets_text(held.first_offset, held.end_offset)}: a broker continues "
                   f"at {segment.base_offset} after them. recover without --clean-start reads the log")
            held.note(log.report, Action.KEPT, log_file_name(segment.base_offset), why, severity=Severity.ERROR)
            return
    last = None if head is None else last_head(segment.log_file, head.position, segment.size)
    end = 0 if last is None else last.position + last.size
    if end < segment.size and (last is not None or not len(segment.offset_index)):
        log.report.add(Action.KEPT, log_file_name(segment.base_offset), f"at byte {end}: no whole batch follows, and "
                       "appends would land after these bytes. recover without --clean-start truncates them",
                       size=segment.size - end, severity=Severity.WARNING)


def note_kept(log: Loading, first_recovered: int) -> None:
    """Report the segments below the recovery point, which are not read."""
    segments = list(log.segments)
    for segment, following in pairwise(segments):
        if segment.base_offset < first_recovered:
            log.report.add(Action.KEPT, log_file_name(segment.base_offset), "below the recovery point",
                           offsets=(segment.base_offset, following.base_offset), size=segment.size)
