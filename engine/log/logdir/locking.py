"""The locks of log dirs: as long as one of ours is held, no broker starts there, and none is running.

Root works on the log dirs of another user with that user's rights. Mirrors LogManager.lockLogDirs.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING

from engine.advice import argument
from engine.discovery import is_brokers_log_dir
from engine.errors import UnwritableFile, UsageError
from engine.files import (
    LINK,
    ROOT,
    NotAllowed,
    acting_as,
    acting_as_root,
    acting_owner,
    is_root,
    may_write,
    owner_of,
    ownership_fault,
    user_name,
)
from engine.half_commits import refuse_half_commit
from engine.layout import FileKind, file_name, parent_of, parse_file_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.files import Files, Owner, ReadOnlyFiles


@contextmanager
def locked(
    files: Files, log_dirs: Iterable[str], partitions: Iterable[str] = (), *, quarantine: Iterable[str] = (),
    undoes_commits: bool = False,
) -> Iterator[None]:
    """Hold `.lock` of each of the log dirs. Root has the rights of their owner meanwhile, see acting_as.

    partitions  directories in them that are going to be changed: where one is a symbolic link, the directory that it really
                lies in is locked as well, which may be the log dir of a running broker
    quarantine  directories of one that is going to be restored
    undoes_commits  a commit of Spark's sink that was stopped in one of them may be there: the caller undoes it
    Raises LogDirLocked if it is held already, UnwritableFile, HalfCommitted, NotAllowed, UsageError for log dirs of several
    users.

    The files stay, as Kafka leaves them: who opened one before it was removed would lock a name that nobody else sees.
    """
    spelled, changed, kept = list(log_dirs), list(partitions), list(quarantine)
    named = list(dict.fromkeys(map(files.resolve, spelled)))
    directories, links = lock_directories(files, spelled, changed), _links(files, changed)
    owner = _owner(files, [*named, *changed])
    user = ROOT if owner is None else owner.user
    roots = {one for one in directories if owner is None or files.info(one).owner == ROOT}  # nobody else can exchange these
    reach = [one for one in (*links, *kept) if files.info(one).owner == user]
    behind = [one for one in directories if one not in named]
    with ExitStack() as stack:  # those held so far must be released
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
        for log_dir in behind:  # only now: a link may lead anywhere, and root makes nothing there that its owner could not
            with acting_as_root():
                is_there = log_dir in roots and files.exists(f"{log_dir}/{FileKind.LOCK.value}")
            with acting_as_root() if is_there else nullcontext():
                hold(log_dir)
        yield


@contextmanager
def rights_of_owner(files: ReadOnlyFiles, log_dirs: Iterable[str], partitions: Iterable[str] = ()) -> Iterator[None]:
    """Let root work on log dirs with the rights of their owner, without a lock. Raises NotAllowed, UsageError."""
    around, changed = list(dict.fromkeys(log_dirs)), list(partitions)
    links = _links(files, changed)
    owner = _owner(files, (*around, *changed))
    reach = [one for one in links if owner is not None and files.info(one).owner == owner.user]
    with acting_as(owner, reach, around):
        if acting_owner() is not None:
            _refuse_faults(files, changed, links)
        yield


def refuse_other_owner(files: ReadOnlyFiles, directories: Iterable[str]) -> None:
    """Raise NotAllowed if root is about to work on directories of another user where it can not take that user's rights.

    Of a directory that is not there counts the one around it. For processes that do other work as well, such as Spark's.
    """
    for directory in directories if is_root() else ():
        path = files.absolute(directory)
        while not files.exists(path):
            path = parent_of(path)
        user = files.info(path).owner
        if user != ROOT:
            what = f"{path}: belongs to user {user_name(user)}, whose rights root does not take in Spark's processes"
            raise NotAllowed(what, do=f"start Spark as that user: sudo -u '#{user}' …")


def lock_directories(files: ReadOnlyFiles, log_dirs: Iterable[str], partitions: Iterable[str]) -> list[str]:
    """The directories whose `.lock` keeps brokers away from partitions: their log dirs, and those where links really lead."""
    real = [files.resolve(log_dir) for log_dir in log_dirs]
    return list(dict.fromkeys((*real, *(parent_of(target) for target in _links(files, partitions).values()))))


def not_permitted(files: ReadOnlyFiles, log_dirs: Iterable[str], partitions: Iterable[str]) -> list[UnwritableFile]:
    """Why this process could not work there: what it may not write to, one error for each log dir or its first partition."""
    found: dict[str, UnwritableFile] = {}
    for log_dir in lock_directories(files, log_dirs, partitions):
        lock = f"{log_dir}/{FileKind.LOCK.value}"
        place = lock if files.exists(lock) and not may_write(lock) else log_dir
        if not may_write(place):
            found[log_dir] = _refused(place)
    for partition in partitions:
        log_dir = parent_of(files.absolute(partition))
        if log_dir not in found and not may_write(partition):
            found[log_dir] = _refused(partition)
    return list(found.values())


def _refused(path: str) -> UnwritableFile:
    do = f"ls -ld {argument(path)}    # whose it is; run kafkalog as that user"
    return UnwritableFile(f"{path}: no permission to write: without --dry-run nothing would be done", do=do)


def _links(files: ReadOnlyFiles, partitions: Iterable[str]) -> dict[str, str]:
    """Those of the partition directories that are symbolic links, and what they lead to."""
    together: dict[str, list[str]] = {}
    for partition in partitions:
        together.setdefault(parent_of(files.absolute(partition)), []).append(partition)
    return {
        partition: files.resolve(partition)
        for directory, inside in together.items() if LINK in (special := files.special(directory)).values()
        for partition in inside if special.get(file_name(partition)) == LINK
    }  # fmt: skip


def _hold(files: Files, log_dir: str, stack: ExitStack, *, is_named: bool) -> None:
    """Lock a directory. One that was not named, and that is not a broker's, may be one where we cannot make a lock."""
    path = f"{log_dir}/{FileKind.LOCK.value}"
    try:
        lock = files.lock(path)
    except UnwritableFile as error:
        with acting_as_root():  # who can look everywhere
            is_there = files.exists(path)
            is_kafkas = is_there or is_brokers_log_dir(files, log_dir)
        fault = ownership_fault(path if is_there else log_dir)
        if fault is not None and is_named:
            own = f"sudo -u '#{files.info(log_dir).owner}' rm {argument(path)}    # when no broker runs there; it is made again"
            raise NotAllowed(fault.what, do=own if is_there else fault.do) from error
        if is_named or is_kafkas:
            raise
    else:
        stack.callback(lock.release)


