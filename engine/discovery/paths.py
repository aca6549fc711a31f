"""Find the files of a user's path: which directories are searched, in which order; which logs are those of Kafka 0.7."""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.choice import EVERY_PARTITION, PartitionChoice
from engine.discovery.names import (
    NUMBERED,
    FileKind,
    FileName,
    directory_order,
    file_name,
    file_order,
    parse_file_name,
    parse_partition_dir,
    partition_of,
)
from engine.errors import KafkalogError, UnreadableFile, argument
from engine.findings import Finding, Where

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from engine.files import ReadOnlyFiles

MAX_DEPTH = 6  # depth below the given directory: log dirs, their partitions, and a few levels for a tree of log dirs
REMOTE_INDEX_CACHE = "remote-log-index-cache"  # directory in a log dir: indexes of segments in remote storage
FOREIGN_DIRECTORIES = frozenset(("lost+found", "$RECYCLE.BIN", "System Volume Information"))  # of the file system itself
_PARTITION_FILES = frozenset(
    (*NUMBERED, FileKind.LEADER_EPOCH_CHECKPOINT, FileKind.PARTITION_METADATA, FileKind.QUORUM_STATE)
)
STAGING = ".kafkalog-staging"  # a directory for each job that writes
JOURNAL = "commit.json"  # in a staging directory, from the start of a commit until it is complete or undone
MANIFEST = ".kafkalog-sink.json"  # describes the last commit
MAX_KEPT_SIZE = 128 << 20  # bytes of a journal or manifest
_HEAD_SIZE = 1024  # bytes at the start of a journal or manifest that identify its commit
_HEAD = re.compile(rb'\{"version": [0-9]+, "(?:commit|last)": "([^"\\]+)"')
WHAT = "a write of Spark's sink to this log dir did not finish its commit"


class DirectoryKind(Enum):
    """The kind of a directory, derived from its plain files."""

    PARTITION = "partition"  # it holds files of a partition
    LOG_DIR = "log dir"  # it holds the files that a broker keeps in each of log.dirs
    OTHER = "other"  # neither: log dirs or partitions may lie below it


def is_brokers_log_dir(files: ReadOnlyFiles, path: str) -> bool:
    """Return whether a directory that holds partitions is a broker's log dir, not a copy of partitions without checkpoints."""
    return any(files.exists(f"{path}/{kind.value}") for kind in (FileKind.META_PROPERTIES, FileKind.RECOVERY_POINT_CHECKPOINT))


def is_log_dir(files: ReadOnlyFiles, path: str) -> bool:
    """Return whether a directory holds partitions or a broker's checkpoints."""
    return any(parse_partition_dir(name) is not None for name in files.list(path)) or is_brokers_log_dir(files, path)


def is_log_07(files: ReadOnlyFiles, directory: str) -> bool:
    """Return whether a partition directory holds files of Kafka 0.7 and none of a later log. Raises UnreadableFile."""
    return are_of_07(files.list(directory))


def are_of_07(names: Collection[str]) -> bool:
    """Return whether `names` has files of Kafka 0.7 and none of a later log."""
    if not names_07(names):
        return False
    return all(parsed is None or parsed.kind is not FileKind.LOG for parsed in map(parse_file_name, names))


def names_07(names: Collection[str]) -> list[str]:
    """Return the names of files of Kafka 0.7."""
    candidates = [name for name in names if FileKind.LOG_07.value in name]  # usually empty; there may be very many names
    return [name for name in candidates if (parsed := parse_file_name(name)) is not None and parsed.kind is FileKind.LOG_07]


class Discovery(NamedTuple):
    """Files to read, in order, and findings of the search."""

    paths: list[str]
    findings: list[Finding]


