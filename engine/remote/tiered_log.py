"""A partition with remote storage as its leader has it: where its log begins, what is local, what is remote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.checkpoint.identity import decode_partition_metadata, read_identity
from engine.checkpoint.leader_epochs import EpochEntry, read_leader_epochs
from engine.discovery.names import FileKind
from engine.log.fetch.view import PartitionView
from engine.log.tiering import Tiering, read_starts
from engine.remote.lineage import Lineage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from engine.config.topic import LogConfig
    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.remote.metadata import RemoteLogMetadata


class TieredLog:
    """The log in `directory`. Close it, or use it in a `with` statement. Raises UnreadableFile, CorruptRecord.

    config, tiering  of its topic      metadata  of remote segments; None: the log of its records is not known
    remote           what that says of this partition; None: nothing
    log_start_offset        where it begins, local or remote
    local_log_start_offset  from here on it is local
    """

    def __init__(
        self, files: ReadOnlyFiles, directory: str, config: LogConfig, tiering: Tiering, metadata: RemoteLogMetadata,
        report: Callable[[Finding], None],
    ) -> None:  # fmt: skip
        self.directory, self.config = directory, config
        self.topic_id = _topic_id(files, directory)
        self.view = PartitionView(files, directory, report, config=config)
        try:
            name = self.view.partition
            self.topic, self.partition = (directory, -1) if name is None else (name.topic, name.partition)
            starts = read_starts(files, directory)
            self.is_tiered = tiering is Tiering.TIERED or (tiering is Tiering.UNKNOWN and starts.are_of_tiered(tiering))
            self.local_log_start_offset = self.view.log_start_offset
            self.log_start_offset = (starts.line or 0) if self.is_tiered else self.view.log_start_offset
            self.lineage = Lineage(self._epochs(files), self.view.log_end_offset)
            self.remote = None if self.topic_id is None else metadata.find(self.topic_id, self.partition)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all files."""
        self.view.close()

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
    known = decode_partition_metadata(read_identity(files, path), path).value
    return None if known is None else known.topic_id
