"""The last batch of each active producer, which the cleaner must not lose. Mirrors UnifiedLog.lastRecordsOfActiveProducers."""

from __future__ import annotations

from array import array
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.log.producers.entry import ProducerStateEntry

_RUN = 16_384  # producers that are objects at the same time


class LastRecords:
    """What is known of the producers before a round: 18 bytes each, for there may be a million.

    ids, offsets, epochs  columns in order of the ids: last data offset, −1 where only markers are known, and epoch
    round_end             the last offset of the round
    """

    def __init__(self, producers: Iterable[ProducerStateEntry], round_end: int) -> None:
        self.ids, self.offsets, self.epochs, self.round_end = array("q"), array("q"), array("h"), round_end
        for producer_id, offset, epoch in merge(*(zip(*run, strict=True) for run in _runs(iter(producers)))):
            self.ids.append(producer_id)
            self.offsets.append(offset)
            self.epochs.append(epoch)

    @property
    def columns(self) -> tuple[memoryview, memoryview, memoryview, int]:
        """What kernels want of it, see kernels.verdicts.stays_empty."""
        return memoryview(self.ids), memoryview(self.offsets), memoryview(self.epochs), self.round_end


def _runs(producers: Iterator[ProducerStateEntry]) -> Iterator[tuple[array[int], array[int], array[int]]]:
    """Ids, last data offsets and epochs of some producers at a time, in order of their ids."""
    while some := list(islice(producers, _RUN)):
        rows = sorted((entry.producer_id, entry.last_data_offset, entry.producer_epoch) for entry in some)
        ids, offsets, epochs = zip(*rows, strict=True)
        yield array("q", ids), array("q", offsets), array("h", epochs)
