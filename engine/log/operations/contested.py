"""Decide between sound batches that hold the same offsets: which of them belong to the log. Does no I/O.

The log is the sequence of batches with the lowest cost. These cost, the most expensive first:
- what other files say against a batch (`Witnesses`), and sequence numbers of a producer that do not continue: more of them are
  missing than offsets;
- offsets that are missing between two batches, and a codec that no batch around has;
- a seam: a place where the next batch of the log is not at the next bytes of the same file, or in another file.
Missing offsets cost nothing in a log in which many batches do not continue each other, as after compaction.

The position in the file alone costs nothing: of two equal copies one after the other, both leave a seam. Between equal costs,
these decide, in this order: the producers of the batches around; the usual number of offsets of a batch of this log, so that
one huge batch does not win by its size; the longest run of batches that continue each other in a file, and of equal ones the
first; the number of batches, then of offsets; the names of the files.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import offsets_text
from engine.formats import INT_MAX, Codec
from engine.log.operations.chains import FORCED, Chain
from engine.log.operations.proof import Proof
from engine.log.segment.sound_runs import as_runs, follows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from engine.log.operations.chains import Surroundings, Witnesses
    from engine.log.segment.sound_runs import Batch, Run

    Expand = Callable[[int, Run], Iterator[Batch]]

_SEAM = 8  # cost, in offsets
_GAP = 2 * _SEAM + 1  # and that of its offsets
_MOST_MISSING = 2 * _SEAM  # in one gap, that count
_DOUBT = 3 * _SEAM
_UNLIKE = 2 * _SEAM + 1
_LIKE = 3  # powers of two: batches of this log have up to eight times as many offsets, or as few, as those known to be its own
_FEW = 8  # batches around: fewer do not show which codecs the log has
_LOOKED_BACK = 8  # chains, for the last batch of a producer
_NEXT = 16  # batches after the chains, for what they have in common with them
_SPARSE = 4  # if one of so many pairs of neighbours has missing offsets between (and there are two such), these do not count


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
    is_proven  something proves that the batches kept there are the right ones (`proof`)
    """

    part: Part
    reason: str
    rival: int | None = None
    is_copy: bool = False
    is_proven: bool = True


class _Score(NamedTuple):
    """How well a sequence of chains fits a log; higher is better. Compared field by field.

    gain      what is kept, less all costs
    likeness  sum over its chains, and of producers whose sequence numbers continue
    usual     sum of `unusual`, negative
    ruling    number of batches in chains that are overruled, negative
    batches   number of batches
    offsets   number of offsets that it holds
    in_range  number of its chains that belong to their files
    """

    gain: int = 0
    likeness: int = 0
    usual: int = 0
    ruling: int = 0
    batches: int = 0
    offsets: int = 0
    in_range: int = 0


def decide(
    group: Sequence[Part], before: Part | None, after: Part | None, expand: Expand, around: Surroundings, witnesses: Witnesses
) -> tuple[list[Part], list[Dropped]]:
    """Return the parts of a `group` that overlaps in offsets which are kept, and the batches to drop.

    before, after  the parts of lower and higher offsets next to the group
    """
    last = None if before is None else _last_of_producers(before, expand)
    chains = _cut([chain for part in group for chain in _chains(part, expand)], around)
    _weigh(chains, last, witnesses)
    _note_overruled(chains)
    is_sparse = _is_sparse(chains)
    way = _best_way(chains, last, after, around.log_start, is_sparse=is_sparse)
    on_way = {id(chain) for chain in way}
    others = sorted((chain for chain in chains if id(chain) not in on_way),
                    key=lambda one: (-one.gain, one.first_offset - one.end_offset))
    starts: list[tuple[int, int, Chain, Batch]] = []  # for each kept batch: first offset, number, its chain, the batch
    kept: list[tuple[int, Batch]] = []
    refused: list[tuple[Chain, Batch, Chain, Batch]] = []
    for chain in (*way, *others):
        for batch in chain.batches:
            rival = _holder(starts, batch)
            if rival is None:
                insort(starts, (batch.first_offset, len(starts), chain, batch), key=lambda one: one[:2])
                kept.append((chain.base, batch))
            else:
                refused.append((chain, batch, *rival))
    in_order = _Kept([one[3] for one in starts])
    beside = [] if last is None else [(last.base, batch) for batch in last.batches]
    beside += [] if after is None else [(after.base, batch) for batch in islice(expand(after.base, after.run), _NEXT)]
    proof = Proof(chains, beside, around, witnesses, is_sparse=is_sparse)
    return _joined(kept), _joined_refusals([_refused(*one, proof, in_order) for one in refused])


