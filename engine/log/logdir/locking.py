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

    The files stay, as Kafka leaves them: who opened one before it was removed would lock a name that nobody else sees.
    """
    held = []
    try:
        for log_dir in dict.fromkeys(files.resolve(path) for path in log_dirs):
            held.append(files.lock(f"{log_dir}/{FileKind.LOCK.value}"))  # noqa: PERF401  # those held so far must be released
        yield
    finally:
        for lock in held:
            lock.release()
