"""What the batches of a log say of each producer: the 46 bytes of a snapshot's entry and 9 more. There may be a million."""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING

from engine.formats import PRODUCER_SNAPSHOT_ENTRY, to_int
from engine.kernels.producers import differing_entry
from engine.log.producers.table import ProducerTable
from engine.record.sequences import increment_sequence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.files import Buffer
    from engine.formats import ProducerSnapshotEntry

_SIZE = PRODUCER_SNAPSHOT_ENTRY.size
_AT = PRODUCER_SNAPSHOT_ENTRY.positions
_BATCH_AT, _BATCH = _AT["producer_epoch"], struct.Struct(">hiqiq")  # up to the timestamp
_NO_DATA = struct.Struct(">iqi")  # last sequence, last offset, offset delta
_ROOM = 1024  # producers that there is room for at once


class SeenProducers(ProducerTable):
    """Producers by id, each with a number that stays. Mirrors ProducerStateEntry, of whose batches it keeps the last.

    marker_offsets  by number: where the last marker stands, −1: none came
    has_data        by number: has the open transaction records, or did the cleaner take them all?
    """

    def __init__(self) -> None:
        super().__init__(keeps_batches=False)
        self.marker_offsets = array("q")
        self.has_data = bytearray()

    def number_of(self, producer_id: int) -> int:
        """The number of a producer, which is made known where it is not."""
        number = self.find_or_add(producer_id)
        if number >= len(self.marker_offsets):
            self.marker_offsets.extend(array("q", (-1,)) * _ROOM)
            self.has_data += bytes(_ROOM)
        return number

    def find(self, producer_id: int) -> tuple[ProducerSnapshotEntry, int] | None:
        """What a snapshot would say of a producer, and where its last marker stands; None: nothing was seen of it."""
        number = self._find(producer_id)
        if number < 0:
            return None
        return PRODUCER_SNAPSHOT_ENTRY.read(self._entries, number * _SIZE), self.marker_offsets[number]

    def append(self, number: int, epoch: int, first: int, last: int, base_sequence: int, timestamp: int) -> None:
        """A batch with data."""
        sequence = increment_sequence(base_sequence, last - first) if base_sequence >= 0 else -1
        _BATCH.pack_into(self._entries, number * _SIZE + _BATCH_AT, epoch, sequence, last, to_int(last - first), timestamp)

    def txn_first_offset(self, number: int) -> int:
        """Where the producer's open transaction begins, −1: none is open."""
        return PRODUCER_SNAPSHOT_ENTRY.field("current_txn_first_offset", self._entries, number * _SIZE)

    def begin(self, number: int, first_offset: int) -> None:
        """A transaction begins."""
        PRODUCER_SNAPSHOT_ENTRY.put("current_txn_first_offset", self._entries, number * _SIZE, first_offset)

    def end(self, number: int, epoch: int, coordinator_epoch: int, timestamp: int, offset: int) -> None:
        """A marker at `offset`."""
        at = number * _SIZE
        if PRODUCER_SNAPSHOT_ENTRY.field("producer_epoch", self._entries, at) != epoch:
            _NO_DATA.pack_into(self._entries, at + _AT["last_sequence"], -1, -1, 0)
        for name, value in (("producer_epoch", epoch), ("coordinator_epoch", coordinator_epoch), ("timestamp", timestamp),
                            ("current_txn_first_offset", -1)):
            PRODUCER_SNAPSHOT_ENTRY.put(name, self._entries, at, value)
        self.marker_offsets[number], self.has_data[number] = offset, 0

    def differing(self, pieces: Iterable[Buffer]) -> Iterator[ProducerSnapshotEntry]:
        """The entries in `pieces` of a snapshot of which not just the same was seen."""
        for piece in pieces:
            view = memoryview(piece)
            at = self._differing(view, 0)
            while len(view) - at >= _SIZE:
                yield PRODUCER_SNAPSHOT_ENTRY.read(view, at)
                at = self._differing(view, at + _SIZE)

    def _differing(self, view: memoryview, at: int) -> int:
        entries, heads, links, _ = self._views
        return int(differing_entry(view, at, entries, heads, links))