def discover(
    files: ReadOnlyFiles, path: str, max_depth: int = MAX_DEPTH, *, choice: PartitionChoice = EVERY_PARTITION
) -> Discovery:
    """Return `path` itself if it is a file, or all of Kafka's files in and below a directory.

    A directory may be a partition, a log dir, or a tree of log dirs. Partitions are sorted by topic and number, files by
    `file_order`; the empty `.lock` is left out. A directory that cannot be read, is too deep, or is not Kafka's is reported as
    a finding. Each directory is visited once, even if several symbolic links lead to it.

    choice  only files of these partitions, and findings about them
    Raises UnreadableFile if `path` itself cannot be read.
    """
    if not files.info(path).is_directory:
        return _chosen(files, Discovery([path], []), choice)
    found = Discovery([], [])
    _visit(files, path, files.list(path), max_depth, {files.resolve(path)}, found)
    return _chosen(files, found, choice)


def _chosen(files: ReadOnlyFiles, found: Discovery, choice: PartitionChoice) -> Discovery:
    if choice.is_all:
        return found

    def is_chosen(path: str) -> bool:
        partition = partition_of(files.absolute(path))
        return partition is not None and choice.includes(partition)

    return Discovery(list(filter(is_chosen, found.paths)), [one for one in found.findings if is_chosen(one.where.file)])


def nothing_found(path: str) -> Finding:
    """Return the finding for a directory in which `discover` found no file."""
    return Finding("nothing-found", Where(path), "contains none of Kafka's files")


def _visit(files: ReadOnlyFiles, directory: str, names: list[str], depth: int, seen: set[str], found: Discovery) -> None:
    prefix = directory if directory.endswith("/") else directory + "/"
    plain, below = _sort_out(files, prefix, names, found)
    kind = directory_kind(plain)
    for name in sorted(plain, key=file_order):
        parsed = parse_file_name(name)
        if parsed is None or _lacks_offset(parsed):
            if parsed is not None and kind is DirectoryKind.PARTITION:
                what = "the file name contains no offset: not read"
                found.findings.append(Finding("name-invalid", Where(prefix + name), what))
            elif kind is not DirectoryKind.OTHER:
                found.findings.append(Finding("file-ignored", Where(prefix + name), "not one of Kafka's files"))
        elif parsed.kind is not FileKind.LOCK:
            found.paths.append(prefix + name)
    for name in sorted(below, key=directory_order):
        if _is_foreign(name, kind):
            found.findings.append(_about_foreign(files, directory, prefix + name))
        elif depth == 0:
            found.findings.append(Finding("path-skipped", Where(prefix + name), "is nested too deeply to be searched"))
        else:
            _enter(files, prefix, name, depth - 1, seen, found)


def _sort_out(files: ReadOnlyFiles, prefix: str, names: list[str], found: Discovery) -> tuple[list[str], list[str]]:
    """Return the names of plain files and of directories. A FIFO counts as a file: opening it fails with a message."""
    plain: list[str] = []
    below: list[str] = []
    for name in names:
        try:
            is_directory = files.info(prefix + name).is_directory
        except UnreadableFile as error:
            _refused(files, prefix, name, error, found)
            continue
        (below if is_directory else plain).append(name)
    return plain, below


def _is_foreign(name: str, parent: DirectoryKind) -> bool:
    if name in FOREIGN_DIRECTORIES or name.startswith("."):
        return True
    if parent is DirectoryKind.OTHER:
        return False
    return parent is DirectoryKind.PARTITION or (parse_partition_dir(name) is None and name != REMOTE_INDEX_CACHE)


def _about_foreign(files: ReadOnlyFiles, parent: str, path: str) -> Finding:
    journal = half_commit(files, parent) if file_name(path) == STAGING else None
    if journal is None:
        return Finding("file-ignored", Where(path), "not one of Kafka's directories")
    return Finding("half-committed", Where(journal), f"{WHAT}, or is still running")


