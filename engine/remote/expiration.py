"""Plan which remote segments the next leader of a partition deletes, and why. Mirrors RLMExpirationTask of RemoteLogManager.

The plan repeats rounds until a round deletes nothing, because a round moves the log start offset and the first leader epoch,
which the next round uses. Nothing is changed.
"""

from __future__ import annotations

from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of, exact_duration, offsets_text
from engine.checkpoint.checkpoints import EpochEntry
from engine.discovery.names import FileKind
from engine.errors import KafkalogError
from engine.findings import Severity
from engine.log.fetch.view import PartitionView
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.startup import survey_all
from engine.log.logdir.topics import Topics
from engine.log.report import Action, moment
from engine.log.tiering import Tiering, read_starts
from engine.remote.lineage import Lineage, with_records
from engine.remote.metadata_log import MetadataLogs
from engine.remote.records import State
from engine.remote.tiered_log import TieredLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from engine.findings import Finding
    from engine.log.report import Report
    from engine.log.session import Session
    from engine.remote.metadata import PartitionMetadata, RemoteLogMetadata, RemoteSegment


class Reason(Enum):
    """The reason why a leader deletes a segment."""

    DELETION_BEGAN = "its deletion began and did not finish"
    LOG_START = "all its offsets are before the log start offset"
    TIME = "retention.ms"
    SIZE = "retention.bytes"
    UNREFERENCED = "all its leader epochs are before the first one that the leader knows"


class Due(NamedTuple):
    """A segment that is deleted.

    limit  SIZE: bytes that remain after the deletion; LOG_START: the log start offset; UNREFERENCED: the leader's first epoch
    """

    segment: RemoteSegment
    reason: Reason
    limit: int = 0


class Expiration(NamedTuple):
    """The plan of deletions.

    found_start       log start offset before the deletions, after the leader has searched its first remote segment
    log_start_offset  log start offset after the deletions
    due               deleted segments, in order
    kept              the first segment of the history that is kept; None: there is none
    """

    found_start: int
    log_start_offset: int
    due: list[Due]
    kept: RemoteSegment | None


def plan_expiration(log: TieredLog, now: int) -> Expiration:
    """Plan the deletions of a leader with this log at `now` (ms), after its copy task. `log.remote` must not be None."""
    assert log.remote is not None, "no record names the partition"
    entries, start = log.lineage.entries, log.log_start_offset
    if not log.config.remote_log_copy_disable:  # only the copy task searches for the log start
        start = max(start, _find_log_start_offset(log, log.remote))
    found_start, deleted = start, set[bytes]()
    due: list[Due] = []
    while True:
        current = _Round(log, log.remote, _from(entries, start), deleted, start, now)
        if not current.run():
            return Expiration(found_start, start, due, current.kept)
        due += current.due
        deleted.update(one.segment.id for one in current.due)
        start, entries = current.start, current.epochs


def _find_log_start_offset(log: TieredLog, remote: PartitionMetadata) -> int:
    """Return the start offset of the first remote segment. Mirrors RemoteLogManager.findLogStartOffset."""
    for entry in log.lineage.entries:
        first = next(remote.segments_of(entry.epoch), None)
        if first is not None:
            return first.start_offset
    return log.local_log_start_offset


def _from(entries: Sequence[EpochEntry], start: int) -> tuple[EpochEntry, ...]:
    """Return the epochs of a log that begins at `start` (LeaderEpochFileCache.truncateFromStart)."""
    first = [EpochEntry(entry.epoch, start) for entry in entries if entry.start_offset <= start][-1:]
    return (*first, *(entry for entry in entries if entry.start_offset > start))


