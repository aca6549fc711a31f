"""Whether the segments of a log follow one another, and whether it reaches its own start: asked before and after recovery."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from engine.checkpoint.leader_epochs import read_leader_epochs
from engine.findings import Severity
from engine.index.offset import OffsetIndex
from engine.layout import FileKind, is_log_file_name, log_file_name, offset_index_file_name, parse_file_name
from engine.log.errors import CorruptRecord
from engine.log.report import Action
from engine.log.scan.batch_search import heads
from engine.log.scan.cleaned import was_cleaned
from engine.log.scan.rolled import is_rolled_ahead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.files import OpenFile, ReadOnlyFiles
    from engine.log.report import Report



def note_breaks(
    files: ReadOnlyFiles, report: Report, bases: list[int], *, compacted: bool, epoch_starts: Sequence[int] = ()
) -> None:
    """Report where a segment that was recovered ends behind the next one's beginning, or before it without a cause.

    bases      base offsets of the segments, growing
    compacted  the topic is set to be: then gaps are no losses
    epoch_starts  where leader epochs begin
    """
    ends = {event.path: event.end_offset for event in report.find(Action.RECOVERED)}
    told = {event.path for event in report.find(Action.SALVAGED)}
    cut = {event.path for event in report.find(Action.TRUNCATED)}
    lost = [event.first_offset for event in report.find(Action.MISSING)]
    for base, following in pairwise(bases):
        name, end = log_file_name(base), ends.get(log_file_name(base))
        if end is None or name in told:
            continue
        if end > following:
            report.add(Action.KEPT, name, f"it ends before offset {end}, and the next segment begins at {following}: one of "
                       "its batches has a wrong offset, which no checksum covers", severity=Severity.ERROR)
        elif end < following and not any(end <= first < following for first in lost if first is not None):
            if name in cut:
                report.add(Action.MISSING, log_file_name(end), f"no segment holds these offsets: they stood in what is cut "
                           f"from {name}, or were lost behind it before", offsets=(end, following), severity=Severity.WARNING)
                continue
            parsed = parse_file_name(log_file_name(end))
            path = files.absolute(f"{report.directory}/{log_file_name(end)}")
            last = f"{report.directory}/{log_file_name(following)}"
            if following == bases[-1] and is_rolled_ahead(files, last, end, following, epoch_starts):
                report.add(Action.EXPLAINED, log_file_name(following), "the last segment is empty and begins behind the end of "
                           "the log before it: rolled ahead, nothing tells that more was written", offsets=(end, following))
            elif not compacted and not report.has_holes and parsed is not None and not was_cleaned(files, path, parsed):
                report.add(Action.MISSING, log_file_name(end), "no segment holds these offsets, and no compaction explains it: "
                           "put the file back, if there is one, before a broker starts", offsets=(end, following),
                           severity=Severity.WARNING)


def start_beyond_end(files: ReadOnlyFiles, directory: str, start: int) -> tuple[int, int, int] | None:
    """(first offset, end offset, bytes) of the log in `directory` if it ends below `start`: Kafka deletes all of it then.

    None: it does not, or holds nothing. Raises UnreadableFile.
    """
    names = [name for name in files.list(directory) if is_log_file_name(name) and files.exists(f"{directory}/{name}")]
    bases = sorted(int(name[:20]) for name in names)
    sizes = {base: files.info(f"{directory}/{log_file_name(base)}").size for base in bases}
    if not any(sizes.values()) or bases[-1] >= start:
        return None
    end = bases[-1]
    with files.open(f"{directory}/{log_file_name(end)}") as file:
        index = f"{directory}/{offset_index_file_name(end)}"
        position = _last_position(files, index, end)
        end = _end_from(file, position, end)
        if end < start and position:  # no index is believed when all depends on it
            end = _end_from(file, 0, end)
    return (bases[0], end, sum(sizes.values())) if end < start else None


def start_in_epochs(files: ReadOnlyFiles, directory: str, end: int) -> int:
    """Where the first leader epoch of the partition in `directory` begins, as long as that is below `end`; else 0.

    Leader epochs are cut at the log start offset when that moves, so they remember it.
    """
    path = f"{directory}/{FileKind.LEADER_EPOCH_CHECKPOINT.value}"
    checkpoint = read_leader_epochs(files, path) if files.exists(path) else None
    if checkpoint is None or checkpoint.findings or not checkpoint.entries:
        return 0
    start = checkpoint.entries[0].start_offset
    return start if start < end else 0


def _last_position(files: ReadOnlyFiles, path: str, base: int) -> int:
    """Where the last entry of the offset index at `path` points; 0 without one."""
    if not files.exists(path):
        return 0
    index = OffsetIndex.read(files, path, base)
    return max(0, index.entry(index.used_entries - 1).position) if index.used_entries else 0


def _end_from(file: OpenFile, position: int, end: int) -> int:
    """Behind the last offset of the batches from byte `position` on, at least `end`."""
    try:
        for head in heads(file, position, file.size()):
            end = max(end, head.next_offset)
    except CorruptRecord:
        pass
    return end
