"""File locks as Java takes them (FileChannel.tryLock): POSIX record locks, which other processes see.

Closing any descriptor of a file releases all locks of the process on it, so only this module opens files that have a lock.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from threading import Lock as Mutex

from engine.errors import LogDirLocked, UnwritableFile, argument
from engine.files.open_file import link_target, open_below, status_of, unwritable

_HELD: set[tuple[int, int]] = set()  # (device, inode) of the files that this process holds locks on
_ONE_AT_A_TIME = Mutex()
_FLOCK = "hhqqi0q"  # struct flock: type, whence, start, length, process


class Lock:
    """A lock on a file, held until `release`. Other processes see it, and so do other callers in this one."""

    def __init__(self, path: str, descriptor: int, file: tuple[int, int] | None = None) -> None:
        self.path = path
        self._descriptor, self._file = descriptor, file

    def release(self) -> None:
        """Release the lock. A second call does nothing."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with _ONE_AT_A_TIME:
                os.close(descriptor)
                if self._file is not None:
                    _HELD.discard(self._file)


def take_lock(path: str) -> Lock:
    """Lock the file at `path`; makes the file if there is none.

    Raises UnwritableFile, LogDirLocked if this or another process holds the lock.
    """
    with _ONE_AT_A_TIME:
        return _take(path)


def _take(path: str) -> Lock:
    if _identity(path) in _HELD:  # opening and closing the file again would release the lock
        raise LogDirLocked(f"{path}: this process already holds the lock", do="wait until the other operation of this process "
                                                                              "is done")
    try:
        descriptor = open_below(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except (OSError, ValueError) as error:
        target = link_target(path)
        if target is not None:
            what = (f"{path}: a symbolic link to {target}, not a file: a lock on the target does not stop a process that locks "
                    "this path")
            do = f"stop the broker that uses this log dir, then: rm {argument(path)}    # a broker creates the file again"
            raise UnwritableFile(what, do=do) from error
        raise unwritable(path, error) from error
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, (BlockingIOError, PermissionError)):
            what = f"{path}: another process holds this lock, most likely a running broker"
            raise LogDirLocked(what, do="stop the broker, or work on a copy") from error
        raise unwritable(path, error) from error
    found = os.fstat(descriptor)
    _HELD.add((found.st_dev, found.st_ino))
    return Lock(path, descriptor, (found.st_dev, found.st_ino))


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = status_of(path, follow=False)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def is_locked(path: str) -> bool:
    """Return whether another process holds the lock on the file at `path`; see `lock_holder`."""
    return lock_holder(path) is not None


def lock_holder(path: str) -> int | None:
    """Return the id of the process that holds the lock on the file at `path`; None: no other process does.

    Takes no lock, and changes nothing. None if the operating system does not say, 0 for a process of another container. Never
    call it while this process holds the lock: the lock would be released.
    """
    if sys.platform != "linux":
        return None
    try:
        descriptor = open_below(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError:
        return None
    finally:
        os.close(descriptor)
    kind, *_, process = struct.unpack(_FLOCK, answer)
    return None if kind == fcntl.F_UNLCK else process