class _Round:
    """One run of the expiration task. See Expiration. `deleted`: ids of segments that earlier rounds deleted."""

    def __init__(
        self, log: TieredLog, remote: PartitionMetadata, epochs: tuple[EpochEntry, ...], deleted: set[bytes], start: int,
        now: int,
    ) -> None:  # fmt: skip
        self._log, self._remote, self._now = log, remote, now
        filled = [EpochEntry(*entry) for entry in with_records(tuple((one.epoch, one.start_offset) for one in epochs))]
        self._lineage = Lineage(filled, log.view.log_end_offset)
        self.epochs, self.start = epochs, start
        self.due: list[Due] = []
        self.kept: RemoteSegment | None = None
        self._deleted = set(deleted)

    def run(self) -> bool:
        """Plan the deletions of the round; False: there are none."""
        self._walk()
        if self.epochs:
            self.epochs = _from(self.epochs, self.start)
            self._unreferenced(self.epochs[0].epoch)
        return bool(self.due)

    def _segments_of(self, epoch: int) -> Iterator[RemoteSegment]:
        return (one for one in self._remote.segments_of(epoch) if one.id not in self._deleted)

    def _add(self, segment: RemoteSegment, reason: Reason, limit: int = 0) -> None:
        self.due.append(Due(segment, reason, limit))
        self._deleted.add(segment.id)

    def _walk(self) -> None:
        """Plan from the first epoch on, up to the first segment of the history that is kept."""
        start, excess = self.start, self._excess()
        for epoch in (entry.epoch for entry in self._lineage.entries):
            for one in self._segments_of(epoch):
                if one.state is State.DELETE_SEGMENT_STARTED:
                    self._add(one, Reason.DELETION_BEGAN)
                    continue
                if self._is_before(one, start):
                    self._add(one, Reason.LOG_START, start)
                    continue
                if not self._lineage.has(one):
                    continue
                if self._is_old(one):
                    excess = max(0, excess - one.size)
                    self._add(one, Reason.TIME)
                elif 0 < excess >= one.size:
                    excess -= one.size
                    self._add(one, Reason.SIZE, self._log.config.retention_size + excess)
                else:
                    self.kept = one
                    return
                self.start = max(self.start, one.end_offset + 1)

    def _is_before(self, segment: RemoteSegment, start: int) -> bool:
        """Are all records of the segment before the log start offset? Mirrors isSegmentBreachByLogStartOffset."""
        first = self._lineage.entries[0].epoch
        return segment.end_offset < start and all(epoch <= first for epoch, _ in segment.leader_epochs)

    def _is_old(self, segment: RemoteSegment) -> bool:
        limit = self._log.config.retention_ms
        return limit >= 0 and segment.max_timestamp_ms < self._now - limit

    def _excess(self) -> int:
        """Return the bytes of the log, remote and local, above retention.bytes (buildRetentionSizeData)."""
        limit = self._log.config.retention_size
        if limit < 0:
            return 0
        highest = -1 if self._log.config.remote_log_copy_disable else self._log.highest_remote_offset
        local = sum(one.size for one in self._log.view.segments if one.base_offset >= highest)
        copied = {
            one.id: one.size for entry in self._lineage.entries for one in self._segments_of(entry.epoch)
            if one.state is State.COPY_SEGMENT_FINISHED and self._lineage.has(one)
        }  # fmt: skip
        return max(0, local + sum(copied.values()) - limit)

    def _unreferenced(self, first: int) -> None:
        """Plan segments with epochs before the leader's first one (deleteLogSegmentsDueToLeaderEpochCacheTruncation)."""
        for epoch in self._remote.epochs():
            if epoch >= first:
                return
            for one in self._segments_of(epoch):
                if all(other < first for other, _ in one.leader_epochs):
                    self._add(one, Reason.UNREFERENCED, first)


class RemoteRetention:
    """Adds to the reports of partitions which remote segments the next leader deletes, and why.

    log_dirs  further log dirs with logs of __remote_log_metadata
    report    receives damage in these logs
    Raises UnreadableFile.
    """

    def __init__(self, session: Session, log_dirs: Sequence[str], report: Callable[[Finding], None]) -> None:
        self._files, self._options = session.dirs.disk, session.options
        self._directories = {replica.path for log_dir in session.log_dirs for replica in log_dir.partitions()}
        self._paths = list(dict.fromkeys((*(one.path for one in session.log_dirs), *log_dirs)))
        self._report = report

    @cached_property
    def _metadata(self) -> RemoteLogMetadata:
        return MetadataLogs(self._files, self._paths, self._report, is_needed=False).read()

    @cached_property
    def _topics(self) -> Topics:
        return Topics(self._files, survey_all(self._files, find_log_dirs(self._files, self._paths)), self._options.settings)

    def explained(self, reports: Iterable[Report]) -> Iterator[Report]:
        """Yield the reports with the additions. An error becomes the failure of its report."""
        for report in reports:
            try:
                self._explain(report)
            except KafkalogError as error:
                report.failure = error
            yield report

    def _explain(self, report: Report) -> None:
        directory, now = report.directory, self._options.now
        if directory not in self._directories or report.failure is not None:
            return
        config, tiering = self._topics.config(directory), self._topics.tiering(directory)
        if not read_starts(self._files, directory).are_of_tiered(tiering):
            return
        view = PartitionView(self._files, directory, self._report, config=config)
        try:
            log = TieredLog(self._files, view, config, tiering, self._metadata)
            if tiering is Tiering.UNKNOWN:
                report.add(Action.EXPLAINED, "", _DEFAULTS)
            if log.remote is not None:
                _Explanation(log, plan_expiration(log, now), now, report).add_all()
            elif log.log_start_offset < log.local_log_start_offset:
                first, local = log.log_start_offset, log.local_log_start_offset
                what = (f"{offsets_text(first, local)}: remote, and no record of the segments was read: name the other "
                        "logs of __remote_log_metadata by --log-dir; if there are none, its leader moves the log start offset "
                        f"to {local}")
                report.add(Action.EXPLAINED, "", what)
        finally:
            view.close()


