"""Where Spark's sink keeps what it commits to a log dir, and whether a commit there has not come to its end.

Until it is undone such a log dir holds half of what was written, and perhaps not what was there before.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from engine.errors import KafkalogError, argument

if TYPE_CHECKING:
    from engine.files import ReadOnlyFiles

STAGING = ".kafkalog-staging"  # a directory for each job that writes
JOURNAL = "commit.json"  # in such a directory, from when a commit begins to when it is done or undone
MANIFEST = ".kafkalog-sink.json"  # what was committed last
MAX_KEPT_SIZE = 128 << 20  # bytes of a journal or manifest
_HEAD_SIZE = 1024  # bytes of it that say which commit it is about
_HEAD = re.compile(rb'\{"version": [0-9]+, "(?:commit|last)": "([^"\\]+)"')
WHAT = "a write of Spark's sink to this log dir did not finish its commit"


class HalfCommitted(KafkalogError):
    """A log dir with half of what Spark's sink was about to write: who changes it now would lose that when it is undone."""

    code = "half-committed"


def half_commit(files: ReadOnlyFiles, log_dir: str) -> str | None:
    """The journal of a commit that is under way or was stopped; None: there is none. Raises UnreadableFile."""
    staging = f"{log_dir}/{STAGING}"
    if not files.exists(staging):
        return None
    for name in files.list(staging):
        journal = f"{staging}/{name}/{JOURNAL}"
        if files.exists(journal) and not _holds(files, journal, f"{log_dir}/{MANIFEST}"):
            return journal
    return None


def undoable_since(files: ReadOnlyFiles, log_dir: str) -> int | None:
    """When the last commit came to its end (ms), if it may be undone: see kafkalog_spark.sink.undoing; else None."""
    path = f"{log_dir}/{MANIFEST}"
    try:
        said = json.loads(files.read(path, MAX_KEPT_SIZE)) if files.exists(path) else {}
        return int(said["at_ms"]) if said.get("written") else None
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None


def undo_advice(log_dir: str) -> str:
    """What to do about such a commit."""
    return f"kafkalog restore {argument(log_dir)}; the sink's next write does the same"


def refuse_half_commit(files: ReadOnlyFiles, log_dir: str) -> None:
    """Raise HalfCommitted where a commit was stopped. To be asked with the lock of the log dir held: then none is under way."""
    journal = half_commit(files, log_dir)
    if journal is not None:
        raise HalfCommitted(f"{journal}: {WHAT}", do=undo_advice(log_dir), path=journal)


def _holds(files: ReadOnlyFiles, journal: str, manifest: str) -> bool:
    """Is the commit of the journal the one that the manifest describes?"""
    commit = _commit(files, journal)
    return commit is not None and commit == _commit(files, manifest)


def _commit(files: ReadOnlyFiles, path: str) -> bytes | None:
    """Which commit a journal or manifest is about, by its beginning, however large it is; None if that is unknown."""
    if not files.exists(path):
        return None
    with files.open(path) as file:
        head = _HEAD.match(file.read(0, _HEAD_SIZE))
    return None if head is None else head[1]
