"""Find and list log dirs and partitions from the paths that a user gives, and lock them.

Mirrors the listing in LogManager.loadLogs, but does not stop at the first foreign directory.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.identity import MetaProperties, broker_text, decode_meta_properties, read_identity
from engine.discovery.names import (
    FileKind,
    PartitionDir,
    PartitionKind,
    directory_order,
    file_name,
    offset_of,
    parent_of,
    parse_file_name,
    parse_partition_dir,
)
from engine.discovery.paths import (
    REMOTE_INDEX_CACHE,
    DirectoryKind,
    directory_kind,
    is_brokers_log_dir,
    refuse_half_commit,
    unreadable,
)
from engine.errors import EMPTY_PATH, UnreadableFile, UnwritableFile, UsageError, argument
from engine.files import (
    LINK,
    ROOT,
    NotAllowed,
    acting_as,
    acting_as_root,
    acting_owner,
    is_root,
    look,
    may_write,
    mount_step,
    owner_of,
    ownership_fault,
    resolve_trusted,
    user_name,
)
from engine.log.logdir.cluster_metadata import METADATA_DIR

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from engine.discovery.choice import PartitionChoice
    from engine.files import Files, Owner, ReadOnlyFiles
    from engine.findings import Finding


LIVE = (PartitionKind.PLAIN, PartitionKind.FUTURE)  # directories that a broker opens, and whose logs it writes
_SHOWN_TOPICS = 10
_SHOWN = 10  # log dirs that an error lists
_DEPTH = 4  # levels of directories between a path and the log dirs below it
_LOG_DIR_FILES = frozenset((
    FileKind.META_PROPERTIES, FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT,
    FileKind.LOG_START_CHECKPOINT, FileKind.CLEANER_CHECKPOINT, FileKind.CLEAN_SHUTDOWN, FileKind.LOCK,
))  # fmt: skip


class PartitionPath(NamedTuple):
    """A partition directory: its path, its log dir (spelled as in the path), and its parsed name."""

    path: str
    log_dir: str
    name: PartitionDir

    @property
    def key(self) -> tuple[str, int]:
        """(topic, partition), the key in checkpoints."""
        return self.name.topic, self.name.partition


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log dir that was listed.

    is_whole     it was named itself, not only partitions of it
    directories  of partitions of every kind: all, or those that were named
    foreign      names of directories that stop a broker
    files        names of plain files

    How commands change the files of the log dir itself: The clean shutdown marker is removed before a log is changed, and
    restored afterwards unless something failed; `recover` of the whole dir does not restore it. In a broker's log dir the
    checkpoints get the lines of the changed logs, because results such as a higher log start offset or a lower end are
    recorded nowhere else; `recover` of partitions does not change them. Only if the dir was named as a whole, small files are
    repaired, directories of deleted topics are removed, and a marker is created.
    """

    path: str
    is_whole: bool
    directories: tuple[PartitionPath, ...]
    foreign: tuple[str, ...]
    files: tuple[str, ...]

    def partitions(self, *kinds: PartitionKind) -> list[PartitionPath]:
        """The partition directories of these kinds; default: the plain ones."""
        return [partition for partition in self.directories if partition.name.kind in (kinds or (PartitionKind.PLAIN,))]


def list_log_dir(files: ReadOnlyFiles, path: str) -> LogDir:
    """List the log dir at `path`.

    Raises UnreadableFile, also if a name in it cannot be inspected: a command that skips a partition must not mark the log
    dir as clean.
    """
    partitions: list[PartitionPath] = []
    foreign: list[str] = []
    plain: list[str] = []
    for name in sorted(files.list(path), key=directory_order):
        parsed = parse_partition_dir(name)
        info = look(files, f"{path}/{name}")
        if info is None:  # a running broker has removed it, or it is a dangling link
            continue
        if not info.is_directory:
            plain.append(name)
        elif name == REMOTE_INDEX_CACHE:
            continue
        elif parsed is None:
            foreign.append(name)
        else:
            partitions.append(PartitionPath(f"{path}/{name}", path, parsed))
    return LogDir(path, True, tuple(partitions), tuple(foreign), tuple(plain))