def _holder(starts: list[tuple[int, int, Chain, Batch]], batch: Batch) -> tuple[Chain, Batch] | None:
    """The kept batch that overlaps `batch`, and its chain."""
    at = bisect_right(starts, batch.first_offset, key=lambda one: one[0])
    for _, _, chain, other in starts[max(0, at - 1) : at + 1]:
        if other.first_offset < batch.end_offset and batch.first_offset < other.end_offset:
            return chain, other
    return None


def _chains(part: Part, expand: Expand) -> Iterator[Chain]:
    """The chains of a part, as long as possible."""
    found: list[list[Batch]] = []
    for batch in expand(part.base, part.run):
        if found and found[-1][-1].end_offset == batch.first_offset:
            found[-1].append(batch)
        else:
            found.append([batch])
    return (Chain(part.base, batches, sum(map(len, found)), run_start=part.run.start) for batches in found)


def _cut(chains: list[Chain], around: Surroundings) -> list[Chain]:
    """Cut the chains where another one, or a file, begins or ends: at these places a log may continue in another one."""
    points = sorted({offset for one in chains for offset in (one.first_offset, one.end_offset)} | set(around.names))
    pieces: list[tuple[Chain, list[Batch]]] = []
    for chain in chains:
        piece: list[Batch] = []
        for batch in chain.batches:
            at = bisect_left(points, batch.first_offset)
            is_first = at < len(points) and points[at] < batch.end_offset  # a point in the batch, or where it begins
            ends_inside = bisect_right(points, batch.first_offset) < bisect_left(points, batch.end_offset)
            if piece and is_first:
                pieces.append((chain, piece))
                piece = []
            piece.append(batch)
            if ends_inside:
                pieces.append((chain, piece))
                piece = []
        if piece:
            pieces.append((chain, piece))
    inner = around._replace(starts=around.starts | {(chain.base, piece[0].start) for chain, piece in pieces},
                            ends=around.ends | {(chain.base, piece[-1].end) for chain, piece in pieces})
    return [Chain(chain.base, piece, chain.length, inner, chain.run[1]) for chain, piece in pieces]


def _last_of_producers(part: Part, expand: Expand) -> Chain:
    """Return a chain that ends like `part`: with the last batch of each producer."""
    last: dict[tuple[int, int], Batch] = {}  # by producer id and epoch
    for batch in expand(part.base, part.run):
        producer = (batch.producer_id, batch.producer_epoch)
        last.pop(producer, None)
        last[producer] = batch
    return Chain(part.base, list(last.values()))


# ---- what speaks for and against a chain ------------------------------------------------------------


def _is_sparse(chains: list[Chain]) -> bool:
    """Do many batches not continue the one before them in the file? Those of unusual size do not count."""
    usual = (chain for chain in sorted(chains, key=lambda one: (one.base, one.batches[0].start)) if not chain.unusual)
    in_order = [(one, other) for one, other in pairwise(usual)
                if one.base == other.base and one.end_offset <= other.first_offset]
    gaps = sum(one.end_offset < other.first_offset for one, other in in_order)
    pairs = len(in_order) + sum(len(chain.batches) - 1 for chain in chains if not chain.unusual)
    is_open = any(chain.unusual for chain in chains)  # such a batch is no evidence that its offsets were written
    return gaps > (not is_open) and gaps * _SPARSE >= pairs


