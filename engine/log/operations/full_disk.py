"""Delete the oldest segments of a log before it is opened, because the disk is full and opening it needs space.

It stands alone because few runs need it.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from engine.discovery.names import (
    SEGMENT_FILE_NAMES,
    is_log_file_name,
    log_file_name,
    offset_of,
)
from engine.files import nameless_file
from engine.log.report import Action
from engine.overlay import OverlayFiles
from engine.overlay.tree import Spill

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import Files
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.report import Event, Report


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
    for name in SEGMENT_FILE_NAMES:
        disk.remove(f"{directory}/{name(int(planned.path[:20]))}")
    disk.sync_directory(directory)
    why = "one of the oldest segments, deleted to free space before the log was opened, because the disk was full"
    report.events.append(planned._replace(reason=why))
