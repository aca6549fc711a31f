"""cleaner-offset-checkpoint: the offset below which each log of a log dir is clean (LogCleanerManager.updateCheckpoints)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.checkpoints import (
    PartitionOffset,
    encode_offset_checkpoint,
    known_offsets,
    read_offset_checkpoint,
)
from engine.discovery.names import FileKind, PartitionKind, file_name, parent_of, parse_partition_dir
from engine.discovery.paths import is_brokers_log_dir
from engine.files import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.files import Files, ReadOnlyFiles
    from engine.log.partition.unified_log import UnifiedLog


NAME = FileKind.CLEANER_CHECKPOINT.value


def clean_offsets(files: ReadOnlyFiles, log_dir: str) -> tuple[Mapping[tuple[str, int], int], str | None]:
    """The offset below which each log of `log_dir` is clean, and a reason if the file cannot be parsed.

    Raises UnreadableFile if reading the disk fails.
    """
    path = f"{log_dir}/{NAME}"
    if not files.exists(path):
        return {}, None
    offsets, what = known_offsets(files, path)
    return (offsets, None) if what is None else ({}, f"{NAME} of the log dir cannot be read: {what}")


class CheckpointFile:
    """The checkpoint of one log dir, read once and written often. No other process writes it: the log dir is locked.

    `offsets` and `fault` are the result of `clean_offsets`. Raises UnreadableFile.
    """

    def __init__(self, files: ReadOnlyFiles, log_dir: str) -> None:
        self._log_dir = log_dir
        self.offsets, self.fault = clean_offsets(files, log_dir)
        self._lines: dict[tuple[str, int], PartitionOffset] | None = None  # lines to write; None: not read yet

    def set_lines(self, files: Files, mine: Mapping[tuple[str, int], int]) -> None:
        """Set the lines of the given partitions. Raises UnreadableFile, UnwritableFile. See CleanerCheckpoint.write."""
        path = f"{self._log_dir}/{NAME}"
        if self._lines is None:
            is_a_brokers = is_brokers_log_dir(files, self._log_dir)
            self._lines = {
                (line.topic, line.partition): line for line in _sound_lines(files, path)
                if not is_a_brokers or (line.topic, line.partition) in mine
                or files.exists(f"{self._log_dir}/{line.topic}-{line.partition}")
            }  # fmt: skip
        for partition, offset in mine.items():
            self._lines.pop(partition, None)  # so that the line written last is the last one of the file
            self._lines[partition] = PartitionOffset(*partition, offset)
        replace(files, path, [encode_offset_checkpoint(self._lines.values())])


class CleanerCheckpoint:
    """The line of one partition in the checkpoint of its log dir.

    A partition outside a log dir has no checkpoint: nothing is read or created. A stray partition, and a copy that is being
    moved to another log dir, have none either: the line with their name belongs to the log itself. If a broker could not
    parse the file, no line of it counts, but valid lines are kept when it is written.

    file_of  returns the file of a log dir, see CheckpointFile; default: read it at each call
    """

    def __init__(
        self, files: ReadOnlyFiles, directory: str, file_of: Callable[[ReadOnlyFiles, str], CheckpointFile] = CheckpointFile
    ) -> None:
        self._files, self._file_of = files, file_of
        self._log_dir = parent_of(directory)
        named = parse_partition_dir(file_name(directory))
        is_plain = named is not None and named.kind is PartitionKind.PLAIN
        self._partition = (named.topic, named.partition) if named is not None and is_plain else None
        self._path = f"{self._log_dir}/{NAME}"
        self.fault: str | None = None  # why the file cannot be parsed; set by `read`

    @property
    def is_kept(self) -> bool:
        """Does the directory that contains the partition have checkpoints?"""
        known = self._files.exists(self._path) or is_brokers_log_dir(self._files, self._log_dir)
        return known and self._partition is not None

    def read(self) -> int | None:
        """The offset below which the log is clean; None: it has no line, or the file has a `fault`. Raises UnreadableFile."""
        if self._partition is None:
            return None
        file = self._file_of(self._files, self._log_dir)
        self.fault = file.fault
        return file.offsets.get(self._partition)

    def write(self, files: Files, offset: int) -> None:
        """Set the line of the partition. Raises UnreadableFile, UnwritableFile.

        In a broker's log dir, lines of partitions that are not there are removed, as a broker does. In other directories they
        are kept: partitions may have been copied there in part.
        """
        if self.is_kept and self._partition is not None:
            self._file_of(files, self._log_dir).set_lines(files, {self._partition: offset})

    def lower(self, files: Files, offset: int) -> int | None:
        """Lower the line of the partition to `offset`. Returns the old value; None: it was not higher, nothing is written.

        Other lines stay. Raises UnreadableFile, UnwritableFile. Mirrors LogCleanerManager.maybeTruncateCheckpoint, which does
        this for compacted topics only. Here the settings may not be known; a line proves that the topic was compacted.
        """
        lines = _sound_lines(files, self._path)
        old = max((line.offset for line in lines if (line.topic, line.partition) == self._partition), default=0)
        if old <= offset:
            return None
        lowered = [PartitionOffset(line.topic, line.partition, min(line.offset, offset))
                   if (line.topic, line.partition) == self._partition else line for line in lines]  # fmt: skip
        replace(files, self._path, [encode_offset_checkpoint(lowered)])
        return old


def _sound_lines(files: ReadOnlyFiles, path: str) -> list[PartitionOffset]:
    """All valid lines, also of a file that a broker cannot parse."""
    entries = read_offset_checkpoint(files, path).entries if files.exists(path) else []
    return [entry for entry in entries if entry.partition >= 0 and entry.offset >= 0]


class Bound(Enum):
    """What limits the dirty part that may be cleaned."""

    ACTIVE_SEGMENT = "active segment"  # is never cleaned
    HIGH_WATERMARK = "high watermark"  # unreplicated records may still be truncated
    OPEN_TRANSACTION = "open transaction"  # its records may still be aborted
    UNREPLICATED_END = "transaction that ends above the high watermark"  # its marker may still be truncated
    MIN_COMPACTION_LAG = "min.compaction.lag.ms"  # the segment is too young


class OffsetsToClean(NamedTuple):
    """The dirty part that may be cleaned: first_dirty_offset … first_uncleanable_dirty_offset − 1."""

    first_dirty_offset: int
    first_uncleanable_dirty_offset: int
    force_update_checkpoint: bool  # the checkpoint was invalid: below the log start offset, or after the log end
    bound: Bound


class LogToClean(NamedTuple):
    """A log, and how much of it can be cleaned. Bytes are sizes of whole segments."""

    offsets: OffsetsToClean
    first_uncleanable_offset: int  # base of the segment that holds the first uncleanable dirty offset
    clean_bytes: int
    cleanable_bytes: int
    max_compaction_delay_ms: int  # by which the oldest dirty record has exceeded max.compaction.lag.ms

    @property
    def total_bytes(self) -> int:
        """Bytes that a round would read."""
        return self.clean_bytes + self.cleanable_bytes

    @property
    def cleanable_ratio(self) -> float:
        """Dirty bytes divided by all bytes, 0 … 1."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    def is_due(self, min_cleanable_ratio: float) -> bool:
        """Would the broker's cleaner choose this log? Mirrors the filters of grabFilthiestCompactedLog."""
        if not self.total_bytes:
            return False
        overdue = self.max_compaction_delay_ms > 0 and self.cleanable_bytes > 0
        return overdue or self.cleanable_ratio > min_cleanable_ratio