def find_log_dirs(
    files: ReadOnlyFiles, paths: Iterable[str], report: Callable[[Finding], None] | None = None
) -> list[LogDir]:
    """Find the log dirs and partitions for `paths`: partition directories, log dirs, directories that contain log dirs.

    Each log dir and partition is returned once, however it is spelled. A log dir that is named as a whole and through a
    partition is returned as a whole. Raises UnreadableFile, and UsageError for a path without any of them.

    report  for commands that change nothing: called instead for each such path, if there is a log dir or partition elsewhere
    """
    finder, errors = _Finder(files), dict[str, UnreadableFile | UsageError]()
    for path in paths:
        if not path:
            raise UsageError(EMPTY_PATH)
        try:
            finder.add(path.rstrip("/") or "/", None if report is None else errors)
        except (UnreadableFile, UsageError) as error:
            if report is None:
                raise
            errors.setdefault(path, error)
    found = finder.log_dirs()
    if report is not None:
        if errors and not found:
            raise next(iter(errors.values()))
        for path, why in errors.items():
            report(unreadable(path, why))
    return found


class _Finder:
    """Collects log dirs and partitions, see find_log_dirs."""

    def __init__(self, files: ReadOnlyFiles) -> None:
        self._files = files
        self._found: dict[str, LogDir | None] = {}  # by path, in order; None: only partitions of it were named
        self._named: dict[str, dict[str, PartitionPath]] = {}
        self._spelled: dict[str, str] = {}  # real path → its first spelling

    def log_dirs(self) -> list[LogDir]:
        """What was found, in order."""
        return [whole or LogDir(path, False, tuple(self._named[path].values()), (), ()) for path, whole in self._found.items()]

    def add(self, path: str, errors: dict[str, UnreadableFile | UsageError] | None) -> None:
        """Add what is at `path`. errors: receives those of directories below it, by path; None: they are raised."""
        files = self._files
        if file_name(path) in (".", ".."):  # not usable as a name
            path = resolve_trusted(path) if is_root() and files.root(path) in ("", "/") else files.resolve(path)
        if is_partition(files, path):
            if self._known(path) == path:
                partition = _partition_path(files, path, self._known(_around(path)))
                self._found.setdefault(partition.log_dir)
                self._named.setdefault(partition.log_dir, {})[partition.path] = partition
            return
        below = _log_dirs_below(files, path, _DEPTH, errors)
        if not below:
            what = f"{path}: not a partition, not a log dir, and not a directory of log dirs"
            do = "name partition directories, such as data/orders-7, or log dirs (log.dirs in server.properties)"
            raise UsageError(what, do, path=path)
        for log_dir in map(self._known, below):
            try:
                self._found[log_dir] = list_log_dir(files, log_dir)
            except UnreadableFile as error:
                if errors is None:
                    raise
                errors[log_dir] = error

    def _known(self, path: str) -> str:
        return self._spelled.setdefault(self._files.resolve(path), path)


def choose_partitions(
    log_dirs: Sequence[LogDir], choice: PartitionChoice, kinds: Collection[PartitionKind] = LIVE
) -> list[LogDir]:
    """Return `log_dirs` with the chosen partitions only, as if these had been named one by one.

    kinds  of directories that a choice can mean
    Log dirs without a chosen partition are left out. Raises UsageError if there is no such partition at all.
    """
    if choice.is_all or not log_dirs:
        return list(log_dirs)
    found = []
    for log_dir in log_dirs:
        partitions = tuple(partition for partition in log_dir.partitions(*kinds) if choice.includes(partition.name))
        if partitions:
            found.append(replace(log_dir, is_whole=False, directories=partitions, foreign=(), files=()))
    if not found:
        there = {partition.name.topic for log_dir in log_dirs for partition in log_dir.partitions(*kinds)}
        raise no_partition(choice, there)
    return found


