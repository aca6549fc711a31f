"""The history of a replica: its leader epochs, and where a follower with other epochs truncates its log (KIP-101, KIP-279)."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.checkpoints import EpochEntry, read_leader_epochs
from engine.discovery.names import FileKind
from engine.log.epochs.leader_epoch_cache import put_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.fetch.view import PartitionView


class Lineage(NamedTuple):
    """The leader epochs of a log that ends before the offset `end`, ascending.

    is_from_batches  leader-epoch-checkpoint is missing, empty or malformed: a broker does not know these epochs
    """

    epochs: tuple[EpochEntry, ...]
    end: int
    is_from_batches: bool = False

    @property
    def last_epoch(self) -> int | None:
        """The latest epoch; None: there is none."""
        return self.epochs[-1].epoch if self.epochs else None

    def end_offset_for(self, epoch: int) -> EpochEntry | None:
        """The largest epoch up to `epoch`, with the offset at which it ends; None: `epoch` is above all epochs.

        An epoch below all others ends where the first one begins. Mirrors LeaderEpochFileCache.endOffsetFor.
        """
        if epoch == self.last_epoch:
            return EpochEntry(epoch, self.end)
        at = bisect_right(self.epochs, epoch, key=lambda entry: entry.epoch)
        if at == len(self.epochs):
            return None
        return EpochEntry(self.epochs[at - 1].epoch if at else epoch, self.epochs[at].start_offset)

    def epoch_at(self, offset: int) -> int | None:
        """The epoch of the record at `offset`; None: not known."""
        at = bisect_right(self.epochs, offset, key=lambda entry: entry.start_offset)
        return self.epochs[at - 1].epoch if at else None

    def truncated(self, end: int) -> Lineage:
        """The lineage of the log after it was truncated to `end`."""
        return self._replace(epochs=tuple(entry for entry in self.epochs if entry.start_offset < end), end=end)

    def as_new_leader(self, epoch: int) -> Lineage:
        """The lineage of the log when its replica becomes the leader in `epoch`, which begins at the end of the log."""
        return self._replace(epochs=(*self.epochs, EpochEntry(epoch, self.end)))


def truncation_offset(follower: Lineage, leader: Lineage) -> int | None:
    """The offset to which `follower` truncates its log when the replica with `leader` is elected; None: its high watermark.

    Mirrors AbstractFetcherThread.getOffsetTruncationState, repeated until it is complete. A replica without any epoch does not
    ask its leader, and truncates to its high watermark.
    """
    if not follower.epochs:
        return None
    highest = max(entry.epoch for entry in (*follower.epochs, *leader.epochs))
    leader = leader.as_new_leader(highest + 1)
    while follower.epochs:
        answer = leader.end_offset_for(follower.epochs[-1].epoch)
        if answer is None:  # cannot happen: the epoch of the new leader is above all
            return None
        own = follower.end_offset_for(answer.epoch)
        if own is None or own.epoch == answer.epoch:
            return min(answer.start_offset, follower.end if own is None else own.start_offset, follower.end)
        follower = follower.truncated(min(own.start_offset, follower.end))
    return follower.end


def read_lineage(files: ReadOnlyFiles, view: PartitionView, report: Callable[[Finding], None]) -> Lineage:
    """Read the lineage of an open log, as a broker has it after loading the log. Raises UnreadableFile.

    report  called with the problems of a leader-epoch-checkpoint that Kafka does not read; the epochs are then those of batches
    """
    path = f"{view.directory}/{FileKind.LEADER_EPOCH_CHECKPOINT.value}"
    if files.exists(path):
        checkpoint = read_leader_epochs(files, path)
        if checkpoint.fault is None and all(entry.epoch >= 0 <= entry.start_offset for entry in checkpoint.entries):
            entries = _as_loaded(checkpoint.entries, view.log_start_offset, view.log_end_offset)
            if entries or view.log_end_offset == view.log_start_offset:
                return Lineage(entries, view.log_end_offset)
        else:
            for finding in checkpoint.findings:
                report(finding)
    from engine.log.loading.epoch_repair import epochs_in_logs  # imports what opens logs for changes

    found = _as_loaded(epochs_in_logs(files, view.directory), view.log_start_offset, view.log_end_offset)
    return Lineage(found, view.log_end_offset, is_from_batches=True)


def _as_loaded(entries: Iterable[EpochEntry], start: int, end: int) -> tuple[EpochEntry, ...]:
    """The entries as a broker has them: of contradicting ones the later, none before the log start or after its end."""
    kept: list[EpochEntry] = []
    for entry in entries:
        put_entry(kept, entry)
    before = [EpochEntry(entry.epoch, start) for entry in kept if entry.start_offset <= start][-1:]
    return (*before, *(entry for entry in kept if start < entry.start_offset <= end))
