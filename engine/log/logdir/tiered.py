"""Where the log of a partition begins whose older records are in remote storage: for readers, who open no log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.findings import Finding, Where
from engine.log.tiering import read_starts

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import ReadOnlyFiles
    from engine.log.logdir.topics import Topics


def remote_log_start(files: ReadOnlyFiles, directory: str, topics: Callable[[], Topics] | None = None) -> int | None:
    """The log start offset of the tiered partition in `directory`, if its first local segment begins later; else None.

    topics  asked only where the files leave it open; None: what the metadata log beside the partition says is read then.
    Raises UnreadableFile.
    """
    starts = read_starts(files, directory)
    if not starts.differ:
        return None
    if topics is None:  # what knows the settings of topics takes a while to load, and is asked by few readers
        from engine.log.logdir.log_dirs import find_log_dirs
        from engine.log.logdir.settings import Settings
        from engine.log.logdir.startup import survey
        from engine.log.logdir.topics import Topics

        known = Topics(files, [survey(files, find_log_dirs(files, [directory]))], Settings())
    else:
        known = topics()
    return starts.line or 0 if starts.are_of_tiered(known.tiering(directory)) else None


def not_read(directory: str, remote: int, first: int) -> Finding:
    """What to report of records before offset `first` that a reader wanted."""
    what = f"offsets {remote} to {first - 1} are in remote storage and were not read"
    return Finding("records-in-remote-storage", Where(directory, None, remote), what)