def no_partition(choice: PartitionChoice, topics: Collection[str]) -> UsageError:
    """The error if no partition is chosen. `topics`: those that were found."""
    what = f"no partition of {choice} was found" if choice.topics else f"no {choice} was found"
    return UsageError(what, topics_found(topics))


def find_replicas(files: ReadOnlyFiles, paths: Iterable[str], choice: PartitionChoice) -> list[list[str]]:
    """Find the directories of the chosen partitions for `paths`, in order. Copies of one partition are adjacent.

    Directories that are not current replicas count only if `paths` names them.
    Raises UnreadableFile, UsageError as `find_log_dirs` and `choose_partitions` do.
    """
    found: dict[tuple[str, int], list[str]] = {}
    for log_dir in choose_partitions(find_log_dirs(files, paths), choice, (PartitionKind.PLAIN,)):
        for partition in log_dir.partitions() if log_dir.is_whole else log_dir.directories:
            found.setdefault(partition.key, []).append(partition.path)
    return [found[key] for key in sorted(found)]


def topics_found(topics: Collection[str]) -> str | None:
    """Return the advice to name one of these topics, of which it shows some; None: there is none."""
    shown = sorted(topics)[:_SHOWN_TOPICS]
    return f"name one of the topics found: {', '.join(shown)}{', …' if len(topics) > len(shown) else ''}" if shown else None


def refuse_unrelated(files: ReadOnlyFiles, paths: Iterable[str]) -> None:
    """Raise UsageError if one of `paths` contains log dirs of several brokers or clusters, or of unknown ones.

    Log dirs that were named themselves are not checked.
    """
    for path in paths:
        if is_partition(files, path):
            continue
        below = _log_dirs_below(files, path.rstrip("/") or "/", _DEPTH)
        owners: dict[str | None, str] = {}
        for log_dir in below if len(below) > 1 else ():
            name = f"{log_dir}/{FileKind.META_PROPERTIES.value}"
            identity = read_identity(files, name, decode_meta_properties).value if files.exists(name) else None
            owners.setdefault(_broker_of(identity), log_dir)
        if len(owners) > 1:
            one, other = (f"{log_dir} {owner or 'has no meta.properties that names its broker'}"
                          for owner, log_dir in list(owners.items())[:2])
            what = f"{path}: these log dirs may belong to several brokers: {one}, {other}"
            more = f" … ({len(below)} log dirs)" if len(below) > _SHOWN else ""
            do = f"if you mean all of them, name the log dirs one by one: {' '.join(map(argument, below[:_SHOWN]))}{more}"
            raise UsageError(what, do, path=path)


def _broker_of(identity: MetaProperties | None) -> str | None:
    """Whose log dir it is, in words; None: its meta.properties names neither a node nor a cluster."""
    is_named = identity is not None and (identity.node_id is not None or identity.cluster_id is not None)
    return f"belongs to {broker_text(identity.node_id, identity.cluster_id)}" if identity is not None and is_named else None


def is_partition(files: ReadOnlyFiles, path: str) -> bool:
    """Is `path` a partition directory, according to its name and its content?"""
    if parse_partition_dir(file_name(files.absolute(path))) is None or not files.info(path).is_directory:
        return False
    names = files.list(path)
    return not _is_log_dir(files, path, names) and (not names or directory_kind(names) is DirectoryKind.PARTITION
                                                     or not any(_is_directory(files, f"{path}/{name}") for name in names))


def _around(path: str) -> str:
    """The directory that contains `path`, spelled as in `path`."""
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")


