"""A log with remote storage: its local and remote part, its offsets, and its copy lag.

Mirrors UnifiedLog.fetchOffsetByTimestamp for the special timestamps, and the candidates of RLMCopyTask.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.checkpoints import EpochEntry, read_leader_epochs
from engine.checkpoint.identity import read_topic_id
from engine.discovery.names import FileKind
from engine.formats import NO_TIMESTAMP
from engine.log.fetch.reading import MAX_TIMESTAMP, fetch_offset_by_timestamp
from engine.log.segment.batch_search import TimestampAndOffset
from engine.log.tiering import Tiering, read_starts
from engine.remote.lineage import Lineage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.config.topic import LogConfig
    from engine.files import ReadOnlyFiles
    from engine.log.fetch.view import PartitionView
    from engine.remote.metadata import RemoteLogMetadata


class TieredLog:
    """The log of `view` with its remote segments. Raises UnreadableFile.

    config, tiering         of its topic
    metadata                of all remote segments
    remote                  the metadata of this partition; None: no record names it
    starts                  log starts in the files of the log dir
    log_start_offset        of the whole log, local or remote; as a parameter, None: from the log dir
    local_log_start_offset  of the local part
    """

    def __init__(
        self, files: ReadOnlyFiles, view: PartitionView, config: LogConfig, tiering: Tiering, metadata: RemoteLogMetadata, *,
        log_start_offset: int | None = None,
    ) -> None:  # fmt: skip
        self.view, self.directory, self.config = view, view.directory, config
        self.topic_id = read_topic_id(files, view.directory)
        name = view.partition
        self.topic, self.partition = (view.directory, -1) if name is None else (name.topic, name.partition)
        self.starts = starts = read_starts(files, view.directory)
        self.is_tiered = tiering is Tiering.TIERED or (tiering is Tiering.UNKNOWN and starts.are_of_tiered(tiering))
        self.local_log_start_offset = view.log_start_offset
        if log_start_offset is None:
            log_start_offset = (starts.line or 0) if self.is_tiered else view.log_start_offset
        self.log_start_offset = log_start_offset
        self.lineage = Lineage(self._epochs(files), view.log_end_offset)
        self.remote = None if self.topic_id is None else metadata.find(self.topic_id, self.partition)

    @property
    def highest_remote_offset(self) -> int:
        """The last offset that is known to be in remote storage; −1: unknown or none."""
        return -1 if self.remote is None or not self.is_tiered else self.lineage.highest_remote_offset(self.remote)

    def _epochs(self, files: ReadOnlyFiles) -> Sequence[EpochEntry]:
        """Return the epochs of the last leader, from the log start offset on. The last epoch may have no record."""
        path = f"{self.directory}/{FileKind.LEADER_EPOCH_CHECKPOINT.value}"
        entries = read_leader_epochs(files, path).entries if files.exists(path) else []
        start, end = self.log_start_offset, self.view.log_end_offset
        first = [EpochEntry(entry.epoch, start) for entry in entries if entry.start_offset <= start][-1:]
        return first + [entry for entry in entries if start < entry.start_offset <= end]


_NONE = TimestampAndOffset(NO_TIMESTAMP, -1, None)


class Wait(Enum):
    """Why closed segments are not in remote storage yet."""

    COPY_DISABLED = "remote.log.copy.disable is set"
    OPEN_TRANSACTION = "a transaction is open"
    NEXT_TASK = "the next task of its leader copies them"


class Lag(NamedTuple):
    """Closed segments that are not in remote storage (RemoteCopyLagSegments, RemoteCopyLagBytes).

    size    in bytes
    reason  None: all closed segments are copied
    """

    segments: int
    size: int
    reason: Wait | None


class LogOffsets(NamedTuple):
    """The answers of ListOffsets for the special timestamps; offset −1: there is none."""

    earliest: TimestampAndOffset
    latest: TimestampAndOffset
    last_stable: TimestampAndOffset
    earliest_local: TimestampAndOffset
    latest_tiered: TimestampAndOffset
    earliest_pending_upload: TimestampAndOffset
    max_timestamp: TimestampAndOffset


def log_offsets(log: TieredLog) -> LogOffsets:
    """Return the offsets that a leader of the log answers. Raises UnreadableFile, CorruptRecord.

    A leader that does not copy (remote.log.copy.disable) does not search for remote segments either, and answers −1.
    """
    view, epochs = log.view, log.lineage
    is_before_epochs = not epochs.entries or epochs.entries[0].start_offset > log.log_start_offset
    latest_epoch = epochs.entries[-1].epoch if epochs.entries else None
    first_epoch = None if is_before_epochs else epochs.entries[0].epoch
    highest = -1 if log.config.remote_log_copy_disable else log.highest_remote_offset
    return LogOffsets(
        earliest=TimestampAndOffset(NO_TIMESTAMP, log.log_start_offset, first_epoch),
        latest=TimestampAndOffset(NO_TIMESTAMP, view.log_end_offset, latest_epoch),
        last_stable=TimestampAndOffset(NO_TIMESTAMP, view.fetch_last_stable_offset_metadata().message_offset, latest_epoch),
        earliest_local=_at(log, log.local_log_start_offset),
        latest_tiered=_at(log, highest),
        earliest_pending_upload=_at(log, _earliest_pending_upload(log, highest)),
        max_timestamp=fetch_offset_by_timestamp(view, MAX_TIMESTAMP) or _NONE,
    )


def _at(log: TieredLog, offset: int) -> TimestampAndOffset:
    return _NONE if offset < 0 else TimestampAndOffset(NO_TIMESTAMP, offset, log.lineage.epoch_of(offset))


def _earliest_pending_upload(log: TieredLog, highest: int) -> int:
    """Return the first offset that is not copied; −1: unknown or none. Mirrors UnifiedLog.fetchEarliestPendingUploadOffset."""
    if not log.is_tiered or (highest < 0 and log.local_log_start_offset != log.log_start_offset):
        return -1  # its leader does not know the remote segments
    offset = max(highest + 1, log.log_start_offset)
    return offset if offset < log.view.log_end_offset else -1


def copy_lag(log: TieredLog) -> Lag:
    """Return the closed segments that are not copied. Raises UnreadableFile, CorruptRecord."""
    highest = log.highest_remote_offset
    closed = list(log.view.segments)[:-1]
    waiting = [segment for segment in closed if segment.base_offset >= highest] if log.is_tiered else []
    if not waiting:
        return Lag(0, 0, None)
    following = log.view.segments.higher_segment(waiting[0].base_offset)
    stable = log.view.fetch_last_stable_offset_metadata().message_offset
    reason = Wait.NEXT_TASK
    if log.config.remote_log_copy_disable:
        reason = Wait.COPY_DISABLED
    elif following is not None and following.base_offset > stable:
        reason = Wait.OPEN_TRANSACTION
    return Lag(len(waiting), sum(segment.size for segment in waiting), reason)
