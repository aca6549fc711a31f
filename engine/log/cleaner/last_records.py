"""The last batch of each active producer, which the cleaner must not lose. Mirrors UnifiedLog.lastRecordsOfActiveProducers."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.log.producers.entry import ProducerStateEntry

_RUN = 16_384  # producers that are objects at the same time


class LastRecord(NamedTuple):
    """The last batch of a producer; `last_data_offset` None: only markers are known of it. Mirrors LastRecord."""

    last_data_offset: int | None
    producer_epoch: int


class LastRecords:
    """What is known of the producers before a round, by id: 26 bytes each, for there may be a million.

    precious  in order: the last data offset of each producer, and the last offset of the round
    """

    def __init__(self, producers: Iterable[ProducerStateEntry], last_offset: int) -> None:
        runs = list(_runs(iter(producers)))
        self._ids, self._offsets, self._epochs = array("q"), array("q"), array("h")
        for producer_id, offset, epoch in merge(*(zip(*run, strict=True) for run in runs)):
            self._ids.append(producer_id)
            self._offsets.append(offset)
            self._epochs.append(epoch)
        ends = (array("q", sorted(offset for offset in run[1] if offset >= 0)) for run in runs)
        self.precious = array("q", merge(*ends))
        place = bisect_left(self.precious, last_offset)
        if self.precious[place : place + 1] != array("q", (last_offset,)):
            self.precious.insert(place, last_offset)

    def get(self, producer_id: int) -> LastRecord | None:
        """None where the log does not remember the producer."""
        place = bisect_left(self._ids, producer_id)
        if place == len(self._ids) or self._ids[place] != producer_id:
            return None
        offset = self._offsets[place]
        return LastRecord(offset if offset >= 0 else None, self._epochs[place])


def _runs(producers: Iterator[ProducerStateEntry]) -> Iterator[tuple[array[int], array[int], array[int]]]:
    """Ids, last data offsets and epochs of some producers at a time, in order of their ids."""
    while some := list(islice(producers, _RUN)):
        rows = sorted((entry.producer_id, entry.last_data_offset, entry.producer_epoch) for entry in some)
        ids, offsets, epochs = zip(*rows, strict=True)
        yield array("q", ids), array("q", offsets), array("h", epochs)
