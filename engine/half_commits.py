"""Where Spark's sink keeps what it commits to a log dir, and whether a commit there has not come to its end.

Until it is undone such a log dir holds half of what was written, and perhaps not what was there before.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from engine.advice import argument
from engine.errors import KafkalogError

if TYPE_CHECKING:
    from engine.files import ReadOnlyFiles

STAGING = ".kafkalog-staging"  # a directory for each job that writes
JOURNAL = "commit.json"  # in such a directory, from when a commit begins to when it is done or undone
MANIFEST = ".kafkalog-sink.json"  # what was committed last
MAX_KEPT_SIZE = 256 << 20  # bytes of a journal or manifest
WHAT = "a write of Spark's sink to this log dir did not come to the end of its commit"


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
    manifest = f"{log_dir}/{MANIFEST}"
    since = _said(files, manifest, "at_ms") if _said(files, manifest, "written") else None
    return since if isinstance(since, int) else None


def undo_advice(log_dir: str) -> str:
    """What to do about such a commit."""
    return f"kafkalog restore {argument(log_dir)}; the sink's next write does it too"


def refuse_half_commit(files: ReadOnlyFiles, log_dir: str) -> None:
    """Raise HalfCommitted where a commit was stopped. To be asked with the lock of the log dir held: then none is under way."""
    journal = half_commit(files, log_dir)
    if journal is not None:
        raise HalfCommitted(f"{journal}: {WHAT}", do=undo_advice(log_dir), path=journal)


def _holds(files: ReadOnlyFiles, journal: str, manifest: str) -> bool:
    """Is the commit of the journal the one that the manifest tells of?"""
    commit = _said(files, journal, "commit")
    return commit is not None and commit == _said(files, manifest, "last")


def _said(files: ReadOnlyFiles, path: str, name: str) -> Any:
    """A field of a file of JSON; None where it can not be told."""
    try:
        return json.loads(files.read(path, MAX_KEPT_SIZE))[name] if files.exists(path) else None
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
