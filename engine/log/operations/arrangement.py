"""Decide which sound batches belong to a log, and to which segment, from offsets, neighbours and producers. Does no I/O.

A batch whose offsets no other batch holds is kept. If several batches hold the same offsets, those are kept that make the
longest log with the fewest seams. A seam is a place in the log where the next batch comes from another file, or not from the
next bytes of the same file. Batches whose leader epoch leader-epoch-checkpoint contradicts count less. Between equal choices
the sequence numbers of producers decide.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.formats import LONG_MAX
from engine.log.segment.sound_runs import as_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from engine.checkpoint.checkpoints import EpochEntry
    from engine.log.segment.sound_runs import Batch, Run

    Expand = Callable[[int, Run], Iterator[Batch]]


# cost, in offsets, of a seam, a gap, an offset that goes backwards or one below the base offset of its file: signs of damage
_BREAK = 8
_AFTER_END = "their offsets are after the end of the log, and batches with lower offsets follow them"
_BEFORE_START = "their offsets are before the start of the log, and batches with higher offsets precede them"


class Part(NamedTuple):
    """A run of the file of segment `base`, or the part of a run that is kept or dropped as a whole."""

    base: int
    run: Run

    @property
    def size(self) -> int:
        """Number of offsets that it holds."""
        return self.run.end_offset - self.run.first_offset


class Dropped(NamedTuple):
    """Sound batches that are dropped.

    rival    base offset of the file that holds the same offsets; None: no file does
    is_copy  the same batches are kept there
    """

    part: Part
    reason: str
    rival: int | None = None
    is_copy: bool = False


class Segment(NamedTuple):
    """A segment of the result. `base`: its new base offset. `named`: the base offset in the current name of its file.

    parts  ordered by offset
    """

    base: int
    named: int
    parts: list[Part]

    @property
    def first_offset(self) -> int:
        """The first offset of its first batch; its base offset if it has no batch."""
        return self.parts[0].run.first_offset if self.parts else self.base

    @property
    def end_offset(self) -> int:
        """The offset after its last batch."""
        return self.parts[-1].run.end_offset if self.parts else self.base


class Arrangement(NamedTuple):
    """The segments, by base offset, and the dropped batches, in file order."""

    segments: list[Segment]
    dropped: list[Dropped]


def arrange(runs: Mapping[int, Sequence[Run]], expand: Expand, epochs: Sequence[EpochEntry] = ()) -> Arrangement:
    """Arrange the sound runs of files. The keys of `runs` are the base offsets in the names of the files.

    expand  (base, run) → the batches of the run; called only for runs that hold the same offsets as another
    epochs  the entries of leader-epoch-checkpoint, ascending
    """
    parts = sorted((Part(base, run) for base, of_file in runs.items() for run in of_file), key=_by_offset)
    kept: list[Part] = []
    dropped: list[Dropped] = []
    steps = [(Part(base, last), Part(base, run)) for base, of_file in runs.items() for last, run in pairwise(of_file)
             if run.first_offset < last.end_offset]
    backwards, before_those = {after for _, after in steps}, {part for part, _ in steps}
    bases = set(runs)
    for group in _overlapping(parts):
        if len(group) == 1:
            kept += group
        else:
            chains = [chain for part in group
                      for chain in _chains(part, bases, expand, part in backwards, part in before_those)]
            chosen, rest = _decide(_weighed(chains, epochs), _last_of_producers(kept[-1], expand) if kept else None)
            kept += sorted(chosen, key=_by_offset)
            dropped += rest
    _drop_leaps(kept, dropped, sorted(runs))
    return Arrangement(_segments(kept), sorted(dropped, key=lambda one: (one.part.base, one.part.run.start)))


def _by_offset(part: Part) -> tuple[int, int, int]:
    return part.run.first_offset, part.base, part.run.start


def _overlapping(parts: list[Part]) -> Iterator[list[Part]]:
    """Yield groups of parts that overlap in offsets, directly or through other parts."""
    group: list[Part] = []
    end = -1
    for part in parts:
        if group and part.run.first_offset >= end:
            yield group
            group = []
        group.append(part)
        end = max(end, part.run.end_offset)
    if group:
        yield group


# ---- several batches for the same offsets -----------------------------------------------------------


class _Chain(NamedTuple):
    """Consecutive batches of a file, without a gap in their offsets.

    is_entry, is_exit  no sound batch of its run comes directly before it, or after it
    worth              number of its offsets that other chains hold too, without batches whose leader epoch contradicts the
                       checkpoint. Offsets that no other chain holds are kept in any case and do not count
    """

    base: int
    batches: list[Batch]
    is_entry: bool
    is_exit: bool
    worth: int

    @property
    def first_offset(self) -> int:
        return self.batches[0].first_offset

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset


class _Score(NamedTuple):
    """How well a sequence of chains fits a log; higher is better. Compared field by field.

    worth      sum over its chains, less the cost of seams and leader epochs
    offsets    number of offsets that it holds
    sequences  producers whose sequence numbers continue, less producers whose numbers do not
    """

    worth: int = 0
    offsets: int = 0
    sequences: int = 0


def _decide(chains: list[_Chain], before: _Chain | None) -> tuple[list[Part], list[Dropped]]:
    """Return the parts to keep, and the batches to drop. `before`: the chain before all of `chains`."""
    way = _best_way(chains, before)
    on_way = {id(chain) for chain in way}
    others = sorted((chain for chain in chains if id(chain) not in on_way),
                    key=lambda one: (-one.worth, one.first_offset - one.end_offset))
    starts: list[tuple[int, int, _Chain, Batch]] = []  # for each kept batch: first offset, number, its chain, the batch
    kept: list[tuple[int, Batch]] = []
    dropped: list[Dropped] = []
    for chain in (*way, *others):
        for batch in chain.batches:
            rival = _holder(starts, batch)
            if rival is None:
                insort(starts, (batch.first_offset, len(starts), chain, batch), key=lambda one: one[:2])
                kept.append((chain.base, batch))
            else:
                dropped.append(_refused(chain, batch, *rival))
    return _joined(kept), _joined_refusals(dropped)


def _holder(starts: list[tuple[int, int, _Chain, Batch]], batch: Batch) -> tuple[_Chain, Batch] | None:
    """The kept batch that overlaps `batch`, and its chain."""
    at = bisect_right(starts, batch.first_offset, key=lambda one: one[0])
    for _, _, chain, other in starts[max(0, at - 1) : at + 1]:
        if other.first_offset < batch.end_offset and batch.first_offset < other.end_offset:
            return chain, other
    return None


def _chains(part: Part, bases: set[int], expand: Expand, *in_doubt: bool) -> Iterator[_Chain]:
    """Yield the chains of a part, without their worth. A chain ends where another segment begins: a log may continue there.

    in_doubt  (is its first batch, is its last batch) at a point where offsets go backwards in the file: one of both is wrong.
              Not in doubt is what continues the name of the file without a gap
    """
    found: list[list[Batch]] = []
    for batch in expand(part.base, part.run):
        if found and found[-1][-1].end_offset == batch.first_offset and batch.first_offset not in bases - {part.base}:
            found[-1].append(batch)
        else:
            found.append([batch])
    continued = -1 if part.run.start else part.base  # the offset up to which the file has no gap from its beginning on
    for number, batches in enumerate(found):
        is_continued = batches[0].first_offset == continued
        continued = batches[-1].end_offset if is_continued else -1
        before = found[number - 1][-1].end_offset if number else None
        after = found[number + 1][0].first_offset if number + 1 < len(found) else None
        doubts = (in_doubt[0] and not number) + (in_doubt[1] and number + 1 == len(found) and not is_continued)
        cost = _BREAK * (doubts + (batches[0].first_offset < part.base))
        yield _Chain(part.base, batches, before != batches[0].first_offset, after != batches[-1].end_offset, -cost)


def _weighed(chains: list[_Chain], epochs: Sequence[EpochEntry]) -> list[_Chain]:
    """Return the chains with their worth."""
    turns: dict[int, int] = defaultdict(int)
    for chain in chains:
        turns[chain.first_offset] += 1
        turns[chain.end_offset] -= 1
    points = sorted(turns)
    claimed, claims = [0], 0  # for each point: the number of offsets below it that several chains hold
    for point, following in pairwise(points):
        claims += turns[point]
        claimed.append(claimed[-1] + (following - point if claims > 1 else 0))

    def below(offset: int) -> int:
        at = bisect_right(points, offset) - 1
        span = claimed[at + 1] - claimed[at] if at + 1 < len(points) else 0
        return claimed[at] + (min(span, offset - points[at]) if span else 0)

    return [chain._replace(worth=chain.worth + sum(below(batch.end_offset) - below(batch.first_offset)
                                                   for batch in chain.batches if fits_epochs(batch, epochs)))
            for chain in chains]


def fits_epochs(batch: Batch, epochs: Sequence[EpochEntry]) -> bool:
    """Is the leader epoch of `batch` the one in the checkpoint? True if the checkpoint or the batch has none."""
    at = bisect_right(epochs, batch.first_offset, key=lambda entry: entry.start_offset)
    return at == 0 or batch.leader_epoch < 0 or epochs[at - 1].epoch == batch.leader_epoch


def _last_of_producers(part: Part, expand: Expand) -> _Chain:
    """Return a chain that ends like `part`: with the last batch of each producer."""
    last: dict[tuple[int, int], Batch] = {}
    for batch in expand(part.base, part.run):
        producer = (batch.producer_id, batch.producer_epoch)
        last.pop(producer, None)
        last[producer] = batch
    return _Chain(part.base, list(last.values()), is_entry=True, is_exit=True, worth=0)


def _best_way(chains: list[_Chain], before_all: _Chain | None) -> list[_Chain]:
    """Return the sequence of chains with the best score; no two of them hold the same offset."""
    chains = sorted(chains, key=lambda one: (one.end_offset, one.base, one.batches[0].start))
    ends: list[int] = []
    best: list[tuple[_Score, int]] = []  # for each prefix of `chains`: the best score within it, and the last chain there
    scores: list[_Score] = []
    before: list[int] = []
    by_end: dict[int, list[int]] = defaultdict(list)
    for number, chain in enumerate(chains):
        start = bisect_right(ends, chain.first_offset)
        candidates = set(by_end.get(chain.first_offset, ()))
        if start:
            candidates.add(best[start - 1][1])
        score, came_from = _with(_Score(), before_all, chain), -1
        for one in sorted(candidates):
            through = _with(scores[one], chains[one], chain)
            if through > score:
                score, came_from = through, one
        scores.append(score)
        before.append(came_from)
        ends.append(chain.end_offset)
        by_end[chain.end_offset].append(number)
        top = (score, number)
        best.append(top if not best or score > best[-1][0] else best[-1])
    way = []
    at = best[-1][1]
    while at >= 0:
        way.append(chains[at])
        at = before[at]
    return way[::-1]


def _with(score: _Score, last: _Chain | None, chain: _Chain) -> _Score:
    """The score after appending `chain` to a sequence that has `score` and ends with `last`."""
    offsets = chain.end_offset - chain.first_offset
    if last is None:
        return _Score(chain.worth, offsets)
    is_next = last.base == chain.base and last.batches[-1].end == chain.batches[0].start
    breaks = 0 if is_next else (not last.is_exit) + (not chain.is_entry)
    breaks += last.end_offset != chain.first_offset
    breaks += chain.batches[0].leader_epoch < last.batches[-1].leader_epoch
    return _Score(score.worth + chain.worth - breaks * _BREAK, score.offsets + offsets,
                  score.sequences + _continued(last.batches, chain.batches))


def _continued(before: list[Batch], after: list[Batch]) -> int:
    """Number of producers whose sequence number in `after` follows that in `before`, less those whose number does not."""
    last = {(one.producer_id, one.producer_epoch): _last_sequence(one) for one in before if one.base_sequence >= 0}
    first: dict[tuple[int, int], int] = {}
    for one in after:
        if one.base_sequence >= 0:
            first.setdefault((one.producer_id, one.producer_epoch), one.base_sequence)
    return sum(1 if sequence == last[producer] + 1 else -1 for producer, sequence in first.items() if producer in last)


def _last_sequence(batch: Batch) -> int:
    return batch.base_sequence + batch.end_offset - batch.first_offset - 1


def _refused(chain: _Chain, batch: Batch, rival: _Chain, other: Batch) -> Dropped:
    part = Part(chain.base, _as_run(batch))
    if batch.identity == other.identity:
        return Dropped(part, "", rival.base, is_copy=True)
    sizes = rival.end_offset - rival.first_offset, chain.end_offset - chain.first_offset
    evidence = ["in a run of {} without a gap, against {}".format(count_of(sizes[0], "offset"), sizes[1])]
    if batch.leader_epoch != other.leader_epoch:
        evidence.append(f"of leader epoch {other.leader_epoch}, not {batch.leader_epoch}")
    if batch.producer_id != other.producer_id:
        evidence.append(f"of producer {other.producer_id}, not {batch.producer_id}")
    elif batch.producer_epoch != other.producer_epoch:
        evidence.append(f"of epoch {other.producer_epoch} of producer {batch.producer_id}, not {batch.producer_epoch}")
    return Dropped(part, "; ".join(evidence), rival.base)


def _as_run(batch: Batch) -> Run:
    return next(as_runs(iter((batch,))))


def _joined(kept: list[tuple[int, Batch]]) -> list[Part]:
    """Combine kept batches to parts."""
    parts: list[Part] = []
    for base, batch in sorted(kept, key=lambda one: (one[0], one[1].start)):
        parts.append(Part(base, _as_run(batch)))
        _join_last(parts)
    return parts


def _join_last(parts: list[Part]) -> None:
    if len(parts) > 1 and (joined := _join(parts[-2], parts[-1])) is not None:
        parts[-2:] = [joined]


def _join(part: Part, after: Part) -> Part | None:
    run, other = part.run, after.run
    if part.base != after.base or run.end != other.start or run.end_offset != other.first_offset:
        return None
    if run.restored_from is not None or other.restored_from is not None:
        return None
    joined = run._replace(end=other.end, end_offset=other.end_offset, records=run.records + other.records)
    return part._replace(run=joined)


def _joined_refusals(dropped: list[Dropped]) -> list[Dropped]:
    """Combine neighbouring batches that are dropped for the same reason."""
    found: list[Dropped] = []
    for one in sorted(dropped, key=lambda one: (one.part.base, one.part.run.start)):
        last = found[-1] if found else None
        joined = None if last is None else _join(last.part, one.part)
        if last is not None and joined is not None and (last.rival, last.is_copy) == (one.rival, one.is_copy):
            found[-1] = last._replace(part=joined)
        else:
            found.append(one)
    return found


# ---- offsets outside the log ------------------------------------------------------------------------


def _drop_leaps(kept: list[Part], dropped: list[Dropped], names: Sequence[int]) -> None:
    """Move parts of `kept` (sorted by offset) whose base offset must be wrong to `dropped`: at the end or the start of the log.

    No checksum covers base offsets. Batches in the middle of a file whose offsets are higher than all others have a wrong base
    offset if more offsets follow them in the files than are contiguous with theirs, and if the offsets that they should have
    are missing. The same applies to the lowest offsets. `names`: base offsets in the names of the files. Names may be wrong
    too, so files are ordered by their content.
    """
    in_place = _in_place(kept)
    while len(kept) > 1 and (at := _wrong(in_place, kept[::-1])) is not None:
        room = _room(in_place, at)
        last, rest_end = kept[-1], max(part.run.end_offset for part in kept[:-1])
        is_far = last.run.first_offset - rest_end > rest_end - kept[0].run.first_offset
        if room < last.size or not (is_far or room == last.size == last.run.records):
            break
        dropped.append(Dropped(kept.pop(), _AFTER_END))
        del in_place[at]
    while len(kept) > 1 and (at := _wrong(in_place[::-1], kept)) is not None:
        at = len(in_place) - 1 - at
        if _room(in_place, at) < kept[0].size or kept[0].run.first_offset >= min(names):
            break
        dropped.append(Dropped(kept.pop(0), _BEFORE_START))
        del in_place[at]


def _in_place(kept: list[Part]) -> list[Part]:
    """Return `kept` in file order, the files ordered by the first offset of their largest part."""
    largest: dict[int, Part] = {}
    for part in kept:
        if part.base not in largest or part.size > largest[part.base].size:
            largest[part.base] = part
    return sorted(kept, key=lambda part: (largest[part.base].run.first_offset, part.base, part.run.start))


def _wrong(in_place: list[Part], parts: list[Part]) -> int | None:
    """The index of `parts[0]` in `in_place`, if more offsets follow it there than are contiguous with it; else None."""
    at = in_place.index(parts[0])
    return at if sum(part.size for part in in_place[at + 1 :]) > _block(parts) else None


def _room(in_place: list[Part], at: int) -> int:
    """Number of free offsets between the neighbours of a part."""
    before = in_place[at - 1].run.end_offset if at else 0
    return in_place[at + 1].run.first_offset - before if at + 1 < len(in_place) else LONG_MAX


def _block(parts: list[Part]) -> int:
    """Number of offsets that are contiguous with those of the first part, in either direction."""
    count = parts[0].size
    for one, other in pairwise(parts):
        if one.run.end_offset != other.run.first_offset and other.run.end_offset != one.run.first_offset:
            break
        count += other.size
    return count


# ---- segments ---------------------------------------------------------------------------------------


def _segments(kept: list[Part]) -> list[Segment]:
    """Assign the kept parts to files. A file keeps its name if the name fits its batches, and receives parts moved to it.

    A name that does not fit its own batches is given to a file that it fits: compacted segments begin before their first batch.
    """
    largest: dict[int, int] = {}  # by name of the file: index of its largest part; the other parts may have been moved
    for number, part in enumerate(kept):
        if part.base not in largest or part.size > kept[largest[part.base]].size:
            largest[part.base] = number
    files: list[tuple[int, int, int, int]] = []  # per file: its name, lowest and highest fitting name, first offset
    end = 0
    for named, first in sorted(largest.items(), key=lambda item: item[1]):
        number = first
        while number and kept[number - 1].base == named:
            number -= 1
        files.append((named, end, kept[first].run.first_offset, kept[number].run.first_offset))
        end = kept[first].run.end_offset
    free = sorted(named for named, start, first, _ in files if not start <= named <= first)
    bases: list[tuple[int, int]] = []
    for named, start, first, own in files:
        at = bisect_right(free, first)
        if start <= named <= first:
            bases.append((named, named))
        elif at and start <= free[at - 1]:  # the names of two files were exchanged
            bases.append((free.pop(at - 1), named))
        else:
            bases.append((own, named))
    segments: list[Segment] = []
    at = 0
    for number, (base, named) in enumerate(bases):
        following = bases[number + 1][0] if number + 1 < len(bases) else None
        parts = []
        while at < len(kept) and (following is None or kept[at].run.first_offset < following):
            parts.append(kept[at])
            at += 1
        if parts:
            first, last = parts[0].run.first_offset, segments[-1].end_offset if segments else 0
            segments.append(Segment(base if last <= base <= first else first, named, parts))
    return segments
