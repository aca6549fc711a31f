"""The history of a leader: its leader epochs, and the remote segments that belong to them. Mirrors RemoteLogManager.

The leader-epoch-checkpoint of a leader records which epoch wrote which offsets. Segments of another history, which an unclean
election discarded, stay in the store, but leaders neither read nor count them.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.checkpoint.checkpoints import EpochEntry
    from engine.remote.metadata import Epochs, PartitionMetadata, RemoteSegment


class Lineage:
    """The leader epochs of a log after its broker has loaded it, and the log end offset."""

    def __init__(self, entries: Sequence[EpochEntry], log_end_offset: int) -> None:
        self.entries = tuple(entries)
        self.log_end_offset = log_end_offset
        self._starts = [entry.start_offset for entry in entries]
        self._of = {entry.epoch: entry.start_offset for entry in entries}

    def epoch_of(self, offset: int) -> int | None:
        """Return the epoch that wrote `offset`; None before the first one (LeaderEpochFileCache.epochForOffset)."""
        at = bisect_right(self._starts, offset)
        return self.entries[at - 1].epoch if at else None

    def following(self, epoch: int) -> tuple[int, int] | None:
        """Return (epoch, start offset) of the first later epoch; None: `epoch` is the last one."""
        return next(((entry.epoch, entry.start_offset) for entry in self.entries if entry.epoch > epoch), None)

    def end_of(self, epoch: int) -> int:
        """Return the offset after the last one of `epoch`."""
        following = self.following(epoch)
        return self.log_end_offset if following is None else following[1]

    def segment(self, partition: PartitionMetadata, offset: int) -> RemoteSegment | None:
        """Return the remote segment from which a leader reads `offset` (fetchRemoteLogSegmentMetadata)."""
        epoch = self.epoch_of(offset)
        return None if epoch is None else partition.segment(epoch, offset)

    def highest_remote_offset(self, partition: PartitionMetadata) -> int:
        """Return the last copied offset; −1: unknown (findHighestRemoteOffset)."""
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
        if first != earliest and start < self._of[first]:  # the start of the earliest epoch may have been deleted
            return False
        for (epoch, _), expected in zip(common, [*common[1:], None], strict=True):
            following = self.following(epoch)
            if epoch not in self._of or (expected is not None and following != expected):
                return False
        following = self.following(last)
        if following is not None and segment.end_offset >= following[1]:
            return False
        return segment.end_offset < self.log_end_offset


def with_records(epochs: Epochs) -> Epochs:
    """Remove epochs without a record: the next epoch has the same start offset (buildFilteredLeaderEpochMap)."""
    return tuple(
        entry for entry, following in zip(epochs, [*epochs[1:], None], strict=True)
        if following is None or following[1] != entry[1]
    )
