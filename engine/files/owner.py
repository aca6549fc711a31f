"""File ownership: root works on the log dirs of another user with that user's rights, and follows only links that it trusts.

Otherwise the owner of a log dir could lead root to other files, by replacing a directory with a symbolic link at the right
moment. New files then belong to the owner, too: a broker that does not run as root could not open root's files.

All threads of a process have the same user: rights change only while no other thread works.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import KafkalogError, argument
from engine.files.open_file import OPEN_DIRECTORY, at, open_below, path_of, pinned, real_path, spelled, status_of, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ROOT = 0  # a user id
_MAP_SIZE = 1 << 16  # bytes read of the user map of a namespace
_NOBODY = 65534  # the id of a group without rights


class NotAllowed(KafkalogError):
    """Root cannot take the rights of the owner of a log dir, or the owner lacks rights that the work needs."""

    code = "owner-not-allowed"


class Owner(NamedTuple):
    """A user whose rights the process takes. `group`: of new files; `groups`: all groups of the user."""

    user: int
    group: int
    groups: tuple[int, ...]


class Acting(NamedTuple):
    """The state while root has the rights of `owner`.

    made  path → function that removes the directory; for each directory made for the owner outside of the log dir
    """

    owner: Owner
    group: int  # of root
    stack: ExitStack
    made: dict[str, Callable[[], None]]


class Opened(NamedTuple):
    """A directory that root opened. `above`: the directories around it as root sees them."""

    path: str
    real: str
    descriptor: int
    above: dict[str, os.stat_result]


_ACTING: list[Acting] = []  # one at most


def is_root() -> bool:
    """Return whether this process runs as root."""
    return os.geteuid() == ROOT


def this_user() -> int:
    """Return the user id whose rights this process has."""
    return os.geteuid()


def acting() -> Acting | None:
    """Return the state while root has the rights of another user; None: it has its own, or the process is not root's."""
    return _ACTING[0] if _ACTING else None


def acting_owner() -> Owner | None:
    """Return the user whose rights root has taken; None: it has its own, or the process is not root's."""
    return _ACTING[0].owner if _ACTING else None


def user_name(user: int) -> str:
    """Return the name and id of a user."""
    import pwd

    try:
        return f"{pwd.getpwuid(user).pw_name} ({user})"
    except KeyError:
        return str(user)


def owner_of(path: str) -> Owner:
    """Return the owner of the directory at `path`, with the groups that the system knows. Raises UnreadableFile.

    New files get the group of the directory if its owner is a member of it. The owner may not be: with the set-group-ID bit a
    directory inherits the group of its parent.
    """
    import grp
    import pwd

    try:
        status = status_of(path)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    user, group = status.st_uid, status.st_gid
    try:
        known = pwd.getpwuid(user)
    except KeyError:
        try:
            grp.getgrgid(group)
        except KeyError:  # unknown here, as users and groups of a container may be: it gives no rights
            return Owner(user, group, (group,))
        return Owner(user, _NOBODY, (_NOBODY,))
    groups = tuple(os.getgrouplist(known.pw_name, known.pw_gid))
    return Owner(user, group if group in groups else known.pw_gid, groups)


@contextmanager
def acting_as(owner: Owner | None, reach: Iterable[str] = (), around: Iterable[str] = ()) -> Iterator[None]:
    """Let root work with the rights of `owner`; None, or not root: change nothing.

    reach   directories of the owner to work on, including those that only root can reach
    around  the same; they may belong to root
    Raises NotAllowed if the system refuses, UnreadableFile.
    """
    if owner is None or owner.user == ROOT or not is_root():
        yield
        return
    with ExitStack() as stack:
        opened = [_opened(path, (owner.user, ROOT), stack) for path in around]
        opened += [_opened(path, (owner.user,), stack) for path in reach]
        now = Acting(owner, os.getegid(), stack, {})
        stack.enter_context(_member_of(owner))
        _ACTING.append(now)
        stack.callback(_ACTING.pop)
        with rights_of(owner.user, owner.group), _own_temporary_directory():
            for directory in opened:
                pin(now, directory)
            yield


@contextmanager
def acting_as_root() -> Iterator[None]:
    """Let root have its own rights again for some time."""
    if not _ACTING:
        yield
        return
    with rights_of(ROOT, _ACTING[0].group):
        yield


@contextmanager
def rights_of(user: int, group: int) -> Iterator[None]:
    """Work with the effective rights of a user. Only for root. Raises NotAllowed."""
    before = os.geteuid(), os.getegid()
    _take_rights(user, group)
    try:
        yield
    finally:
        _take_rights(*before)


