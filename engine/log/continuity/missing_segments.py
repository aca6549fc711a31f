"""Report segments and records that were lost before: gaps between segments, and a log that does not reach its start."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from engine.amounts import count_of
from engine.checkpoint.checkpoints import read_leader_epochs
from engine.discovery.names import (
    LOG_SWAP,
    FileKind,
    file_name,
    is_log_file_name,
    log_file_name,
    offset_index_file_name,
    producer_snapshot_file_name,
)
from engine.findings import Severity
from engine.formats import LONG_MAX
from engine.index.sparse import OffsetIndex
from engine.log.continuity.check import ContinuityCheck
from engine.log.report import Action
from engine.log.segment.batch_search import end_by_headers, sound_heads
from engine.record.columns import BatchColumns
from engine.record.heads import HeadWalk
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.report import Event, Report
    from engine.log.tiering import Policy
    from engine.log.verify.losses import Evidence

_WITNESSES = 4  # files that are named as evidence
_MOST_GAPS = 1000  # gaps that are reported one by one


def note_breaks(report: Report, bases: list[int]) -> None:
    """Report a recovered segment whose end is after the beginning of the next one.

    bases  base offsets of the segments, ascending
    """
    ends = {event.path: event.end_offset for event in report.find(Action.RECOVERED)}
    reported = {event.path for event in report.find(Action.SALVAGED)}
    for base, following in pairwise(bases):
        name, end = log_file_name(base), ends.get(log_file_name(base))
        if end is not None and end > following and name not in reported:
            report.add(Action.KEPT, name, f"it ends before offset {end}, and the next segment begins at {following}: one of "
                       "its batches has a wrong offset, which no checksum covers", severity=Severity.ERROR)


def note_losses(
    files: ReadOnlyFiles, report: Report, log: UnifiedLog, evidence: Evidence, policy: Policy
) -> None:
    """Report the offsets that were lost before, if the disk proves it, unless events of the recovery name them already.

    evidence  what other files said about the log before anything was changed
    Gaps are searched in the segments that were read: see `report.unread_below`.
    """
    _note_gaps(files, report, log, policy)
    note_end(report, log, evidence)
    if evidence.lacks_snapshots and report.unread_below == log.log_end_offset:
        why = ("the log has producers but no producer snapshot: after a clean stop a broker forgets them and accepts "
               "duplicates. recover without --clean-start rebuilds their state from the batches")
        report.add(Action.KEPT, "", why, severity=Severity.WARNING)
    elif evidence.lacks_snapshots:
        why = "the log has producers but no producer snapshot: their state is rebuilt from the batches"
        report.add(Action.REBUILT, producer_snapshot_file_name(log.log_end_offset), why, severity=Severity.WARNING)
    if evidence.lacks_epochs:
        _note_lost_epochs(report, log)
    before = evidence.before(log.segments.base_offsets[0], policy)
    if before is not None and before.finding.severity is Severity.INFO:
        report.add(Action.EXPLAINED, "", before.finding.what, offsets=(before.first, before.end))
    elif before is not None:
        _add_missing(report, log_file_name(before.first), before.finding.what, (before.first, before.end))


def _note_lost_epochs(report: Report, log: UnifiedLog) -> None:
    name, first = FileKind.LEADER_EPOCH_CHECKPOINT.value, log.segments.base_offsets[0]
    unknown = f"; whether offsets below {first} were deleted or lost is not known" if first > 0 else ""
    why = f"batches have leader epochs, and the file had none{unknown}"
    if log.leader_epoch_cache.entries:
        report.add(Action.REBUILT, name, f"{why}: taken from the batches that were read", severity=Severity.WARNING)
    else:
        report.add(Action.KEPT, name, f"{why}: no batch was read - recover --full takes them", severity=Severity.WARNING)


def _add_missing(report: Report, name: str, why: str, offsets: tuple[int, int]) -> None:
    report.add(Action.MISSING, name, why, offsets=offsets, severity=Severity.WARNING)


def note_end(report: Report, log: UnifiedLog, evidence: Evidence) -> None:
    """Report evidence in other files of offsets after the log end, except for what the recovery itself removed."""
    end = log.log_end_offset
    claims = evidence.beyond(end)
    if not claims:
        return
    actions = (Action.TRUNCATED, Action.REMOVED, Action.SALVAGED, Action.MISSING)
    named = _ReportedOffsets(report, log.segments.base_offsets, actions)
    for first, following in named.without(end, max(claim.end for claim in claims)):
        quotes = sorted({f"{file_name(claim.path)}: {claim.what}" for claim in claims if claim.end > first})
        more = f" (and {count_of(len(quotes) - _WITNESSES, 'more file')})" if len(quotes) > _WITNESSES else ""
        why = f"{'; '.join(quotes[:_WITNESSES])}{more}: lost before"
        _add_missing(report, log_file_name(first), why, (first, following))


def _note_gaps(files: ReadOnlyFiles, report: Report, log: UnifiedLog, policy: Policy) -> None:
    """Report gaps between batches, also if the recovery truncated a segment: a log with a gap is not repaired."""
    bases = log.segments.base_offsets
    named = _ReportedOffsets(report, bases, (Action.REMOVED, Action.SALVAGED, Action.MISSING))
    cut = {event.path for event in report.find(Action.TRUNCATED)}
    swapped = _compacted_by_swap(report, policy)
    left = [one for gap in _gaps(files, report, log, policy, named) if _segment_of(bases, gap[0]) not in swapped
            for one in named.without(*gap)]
    for first, following in left[:_MOST_GAPS]:
        holder, name = _segment_of(bases, first), log_file_name(first)
        if following not in bases:
            name, why = holder, "no batch holds these offsets, and compaction does not explain it"
        elif holder in cut:
            why = f"no segment has this part of the log: it was in the bytes truncated from {holder}, or was lost before"
        else:
            why = ("no segment holds these offsets, and compaction does not explain it: if you have the file, put it back "
                   "before a broker starts")
        _add_missing(report, name, why, (first, following))
    if len(left) > _MOST_GAPS:
        _add_missing(report, "", count_of(len(left) - _MOST_GAPS, "more gap"), (left[_MOST_GAPS][0], left[-1][1]))


def _compacted_by_swap(report: Report, policy: Policy) -> set[str]:
    """Names of segments of a compacted topic that were `.swap` files: the cleaner removed the offsets that they lack.

    If a `.swap` file is damaged, other events report its missing offsets.
    """
    swapped = {event.to for event in report.find(Action.RENAMED) if event.to and event.path.endswith(LOG_SWAP)}
    return swapped if swapped and policy().compacted else set()


def _segment_of(bases: Sequence[int], offset: int) -> str:
    """The file name of the segment that `offset` belongs to."""
    return log_file_name(bases[max(0, bisect_right(bases, offset) - 1)])


def _gaps(
    files: ReadOnlyFiles, report: Report, log: UnifiedLog, policy: Policy, named: _ReportedOffsets
) -> list[tuple[int, int]]:
    """Lost offsets [first, end) between the batches that were read."""
    bases, recovered = log.segments.base_offsets, {event.path: event for event in report.find(Action.RECOVERED)}
    if not recovered and report.unread_below is not None and bases[-1] < report.unread_below:
        return []  # no segment was read
    starts = [entry.start_offset for entry in log.leader_epoch_cache.entries]
    explained: list[Finding] = []
    check = ContinuityCheck(files, report.directory, explained.append, starts, policy)
    if policy().compacted and all(log_file_name(base) in recovered and recovered[log_file_name(base)].end_offset == following
                                for base, following in pairwise(bases)):
        return []  # the cleaner made the gaps within segments, and no segment is missing
    columns = BatchColumns()
    for base in bases:
        name = log_file_name(base)
        path, event = f"{report.directory}/{name}", recovered.get(name)
        check.begin_segment(base, path)
        if event is None and report.unread_below is not None and base < report.unread_below:
            check.skip_segment()
            continue
        if event is not None and event.end_offset is not None and _has_all(event):
            check.pass_segment(event.end_offset)
            continue
        with files.open(path) as file:
            # the recovery has read the segments that it reports as recovered, and verified the checksums
            for window in LogWalk(file) if event is None else HeadWalk(file, batches=columns):
                check.feed(window)
    check.finish()
    for finding in explained:
        ahead = finding.where.offset or 0, bases[-1]
        if finding.code == "rolled-ahead" and list(named.without(*ahead)) == [ahead]:
            report.add(Action.EXPLAINED, file_name(finding.where.file), finding.what, offsets=ahead)
    return check.losses


def _has_all(event: Event) -> bool:
    """Was one record read for each of its offsets?"""
    return event.first_offset is not None and event.end_offset is not None and (
        event.records == event.end_offset - event.first_offset
    )


class _ReportedOffsets:
    """The lost offsets that events of `report` with one of `actions` name. `bases`: base offsets of the remaining segments."""

    def __init__(self, report: Report, bases: Sequence[int], actions: tuple[Action, ...]) -> None:
        self._ranges: list[tuple[int, int]] = []
        for event in report.events:
            if event.first_offset is None or event.action not in actions or event.severity is Severity.INFO:
                continue
            number = bisect_right(bases, event.first_offset)
            following = bases[number] if number < len(bases) else LONG_MAX
            is_open = event.end_offset is None and event.severity is Severity.ERROR and event.action is not Action.SALVAGED
            self._ranges.append((event.first_offset, following if is_open else event.end_offset or event.first_offset))
        self._ranges.sort()

    def without(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of offsets [first, end) that no event names."""
        for begin, after in self._ranges:
            if begin >= end:
                break
            if first < begin:
                yield first, begin
            first = max(first, after)
        if first < end:
            yield first, end


