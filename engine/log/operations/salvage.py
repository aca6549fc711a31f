"""Rewrite segments so that they contain exactly the sound batches of a partition, in the order of their offsets.

A batch is dropped only if others hold its offsets, or if its offsets must be wrong: `arrangement` decides. Gaps in the
offsets may remain, as after compaction. Everything that is dropped is reported. The indexes of a rewritten segment are
removed, so that recovery rebuilds them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import islice, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import offsets_text
from engine.checkpoint.checkpoints import read_leader_epochs
from engine.discovery.names import (
    ASIDE,
    FileKind,
    is_log_file_name,
    log_file_name,
    offset_index_file_name,
    time_index_file_name,
    transaction_index_file_name,
)
from engine.errors import argument
from engine.findings import Severity
from engine.formats import LONG_MAX, NO_SEQUENCE
from engine.log.errors import LogDamaged
from engine.log.loading.replacement import free_base_offset
from engine.log.operations.arrangement import Segment, arrange
from engine.log.operations.witnesses import FilesBeside, fits_epochs
from engine.log.report import Action
from engine.log.segment.extent import read_extent
from engine.log.segment.readable_segment import refuse_too_large
from engine.log.segment.sound_runs import (
    as_runs,
    batches_in,
    checked_batches,
    one_bit_off,
    restored,
    skipped_sequences,
    with_offsets_restored,
)
from engine.record.soundness import searched_up_to

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from engine.checkpoint.checkpoints import EpochEntry
    from engine.files import Files, OpenFile
    from engine.log.operations.arrangement import Arrangement
    from engine.log.operations.contested import Dropped
    from engine.log.report import Report
    from engine.log.segment.sound_runs import Batch, Run

_OFFSET_SIZE = 8  # bytes of a base offset, the first field of every batch
_UNPROVEN = "nothing proves that the batches kept here belong to the log, and not the other ones with these offsets"


class _Source(NamedTuple):
    """A .log as found. `base` is from its name, `runs` in file order; `gave_up`: byte where the search ended early, or None."""

    base: int
    size: int
    runs: list[Run]
    gave_up: int | None


def salvage(files: Files, directory: str, report: Report, claimed_ends: Collection[int] = ()) -> int:
    """Rewrite every segment of the partition in `directory` that has damage, batches out of order or the same batch twice.

    claimed_ends  ends of the log according to other files, which may be older or newer than the log
    A torn end of the last segment is left to recovery. Returns the number of changed files. Raises UnreadableFile,
    UnwritableFile, SegmentTooLarge; LogDamaged, before anything is changed, if it is not proven which of two batches belongs
    to the log, and no quarantine keeps the other one.
    """
    bases = sorted(int(name[:20]) for name in files.list(directory) if is_log_file_name(name))
    sources = {base: _read(files, directory, base) for base in bases}
    following = dict(zip(bases, (*bases[1:], max(claimed_ends, default=None)), strict=False))
    for base in bases:
        claimed = claimed_ends if base == bases[-1] else ()
        sources[base] = _with_offsets_restored(files, directory, sources, base, following[base], claimed)
    epochs = _epochs(files, f"{directory}/{FileKind.LEADER_EPOCH_CHECKPOINT.value}")
    found = _arranged(files, directory, sources, epochs, claimed_ends)
    instead = _restored_instead_of_dropped(files, directory, sources, following, found, epochs)
    if instead:
        sources |= instead
        found = _arranged(files, directory, sources, epochs, claimed_ends)
    if not files.keeps:
        _refuse_unproven(directory, found.dropped)
    segments = _with_emptied(found.segments, sources)
    changed = [segment for segment in segments if not _is_as_found(segment, sources, is_last=segment is segments[-1])]
    removed = sorted(sources.keys() - {segment.named for segment in segments})
    _Notes(files, directory, report, sources, segments, found.dropped).note(changed, removed)
    _write_all(files, directory, changed, sources, removed)
    return len(changed) + len(removed)


def _unproven(dropped: list[Dropped]) -> tuple[int, int] | None:
    """The offsets of batches that were dropped although nothing proves that; None: there are none."""
    runs = [one.part.run for one in dropped if not one.is_proven]
    return (min(run.first_offset for run in runs), max(run.end_offset for run in runs)) if runs else None


def _refuse_unproven(directory: str, dropped: list[Dropped]) -> None:
    offsets = _unproven(dropped)
    if offsets is not None:
        what = f"{directory}: {offsets_text(*offsets)}: {_UNPROVEN}, which no quarantine would keep"
        do = f"kafkalog recover --salvage {argument(directory)}    # without --no-quarantine: keeps the other batches"
        raise LogDamaged(what, do=do, path=directory)


def _epochs(files: Files, path: str) -> list[EpochEntry]:
    """The entries of leader-epoch-checkpoint, if it is valid."""
    checkpoint = read_leader_epochs(files, path) if files.exists(path) else None
    return [] if checkpoint is None or checkpoint.findings else checkpoint.entries


def _arranged(
    files: Files, directory: str, sources: Mapping[int, _Source], epochs: list[EpochEntry], claimed_ends: Collection[int]
) -> Arrangement:
    def expand(base: int, run: Run) -> Iterator[Batch]:
        with files.open(f"{directory}/{log_file_name(base)}") as file:
            yield from batches_in(file, run)

    runs = {base: source.runs for base, source in sources.items()}
    return arrange(runs, expand, FilesBeside(files, directory, runs, epochs, claimed_ends))


def _read(files: Files, directory: str, base: int) -> _Source:
    with files.open(f"{directory}/{log_file_name(base)}") as file:
        refuse_too_large(files, file.path, file.size())
        ends: list[int] = []
        runs = list(as_runs(checked_batches(file, ends.append)))
        return _Source(base, file.size(), runs, ends[0] if ends else None)


def _with_offsets_restored(
    files: Files, directory: str, sources: Mapping[int, _Source], base: int, following: int | None, claimed: Collection[int]
) -> _Source:
    source = sources[base]
    runs = source.runs
    if len(runs) <= 1 and (not runs or base <= runs[0].first_offset <= runs[0].end_offset <= (following or LONG_MAX)):
        return source

    def is_held(batch: Batch) -> bool:
        return any(other.start != batch.start for other in _overlapping(files, directory, source, batch)) or (
            any(any(_overlapping(files, directory, one, batch)) for one in sources.values() if one is not source)
            and _fits_as_it_is(files, directory, sources, source, batch))

    def is_copy(batch: Batch) -> bool:
        return any(other.identity == batch.identity for one in sources.values() if one is not source
                   for other in _overlapping(files, directory, one, batch))

    with files.open(f"{directory}/{log_file_name(base)}") as file:
        batches = checked_batches(file, lambda _: None)
        right = as_runs(with_offsets_restored(batches, base, following, is_held, claimed, is_copy))
        return source._replace(runs=list(right))


def _fits_as_it_is(
    files: Files, directory: str, sources: Mapping[int, _Source], source: _Source, batch: Batch
) -> bool:
    """Does a batch of `source`, with the base offset in the file, fit beside another batch, where no batch has its offsets?"""
    first = batch.first_offset if batch.restored_from is None else batch.restored_from
    end = first + batch.end_offset - batch.first_offset
    wider = batch._replace(first_offset=first - 1, end_offset=end + 1)
    is_beside = False
    for one in sources.values():
        for other in _overlapping(files, directory, one, wider):
            if one is source and other.start == batch.start:
                continue
            if other.first_offset < end and first < other.end_offset:
                return False
            is_beside = True
    return is_beside


def _overlapping(files: Files, directory: str, source: _Source, batch: Batch) -> Iterator[Batch]:
    """Yield the batches of a file that overlap `batch` in offsets."""
    runs = [run for run in source.runs if run.first_offset < batch.end_offset and batch.first_offset < run.end_offset]
    if not runs:
        return
    with files.open(f"{directory}/{log_file_name(source.base)}") as file:
        yield from (other for run in runs for other in batches_in(file, run)
                    if other.first_offset < batch.end_offset and batch.first_offset < other.end_offset)


def _restored_instead_of_dropped(
    files: Files, directory: str, sources: Mapping[int, _Source], following: Mapping[int, int | None], found: Arrangement,
    epochs: list[EpochEntry],
) -> dict[int, _Source]:
    """Return the files with dropped batches, changed so that base offsets with one wrong bit are restored instead.

    following  by base offset of a file: that of the next file, or the end of the log; None: not known
    If a batch is dropped and no copy of it is kept, its base offset, or that of its neighbour, probably has a wrong bit.
    """
    kept = [part for segment in found.segments for part in segment.parts]
    instead: dict[int, _Source] = {}
    for base in {one.part.base for one in found.dropped if not one.is_copy}:
        own = sorted((part.run for part in kept if part.base == base), key=itemgetter(0))
        others = [part.run for part in kept if part.base != base]
        right: dict[int, Batch] = {}  # restored batches, by byte position
        with files.open(f"{directory}/{log_file_name(base)}") as file:
            parts = (list(islice(batches_in(file, one.part.run), 2)) for one in found.dropped
                     if one.part.base == base and not one.is_copy)
            either = [list(_either(file, batches[0], own)) for batches in parts if len(batches) == 1]
            sequences = _Sequences(file, own, {batch.producer_id for one in either for batch, _ in one})
            for one in either:
                for batch, rest in one:
                    first = _fitting_offset(batch, sources[base], rest, others, following[base], sequences)
                    if first is not None and fits_epochs(fitting := restored(batch, first), epochs):
                        right[batch.start] = fitting
                        break
            if right:
                all_batches = (batch for run in sources[base].runs for batch in batches_in(file, run))
                runs = list(as_runs(right.get(batch.start, batch) for batch in all_batches))
                instead[base] = sources[base]._replace(runs=runs)
    return instead


def _either(file: OpenFile, dropped: Batch, own: list[Run]) -> Iterator[tuple[Batch, list[Run]]]:
    """Yield each batch whose base offset may be wrong, with the other kept runs of its file.

    That is `dropped`, and the batch before it if both hold the same offset.
    """
    yield dropped, own
    at = bisect_right(own, dropped.start, key=itemgetter(0))
    if not at or own[at - 1].end_offset <= dropped.first_offset:
        return
    before = own[at - 1]
    last = next(batch for batch in batches_in(file, before) if batch.end == before.end)
    rest = as_runs(batch for batch in batches_in(file, before) if batch.end < before.end)
    yield last, [*own[: at - 1], *rest, *as_runs(iter((dropped,))), *own[at:]]


class _Sequences:
    """The sequence numbers of some producers in the kept batches of a file."""

    def __init__(self, file: OpenFile, own: list[Run], producers: Collection[int]) -> None:
        self._of: dict[tuple[int, int], list[Batch]] = {}  # by producer and epoch, in the order of offsets
        for run in own if any(producer >= 0 for producer in producers) else ():
            for batch in batches_in(file, run):
                if batch.base_sequence != NO_SEQUENCE and batch.producer_id in producers:
                    self._of.setdefault((batch.producer_id, batch.producer_epoch), []).append(batch)
        for batches in self._of.values():
            batches.sort(key=_first_offset)

    def continued(self, batch: Batch) -> bool | None:
        """Do the sequence numbers continue at `batch`? False: more of them are missing than offsets. None: not known."""
        others = self._of.get((batch.producer_id, batch.producer_epoch), [])
        at = bisect_left(others, batch.first_offset, key=_first_offset)
        beside = [*[one for one in others[max(0, at - 2) : at] if one.start != batch.start][-1:], batch]
        beside += [one for one in others[at : at + 2] if one.start != batch.start][:1]
        skips = [(skipped_sequences(one, other), other.first_offset - one.end_offset) for one, other in pairwise(beside)]
        known = [(skipped, missing) for skipped, missing in skips if skipped is not None]
        if any(skipped > max(0, missing) for skipped, missing in known):
            return False
        return True if any(skipped == 0 for skipped, _ in known) else None


def _first_offset(batch: Batch) -> int:
    return batch.first_offset


def _fitting_offset(
    batch: Batch, source: _Source, own: list[Run], others: list[Run], following: int | None, sequences: _Sequences
) -> int | None:
    """A base offset for `batch` that differs in one bit and fits between its neighbours; None: there is no unique one.

    Its producer's sequence numbers must not contradict it. If several fit, that one is used at which they continue, then the
    one that leaves no gap to a neighbour. If neither is true of it, nothing proves it.
    own  the other kept runs of its file, `source`     others  kept runs of other files
    """
    at = bisect_right(own, batch.start, key=itemgetter(0))
    start, end = (own[at - 1].end_offset, own[at - 1].end) if at else (source.base, 0)
    limit, limit_at = (own[at].first_offset, own[at].start) if at < len(own) else (following, source.size)
    if limit is None or batch.restored_from is not None:
        return None  # without a limit, any higher offset would fit
    size = batch.end_offset - batch.first_offset
    free = [first for first in one_bit_off(batch, start, limit)
            if not any(run.first_offset < first + size and first < run.end_offset for run in (*own, *others))]
    continued = {first: sequences.continued(restored(batch, first)) for first in free}
    near = [first for first in free if continued[first]] or [first for first in free if continued[first] is None]
    touching = {start} if batch.start == end else set()
    if batch.end == limit_at and not (touching and limit == batch.first_offset):  # then the neighbour after it is in doubt, too
        touching.add(limit - size)
    if len(near) > 1 and batch.record_count == size:
        near = [first for first in near if first in touching]
    is_proven = len(near) == 1 and (continued[near[0]] or near[0] in touching)
    return near[0] if is_proven else None


def _with_emptied(segments: list[Segment], sources: Mapping[int, _Source]) -> list[Segment]:
    """Return `segments` and the files between them that hold no sound batch: these stay, emptied."""
    found = list(segments)
    named = {segment.named for segment in segments}
    for base, source in sources.items():
        at = bisect_right(found, base, key=lambda segment: segment.base)
        ends_before = at == 0 or (found[at - 1].base < base and found[at - 1].end_offset <= base)
        if base not in named and not source.runs and ends_before:
            found.insert(at, Segment(base, base, []))
    return found


def _is_as_found(segment: Segment, sources: Mapping[int, _Source], *, is_last: bool) -> bool:
    """Does the file stay unchanged? `is_last`: bytes after its last sound batch are left to recovery."""
    source, at = sources[segment.named], 0
    for part in segment.parts:
        if part.base != segment.named or part.run.start != at or part.run.restored_from is not None:
            return False
        at = part.run.end
    is_torn = is_last and all(run.end <= at for run in source.runs)
    return segment.base == segment.named and (at == source.size or is_torn)


def _remove_indexes(files: Files, directory: str, base: int) -> None:
    """Remove the indexes of segment `base`: with other bytes, or another name, they would point to wrong positions."""
    for index in (offset_index_file_name, time_index_file_name, transaction_index_file_name):
        files.remove(f"{directory}/{index(base)}")


def _write_all(
    files: Files, directory: str, changed: list[Segment], sources: Mapping[int, _Source], removed: list[int]
) -> None:
    """Write the changed segments to files aside, rename those, and remove the files from which nothing is kept.

    At any time the files that are named .log contain every kept batch: after a stop, files aside may be removed.
    """
    for segment in changed:
        _write_aside(files, directory, segment, sources[segment.named])
    for base in sorted({base for segment in changed for base in (segment.base, segment.named)} | set(removed)):
        _remove_indexes(files, directory, base)
    files.sync_directory(directory)
    read = {segment.named for segment in changed} | set(removed)  # their batches are in the new files, or reported
    left = read - {segment.base for segment in changed}
    for turn in _in_turns(changed):
        if turn.is_needed:
            base = turn.segments[0].base
            used = sources.keys() | left | {segment.base for segment in changed}
            free = free_base_offset(sources[base].runs[0].first_offset, used)
            files.rename(f"{directory}/{log_file_name(base)}", f"{directory}/{log_file_name(free)}")
            left.add(free)
        for segment in turn.segments:
            aside, path = (f"{directory}/{log_file_name(segment.base, suffix)}" for suffix in (ASIDE, ""))
            files.rename(aside, path, replaces=segment.base in read)
        files.sync_directory(directory)
    for base in sorted(left):
        files.remove(f"{directory}/{log_file_name(base)}")
    if left:
        files.sync_directory(directory)


class _Turn(NamedTuple):
    """Segments that are renamed before those of the next turn.

    is_needed  its only segment replaces a file that still contains batches of segments of later turns
    """

    segments: list[Segment]
    is_needed: bool


def _in_turns(changed: list[Segment]) -> Iterator[_Turn]:
    """Yield the order in which `changed` segments replace files: after all segments that take batches from the file.

    If segments need each other's files, a turn has one of them and `is_needed` is set.
    """
    waiting = {segment.base: segment for segment in changed}
    takers: dict[int, set[int]] = {}  # by base offset of a file: the waiting segments that take batches from it
    for segment in changed:
        for part in segment.parts:
            takers.setdefault(part.base, set()).add(segment.base)
    while waiting:
        turn = [segment for base, segment in waiting.items() if takers.get(base, set()) <= {base}]
        is_cycle = not turn
        if is_cycle:
            turn = [next(iter(waiting.values()))]
        yield _Turn(turn, is_needed=is_cycle)
        for segment in turn:
            del waiting[segment.base]
            for part in segment.parts:
                takers[part.base].discard(segment.base)


def _write_aside(files: Files, directory: str, segment: Segment, source: _Source) -> None:
    info = files.info(f"{directory}/{log_file_name(source.base)}")
    aside = f"{directory}/{log_file_name(segment.base, ASIDE)}"
    with files.open_writable(aside, create=True, mode=info.mode) as copy:
        copy.truncate(0)
        at = 0
        for part in segment.parts:
            with files.open(f"{directory}/{log_file_name(part.base)}") as file:
                files.copy(file, part.run.start, part.run.end, copy, at)
            if part.run.restored_from is not None:
                copy.write_at(at, part.run.first_offset.to_bytes(_OFFSET_SIZE, "big"))
            at += part.run.end - part.run.start
        copy.sync()
    files.set_modified(aside, info.modified_ns)


# ---- what is reported -------------------------------------------------------------------------------


class _Notes:
    """Reports what happened to each file of the partition."""

    def __init__(
        self, files: Files, directory: str, report: Report, sources: Mapping[int, _Source], segments: list[Segment],
        dropped: list[Dropped],
    ) -> None:
        self._files, self._directory = files, directory
        self._report, self._sources, self._segments, self._dropped = report, sources, segments, dropped
        self._kept = sorted((part.run.first_offset, part.run.end_offset) for segment in segments for part in segment.parts)

    def note(self, changed: list[Segment], removed: list[int]) -> None:
        """Report the `changed` segments and the removed files (`removed`), in the order of their names."""
        by_name = {segment.named: segment for segment in changed}
        for base in sorted({*by_name, *removed}):
            name, source = log_file_name(base), self._sources[base]
            segment = by_name.get(base)
            if segment is not None and segment.base != base:
                self._report.add(Action.RENAMED, name, "its name is wrong: its first batch begins at offset "
                                 f"{segment.first_offset}, and the log before it ends at {self._end_before(segment.base)}",
                                 to=log_file_name(segment.base), severity=Severity.WARNING)
            self._note_damage(name, source)
            for one in self._dropped:
                if one.part.base == base:
                    self._note_dropped(name, one)
            if segment is None:
                self._report.add(Action.REMOVED, name, "none of its batches remains in this file", size=source.size,
                                 severity=Severity.WARNING)
            else:
                self._note_parts(name, segment)
        self._note_unproven(_unproven(self._dropped))

    def _end_before(self, base: int) -> int:
        return max((end for first, end in self._kept if first < base), default=0)

    def _note_damage(self, name: str, source: _Source) -> None:
        """Report the bytes outside of sound batches, and the offsets that are missing there."""
        following = min((base for base in self._sources if base > source.base), default=None)
        at, offset = 0, source.base
        holes: list[tuple[int, int, int]] = []  # start and end position, and the next expected offset there
        for run in source.runs:
            if run.start > at:
                holes.append((at, run.start, offset))
            at = run.end
            if run.first_offset >= offset and self._is_kept(run):
                self._note_holes(name, source, holes, run.first_offset)
                offset = run.end_offset
        if at < source.size:
            holes.append((at, source.size, offset))
        self._note_holes(name, source, holes, following)

    def _is_kept(self, run: Run) -> bool:
        """Is the first batch of `run` kept, or another batch with its offset?"""
        at = bisect_right(self._kept, (run.first_offset, LONG_MAX)) - 1
        return at >= 0 and run.first_offset < self._kept[at][1]

    def _note_holes(
        self, name: str, source: _Source, holes: list[tuple[int, int, int]], next_offset: int | None
    ) -> None:
        for start, end, offset in holes:
            self._note_bytes(name, source, (start, end), (offset, next_offset))
        holes.clear()

    def _note_bytes(
        self, name: str, source: _Source, positions: tuple[int, int], offsets: tuple[int, int | None]
    ) -> None:
        first, end = self._missing(*offsets)
        why = "bytes outside of sound batches" + ("; no offset is missing there" if first is None else "")
        if positions[1] == source.size and source.gave_up is not None:
            why += searched_up_to(source.gave_up)
        elif first is not None:
            with self._files.open(f"{self._directory}/{name}") as file:
                why += read_extent(file, *positions, offsets[0]).text
        self._report.add(Action.SALVAGED, name, why, size=positions[1] - positions[0], offsets=(first, end),
                         severity=Severity.WARNING if first is None else Severity.ERROR)

    def _missing(self, first: int, end: int | None) -> tuple[int | None, int | None]:
        """The range of offsets among first … end − 1 that no kept batch holds; (None, None): there is none."""
        at = bisect_right(self._kept, (first, LONG_MAX)) - 1
        while 0 <= at < len(self._kept) and self._kept[at][0] <= first < self._kept[at][1]:
            first, at = self._kept[at][1], at + 1
        at = 0 if end is None else bisect_right(self._kept, (end, -1)) - 1
        while end is not None and at >= 0 and self._kept[at][0] < end <= self._kept[at][1]:
            end, at = self._kept[at][0], at - 1
        return (None, None) if end is not None and first >= end else (first, end)

    def _note_dropped(self, name: str, dropped: Dropped) -> None:
        run = dropped.part.run
        if dropped.rival is None:
            why = f"sound batches dropped: {dropped.reason}; no checksum covers base offsets"
        elif dropped.is_copy:
            why = f"sound batches dropped: {self._holder_name(dropped.rival, run, name)} contains the same batches"
        else:
            holder = self._holder_name(dropped.rival, run, name)
            why = f"sound batches dropped: {holder} contains other batches with these offsets, {dropped.reason}"
        self._report.add(Action.SALVAGED, name, why, offsets=(run.first_offset, run.end_offset), records=run.records,
                         size=run.end - run.start, severity=Severity.WARNING if dropped.is_copy else Severity.ERROR)

    def _note_unproven(self, offsets: tuple[int, int] | None) -> None:
        """Report that the choice between batches with these `offsets` is open."""
        if offsets is not None:
            why = (f"{_UNPROVEN}: compare both with a replica; kafkalog dump-log --continue-on-corruption prints the other "
                   "ones from the files in the quarantine")
            self._report.add(Action.KEPT, "", why, offsets=offsets, severity=Severity.WARNING)

    def _holder_name(self, base: int, run: Run, name: str) -> str:
        """Name of the file that holds the offsets of `run` in the result; `base`: of the file where the rival was found."""
        held = [segment.base for segment in self._segments if segment.parts and segment.base <= run.first_offset]
        holder = log_file_name(held[-1] if held else base)
        return f"another part of {holder}" if holder == name else holder

    def _note_parts(self, name: str, segment: Segment) -> None:
        """Report batches whose base offset was restored, and batches that were moved."""
        end = -1
        for part in segment.parts:
            run = part.run
            offsets, size = (run.first_offset, run.end_offset), run.end - run.start
            if run.restored_from is not None:
                why = (f"its base offset {run.restored_from} does not fit between the batches around it: restored to "
                       f"{run.first_offset}, the only value that fits and differs in one bit")
                self._report.add(Action.SALVAGED, name, why, offsets=offsets, records=run.records, size=size,
                                 severity=Severity.WARNING)
            if part.base != segment.named:
                self._report.add(Action.SALVAGED, name, f"sound batches moved here from {log_file_name(part.base)}, in the "
                                 "order of their offsets", offsets=offsets, records=run.records, size=size,
                                 severity=Severity.WARNING)
            elif run.start < end:
                self._report.add(Action.SALVAGED, name, "sound batches moved into the order of their offsets: they were "
                                 "after batches with higher offsets", offsets=offsets, records=run.records, size=size,
                                 severity=Severity.WARNING)
            else:
                end = run.end
