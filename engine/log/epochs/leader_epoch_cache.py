"""The start offset of each leader epoch, stored in leader-epoch-checkpoint. Mirrors LeaderEpochFileCache (KIP-101).

Kafka writes the file in the background, this class at once. Queries that only a leader or a follower needs are left out: the
end of an epoch, and the epoch of an offset.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.checkpoint.checkpoints import EpochEntry, encode_leader_epochs, load_leader_epochs
from engine.discovery.names import FileKind
from engine.files import replace
from engine.log.append_errors import IllegalArgument

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.files import Files


def put_entry(entries: list[EpochEntry], entry: EpochEntry) -> bool:
    """Add `entry`, and remove the entries that are not below it in both epoch and offset. Returns whether `entries` changed.

    Mirrors LeaderEpochFileCache.assign.
    """
    if entries and entry.epoch == entries[-1].epoch and entry.start_offset >= entries[-1].start_offset:
        return False
    while entries and (entries[-1].epoch >= entry.epoch or entries[-1].start_offset >= entry.start_offset):
        entries.pop()
    entries.append(entry)
    return True


def within(entries: Iterable[EpochEntry], start_offset: int, end_offset: int) -> list[EpochEntry]:
    """Return entries of a log that begins at `start_offset` and ends before `end_offset`, as a file with them would have."""
    cache: list[EpochEntry] = []
    for entry in entries:
        put_entry(cache, entry)
    cache = [entry for entry in cache if entry.start_offset < end_offset]
    _begin_at(cache, start_offset)
    return cache


def _begin_at(entries: list[EpochEntry], start_offset: int) -> bool:
    """Remove the entries below `start_offset`; the last of them is kept with `start_offset` as its start. Was there one?"""
    at = bisect_right(entries, start_offset, key=lambda entry: entry.start_offset)
    if at:
        entries[:at] = [EpochEntry(entries[at - 1].epoch, start_offset)]
    return at > 0


class LeaderEpochFileCache:
    """The epochs of the partition in `directory`. Epochs and start offsets increase from entry to entry.

    Creates an empty file if there is none. Raises MalformedCheckpoint if Kafka cannot read the file, IllegalArgument for a
    negative epoch or offset in it.

    refuses_doubtful  ignore epochs of batches that other batches contradict (`runs.add_epochs`)
    rebuilt  entries that replace the file, which is not read; None: read the file
    """

    def __init__(self, files: Files, directory: str, rebuilt: Iterable[EpochEntry] | None = None) -> None:
        self.refuses_doubtful = False
        self._files = files
        self._path = f"{directory}/{FileKind.LEADER_EPOCH_CHECKPOINT.value}"
        self._entries: list[EpochEntry] = []
        self._stored = b""  # content of the file
        self._in_file: list[EpochEntry] = []  # entries in the file
        self._is_held = self._is_waiting = False  # are writes held back; does one wait?
        if rebuilt is not None:
            for entry in rebuilt:
                self._assign(entry)
            # without entries as it is made where there is none
            self._stored = encode_leader_epochs(self._entries) if self._entries else b""
            self._in_file = list(self._entries)
            replace(files, self._path, [self._stored])
        elif files.exists(self._path):
            self._stored, self._in_file = load_leader_epochs(files, self._path)
            for entry in self._in_file:
                self._assign(entry)
        else:
            files.open_writable(self._path, create=True).close()

    # ---- queries ----------------------------------------------------------------------------------

    @property
    def entries(self) -> list[EpochEntry]:
        """All entries, the oldest first."""
        return list(self._entries)

    @property
    def in_file(self) -> list[EpochEntry]:
        """All entries in the file, in its order. If entries contradict each other, Kafka uses the later ones."""
        return list(self._in_file)

    @property
    def is_empty(self) -> bool:
        """Is there no entry?"""
        return not self._entries

    @property
    def latest_epoch(self) -> int | None:
        """The newest epoch."""
        return self._entries[-1].epoch if self._entries else None

    def knows_from(self, offset: int) -> bool:
        """Does an epoch begin at or after `offset`?"""
        return bool(self._entries) and self._entries[-1].start_offset >= offset

    # ---- changes ----------------------------------------------------------------------------------

    @contextmanager
    def written_once(self) -> Iterator[None]:
        """Write the file after a block of changes, not at each of them, and only if its content changes.

        A recovery adds epochs from batches and then truncates them: often the result is what the file has. If the block
        raises, the next write includes its changes.
        """
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
        if self._is_waiting:
            self._write()

    def assign(self, epoch: int, start_offset: int) -> None:
        """Add `epoch`, which begins at `start_offset`, and write the file if it changes.

        Entries that are not below it in both epoch and offset are removed. Raises IllegalArgument for negative values.
        """
        if self._assign(EpochEntry(epoch, start_offset)):
            self._write()

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the entries that begin at or above `end_offset`."""
        if end_offset >= 0 and self._entries and self._entries[-1].start_offset >= end_offset:
            while self._entries and self._entries[-1].start_offset >= end_offset:
                self._entries.pop()
            self._write()

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove the entries below `start_offset`; the last of them is kept with `start_offset` as its start."""
        if _begin_at(self._entries, start_offset):  # write even without a change: entries of the file may have been refused
            self._write()

    def clear_and_flush(self) -> None:
        """Remove all entries and write the file."""
        self._entries.clear()
        self._write()

    def _assign(self, entry: EpochEntry) -> bool:
        if entry.epoch < 0 or entry.start_offset < 0:
            raise IllegalArgument(
                "Received invalid partition leader epoch entry "
                f"EpochEntry[epoch={entry.epoch}, startOffset={entry.start_offset}]"
            )
        return put_entry(self._entries, entry)

    def _write(self) -> None:
        self._is_waiting = self._is_held
        if self._is_held:
            return
        data = encode_leader_epochs(self._entries)
        if data != self._stored:
            replace(self._files, self._path, [data])
            self._stored, self._in_file = data, list(self._entries)
