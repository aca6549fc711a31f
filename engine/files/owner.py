"""Whose files are. Root works on the log dirs of another user with that user's rights, and with no more.

Otherwise the owner of a log dir could lead root to files elsewhere, by exchanging a directory for a symbolic link at the right
moment. What is made there then belongs to the owner as well: a broker that is not root could not open root's files.

The system knows one user for all threads of a process: rights change only while no other thread works.
"""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import KafkalogError, UnwritableFile
from engine.files.pins import OPEN_DIRECTORY, at, open_below, pinned, real_path, spelled, status_of
from engine.files.refusals import unreadable, unwritable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = 0  # a user
_NOBODY = 65534  # a group without rights
_PRIVATE = 0o700


class NotAllowed(KafkalogError):
    """Root can not take the rights of the owner of a log dir, or the owner lacks rights that the work needs."""

    code = "owner-not-allowed"


class Owner(NamedTuple):
    """A user whose rights the process takes. `group`: that of files that are made; `groups`: all that the user belongs to."""

    user: int
    group: int
    groups: tuple[int, ...]


class _Acting(NamedTuple):
    """What is held while root has the rights of `owner`.

    made  by path, the parent of each directory that root made for the owner
    """

    owner: Owner
    group: int  # of root
    stack: ExitStack
    made: dict[str, int]


_ACTING: list[_Acting] = []  # one at most


def is_root() -> bool:
    """May this process change everybody's files?"""
    return os.geteuid() == ROOT


def acting_owner() -> Owner | None:
    """The user whose rights root has taken; None: it works with its own, or is not root."""
    return _ACTING[0].owner if _ACTING else None


def user_name(user: int) -> str:
    """What to call a user."""
    import pwd

    try:
        return f"{pwd.getpwuid(user).pw_name} ({user})"
    except KeyError:
        return str(user)


def owner_of(path: str) -> Owner:
    """The owner of the directory at `path`, with the groups that the system knows of. Raises UnreadableFile.

    Files that are made get the group of the directory if its owner belongs to it. In a directory whose group is inherited from
    the one above it, anybody's directory may have a group that its owner does not belong to.
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
        except KeyError:  # of a container, as the user is: it gives no right here
            return Owner(user, group, (group,))
        return Owner(user, _NOBODY, (_NOBODY,))
    groups = tuple(os.getgrouplist(known.pw_name, known.pw_gid))
    return Owner(user, group if group in groups else known.pw_gid, groups)


@contextmanager
def acting_as(owner: Owner | None, reach: Iterable[str] = (), around: Iterable[str] = ()) -> Iterator[None]:
    """Let root work with the rights of `owner`; None, and for others than root: with those that it has.

    reach   directories of the owner's that are worked on, also if only root can walk to them
    around  the same; they may belong to root
    Raises NotAllowed where the system refuses, UnreadableFile.
    """
    if owner is None or owner.user == ROOT or not is_root():
        yield
        return
    with ExitStack() as stack:
        opened = {path: _opened(path, (owner.user, ROOT), stack) for path in around}
        opened |= {path: _opened(path, (owner.user,), stack) for path in reach}
        acting = _Acting(owner, os.getegid(), stack, {})
        stack.enter_context(_member_of(owner))
        _ACTING.append(acting)
        stack.callback(_ACTING.pop)
        with _rights_of(owner.user, owner.group), _own_temporary_directory():
            for path, (real, descriptor) in opened.items():
                _pin(acting, path, real, descriptor)
            yield


@contextmanager
def acting_as_root() -> Iterator[None]:
    """Let root have its own rights again for a while."""
    if not _ACTING:
        yield
        return
    with _rights_of(ROOT, _ACTING[0].group):
        yield


@contextmanager
def _rights_of(user: int, group: int) -> Iterator[None]:
    before = os.geteuid(), os.getegid()
    _take_rights(user, group)
    try:
        yield
    finally:
        _take_rights(*before)


def _take_rights(user: int, group: int) -> None:
    """Raises NotAllowed, with the rights of root."""
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
    """Replace root's groups by those of `owner`. Raises NotAllowed."""
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
    what = f"user {user_name(user)} owns what is to be changed, and root can not take that user's rights: {error.strerror}"
    return NotAllowed(what, do=f"run it as that user: sudo -u '#{user}' kafkalog …")


@contextmanager
def _own_temporary_directory() -> Iterator[None]:
    """Let `tempfile` look for a directory that the user may write to."""
    import tempfile

    before, tempfile.tempdir = tempfile.tempdir, None
    try:
        yield
    finally:
        tempfile.tempdir = before


def _opened(path: str, owners: tuple[int, ...], stack: ExitStack) -> tuple[str, int]:
    """(real path, descriptor) of a directory that belongs to one of `owners`."""
    try:
        real, descriptor = real_path(path), open_below(path, OPEN_DIRECTORY)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    stack.callback(os.close, descriptor)
    if os.fstat(descriptor).st_uid not in owners:
        raise NotAllowed(f"{path}: belongs to another user than {user_name(owners[0])} now")
    return real, descriptor


