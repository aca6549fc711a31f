"""What uses the space of log dirs: bytes by topic, partition, segment or kind of file, from names and sizes alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import (
    DELETED,
    SWAP,
    FileKind,
    PartitionKind,
    canonical_name,
    log_file_name,
    parse_file_name,
)
from engine.discovery.paths import REMOTE_INDEX_CACHE
from engine.errors import UnreadableFile
from engine.files import look
from engine.log.logdir.log_dirs import LIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.errors import KafkalogError
    from engine.files import FileInfo, ReadOnlyFiles
    from engine.log.logdir.log_dirs import LogDir, PartitionPath

_DEPTH = 8  # of a directory that is not Kafka's
_BESIDE = {
    FileKind.OFFSET_INDEX: "index", FileKind.TIME_INDEX: "timeindex", FileKind.TRANSACTION_INDEX: "txnindex",
    FileKind.PRODUCER_SNAPSHOT: "snapshot", FileKind.KRAFT_SNAPSHOT: "metadata-snapshot",
}  # fmt: skip
_DIRECTORIES = {PartitionKind.DELETE: "delete-dir", PartitionKind.STRAY: "stray-dir"}
LOG, DELETED_FILE, UNFINISHED, FOREIGN, SMALL = "log", "deleted", "unfinished", "foreign", "checkpoint"
LEFT_OVER = frozenset((DELETED_FILE, UNFINISHED, FOREIGN, *_DIRECTORIES.values()))  # kinds that no running log uses


class UsedFile(NamedTuple):
    """A file. `kind`: the column of `du --by kind`; `partition`: None for a file of the log dir itself."""

    path: str
    name: str
    kind: str
    info: FileInfo
    partition: PartitionPath | None

    @property
    def group(self) -> str:
        """The kind for people: files in a future replica are one kind."""
        is_future = self.partition is not None and self.partition.name.kind is PartitionKind.FUTURE
        return "future-dir" if is_future and self.kind not in LEFT_OVER else self.kind


@dataclass(slots=True)
class Usage:
    """Sums of bytes, as `du` prints them.

    log         of the .log files in use: the size that kafka-log-dirs prints
    beside      of indexes, snapshots and checkpoints of these logs
    left_over   of files that no log uses: those that wait for deletion, unfinished, stray and foreign ones
    allocated   on the disk: less than the three together for preallocated indexes, which have holes
    records     None: not counted
    first_time, last_time   ms: of batches; None: not read
    """

    log: int = 0
    beside: int = 0
    left_over: int = 0
    allocated: int = 0
    segments: int = 0
    records: int | None = None
    first_time: int | None = None
    last_time: int | None = None

    @property
    def size(self) -> int:
        """All bytes."""
        return self.log + self.beside + self.left_over

    def add_file(self, file: UsedFile) -> None:
        """Add a file."""
        if file.kind == LOG:
            self.log += file.info.size
            self.segments += 1
        elif file.kind in LEFT_OVER:
            self.left_over += file.info.size
        else:
            self.beside += file.info.size
        self.allocated += file.info.used

    def add(self, other: Usage) -> None:
        """Add the sums of `other`."""
        self.log += other.log
        self.beside += other.beside
        self.left_over += other.left_over
        self.allocated += other.allocated
        self.segments += other.segments
        self.records = None if self.records is None or other.records is None else self.records + other.records
        self.add_times(other.first_time, other.last_time)

    def add_times(self, first: int | None, last: int | None) -> None:
        """Extend the range of times."""
        if first is not None:
            self.first_time = first if self.first_time is None else min(self.first_time, first)
        if last is not None:
            self.last_time = last if self.last_time is None else max(self.last_time, last)


def used_files(
    files: ReadOnlyFiles, log_dirs: Iterable[LogDir], failed: Callable[[KafkalogError], None]
) -> Iterator[UsedFile]:
    """Yield every file of the partitions of `log_dirs`; of log dirs that were named as a whole also all others.

    failed  called with an error for each directory that cannot be read
    A file that a running broker removes meanwhile is left out.
    """
    for log_dir in log_dirs:
        for partition in log_dir.directories:
            try:
                yield from _of_partition(files, partition)
            except UnreadableFile as error:
                if _is_there(files, partition.path):
                    failed(error)
        try:
            yield from _of_log_dir(files, log_dir)
        except UnreadableFile as error:
            failed(error)


def _is_there(files: ReadOnlyFiles, path: str) -> bool:
    try:
        return files.exists(path)
    except UnreadableFile:
        return True


def _of_log_dir(files: ReadOnlyFiles, log_dir: LogDir) -> Iterator[UsedFile]:
    """Yield the files of a log dir itself."""
    for name in log_dir.files:
        parsed = parse_file_name(name)
        yield from _one(files, f"{log_dir.path}/{name}", name, FOREIGN if parsed is None else SMALL, None)
    for name in log_dir.foreign:
        yield from _below(files, f"{log_dir.path}/{name}", FOREIGN, None, _DEPTH)
    cache = f"{log_dir.path}/{REMOTE_INDEX_CACHE}"
    if log_dir.is_whole and look(files, cache) is not None:
        yield from _below(files, cache, REMOTE_INDEX_CACHE, None, _DEPTH)


def _of_partition(files: ReadOnlyFiles, partition: PartitionPath) -> Iterator[UsedFile]:
    names = files.list(partition.path)
    present = frozenset(names)
    for name in names:
        path = f"{partition.path}/{name}"
        info = look(files, path)
        if info is None:
            continue
        if info.is_directory:
            yield from _below(files, path, FOREIGN, partition, _DEPTH)
        elif info.is_file:
            yield UsedFile(path, name, _kind(partition, name, present), info, partition)


def _kind(partition: PartitionPath, name: str, present: frozenset[str]) -> str:
    """The kind of a file in a partition's directory."""
    if partition.name.kind not in LIVE:
        return _DIRECTORIES[partition.name.kind]
    parsed = parse_file_name(name)
    if parsed is None or canonical_name(parsed) != name or parsed.remote_id is not None:
        return FOREIGN
    if DELETED in parsed.suffix:
        return DELETED_FILE
    if parsed.suffix == SWAP and parsed.base_offset is not None and log_file_name(parsed.base_offset) not in present:
        return LOG if parsed.kind is FileKind.LOG else _BESIDE.get(parsed.kind, UNFINISHED)  # complete, see `logs_in_use`
    if parsed.suffix:
        return UNFINISHED
    if parsed.kind in (FileKind.LOG, FileKind.LOG_07):
        return LOG
    return _BESIDE.get(parsed.kind, SMALL)


def _one(files: ReadOnlyFiles, path: str, name: str, kind: str, partition: PartitionPath | None) -> Iterator[UsedFile]:
    info = look(files, path)
    if info is not None and info.is_file:
        yield UsedFile(path, name, kind, info, partition)


def _below(files: ReadOnlyFiles, directory: str, kind: str, partition: PartitionPath | None, depth: int) -> Iterator[UsedFile]:
    """Yield all files below a directory; symbolic links to directories are not followed."""
    links = files.special(directory)
    for name in files.list(directory):
        path = f"{directory}/{name}"
        info = None if name in links else look(files, path)
        if info is not None and info.is_directory and depth:
            yield from _below(files, path, kind, partition, depth - 1)
        elif info is not None and info.is_file:
            yield UsedFile(path, name, kind, info, partition)