_DEFAULTS = ("the settings of the topic are not known, so the defaults count: name the log dir with __cluster_metadata-0 by "
             "--log-dir, or the settings by --config")


class _Explanation:
    """Adds a plan to a report as events."""

    def __init__(self, log: TieredLog, plan: Expiration, now: int, report: Report) -> None:
        self._log, self._plan, self._now, self._report = log, plan, now, report

    def add_all(self) -> None:
        """Add the deleted segments, the first one that is kept, and problems in the files that determine the plan."""
        plan = self._plan
        for one in plan.due:
            segment = one.segment
            self._add(Action.EXPLAINED, segment.name, f"remote: its leader deletes it: {self._why(one)}", segment)
        if plan.kept is not None:
            self._add(Action.EXPLAINED, plan.kept.name, f"remote: the first that is kept: {self._when(plan.kept)}", plan.kept)
        if plan.log_start_offset > plan.found_start:
            what = f"its leader moves the log start offset to {plan.log_start_offset} with the deletion"
            self._report.add(Action.EXPLAINED, "", what)
        self._add_doubts()

    def _add_doubts(self) -> None:
        log, plan = self._log, self._plan
        lost = [one for one in plan.due if one.reason is Reason.UNREFERENCED and one.segment.end_offset >= log.log_start_offset]
        if lost:
            first = lost[0].limit
            what = (f"it has no leader epoch before {first}, but the log begins at offset {log.log_start_offset}: a leader "
                    f"with this file deletes {count_of(len(lost), 'remote segment')} that can be read now. Start no broker on "
                    "it: take the file of another replica, or the leader epochs of the last remote segment in the store")
            self._add_problem(FileKind.LEADER_EPOCH_CHECKPOINT, what, lost)
        elif plan.found_start > log.log_start_offset and log.starts.line is not None:
            what = (f"its leader moves the log start offset from {log.log_start_offset} to {plan.found_start}: no record names "
                    "a remote segment of the offsets between; kafkalog remote repair-metadata adds records for those in the "
                    "store")
            self._report.add(Action.EXPLAINED, "", what)
        epoch_start = log.starts.first_epoch
        if log.starts.line is None and epoch_start is not None and epoch_start > plan.found_start:
            what = (f"it has no line for the log, whose first leader epoch begins at offset {epoch_start}: its leader begins "
                    f"at {plan.found_start}, and deleted records can be read again; kafkalog delete-records --before "
                    f"{epoch_start} sets the start")
            self._add_problem(FileKind.LOG_START_CHECKPOINT, what)

    def _add(self, action: Action, name: str, why: str, segment: RemoteSegment) -> None:
        offsets = (segment.start_offset, segment.end_offset + 1)
        self._report.add(action, name, why, offsets=offsets, size=segment.size)

    def _add_problem(self, kind: FileKind, what: str, lost: Sequence[Due] = ()) -> None:
        size = sum(one.segment.size for one in lost) if lost else None
        self._report.add(Action.KEPT, kind.value, what, size=size, severity=Severity.WARNING)

    def _why(self, due: Due) -> str:
        config, largest = self._log.config, due.segment.max_timestamp_ms
        if due.reason is Reason.TIME:
            age = exact_duration(self._now - largest)
            return f"its largest timestamp, {moment(largest)}, is {age} old, retention.ms={config.retention_ms}"
        if due.reason is Reason.SIZE:
            return f"{due.limit} bytes remain without it, retention.bytes={config.retention_size}"
        if due.reason is Reason.LOG_START:
            return f"{due.reason.value} {due.limit}"
        if due.reason is Reason.UNREFERENCED:
            epochs = due.segment.leader_epochs
            return f"{due.reason.value}, {due.limit}: its last one is {epochs[-1][0]}"
        return str(due.reason.value)

    def _when(self, segment: RemoteSegment) -> str:
        config = self._log.config
        by_size = "not by size: retention.bytes is not set"
        if config.retention_size >= 0:
            by_size = f"not by size: less than retention.bytes={config.retention_size} would remain without it"
        if config.retention_ms < 0:
            return f"{by_size}; never by time: retention.ms=-1"
        return f"{by_size}; by time at {moment(segment.max_timestamp_ms + config.retention_ms + 1)}"
