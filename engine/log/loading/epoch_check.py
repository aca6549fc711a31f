"""leader-epoch-checkpoint against the batches that were recovered.

Of these Kafka takes epochs above all that the file has, and believes the file where both differ.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from engine.findings import Severity
from engine.layout import FileKind
from engine.log.report import Action

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.checkpoint.leader_epochs import EpochEntry
    from engine.log.loading.shared import Loading
    from engine.log.scan.epoch_runs import EpochRun
    from engine.log.segment.log_segment import LogSegment

_EPOCHS = FileKind.LEADER_EPOCH_CHECKPOINT.value


def note_epochs(log: Loading, end: int, *, is_contradictory: bool) -> None:
    """Report a checkpoint that says something else of the log, which ends before offset `end`, than batches that were read.

    Where these contradict each other that is told already, and what the file should hold is not known.

    is_contradictory  entries that the file had contradicted each other, and a later one took the place of those before it
    """
    first = log.epochs.entries[0].start_offset if log.epochs.entries else end
    start = max(log.log_start_offset, log.segments.base_offsets[0])
    is_forgotten = is_contradictory and start < min(first, end)
    if not is_forgotten and (not log.epoch_runs or any(runs.doubt is not None for runs in log.epoch_runs.values())):
        return
    if log.epochs.in_file != log.epochs.entries:
        what = "both epochs and offsets must grow"
    elif is_forgotten:
        what = (f"nothing is said of offsets {start} to {min(first, end) - 1} any more, as entries of the file contradicted "
                "each other")
    else:
        found = next(_contradictions(log, end), None)
        if found is None:
            return
        what = found
    log.report.add(Action.KEPT, _EPOCHS, f"{what}: replicas may truncate at the wrong place, and a broker leaves it so - "
                   "kafkalog verify-index --rebuild makes it anew", severity=Severity.WARNING)


def _contradictions(log: Loading, end: int) -> Iterator[str]:
    entries = log.epochs.entries
    starts = [entry.start_offset for entry in entries]
    # a deletion of old segments that was stopped leaves some of them, below the first epoch: their turn comes again
    start = max(log.log_start_offset, starts[0]) if starts else log.log_start_offset
    for segment, following in pairwise([*log.segments, None]):
        assert segment is not None
        runs = log.epoch_runs.get(segment.base_offset)
        if runs is None:
            continue
        bound = end if following is None else following.base_offset
        for run, behind in pairwise([*runs.believed, None]):
            assert run is not None
            below = bound if behind is None else behind.first_offset
            first = max(run.first_offset, start)
            if not _reaches(segment, run, first, below):
                continue
            number = bisect_right(starts, first) - 1
            if number < 0:
                yield f"nothing is said of offset {first}, whose batch has epoch {run.epoch}"
            elif entries[number].epoch != run.epoch:
                yield f"offset {first} would be of epoch {entries[number].epoch}, its batch has epoch {run.epoch}"
            between = entries[number + 1 : bisect_left(starts, below)]
            yield from (_too_early(entry, run) for entry in between
                        if entry.epoch != run.epoch and _reaches(segment, run, entry.start_offset, below))


def _too_early(entry: EpochEntry, run: EpochRun) -> str:
    return f"epoch {entry.epoch} would begin at offset {entry.start_offset}, where a batch has epoch {run.epoch}"


def _reaches(segment: LogSegment, run: EpochRun, offset: int, bound: int) -> bool:
    """Is there a batch of `run` with `offset`, or behind it?"""
    if offset == run.first_offset:
        return offset < bound
    head = segment.translate_offset(offset) if offset < bound else None
    return head is not None and head.base_offset < bound
