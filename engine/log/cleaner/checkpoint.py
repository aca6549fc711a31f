"""cleaner-offset-checkpoint: up to where each log of a log dir is clean (LogCleanerManager.updateCheckpoints)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.checkpoint.offsets import PartitionOffset, by_partition, encode_offset_checkpoint, read_offset_checkpoint
from engine.files import replace
from engine.layout import file_name, parent_of, parse_partition_dir

if TYPE_CHECKING:
    from engine.files import Files, ReadOnlyFiles

NAME = "cleaner-offset-checkpoint"
_LOG_DIR_MARK = "meta.properties"  # a directory that holds it is a log dir


class CleanerCheckpoint:
    """The line of one partition in the file of its log dir.

    A partition that lies outside a log dir has no checkpoint: nothing is read, nothing is made.
    """

    def __init__(self, files: ReadOnlyFiles, directory: str) -> None:
        self._files = files
        self._log_dir = parent_of(directory)
        named = parse_partition_dir(file_name(directory))
        self._partition = None if named is None else (named.topic, named.partition)
        self._path = f"{self._log_dir}/{NAME}"

    @property
    def is_kept(self) -> bool:
        """Does the directory around the partition keep checkpoints?"""
        known = self._files.exists(self._path) or self._files.exists(f"{self._log_dir}/{_LOG_DIR_MARK}")
        return known and self._partition is not None

    def read(self) -> int | None:
        """The offset below which the log is clean; None: no line says so. Raises UnreadableFile."""
        if self._partition is None or not self._files.exists(self._path):
            return None
        return by_partition(read_offset_checkpoint(self._files, self._path).entries).get(self._partition)

    def write(self, files: Files, offset: int) -> None:
        """Set the line of the partition; all others stay as they are. Raises UnreadableFile, UnwritableFile."""
        if not self.is_kept or self._partition is None:
            return
        exists = files.exists(self._path)
        entries = read_offset_checkpoint(files, self._path).entries if exists else []
        mine = PartitionOffset(*self._partition, offset)
        others = [entry for entry in entries if (entry.topic, entry.partition) != self._partition]
        replace(files, self._path, [encode_offset_checkpoint([*others, mine])])