def _partition_path(files: ReadOnlyFiles, path: str, log_dir: str) -> PartitionPath:
    """The partition at `path`, in `log_dir`."""
    name = parse_partition_dir(file_name(files.absolute(path)))
    assert name is not None  # is_partition has checked it
    if _around(path) != log_dir:  # named through a link, or with another spelling
        path = f"{log_dir.rstrip('/')}/{file_name(path)}"
    return PartitionPath(path, log_dir, name)


def _is_directory(files: ReadOnlyFiles, path: str) -> bool:
    """Is there a directory at `path`? False if it was deleted, or for a dangling link. Raises UnreadableFile."""
    info = look(files, path)
    return info is not None and info.is_directory


def _log_dirs_below(
    files: ReadOnlyFiles, path: str, depth: int, errors: dict[str, UnreadableFile | UsageError] | None = None
) -> list[str]:
    """The log dirs at and below `path`. errors: receives those of directories below it, by path; None: they are raised."""
    names = files.list(path)
    if _is_log_dir(files, path, names):
        return [path]
    found: list[str] = []
    for one in [f"{path.rstrip('/')}/{name}" for name in names] if depth else ():
        try:
            found += _log_dirs_below(files, one, depth - 1, errors) if _is_directory(files, one) else ()
        except UnreadableFile as error:
            if errors is None:
                raise
            errors[one] = error
    return found