def _pin(acting: _Acting, path: str, real: str, descriptor: int) -> None:
    """Reach a directory through its descriptor, if its owner can not walk there."""
    try:
        if os.path.samestat(status_of(path), os.fstat(descriptor)):
            return
    except OSError:
        pass
    for name in {spelled(path), real}:
        acting.stack.enter_context(pinned(name, os.dup(descriptor)))


# ---- directories for the owner, outside of the log dir


def make_for_owner(path: str) -> bool:
    """Make a new directory at `path` for the user whose rights root has taken → did root make it?

    Root makes it only if nobody else can exchange a directory on the way there; else the user must be allowed to.
    Raises UnwritableFile, also if something is there.
    """
    acting = _ACTING[0]
    parent, _, name = spelled(path).rpartition("/")
    with acting_as_root():
        try:
            real = real_path(parent or "/")
        except (OSError, ValueError) as error:
            raise unwritable(path, error) from error
        descriptor = _roots_own(real)
        if descriptor is not None:
            acting.stack.callback(os.close, descriptor)
            made = _make_in(descriptor, name, path, acting.owner)
            acting.stack.callback(os.close, made)
            acting.made[spelled(path)] = descriptor
            with _rights_of(acting.owner.user, acting.owner.group):
                _pin(acting, path, f"{real.rstrip('/')}/{name}", made)
            return True
    with _rights_of(acting.owner.user, acting.owner.group):
        try:
            os.mkdir(path)
        except (OSError, ValueError) as error:
            raise unwritable(path, error) from error
    return False


def remove_made(path: str) -> bool:
    """Remove the empty directory at `path` if it is one that root made for the owner: was it? Raises OSError."""
    parent = _ACTING[0].made.get(spelled(path)) if _ACTING else None
    if parent is None:
        return False
    with acting_as_root():
        os.rmdir(spelled(path).rpartition("/")[2], dir_fd=parent)
        os.fsync(parent)
    return True


def _roots_own(path: str) -> int | None:
    """A descriptor of the directory at `path`, which has no links in it; None: not only root can change a name on the way."""
    descriptor = os.open("/", OPEN_DIRECTORY)
    for word in filter(None, path.split("/")):
        if not _is_roots_own(descriptor):
            break
        try:
            below = os.open(word, OPEN_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
        except OSError as error:
            raise unwritable(path, error) from error
        finally:
            os.close(descriptor)
        descriptor = below
    if _is_roots_own(descriptor):
        return descriptor
    os.close(descriptor)
    return None


def _is_roots_own(descriptor: int) -> bool:
    status = os.fstat(descriptor)
    open_to_all = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid == ROOT and (not open_to_all or bool(status.st_mode & stat.S_ISVTX))


def _make_in(parent: int, name: str, path: str, owner: Owner) -> int:
    """Make a directory and give it away, that one and nothing else, whatever has its name meanwhile → a descriptor of it."""
    made = -1
    try:
        os.mkdir(name, _PRIVATE, dir_fd=parent)
        made = os.open(name, OPEN_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        _check_new(parent, name, path, made)
        os.fchown(made, owner.user, owner.group)
        os.fsync(parent)
    except BaseException as error:
        if made >= 0:
            os.close(made)
        if isinstance(error, (OSError, ValueError)):
            raise unwritable(path, error) from error
        raise
    return made


def _check_new(parent: int, name: str, path: str, made: int) -> None:
    """Raise UnwritableFile if `made` is not a new directory of root's, called `name` in `parent`, on the same file system."""
    found, named = os.fstat(made), os.stat(name, dir_fd=parent, follow_symlinks=False)
    is_ours = found.st_uid == ROOT and stat.S_IMODE(found.st_mode) & ~stat.S_ISGID == _PRIVATE and not os.listdir(made)
    if not (is_ours and os.path.samestat(found, named) and found.st_dev == os.fstat(parent).st_dev):
        raise UnwritableFile(f"{path}: somebody exchanged the new directory for something else")


# ---- what the owner may change


class Fault(NamedTuple):
    """Why the owner can not change what is at a path, and the command that mends it for a directory."""

    what: str
    command: str


def ownership_fault(path: str) -> Fault | None:
    """Why the user whose rights root has taken can not change the file or directory at `path`; None: nothing forbids it.

    A symbolic link has no rights of its own. Raises UnreadableFile.
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
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if is_allowed or stat.S_ISLNK(status.st_mode):
        return None
    if status.st_uid != owner.user:
        mine, theirs = user_name(owner.user), user_name(status.st_uid)
        what = f"{path}: belongs to user {theirs}, and the log dir to {mine}, who may not change it"
        return Fault(what, f"chown -R {owner.user}:{owner.group}")
    wanted = stat.S_IRWXU if stat.S_ISDIR(status.st_mode) else stat.S_IRUSR | stat.S_IWUSR
    if status.st_mode & wanted == wanted:
        return None  # the file system is read-only: who changes something there learns it from the system
    return Fault(f"{path}: its owner, user {user_name(owner.user)}, may not read and change it", "chmod -R u+rwX")
