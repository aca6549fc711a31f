"""Operations with an offset as argument: roll, delete-records, truncate.

Truncating mirrors LogManager.truncateTo and truncateFullyAndStartAt, which also correct the cleaner's checkpoint.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from engine.checkpoint.checkpoints import lower_checkpoints
from engine.discovery.names import FileKind, PartitionKind, file_name, parent_of, parse_partition_dir
from engine.log.errors import OffsetOutOfRange
from engine.log.operations.operation import Operation
from engine.log.report import Action

if TYPE_CHECKING:
    from engine.log.logdir.log_dirs import PartitionPath
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.segment.log_segment import LogSegment


class Roll(Operation):
    """Starts a new segment at the end of each log, or at `expected` if that is higher."""

    name = "roll"

    def __init__(self, expected: int = 0) -> None:
        self._expected = expected

    def work(self, log: UnifiedLog) -> None:
        """Roll one open log."""
        log.roll(self._expected)

    def refuse(self, log: UnifiedLog) -> None:
        """Raise RollRefused."""
        log.local_log.refuse_roll(self._expected)


class DeleteRecords(Operation):
    """Deletes the records before `target` in logs of one partition."""

    name = "delete-records"
    of_partitions = True

    def __init__(self, target: int) -> None:
        self._target = target

    def work(self, log: UnifiedLog) -> None:
        """Raise the log start offset of one open log, and delete the segments that are entirely below it."""
        from engine.log.retention.rules import delete_below_log_start_offset  # here and below: `roll` does not need it

        log.maybe_increment_log_start_offset(self._target, "records were deleted")
        delete_below_log_start_offset(log)

    def refuse(self, log: UnifiedLog) -> None:
        """Raise OffsetOutOfRange."""
        log.refuse_log_start_offset(self._target)

    def deletes(self, log: UnifiedLog) -> list[LogSegment]:
        """The segments that `work` deletes."""
        from engine.log.retention.rules import deletable_below

        return deletable_below(log, self._target)


class Truncate(Operation):
    """Truncates logs to end at `target`; with `fully`, they begin and end there. Processes several logs at a time."""

    name = "truncate"
    of_partitions = True

    def __init__(self, target: int, *, fully: bool) -> None:
        self._target, self._fully = target, fully
        self._checkpoints = Lock()  # one file for all logs of a log dir

    def truncates_to(self, partition: PartitionPath) -> int:  # noqa: ARG002  # the same for every partition
        """See Operation."""
        return 0 if self._fully else self._target

    def work(self, log: UnifiedLog) -> None:
        """Truncate one open log. Raises the errors of file changes."""
        if self._fully or self._target < log.log_end_offset:
            self._forget_clean(log)
            self._lower_checkpoints(log)
        if self._fully:
            log.truncate_fully_and_start_at(self._target)
        else:
            log.truncate_to(self._target)

    def refuse(self, log: UnifiedLog) -> None:
        """Raise OffsetOutOfRange for a negative offset, and for one below the local segments of a tiered log: that would
        remove the leader epochs that are needed to find its records in remote storage.
        """
        log.refuse_negative(self._target)
        first = log.segments.base_offsets[0]
        if log.is_tiered and log.log_start_offset < first and (self._fully or self._target < first):
            what = f"{log.directory}: records before offset {first} are in remote storage and would become unreadable"
            raise OffsetOutOfRange(what, do=f"--to {first} without --fully keeps them", path=log.directory)

    def deletes(self, log: UnifiedLog) -> list[LogSegment]:
        """The segments that `work` deletes or truncates."""
        if not self._fully and self._target >= log.log_end_offset:
            return []
        kept = self._kept(log)
        return list(log.segments) if kept is None else log.segments.values(kept.base_offset)

    def _lower_checkpoints(self, log: UnifiedLog) -> None:
        """Lower the high watermark first: a deliberate truncation must not look like a loss, even if it is interrupted."""
        files, partition = log.local_log.files, parse_partition_dir(file_name(log.directory))
        if partition is None or partition.kind not in (PartitionKind.PLAIN, PartitionKind.FUTURE):
            return
        key = (partition.topic, partition.partition)
        kept = self._kept(log)
        end = self._target if kept is None else kept.end_below(self._target)
        with self._checkpoints:
            before = lower_checkpoints(files, parent_of(log.directory), {key: end})
        if key in before:
            log.report.add(Action.MOVED, "", f"{FileKind.REPLICATION_CHECKPOINT.value}: the high watermark is set to the log "
                                             "end",
                           offsets=(before[key], end))

    def _kept(self, log: UnifiedLog) -> LogSegment | None:
        """The segment that is truncated and becomes active. None: no segment remains."""
        return None if self._fully else log.segments.floor_segment(self._target)

    def _forget_clean(self, log: UnifiedLog) -> None:
        """Lower the line in the cleaner's checkpoint to the active segment: later records there must not count as clean.

        Kafka lowers the line after the truncation. Here it is lowered before, so that after a stop in between it is too
        low, never too high.
        """
        from engine.log.cleaner.checkpoint import CleanerCheckpoint

        kept = self._kept(log)
        active = self._target if kept is None else kept.base_offset
        files = log.local_log.files
        with self._checkpoints:
            old = CleanerCheckpoint(files, log.directory).lower(files, active)
        if old is not None:
            name = FileKind.CLEANER_CHECKPOINT.value
            log.report.add(Action.MOVED, "", f"{name}: the log is dirty from here on", offsets=(old, active))