def _weigh(chains: list[Chain], before: Chain | None, witnesses: Witnesses) -> None:
    """Set the gain, the likeness and `unusual` of each chain."""
    ordered = sorted(chains, key=lambda one: (one.first_offset, one.end_offset))
    contested: set[int] = set()
    furthest: Chain | None = None
    for chain in ordered:
        if furthest is not None and chain.first_offset < furthest.end_offset:
            contested |= {id(chain), id(furthest)}
        if furthest is None or chain.end_offset > furthest.end_offset:
            furthest = chain
    witnesses.ask(batch for chain in chains if id(chain) in contested for batch in chain.batches)
    beside = [batch for chain in chains if id(chain) not in contested for batch in chain.batches]
    near = [*beside, *(before.batches if before is not None else ())]
    codecs = {batch.codec for batch in beside} if len(beside) >= _FEW else set()
    producers = {batch.producer_id for batch in near}
    longest = max(chain.length for chain in chains)
    sizes = {_magnitude(batch) for batch in near or (
        batch for chain in chains if chain.length == longest for batch in chain.batches)}
    lowest, highest = min(sizes), max(sizes)
    for chain in chains:
        if id(chain) not in contested:
            chain.gain = FORCED
            continue
        chain.gain = -_SEAM * (chain.first_offset < chain.base)
        for batch in chain.batches:
            chain.gain -= _DOUBT * len(witnesses.against(chain.base, batch))
            chain.gain -= _UNLIKE if codecs and batch.codec not in codecs else 0
        chain.likeness = -any(batch.producer_id not in producers for batch in chain.batches) if near else 0
        of_batches = map(_magnitude, chain.batches)
        chain.unusual = sum(max(0, lowest - _LIKE - size, size - highest - _LIKE) for size in of_batches)


def _magnitude(batch: Batch) -> int:
    """The number of offsets of a batch, as a power of two."""
    return (batch.end_offset - batch.first_offset).bit_length()


def _note_overruled(chains: list[Chain]) -> None:
    """Set `is_overruled` of each chain."""
    held: list[tuple[int, int]] = []  # offsets of chains that are not, ascending
    for chain in sorted(chains, key=lambda one: (-one.length, one.base, one.batches[0].start)):
        at = bisect_left(held, (chain.end_offset,))
        chain.is_overruled = at > 0 and held[at - 1][1] > chain.first_offset
        if not chain.is_overruled:
            held.insert(at, (chain.first_offset, chain.end_offset))


# ---- the best sequence ------------------------------------------------------------------------------


