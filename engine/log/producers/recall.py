"""The last batches of producers, found again in the log: a table of a million producers has only the very last of each."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.producer_snapshot import ProducerSnapshot
from engine.formats import PRODUCER_SNAPSHOT_ENTRY
from engine.kernels.tables import KEPT_BATCH_FIELDS, KEPT_FIELDS, Kept
from engine.log.producers.entry import BatchMetadata, ProducerStateEntry
from engine.log.producers.table import ProducerTable
from engine.log.producers.transactions import Transactions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from engine.files import Files
    from engine.log.scan.producer_rows import RowChunk


class Recall(NamedTuple):
    """Where to look: in the snapshot that a state was loaded from, and in the batches of the log behind it.

    snapshot  its path; None: there was none
    now, expiration_ms  by which producers had expired when it was loaded
    chunks    all batches of producers behind it, as often as they are asked for
    """

    files: Files
    snapshot: str | None
    now: int
    expiration_ms: int
    chunks: Callable[[], Iterator[RowChunk]]

    def find(self, producer_ids: Collection[int]) -> Iterator[tuple[int, tuple[BatchMetadata, ...]]]:
        """The batches that are remembered of each of these producers, the oldest first. One walk over the log for all.

        Raises UnreadableFile, CorruptRecord.
        """
        chunks = self.chunks()
        first = next(chunks, None)
        if first is None:
            return  # then each has the one batch that the snapshot has
        wanted = ProducerTable(keeps_batches=False)
        numbers = {producer_id: wanted.find_or_add(producer_id) for producer_id in producer_ids}
        kept = array("q", bytes(8 * KEPT_FIELDS * len(numbers)))
        self._begin_with_snapshot(wanted, numbers, kept)
        wanted.keep_batches(first.table, memoryview(kept))
        for chunk in chunks:
            wanted.keep_batches(chunk.table, memoryview(kept))
        for producer_id, number in numbers.items():
            yield producer_id, _batches(kept, number)

    def _begin_with_snapshot(self, wanted: ProducerTable, numbers: dict[int, int], kept: array[int]) -> None:
        if self.snapshot is None or not self.files.exists(self.snapshot):
            return
        ongoing = Transactions()
        for piece in ProducerSnapshot.read(self.files, self.snapshot).pieces():
            for entry in wanted.known(memoryview(piece)):
                wanted.load(entry, self.now, self.expiration_ms, ongoing)
                loaded = wanted.get(PRODUCER_SNAPSHOT_ENTRY.read(entry).producer_id)
                if loaded is not None and not loaded.is_empty:
                    _begin(kept, numbers[loaded.producer_id], loaded)


def _begin(kept: array[int], number: int, entry: ProducerStateEntry) -> None:
    """The last batch of `entry` is the oldest one that is kept."""
    at, last = number * KEPT_FIELDS, entry.batches[-1]
    kept[at + Kept.COUNT] = 1
    kept[at + Kept.LAST_SEQ : at + 1 + KEPT_BATCH_FIELDS] = array("q", last)


def _batches(kept: array[int], number: int) -> tuple[BatchMetadata, ...]:
    at = number * KEPT_FIELDS
    places = range(at + 1, at + 1 + kept[at + Kept.COUNT] * KEPT_BATCH_FIELDS, KEPT_BATCH_FIELDS)
    return tuple(BatchMetadata(*kept[place : place + KEPT_BATCH_FIELDS]) for place in places)