def _owner(files: ReadOnlyFiles, directories: Iterable[str]) -> Owner | None:
    """The user whose rights root takes to change `directories`; None: root owns all of them. Raises UsageError for several."""
    if not is_root():
        return None
    owned = {files.info(directory).owner: directory for directory in directories}
    owned.pop(ROOT, None)
    if len(owned) > 1:
        (one, mine), (other, theirs), *_ = owned.items()
        what = (f"{mine} belongs to user {user_name(one)}, {theirs} to user {user_name(other)}; root works on the directories "
                "of one user at a time, with that user's rights")
        raise UsageError(what, do="name the log dirs of one user in one call, those of the other in the next")
    return owner_of(next(iter(owned.values()))) if owned else None


def _refuse_faults(files: ReadOnlyFiles, directories: Iterable[str], links: dict[str, str]) -> None:
    """Raise NotAllowed, before anything is changed, if the owner may not change all of Kafka's files in `directories`."""
    for directory in directories:
        real = links.get(directory, directory)
        fault = ownership_fault(real)
        if fault is not None and directory in links:
            what = f"{directory}: {LINK} to {real}, and {fault.what}"
            raise NotAllowed(what, do=f"name {argument(real)} itself, if the link is right; else remove it")
        names = [] if fault is not None else [name for name in files.plain(directory) if parse_file_name(name) is not None]
        for name in names:
            if fault is None:
                fault = ownership_fault(f"{directory}/{name}")
        if fault is not None:
            raise NotAllowed(fault.what, do=fault.do)
