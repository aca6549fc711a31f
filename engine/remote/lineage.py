"""Which remote segments belong to the history of a leader, by leader epochs. Mirrors RemoteLogManager.

A leader knows by its leader-epoch-checkpoint which epoch wrote which offsets. Segments of another history, which an unclean
election cut off, stay in the store but are neither read nor counted.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.checkpoint.checkpoints import EpochEntry
    from engine.remote.metadata import Epochs, PartitionMetadata, RemoteSegment


class Lineage:
    """The leader epochs of a log, as its broker has them after loading, and its end."""

    def __init__(self, entries: Sequence[EpochEntry], log_end_offset: int) -> None:
        self.entries = tuple(entries)
        self.log_end_offset = log_end_offset
        self._starts = [entry.start_offset for entry in entries]
        self._of = {entry.epoch: entry.start_offset for entry in entries}

    def epoch_of(self, offset: int) -> int | None:
        """The epoch that wrote `offset`; None before the first one (LeaderEpochFileCache.epochForOffset)."""
        at = bisect_right(self._starts, offset)
        return self.entries[at - 1].epoch if at else None

    def following(self, epoch: int) -> tuple[int, int] | None:
        """The first later epoch, with its start; None: it is the last."""
        return next(((entry.epoch, entry.start_offset) for entry in self.entries if entry.epoch > epoch), None)

    def end_of(self, epoch: int) -> int:
        """The offset after the last one of `epoch`."""
        following = self.following(epoch)
        return self.log_end_offset if following is None else following[1]

    def segment(self, partition: PartitionMetadata, offset: int) -> RemoteSegment | None:
        """The remote segment that a leader reads `offset` from (fetchRemoteLogSegmentMetadata)."""
        epoch = self.epoch_of(offset)
        return None if epoch is None else partition.segment(epoch, offset)

    def highest_remote_offset(self, partition: PartitionMetadata) -> int:
        """The last offset that was copied; −1: none is known (findHighestRemoteOffset)."""
        for entry in reversed(self.entries):
            highest = partition.highest_offset(entry.epoch)
            if highest is not None:
                return min(highest, self.end_of(entry.epoch) - 1)
        return -1

    def has(self, segment: RemoteSegment) -> bool:
        """Does the segment belong to this history? Mirrors isRemoteSegmentWithinLeaderEpochs."""
        epochs = with_records(segment.leader_epochs)
        if not self.entries or not epochs:
            return False
        earliest, latest, last = self.entries[0].epoch, self.entries[-1].epoch, epochs[-1][0]
        common = [entry for entry in epochs if entry[0] >= earliest]
        if not earliest <= last <= latest or common[0][0] not in self._of:
            return False
        first, start = common[0]
        if first != earliest and start < self._of[first]:  # of the earliest one, the start may have been deleted
            return False
        for (epoch, _), behind in zip(common, [*common[1:], None], strict=True):
            following = self.following(epoch)
            if epoch not in self._of or (behind is not None and following != behind):
                return False
        following = self.following(last)
        if following is not None and segment.end_offset >= following[1]:
            return False
        return segment.end_offset < self.log_end_offset


def with_records(epochs: Epochs) -> Epochs:
    """Without epochs that have no record, as they end where they begin (buildFilteredLeaderEpochMap)."""
    return tuple(
        entry for entry, following in zip(epochs, [*epochs[1:], None], strict=True)
        if following is None or following[1] != entry[1]
    )
