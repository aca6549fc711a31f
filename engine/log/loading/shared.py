"""The state that the steps of loading a partition share: its segments so far, its files, and the scans for recovery."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from engine.background import Background
from engine.checkpoint.producer_snapshot import ProducerSnapshot, SnapshotFiles
from engine.discovery.names import FileKind, file_name, log_file_name, offset_of, transaction_index_file_name
from engine.findings import Severity
from engine.formats import NO_PARTITION_LEADER_EPOCH
from engine.log.errors import SegmentOffsetOverflow, SplitFailed
from engine.log.producers.state_manager import MAX_TRANSACTION_TIMEOUT_MS, PRODUCER_ID_EXPIRATION_MS, delete_producer_snapshots
from engine.log.report import Action
from engine.log.segment.batch_search import first_leader_epochs, heads_before_damage
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.log_segments import DeferredDeletion, LogSegments
from engine.log.segment.recovery_walk import ScanStop
from engine.log.segment.splitting import Replacing, split_overflowed_segment
from engine.log.tiering import Tiering, nothing_known

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from engine.files import Files
    from engine.log.epochs.leader_epoch_cache import LeaderEpochFileCache
    from engine.log.epochs.runs import EpochRuns
    from engine.log.producers.state_manager import ProducerStateManager
    from engine.log.report import Report
    from engine.log.segment.log_segment import Partition
    from engine.log.tiering import Policy
    T = TypeVar("T")
    FindBroken = Callable[["Files", str, int, "SegmentScan"], dict[str, str]]
    from collections.abc import Iterable

    from engine.log.segment.recovery_walk import SegmentScan

_KEPT_BYTES = 8 << 20  # of index entries, in scans that are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """How to open a log.

    recovery_point, log_start_offset   from the log dir's checkpoints; None: they have no line
    tiering           are older segments in remote storage? Then the log start offset may be below the first segment. If that
                      is unknown, `log_start_offset` must come from a checkpoint
    policy            of the topic, in addition to its settings
    jobs              number of segments that are read at the same time
    creates           create the directory; otherwise a missing one raises UnreadableFile: it existed when it was listed
    for_snapshots     nothing is appended or read: only the producer state that snapshots need is loaded
    stabilizes_epochs change leader epochs until another start would not change them: Kafka may need two starts for that
    refuses_doubtful_epochs   do not use epochs of batches that others contradict, although Kafka does
    repairs           repair what stops a broker; False: raise the error at which it stops
    allows_misnamed   begin an empty segment for a .log whose name does not have 20 digits, as a broker does; False: refuse it
    find_broken       called before the indexes of a segment are rebuilt; returns what is wrong in them, by file name.
                      None: that is not reported
    """

    recovery_point: int | None = None
    log_start_offset: int | None = None
    tiering: Tiering = Tiering.UNTIERED
    policy: Policy = nothing_known
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS
    jobs: int = 1
    creates: bool = True
    for_snapshots: bool = False
    stabilizes_epochs: bool = False
    refuses_doubtful_epochs: bool = False
    repairs: bool = True
    allows_misnamed: bool = False
    find_broken: FindBroken | None = None


class Loading:
    """A partition while it is loaded.

    clean_shutdown     only segments without an index are recovered
    epochs, producers  as in the files; later updated to the segments. Recovery of segments uses the settings of `producers`
    names              of the plain files in the directory; None: not listed yet
    in_order           segments without an offset index that the recovery reaches are left to it. Kafka recovers them while
                       loading, and fails if an earlier one is damaged

    Afterwards `segments` and `deferred` belong to the log.
    """

    def __init__(
        self, partition: Partition, options: LoadOptions, report: Report, epochs: LeaderEpochFileCache,
        producers: ProducerStateManager, *, clean_shutdown: bool, in_order: bool = False, names: list[str] | None = None,
    ) -> None:
        self.partition, self.in_order, self.tiering, self.policy = partition, in_order, options.tiering, options.policy
        self.stabilizes_epochs, self.log_start_offset = options.stabilizes_epochs, options.log_start_offset or 0
        self.repairs, self.find_broken = options.repairs, options.find_broken
        self.files, self.directory, self.config = partition.files, partition.directory, partition.config
        self.now, self.report = partition.now, report
        self.clean_shutdown, self.recovery_point = clean_shutdown, options.recovery_point or 0
        self.epochs, self.producers = epochs, producers
        self.segments = LogSegments()
        self.deferred = DeferredDeletion(self.files, self.directory, self.report)
        producers.on_lost_snapshot = partial(note_lost_snapshot, self.report)  # no reference cycle: a table may be large
        self.scans = ScanAhead(options.jobs)
        self.names = names  # of existing files, after leftover files are handled; at the end only those that are surely synced
        self.listed: list[str] = []  # `names`, for the first time that segments are loaded
        self.unloaded: list[str] = []  # sorted file names, while not all of their segments are loaded
        # by base offset of the segments that were read: their last correct epoch and its first offset
        self.last_epochs: dict[int, tuple[int, int]] = {}
        self.epoch_runs: dict[int, EpochRuns] = {}  # by base offset of the segments that were read: all their epochs
        self.snapshots: SnapshotFiles | None = None  # kept up to date by the recovery of segments; None: not listed yet
        self.unsplittable: dict[int, SplitFailed] = {}  # by base offset: errors of segments that overflow and cannot be split
        self.orphans: dict[int, tuple[str, int]] = {}  # by base offset: an index without log, and its end
        self.before_cut: Callable[[], object] = lambda: None  # see recover_segment

    @property
    def active(self) -> LogSegment:
        """The last segment."""
        return self.segments.active_segment

    def path(self, name: str) -> str:
        """The path of a file in the directory."""
        return f"{self.directory}/{name}"

    def open_segment(self, base_offset: int, existing: set[str] | None = None) -> LogSegment:
        """Open the segment at `base_offset`. `existing`: the names in the directory, if they are known."""
        has_txn_index = None if existing is None else transaction_index_file_name(base_offset) in existing
        return LogSegment(self.partition, base_offset, has_txn_index=has_txn_index)

    def new_segment(self, base_offset: int) -> None:
        """Create an empty segment, if there is none."""
        segment = LogSegment(self.partition, base_offset, file_already_exists=False)
        self.segments.add(segment)
        self.report.add(Action.CREATED, log_file_name(base_offset), "there was no segment",
                        offsets=(base_offset, base_offset), size=0)

    def retry_on_overflow(self, work: Callable[[], T]) -> T:
        """Repeat `work` until no segment's offsets overflow its index; each that does is split."""
        while True:
            try:
                return work()
            except SegmentOffsetOverflow as error:
                try:
                    self._split(error.base_offset)
                except SplitFailed as failed:
                    if not self.repairs:
                        raise
                    self.unsplittable[error.base_offset] = failed

    def _split(self, base_offset: int) -> None:
        segment = self.segments.get(base_offset) or self.open_segment(base_offset)
        replacing = Replacing(self.partition, self.segments, self.report, self.deferred)
        deleted, _ = split_overflowed_segment(replacing, segment)
        self.remove_set_aside()
        self.snapshots = None  # the next line removes snapshots without updating it
        delete_producer_snapshots(deleted, self.producers, self.deferred)

    def end_of_epoch(self, segment: LogSegment, epoch: int, end_offset: int) -> tuple[int, int]:
        """The end of the batches with `epoch`, the last one of `segment`, in later segments; and the next epoch, -1: none.

        Stops reading at the first batch with another epoch, and at damage in a segment, which ends there.
        """
        after = [one.base_offset for one in self.segments if one.base_offset > segment.base_offset]
        listed = (offset_of(name) for name in self.unloaded if name.endswith(FileKind.LOG.value))
        after += [base for base in listed if base is not None and base > segment.base_offset]
        for base in sorted(set(after)):
            with self.files.open(self.path(log_file_name(base))) as file:
                for head in heads_before_damage(file):
                    if head.leader_epoch != epoch:
                        return end_offset, head.leader_epoch
                    end_offset = head.next_offset
        return end_offset, NO_PARTITION_LEADER_EPOCH

    def base_after(self, segment: LogSegment) -> int | None:
        """Base offset of the next segment, loaded or not; None: there is none."""
        above = self.segments.higher_segment(segment.base_offset)
        if above is not None:
            return above.base_offset
        after = range(bisect_right(self.unloaded, log_file_name(segment.base_offset)), len(self.unloaded))
        bases = (offset_of(self.unloaded[at]) for at in after if self.unloaded[at].endswith(FileKind.LOG.value))
        return next((base for base in bases if base is not None), None)

    def epoch_after(self, segment: LogSegment) -> int:
        """The first leader epoch of the next segment, loaded or not; -1: none."""
        base = self.base_after(segment)
        if base is None:
            return NO_PARTITION_LEADER_EPOCH
        with self.files.open(self.path(log_file_name(base))) as file:
            return first_leader_epochs(file)[1]

    def known_snapshots(self) -> SnapshotFiles:
        """The snapshots on the disk, kept up to date, so that a directory with thousands of files is listed once."""
        if self.snapshots is None:
            self.snapshots = SnapshotFiles.of_directory(self.files, self.directory)
        return self.snapshots

    def remove_set_aside(self) -> None:
        """Remove the snapshots that recovery found invalid and did not write again."""
        if self.snapshots is not None:
            for path in self.snapshots.aside.values():
                error = ProducerSnapshot.read(self.files, path).error() if self.files.exists(path) else None
                if error is not None:
                    note_lost_snapshot(self.report, path, error, False)
                self.files.remove(path)
            self.snapshots.aside.clear()

    def close_handlers(self) -> None:
        """Close all files, because the log could not be loaded."""
        self.deferred.release()
        self.segments.close_handlers()


