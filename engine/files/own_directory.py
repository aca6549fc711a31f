"""Directories outside of a log dir, such as quarantines, of its owner; root or the owner makes and removes them."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import UnwritableFile
from engine.files.open_file import OPEN_DIRECTORY, path_of, pinned, spelled, unwritable
from engine.files.owner import ROOT, Opened, acting, acting_as_root, directories_around, pin, rights_of, user_name, walk

if TYPE_CHECKING:
    from engine.files.owner import Acting

PRIVATE = 0o700


def make_for_owner(path: str) -> bool:
    """Make a new directory at `path` for the user whose rights root has taken. Returns False if root has not taken any.

    Root makes the directory and changes its owner only if nobody else can replace a directory on its path; otherwise the user
    must have the right to make it. Its name is on the disk on return. Raises UnwritableFile, also if `path` exists.
    """
    now = acting()
    if now is None:
        return False
    with acting_as_root():
        entry = _entry_of(path, now)
        made = _make_in(entry, path, now)
        _note_removal(entry, path, made, now)
        with rights_of(*now.owner[:2]):
            pin(now, Opened(path, entry.real, made, entry.above))
    return True


def hold_for_owner(path: str) -> bool:
    """Hold the directory at `path` of the user whose rights root has taken, and its parent. Returns False if root took none.

    Until root has its own rights again, the content of the directory is accessed through its descriptor, and `remove_made`
    removes its name from the parent, wherever the path leads by then. Root removes it only if root would make it there, see
    make_for_owner. Raises UnwritableFile, also if it is not a directory of that user.
    """
    now = acting()
    if now is None:
        return False
    with acting_as_root():
        entry = _entry_of(path, now)
        try:
            held = os.open(entry.name, OPEN_DIRECTORY | os.O_NOFOLLOW, dir_fd=entry.parent)
        except OSError as error:
            raise unwritable(path, error) from error
        if os.fstat(held).st_uid != now.owner.user:
            os.close(held)
            raise UnwritableFile(f"{path}: does not belong to user {user_name(now.owner.user)} now")
        _note_removal(entry, path, held, now)
        for name in {spelled(path), entry.real}:
            now.stack.enter_context(pinned(name, os.dup(held), entry.above))
    return True


def remove_made(path: str) -> bool:
    """Remove the empty directory at `path` if it was made for the owner; returns whether it was. Raises OSError."""
    now = acting()
    remove = None if now is None else now.made.get(spelled(path))
    if remove is not None:
        remove()
    return remove is not None


class _Entry(NamedTuple):
    """The entry of a directory: `name` in the directory with the descriptor `parent`.

    above     the directories around it as root sees them
    is_roots  only root can replace a directory on the path
    """

    parent: int
    name: str
    real: str
    above: dict[str, os.stat_result]
    is_roots: bool


def _entry_of(path: str, now: Acting) -> _Entry:
    """Return the entry of `path`; its descriptor is closed when root has its own rights again. Raises UnwritableFile."""
    parent, _, name = spelled(path).rpartition("/")
    try:
        found = walk(parent or "/")  # not the real path: a link of another user must not lead root to a directory of root's
        around = path_of(found.descriptor)
        real = f"{around.rstrip('/')}/{name}"
        above = directories_around(spelled(path), real)
    except (OSError, ValueError) as error:
        raise unwritable(path, error) from error
    descriptor = found.descriptor
    if not found.is_roots:
        os.close(descriptor)
        descriptor = _opened(around, path, now)
    now.stack.callback(os.close, descriptor)
    return _Entry(descriptor, name, real, above, found.is_roots)


def _note_removal(entry: _Entry, path: str, held: int, now: Acting) -> None:
    """Remember how to remove the directory `held` at `path`."""
    now.stack.callback(os.close, held)

    def remove() -> None:
        with acting_as_root() if entry.is_roots else rights_of(*now.owner[:2]):
            _remove(entry, path, held)
            os.fsync(entry.parent)

    now.made[spelled(path)] = remove


def _opened(real: str, path: str, now: Acting) -> int:
    """Open the directory at `real`, which the owner can reach or owns."""
    try:
        with rights_of(*now.owner[:2]):
            return os.open(real, OPEN_DIRECTORY)
    except PermissionError as error:
        descriptor = os.open(real, OPEN_DIRECTORY | os.O_NOFOLLOW)
        if os.fstat(descriptor).st_uid == now.owner.user:
            return descriptor
        os.close(descriptor)
        raise unwritable(path, error) from error
    except OSError as error:
        raise unwritable(path, error) from error


def _make_in(entry: _Entry, path: str, now: Acting) -> int:
    """Make a directory that belongs to the owner, and return its descriptor, even if its name is replaced meanwhile.

    If that fails, the directory is removed again.
    """
    user, group = (ROOT, now.group) if entry.is_roots else (now.owner.user, now.owner.group)
    made = -1
    try:
        with rights_of(user, group):
            os.mkdir(entry.name, PRIVATE, dir_fd=entry.parent)
            made = os.open(entry.name, OPEN_DIRECTORY | os.O_NOFOLLOW, dir_fd=entry.parent)
        _check_new(entry, path, made, user)
        if entry.is_roots:
            os.fchown(made, now.owner.user, now.owner.group)
        os.fsync(entry.parent)
    except BaseException as error:
        if made >= 0:
            with suppress(OSError), rights_of(user, group):
                _remove(entry, path, made)
            os.close(made)
        if isinstance(error, (OSError, ValueError)):
            raise unwritable(path, error) from error
        raise
    return made


def _remove(entry: _Entry, path: str, held: int) -> None:
    """Remove the empty directory `held` from its parent. Raises OSError, also if its name belongs to another one now."""
    if not os.path.samestat(os.fstat(held), os.stat(entry.name, dir_fd=entry.parent, follow_symlinks=False)):
        raise FileNotFoundError(errno.ENOENT, "another process replaced it", path)
    os.rmdir(entry.name, dir_fd=entry.parent)


def _check_new(entry: _Entry, path: str, made: int, user: int) -> None:
    """Raise UnwritableFile unless `made` is a new directory of `user`, at `entry`, on the file system of its parent."""
    found, named = os.fstat(made), os.stat(entry.name, dir_fd=entry.parent, follow_symlinks=False)
    is_ours = found.st_uid == user and stat.S_IMODE(found.st_mode) & ~stat.S_ISGID == PRIVATE and not os.listdir(made)
    if not (is_ours and os.path.samestat(found, named) and found.st_dev == os.fstat(entry.parent).st_dev):
        raise UnwritableFile(f"{path}: another process replaced the new directory")