def _is_log_dir(files: ReadOnlyFiles, path: str, names: list[str]) -> bool:
    """Does it contain a file that brokers keep in log dirs, or a partition with files?

    Raises UnreadableFile if only an unreadable partition could decide.
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


@contextmanager
def locked(
    files: Files, log_dirs: Iterable[str], partitions: Iterable[str] = (), *, quarantine: Iterable[str] = (),
    undoes_commits: bool = False,
) -> Iterator[None]:
    """Lock the `.lock` of each log dir. Meanwhile root acts with the rights of their owner, see acting_as.

    partitions  directories in them that will be changed: if one is a symbolic link, the directory that contains its target is
                locked too, which may be the log dir of a running broker
    quarantine  directories of a quarantine that will be restored
    undoes_commits  the caller undoes an interrupted commit of Spark's sink, so it is allowed
    Raises LogDirLocked if it is locked already, UnwritableFile, HalfCommitted, NotAllowed, UsageError for log dirs of several
    users.

    The lock files are not removed, as in Kafka: a process that had one open would lock a deleted file.
    """
    spelled, changed, kept = list(log_dirs), list(partitions), list(quarantine)
    with ExitStack() as stack:  # releases the locks after an error
        stack.enter_context(_held(files, (*spelled, *kept), changed))
        named = list(dict.fromkeys(map(files.resolve, spelled)))
        directories, links = lock_directories(files, spelled, changed), _links(files, changed)
        owner = _owner(files, [*named, *changed, *kept])
        user = ROOT if owner is None else owner.user
        roots = {one for one in directories if owner is None or files.info(one).owner == ROOT}  # only root can replace these
        reach = [one for one in (*links, *kept) if files.info(one).owner == user]
        after = [one for one in directories if one not in named]

        def hold(log_dir: str) -> None:
            _hold(files, log_dir, stack, is_named=log_dir in named)
            if not undoes_commits:
                with acting_as_root() if log_dir in roots else nullcontext():
                    refuse_half_commit(files, log_dir)

        for log_dir in named:
            if log_dir in roots:
                hold(log_dir)
        stack.enter_context(acting_as(owner, reach, dict.fromkeys((*spelled, *named))))
        for log_dir in named:
            if log_dir not in roots:
                hold(log_dir)
        if acting_owner() is not None:
            around = [one for one in named if one not in roots or is_brokers_log_dir(files, one)]
            _refuse_faults(files, (*changed, *kept, *around), links)
        for log_dir in after:  # last: a link may point anywhere, and root must create nothing that its owner could not
            with acting_as_root():
                is_there = log_dir in roots and files.exists(f"{log_dir}/{FileKind.LOCK.value}")
            with acting_as_root() if is_there else nullcontext():
                hold(log_dir)
        yield


@contextmanager
def rights_of_owner(files: ReadOnlyFiles, log_dirs: Iterable[str], partitions: Iterable[str] = ()) -> Iterator[None]:
    """Let root work on log dirs with the rights of their owner, without a lock. Raises NotAllowed, UsageError."""
    around, changed = list(dict.fromkeys(log_dirs)), list(partitions)
    with _held(files, around, changed):
        links = _links(files, changed)
        owner = _owner(files, (*around, *changed))
        reach = [one for one in links if owner is not None and files.info(one).owner == owner.user]
        with acting_as(owner, reach, around):
            if acting_owner() is not None:
                _refuse_faults(files, changed, links)
            yield


@contextmanager
def _held(files: ReadOnlyFiles, directories: Sequence[str], partitions: Iterable[str]) -> Iterator[None]:
    """Let root hold `directories` and those around `partitions`, see ReadOnlyFiles.held.

    Raises NotAllowed too if the path of a partition no longer leads into one of `directories`.
    """
    around = dict.fromkeys(parent_of(files.absolute(partition)) for partition in partitions)
    with files.held((*directories, *around)):
        real = {files.resolve(directory) for directory in directories} if is_root() else set()
        for path in around if real else ():
            if files.resolve(path) not in real:
                raise NotAllowed(f"{path}: another process replaced a directory on this path: it leads to "
                                 f"{files.resolve(path)} now", do=f"namei -l {argument(path)}    # shows who can do that")
        yield


def refuse_other_owner(files: ReadOnlyFiles, directories: Iterable[str]) -> None:
    """Raise NotAllowed if root would work on directories of another user and cannot use that user's rights.

    For a directory that does not exist, its parent counts. For processes that do other work too, such as Spark's.
    """
    for directory in directories if is_root() else ():
        path = files.absolute(directory)
        while not files.exists(path):
            path = parent_of(path)
        user = files.info(path).owner
        if user != ROOT:
            what = (f"{path}: belongs to user {user_name(user)}, and root does not take over that user's rights in Spark's "
                    "processes")
            raise NotAllowed(what, do=f"start Spark as that user: sudo -u '#{user}' …")


def lock_directories(files: ReadOnlyFiles, log_dirs: Iterable[str], partitions: Iterable[str]) -> list[str]:
    """The directories to lock for `partitions`: their log dirs, and the directories that contain the targets of links."""
    real = [files.resolve(log_dir) for log_dir in log_dirs]
    return list(dict.fromkeys((*real, *(parent_of(target) for target in _links(files, partitions).values()))))


def not_permitted(files: ReadOnlyFiles, log_dirs: Iterable[str], partitions: Iterable[str]) -> list[UnwritableFile]:
    """Errors for directories in which this process cannot write: one for each log dir, or for its first such partition."""
    found: dict[str, UnwritableFile] = {}
    for log_dir in lock_directories(files, log_dirs, partitions):
        lock = f"{log_dir}/{FileKind.LOCK.value}"
        target = lock if files.exists(lock) and not may_write(lock) else log_dir
        if not may_write(target):
            found[log_dir] = _refused(files, target)
    for partition in partitions:
        log_dir = parent_of(files.absolute(partition))
        if log_dir not in found and not may_write(partition):
            found[log_dir] = _refused(files, partition)
    return list(found.values())


def _refused(files: ReadOnlyFiles, path: str) -> UnwritableFile:
    why, do = "no write permission", f"ls -ld {argument(path)}    # shows the owner; run kafkalog as that user"
    if files.space(path).is_read_only:
        why = "its file system is mounted read-only"
        do = mount_step(path)
    return UnwritableFile(f"{path}: {why}: without --dry-run the command would fail", do=do)


def _links(files: ReadOnlyFiles, partitions: Iterable[str]) -> dict[str, str]:
    """The partition directories that are symbolic links → their targets."""
    together: dict[str, list[str]] = {}
    for partition in partitions:
        together.setdefault(parent_of(files.absolute(partition)), []).append(partition)
    return {
        partition: files.resolve(partition)
        for directory, inside in together.items() if LINK in (special := files.special(directory)).values()
        for partition in inside if special.get(file_name(partition)) == LINK
    }  # fmt: skip


def _hold(files: Files, log_dir: str, stack: ExitStack, *, is_named: bool) -> None:
    """Lock a directory. If it was not named and is not a broker's, failing to create a lock there is not an error."""
    path = f"{log_dir}/{FileKind.LOCK.value}"
    try:
        lock = files.lock(path)
    except UnwritableFile as error:
        with acting_as_root():  # to read any directory
            is_there = files.exists(path)
            is_kafkas = is_there or is_brokers_log_dir(files, log_dir)
        fault = ownership_fault(path if is_there else log_dir)
        if fault is not None and is_named:
            own = (f"sudo -u '#{files.info(log_dir).owner}' rm {argument(path)}    # if no broker runs there; it is created "
                   "again")
            raise NotAllowed(fault.what, do=own if is_there else fault.do) from error
        if is_named or is_kafkas:
            raise
    else:
        stack.callback(lock.release)


