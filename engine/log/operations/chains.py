"""Chains of sound batches that continue each other in a file, what is around them, and what other files say. Does no I/O."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.formats import LONG_MAX, NO_SEQUENCE
from engine.record.control import increment_sequence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.log.segment.sound_runs import Batch, Run

    Producer = tuple[int, int]  # id, epoch

FORCED = 1 << 62  # gain of what no other batch contests: any way includes it


class Witnesses(Protocol):
    """What other files say about batches."""

    def ask(self, batches: Iterable[Batch]) -> None:
        """Read what `against` needs for these batches."""

    def against(self, base: int, batch: Batch) -> list[str]:
        """Evidence that a batch in the file of segment `base` does not belong to the log, in words."""


class _NoWitnesses:
    """There are no other files."""

    def ask(self, batches: Iterable[Batch]) -> None:
        pass

    def against(self, _base: int, _batch: Batch) -> list[str]:
        return []


NO_WITNESSES: Witnesses = _NoWitnesses()


class Surroundings(NamedTuple):
    """Which sound batches begin and end where in the files.

    starts, ends  of runs: (base offset of the file, byte position)
    names         base offsets in the names of the files that do not begin with a lower offset, ascending
    log_start     the lowest base offset
    """

    starts: frozenset[tuple[int, int]]
    ends: frozenset[tuple[int, int]]
    names: Sequence[int]
    log_start: int

    @classmethod
    def of(cls, runs: Mapping[int, Sequence[Run]]) -> Surroundings:
        """Those of all sound runs, by the base offset in the name of the file."""
        return cls(frozenset((base, run.start) for base, of_file in runs.items() for run in of_file),
                   frozenset((base, run.end) for base, of_file in runs.items() for run in of_file),
                   sorted(base for base, of_file in runs.items() if of_file and of_file[0].first_offset >= base), min(runs))

    def range_of(self, base: int) -> tuple[int, int]:
        """The offsets that belong to a file according to names, the end exclusive."""
        at = bisect_right(self.names, base)
        return base, self.names[at] if at < len(self.names) else LONG_MAX


class Chain:
    """Consecutive batches of a file, without a gap in their offsets, which are kept or dropped as a whole.

    is_entry, is_exit  no sound batch is at the bytes directly before it, or after it
    gain               what keeping it gains, without the cost of its neighbours
    likeness           −1: one of its producers has no batch around; else 0
    unusual            how far the sizes of its batches are from those of the log, in powers of two
    length             number of batches of the run that it is from: these continue each other in the file
    is_overruled       does a longer run hold its offsets, or one of the same length that is before it in the file?
    in_range           do its offsets belong to its file, according to the names of the files?
    firsts, lasts      by producer: the first sequence number, and the one after the last
    run                base offset of the file and byte position of the run that it is from
    """

    __slots__ = ("base", "batches", "firsts", "gain", "in_range", "is_entry", "is_exit", "is_overruled", "lasts", "length",
                 "likeness", "run", "unusual")

    def __init__(
        self, base: int, batches: list[Batch], length: int = 0, around: Surroundings | None = None, run_start: int = -1
    ) -> None:
        self.base, self.batches = base, batches
        self.gain = self.likeness = self.unusual = 0
        self.length, self.is_overruled = length, False
        self.run = base, run_start
        start, end = (0, LONG_MAX) if around is None else around.range_of(base)
        self.in_range = start <= batches[0].first_offset < end
        self.firsts: dict[Producer, int] = {}
        self.lasts: dict[Producer, int] = {}
        self.is_entry = around is None or (base, batches[0].start) not in around.ends
        self.is_exit = around is None or (base, batches[-1].end) not in around.starts
        for batch in batches:
            if batch.base_sequence != NO_SEQUENCE:
                producer = batch.producer_id, batch.producer_epoch
                self.firsts.setdefault(producer, batch.base_sequence)
                self.lasts[producer] = increment_sequence(batch.base_sequence, batch.end_offset - batch.first_offset)

    @property
    def is_contested(self) -> bool:
        """Does another chain hold some of its offsets? Known as soon as `gain` is."""
        return self.gain != FORCED

    @property
    def first_offset(self) -> int:
        """The first offset of its first batch."""
        return self.batches[0].first_offset

    @property
    def end_offset(self) -> int:
        """The offset after its last batch."""
        return self.batches[-1].end_offset
