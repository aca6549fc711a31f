"""Decide which sound batches belong to a log, and to which segment, from offsets, neighbours and producers. Does no I/O.

A batch whose offsets no other batch holds is kept. If several batches hold the same offsets, `contested` decides.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from engine.formats import LONG_MAX
from engine.log.operations.chains import NO_WITNESSES, Surroundings
from engine.log.operations.contested import Dropped, Part, decide

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine.log.operations.chains import Witnesses
    from engine.log.operations.contested import Expand
    from engine.log.segment.sound_runs import Run

_AFTER_END = "their offsets are after the end of the log, and batches with lower offsets follow them"
_BEFORE_START = "their offsets are before the start of the log, and batches with higher offsets precede them"


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


def arrange(runs: Mapping[int, Sequence[Run]], expand: Expand, witnesses: Witnesses = NO_WITNESSES) -> Arrangement:
    """Arrange the sound runs of files. The keys of `runs` are the base offsets in the names of the files.

    expand  (base, run) → the batches of the run; called only for runs that hold the same offsets as another, and the run before
    """
    parts = sorted((Part(base, run) for base, of_file in runs.items() for run in of_file), key=_by_offset)
    kept: list[Part] = []
    dropped: list[Dropped] = []
    around = Surroundings.of(runs) if parts else None
    groups = [*_overlapping(parts), []]
    for group, after in pairwise(groups):
        if len(group) == 1 or around is None:
            kept += group
        else:
            chosen, rest = decide(group, kept[-1] if kept else None, after[0] if after else None, expand, around, witnesses)
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


# ---- offsets outside the log ------------------------------------------------------------------------


def _drop_leaps(kept: list[Part], dropped: list[Dropped], names: Sequence[int]) -> None:
    """Move parts of `kept` (sorted by offset) whose base offset must be wrong to `dropped`: at the end or the start of the log.

    No checksum covers base offsets. Batches in the middle of a file whose offsets are higher than all others have a wrong base
    offset if more offsets follow them in the files than are contiguous with theirs, and if the offsets that they should have
    are missing. The same applies to the lowest offsets. `names`: base offsets in the names of the files. Names may be wrong
    too, so files are ordered by their content; but the batches at the start of a file with their offset in its name are right.
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
    """The index of `parts[0]` in `in_place`, if more offsets follow it there than are contiguous with it; else None.

    None, too, if one of the contiguous parts begins a file of its name.
    """
    at = in_place.index(parts[0])
    block = _block(parts)
    is_right = any(part.run.start == 0 and part.run.first_offset == part.base for part in block)
    return at if not is_right and sum(part.size for part in in_place[at + 1 :]) > sum(part.size for part in block) else None


def _room(in_place: list[Part], at: int) -> int:
    """Number of free offsets between the neighbours of a part."""
    before = in_place[at - 1].run.end_offset if at else 0
    return in_place[at + 1].run.first_offset - before if at + 1 < len(in_place) else LONG_MAX


def _block(parts: list[Part]) -> list[Part]:
    """The first part and those whose offsets are contiguous with its offsets, in either direction."""
    block = parts[:1]
    for one, other in pairwise(parts):
        if one.run.end_offset != other.run.first_offset and other.run.end_offset != one.run.first_offset:
            break
        block.append(other)
    return block


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
