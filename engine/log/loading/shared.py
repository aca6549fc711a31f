"""What the steps of loading a partition share: its segments so far, what is known of its files, how a segment is recovered."""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING

from engine.discovery.names import FileKind, file_name, log_file_name, offset_of, transaction_index_file_name
from engine.findings import Severity
from engine.formats import NO_PARTITION_LEADER_EPOCH
from engine.log.epochs.runs import first_leader_epochs
from engine.log.errors import SegmentOffsetOverflow, SplitFailed
from engine.log.loading.recovery import Recovering, recover_cut, recover_segment
from engine.log.producers.loading import delete_producer_snapshots
from engine.log.producers.snapshot_files import SnapshotFiles
from engine.log.report import Action
from engine.log.segment.batch_search import sound_heads
from engine.log.segment.deferred import DeferredDeletion
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.log_segments import LogSegments
from engine.log.segment.scan_ahead import ScanAhead
from engine.log.segment.splitting import SwapPlace, split_overflowed_segment
from engine.log.tiering import Tiering, nothing_known

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from engine.config.topic import LogConfig
    from engine.files import Files
    from engine.log.epochs.leader_epoch_cache import LeaderEpochFileCache
    from engine.log.epochs.runs import EpochRuns
    from engine.log.producers.state_manager import ProducerStateManager
    from engine.log.report import Report
    from engine.log.segment.segment_scan import SegmentScan
    from engine.log.tiering import Policy

    T = TypeVar("T")