def log_to_clean(log: UnifiedLog, last_clean_offset: int | None, now: int) -> LogToClean:
    """How much of `log` can be cleaned. last_clean_offset: the log is clean below it; None: never cleaned."""
    offsets = cleanable_offsets(log, last_clean_offset, now)
    active = log.segments.active_segment.base_offset
    after = log.segments.non_active_segments_from(offsets.first_uncleanable_dirty_offset)
    first_uncleanable = after[0].base_offset if after else active
    first_dirty = offsets.first_dirty_offset
    dirty = log.segments.values(min(first_dirty, first_uncleanable), first_uncleanable)
    return LogToClean(
        offsets,
        first_uncleanable,
        sum(segment.size for segment in log.segments.values(0, first_dirty)),
        sum(segment.size for segment in dirty),
        max_compaction_delay(log, first_dirty, now),
    )


def cleanable_offsets(log: UnifiedLog, last_clean_offset: int | None, now: int) -> OffsetsToClean:
    """The dirty range that may be cleaned. Mirrors LogCleanerManager.cleanableOffsets."""
    first_dirty, force_update = log.log_start_offset, False
    if last_clean_offset is not None:
        if log.log_start_offset <= last_clean_offset <= log.log_end_offset:
            first_dirty = last_clean_offset
        else:
            force_update = True
    bounds = [(log.segments.active_segment.base_offset, Bound.ACTIVE_SEGMENT), (log.last_stable_offset, _stable_bound(log))]
    lag = log.config.min_compaction_lag_ms
    if lag > 0:
        for segment in log.segments.non_active_segments_from(first_dirty):
            if segment.largest_timestamp > now - lag:
                bounds.append((segment.base_offset, Bound.MIN_COMPACTION_LAG))
                break
    first_uncleanable, bound = min(bounds, key=lambda pair: pair[0])
    return OffsetsToClean(first_dirty, max(first_dirty, first_uncleanable), force_update, bound)


def max_compaction_delay(log: UnifiedLog, first_dirty_offset: int, now: int) -> int:
    """Ms by which the oldest dirty segment has exceeded max.compaction.lag.ms; 0: no segment has."""
    dirty = log.segments.non_active_segments_from(first_dirty_offset)
    firsts = [first for first in (segment.first_batch_timestamp for segment in dirty) if first > 0]
    clean_until = now - log.config.max_compaction_lag_ms
    return max(0, clean_until - min(firsts)) if firsts else 0


def _stable_bound(log: UnifiedLog) -> Bound:
    """Why records from the last stable offset on cannot be cleaned."""
    if log.last_stable_offset >= log.high_watermark:
        return Bound.HIGH_WATERMARK
    undecided = log.producer_state.first_undecided_offset
    is_open = undecided is not None and undecided <= log.last_stable_offset
    return Bound.OPEN_TRANSACTION if is_open else Bound.UNREPLICATED_END