class _Ways:
    """The best sequence of chains up to each of `chains`, which are sorted by their end."""

    def __init__(self, chains: list[Chain], before_all: Chain | None, start: int, *, is_sparse: bool) -> None:
        """`start`: the offset at which the log should begin, if nothing precedes the chains."""
        self._chains, self._before_all, self._start, self._is_sparse = chains, before_all, start, is_sparse
        self._scores: list[_Score] = []
        self._before: list[int] = []

    def add(self, candidates: Iterable[int]) -> _Score:
        """Add the next chain, which may follow one of `candidates`, or none of the chains."""
        chain = self._chains[len(self._scores)]
        score, came_from = self._with(_Score(), -1, chain), -1
        for one in candidates:
            through = self._with(self._scores[one], one, chain)
            if through > score:
                score, came_from = through, one
        self._scores.append(score)
        self._before.append(came_from)
        return score

    def closed(self, number: int, after: Part | None) -> _Score:
        """The score of the way to chain `number`, with what follows it."""
        score, chain = self._scores[number], self._chains[number]
        is_next = after is not None and after.base == chain.base and after.run.start == chain.batches[-1].end
        cost = 0 if is_next or chain.is_exit else _SEAM
        if after is not None:
            cost += self._gap(after.run.first_offset - chain.end_offset)
        return score._replace(gain=score.gain - cost)

    def way(self, number: int) -> list[Chain]:
        """The chains up to chain `number`."""
        return [self._chains[at] for at in self._back(number)][::-1]

    def _back(self, number: int) -> Iterator[int]:
        while number >= 0:
            yield number
            number = self._before[number]

    def _with(self, score: _Score, number: int, chain: Chain) -> _Score:
        """The score after appending `chain` to the way to chain `number` (−1: to what precedes all), which has `score`."""
        last = self._before_all if number < 0 else self._chains[number]
        offsets, likeness, cost = chain.end_offset - chain.first_offset, chain.likeness, 0
        is_next = last is not None and last.base == chain.base and last.batches[-1].end == chain.batches[0].start
        if not is_next:
            cost += 0 if chain.is_entry and (last is None or last.is_exit) else _SEAM
        cost += self._gap(chain.first_offset - (self._start if last is None else last.end_offset))
        if last is not None:
            cost += _SEAM * (chain.batches[0].leader_epoch < last.batches[-1].leader_epoch)
            continued, broken = self._sequences(number, chain)
            likeness += continued
            cost += _DOUBT * min(broken, 2)
        return _Score(score.gain + chain.gain - cost, score.likeness + likeness, score.usual - chain.unusual,
                      score.ruling - len(chain.batches) * chain.is_overruled,
                      score.batches + len(chain.batches), score.offsets + offsets,
                      score.in_range + chain.in_range)

    def _gap(self, missing: int) -> int:
        """The cost of `missing` offsets."""
        return _GAP + min(missing, _MOST_MISSING) if missing > 0 and not self._is_sparse else 0

    def _sequences(self, number: int, chain: Chain) -> tuple[int, int]:
        """Number of producers whose sequence numbers in `chain` follow those before it, and of those whose do not."""
        continued = broken = held = 0
        left = dict(chain.firsts)
        before = [self._chains[at] for at in islice(self._back(number), _LOOKED_BACK)] if left else []
        if left and len(before) < _LOOKED_BACK and self._before_all is not None:
            before.append(self._before_all)
        for one in before:
            for producer in left.keys() & one.lasts.keys():
                sequence = left.pop(producer)
                is_next = sequence == one.lasts[producer]
                missing = chain.first_offset - one.end_offset - held
                is_later = 0 < (sequence - one.lasts[producer]) & INT_MAX <= missing
                is_broken = not is_next and not is_later and sequence > 0  # see `follows`
                continued, broken = continued + is_next, broken + is_broken
            held += one.end_offset - one.first_offset
        return continued, broken


def _best_way(
    chains: list[Chain], before_all: Chain | None, after: Part | None, start: int, *, is_sparse: bool
) -> list[Chain]:
    """Return the sequence of chains with the best score; no two of them hold the same offset."""
    chains = sorted(chains, key=lambda one: (one.end_offset, one.base, one.batches[0].start))
    ways = _Ways(chains, before_all, start, is_sparse=is_sparse)
    ends: list[int] = []
    best: list[tuple[_Score, int]] = []  # for each prefix of `chains`: the best score within it, and the last chain there
    by_end: dict[int, list[int]] = defaultdict(list)
    by_position: dict[tuple[int, int], int] = {}  # by file, and where the chain ends in it
    for number, chain in enumerate(chains):
        prefix = bisect_right(ends, chain.first_offset)
        candidates = set(by_end.get(chain.first_offset, ()))
        next_to = by_position.get((chain.base, chain.batches[0].start), prefix)
        if next_to < prefix:
            candidates.add(next_to)
        if prefix:
            candidates.add(best[prefix - 1][1])
        score = ways.add(sorted(candidates))
        ends.append(chain.end_offset)
        by_end[chain.end_offset].append(number)
        by_position[chain.base, chain.batches[-1].end] = number
        best.append((score, number) if not best or score > best[-1][0] else best[-1])
    first = max(chain.first_offset for chain in chains)
    last = max((number for number, end in enumerate(ends) if end > first),
               key=lambda number: (ways.closed(number, after), -number))
    return ways.way(last)


# ---- what is dropped --------------------------------------------------------------------------------


