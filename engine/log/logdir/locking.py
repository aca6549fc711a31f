"""The locks of log dirs: as long as one of ours is held, no broker starts there, and none is running.

Mirrors LogManager.lockLogDirs.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.half_commits import refuse_half_commit
from engine.layout import FileKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.files import Files


@contextmanager
def locked(files: Files, log_dirs: Iterable[str], *, undoes_commits: bool = False) -> Iterator[None]:
    """Hold `.lock` of each of the log dirs.

    undoes_commits  a commit of Spark's sink that was stopped in one of them may be there: the caller undoes it
    Raises LogDirLocked if it is held already, UnwritableFile, HalfCommitted.

    The files stay, as Kafka leaves them: who opened one before it was removed would lock a name that nobody else sees.
    """
    held = []
    try:
        for log_dir in dict.fromkeys(files.resolve(path) for path in log_dirs):
            held.append(files.lock(f"{log_dir}/{FileKind.LOCK.value}"))  # those held so far must be released
            if not undoes_commits:
                refuse_half_commit(files, log_dir)
        yield
    finally:
        for lock in held:
            lock.release()
