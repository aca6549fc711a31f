"""Work on a log that a clean start believed, and on the recovered log where it should not have."""

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
from engine.overlay.content import Spill

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import Files
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.report import Event, Report

REFUSALS = (CompactionRefused, OffsetOutOfRange, RollRefused)  # the log is well, and stays as it is


def work_on(load: Callable[[bool], UnifiedLog], clean_start: bool, work: Callable[[UnifiedLog], object]) -> UnifiedLog:
    """Load a log, do `work` on it; returns it, still open. What the log refuses is an event of its report.

    load  opens it, after a clean stop or not
    If `work` finds damage at which a broker would fail too, the log is recovered and `work` done once more.
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
    """Something was about to be changed."""


class UnchangedFiles(FilesAbove):
    """`below`, of which nothing is changed before `release`: what would do so raises WouldChange.

    Methods are those of Files.
    """

    def __init__(self, below: Files) -> None:
        super().__init__(below)
        self._is_released = False

    def release(self) -> None:
        """Let everything through from now on."""
        self._is_released = True

    @property
    def _changing(self) -> Files:
        """As FilesAbove has it. Raises WouldChange."""
        if not self._is_released:
            raise WouldChange
        return self._below


class WatchedFiles(FilesAbove):
    """`below`; `before` is called before the first change, which `is_changed` shows.

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


_NAMES = (  # the files of a segment, in the order of their deletion: without its .log the rest is nobody's
    log_file_name, offset_index_file_name, time_index_file_name, transaction_index_file_name, producer_snapshot_file_name,
)  # fmt: skip


def delete_oldest_segments(
    disk: Files, directory: str, now: int, load: Callable[[Files], UnifiedLog], work: Callable[[UnifiedLog], object],
    report: Report,
) -> int | None:
    """Remove from the log in `directory` the oldest segments that `work` deletes, and write nothing → its new start offset.

    None: there is nothing to remove.

    load  opens the log over the files that it is given: in memory, to see what `work` deletes

    Where opening makes other segments of those that are there (it splits one that overflows), nothing is removed. What else
    is to be done, for epochs and producers, is for who opens the log afterwards with that start. Producers of which
    only removed segments and no snapshot had are forgotten.
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
    goes = [held[log_file_name(base)] for base in before if base < after[0]]
    if there != set(before) or not goes:
        return None
    for event in goes:
        _remove(disk, directory, event, report)
    return start


def _remove(disk: Files, directory: str, planned: Event, report: Report) -> None:
    """A deletion is synced before the next segment is deleted: after a power cut the log must not have a hole."""
    for name in _NAMES:
        disk.remove(f"{directory}/{name(int(planned.path[:20]))}")
    disk.sync_directory(directory)
    why = "one of the oldest segments, deleted to free space before the log was opened, because the disk was full"
    report.events.append(planned._replace(reason=why))