def _take_rights(user: int, group: int) -> None:
    """Take the effective rights of a user. Raises NotAllowed; the process then has root's rights."""
    os.seteuid(ROOT)
    before = os.getegid()
    try:
        os.setegid(group)
        os.seteuid(user)
    except OSError as error:
        os.setegid(before)
        raise _refused(user, error) from error


@contextmanager
def _member_of(owner: Owner) -> Iterator[None]:
    """Replace root's groups with those of `owner`. Raises NotAllowed."""
    before = os.getgroups()
    try:
        os.setgroups(owner.groups)
    except OSError as error:
        raise _refused(owner.user, error) from error
    try:
        yield
    finally:
        os.setgroups(before)


def _refused(user: int, error: OSError) -> NotAllowed:
    what = f"user {user_name(user)} owns the files to be changed, and root cannot take that user's rights: {error.strerror}"
    if not _is_mapped(user):
        do = ("this user namespace (a container, unshare) does not map that user and shows another number for it: run "
              "kafkalog outside of it, as the user that owns the files there")
        return NotAllowed(what, do=do)
    return NotAllowed(what, do=f"run the command as that user: {_as(user)} kafkalog …")


def _is_mapped(user: int) -> bool:
    """Return whether the user namespace of this process maps `user`. It shows files of unmapped users as nobody's."""
    try:
        descriptor = os.open("/proc/self/uid_map", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # no namespaces
        return True
    try:
        ranges = [[int(word) for word in line.split()] for line in os.read(descriptor, _MAP_SIZE).splitlines()]
    finally:
        os.close(descriptor)
    return any(first <= user < first + count for first, _outside, count in ranges)


@contextmanager
def _own_temporary_directory() -> Iterator[None]:
    """Let `tempfile` find a directory that the user may write to."""
    import tempfile

    before, tempfile.tempdir = tempfile.tempdir, None
    try:
        yield
    finally:
        tempfile.tempdir = before


def _opened(path: str, owners: tuple[int, ...], stack: ExitStack) -> Opened:
    """Open, as root, a directory that belongs to one of `owners`."""
    try:
        real, descriptor = real_path(path), open_below(path, OPEN_DIRECTORY)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    stack.callback(os.close, descriptor)
    if os.fstat(descriptor).st_uid not in owners:
        raise NotAllowed(f"{path}: its owner changed: it no longer belongs to user {user_name(owners[0])}")
    return Opened(path, real, descriptor, directories_around(path, real))


def directories_around(*paths: str) -> dict[str, os.stat_result]:
    """Return the directories around `paths` as root sees them."""
    found: dict[str, os.stat_result] = {}
    for path in map(spelled, paths):
        while path := path.rpartition("/")[0]:
            found[path] = os.stat(path)
    return found


def pin(now: Acting, directory: Opened) -> None:
    """Access a directory through its descriptor if its owner cannot reach its path."""
    try:
        if os.path.samestat(status_of(directory.path), os.fstat(directory.descriptor)):
            return
    except OSError:
        pass
    for name in {spelled(directory.path), directory.real}:
        now.stack.enter_context(pinned(name, os.dup(directory.descriptor), directory.above))


# ---- what the owner may change


HARD_LINK = "find / -xdev -samefile"  # prints the other names of a file


class Fault(NamedTuple):
    """Why the owner cannot change what is at a path, and what to do.

    The owner may replace the path with a link before root runs the advised command: so the command has the rights of the owner,
    or changes a directory entry and never follows a link.
    """

    what: str
    do: str


def ownership_fault(path: str) -> Fault | None:
    """Return why the user whose rights root has taken cannot change the file or directory at `path`; None: no reason known.

    A symbolic link has no permissions of its own. Raises UnreadableFile.
    """
    owner = acting_owner()
    if owner is None:
        return None
    name, descriptor = at(path)
    try:
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        is_allowed = os.access(name, os.R_OK | os.W_OK, dir_fd=descriptor, effective_ids=True)
    except FileNotFoundError:
        return None
    except PermissionError:
        what = f"{path}: user {user_name(owner.user)} has no permission to search this path"
        return Fault(what, f"namei -l {argument(path)}")
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if is_allowed or stat.S_ISLNK(status.st_mode):
        return None
    if status.st_uid != owner.user:
        mine, theirs = user_name(owner.user), user_name(status.st_uid)
        what = (f"{path}: belongs to user {theirs}; root works here with the rights of user {mine}, which do not allow "
                "changing it")
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            what += "; it is a hard link: changes also affect the other names of the file"
            return Fault(what, f"{HARD_LINK} {argument(path)}")
        if stat.S_ISDIR(status.st_mode):
            return Fault(what, f"chown -h {owner.user}:{owner.group} {argument(path)}")
        own = argument(f"{path}.own")
        return Fault(what, f"{_as(owner.user)} cp -p {argument(path)} {own} && {_as(owner.user)} mv {own} {argument(path)}"
                     "    # replaces it with a copy that belongs to the owner")
    wanted = stat.S_IRWXU if stat.S_ISDIR(status.st_mode) else stat.S_IRUSR | stat.S_IWUSR
    if status.st_mode & wanted == wanted:
        return None  # the file system is read-only: the change itself will report it
    return Fault(f"{path}: its owner, user {user_name(owner.user)}, has no permission to read and change it",
                 f"{_as(owner.user)} chmod -R u+rwX {argument(path)}")


def _as(user: int) -> str:
    return f"sudo -u '#{user}'"


# ---- paths that root follows to a directory to change: other users must not choose the directory with a symbolic link


_NAME = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC  # opens what has the name, a link too
_MAX_LINKS = 40  # on a path, as in Linux


class Walk(NamedTuple):
    """A directory that was opened from `/` step by step.

    links     users other than root who can change a link on the path → the first such link
    is_roots  only root can change a name on the path, or in the directory
    """

    descriptor: int
    links: dict[int, str]
    is_roots: bool


def walk(path: str) -> Walk:
    """Open the directory at `path`. Raises OSError, ValueError."""
    words, followed, is_roots = _words(path), 0, True
    links: dict[int, str] = {}
    with ExitStack() as stack:
        around = _open_name("/", None, stack)
        while words:
            status = os.fstat(around)
            is_roots = is_roots and _is_roots_own(status)
            word = words.pop()
            found = _open_name(word, around, stack)
            named = os.fstat(found)
            if not stat.S_ISLNK(named.st_mode):
                around = found
                continue
            followed += 1
            if followed > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            is_roots = is_roots and named.st_uid == ROOT
            for user in {named.st_uid, status.st_uid} - {ROOT}:
                links.setdefault(user, f"{path_of(around).rstrip('/')}/{word}")
            target = os.readlink("", dir_fd=found)
            words += _words(target)
            around = _open_name("/", None, stack) if target.startswith("/") else around
        is_roots = is_roots and _is_roots_own(os.fstat(around))
        return Walk(os.open(".", OPEN_DIRECTORY, dir_fd=around), links, is_roots)


def _words(path: str) -> list[str]:
    """The names of a path, the last one first."""
    return [word for word in reversed(path.split("/")) if word not in ("", ".")]


def _open_name(name: str, around: int | None, stack: ExitStack) -> int:
    descriptor = os.open(name, _NAME, dir_fd=around)
    stack.callback(os.close, descriptor)
    return descriptor


def _is_roots_own(status: os.stat_result) -> bool:
    open_to_all = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid == ROOT and (not open_to_all or bool(status.st_mode & stat.S_ISVTX))


def resolve_trusted(path: str) -> str:
    """Return the real path of the directory at `path`, checked as by `held_for_root`. Raises NotAllowed, UnreadableFile."""
    found = _trusted(spelled(path))
    try:
        return path_of(found.descriptor)
    finally:
        os.close(found.descriptor)


@contextmanager
def held_for_root(paths: Iterable[str]) -> Iterator[None]:
    """Let root work on the directories at `paths`, and on no others that users bring to these paths meanwhile.

    A symbolic link is followed if it, and the directory that contains it, belong to root or to the owner of the directory at
    the end of the path: other users could choose a directory that is not theirs. Not root: change nothing.
    Raises NotAllowed, UnreadableFile.
    """
    with ExitStack() as stack:
        for path in dict.fromkeys(map(spelled, paths)) if is_root() else ():
            if at(path)[1] is None:  # else it is held already
                _hold(path, stack)
        yield


def _hold(path: str, stack: ExitStack) -> None:
    found = _trusted(path)
    with ExitStack() as until_held:
        until_held.callback(os.close, found.descriptor)
        if found.is_roots:
            return
        try:
            real = path_of(found.descriptor)
            above = directories_around(path, real)
        except OSError as error:
            raise unreadable(path, error) from error
        for name in {path, real}:
            stack.enter_context(pinned(name, os.dup(found.descriptor), above))


def _trusted(path: str) -> Walk:
    """Open the directory at `path`. Raises NotAllowed for a link of another user than root and its owner, UnreadableFile."""
    try:
        found = walk(path)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    owner = os.fstat(found.descriptor).st_uid
    for user, link in found.links.items():
        if user != owner:
            real = path_of(found.descriptor)
            os.close(found.descriptor)
            what = (f"{path}: {link} is a symbolic link that user {user_name(user)} can change, and it leads to {real}, which "
                    f"belongs to user {user_name(owner)}: root does not follow it")
            raise NotAllowed(what, do=f"name {argument(real)} itself if the link is right; otherwise remove the link")
    return found
