"""cleaner-offset-checkpoint: up to where each log of a log dir is clean (LogCleanerManager.updateCheckpoints)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.checkpoint.offsets import (
    PartitionOffset,
    encode_offset_checkpoint,
    known_offsets,
    read_offset_checkpoint,
)
from engine.discovery import is_brokers_log_dir
from engine.files import replace
from engine.layout import FileKind, PartitionKind, file_name, parent_of, parse_partition_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.files import Files, ReadOnlyFiles

NAME = FileKind.CLEANER_CHECKPOINT.value


def clean_offsets(files: ReadOnlyFiles, log_dir: str) -> tuple[Mapping[tuple[str, int], int], str | None]:
    """Up to where each log of `log_dir` is clean, and why nothing is known where the file can not be read.

    Raises UnreadableFile where the disk fails.
    """
    path = f"{log_dir}/{NAME}"
    if not files.exists(path):
        return {}, None
    offsets, what = known_offsets(files, path)
    return (offsets, None) if what is None else ({}, f"{NAME} of the log dir can not be read: {what}")


class CheckpointFile:
    """The file of one log dir, read once and written often: nobody else writes it meanwhile, for the log dir is locked.

    `offsets` and `fault` are what `clean_offsets` gave. Raises UnreadableFile.
    """

    def __init__(self, files: ReadOnlyFiles, log_dir: str) -> None:
        self._log_dir = log_dir
        self.offsets, self.fault = clean_offsets(files, log_dir)
        self._lines: dict[tuple[str, int], PartitionOffset] | None = None  # what the next writing begins with

    def set_lines(self, files: Files, mine: Mapping[tuple[str, int], int]) -> None:
        """Set the lines of these partitions. Raises UnreadableFile, UnwritableFile. See CleanerCheckpoint.write."""
        path = f"{self._log_dir}/{NAME}"
        if self._lines is None:
            is_a_brokers = is_brokers_log_dir(files, self._log_dir)
            self._lines = {
                (line.topic, line.partition): line for line in _sound_lines(files, path)
                if not is_a_brokers or (line.topic, line.partition) in mine
                or files.exists(f"{self._log_dir}/{line.topic}-{line.partition}")
            }  # fmt: skip
        for partition, offset in mine.items():
            self._lines.pop(partition, None)  # the last one written is the last line
            self._lines[partition] = PartitionOffset(*partition, offset)
        replace(files, path, [encode_offset_checkpoint(self._lines.values())])


class CleanerCheckpoint:
    """The line of one partition in the file of its log dir.

    A partition that lies outside a log dir has no checkpoint: nothing is read, nothing is made. Nor has a copy that is on its
    way to another log dir, or a stray one: a line with their name speaks of the log that they are a copy of. Of a file that a
    broker can not read no line counts, as for the broker; lines that make sense are still there once it is written again.

    file_of  the file of a log dir where it was read before, see CheckpointFile; default: it is read at each asking
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
        self.fault: str | None = None  # why the file can not be read, as far as `read` has seen

    @property
    def is_kept(self) -> bool:
        """Does the directory around the partition keep checkpoints?"""
        known = self._files.exists(self._path) or is_brokers_log_dir(self._files, self._log_dir)
        return known and self._partition is not None

    def read(self) -> int | None:
        """The offset below which the log is clean; None: no line says so, or the file has a `fault`. Raises UnreadableFile."""
        if self._partition is None:
            return None
        file = self._file_of(self._files, self._log_dir)
        self.fault = file.fault
        return file.offsets.get(self._partition)

    def write(self, files: Files, offset: int) -> None:
        """Set the line of the partition. Raises UnreadableFile, UnwritableFile.

        In a broker's log dir lines of partitions that do not lie there go, as a broker drops them: they are stale. A
        directory that partitions were copied to need not hold them all.
        """
        if self.is_kept and self._partition is not None:
            self._file_of(files, self._log_dir).set_lines(files, {self._partition: offset})

    def lower(self, files: Files, offset: int) -> int | None:
        """Set the line of the partition to `offset` where it says more → what it said; None: it did not, nothing is written.

        Other lines stay. Raises UnreadableFile, UnwritableFile. Mirrors LogCleanerManager.maybeTruncateCheckpoint, which
        asks whether the topic is compacted: here its settings may not be known, and that there is a line says it was.
        """
        lines = _sound_lines(files, self._path)
        said = max((line.offset for line in lines if (line.topic, line.partition) == self._partition), default=0)
        if said <= offset:
            return None
        lowered = [PartitionOffset(line.topic, line.partition, min(line.offset, offset))
                   if (line.topic, line.partition) == self._partition else line for line in lines]  # fmt: skip
        replace(files, self._path, [encode_offset_checkpoint(lowered)])
        return said


def write_clean_offsets(files: Files, offsets: Mapping[str, int]) -> None:
    """Set the lines of all these partition directories as `CleanerCheckpoint.write` does, writing each file once."""
    of_dirs: dict[str, dict[tuple[str, int], int]] = {}
    for directory, offset in offsets.items():
        named = parse_partition_dir(file_name(directory))
        if named is not None and CleanerCheckpoint(files, directory).is_kept:
            of_dirs.setdefault(parent_of(directory), {})[named.topic, named.partition] = offset
    for log_dir, mine in of_dirs.items():
        CheckpointFile(files, log_dir).set_lines(files, mine)


def _sound_lines(files: ReadOnlyFiles, path: str) -> list[PartitionOffset]:
    """All that make sense, also in a file that a broker can not read."""
    entries = read_offset_checkpoint(files, path).entries if files.exists(path) else []
    return [entry for entry in entries if entry.partition >= 0 and entry.offset >= 0]
