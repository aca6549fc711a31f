"""A partition with remote storage as its leader has it: where its log begins, what is local, what is remote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.checkpoint.checkpoints import EpochEntry, read_leader_epochs
from engine.checkpoint.identity import decode_partition_metadata, read_identity
from engine.discovery.names import FileKind
from engine.log.tiering import Tiering, read_starts
from engine.remote.lineage import Lineage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.config.topic import LogConfig
    from engine.files import ReadOnlyFiles
    from engine.log.fetch.view import PartitionView
    from engine.remote.metadata import RemoteLogMetadata


class TieredLog:
    """The log of `view`. Raises UnreadableFile.

    config, tiering  of its topic      metadata  of all remote segments
    remote           what that says of this partition; None: nothing        starts  as its files have them
    log_start_offset        where it begins, local or remote; None: as its log dir says
    local_log_start_offset  from here on it is local
    """

    def __init__(
        self, files: ReadOnlyFiles, view: PartitionView, config: LogConfig, tiering: Tiering, metadata: RemoteLogMetadata, *,
        log_start_offset: int | None = None,
    ) -> None:  # fmt: skip
        self.view, self.directory, self.config = view, view.directory, config
        self.topic_id = _topic_id(files, view.directory)
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
        """The last offset that is known to be in remote storage; −1: none."""
        return -1 if self.remote is None or not self.is_tiered else self.lineage.highest_remote_offset(self.remote)

    def _epochs(self, files: ReadOnlyFiles) -> Sequence[EpochEntry]:
        """As its last leader had them: from the log start on, the last one perhaps without a record."""
        path = f"{self.directory}/{FileKind.LEADER_EPOCH_CHECKPOINT.value}"
        entries = read_leader_epochs(files, path).entries if files.exists(path) else []
        start, end = self.log_start_offset, self.view.log_end_offset
        first = [EpochEntry(entry.epoch, start) for entry in entries if entry.start_offset <= start][-1:]
        return first + [entry for entry in entries if start < entry.start_offset <= end]


def _topic_id(files: ReadOnlyFiles, directory: str) -> str | None:
    path = f"{directory}/{FileKind.PARTITION_METADATA.value}"
    if not files.exists(path):
        return None
    known = read_identity(files, path, decode_partition_metadata).value
    return None if known is None else known.topic_id
