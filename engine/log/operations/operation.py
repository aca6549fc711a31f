"""An operation on each of several logs: open it as a broker does, work, close, write its offsets to the checkpoints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import closing
from dataclasses import replace as replace_in
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import offsets_text
from engine.background import side_by_side
from engine.checkpoint.checkpoints import read_leader_epochs
from engine.checkpoint.producer_snapshot import ProducerSnapshot
from engine.discovery.names import METADATA_TOPIC, FileKind, PartitionKind, file_name, is_log_file_name, offset_of, parent_of
from engine.discovery.paths import is_brokers_log_dir
from engine.errors import KafkalogError, UnwritableFile, UsageError, argument, too_little_memory
from engine.files import is_full, nameless_file
from engine.files.layered import UnchangedFiles, WatchedFiles, WouldChange
from engine.findings import Severity
from engine.log.continuity.missing_segments import note_end, start_beyond_end
from engine.log.errors import CompactionRefused, LogDamaged, OffsetOutOfRange, RollRefused, SegmentTooLarge
from engine.log.loading.loader import REPAIRABLE
from engine.log.loading.shared import LoadOptions
from engine.log.logdir.log_manager import (
    CheckpointOffsets,
    CleanShutdownMarker,
    Listing,
    MetadataLogRefused,
    NoLogOfBrokers,
    refuse_metadata_log,
)
from engine.log.report import Action, Report, loses_records
from engine.log.verify.losses import Opened, read_evidence
from engine.overlay import OverlayFiles
from engine.overlay.tree import Spill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from engine.files import Files
    from engine.log.logdir.log_dirs import LogDir, PartitionPath
    from engine.log.logdir.log_manager import LogManager
    from engine.log.logdir.logs_07 import ReportedLog07
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.report import Event
    from engine.log.segment.log_segment import LogSegment
    from engine.log.session import OpenOptions
    from engine.log.verify.losses import Evidence

_SNAPSHOT, _EPOCHS = FileKind.PRODUCER_SNAPSHOT.value, FileKind.LEADER_EPOCH_CHECKPOINT.value


REFUSALS = (CompactionRefused, OffsetOutOfRange, RollRefused)  # the log is well, and stays as it is
# errors before any change of a log: the first opening, in memory, finds a .log that is too large
LEFT_ALONE = (LogDamaged, MetadataLogRefused, NoLogOfBrokers, SegmentTooLarge)


class Operation(ABC):
    """What a command does to each log, and what must be known before the log is opened for it. Subclasses override.

    name           the command
    for_snapshots  `work` does not append and does not ask which transactions are decided: only the producer state that
                   snapshots need is loaded, see open_log
    of_partitions  the offset of one partition means nothing in another, so log dirs cannot be named
    first          for a full disk: directories that come before the others. If the disk has no space to open such a log,
                   the segments that `work` would delete are deleted before it is opened; None: not done
    accepts_metadata_log   `work` decides what may be done to the log of the cluster's metadata
    accepts_losses         open a log even if opening it loses records, which the quarantine keeps. A log that ends below its
                           start would lose all records and is refused nevertheless
    """

    name = ""
    for_snapshots = True
    of_partitions = False
    first: frozenset[str] | None = None
    accepts_metadata_log = False
    accepts_losses = False

    @abstractmethod
    def work(self, log: UnifiedLog) -> object:
        """Work on an open log."""

    def refuse(self, log: UnifiedLog) -> None:
        """Raise what `work` would refuse. `log` is open, and nothing was changed yet, not even by opening it."""
        del log

    def ended(self, report: Report) -> None:  # noqa: B027  # nothing to note by default
        """Note that the work on a log ended, well or not. Called by the thread that did it."""

    def truncates_to(self, partition: PartitionPath) -> int | None:  # noqa: ARG002  # the same for every partition
        """The offset to which `work` truncates a log; None: it does not truncate. Missing records after it are no loss."""
        return None

    def deletes(self, log: UnifiedLog) -> Iterable[LogSegment]:  # noqa: ARG002  # none by default
        """The segments that `work` deletes or truncates by their names. Before any change the names are checked against the
        offsets of the batches.
        """
        return ()


class AnyLogOperation(Operation):
    """An operation that also supports logs of Kafka 0.7."""

    @abstractmethod
    def work(self, log: UnifiedLog | ReportedLog07) -> object:
        """Work on an open log."""

    def refuse(self, log: UnifiedLog | ReportedLog07) -> None:
        """See Operation."""
        del log


def operate(manager: LogManager, options: OpenOptions, operation: Operation) -> Iterator[Report]:
    """Do `operation` on every log of the manager's log dirs. Yields a report for each, in their order, also for failures.

    A clean shutdown marker counts as a clean start. It is removed before the first change and restored afterwards, unless
    a log failed after it was changed: a broker must not trust such a log dir. A log is opened in memory first. If that loses
    records, or if the log has already lost its end (opening it would remove the evidence), it is refused with LogDamaged:
    `recover` keeps removed bytes in a quarantine. The cluster's metadata log is refused with MetadataLogRefused.

    Raises UsageError for a log dir if the operation needs partitions.
    """
    whole = [log_dir.path for log_dir in manager.cluster.log_dirs if log_dir.is_whole]
    if whole and operation.of_partitions:
        do = f"ls -d {argument(whole[0])}/*-*    # partitions: name the directories that are meant"
        raise UsageError(f"{whole[0]}: a log dir; {operation.name} needs partitions, named one by one", do=do)
    for log_dir in manager.cluster.log_dirs:
        partitions = sorted(partitions_of(log_dir), key=lambda partition: partition.path not in (operation.first or ()))
        clean = CleanShutdownMarker(manager, log_dir)
        offsets_left: dict[PartitionPath, CheckpointOffsets] = {}
        opening = options if clean.marker is None else replace_in(options, clean_start=True)
        worker = _LogWorker(manager, opening, operation, offsets_left)

        def run(partition: PartitionPath, worker: _LogWorker = worker, clean: CleanShutdownMarker = clean) -> Report:
            watched = WatchedFiles(manager.files_of(partition.log_dir), clean.remove)
            report = worker._replace(manager=manager.over(lambda _log_dir: watched)).run(partition)
            clean.is_withheld |= report.failure is not None and watched.is_changed
            operation.ended(report)
            return report

        try:
            with closing(side_by_side(run, partitions, options.jobs)) as reports:
                yield from reports
        finally:  # also after Ctrl-C: the checkpoints must include every log that was reported as done
            if offsets_left:
                clean.remove()
            note(manager, log_dir, offsets_left)
        clean.restore()


def _keeps_log_starts(files: Files, log_dir: str) -> bool:
    return files.exists(f"{log_dir}/{FileKind.LOG_START_CHECKPOINT.value}")


def _note_start_within_segment(
    manager: LogManager, partition: PartitionPath, offsets_left: CheckpointOffsets, report: Report
) -> None:
    """Report a log start offset within a segment that no checkpoint records, as in a copy of a partition without one."""
    files = manager.files_of(partition.log_dir)
    if offsets_left.begins_within_a_segment and not (
        is_brokers_log_dir(files, partition.log_dir) or _keeps_log_starts(files, partition.log_dir)
    ):
        start, name = offsets_left.log_start_offset, FileKind.LOG_START_CHECKPOINT.value
        why = (f"offset {start} is inside the first segment, and there is no {name} beside the partition that records it: "
               f"give it to the next command with --log-start-offset {start}")
        report.add(Action.EXPLAINED, "", why, offsets=(start, None))


def partitions_of(log_dir: LogDir) -> list[PartitionPath]:
    """The logs of topics. The metadata log only if it was named itself, because other rules apply to it."""
    if not log_dir.is_whole:
        return list(log_dir.directories)
    partitions = log_dir.partitions(PartitionKind.PLAIN, PartitionKind.FUTURE)
    return [partition for partition in partitions if partition.name.topic != METADATA_TOPIC]


def note(manager: LogManager, log_dir: LogDir, offsets_left: Mapping[PartitionPath, CheckpointOffsets]) -> None:
    """Write the final offsets of logs, whose files are changed already, to the checkpoints of a broker's log dir.

    In a copy of partitions only an existing log-start-offset-checkpoint is updated.
    """
    files = manager.files_of(log_dir.path)

    def write() -> None:
        if offsets_left and is_brokers_log_dir(files, log_dir.path):
            manager.checkpoint(log_dir, offsets_left)
        elif offsets_left and _keeps_log_starts(files, log_dir.path):
            manager.checkpoint_log_starts(log_dir, offsets_left)

    finish_despite_interrupt(write)


def finish_despite_interrupt(write: Callable[[], None]) -> None:
    """Call `write`. A KeyboardInterrupt during the call is raised after it is done."""
    try:
        write()
    except KeyboardInterrupt:
        write()
        raise


def work_on(load: Callable[[bool], UnifiedLog], clean_start: bool, work: Callable[[UnifiedLog], object]) -> UnifiedLog:
    """Load a log, do `work` on it and return it, still open. A refusal by the log becomes an event of its report.

    load  opens the log; its argument: as after a clean shutdown
    If `work` finds damage at which a broker would fail too, the log is recovered and `work` is done again.
    """
    log = load(clean_start)
    try:
        return _worked(log, work)
    except REPAIRABLE as error:
        if not clean_start:
            raise
        reason = f"a broker would fail here: {error}"
        log.report.add(Action.REBUILT, "", reason, severity=Severity.WARNING)
    return _worked(load(False), work)


def _worked(log: UnifiedLog, work: Callable[[UnifiedLog], object]) -> UnifiedLog:
    try:
        work(log)
    except REFUSALS as error:
        log.report.add(Action.REFUSED, "", str(error))
    except BaseException:
        log.close_handlers()
        raise
    return log


class _LogWorker(NamedTuple):
    """An operation on the logs of one log dir. Collects their final offsets in `offsets_left`."""

    manager: LogManager
    options: OpenOptions
    operation: Operation
    offsets_left: dict[PartitionPath, CheckpointOffsets]

    def run(self, partition: PartitionPath) -> Report:
        """Open the log at `partition`, work on it and close it. A failure becomes part of the report."""
        report = Report(partition.path, self.operation.name)
        try:
            if not self.operation.accepts_metadata_log:
                refuse_metadata_log(partition.path, partition.name.topic)
            if isinstance(self.operation, AnyLogOperation) and self.manager.is_07(partition):
                return self._run_07(partition, self.operation)
            self.manager.refuse_malformed_checkpoints(partition.log_dir)
            if self._ends_before_target(partition, report):
                return report
            try:
                self.offsets_left[partition] = self._run(partition, report)
            except UnwritableFile as error:
                start = self._freed(partition, report) if self.operation.first is not None and is_full(error) else None
                if start is None:
                    raise
                again = self._replace(options=replace_in(self.options, log_start_offset=start))
                self.offsets_left[partition] = again._run(partition, report)  # noqa: SLF001  # of its own class
            _note_start_within_segment(self.manager, partition, self.offsets_left[partition], report)
        except REFUSALS as error:
            report.add(Action.REFUSED, "", str(error))
        except KafkalogError as error:
            report.failure = error
        except MemoryError:
            report.failure = too_little_memory(partition.path)
        report.events = [event for event in report.events if not self._is_asked_for(partition, event)]
        return report

    def _is_asked_for(self, partition: PartitionPath, event: Event) -> bool:
        """Does `event` report a doubt about records that the operation truncates? A truncation that was stopped leaves them."""
        target = self.operation.truncates_to(partition)
        return (target is not None and event.action is Action.MISSING and event.severity is Severity.WARNING
                and is_log_file_name(event.path) and (event.first_offset or 0) >= target)

    def _run(self, partition: PartitionPath, report: Report) -> CheckpointOffsets:
        def load(clean_start: bool) -> UnifiedLog:
            return self._load_without_loss(partition, report, clean_start=clean_start)

        log = work_on(load, self.options.clean_start, partial(self._work, partition))
        return closed(log, keep_deleted=self.options.keep_deleted)

    def _run_07(self, partition: PartitionPath, operation: AnyLogOperation) -> Report:
        """Do the operation on a log of 0.7, which has no checkpoints."""
        from engine.log.logdir.logs_07 import refuse_offsets_07  # few log dirs have such logs

        options = self.options
        refuse_offsets_07(partition, options.recovery_point, options.log_start_offset, options.high_watermark)
        rehearsal, report = Report(partition.path, self.operation.name), Report(partition.path, self.operation.name)
        overlay = OverlayFiles(self.manager.files_of(partition.log_dir), self.manager.now)
        with self.manager.load_07(partition, rehearsal, clean_start=options.clean_start, files=overlay) as log:
            if not self.operation.accepts_losses:
                self._refuse_losses(partition, rehearsal)
            operation.refuse(log)
        with self.manager.load_07(partition, report, clean_start=options.clean_start) as log:
            operation.work(log)
            log.flush()
            log.note_offsets()
        return report

    def _work(self, partition: PartitionPath, log: UnifiedLog) -> None:
        self._set_high_watermark(partition, log)
        self.operation.work(log)

    def _set_high_watermark(self, partition: PartitionPath, log: UnifiedLog) -> None:
        asked = self.options.high_watermark
        noted = self.manager.high_watermark(partition) if asked is None else asked
        log.update_high_watermark(log.log_end_offset if noted is None else noted)

    def _ends_before_target(self, partition: PartitionPath, report: Report) -> bool:
        """Does the log end at or before the target? Then it was opened in memory only, and no file is changed.

        If a file has offsets after the target, a truncation was interrupted: the answer is no, so that it is completed.
        Raises LogDamaged if opening the log loses records, or if the log has lost its end.
        """
        target = self.operation.truncates_to(partition) or 0
        if target <= 0:
            return False
        disk = self.manager.files_of(partition.log_dir)
        evidence = self._evidence(partition, Listing.read(disk, partition))
        if any(claim.end > target for claim in evidence.claims):
            return False
        rehearsal = Report(partition.path, self.operation.name)
        with closing(Spill(nameless_file)) as spill:
            overlay = OverlayFiles(disk, self.manager.now, spill)
            log = self._opened(partition, rehearsal, overlay, clean_start=self.options.clean_start)
            if log.log_end_offset > target:
                log.close_handlers()
                return False
            log.close()
        self._refuse_losses(partition, rehearsal)
        _refuse_lost_end(partition, None, evidence, log, report)
        report.copy_log_state(rehearsal)
        why = f"nothing to truncate: the log ends at offset {log.log_end_offset}; no file was changed"
        report.add(Action.EXPLAINED, "", why)
        return True

    def _refuse(self, partition: PartitionPath, evidence: Evidence, log: UnifiedLog, report: Report) -> None:
        """Raise LogDamaged if the log has lost its end, or if `work` would delete segments with a name that contradicts their
        sound batches. Raise what `work` refuses.
        """
        _refuse_lost_end(partition, self.operation.truncates_to(partition), evidence, log, report)
        self._refuse_work(partition, log, report)
        log.local_log.refuse_contradicted(self.operation.deletes(log))

    def _refuse_work(self, partition: PartitionPath, log: UnifiedLog, report: Report) -> None:
        """Raise what the work refuses; `report` takes how the log stands then."""
        self._set_high_watermark(partition, log)
        try:
            self.operation.refuse(log)
        except REFUSALS:
            log.describe()
            report.copy_log_state(log.report)
            raise

    def _freed(self, partition: PartitionPath, report: Report) -> int | None:
        """See delete_oldest_segments. Raises LogDamaged, before anything is removed, if opening the log loses records or the
        evidence of lost ones.
        """
        disk = self.manager.files_of(partition.log_dir)
        evidence = self._evidence(partition, Listing.read(disk, partition))

        def load(files: Files) -> UnifiedLog:
            rehearsal = Report(partition.path, self.operation.name)
            log = self._opened(partition, rehearsal, files, clean_start=self.options.clean_start)
            try:
                self._refuse_losses(partition, rehearsal)
                self._refuse(partition, evidence, log, report)
            except LogDamaged:
                log.close_handlers()
                raise
            return log

        from engine.log.operations.full_disk import delete_oldest_segments

        return delete_oldest_segments(disk, partition.path, self.manager.now, load, partial(self._work, partition), report)

    def _opened(
        self, partition: PartitionPath, into: Report, files: Files, listing: Listing | None = None, *, clean_start: bool
    ) -> UnifiedLog:
        options = LoadOptions(
            recovery_point=self.options.recovery_point, log_start_offset=self.options.log_start_offset,
            for_snapshots=self.operation.for_snapshots,
        )
        return self.manager.load(partition, into, options, clean_start=clean_start, files=files, listing=listing)

    def _load_without_loss(self, partition: PartitionPath, report: Report, *, clean_start: bool) -> UnifiedLog:
        """Open a log and add what was done to `report`.

        Raises LogDamaged, before anything is changed, if opening loses records, or removes the evidence that records were lost
        before. After a clean shutdown most logs open without a change; all others are opened in memory first.
        """
        opened = partial(self._opened, partition, clean_start=clean_start)
        disk = self.manager.files_of(partition.log_dir)
        listing = Listing.read(disk, partition)
        if self.operation.accepts_losses:
            evidence = self._evidence(partition, listing)
            rehearsal = Report(partition.path, self.operation.name)
            with closing(Spill(nameless_file)) as spill:
                log = opened(rehearsal, OverlayFiles(disk, self.manager.now, spill), listing)
                try:
                    if self._begins_beyond_end(partition):
                        self._refuse_losses(partition, rehearsal)
                    self._refuse_work(partition, log, report)
                finally:
                    log.close_handlers()
            log = opened(report, disk, listing)
            note_end(report, log, evidence)
            return log
        unchanged = None
        if clean_start and not listing.lacks_index:
            unchanged = open_without_change(lambda files: opened(report, files, listing), disk, report)
        if unchanged is not None:
            with unchanged as log:
                self._refuse(partition, self._evidence(partition, listing, unchanged.known), log, report)
            return log
        rehearsal = Report(partition.path, self.operation.name)
        with closing(Spill(nameless_file)) as spill:  # a producer snapshot may be as large as the producers in memory
            log = opened(rehearsal, OverlayFiles(disk, self.manager.now, spill), listing)
            try:
                self._refuse_losses(partition, rehearsal)
                self._refuse_replacing(partition, rehearsal, listing, log)
                self._refuse(partition, self._evidence(partition, listing, Opened(log.log_end_offset)), log, report)
            finally:
                log.close_handlers()
        return opened(report, disk)

    def _begins_beyond_end(self, partition: PartitionPath) -> bool:
        """Does the log end below its start? Opening it would remove the whole log, more than any damage does."""
        start = self.options.log_start_offset
        if start is None:
            start = self.manager.offsets(partition.log_dir, FileKind.LOG_START_CHECKPOINT).get(partition.key, 0)
        return start > 0 and start_beyond_end(self.manager.files_of(partition.log_dir), partition.path, start) is not None

    def _evidence(self, partition: PartitionPath, listing: Listing, opened: Opened | None = None) -> Evidence:
        """Read what other files say about the end of the log, before anything is changed."""
        return read_evidence(self.manager.files_of(partition.log_dir), partition.path,
                             lambda kind: self.manager.offsets(partition.log_dir, kind).get(partition.key), of_end_only=True,
                             names=listing.plain, opened=opened)

    def _refuse_losses(self, partition: PartitionPath, rehearsal: Report) -> None:
        """Raise LogDamaged if opening the log in memory, with the same options, lost records."""
        losses = [event for event in rehearsal.events if loses_records(event)]
        if losses:
            first = losses[0]
            what = f"{partition.path}: opening it would lose records of {first.path}: {first.reason}"
            given = {"--recovery-point": self.options.recovery_point, "--log-start-offset": self.options.log_start_offset}
            same = "".join(f"{name} {offset} " for name, offset in given.items() if offset is not None)
            do = f"kafkalog recover --dry-run {same}{argument(partition.path)}    # truncated bytes are kept in a quarantine"
            raise LogDamaged(what, do=do)

    def _refuse_replacing(self, partition: PartitionPath, rehearsal: Report, listing: Listing, log: UnifiedLog) -> None:
        """Raise LogDamaged if opening the log removes a file that no quarantine keeps, and that nothing can replace completely.

        Epochs of leaders that wrote nothing are in no batch. Producers before the log start are in snapshots only.
        """
        files, start = self.manager.files_of(partition.log_dir), log.log_start_offset
        if files.keeps:
            return
        corrupt = [event for event in rehearsal.events
                   if event.severity is Severity.WARNING and event.action in (Action.REBUILT, Action.REMOVED)]
        lost = [event for event in rehearsal.find(Action.MISSING)
                if is_log_file_name(event.path) and not self._is_asked_for(partition, event)]
        lost += [event for event in corrupt if event.path == _EPOCHS and _has_content(files, f"{partition.path}/{_EPOCHS}")]
        snapshots = [event for event in corrupt if event.path.endswith(_SNAPSHOT)]
        if snapshots and start > 0 and not _has_sound_snapshot(files, partition.path, listing.plain, start):
            lost += snapshots
        if lost:
            what = f"{partition.path}: opening it would delete the only copy: {lost[0].path} - {lost[0].reason}"
            do = f"kafkalog recover {argument(partition.path)}    # keeps the file in a quarantine"
            raise LogDamaged(what, do=do, path=partition.path)


def _has_content(files: Files, path: str) -> bool:
    """Does the leader-epoch-checkpoint at `path` hold anything?"""
    checkpoint = read_leader_epochs(files, path)
    return bool(checkpoint.entries) or checkpoint.fault is not None


def _has_sound_snapshot(files: Files, directory: str, names: Iterable[str], start: int) -> bool:
    """Can one of the snapshots after offset `start` be read? Brokers do not use those before it."""
    return any(
        ProducerSnapshot.read(files, f"{directory}/{name}").error() is None
        for name in names if name.endswith(_SNAPSHOT) and (offset_of(name) or 0) > start
    )  # fmt: skip


def closed(log: UnifiedLog, first: Callable[[], object] = lambda: None, *, keep_deleted: bool) -> CheckpointOffsets:
    """Call `first`, read the log's final offsets and close it. After an error its files are closed without a change."""
    try:
        first()
        offsets_left = CheckpointOffsets.of(log)
    except BaseException:
        log.close_handlers()
        raise
    log.close(keep_deleted=keep_deleted)
    return offsets_left


