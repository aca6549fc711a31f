"""Log dirs and the partitions in them: what is there, and what a user means by a path.

Mirrors the listing in LogManager.loadLogs, without giving up at the first directory that is not Kafka's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from engine.advice import argument
from engine.checkpoint.identity import decode_meta_properties, read_identity
from engine.discovery import REMOTE_INDEX_CACHE, DirectoryKind, directory_kind
from engine.errors import EMPTY_PATH, UnreadableFile, UsageError
from engine.files import look
from engine.layout import (
    FileKind,
    PartitionDir,
    PartitionKind,
    directory_order,
    file_name,
    parse_file_name,
    parse_partition_dir,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.files import ReadOnlyFiles

_DEPTH = 4  # directories between a path and the log dirs below it
_LOG_DIR_FILES = frozenset((
    FileKind.META_PROPERTIES, FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT,
    FileKind.LOG_START_CHECKPOINT, FileKind.CLEANER_CHECKPOINT, FileKind.CLEAN_SHUTDOWN, FileKind.LOCK,
))  # fmt: skip


class Place(NamedTuple):
    """A partition directory: its path, the log dir around it as the path spells it, and what its name says."""

    path: str
    log_dir: str
    name: PartitionDir

    @property
    def key(self) -> tuple[str, int]:
        """(topic, partition), as checkpoints name it."""
        return self.name.topic, self.name.partition


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log dir that was listed.

    is_whole  it was named itself, not one of its partitions
    places    partition directories of every kind: all, or those that were named
    foreign   names of directories that stop a broker
    files     names of plain files

    What becomes of its own files. The clean shutdown marker is gone while any of its logs is worked on, and put back where it
    stood unless something failed; `recover` of the whole dir leaves it out. The checkpoints of a broker's dir get the lines of
    logs that were worked on, as what was done (deleted records, a lower end) stands nowhere else; `recover` of partitions
    leaves them as they are. All else is for a dir that is whole: small files are mended, directories of deleted topics
    removed, a marker made.
    """

    path: str
    is_whole: bool
    places: tuple[Place, ...]
    foreign: tuple[str, ...]
    files: tuple[str, ...]

    def partitions(self, *kinds: PartitionKind) -> list[Place]:
        """The partition directories of these kinds; of none named: the plain ones."""
        return [place for place in self.places if place.name.kind in (kinds or (PartitionKind.PLAIN,))]


def list_log_dir(files: ReadOnlyFiles, path: str) -> LogDir:
    """What is in the log dir at `path`.

    Raises UnreadableFile, also where a name in it can not be looked at: who passes over a partition must not mark the log dir
    as clean.
    """
    places: list[Place] = []
    foreign: list[str] = []
    plain: list[str] = []
    for name in sorted(files.list(path), key=directory_order):
        parsed = parse_partition_dir(name)
        info = look(files, f"{path}/{name}")
        if info is None:  # a running broker has removed it, or it is a link to nowhere
            continue
        if not info.is_directory:
            plain.append(name)
        elif name == REMOTE_INDEX_CACHE:
            continue
        elif parsed is None:
            foreign.append(name)
        else:
            places.append(Place(f"{path}/{name}", path, parsed))
    return LogDir(path, True, tuple(places), tuple(foreign), tuple(plain))


def find_log_dirs(files: ReadOnlyFiles, paths: Iterable[str]) -> list[LogDir]:
    """What a user means by `paths`: partition directories, log dirs, directories that hold log dirs.

    Each log dir and each partition comes once, however it is spelled; a log dir named both as a whole and by a partition
    comes whole. Raises UnreadableFile, UsageError for a path where there is none of them.
    """
    found: dict[str, LogDir | None] = {}  # by path, in order; None: some of its partitions were named, see `named`
    named: dict[str, dict[str, Place]] = {}
    spelled: dict[str, str] = {}  # real path → as it was named first

    def known(path: str) -> str:
        return spelled.setdefault(files.resolve(path), path)

    for given in paths:
        if not given:
            raise UsageError(EMPTY_PATH)
        path = given.rstrip("/") or "/"
        if file_name(path) in (".", ".."):  # which say no name
            path = files.resolve(path)
        if is_partition(files, path):
            if known(path) == path:
                place = _place(files, path, known(_around(path)))
                found.setdefault(place.log_dir)
                named.setdefault(place.log_dir, {})[place.path] = place
            continue
        below = _log_dirs_below(files, path, _DEPTH)
        if not below:
            what = f"{path}: neither a partition nor a log dir, and no log dir lies in it"
            do = "name partition directories, such as data/orders-7, or log dirs, which log.dirs in server.properties names"
            raise UsageError(what, do, path=path)
        for log_dir in map(known, below):
            found[log_dir] = list_log_dir(files, log_dir)
    return [whole or LogDir(path, False, tuple(named[path].values()), (), ()) for path, whole in found.items()]


