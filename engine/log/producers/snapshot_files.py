"""The producer snapshots of a partition, sorted by offset. There may be one for each of very many segments."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.producer_snapshot import ProducerSnapshot
from engine.discovery.names import parse_long
from engine.formats import PRODUCER_SNAPSHOT_ENTRY
from engine.kernels.tables import KEPT_BATCH_FIELDS, KEPT_FIELDS, Kept
from engine.log.producers.entry import BatchMetadata, ProducerStateEntry
from engine.log.producers.table import ProducerTable
from engine.log.producers.transactions import Transactions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from engine.files import Files
    from engine.log.segment.producer_rows import RowChunk


_SUFFIX = ".snapshot"


class SnapshotFiles:
    """A sorted map from offset to path. It does not create or remove files.

    aside    by offset: removed from the map by a recovery, but still on the disk, as most are written again with the same bytes
    written  paths of those that were created or rebuilt: their names may not be synced
    """

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._paths: dict[int, str] = {}
        self.aside: dict[int, str] = {}
        self.written: set[str] = set()

    @classmethod
    def of_directory(cls, files: Files, directory: str) -> SnapshotFiles:
        """The snapshots in `directory`. A name that does not begin with an offset, at which Kafka fails, is skipped."""
        return cls.of_names(directory, files.plain(directory) if files.exists(directory) else ())

    @classmethod
    def of_names(cls, directory: str, names: Iterable[str]) -> SnapshotFiles:
        """The snapshots among the `names` of the plain files in `directory`."""
        found = cls()
        for name in names:
            if name.endswith(_SUFFIX) and (offset := parse_long(name.partition(".")[0])) is not None:
                found._paths[offset] = f"{directory}/{name}"
        found._offsets = sorted(found._paths)
        return found

    def __iter__(self) -> Iterator[int]:
        """Iterate over a copy of the offsets, ascending."""
        return iter(list(self._offsets))

    def __getitem__(self, offset: int) -> str:
        return self._paths[offset]

    @property
    def paths(self) -> frozenset[str]:
        """The paths of all snapshots."""
        return frozenset(self._paths.values())

    @property
    def last(self) -> int | None:
        """The highest offset."""
        return self._offsets[-1] if self._offsets else None

    def outside(self, first: int, last: int) -> list[int]:
        """The offsets below `first` and those above `last`, ascending."""
        low = bisect_left(self._offsets, first)
        return self._offsets[:low] + self._offsets[max(low, bisect_right(self._offsets, last)) :]

    def add(self, offset: int, path: str) -> None:
        """Add the snapshot at `offset`."""
        if offset not in self._paths:
            insort(self._offsets, offset)
        self._paths[offset] = path

    def pop(self, offset: int) -> str | None:
        """Remove the snapshot at `offset` from the map. Returns its path; None: there is none."""
        path = self._paths.pop(offset, None)
        if path is not None:
            del self._offsets[bisect_left(self._offsets, offset)]
        return path

    def set_aside(self, offset: int) -> None:
        """Move the snapshot at `offset` to `aside`; its file stays for now."""
        path = self.pop(offset)
        if path is not None:
            self.aside[offset] = path


class Recall(NamedTuple):
    """The sources of the last batches of producers: a snapshot, and the batches of the log after it.

    snapshot  path of the snapshot that the producer state was loaded from; None: there was none
    now, expiration_ms  decide which producers in it had expired
    chunks    iterates over all batches of producers after the snapshot; may be called repeatedly
    """

    files: Files
    snapshot: str | None
    now: int
    expiration_ms: int
    chunks: Callable[[], Iterator[RowChunk]]

    def find(self, producer_ids: Collection[int]) -> Iterator[tuple[int, tuple[BatchMetadata, ...]]]:
        """Yield the last batches of each of these producers, the oldest first. Reads the log once for all of them.

        Raises UnreadableFile, CorruptRecord.
        """
        chunks = self.chunks()
        first = next(chunks, None)
        if first is None:
            return  # only the snapshot has batches, one for each producer, and that one is loaded already
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
    """Store the last batch of `entry` as the oldest batch of the producer."""
    at, last = number * KEPT_FIELDS, entry.batches[-1]
    kept[at + Kept.COUNT] = 1
    kept[at + Kept.LAST_SEQ : at + 1 + KEPT_BATCH_FIELDS] = array("q", last)


def _batches(kept: array[int], number: int) -> tuple[BatchMetadata, ...]:
    at = number * KEPT_FIELDS
    places = range(at + 1, at + 1 + kept[at + Kept.COUNT] * KEPT_BATCH_FIELDS, KEPT_BATCH_FIELDS)
    return tuple(BatchMetadata(*kept[place : place + KEPT_BATCH_FIELDS]) for place in places)