class Unchanged:
    """A log that was opened without a change of the disk. In a `with` statement it is read-only; afterwards it may be changed.

    After an error in the `with` statement its files are closed.
    """

    def __init__(self, log: UnifiedLog, guarded: UnchangedFiles) -> None:
        self._log, self._guarded = log, guarded

    @property
    def known(self) -> Opened:
        """What was read when the log was opened."""
        log = self._log
        return Opened(log.log_end_offset, log.leader_epoch_cache.entries, log.segments.active_segment.last_indexed())

    def __enter__(self) -> UnifiedLog:
        return self._log

    def __exit__(self, error: object, *_more: object) -> None:
        """Allow changes, or after an error close the files."""
        if error is None:
            self._guarded.release()
        else:
            self._log.close_handlers()


def open_without_change(load: Callable[[Files], UnifiedLog], disk: Files, report: Report) -> Unchanged | None:
    """Open a log. Returns None and restores `report` if that needs a change. After a clean shutdown few logs need one."""
    guarded, events = UnchangedFiles(disk), list(report.events)
    try:
        return Unchanged(load(guarded), guarded)
    except WouldChange:
        report.events = events
        return None


def _refuse_lost_end(partition: PartitionPath, wanted: int | None, evidence: Evidence, log: UnifiedLog, report: Report) -> None:
    """Raise LogDamaged if other files prove that the log lost its end: opening it for writing would remove them.

    wanted  the offset to which the log will be truncated; None: it will not be truncated
    If the high watermark is the only evidence, it is only reported: opening the log does not change it.
    """
    claims = evidence.beyond(log.log_end_offset)
    if not claims:
        return
    is_flushed = any(claim.code == "checkpoint-beyond-log" for claim in claims)
    if wanted is not None and (wanted <= log.log_end_offset or not is_flushed):
        return  # an interrupted truncation: it lowers the checkpoints first, so indexes and snapshots may be too high
    found = Report(partition.path, report.operation)
    note_end(found, log, evidence)
    if {file_name(claim.path) for claim in claims} == {FileKind.REPLICATION_CHECKPOINT.value}:
        report.events += found.events
    elif found.events:
        first, last = found.events[0], found.events[-1]
        offsets = offsets_text(first.first_offset or 0, last.end_offset)
        what = f"{partition.path}: the log has lost {offsets}, and opening it would remove the evidence: {first.reason}"
        # only the recovery of a whole log dir corrects its checkpoints
        target = partition.log_dir if any(parent_of(claim.path) == partition.log_dir for claim in claims) else partition.path
        do = (f"kafkalog recover --dry-run {argument(target)}    # reports what is missing; removed files are kept in a "
              "quarantine")
        raise LogDamaged(what, do=do, path=partition.path)
