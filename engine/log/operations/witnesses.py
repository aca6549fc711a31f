"""What other files of a partition say about its batches: names, checkpoints, producer snapshots and offset indexes.

Nothing is proven by one of these files alone, as each of them may be damaged, too: `contested` weighs it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from engine.checkpoint.producer_snapshot import ProducerSnapshot, SnapshotFiles
from engine.errors import KafkalogError
from engine.formats import LONG_MAX, NO_SEQUENCE
from engine.log.segment.readable_segment import SegmentIndexes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from engine.checkpoint.checkpoints import EpochEntry
    from engine.files import Files
    from engine.formats import ProducerSnapshotEntry
    from engine.index.sparse import OffsetIndex
    from engine.log.segment.sound_runs import Batch, Run

_MOST = 4  # borders in a batch that count


class FilesBeside:
    """The evidence in the files of `directory`. Mirrors the protocol Witnesses.

    runs          sound runs by base offset of the file
    claimed_ends  ends of the log according to checkpoints
    At a border a batch begins, and no batch contains it unless it begins there.
    """

    def __init__(
        self, files: Files, directory: str, runs: Mapping[int, Sequence[Run]], epochs: Sequence[EpochEntry],
        claimed_ends: Collection[int],
    ) -> None:
        self._files, self._directory, self._epochs = files, directory, epochs
        self._bases = sorted(runs)
        self._snapshots = SnapshotFiles.of_directory(files, directory)
        self._offsets = list(self._snapshots)
        ends = {run.end_offset for of_file in runs.values() for run in of_file}
        borders = dict.fromkeys(claimed_ends, "what follows the log according to a checkpoint or an index")
        borders |= dict.fromkeys(self._snapshots, "what follows a producer snapshot")
        borders |= {base: "a segment" for base, of_file in runs.items() if of_file and of_file[0].first_offset == base in ends}
        borders |= {entry.start_offset: f"leader epoch {entry.epoch}" for entry in epochs}
        self._borders, self._what = sorted(borders), borders
        self._entries_at: dict[int, dict[int, ProducerSnapshotEntry | None]] = {}  # by offset of a snapshot, by producer
        self._index: tuple[int, OffsetIndex | None] = (-1, None)  # the last one used, by base offset

    def ask(self, batches: Iterable[Batch]) -> None:
        """Read the snapshots after `batches`, for their producers."""
        asked: dict[int, set[int]] = {}
        offsets = self._offsets
        for batch in batches:
            at = bisect_left(offsets, batch.end_offset)
            if batch.producer_id >= 0 and at < len(offsets):
                asked.setdefault(offsets[at], set()).add(batch.producer_id)
        self._entries_at = {offset: self._entries(self._snapshots[offset], producers) for offset, producers in asked.items()}

    def _entries(self, path: str, producers: set[int]) -> dict[int, ProducerSnapshotEntry | None]:
        """The entries of `producers` in a snapshot, None for those that it has not; empty if it is not valid."""
        try:
            snapshot = ProducerSnapshot.read(self._files, path)
            if snapshot.sanity():
                return {}
            found: dict[int, ProducerSnapshotEntry | None] = dict.fromkeys(producers)
            found |= {entry.producer_id: entry for entry in snapshot if entry.producer_id in producers}
        except KafkalogError:
            return {}  # opening it again reports that
        return found

    def against(self, base: int, batch: Batch) -> list[str]:
        """Evidence that a batch in the file of segment `base` does not belong to the log, in words."""
        found = []
        number = bisect_right(self._bases, base)
        following = self._bases[number] if number < len(self._bases) else LONG_MAX
        if following <= batch.first_offset and following in self._what:
            found.append(f"and the dropped ones are in a file whose offsets end before {following}")
        at, end = bisect_right(self._borders, batch.first_offset), bisect_left(self._borders, batch.end_offset)
        within = self._borders[at : min(end, at + _MOST)]
        found += [f"and {self._what[border]} begins at offset {border}, within the dropped ones" for border in within[:1]]
        found += [f"{self._what[border]} begins at {border}" for border in within[1:]]
        if at >= end and (border := self._indexed_border(batch)) is not None:
            found.append(f"and at offset {border}, within the dropped ones, a batch begins according to the offset index")
        if not fits_epochs(batch, self._epochs):
            found.append("and leader-epoch-checkpoint has another leader epoch than the dropped ones")
        return found + self._against_producer(batch)

    def _against_producer(self, batch: Batch) -> list[str]:
        at = bisect_left(self._offsets, batch.end_offset)
        if batch.base_sequence == NO_SEQUENCE or at == len(self._offsets):
            return []
        offset, producer = self._offsets[at], batch.producer_id
        entries = self._entries_at.get(offset, {})
        if producer not in entries:
            return []
        entry = entries[producer]
        if entry is None:
            return [f"and the producer snapshot of offset {offset} does not have producer {producer}"]
        if entry.producer_epoch == batch.producer_epoch and 0 <= entry.last_offset < batch.end_offset - 1:
            what = f"the last offset of producer {producer} was {entry.last_offset}"
            return [f"and according to the producer snapshot of offset {offset}, {what}"]
        return []

    def _indexed_border(self, batch: Batch) -> int | None:
        at = bisect_right(self._bases, batch.first_offset) - 1
        if at < 0:
            return None
        base = self._bases[at]
        if self._index[0] != base:
            self._index = base, self._read_index(base)
        index = self._index[1]
        entry = None if index is None else index.lookup(batch.end_offset - 2)
        is_within = entry is not None and entry.position > 0 and batch.first_offset <= entry.offset < batch.end_offset - 1
        return entry.offset + 1 if entry is not None and is_within else None

    def _read_index(self, base: int) -> OffsetIndex | None:
        try:
            index = SegmentIndexes.read(self._files, self._directory, base).offsets
            return None if index is None or index.sanity() else index
        except KafkalogError:
            return None  # opening it again reports that


def fits_epochs(batch: Batch, epochs: Sequence[EpochEntry]) -> bool:
    """Is the leader epoch of `batch` the one in the checkpoint? True if the checkpoint or the batch has none."""
    at = bisect_right(epochs, batch.first_offset, key=lambda entry: entry.start_offset)
    return at == 0 or batch.leader_epoch < 0 or epochs[at - 1].epoch == batch.leader_epoch
