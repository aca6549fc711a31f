"""Which producer snapshots a partition has, by offset, in order: there may be one for each of very many segments."""

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

    aside    by offset, those that a recovery has forgotten while their files stay: most are rewritten with the same bytes
    written  paths of those that were created or rebuilt: their names may not be on the disk
    """

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._paths: dict[int, str] = {}
        self.aside: dict[int, str] = {}
        self.written: set[str] = set()

    @classmethod
    def of_directory(cls, files: Files, directory: str) -> SnapshotFiles:
        """Those in `directory`. A name that begins with no offset, at which Kafka fails, is nobody's."""
        return cls.of_names(directory, files.plain(directory) if files.exists(directory) else ())

    @classmethod
    def of_names(cls, directory: str, names: Iterable[str]) -> SnapshotFiles:
        """Those among the `names` of the plain files in `directory`."""
        found = cls()
        for name in names:
            if name.endswith(_SUFFIX) and (offset := parse_long(name.partition(".")[0])) is not None:
                found._paths[offset] = f"{directory}/{name}"
        found._offsets = sorted(found._paths)
        return found

    def __iter__(self) -> Iterator[int]:
        """The offsets, ascending, over a copy."""
        return iter(list(self._offsets))

    def __getitem__(self, offset: int) -> str:
        return self._paths[offset]

    @property
    def paths(self) -> frozenset[str]:
        """Where they are."""
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
        """There is one at `offset` now."""
        if offset not in self._paths:
            insort(self._offsets, offset)
        self._paths[offset] = path

    def pop(self, offset: int) -> str | None:
        """Forget the one at `offset`; its path, None where there is none."""
        path = self._paths.pop(offset, None)
        if path is not None:
            del self._offsets[bisect_left(self._offsets, offset)]
        return path

    def set_aside(self, offset: int) -> None:
        """Forget the one at `offset`, whose file stays for now."""
        path = self.pop(offset)
        if path is not None:
            self.aside[offset] = path


class Recall(NamedTuple):
    """Where to look: in the snapshot that a state was loaded from, and in the batches of the log after it.

    snapshot  its path; None: there was none
    now, expiration_ms  by which producers had expired when it was loaded
    chunks    all batches of producers after it, as often as they are asked for
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