def _owner(files: ReadOnlyFiles, directories: Iterable[str]) -> Owner | None:
    """The user whose rights root uses to change `directories`; None: root owns all of them. Raises UsageError for several."""
    if not is_root():
        return None
    owned = {files.info(directory).owner: directory for directory in directories}
    owned.pop(ROOT, None)
    if len(owned) > 1:
        (one, mine), (other, theirs), *_ = owned.items()
        what = (f"{mine} belongs to user {user_name(one)}, {theirs} to user {user_name(other)}; root works on the directories "
                "of one user at a time, with that user's rights")
        raise UsageError(what, do="name the log dirs of each user in a separate call")
    return owner_of(next(iter(owned.values()))) if owned else None


def _refuse_faults(files: ReadOnlyFiles, directories: Iterable[str], links: dict[str, str]) -> None:
    """Raise NotAllowed, before anything is changed, if the owner may not change all of Kafka's files in `directories`."""
    for directory in directories:
        real = links.get(directory, directory)
        fault = ownership_fault(real)
        if fault is not None and directory in links:
            what = f"{directory}: {LINK} to {real}, and {fault.what}"
            raise NotAllowed(what, do=f"name {argument(real)} itself if the link is right; otherwise remove the link")
        names = [] if fault is not None else [name for name in files.plain(directory) if parse_file_name(name) is not None]
        for name in names:
            if fault is None:
                fault = ownership_fault(f"{directory}/{name}")
        if fault is not None:
            raise NotAllowed(fault.what, do=fault.do)


KINDS = frozenset((
    FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX, FileKind.PRODUCER_SNAPSHOT,
))  # fmt: skip
_SUFFIXES = (*(kind.value for kind in KINDS), ".cleaned", ".swap")


class FileWithoutOffset(NamedTuple):
    """A segment file without an offset in its name. `message`: the broker's message, if it is the first one that it reads."""

    name: str
    kind: FileKind
    message: str


def files_without_offset(files: ReadOnlyFiles, directory: str, names: Iterable[str]) -> Iterator[FileWithoutOffset]:
    """Yield such files among the `names` in the partition at `directory`, in order."""
    for name in sorted(name for name in names if name.endswith(_SUFFIXES) and offset_of(name) is None):
        info = look(files, f"{directory}/{name}")
        if info is None or not info.is_file:
            continue
        parsed = parse_file_name(name)
        number = name.partition(".")[0]
        message = f'java.lang.NumberFormatException: For input string: "{number}"'
        if file_name(directory) != METADATA_DIR:  # the metadata log is loaded before all others
            message = f"There was an error in one of the threads during logs loading: {message}"
        yield FileWithoutOffset(name, FileKind.LOG if parsed is None else parsed.kind, message)