def refuse_unrelated(files: ReadOnlyFiles, paths: Iterable[str]) -> None:
    """Raise UsageError where one of `paths` leads to log dirs of several brokers or clusters, or of nobody knows whom.

    Log dirs that were named themselves are taken as they are.
    """
    for path in paths:
        if is_partition(files, path):
            continue
        below = _log_dirs_below(files, path.rstrip("/") or "/", _DEPTH)
        owners: dict[str | None, str] = {}
        for log_dir in below if len(below) > 1 else ():
            name = f"{log_dir}/{FileKind.META_PROPERTIES.value}"
            identity = decode_meta_properties(read_identity(files, name), name).value if files.exists(name) else None
            owner = None if identity is None else f"belongs to node {identity.node_id} of cluster {identity.cluster_id}"
            owners.setdefault(owner, log_dir)
        if len(owners) > 1:
            one, other = (f"{log_dir} {owner or 'has no meta.properties that says whose it is'}"
                          for owner, log_dir in list(owners.items())[:2])
            what = f"{path}: these log dirs may belong to several brokers: {one}, {other}"
            do = f"name the log dirs one by one, if all are meant: {' '.join(map(argument, below))}"
            raise UsageError(what, do, path=path)


def is_partition(files: ReadOnlyFiles, path: str) -> bool:
    """Is `path` a partition directory, by its name and by what it holds?"""
    if parse_partition_dir(file_name(files.absolute(path))) is None or not files.info(path).is_directory:
        return False
    names = files.list(path)
    return not _is_log_dir(files, path, names) and (not names or directory_kind(names) is DirectoryKind.PARTITION
                                                     or not any(_is_directory(files, f"{path}/{name}") for name in names))


def _around(path: str) -> str:
    """The directory that holds `path`, spelled as `path` is."""
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")


def _place(files: ReadOnlyFiles, path: str, log_dir: str) -> Place:
    """The partition at `path`, which lies in `log_dir`."""
    name = parse_partition_dir(file_name(files.absolute(path)))
    assert name is not None  # is_partition has seen it
    if _around(path) != log_dir:  # named through a link, or in another way
        path = f"{log_dir.rstrip('/')}/{file_name(path)}"
    return Place(path, log_dir, name)


def _is_directory(files: ReadOnlyFiles, path: str) -> bool:
    """Does a directory stand at `path`? What is gone meanwhile, and a link to nowhere, is none. Raises UnreadableFile."""
    info = look(files, path)
    return info is not None and info.is_directory


def _log_dirs_below(files: ReadOnlyFiles, path: str, depth: int) -> list[str]:
    names = files.list(path)
    if _is_log_dir(files, path, names):
        return [path]
    if depth == 0:
        return []
    below = [f"{path.rstrip('/')}/{name}" for name in names]
    return [log_dir for one in below if _is_directory(files, one) for log_dir in _log_dirs_below(files, one, depth - 1)]


def _is_log_dir(files: ReadOnlyFiles, path: str, names: list[str]) -> bool:
    """Does it hold a file that brokers keep in log dirs, or a partition with files in it?

    Raises UnreadableFile where only a partition that may not be looked into could tell.
    """
    for name in names:
        parsed = parse_file_name(name)
        if parsed is not None and parsed.kind in _LOG_DIR_FILES and not parsed.suffix:
            return True
    closed: UnreadableFile | None = None
    for name in names:
        one = f"{path}/{name}"
        if parse_partition_dir(name) is None or not _is_directory(files, one):
            continue
        try:
            inside = files.list(one)
        except UnreadableFile as error:
            closed = closed or error
            continue
        if directory_kind(inside) is DirectoryKind.PARTITION:
            return True
    if closed is not None:
        raise closed
    return False
