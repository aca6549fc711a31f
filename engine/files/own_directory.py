"""Directories for the owner of a log dir outside of it, as a quarantine: made while root has the owner's rights, or by root."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from engine.errors import UnwritableFile
from engine.files.owner import ROOT, Opened, acting, acting_as_root, directories_around, pin, rights_of
from engine.files.pins import OPEN_DIRECTORY, real_path, spelled
from engine.files.refusals import unwritable

if TYPE_CHECKING:
    from engine.files.owner import Acting

_PRIVATE = 0o700


def make_for_owner(path: str) -> bool:
    """Make a new directory at `path` for the user whose rights root has taken; False: root has not.

    Root makes it and gives it away only if nobody else can exchange a directory on the way there; else the user must be allowed
    to make it. Its name is on the disk then. Raises UnwritableFile, also if something is there.
    """
    now = acting()
    if now is None:
        return False
    parent, _, name = spelled(path).rpartition("/")
    with acting_as_root():
        try:
            real = real_path(parent or "/")
            above = directories_around(spelled(path), f"{real}/{name}")
        except (OSError, ValueError) as error:
            raise unwritable(path, error) from error
        descriptor = _roots_own(real)
        is_roots = descriptor is not None
        if descriptor is None:
            descriptor = _opened(real, path, now)
        now.stack.callback(os.close, descriptor)
        made = _make_in(descriptor, name, path, now, is_roots=is_roots)
        now.stack.callback(os.close, made)

        def remove() -> None:
            with acting_as_root() if is_roots else rights_of(*now.owner[:2]):
                os.rmdir(name, dir_fd=descriptor)
                os.fsync(descriptor)

        now.made[spelled(path)] = remove
        with rights_of(*now.owner[:2]):
            pin(now, Opened(path, f"{real.rstrip('/')}/{name}", made, above))
    return True


def remove_made(path: str) -> bool:
    """Remove the empty directory at `path` if it was made for the owner: was it? Raises OSError."""
    now = acting()
    remove = None if now is None else now.made.get(spelled(path))
    if remove is not None:
        remove()
    return remove is not None


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


def _opened(real: str, path: str, now: Acting) -> int:
    """A descriptor of the directory at `real`, which the owner can walk to, or which is the owner's."""
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


def _make_in(parent: int, name: str, path: str, now: Acting, *, is_roots: bool) -> int:
    """Make a directory that belongs to the owner, that one and nothing else, whatever has its name meanwhile → a descriptor."""
    made, user = -1, ROOT if is_roots else now.owner.user
    try:
        with rights_of(user, now.group if is_roots else now.owner.group):
            os.mkdir(name, _PRIVATE, dir_fd=parent)
            made = os.open(name, OPEN_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        _check_new(parent, name, path, made, user)
        if is_roots:
            os.fchown(made, now.owner.user, now.owner.group)
        os.fsync(parent)
    except BaseException as error:
        if made >= 0:
            os.close(made)
        if isinstance(error, (OSError, ValueError)):
            raise unwritable(path, error) from error
        raise
    return made


def _check_new(parent: int, name: str, path: str, made: int, user: int) -> None:
    """Raise UnwritableFile if `made` is not a new directory of `user`, called `name`, on the file system of `parent`."""
    found, named = os.fstat(made), os.stat(name, dir_fd=parent, follow_symlinks=False)
    is_ours = found.st_uid == user and stat.S_IMODE(found.st_mode) & ~stat.S_ISGID == _PRIVATE and not os.listdir(made)
    if not (is_ours and os.path.samestat(found, named) and found.st_dev == os.fstat(parent).st_dev):
        raise UnwritableFile(f"{path}: somebody exchanged the new directory for something else")