def _enter(files: ReadOnlyFiles, prefix: str, name: str, depth: int, seen: set[str], found: Discovery) -> None:
    directory = prefix + name
    try:
        real = files.resolve(directory)
        names = files.list(directory) if real not in seen else []
    except UnreadableFile as error:
        _refused(files, prefix, name, error, found)
        return
    if real in seen:
        what = f"leads to {real}, which is already searched"
        found.findings.append(Finding("file-ignored", Where(directory), what))
        return
    seen.add(real)
    _visit(files, directory, names, depth, seen, found)


def _refused(files: ReadOnlyFiles, prefix: str, name: str, error: UnreadableFile, found: Discovery) -> None:
    """Report `error`, unless a running broker removed or renamed the path meanwhile."""
    try:
        is_there = name in files.list(prefix)
    except UnreadableFile:
        is_there = True
    if is_there:
        found.findings.append(unreadable(prefix + name, error))


def unreadable(path: str, error: KafkalogError) -> Finding:
    """Return the finding for a path that cannot be read."""
    what = str(error).removeprefix(f"{path}: ")  # the finding names the path already
    return Finding("path-unreadable", Where(path), what, step=error.do)


def directory_kind(file_names: Iterable[str]) -> DirectoryKind:
    """Return the kind of a directory from the names of its plain files."""
    kind = DirectoryKind.OTHER
    for name in file_names:
        parsed = parse_file_name(name)
        if parsed is None or parsed.remote_id is not None or _lacks_offset(parsed):
            continue
        if parsed.kind in _PARTITION_FILES:
            return DirectoryKind.PARTITION
        kind = DirectoryKind.LOG_DIR
    return kind


def _lacks_offset(name: FileName) -> bool:
    """Return whether a name has Kafka's suffix but no offset, such as `server.log` or `package.index`."""
    return name.kind in NUMBERED and name.base_offset is None


class HalfCommitted(KafkalogError):
    """A commit of Spark's sink to this log dir is unfinished: undoing it would also undo any change made now."""

    code = "half-committed"


def half_commit(files: ReadOnlyFiles, log_dir: str) -> str | None:
    """Return the path of the journal of an unfinished commit; None: there is none. Raises UnreadableFile."""
    staging = f"{log_dir}/{STAGING}"
    if not files.exists(staging):
        return None
    for name in files.list(staging):
        journal = f"{staging}/{name}/{JOURNAL}"
        if files.exists(journal) and not _holds(files, journal, f"{log_dir}/{MANIFEST}"):
            return journal
    return None


def undoable_since(files: ReadOnlyFiles, log_dir: str) -> int | None:
    """Return when the last commit ended (ms) if it can be undone, else None; see kafkalog_spark.sink.undoing."""
    path = f"{log_dir}/{MANIFEST}"
    try:
        said = json.loads(files.read(path, MAX_KEPT_SIZE)) if files.exists(path) else {}
        return int(said["at_ms"]) if said.get("written") else None
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None


def undo_advice(log_dir: str) -> str:
    """Return the advice for an unfinished commit."""
    return f"kafkalog restore {argument(log_dir)}; the sink's next write does the same"


def refuse_half_commit(files: ReadOnlyFiles, log_dir: str) -> None:
    """Raise HalfCommitted if a commit was interrupted. Hold the lock of the log dir: then no commit is running."""
    journal = half_commit(files, log_dir)
    if journal is not None:
        raise HalfCommitted(f"{journal}: {WHAT}", do=undo_advice(log_dir), path=journal)


def _holds(files: ReadOnlyFiles, journal: str, manifest: str) -> bool:
    """Return whether journal and manifest describe the same commit."""
    commit = _commit(files, journal)
    return commit is not None and commit == _commit(files, manifest)


def _commit(files: ReadOnlyFiles, path: str) -> bytes | None:
    """Return the commit of a journal or manifest, read from its first bytes; None if it is unknown."""
    if not files.exists(path):
        return None
    with files.open(path) as file:
        head = _HEAD.match(file.read(0, _HEAD_SIZE))
    return None if head is None else head[1]
