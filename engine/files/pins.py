"""Directories held open: paths below them are resolved from their descriptors, not from the path names above.

A path name can be replaced by a symbolic link during the work, a descriptor cannot. And a process that gave up root's rights
keeps access to a directory that only root can reach.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PINS: dict[str, int] = {}  # absolute path → descriptor
_ABOVE: dict[str, os.stat_result] = {}  # of directories around them that only root can reach


def at(path: str) -> tuple[str, int | None]:
    """Return `path` as (relative path, descriptor of its base directory) for calls of the operating system."""
    if not _PINS:
        return path, None
    head = full = spelled(path)
    while head:
        descriptor = _PINS.get(head)
        if descriptor is not None:
            return full[len(head) + 1 :] or ".", descriptor
        head = head.rpartition("/")[0]
    return path, None


def named_in(path: str) -> tuple[str, int | None]:
    """As `at`, for a call that changes the name of the directory at `path`, which may be held open itself."""
    around, _, name = spelled(path).rpartition("/")
    directory, descriptor = at(around or "/")
    return (path, None) if descriptor is None else (f"{directory}/{name}", descriptor)


def spelled(path: str) -> str:
    """Return `path` absolute, without empty and `.` parts."""
    full = path if path.startswith("/") else f"{os.getcwd()}/{path}"
    return "/" + "/".join(word for word in full.split("/") if word not in ("", "."))


@contextmanager
def pinned(path: str, descriptor: int, above: Mapping[str, os.stat_result] | None = None) -> Iterator[None]:
    """Resolve every path below `path` from `descriptor`, which is closed at the end.

    above  results of `status_of` for the directories around it, for a walk down to it step by step
    """
    name = spelled(path)
    before, known = _PINS.get(name), {} if above is None else above.keys() - _ABOVE.keys()
    _PINS[name] = descriptor
    _ABOVE.update({one: above[one] for one in known} if above else {})
    try:
        yield
    finally:
        for one in known:
            del _ABOVE[one]
        if before is None:
            del _PINS[name]
        else:
            _PINS[name] = before
        os.close(descriptor)


def open_below(path: str, flags: int, mode: int = 0o777) -> int:
    """As os.open. Raises OSError, ValueError."""
    name, descriptor = at(path)
    return os.open(name, flags, mode, dir_fd=descriptor)


def status_of(path: str, *, follow: bool = True) -> os.stat_result:
    """As os.stat. Raises OSError, ValueError."""
    name, descriptor = at(path)
    try:
        return os.stat(name, dir_fd=descriptor, follow_symlinks=follow)
    except PermissionError:
        if descriptor is not None or not _ABOVE or spelled(path) not in _ABOVE:
            raise
        return _ABOVE[spelled(path)]


def link_target(path: str) -> str | None:
    """Return the target of the symbolic link at `path`; None: it is not a link."""
    name, descriptor = at(path)
    try:
        return os.readlink(name, dir_fd=descriptor)
    except (OSError, ValueError):
        return None


def real_path(path: str) -> str:
    """Return `path` without symbolic links. Raises OSError, ValueError."""
    name, descriptor = at(path)
    if descriptor is None:
        return os.path.realpath(path, strict=True)
    if sys.platform != "linux":
        return spelled(path)
    found = os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=descriptor)  # O_PATH needs no permission to search the path
    try:
        return path_of(found)
    finally:
        os.close(found)


def path_of(descriptor: int) -> str:
    """Return the path of an open directory, without symbolic links. Only on Linux. Raises OSError."""
    return os.readlink(f"/proc/self/fd/{descriptor}")


def names_in(directory: str) -> list[str]:
    """As os.listdir. Raises OSError, ValueError."""
    name, below = at(directory)
    if below is None:
        return os.listdir(name)
    descriptor = os.open(name, OPEN_DIRECTORY, dir_fd=below)
    try:
        return os.listdir(descriptor)
    finally:
        os.close(descriptor)


def space_of(path: str) -> os.statvfs_result:
    """As os.statvfs. Raises OSError, ValueError."""
    name, below = at(path)
    if below is None:
        return os.statvfs(name)
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=below)
    try:
        return os.fstatvfs(descriptor)
    finally:
        os.close(descriptor)