def note_lost_snapshot(report: Report, path: str, error: str | None, is_rebuilt: bool) -> None:  # a callback
    """Report a producer snapshot that was removed or rebuilt. `error`: why Kafka cannot read it; None: it can."""
    report.add(Action.REBUILT if is_rebuilt else Action.REMOVED, file_name(path),
               error or "its producers were not those of the log",
               severity=Severity.WARNING if error else Severity.INFO)


class ScanAhead:
    """Scans segments in `jobs` threads; with one job a segment is scanned when `take` is called. Close it."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._idle: list[Background[SegmentScan]] = []
        self._upcoming: deque[LogSegment] = deque()
        self._begun: dict[LogSegment, Background[SegmentScan]] = {}
        self._kept: dict[int, SegmentScan] = {}
        self._kept_bytes = 0

    def expect(self, segments: Iterable[LogSegment]) -> None:
        """Set the segments that will be taken next, in this order. Scans of others that have begun are discarded."""
        expected = {segment: None for segment in segments if self._known(segment) is None}  # ordered
        for segment in [begun for begun in self._begun if begun not in expected]:
            self._begun.pop(segment).close()
        self._upcoming = deque(segment for segment in expected if segment not in self._begun)
        self._begin()

    def take(self, segment: LogSegment) -> SegmentScan:
        """The scan of `segment` in its current state."""
        while self._upcoming and self._upcoming[0] is segment:
            self._upcoming.popleft()
        scan = self._known(segment)
        begun = self._begun.pop(segment, None)
        if begun is None:
            self._begin()
            return segment.scan() if scan is None else scan
        try:
            found = begun.wait()
        finally:
            self._idle.append(begun)
            self._begin()
        return found if scan is None else scan

    def keep(self, segment: LogSegment, scan: SegmentScan) -> None:
        """Keep the scan by which `segment` was recovered: another one would be the same, up to the new end of the segment."""
        size = len(scan.offset_entries) + len(scan.time_entries)
        if scan.error is None and scan.valid_size == segment.size and self._kept_bytes + size <= _KEPT_BYTES:
            self._kept[segment.base_offset] = replace(scan, size=scan.valid_size, stop=ScanStop.END)
            self._kept_bytes += size

    def _known(self, segment: LogSegment) -> SegmentScan | None:
        scan = self._kept.get(segment.base_offset)
        return scan if scan is not None and scan.size == segment.size else None

    def _begin(self) -> None:
        if self._jobs < 2:
            return
        while self._upcoming and len(self._begun) < self._jobs:
            segment, thread = self._upcoming.popleft(), self._idle.pop() if self._idle else Background("scan")
            thread.begin(segment.scan)
            self._begun[segment] = thread

    def close(self) -> None:
        """Stop the threads and discard their results. A second call does nothing."""
        self._upcoming.clear()
        for thread in (*self._begun.values(), *self._idle):
            thread.close()
        self._begun.clear()
        self._idle.clear()
