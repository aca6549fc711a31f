"""Progress of the work on a log. The number of rounds is not known in advance, so it is estimated."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_RECENT = 4  # the estimate of new keys per record weights the last quarter of the records most
_NEARLY_ONE = 1e-3


class Part(NamedTuple):
    """State of a log before a round: clean bytes, dirty bytes that may be cleaned, and the number of dirty segments."""

    clean: int
    dirty: int
    segments: int


class Headway:
    """The finished share of a log's compaction, 0 … 1. It never decreases, and reaches 1 only in the last round.

    Reading n bytes, with an estimated m bytes still to read, advances by n/(n + m) of the remaining share. So a wrong
    estimate is corrected later on: the rate always corresponds to the current estimate.

    on_share  called with the share when it grows
    capacity  keys that the offset map holds        rounds  highest number of rounds; None: until all is clean
    """

    def __init__(self, on_share: Callable[[float], object], capacity: int, rounds: int | None = None) -> None:
        self._report_share, self._share = on_share, 0.0
        self._outlook = _Outlook(capacity, rounds)
        self._dirty = self._mapped = self._whole = self._filtered = 0

    def begin_round(self, part: Part) -> None:
        """Start a first pass, also when a round starts again."""
        self._outlook.begin(part)
        self._dirty, self._mapped = part.dirty, 0

    def mapped(self, size: int, keys: int, records: int) -> None:
        """The first pass has read `size` more bytes. `keys`: in the map now; `records`: read so far by this pass."""
        size = min(size, self._dirty - self._mapped)
        self._mapped += size
        self._outlook.look(self._mapped, keys, records)
        reach = self._outlook.reach
        self._advance(size, reach - self._mapped + self._outlook.whole(reach) + self._outlook.further(reach))

    def begin_filtering(self, whole: int, left: int) -> None:
        """Start the second pass. `whole`: bytes that it will read; `left`: dirty bytes that remain for further rounds."""
        reach = max(0, self._dirty - left)
        self._outlook.set_reach(reach)
        self._whole, self._filtered = whole, 0
        size, self._mapped = max(0, reach - self._mapped), reach
        self._advance(size, whole + self._outlook.further(reach))

    def checked_ahead(self, size: int, left: int) -> None:
        """`size` more bytes were checked for damage before the second pass; `left` bytes remain to be checked."""
        self._advance(size, left + self._whole + self._outlook.further(self._mapped))

    def filtered(self, size: int) -> None:
        """The second pass has read `size` more bytes."""
        size = min(size, self._whole - self._filtered)
        self._filtered += size
        self._advance(size, self._whole - self._filtered + self._outlook.further(self._mapped))

    def end_round(self) -> None:
        """End a round; another one may follow."""
        self._outlook.end()

    def _advance(self, size: int, rest: float) -> None:
        """`size` bytes were read; `rest` bytes remain according to the estimate."""
        if size > 0:
            self._share += (1 - self._share) * size / (size + rest)
            self._report_share(self._share)


class _Outlook:
    """Estimates the bytes that remain to be read. A round reads the mapped bytes once, then all bytes of the log up to there.

    The number of bytes that one map covers, and the growth of the clean part in a round, are estimated from the keys at
    first, and from earlier rounds later.
    """

    def __init__(self, capacity: int, rounds: int | None) -> None:
        self._capacity, self._rounds = capacity, rounds
        self._part = Part(0, 0, 1)
        self._grown: list[int] = []  # by round: bytes that became clean
        self._ended = 0  # rounds
        self._before = 0  # bytes that the last round mapped; 0: there was no earlier round
        self.reach = 0  # estimated bytes that this round will map
        self._keys = self._records = 0
        self._fresh = self._kept = 1.0  # shares of records: recent ones with a new key, and mapped ones that are retained

    def begin(self, part: Part) -> None:
        if self._ended > len(self._grown):
            self._grown.append(part.clean - self._part.clean)
        self._part = part
        self._keys = self._records = 0
        self.reach = min(part.dirty, self._before or part.dirty)

    def end(self) -> None:
        self._ended += 1

    def look(self, mapped: int, keys: int, records: int) -> None:
        """Update the estimates: `mapped` bytes with `records` records were read, and the map has `keys` keys."""
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
        """Estimate `reach` without an earlier round: the map is full after as many records as bring its remaining keys."""
        if self._records and self._fresh > 0:
            to_come = max(0, self._capacity - self._keys) / self._fresh
            self.reach = min(self._part.dirty, ceil(mapped * (1 + to_come / self._records)))
        else:
            self.reach = self._part.dirty

    def set_reach(self, reach: int) -> None:
        """Set the number of bytes that were mapped."""
        self.reach = self._before = reach

    def whole(self, reach: int) -> float:
        """Bytes that the second pass reads: the clean part, the mapped part, and the rest of the segment where that ends."""
        left = self._part.dirty - reach
        return self._part.clean + reach + self._tail(left, left)

    def further(self, reach: int) -> float:
        """Bytes that later rounds read, if this one maps `reach` bytes."""
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
        last = max(0, left - count * each)  # dirty bytes that remain after the last round
        return 2 * (left - last) + clean + (count - (not last)) * self._tail(left, last)

    def _tail(self, left: int, last: int) -> float:
        """Average bytes after the mapped part in the segment where it ends, while dirty bytes fall from `left` to `last`."""
        if self._part.segments <= 1:
            return (left + last) / 2
        return min(left, self._part.dirty / self._part.segments) / 2

    def _growth(self, reach: int) -> tuple[float, float]:
        """Bytes by which the clean part grows in this round, and the ratio of the next round's growth to it, 0 … 1."""
        grown, half = self._grown, len(self._grown) // 2
        if not grown:
            return reach * self._kept, min(1.0, max(0.0, self._fresh))
        ratio = min(1.0, max(0.0, self._fresh))
        if half:
            early, late = sum(grown[-2 * half : -half]), sum(grown[-half:])
            ratio = min(1.0, max(0, late) / early) ** (1 / half) if early > 0 else 1.0
        return max(0, grown[-1]) * ratio, ratio


def _added_up(ratio: float, count: int) -> float:
    """Sum of (count − j) · ratio ** j for 0 < j < count: what later rounds read again of that which round j made clean."""
    if (1 - ratio) * count < _NEARLY_ONE:
        return count * (count - 1) / 2
    return float(ratio * (count - 1 - count * ratio + ratio**count) / (1 - ratio) ** 2)
