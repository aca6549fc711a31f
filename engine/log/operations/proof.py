"""What proves that one of two sound batches with the same offsets belongs to the log, and the other does not. Does no I/O.

`contested` chooses by cost, and there is always a cheapest sequence. These facts prove that its choice is right:
- other files say more against the other batch, or its offsets belong to another file
- the leader epochs, or the sequence numbers of the same producer, continue those of the batches around only in one of them
- the batches around are of its producer, and none is of the producer of the other batch. Batches that only continue the batch
  itself do not count, unless there are many of them.
- it is between many more batches in its file, and next to them on at least as many sides
- where the other batch is in its file, as many offsets are missing as it has
If a fact is against the choice, or there is none, nothing is proven.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from engine.formats import NO_SEQUENCE
from engine.record.control import increment_sequence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.log.operations.chains import Chain, Surroundings, Witnesses
    from engine.log.segment.sound_runs import Batch

    RunKey = tuple[int, int]
    Sequenced = tuple[int, int, int]  # producer id, epoch, sequence number

_MANY = 16  # uncontested batches that continue a batch: so many are evidence
_TIMES = 4  # and so many times as many as the other run has


class Proof:
    """The facts about the batches of a group that overlaps in offsets.

    beside  batches of the log before and after the group, with the base offsets of their files
    """

    def __init__(
        self, chains: Sequence[Chain], beside: Sequence[tuple[int, Batch]], around: Surroundings, witnesses: Witnesses, *,
        is_sparse: bool,
    ) -> None:
        self._witnesses = witnesses
        certain = [(chain.run, batch) for chain in chains if not chain.is_contested for batch in chain.batches]
        self._in_run = Counter(run for run, _ in certain)
        certain += [((-1, -1), batch) for _, batch in beside]
        in_files = [(chain.base, batch) for chain in chains if not chain.is_contested for batch in chain.batches] + [*beside]
        self._starts = {(base, batch.start): batch.first_offset for base, batch in in_files}
        self._ends = {(base, batch.end): batch.end_offset for base, batch in in_files}
        self._certain = sorted((batch for _, batch in certain), key=lambda one: one.first_offset)
        self._of_producer: dict[int, Counter[RunKey]] = defaultdict(Counter)
        for run, batch in certain:
            self._of_producer[batch.producer_id][run] += 1
        contested = [batch for chain in chains if chain.is_contested for batch in chain.batches]
        self._continuing = _continuing(self._certain, contested)
        self._sides = _sides(chains, around.names, is_sparse=is_sparse)

    def of(self, chain: Chain, batch: Batch, rival: Chain, other: Batch) -> list[str]:
        """What proves that `other` of `rival` belongs to the log, and `batch` of `chain` does not, in words."""
        found = self._witnesses.against(chain.base, batch)
        if len(found) <= len(self._witnesses.against(rival.base, other)):
            found = []
        if rival.in_range and not chain.in_range:
            found.append("in the segment to which these offsets belong")
        if self._fits_epochs(other) and not self._fits_epochs(batch):
            found.append(f"whose leader epoch {other.leader_epoch} is that of the batches around, not {batch.leader_epoch}")
        producer = other.producer_id
        is_same = (batch.producer_id, batch.producer_epoch) == (producer, other.producer_epoch)
        if is_same and self._continues(other) and not self._continues(batch):
            found.append(f"which continue the sequence numbers of producer {producer}")
        if self._is_producer_around(rival, producer) and not self._of_producer.get(batch.producer_id):
            found.append("as the batches around" if producer < 0 else f"of producer {producer}, as batches around")
        if self._is_in_longer_run(rival, chain):
            found.append("in place between many more batches")
        if self._leaves_its_place(chain.base, batch, other if rival.base == chain.base else None):
            found.append("and where the dropped ones are in their file, as many offsets are missing")
        return found

    def _leaves_its_place(self, base: int, batch: Batch, other: Batch | None) -> bool:
        """Are as many offsets missing as `batch` has, between the batches around it in its file (`other` may be one)?"""
        first, end = self._ends.get((base, batch.start)), self._starts.get((base, batch.end))
        if other is not None and other.end == batch.start:
            first = other.end_offset
        if other is not None and other.start == batch.end:
            end = other.first_offset
        size = batch.end_offset - batch.first_offset
        return first is not None and end is not None and end - first == size and first != batch.first_offset

    def _fits_epochs(self, batch: Batch) -> bool:
        """Is the leader epoch between those of the batches before and after it?"""
        at = bisect_left(self._certain, batch.end_offset, key=lambda one: one.first_offset)
        following = self._certain[at : at + 1]
        before = [one for one in self._certain[max(0, at - 1) : at] if one.end_offset <= batch.first_offset]
        return batch.leader_epoch < 0 or (all(one.leader_epoch <= batch.leader_epoch for one in before)
                                          and all(batch.leader_epoch <= one.leader_epoch for one in following))

    def _continues(self, batch: Batch) -> bool:
        return (batch.start, batch.first_offset, batch.crc) in self._continuing

    def _is_producer_around(self, chain: Chain, producer: int) -> bool:
        known = self._of_producer.get(producer, Counter())
        return known.total() > known[chain.run] or known[chain.run] >= _MANY

    def _is_in_longer_run(self, rival: Chain, chain: Chain) -> bool:
        is_longer = self._in_run[rival.run] >= max(_MANY, _TIMES * chain.length)
        return is_longer and self._sides[id(rival)] >= self._sides[id(chain)]


def _continuing(certain: Sequence[Batch], contested: Sequence[Batch]) -> set[tuple[int, int, int]]:
    """The contested batches, by start, first offset and CRC, whose sequence numbers lead to those of a certain batch.

    Each of the batches between continues the one before it, and nothing is missing.
    """
    following: dict[Sequenced, list[Batch]] = defaultdict(list)
    preceding: dict[Sequenced, list[Batch]] = defaultdict(list)
    for batch in (*certain, *contested):
        if batch.base_sequence != NO_SEQUENCE:
            following[_begin(batch)].append(batch)
            preceding[_end(batch)].append(batch)
    found = {id(batch) for batch in certain}
    waiting = [batch for batch in certain if batch.base_sequence != NO_SEQUENCE]
    while waiting:
        batch = waiting.pop()
        beside = [one for one in following[_end(batch)] if one.first_offset >= batch.end_offset]
        beside += [one for one in preceding[_begin(batch)] if one.end_offset <= batch.first_offset]
        for one in beside:
            if id(one) not in found:
                found.add(id(one))
                waiting.append(one)
    return {(batch.start, batch.first_offset, batch.crc) for batch in contested if id(batch) in found}


def _begin(batch: Batch) -> Sequenced:
    return batch.producer_id, batch.producer_epoch, batch.base_sequence


def _end(batch: Batch) -> Sequenced:
    following = increment_sequence(batch.base_sequence, batch.end_offset - batch.first_offset)
    return batch.producer_id, batch.producer_epoch, following


def _sides(chains: Sequence[Chain], names: Sequence[int], *, is_sparse: bool) -> dict[int, int]:
    """By id of a chain: on how many sides uncontested batches, or the borders of segments, are next to it in its file.

    Contested chains that continue each other are one block.
    """
    found: dict[int, int] = {}
    for block in _blocks(chains, is_sparse=is_sparse):
        groups = [(is_contested, list(group)) for is_contested, group in groupby(block, key=lambda chain: chain.is_contested)]
        for number, (is_contested, group) in enumerate(groups):
            is_after = number > 0 or _is_in(names, group[0].first_offset)
            is_before = number + 1 < len(groups) or _is_in(names, group[-1].end_offset)
            if is_contested:
                found |= {id(chain): is_after + is_before for chain in group}
    return found


def _blocks(chains: Sequence[Chain], *, is_sparse: bool) -> Iterator[list[Chain]]:
    """Yield chains that follow each other in a file, without a gap in their offsets unless the log is sparse."""
    ordered = sorted(chains, key=lambda one: (one.base, one.batches[0].start))
    block = ordered[:1]
    for one, other in pairwise(ordered):
        is_next = one.run == other.run and (is_sparse or one.end_offset == other.first_offset)
        if not is_next:
            yield block
            block = []
        block.append(other)
    if block:
        yield block


def _is_in(names: Sequence[int], offset: int) -> bool:
    at = bisect_left(names, offset)
    return at < len(names) and names[at] == offset
