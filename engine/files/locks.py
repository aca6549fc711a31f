"""Locks on files as Java takes them (FileChannel.tryLock): POSIX record locks, which other processes see.

Closing any descriptor of a file drops the locks that this process has on it, so a file with a lock is opened here and
nowhere else.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys

from engine.errors import LogDirLocked
from engine.files.owner import hand_over
from engine.files.refusals import unwritable

_FLOCK = "hhqqi0q"  # struct flock: type, whence, start, length, process


class Lock:
    """A lock on a file, held until `release`. Another process sees it; one of the same process must not ask for it."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go. A second call does nothing."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


def take_lock(path: str) -> Lock:
    """Lock the file at `path`, making it where there is none.

    Raises LogDirLocked where another process holds it, UnwritableFile.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except (OSError, ValueError) as error:
        raise unwritable(path, error, "run it as the user whom the log dir belongs to, as the broker does") from error
    hand_over(path, descriptor)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, (BlockingIOError, PermissionError)):
            what = f"{path}: another process holds this lock, most likely a running broker"
            raise LogDirLocked(what, do="stop the broker, or work on a copy") from error
        raise unwritable(path, error) from error
    return Lock(path, descriptor)


def is_locked(path: str) -> bool:
    """Does another process hold the lock on the file at `path`? Takes none, and changes nothing.

    False where the operating system does not tell. Not to be asked while this process holds the lock: it would lose it.
    """
    if sys.platform != "linux":
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (OSError, ValueError):
        return False
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)