class _Kept:
    """The batches that are kept, in the order of their offsets."""

    def __init__(self, batches: list[Batch]) -> None:
        self._batches = batches

    def around(self, offset: int) -> Batch | None:
        """The batch in which `offset` is, but not its first one."""
        at = bisect_left(self._batches, offset, key=lambda one: one.first_offset) - 1
        return self._batches[at] if at >= 0 and offset < self._batches[at].end_offset else None

    def continues(self, batch: Batch) -> bool:
        """Does the sequence number of a batch follow that of the batch before it, or the one after it that of the batch?"""
        at = bisect_left(self._batches, batch.first_offset, key=lambda one: one.first_offset)
        return any(follows(one, other) for one, other in pairwise(self._batches[max(0, at - 1) : at + 2]))


def _refused(chain: Chain, batch: Batch, rival: Chain, other: Batch, proof: Proof, kept: _Kept) -> tuple[Dropped, int]:
    """`batch` of `chain` as dropped, because `other` of `rival` holds the same offset.

    Returns a number, too: 1 if that is proven, −1 if something proves the opposite, 0 if nothing is proven.
    """
    part = Part(chain.base, _as_run(batch))
    if batch.identity == other.identity:
        return Dropped(part, "", rival.base, is_copy=True), 1
    why = proof.of(chain, batch, rival, other)
    verdict = -1 if proof.of(rival, other, chain, batch) else int(bool(why))
    if verdict < 1:
        why = ["and nothing proves which of them belong to the log: the dropped ones may be the right ones"]
    why += [how for how in _compared(chain, batch, rival, other, kept) if how not in why]
    return Dropped(part, "; ".join(why), rival.base, is_proven=verdict > 0), verdict


def _compared(chain: Chain, batch: Batch, rival: Chain, other: Batch, kept: _Kept) -> Iterator[str]:
    """How the kept batch `other` of `rival` differs from `batch` of `chain`, and what kept batches lead to."""
    if (one := kept.around(chain.end_offset)) is not None:
        yield f"without which {offsets_text(chain.end_offset, one.end_offset)} would be missing"
    if (one := kept.around(chain.first_offset)) is not None:
        yield f"without which {offsets_text(one.first_offset, chain.first_offset)} would be missing"
    if kept.continues(other):
        yield f"which continue the sequence numbers of producer {other.producer_id}"
    if batch.leader_epoch != other.leader_epoch:
        yield f"of leader epoch {other.leader_epoch}, not {batch.leader_epoch}"
    if batch.producer_id != other.producer_id:
        yield f"of producer {other.producer_id}, not {batch.producer_id}"
    elif batch.producer_epoch != other.producer_epoch:
        yield f"of epoch {other.producer_epoch} of producer {batch.producer_id}, not {batch.producer_epoch}"
    if batch.codec != other.codec:
        yield f"compressed with {_codec_name(other)}, not {_codec_name(batch)}"
    if chain.unusual > rival.unusual:
        yield "with the usual number of offsets of a batch of this log"
    if rival.length > chain.length:
        yield f"in a run of {rival.length} batches, not {chain.length}"


def _codec_name(batch: Batch) -> str:
    return next((codec.name.lower() for codec in Codec if codec == batch.codec), str(batch.codec))


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


def _joined_refusals(refused: list[tuple[Dropped, int]]) -> list[Dropped]:
    """Combine batches that are dropped for other batches of the same file, and continue each other in their own file.

    What is proven of some of them is proven of all, unless something proves the opposite of one.
    """
    groups: list[list[tuple[Dropped, int]]] = []
    parts: list[Part] = []
    for dropped, verdict in sorted(refused, key=lambda one: (one[0].part.base, one[0].part.run.start)):
        last = groups[-1][-1][0] if groups else None
        joined = None if last is None else _join(parts[-1], dropped.part)
        if last is not None and joined is not None and (last.rival, last.is_copy) == (dropped.rival, dropped.is_copy):
            groups[-1].append((dropped, verdict))
            parts[-1] = joined
        else:
            groups.append([(dropped, verdict)])
            parts.append(dropped.part)
    return [_common(group)._replace(part=part) for group, part in zip(groups, parts, strict=True)]


def _common(group: list[tuple[Dropped, int]]) -> Dropped:
    verdicts = [verdict for _, verdict in group]
    is_proven = min(verdicts) >= 0 and max(verdicts) > 0
    return next(dropped for dropped, _ in group if dropped.is_proven is is_proven)
