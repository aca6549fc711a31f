"""Work on a log that is opened as after a clean shutdown, and again on the recovered log if that was wrong."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from engine.discovery.names import (
    is_log_file_name,
    log_file_name,
    offset_index_file_name,
    offset_of,
    producer_snapshot_file_name,
    time_index_file_name,
    transaction_index_file_name,
)  # fmt: skip
from engine.files import nameless_file
from engine.files.layered import FilesAbove
from engine.findings import Severity
from engine.log.errors import CompactionRefused, OffsetOutOfRange, RollRefused
from engine.log.loading.loader import REPAIRABLE
from engine.log.report import Action
from engine.overlay import OverlayFiles
from engine.overlay.tree import Spill

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import Files
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.report import Event, Report

REFUSALS = (CompactionRefused, OffsetOutOfRange, RollRefused)  # the log is well, and stays as it is


def work_on(load: Callable[[bool], UnifiedLog], clean_start: bool, work: Callable[[UnifiedLog], object]) -> UnifiedLog:
    """Load a log, do `work` on it and return it, still open. A refusal by the log becomes an event of its report.

    load  opens the log; its argument: as after a clean shutdown
    If `work` finds damage at which a broker would fail too, the log is recovered and `work` is done again.
    """
    log = load(clean_start)
    try:
        return _worked(log, work)
    except REPAIRABLE as error:
        if not clean_start:
            raise
        reason = f"a broker would fail here: {error}"
        log.report.add(Action.REBUILT, "", reason, severity=Severity.WARNING)
    return _worked(load(False), work)


def _worked(log: UnifiedLog, work: Callable[[UnifiedLog], object]) -> UnifiedLog:
    try:
        work(log)
    except REFUSALS as error:
        log.report.add(Action.REFUSED, "", str(error))
    except BaseException:
        log.close_handlers()
        raise
    return log


class WouldChange(Exception):  # an answer, not an error
    """A change was attempted."""


class UnchangedFiles(FilesAbove):
    """`below`, read-only until `release` is called: an attempt to change something raises WouldChange.

    Methods are those of Files.
    """

    def __init__(self, below: Files) -> None:
        super().__init__(below)
        self._is_released = False

    def release(self) -> None:
        """Allow changes from now on."""
        self._is_released = True

    @property
    def _changing(self) -> Files:
        """As FilesAbove has it. Raises WouldChange."""
        if not self._is_released:
            raise WouldChange
        return self._below


class WatchedFiles(FilesAbove):
    """`below`; calls `before` once, before the first change. `is_changed`: a change was made or attempted.

    Methods are those of Files.
    """

    def __init__(self, below: Files, before: Callable[[], object]) -> None:
        super().__init__(below)
        self._before = before
        self.is_changed = False

    @property
    def _changing(self) -> Files:
        """As FilesAbove has it."""
        if not self.is_changed:
            self._before()
            self.is_changed = True
        return self._below


_NAMES = (  # the files of a segment, in the order of their deletion: without its .log the other files are not used
    log_file_name, offset_index_file_name, time_index_file_name, transaction_index_file_name, producer_snapshot_file_name,
)  # fmt: skip


def delete_oldest_segments(
    disk: Files, directory: str, now: int, load: Callable[[Files], UnifiedLog], work: Callable[[UnifiedLog], object],
    report: Report,
) -> int | None:
    """Remove from the log in `directory` the oldest segments that `work` deletes, and return its new start offset.

    load  opens the log over the given file system, which is in memory: `work` runs there to find what it deletes

    Returns None if nothing is to be removed. If opening the log changes its segments (it splits one that overflows), nothing
    is removed. Other files are not written: the next opening with the new start offset corrects epochs and producers.
    Producers that only the removed segments contain, and no snapshot, are lost.
    """
    there = {offset_of(name) for name in disk.plain(directory) if is_log_file_name(name)}
    with closing(Spill(nameless_file)) as spill:
        log = load(OverlayFiles(disk, now, spill))
        try:
            before = log.segments.base_offsets
            work(log)
            after, start = log.segments.base_offsets, log.log_start_offset
        finally:
            log.close_handlers()
    held = {event.path: event for event in log.report.find(Action.REMOVED)}
    deleted = [held[log_file_name(base)] for base in before if base < after[0]]
    if there != set(before) or not deleted:
        return None
    for event in deleted:
        _remove(disk, directory, event, report)
    return start


def _remove(disk: Files, directory: str, planned: Event, report: Report) -> None:
    """Remove a segment and sync, so that after a power cut the log has no hole."""
    for name in _NAMES:
        disk.remove(f"{directory}/{name(int(planned.path[:20]))}")
    disk.sync_directory(directory)
    why = "one of the oldest segments, deleted to free space before the log was opened, because the disk was full"
    report.events.append(planned._replace(reason=why))
