"""The locks of log dirs: as long as one of ours is held, no broker starts there, and none is running.

Mirrors LogManager.lockLogDirs.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.layout import FileKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.files import Files


@contextmanager
def locked(files: Files, log_dirs: Iterable[str]) -> Iterator[None]:
    """Hold `.lock` of each of the log dirs. Raises LogDirLocked if another process holds one, UnwritableFile.

    A lock file that was not there is removed again: Kafka leaves it, but it says nothing.
    """
    held: list[tuple[str, bool]] = []
    locks = []
    try:
        for log_dir in dict.fromkeys(files.resolve(path) for path in log_dirs):
            path = f"{log_dir}/{FileKind.LOCK.value}"
            was_there = files.exists(path)
            locks.append(files.lock(path))
            held.append((path, was_there))
        yield
    finally:
        for path, was_there in held:
            if not was_there:
                files.remove(path)
        for lock in locks:
            lock.release()
