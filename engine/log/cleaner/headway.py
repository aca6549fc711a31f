"""How much of the work on a log is done, though nobody knows beforehand how many rounds its keys take."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_RECENT = 4  # a quarter of the records of a first pass says how many of the next ones bring new keys
_NEARLY_ONE = 1e-3


class Part(NamedTuple):
    """What a round finds: bytes that are clean, bytes that are dirty and may be cleaned, and in how many segments these lie."""

    clean: int
    dirty: int
    segments: int


class Headway:
    """The share of a log's compaction that is done, 0 … 1: it never goes back, and only the last round ends at 1.

    What is read takes of what is left of the share what it is of all that is still to be read, as far as that can be told by
    then. So a belief that was wrong costs nothing later on: the time that is left is always that of the rest.

    on_share  is called with it, as it grows
    capacity  keys that the offset map holds        rounds  the most there will be; None: until all is clean
    """

    def __init__(self, on_share: Callable[[float], object], capacity: int, rounds: int | None = None) -> None:
        self._report_share, self._share = on_share, 0.0
        self._outlook = _Outlook(capacity, rounds)
        self._dirty = self._mapped = self._whole = self._filtered = 0

    def begin_round(self, part: Part) -> None:
        """A first pass begins, also the first pass of a round that was given up, once more."""
        self._outlook.begin(part)
        self._dirty, self._mapped = part.dirty, 0

    def mapped(self, size: int, keys: int, records: int) -> None:
        """The first pass has read `size` more bytes; the map now has these keys, of these records."""
        size = min(size, self._dirty - self._mapped)
        self._mapped += size
        self._outlook.look(self._mapped, keys, records)
        reach = self._outlook.reach
        self._advance(size, reach - self._mapped + self._outlook.whole(reach) + self._outlook.further(reach))

    def begin_filtering(self, whole: int, left: int) -> None:
        """The second pass begins; bytes that it will read, dirty bytes that are left to further rounds."""
        reach = max(0, self._dirty - left)
        self._outlook.set_reach(reach)
        self._whole, self._filtered = whole, 0
        size, self._mapped = max(0, reach - self._mapped), reach
        self._advance(size, whole + self._outlook.further(reach))

    def looked_through(self, size: int, left: int) -> None:
        """More bytes were checked for damage before the second pass; `left` bytes of that check are left."""
        self._advance(size, left + self._whole + self._outlook.further(self._mapped))

    def filtered(self, size: int) -> None:
        """The second pass has read more bytes."""
        size = min(size, self._whole - self._filtered)
        self._filtered += size
        self._advance(size, self._whole - self._filtered + self._outlook.further(self._mapped))

    def end_round(self) -> None:
        """The round is done; there may be a next one."""
        self._outlook.end()

    def _advance(self, size: int, rest: float) -> None:
        """`size` bytes were read, and `rest` are to come."""
        if size > 0:
            self._share += (1 - self._share) * size / (size + rest)
            self._report_share(self._share)


class _Outlook:
    """What the rest of the rounds will read. A round reads once what it maps, and then all up to there, clean or not.

    How far a map reaches, and how much a round adds to what is clean, is estimated by the keys at first, and by the rounds
    before once there are some.
    """

    def __init__(self, capacity: int, rounds: int | None) -> None:
        self._capacity, self._rounds = capacity, rounds
        self._part = Part(0, 0, 1)
        self._grown: list[int] = []  # by round: bytes that it made clean
        self._ended = 0  # rounds
        self._before = 0  # bytes that the map of the last round took; 0: there was none
        self.reach = 0  # bytes that this map will take
        self._keys = self._records = 0
        self._fresh = self._kept = 1.0  # of records: those that bring a new key now; of all that were mapped, those that stay

    def begin(self, part: Part) -> None:
        if self._ended > len(self._grown):
            self._grown.append(part.clean - self._part.clean)
        self._part = part
        self._keys = self._records = 0
        self.reach = min(part.dirty, self._before or part.dirty)

    def end(self) -> None:
        self._ended += 1

    def look(self, mapped: int, keys: int, records: int) -> None:
        """Bytes were mapped, with these records; the map has these keys."""
        more = records - self._records
        if more > 0:
            weight = min(1.0, more * _RECENT / records)
            self._fresh += ((keys - self._keys) / more - self._fresh) * weight
            self._kept = keys / records
        self._keys, self._records = keys, records
        if not self._before:
            self._reach_by_keys(mapped)
        self.reach = min(self._part.dirty, max(self.reach, mapped))

    def _reach_by_keys(self, mapped: int) -> None:
        """No map was full before: it is full when as many records have come as bring keys for the rest of it."""
        if self._records and self._fresh > 0:
            to_come = max(0, self._capacity - self._keys) / self._fresh
            self.reach = min(self._part.dirty, ceil(mapped * (1 + to_come / self._records)))
        else:
            self.reach = self._part.dirty

    def set_reach(self, reach: int) -> None:
        """The number of bytes that were mapped."""
        self.reach = self._before = reach

    def whole(self, reach: int) -> float:
        """What the second pass reads: all that is clean, what was mapped, and the rest of the segment where that ends."""
        left = self._part.dirty - reach
        return self._part.clean + reach + self._tail(left, left)

    def further(self, reach: int) -> float:
        """What rounds after this one read, which takes `reach` bytes."""
        left = self._part.dirty - reach
        if left <= 0:
            return 0.0
        each = max(1, reach)
        count = -(-left // each)
        if self._rounds is not None:
            count = min(count, self._rounds - self._ended - 1)
        if count <= 0:
            return 0.0
        growth, ratio = self._growth(reach)
        clean = count * (self._part.clean + growth) + growth * _added_up(ratio, count)
        last = max(0, left - count * each)  # what the last of them leaves
        return 2 * (left - last) + clean + (count - (not last)) * self._tail(left, last)

    def _tail(self, left: int, last: int) -> float:
        """Of the segment in which maps end, what follows that, on average, while `left` dirty bytes become `last`."""
        if self._part.segments <= 1:
            return (left + last) / 2
        return min(left, self._part.dirty / self._part.segments) / 2

    def _growth(self, reach: int) -> tuple[float, float]:
        """By how many bytes this round will let the clean part grow, and what the next one's growth is of it, 0 … 1."""
        grown, half = self._grown, len(self._grown) // 2
        if not grown:
            return reach * self._kept, min(1.0, max(0.0, self._fresh))
        ratio = min(1.0, max(0.0, self._fresh))
        if half:
            early, late = sum(grown[-2 * half : -half]), sum(grown[-half:])
            ratio = min(1.0, max(0, late) / early) ** (1 / half) if early > 0 else 1.0
        return max(0, grown[-1]) * ratio, ratio


def _added_up(ratio: float, count: int) -> float:
    """Of `count` rounds, each with what all before it have added: the j-th adds ratio ** j, and the last one for nobody."""
    if (1 - ratio) * count < _NEARLY_ONE:
        return count * (count - 1) / 2
    return float(ratio * (count - 1 - count * ratio + ratio**count) / (1 - ratio) ** 2)
