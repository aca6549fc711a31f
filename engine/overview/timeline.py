"""What batch headers say about time: rates, the times of segments and leader epochs, producers, and missing offsets.

Nothing is decompressed. Memory is bounded: rates have a limited number of intervals, whose width grows, and a limited number of
segments, epochs, gaps and producers is kept one by one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import file_name, offset_of
from engine.findings import First
from engine.formats import CODEC_MASK, CONTROL_FLAG, LONG_MAX, LONG_MIN, NO_PRODUCER_ID, BatchField
from engine.kernels.select import next_break

if TYPE_CHECKING:
    from engine.record.windows import Window

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
WIDTHS = (
    _SECOND, 5 * _SECOND, 15 * _SECOND, _MINUTE, 5 * _MINUTE, 15 * _MINUTE, _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY,
    7 * _DAY, 28 * _DAY, 364 * _DAY, 3640 * _DAY,
)  # fmt: skip  # ms; each divides the next one
MOST_GAPS, MOST_EPOCHS, MOST_PRODUCERS = 100, 1000, 10_000
_FIELDS = (
    BatchField.SIZE, BatchField.COUNT, BatchField.ATTRIBUTES, BatchField.MAX_TIMESTAMP, BatchField.PRODUCER_ID,
    BatchField.PRODUCER_EPOCH,
)


class Span(NamedTuple):
    """The batches that count: those whose largest timestamp is in [first, end), ms. Later ones are in the future."""

    first: int = LONG_MIN
    end: int = LONG_MAX


@dataclass(slots=True)
class Amount:
    """Records, bytes as stored, and the times of batches in ms; None: no batch with a timestamp."""

    records: int = 0
    size: int = 0
    first_time: int | None = None
    last_time: int | None = None

    def add(self, records: int, size: int, first: int, last: int) -> None:
        """Add batches with timestamps from `first` to `last`; below 0: without."""
        self.records += records
        self.size += size
        if last >= 0:
            first = max(first, 0)
            self.first_time = first if self.first_time is None else min(self.first_time, first)
            self.last_time = last if self.last_time is None else max(self.last_time, last)

    def add_amount(self, other: Amount) -> None:
        """Add what `other` has."""
        first, last = (-1 if time is None else time for time in (other.first_time, other.last_time))
        self.add(other.records, other.size, first, last)


class Rates:
    """Records and bytes by intervals of time, all of the same `width` in ms.

    most      intervals that are kept; with more, the width grows
    amounts   by number of the interval, its start divided by the width: [records, bytes]
    untimed   of batches without a timestamp
    """

    def __init__(self, most: int) -> None:
        self._most, self._at = most, 0
        self.amounts: dict[int, list[int]] = {}
        self.untimed = 0

    @property
    def width(self) -> int:
        """The width of an interval, ms."""
        return WIDTHS[self._at]

    def add(self, time: int, records: int, size: int) -> None:
        """Add a batch, or several in one interval."""
        if time < 0:
            self.untimed += records
            return
        amount = self.amounts.get(time // WIDTHS[self._at])
        if amount is None:
            self.amounts[time // WIDTHS[self._at]] = [records, size]
            if len(self.amounts) > self._most:
                self._widen()
        else:
            amount[0] += records
            amount[1] += size

    def _widen(self) -> None:
        while len(self.amounts) > self._most and self._at + 1 < len(WIDTHS):
            self._widen_once()

    def _widen_once(self) -> None:
        factor = WIDTHS[self._at + 1] // WIDTHS[self._at]
        self._at += 1
        wider: dict[int, list[int]] = {}
        for number, (records, size) in self.amounts.items():
            amount = wider.setdefault(number // factor, [0, 0])
            amount[0] += records
            amount[1] += size
        self.amounts = wider


class EpochSpan(NamedTuple):
    """Consecutive batches of a leader epoch: offsets [first, end), and the timestamps of the first and the last one."""

    epoch: int
    first: int
    end: int
    first_time: int
    last_time: int


class OffsetGap(NamedTuple):
    """Offsets [first, end) that no batch has, and the timestamps of the batches around them."""

    first: int
    end: int
    time_before: int
    time_after: int


class SegmentSpan(NamedTuple):
    """The batches of the segment with the base offset `base`: offsets [base, end), and those in the span of time."""

    base: int
    end: int
    amount: Amount


class TopicAmounts:
    """What the partitions of a topic contain, added up by several threads.

    span     only these batches count         most    intervals of `rates`
    has_unknown_counts  batches of formats 0 and 1 have no count of records: a compressed one counts as one record
    outside  records with timestamps outside of the span
    """

    def __init__(self, span: Span, most: int) -> None:
        self.span, self.rates, self.total = span, Rates(most), Amount()
        self.producers: dict[int, ProducerAmount] = {}
        self.has_unknown_counts = False
        self.outside = 0
        self.lock = Lock()

    def add(self, producer: int, epoch: int, records: int, size: int, first: int, last: int) -> None:
        """Add batches of one producer and interval. Of more than 10 000 producers some are not kept."""
        self.total.add(records, size, first, last)
        self.rates.add(last, records, size)
        if producer == NO_PRODUCER_ID:
            return
        known = self.producers.get(producer)
        if known is None:
            if len(self.producers) >= MOST_PRODUCERS:
                return
            known = self.producers[producer] = ProducerAmount(epoch)
        known.epoch = max(known.epoch, epoch)
        known.amount.add(records, size, first, last)


@dataclass(slots=True)
class ProducerAmount:
    """What a producer id wrote. `epoch`: its last one."""

    epoch: int
    amount: Amount = field(default_factory=Amount)


class Timeline:
    """Collects what the headers of one replica say: call `watch` with every window of its logs, in their order.

    topic    receives the amounts; other replicas of the partition have one of their own, which nobody reads
    """

    def __init__(self, topic: TopicAmounts, most_segments: int) -> None:
        self._topic = topic
        self.segments: First[SegmentSpan] = First(most_segments)
        self.epochs: First[EpochSpan] = First(MOST_EPOCHS)
        self.gaps: First[OffsetGap] = First(MOST_GAPS)
        self._path: str | None = None
        self._segment = SegmentSpan(0, 0, Amount())
        self._epoch: EpochSpan | None = None
        self._end: int | None = None  # the offset after the last batch so far
        self._last_time = -1

    def watch(self, path: str, window: Window) -> None:
        """Add the batches of a window of the .log at `path`."""
        table, rows = window.batches.table, window.rows
        if self._path != path:
            self._end_segment()
            self._path, self._segment = path, SegmentSpan(offset_of(file_name(path)) or 0, 0, Amount())
        self._find_gaps(table, rows)
        self._segment = self._segment._replace(end=table[BatchField.LAST_OFFSET, rows - 1] + 1)
        self._follow_epochs(table, window)
        columns = [window.batches.field(one)[:rows] for one in _FIELDS]
        with self._topic.lock:
            self._add(columns)
        self._last_time = table[BatchField.MAX_TIMESTAMP, rows - 1]

    def finish(self) -> None:
        """End the log."""
        self._end_segment()
        if self._epoch is not None:
            self.epochs.take(self._epoch)
        self._epoch = None

    def _end_segment(self) -> None:
        if self._path is not None:
            self.segments.take(self._segment)
        self._path = None

    def _find_gaps(self, table: memoryview, rows: int) -> None:
        """Note the offsets that are missing before batches."""
        row = 0
        while row < rows:
            claimed, is_known = (0, False) if self._end is None else (self._end - 1, True)
            row, claimed, is_known = next_break(table, row, rows, claimed, is_known, False)
            self._end = claimed + 1 if is_known else None
            if row >= rows:
                return
            first, end = self._end, table[BatchField.BASE_OFFSET, row]
            if first is not None and first < end:
                before = table[BatchField.MAX_TIMESTAMP, row - 1] if row else self._last_time
                self.gaps.take(OffsetGap(first, end, before, table[BatchField.MAX_TIMESTAMP, row]))
            self._end = max(first or 0, table[BatchField.LAST_OFFSET, row] + 1)
            row += 1

    def _add(self, columns: list[memoryview]) -> None:
        """Add the batches of a window: each interval at once if their times rise, as they do in nearly every log."""
        sizes, counts, attributes, times, producers, epochs = columns
        topic, ordered = self._topic, times.tolist()
        first, last = ordered[0], ordered[-1]
        if (
            first < max(topic.span.first, 0) or last >= topic.span.end or ordered != sorted(ordered)
            or (not _is_constant(attributes) and max(attributes) >= CONTROL_FLAG) or attributes[0] >= CONTROL_FLAG
            or (not _is_constant(counts) and min(counts) < 0) or counts[0] < 0
        ):  # fmt: skip
            self._add_one_by_one(columns)
            return
        has_one = _is_constant(producers) and _is_constant(epochs)
        at, rows = 0, len(ordered)
        while at < rows:
            width = topic.rates.width
            stop = bisect_left(ordered, (ordered[at] // width + 1) * width, at)
            if has_one:
                part = producers[at], epochs[at], sum(counts[at:stop]), sum(sizes[at:stop]), ordered[at], ordered[stop - 1]
                topic.add(*part)
                self._segment.amount.add(*part[2:])
            else:
                self._add_by_producer([column[at:stop] for column in columns], ordered[at:stop])
            at = stop

    def _add_by_producer(self, columns: list[memoryview], times: list[int]) -> None:
        """Add batches of several producers in one interval, whose times rise."""
        sizes, counts, _, _, producers, epochs = (column.tolist() for column in columns)
        keys, epoch_of = producers, dict(zip(producers, epochs, strict=True))
        if len(set(zip(producers, epochs, strict=True))) > len(epoch_of):  # a new epoch begins here
            self._add_one_by_one(columns)
            return
        last, first = dict(zip(keys, times, strict=True)), dict(zip(reversed(keys), reversed(times), strict=True))
        stored = dict.fromkeys(last, 0)
        for key, size in zip(keys, sizes, strict=True):
            stored[key] += size
        records = {key: number * counts[0] for key, number in Counter(keys).items()}
        if not _is_constant(columns[1]):
            records = dict.fromkeys(last, 0)
            for key, count in zip(keys, counts, strict=True):
                records[key] += count
        for key, end in last.items():
            self._topic.add(key, epoch_of[key], records[key], stored[key], first[key], end)
            self._segment.amount.add(records[key], stored[key], first[key], end)

    def _add_one_by_one(self, columns: list[memoryview]) -> None:
        topic, (first, end), width = self._topic, self._topic.span, self._topic.rates.width
        groups: dict[tuple[int, int, int], list[int]] = {}  # by producer, its epoch, and interval
        known: list[int] = []
        before = (-1, -1, 0, 0)  # producer, epoch and interval of `known`: most batches are in that of the one before
        for size, count, attributes, time, producer, epoch in zip(*(one.tolist() for one in columns), strict=True):
            records = count
            if attributes & CONTROL_FLAG:
                records = 0
            elif count < 0:
                records = 1
                topic.has_unknown_counts |= bool(attributes & CODEC_MASK)
            if not first <= time < end:
                topic.outside += records
                continue
            if producer != before[0] or epoch != before[1] or not before[2] <= time < before[3]:
                interval = time // width
                known = groups.setdefault((producer, epoch, interval), [0, 0, time, time])
                before = producer, epoch, interval * width, (interval + 1) * width
            known[0] += records
            known[1] += size
            if time > known[3]:
                known[3] = time
            elif time < known[2]:
                known[2] = time
        for (producer, epoch, _), (records, size, early, late) in groups.items():
            topic.add(producer, epoch, records, size, early, late)
            self._segment.amount.add(records, size, early, late)

    def _follow_epochs(self, table: memoryview, window: Window) -> None:
        """Note the leader epochs of the batches of a window."""
        epochs, rows = window.batches.field(BatchField.LEADER_EPOCH)[: window.rows], window.rows
        starts = [0]
        if not _is_constant(epochs):
            starts += [row for row in range(1, rows) if epochs[row] != epochs[row - 1]]
        for start, end in pairwise((*starts, rows)):
            times = table[BatchField.MAX_TIMESTAMP, start], table[BatchField.MAX_TIMESTAMP, end - 1]
            first, last = table[BatchField.BASE_OFFSET, start], table[BatchField.LAST_OFFSET, end - 1]
            self._in_epoch(epochs[start], first, last + 1, *times)

    def _in_epoch(self, epoch: int, first: int, end: int, first_time: int, last_time: int) -> None:
        known = self._epoch
        if known is not None and known.epoch == epoch:
            self._epoch = EpochSpan(epoch, known.first, end, known.first_time, max(known.last_time, last_time))
            return
        if known is not None:
            self.epochs.take(known)
        self._epoch = EpochSpan(epoch, first, end, first_time, last_time)


def _is_constant(column: memoryview) -> bool:
    """Return whether all values of a column are the same; as fast as the bytes are compared."""
    return bytes(column) == bytes(column[:1]) * len(column)
