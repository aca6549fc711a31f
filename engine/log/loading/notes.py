"""Report what loading a partition found and did not change. Changes nothing."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from engine.discovery.names import FileKind, log_file_name, offset_of
from engine.findings import Severity
from engine.formats import LONG_MAX
from engine.log.report import Action
from engine.log.segment.batch_search import last_head

if TYPE_CHECKING:
    from engine.checkpoint.checkpoints import EpochEntry
    from engine.log.loading.shared import Loading

_SNAPSHOT, _EPOCHS = FileKind.PRODUCER_SNAPSHOT.value, FileKind.LEADER_EPOCH_CHECKPOINT.value
ALONE = "an index with entries but without a log"  # why it was removed
NO_INDEX = "its offset index is missing"  # why a segment is recovered while it is loaded


def note_changes(log: Loading, names: list[str], epochs: list[EpochEntry], trusted: list[EpochEntry]) -> None:
    """Report changes of the producer snapshots `names` and of the `epochs` in the file.

    trusted  those of the `epochs` that no other entry contradicts
    """
    corrupt = {event.path for event in log.report.find(Action.REMOVED)}
    left = log.producers.snapshot_paths
    removed = [name for name in names if name.endswith(_SNAPSHOT) and log.path(name) not in left]
    for name in removed:
        if name not in corrupt and not log.files.exists(log.path(name)):
            log.report.add(Action.REMOVED, name, "outdated producer snapshot")
    if log.epochs.in_file != epochs:
        before, after = (", ".join(f"{epoch}@{start}" for epoch, start in entries) or "none"
                         for entries in (epochs, log.epochs.entries))
        but = "" if epochs == trusted else ("; both epochs and offsets must grow: of two entries that do not, the later one "
                                             "is kept")
        log.report.add(Action.REBUILT, _EPOCHS, f"epochs were {before}, are {after}{but}",
                       severity=Severity.WARNING if but else Severity.INFO)


def note_missing(log: Loading) -> None:
    """Report missing segments of which only an index is left: nothing shows that they were deleted."""
    alone: dict[int | None, str] = {}
    for event in log.report.find(Action.REMOVED):
        if event.reason == ALONE:
            alone.setdefault(offset_of(event.path), event.path)
    reported = {event.path for event in log.report.find(Action.MISSING)}
    for offset, name in alone.items():
        if offset is None or log_file_name(offset) in reported:
            continue
        floor, higher = log.segments.floor_segment(offset), log.segments.higher_segment(offset)
        first = offset if floor is None else floor.read_next_offset()
        if first <= offset:
            why = (f"the .log file is missing, only {name} is left: put it back (from a backup, lost+found, an "
                   "unmounted disk) before a broker starts, which continues without it")
            log.report.add(Action.MISSING, log_file_name(offset), why, severity=Severity.ERROR,
                           offsets=(first, None if higher is None else higher.base_offset))


def note_torn_tail(log: Loading) -> None:
    """Report bytes after the last batch: after a clean stop nothing truncates them, and appends would follow them.

    Also report an index with offsets that the log does not have: Kafka treats such a log as empty.
    """
    segment = log.active
    head = segment.translate_offset(segment.offset_index.last_offset)
    if head is None and len(segment.offset_index) and segment.size:
        why = (f"its offset index reaches offset {segment.offset_index.last_offset}, after the end of the log: a broker "
               f"takes {segment.base_offset} as the log end. recover without --clean-start reads the log")
        log.report.add(Action.KEPT, log_file_name(segment.base_offset), why, size=segment.size, severity=Severity.ERROR)
        return
    is_first = head is not None and head.position == 0 and head.base_offset >= segment.base_offset
    if not is_first and not segment.begins_within_name(LONG_MAX):
        held = segment.extent()
        if held.first_offset is not None and held.end_offset is not None and held.end_offset <= segment.base_offset:
            why = (f"its batches have offsets {held.first_offset} to {held.end_offset - 1}: a broker continues "
                   f"at {segment.base_offset} after them. recover without --clean-start reads the log")
            held.note(log.report, Action.KEPT, log_file_name(segment.base_offset), why, severity=Severity.ERROR)
            return
    last = None if head is None else last_head(segment.log_file, head.position, segment.size)
    end = 0 if last is None else last.position + last.size
    if end < segment.size and (last is not None or not len(segment.offset_index)):
        log.report.add(Action.KEPT, log_file_name(segment.base_offset), f"at byte {end}: no whole batch follows, and "
                       "appends would land after these bytes. recover without --clean-start truncates them",
                       size=segment.size - end, severity=Severity.WARNING)


def note_kept(log: Loading, first_recovered: int) -> None:
    """Report the segments below the recovery point, which are not read."""
    segments = list(log.segments)
    for segment, following in pairwise(segments):
        if segment.base_offset < first_recovered:
            log.report.add(Action.KEPT, log_file_name(segment.base_offset), "below the recovery point",
                           offsets=(segment.base_offset, following.base_offset), size=segment.size)