class Loading:
    """A partition while it is loaded: what stands in its files so far, and what the steps of loading share.

    epochs, producers  as they stand in the files; brought in line with the segments
    jobs               segments that are read side by side
    names              of the plain files in the directory; None: nobody has listed them yet
    tiering            are older segments in remote storage?
    in_order           segments without an offset index wait for the recovery if that reaches them: Kafka recovers them
                       while loading, and fails if one before them is damaged
    settles_epochs, policy  see open_log

    Afterwards `segments` and `deferred` belong to the log.
    """

    def __init__(
        self, files: Files, directory: str, config: LogConfig, *, now: int, clean_shutdown: bool, recovery_point: int,
        log_start_offset: int, epochs: LeaderEpochFileCache, producers: ProducerStateManager, report: Report,
        jobs: int = 1, in_order: bool = False, names: list[str] | None = None, tiering: Tiering = Tiering.UNTIERED,
        settles_epochs: bool = False, policy: Policy = nothing_known,
    ) -> None:
        self.in_order, self.tiering, self.settles_epochs, self.policy = in_order, tiering, settles_epochs, policy
        self.files, self.directory, self.config, self.now = files, directory, config, now
        self.clean_shutdown, self.recovery_point, self.log_start_offset = clean_shutdown, recovery_point, log_start_offset
        self.epochs, self.producers, self.report = epochs, producers, report
        self.segments = LogSegments()
        self.deferred = DeferredDeletion(files, directory, report)
        producers.on_corrupt_snapshot = partial(note_corrupt_snapshot, report)  # no circle: a table may be large
        self.scans = ScanAhead(jobs)
        self.names = names  # of the files that are there, once left-overs are settled; at the end those that surely are
        self.listed: list[str] = []  # `names`, for the first time that segments are loaded
        self.unloaded: list[str] = []  # names of files in order, while not all of their segments are loaded
        self._last_epochs: dict[int, tuple[int, int]] = {}  # see Recovering
        self.epoch_runs: dict[int, EpochRuns] = {}  # of segments that were read, by base offset
        self.snapshots: SnapshotFiles | None = None  # as the recovery of segments leaves them; None: not looked yet
        self.unsplittable: dict[int, SplitFailed] = {}  # why, by base offset, of segments whose offsets do not fit them

    @property
    def active(self) -> LogSegment:
        """The last segment."""
        return self.segments.active_segment

    def path(self, name: str) -> str:
        """That of the file with this name."""
        return f"{self.directory}/{name}"

    def open_segment(self, base_offset: int, there: set[str] | None = None) -> LogSegment:
        """The segment that begins there, with its files open. `there`: the names that the directory has, if they are known."""
        has_txn_index = None if there is None else transaction_index_file_name(base_offset) in there
        return LogSegment(self.files, self.directory, base_offset, self.config, self.now, has_txn_index=has_txn_index)

    def new_segment(self, base_offset: int) -> None:
        """An empty segment, where there is none."""
        segment = LogSegment(self.files, self.directory, base_offset, self.config, self.now, file_already_exists=False)
        self.segments.add(segment)
        self.report.add(Action.CREATED, log_file_name(base_offset), "there was no segment",
                        offsets=(base_offset, base_offset), size=0)

    def retry_on_overflow(self, work: Callable[[], T]) -> T:
        """Do `work` until no segment's offsets overflow its index; each that does is split."""
        while True:
            try:
                return work()
            except SegmentOffsetOverflow as error:
                try:
                    self._split(error.base_offset)
                except SplitFailed as failed:
                    self.unsplittable[error.base_offset] = failed

    def _split(self, base_offset: int) -> None:
        segment = self.segments.get(base_offset) or self.open_segment(base_offset)
        place = SwapPlace(self.files, self.directory, self.config, self.now, self.segments, self.report, self.deferred)
        deleted, _ = split_overflowed_segment(place, segment)
        self.remove_set_aside()
        self.snapshots = None  # the next line removes some behind its back
        delete_producer_snapshots(deleted, self.producers, self.deferred)

    def recover_segment(
        self, segment: LogSegment, scan: SegmentScan, *, damage_ends_it: bool, before_cut: Callable[[], object] = lambda: None,
    ) -> int:
        """Recover `segment`; returns the bytes cut. Raises SegmentOffsetOverflow where it can be split.

        before_cut  see Recovering
        """
        log = Recovering(
            self.files, self.directory, self.config, self.now, self.log_start_offset, self.segments, self.epochs,
            self.producers, self.report, self._known_snapshots(), before_cut, self._base_after, self._epoch_behind,
            self._end_of_epoch, self._last_epochs, self.epoch_runs,
        )  # fmt: skip
        try:
            return recover_segment(log, segment, scan, damage_ends_it=damage_ends_it)
        except SegmentOffsetOverflow:
            if segment.base_offset not in self.unsplittable:
                raise
            return recover_cut(log, segment, scan, self.unsplittable[segment.base_offset])
        finally:
            for one in (self.segments.lower_segment(segment.base_offset), segment):
                if one is not None:
                    one.release_log()

    def _end_of_epoch(self, segment: LogSegment, epoch: int, end_offset: int) -> tuple[int, int]:
        """See Recovering. Reads no further than to the first batch of another epoch."""
        behind = [one.base_offset for one in self.segments if one.base_offset > segment.base_offset]
        listed = (offset_of(name) for name in self.unloaded if name.endswith(FileKind.LOG.value))
        behind += [base for base in listed if base is not None and base > segment.base_offset]
        for base in sorted(set(behind)):
            with self.files.open(self.path(log_file_name(base))) as file:
                for head in sound_heads(file):
                    if head.leader_epoch != epoch:
                        return end_offset, head.leader_epoch
                    end_offset = head.next_offset
        return end_offset, NO_PARTITION_LEADER_EPOCH

    def _base_after(self, segment: LogSegment) -> int | None:
        """See Recovering."""
        above = self.segments.higher_segment(segment.base_offset)
        if above is not None:
            return above.base_offset
        behind = range(bisect_right(self.unloaded, log_file_name(segment.base_offset)), len(self.unloaded))
        bases = (offset_of(self.unloaded[at]) for at in behind if self.unloaded[at].endswith(FileKind.LOG.value))
        return next((base for base in bases if base is not None), None)

    def _epoch_behind(self, segment: LogSegment) -> int:
        """See Recovering."""
        base = self._base_after(segment)
        if base is None:
            return NO_PARTITION_LEADER_EPOCH
        with self.files.open(self.path(log_file_name(base))) as file:
            return first_leader_epochs(file)[1]

    def _known_snapshots(self) -> SnapshotFiles:
        if self.snapshots is None:
            self.snapshots = SnapshotFiles.of_directory(self.files, self.directory)
        return self.snapshots

    def remove_set_aside(self) -> None:
        """Remove the snapshots that recovery found invalid, and did not write anew."""
        if self.snapshots is not None:
            for path in self.snapshots.aside.values():
                self.files.remove(path)
            self.snapshots.aside.clear()

    def close_handlers(self) -> None:
        """Let go of all files: the log could not be loaded."""
        self.deferred.release()
        self.segments.close_handlers()


def note_corrupt_snapshot(report: Report, path: str, error: str) -> None:
    """Report a producer snapshot that was removed because of `error`."""
    report.add(Action.REMOVED, file_name(path), error, severity=Severity.WARNING)
