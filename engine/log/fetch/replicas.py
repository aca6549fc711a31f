"""Several copies of one partition: which of them a leader would have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import KafkalogError
from engine.findings import Finding, Where
from engine.log.fetch.view import PartitionView

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import ReadOnlyFiles


def best_replica(files: ReadOnlyFiles, directories: list[str]) -> str:
    """Of several copies the one with the latest leader epoch, then the longest, then the one that begins first.

    How long a copy is, is seen at its end: it ends before damage that is met there.
    """
    if len(directories) == 1:
        return directories[0]
    ranks = {directory: rank for directory in directories if (rank := _rank(files, directory)) is not None}
    return max(ranks, key=ranks.__getitem__, default=directories[0])


def read_best_replica(files: ReadOnlyFiles, directories: list[str], report: Callable[[Finding], None]) -> str:
    """The best of several copies; `report` takes which others are not read."""
    best = best_replica(files, directories)
    others = [path for path in directories if path != best]
    if others:
        report(Finding("replica-chosen", Where(best), f"read in place of {', '.join(others)}"))
    return best


def _rank(files: ReadOnlyFiles, directory: str) -> tuple[int, int, int] | None:
    """What copies are compared by; None of one without a log, or that can not be read: reading it says why."""
    try:
        view = PartitionView(files, directory, _unsaid)
        try:
            epochs = view.leader_epoch_cache.entries
            return epochs[-1].epoch if epochs else -1, view.sound_end_offset, -view.log_start_offset
        finally:
            view.close()
    except KafkalogError:
        return None


def _unsaid(_finding: Finding) -> None:
    """What stands behind the last batch is told where the end is read."""