def start_beyond_end(
    files: ReadOnlyFiles, directory: str, start: int, *, without_misnamed: bool = False
) -> tuple[int, int, int] | None:
    """(first offset, end offset, bytes) of the log in `directory` if it ends below `start`: then Kafka deletes all of it.

    without_misnamed  leave out files whose first batch is below their names: --salvage drops those batches
    None: it ends at or after `start`, or is empty. Raises UnreadableFile.
    """
    names = [name for name in files.list(directory) if is_log_file_name(name) and files.exists(f"{directory}/{name}")]
    bases = sorted(int(name[:20]) for name in names)
    while without_misnamed and bases and _is_misnamed(files, directory, bases[-1]):
        bases.pop()
    sizes = {base: files.info(f"{directory}/{log_file_name(base)}").size for base in bases}
    if not any(sizes.values()) or bases[-1] >= start:
        return None
    end = bases[-1]
    with files.open(f"{directory}/{log_file_name(end)}") as file:
        index = f"{directory}/{offset_index_file_name(end)}"
        position = _last_position(files, index, end)
        end = end_by_headers(file, position, end)
        if end < start and position:  # the deletion depends on this: read the log, do not rely on the index
            end = end_by_headers(file, 0, end)
    return (bases[0], end, sum(sizes.values())) if end < start else None


def _is_misnamed(files: ReadOnlyFiles, directory: str, base: int) -> bool:
    """Return whether the first batch of the log file of `base` begins below it."""
    with files.open(f"{directory}/{log_file_name(base)}") as file:
        head = next(sound_heads(file), None)
        return head is not None and head.base_offset < base


def start_in_epochs(files: ReadOnlyFiles, directory: str, end: int) -> int:
    """Start offset of the first leader epoch of the partition in `directory`, if it is below `end`; else 0.

    When the log start offset is raised, earlier leader epochs are removed, so the first epoch shows where the log began.
    """
    path = f"{directory}/{FileKind.LEADER_EPOCH_CHECKPOINT.value}"
    checkpoint = read_leader_epochs(files, path) if files.exists(path) else None
    if checkpoint is None or checkpoint.findings or not checkpoint.entries:
        return 0
    start = checkpoint.entries[0].start_offset
    return start if start < end else 0


def _last_position(files: ReadOnlyFiles, path: str, base: int) -> int:
    """Position in the last entry of the offset index at `path`; 0 without an entry."""
    if not files.exists(path):
        return 0
    index = OffsetIndex.read(files, path, base)
    return max(0, index.entry(index.used_entries - 1).position) if index.used_entries else 0
