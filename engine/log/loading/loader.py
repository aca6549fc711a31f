"""Opening a partition as a starting broker opens it: left-overs, segments, recovery, epochs, producers.

Mirrors LogLoader.load and UnifiedLog.create. Where Kafka's loading ends with an exception ours repairs and says so.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import UnreadableFile
from engine.findings import Severity
from engine.formats import LONG_MAX, OFFSET_INDEX_ENTRY
from engine.layout import (
    FileKind,
    file_name,
    log_file_name,
    offset_index_file_name,
    time_index_file_name,
    transaction_index_file_name,
)
from engine.log.append_errors import AppendRefused
from engine.log.errors import (
    CorruptIndex,
    CorruptRecord,
    IndexFull,
    IndexOffsetOverflow,
    InvalidOffset,
    InvalidTimestamp,
    OffsetIndexMissing,
    SegmentOffsetOverflow,
    SplitFailed,
    TransactionOrder,
)
from engine.log.loading.epoch_repair import open_leader_epochs
from engine.log.loading.recovery import Recovering, recover_cut, recover_segment
from engine.log.offset_metadata import LogOffsetMetadata
from engine.log.partition.local_log import LocalLog, fit_indexes, note_removed
from engine.log.partition.unified_log import UnifiedLog
from engine.log.producers.loading import delete_producer_snapshots, rebuild_producer_state
from engine.log.producers.snapshot_files import SnapshotFiles
from engine.log.producers.state_manager import ProducerStateManager
from engine.log.report import Action, Report
from engine.log.scan.batch_search import last_head
from engine.log.segment.deferred import DELETED, DeferredDeletion
from engine.log.segment.leftovers import Leftovers, offset_of
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.log_segments import LogSegments
from engine.log.segment.scan_ahead import ScanAhead
from engine.log.segment.splitting import Place, split_overflowed_segment
from engine.record.windows import MAX_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from engine.checkpoint.leader_epochs import EpochEntry
    from engine.config import LogConfig
    from engine.files import Files
    from engine.log.partition.leader_epoch_cache import LeaderEpochFileCache
    from engine.log.segment.recovery import SegmentScan

    T = TypeVar("T")

# what stops a broker and an (unclean) recovery mends
REPAIRABLE = (
    AppendRefused, CorruptIndex, CorruptRecord, IndexFull, IndexOffsetOverflow, InvalidOffset, InvalidTimestamp,
    TransactionOrder,
)  # fmt: skip
_INDEXES = (FileKind.OFFSET_INDEX.value, FileKind.TIME_INDEX.value, FileKind.TRANSACTION_INDEX.value)
_LOG, _SNAPSHOT = FileKind.LOG.value, FileKind.PRODUCER_SNAPSHOT.value
_EPOCHS = FileKind.LEADER_EPOCH_CHECKPOINT.value
_DELETE_DIR = "-delete"
_FIRST_ENTRY = 16  # bytes that hold it, whatever the index: zeros in a new one
_ALONE = "an index with entries, and no log"


class LoadedLogOffsets(NamedTuple):
    """Where a loaded log begins, from where it is not surely on the disk, and where it ends."""

    log_start_offset: int
    recovery_point: int
    next_offset: LogOffsetMetadata


def open_log(
    files: Files, directory: str, config: LogConfig, *, now: int, clean_shutdown: bool, recovery_point: int = 0,
    log_start_offset: int = 0, producer_id_expiration_ms: int = 86_400_000, max_transaction_timeout_ms: int = 900_000,
    report: Report | None = None, jobs: int = 1, create: bool = True, for_snapshots: bool = False,
    names: list[str] | None = None,
) -> UnifiedLog:
    """Open the partition in `directory`, making it where there is none, as a broker does at its start.

    clean_shutdown    the broker before stopped cleanly: nothing is recovered but what lacks an index
    recovery_point, log_start_offset   as the log dir's checkpoints have them
    report            takes what is done; default: a new one, `UnifiedLog.report`
    jobs              segments that are read side by side
    for_snapshots     nobody is going to append or to read: of producers only what snapshots need is remembered
    names             of the plain files in the directory, who has just listed them
    create            make the directory; else one that is gone is UnreadableFile: it was there when it was looked for

    What stops a broker is mended: a leader-epoch-checkpoint is made anew, a log that can not be opened as asked for is
    recovered, in the end as a whole. Raises UnreadableFile, UnwritableFile.
    """
    report = Report(directory, "open") if report is None else report
    if not files.exists(directory):
        if not create:
            raise UnreadableFile(f"{directory}: disappeared while it was worked on", path=directory)
        files.make_directory(directory)
    epochs = open_leader_epochs(files, directory, report)
    ways = [(clean_shutdown, recovery_point), (False, recovery_point), (False, 0)]  # as asked for, then what mends more
    for number, (clean, point) in enumerate(ways):
        producers = ProducerStateManager(files, directory, producer_id_expiration_ms=producer_id_expiration_ms,
                                         max_transaction_timeout_ms=max_transaction_timeout_ms, for_snapshots=for_snapshots)
        loader = LogLoader(files, directory, config, now=now, clean_shutdown=clean, recovery_point=point,
                           log_start_offset=log_start_offset, epochs=epochs, producers=producers, report=report, jobs=jobs,
                           in_order=number > 0, names=None if number else names)
        try:
            return _unified(loader)
        except REPAIRABLE as error:
            loader.close_handlers()
            if number + 1 == len(ways):
                raise
            report.add(Action.REBUILT, "", f"a broker would not start: {error}", severity=Severity.WARNING)
        except BaseException:
            loader.close_handlers()
            raise
    raise AssertionError("the last way returns or raises")


def _unified(loader: LogLoader) -> UnifiedLog:
    loaded = loader.load()
    local_log = LocalLog(
        loader.files, loader.directory, loader.config, loader.segments, now=loader.now, recovery_point=loaded.recovery_point,
        next_offset=loaded.next_offset, report=loader.report, deferred=loader.deferred, names=loader.names or (),
    )
    return UnifiedLog(loaded.log_start_offset, local_log, loader.epochs, loader.producers)


class LogLoader:
    """Loads the segments of one partition. `load` once; then `segments` and `deferred` belong to the log.

    epochs, producers  as they stand in the files; brought in line with the segments
    jobs               segments that are read side by side
    names              of the plain files in the directory; None: nobody has listed them yet
    in_order           segments without an offset index wait for the recovery if that reaches them: Kafka recovers them
                       while loading, and fails if one before them is damaged
    """

    def __init__(
        self, files: Files, directory: str, config: LogConfig, *, now: int, clean_shutdown: bool, recovery_point: int,
        log_start_offset: int, epochs: LeaderEpochFileCache, producers: ProducerStateManager, report: Report,
        jobs: int = 1, in_order: bool = False, names: list[str] | None = None,
    ) -> None:
        self.jobs, self.in_order = jobs, in_order
        self.files, self.directory, self.config, self.now = files, directory, config, now
        self.clean_shutdown, self.recovery_point, self.log_start_offset = clean_shutdown, recovery_point, log_start_offset
        self.epochs, self.producers, self.report = epochs, producers, report
        self.segments = LogSegments()
        self.deferred = DeferredDeletion(files, directory, report)
        producers.on_corrupt_snapshot = partial(_note_corrupt_snapshot, report)  # no circle: a table may be large
        self._scans = ScanAhead(jobs)
        self.names = names  # of the files that are there, once left-overs are settled; at the end those that surely are
        self._listed: list[str] = []
        self._snapshots: SnapshotFiles | None = None  # as the recovery of segments leaves them; None: not looked yet
        self._unsplittable: set[int] = set()  # base offsets of segments that overflow and can not be split

    def load(self) -> LoadedLogOffsets:
        """Do it all. Mirrors LogLoader.load."""
        try:
            return self._load()
        finally:
            self._scans.close()

    def _load(self) -> LoadedLogOffsets:
        self.names = names = Leftovers(self.files, self.directory, self.config, self.now, self.report).settle(self.names)
        self._listed = names  # for the first time that they are loaded
        epochs = self.epochs.entries
        self._retry_on_overflow(self._load_segment_files)
        if self.directory.rstrip("/").endswith(_DELETE_DIR):
            if not len(self.segments):
                self._new_segment(0)
            recovery_point = next_offset = 0
        else:
            recovery_point, next_offset = self._retry_on_overflow(self._recover_log)
            fit_indexes(self.report, self._active)
        self.epochs.truncate_from_end(next_offset)
        log_start_offset = max(self.log_start_offset, self.segments.base_offsets[0])
        self.epochs.truncate_from_start(self.log_start_offset)
        self._remove_set_aside()
        is_as_listed = self._snapshots is None and not self.report.events
        self.producers.remove_stray_snapshots(self.segments.base_offsets, names if is_as_listed else None)
        rebuild_producer_state(self.producers, self.segments, log_start_offset, next_offset, now=self.now,
                               reload_from_clean_shutdown=self.clean_shutdown)
        self._note_changes(names, epochs)
        self.names = self._without_written(names)
        if not self.directory.rstrip("/").endswith(_DELETE_DIR):
            self._note_missing()
        active = self._active
        end = LogOffsetMetadata(next_offset, active.base_offset, active.size)
        return LoadedLogOffsets(log_start_offset, recovery_point, end)

    def _without_written(self, names: list[str]) -> list[str]:
        """Of the `names` those whose files were not made anew: the old one may be gone for sure, and the new one not there."""
        recovered = set() if self._snapshots is None else self._snapshots.written
        written = {file_name(path) for path in self.producers.written | recovered}
        return [name for name in names if name not in written]

    def _note_changes(self, names: list[str], epochs: list[EpochEntry]) -> None:
        """Report what became of the snapshots that were there as `names`, and of the `epochs`."""
        corrupt = {event.path for event in self.report.find(Action.REMOVED)}
        left = self.producers.snapshot_paths
        gone = [name for name in names if name.endswith(_SNAPSHOT) and self._path(name) not in left]
        for name in gone:
            if name not in corrupt and not self.files.exists(self._path(name)):
                self.report.add(Action.REMOVED, name, "no segment begins where it was taken, or the state was rebuilt")
        if self.epochs.entries != epochs:
            before, after = (", ".join(f"{epoch}@{start}" for epoch, start in entries) or "none"
                             for entries in (epochs, self.epochs.entries))
            self.report.add(Action.REBUILT, _EPOCHS, f"epochs were {before}, are {after}")

    def _note_missing(self) -> None:
        """Report segments of which an index was left: their log was there, and nothing says that it was deleted."""
        alone: dict[int | None, str] = {}
        for event in self.report.find(Action.REMOVED):
            if event.reason == _ALONE:
                alone.setdefault(offset_of(event.path), event.path)
        told = {event.path for event in self.report.find(Action.MISSING)}
        for offset, name in alone.items():
            if offset is None or log_file_name(offset) in told:
                continue
            floor, higher = self.segments.floor_segment(offset), self.segments.higher_segment(offset)
            first = offset if floor is None else floor.read_next_offset()
            if first <= offset:
                why = (f"the segment is gone, {name} stood there alone: put the log back (from a backup, lost+found, a disk "
                       "that is not mounted) before a broker starts, which goes on without")
                self.report.add(Action.MISSING, log_file_name(offset), why, severity=Severity.ERROR,
                                offsets=(first, None if higher is None else higher.base_offset))

    def _retry_on_overflow(self, work: Callable[[], T]) -> T:
        """Do `work` until no segment's offsets overflow its index; each that does is split."""
        while True:
            try:
                return work()
            except SegmentOffsetOverflow as error:
                try:
                    self._split(error.base_offset)
                except SplitFailed:
                    self._unsplittable.add(error.base_offset)

    def _split(self, base_offset: int) -> None:
        segment = self.segments.get(base_offset) or self._open_segment(base_offset)
        place = Place(self.files, self.directory, self.config, self.now, self.segments, self.report, self.deferred)
        deleted, _ = split_overflowed_segment(place, segment)
        self._remove_set_aside()
        self._snapshots = None  # the next line removes some behind its back
        delete_producer_snapshots(deleted, self.producers, self.deferred)

    def _open_segment(self, base_offset: int, there: set[str] | None = None) -> LogSegment:
        """`there`: the names that the directory has, if they are known."""
        has_txn_index = None if there is None else transaction_index_file_name(base_offset) in there
        return LogSegment(self.files, self.directory, base_offset, self.config, self.now, has_txn_index=has_txn_index)

    def close_handlers(self) -> None:
        """Let go of all files: the log could not be loaded."""
        self.deferred.release()
        self.segments.close_handlers()

    @property
    def _active(self) -> LogSegment:
        return self.segments.active_segment

    def _new_segment(self, base_offset: int) -> None:
        segment = LogSegment(self.files, self.directory, base_offset, self.config, self.now, file_already_exists=False)
        self.segments.add(segment)
        self.report.add(Action.CREATED, log_file_name(base_offset), "there was no segment",
                        offsets=(base_offset, base_offset), size=0)

    # ---- from names to segments -------------------------------------------------------------------

    def _load_segment_files(self) -> None:
        """Open every `.log`, recovering those without an offset index or with a bad transaction index."""
        self.segments.close()
        self.segments.clear()
        names, self._listed = self._listed or self.files.plain(self.directory), []
        there = set(names)
        removed = {event.path for event in self.report.find(Action.REMOVED)}
        opened = self._expect_scans(names, there)
        for name in names:
            is_index = name.endswith(_INDEXES)
            if _stands_beside_its_log(name, there) if is_index else not name.endswith(_LOG):
                continue
            offset = offset_of(name)
            if offset is None:
                self._report_nameless(name)
            elif is_index:
                self._remove_orphan(name, offset, there, removed)
            else:
                self._load_segment(opened.get(offset) or self._open_segment(offset, there), there)

    def _expect_scans(self, names: list[str], there: set[str]) -> dict[int, LogSegment]:
        """Open the segments without an offset index, which will be recovered, and begin to scan them; by base offset."""
        bases = [offset for name in names if name.endswith(_LOG) and (offset := offset_of(name)) is not None
                 and name == log_file_name(offset) and offset_index_file_name(offset) not in there]
        opened = {base: self._open_segment(base, there) for base in bases if not self._waits(base)}
        self._scans.expect(opened.values())
        return opened

    def _waits(self, base_offset: int) -> bool:
        """Is this segment left to the recovery that follows?"""
        return self.in_order and not self.clean_shutdown and base_offset >= self.recovery_point

    def _report_nameless(self, name: str) -> None:
        self.report.add(Action.KEPT, name, "its name holds no offset: a broker would not start with this file here",
                        severity=Severity.WARNING)

    def _remove_orphan(self, name: str, offset: int, there: set[str], removed: set[str]) -> None:
        log = log_file_name(offset)
        if log not in there and not self.files.exists(self._path(log)):
            with self.files.open(self._path(name)) as file:
                has_entries = _is_entry(name, file.read(0, _FIRST_ENTRY))
            self.files.remove(self._path(name))
            reason = _ALONE if has_entries and log + DELETED not in removed else "an index without a log"
            self.report.add(Action.REMOVED, name, reason, severity=Severity.WARNING)

    def _load_segment(self, segment: LogSegment, there: set[str]) -> None:
        has_offset_index = offset_index_file_name(segment.base_offset) in there
        has_time_index = time_index_file_name(segment.base_offset) in there
        try:
            segment.sanity_check(time_index_newly_created=not has_time_index, has_offset_index=has_offset_index)
            if segment.base_offset in self._unsplittable:  # its recovery was given up; its index is a part only
                self._recover_while_loading(segment, "its offsets do not fit its index")
        except OffsetIndexMissing:
            if segment.size:
                self._recover_while_loading(segment, "its offset index is missing")
            else:  # as every roll leaves it
                self._recover_while_loading(segment, "it is empty and has no offset index yet", Severity.INFO)
        except CorruptIndex as error:
            self._recover_while_loading(segment, f"its transaction index is corrupt: {error}")
        self.segments.add(segment)

    def _recover_while_loading(self, segment: LogSegment, reason: str, severity: Severity = Severity.WARNING) -> None:
        if self._waits(segment.base_offset):
            return
        self.report.add(Action.REBUILT, log_file_name(segment.base_offset), reason, severity=severity)
        scan = self._scans.take(segment)
        self._recover_segment(segment, scan, damage_ends_it=False)
        self._scans.keep(segment, scan)

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    # ---- recovery ---------------------------------------------------------------------------------

    def _recover_segment(
        self, segment: LogSegment, scan: SegmentScan, *, damage_ends_it: bool, before_cut: Callable[[], object] = lambda: None,
    ) -> int:
        """Recover `segment`; returns the bytes cut. Raises SegmentOffsetOverflow where it can be split.

        before_cut  see Recovering
        """
        log = Recovering(self.files, self.directory, self.config, self.now, self.log_start_offset, self.segments, self.epochs,
                         self.producers, self.report, self._known_snapshots(), before_cut)
        try:
            return recover_segment(log, segment, scan, damage_ends_it=damage_ends_it)
        except SegmentOffsetOverflow as error:
            if segment.base_offset not in self._unsplittable:
                raise
            return recover_cut(log, segment, scan, error)

    def _known_snapshots(self) -> SnapshotFiles:
        if self._snapshots is None:
            self._snapshots = SnapshotFiles.of_directory(self.files, self.directory)
        return self._snapshots

    def _remove_set_aside(self) -> None:
        """Remove the snapshots that recovery found invalid, and did not write anew."""
        if self._snapshots is not None:
            for path in self._snapshots.aside.values():
                self.files.remove(path)
            self._snapshots.aside.clear()

    def _recover_log(self) -> tuple[int, int]:
        """Recover what may not have reached the disk; (recovery point, log end offset)."""
        if not self.clean_shutdown:
            self._recover_unflushed()
        log_end_offset = self._end_unless_below_start()
        if not len(self.segments):
            self._new_segment(self.log_start_offset)
        if self.clean_shutdown and log_end_offset is not None:
            self.report.unread_below = log_end_offset if self.segments.size else None
            self._note_torn_tail()
            return log_end_offset, log_end_offset
        if log_end_offset is None:
            log_end_offset = self._active.read_next_offset()
        return min(self.recovery_point, log_end_offset), log_end_offset

    def _recover_unflushed(self) -> None:
        """Recover from the segment that holds the recovery point on; the first that loses bytes ends the log."""
        unflushed = self.segments.values(self.recovery_point, LONG_MAX)
        self._note_kept(unflushed[0].base_offset if unflushed else LONG_MAX)
        if unflushed and unflushed[0].base_offset > self.segments.base_offsets[0]:
            self.report.unread_below = unflushed[0].base_offset
        self._scans.expect(unflushed)
        for number, segment in enumerate(unflushed):
            scan = self._scans.take(segment)
            if self._recover_segment(segment, scan, damage_ends_it=True, before_cut=partial(self._mark, unflushed, number + 1)):
                self._scans.close()
                behind = unflushed[number + 1 :]
                self._remove_segments(behind, f"behind the damage in {log_file_name(segment.base_offset)}", Severity.ERROR)
                self._remove_set_aside()
                delete_producer_snapshots(behind, self.producers, self.deferred)
                return

    def _mark(self, segments: list[LogSegment], first: int) -> None:
        """Mark the segments from the one numbered `first` on as deleted: a crash in between must not bring them back."""
        self.deferred.mark_segments(segments[first:], newest_first=True)

    def _note_torn_tail(self) -> None:
        """Report bytes behind the last batch: after a clean stop nobody cuts them, and appends land behind them."""
        segment = self._active
        head = segment.translate_offset(segment.offset_index.last_offset)
        last = None if head is None else last_head(segment.log_file, head.position, segment.size)
        end = 0 if last is None else last.position + last.size
        if end < segment.size and (last is not None or not len(segment.offset_index)):
            self.report.add(Action.KEPT, log_file_name(segment.base_offset), f"at byte {end}: what follows is no whole batch; "
                            "appends would land behind it. Recover without --clean-start cuts it",
                            size=segment.size - end, severity=Severity.WARNING)

    def _end_unless_below_start(self) -> int | None:
        """The log end offset; None where there is no segment, or all are removed as they end below the log start."""
        if not len(self.segments):
            return None
        end = self._active.read_next_offset()
        if end >= self.log_start_offset:
            return end
        self._remove_segments(list(self.segments), f"the log ends at {end}, below its start {self.log_start_offset}",
                              Severity.ERROR if any(segment.size for segment in self.segments) else Severity.WARNING)
        self.epochs.clear_and_flush()
        self.producers.truncate_fully_and_start_at(self.log_start_offset)
        return None

    def _note_kept(self, first_recovered: int) -> None:
        """Report the segments below the recovery point, which are believed."""
        segments = list(self.segments)
        for segment, following in pairwise(segments):
            if segment.base_offset < first_recovered:
                self.report.add(Action.KEPT, log_file_name(segment.base_offset), "below the recovery point",
                                offsets=(segment.base_offset, following.base_offset), size=segment.size)

    def _remove_segments(self, segments: list[LogSegment], reason: str, severity: Severity) -> None:
        for segment in segments:
            self.segments.remove(segment.base_offset)
            scan = segment.scan()  # reads all of it: these records are lost
            note_removed(self.report, segment, reason, end_offset=scan.next_offset, records=scan.records, severity=severity)
        self.deferred.mark_segments(segments, newest_first=True)


def _note_corrupt_snapshot(report: Report, path: str, error: str) -> None:
    report.add(Action.REMOVED, file_name(path), error, severity=Severity.WARNING)


def _stands_beside_its_log(name: str, there: set[str]) -> bool:
    """Does an index with the usual 20 digits have its log among the files that are there? It is nearly always so."""
    digits = name[:20]
    return name[20:21] == "." and digits.isascii() and digits.isdigit() and digits + _LOG in there


def _is_entry(name: str, head: bytes) -> bool:
    """Is `head` the beginning of an index that a log once had? The first entry stands behind the first batches, no further."""
    if not name.endswith(FileKind.OFFSET_INDEX.value):
        return head.strip(b"\0") != b""
    if len(head) < OFFSET_INDEX_ENTRY.size:
        return False
    entry = OFFSET_INDEX_ENTRY.read(head)
    return entry.relative_offset >= 0 and 0 < entry.position <= MAX_BATCH_BYTES
