"""The producers of a partition by id, in 46 bytes each, as in a snapshot, and little more; and their transactions."""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from engine.checkpoint.producer_snapshot import entries_of
from engine.formats import PRODUCER_SNAPSHOT_ENTRY, ProducerSnapshotEntry
from engine.kernels.producers import (
    OpenTransactions,
    Producers,
    add_producer,
    apply_batches,
    close_transaction,
    find_producer,
    first_of_others,
    gather_entries,
    keep_batches,
    known_entry,
    link_buckets,
    link_chains,
    load_entries,
    open_transaction,
)
from engine.kernels.tables import Applied, Bound, TableState
from engine.log.producers.entry import BatchMetadata, ProducerStateEntry, TxnMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.files import Buffer

_OPEN_ROOM = 16  # transactions to allocate space for at least


class Transactions:
    """Open transactions by first offset, the lowest first: two columns of 8 bytes, which kernels use too."""

    def __init__(self) -> None:
        self._offsets, self._producers = array("q"), array("q")
        self._bounds = array("q", (0, 0))

    def __len__(self) -> int:
        return self._bounds[Bound.TO] - self._bounds[Bound.FROM]

    @property
    def columns(self) -> tuple[memoryview, memoryview, memoryview]:
        """First offsets, producers, and the range of valid rows, see kernels.producers."""
        return memoryview(self._offsets), memoryview(self._producers), memoryview(self._bounds)

    def make_room(self) -> None:
        """Allocate space for one more."""
        start, end = self._bounds
        if end < len(self._offsets):
            return
        more = bytes(8 * max(_OPEN_ROOM, end - start))
        self._offsets = self._offsets[start:end] + array("q", more)
        self._producers = self._producers[start:end] + array("q", more)
        self._bounds[Bound.FROM], self._bounds[Bound.TO] = 0, end - start

    def put(self, txn: TxnMetadata) -> None:
        """Add `txn`; it replaces one with the same first offset."""
        self.make_room()
        open_transaction(*self.columns, txn.first_offset, txn.producer_id)

    def take(self, first_offset: int) -> bool:
        """Remove the transaction that begins at `first_offset`. Returns whether there was one."""
        return bool(close_transaction(*self.columns, first_offset) == Applied.DONE)

    def first(self) -> TxnMetadata | None:
        """The transaction with the lowest first offset."""
        return self._at(self._bounds[Bound.FROM]) if len(self) else None

    def first_of_others(self, producer_id: int) -> TxnMetadata | None:
        """The transaction with the lowest first offset of other producers."""
        at = first_of_others(*self.columns[1:], producer_id)
        return self._at(at) if at >= 0 else None

    def below(self, offset: int) -> Iterator[TxnMetadata]:
        """Yield the transactions that begin below `offset`, the lowest first."""
        start, end = self._bounds
        for row in range(start, bisect_left(self._offsets, offset, start, end)):
            yield self._at(row)

    def _at(self, row: int) -> TxnMetadata:
        return TxnMetadata(self._producers[row], self._offsets[row])

    def clear(self) -> None:
        """Remove all."""
        del self._offsets[:], self._producers[:]
        self._bounds[Bound.FROM] = self._bounds[Bound.TO] = 0


class EndedTransactions:
    """Ended transactions by the offset of their marker, for one query: the lowest first offset among those not below X.

    During recovery X stays below all of them, and there may be millions. A transaction that began later than another one and
    ended before it is never the result, so it is not stored. Each stored one needs 16 bytes.
    """

    def __init__(self) -> None:
        self._first, self._last = array("q"), array("q")  # both ascending

    def __len__(self) -> int:
        return len(self._last)

    @property
    def first_offset(self) -> int | None:
        """The lowest first offset."""
        return self._first[0] if self._first else None

    def put(self, first_offset: int, last_offset: int) -> None:
        """Add the transaction from `first_offset` to its marker at `last_offset`."""
        if not self._last or (last_offset > self._last[-1] and first_offset > self._first[-1]):
            self._first.append(first_offset)
            self._last.append(last_offset)
            return
        at = bisect_left(self._last, last_offset)
        if at < len(self._last) and self._first[at] <= first_offset:
            return
        end = bisect_right(self._last, last_offset, at)
        start = bisect_left(self._first, first_offset, 0, end)
        self._first[start:end] = array("q", (first_offset,))
        self._last[start:end] = array("q", (last_offset,))

    def remove_ended_below(self, offset: int) -> None:
        """Remove those whose marker is below `offset`."""
        at = bisect_left(self._last, offset)
        del self._first[:at], self._last[:at]

    def clear(self) -> None:
        """Remove all."""
        del self._first[:], self._last[:]


_SIZE = PRODUCER_SNAPSHOT_ENTRY.size
_BATCH = struct.Struct(">iqiq")  # BatchMetadata
_FIRST_CAPACITY = 16  # of Java's HashMap
_ROOM = 64  # entries to allocate space for at least
_MOST_CHAINS = 1 << 16  # for putting entries in order, unless there are four times as many buckets
_PIECE = 16_384  # entries that are returned at once


class ProducerTable:
    """A mapping of producer ids to entries, in the order of Java's HashMap. Entries are copies: a change needs `put`.

    keeps_batches  store the last batches of each producer, not only the very last. They need more memory than all the rest,
                   and exist only for producers that were `put`
    """

    def __init__(self, *, keeps_batches: bool = True) -> None:
        self._keeps_batches = keeps_batches
        self._state = array("q", (0, _FIRST_CAPACITY))
        self.clear()

    def clear(self) -> None:
        """Remove every producer. The capacity stays, as in a HashMap."""
        self._entries = bytearray(_ROOM * _SIZE)
        self._links = array("i", bytes(4 * _ROOM))
        self._heads = array("i", bytes(4 * _ROOM))
        self._state[TableState.COUNT] = 0
        self._batches: dict[int, bytes] = {}  # by producer: all last batches, if they are known

    def __len__(self) -> int:
        return self._state[TableState.COUNT]

    def __contains__(self, producer_id: int) -> bool:
        return self._find(producer_id) >= 0

    def __iter__(self) -> Iterator[int]:
        """Iterate over the ids. Later changes may be included or not."""
        for stored in entries_of(self.pieces()):
            yield stored.producer_id

    def values(self) -> Iterator[ProducerStateEntry]:
        """Iterate over the entries. Later changes may be included or not."""
        return map(self._entry, entries_of(self.pieces()))

    def get(self, producer_id: int) -> ProducerStateEntry | None:
        """A copy of the producer's entry; None: there is none."""
        number = self._find(producer_id)
        if number < 0:
            return None
        return self._entry(PRODUCER_SNAPSHOT_ENTRY.read(self._entries, number * _SIZE))

    def last_offset(self, producer_id: int) -> int:
        """Last offset of the producer's last batch; −1: it has none."""
        number = self._find(producer_id)
        return -1 if number < 0 else PRODUCER_SNAPSHOT_ENTRY.field("last_offset", self._entries, number * _SIZE)

    def find_or_add(self, producer_id: int) -> int:
        """The number of the producer's entry; a new one is added. It does not change until `clear`."""
        number = self._find(producer_id)
        while number < 0:
            number = add_producer(*self._views, producer_id)
            if number < 0:
                self._make_room()
        return number

    def put(self, entry: ProducerStateEntry) -> None:
        """Set the entry of its producer."""
        number = self.find_or_add(entry.producer_id)
        PRODUCER_SNAPSHOT_ENTRY.struct.pack_into(self._entries, number * _SIZE, *entry.to_snapshot())
        batches = entry.batches
        if self._keeps_batches and batches and (len(batches) > 1 or batches[0].timestamp != entry.last_timestamp):
            self._batches[entry.producer_id] = b"".join(_BATCH.pack(*batch) for batch in batches)
        else:
            self._batches.pop(entry.producer_id, None)

    def set_last_batches(self, producer_id: int, batches: Sequence[BatchMetadata]) -> None:
        """Set the last batches of a producer. The very last one in its entry stays."""
        self._batches[producer_id] = b"".join(_BATCH.pack(*batch) for batch in batches)

    def forget_batches(self) -> None:
        """Remove the batches of all producers except the very last one."""
        self._batches.clear()

    def known(self, data: memoryview) -> Iterator[memoryview]:
        """Yield the entries of a snapshot in `data` whose producers are in the table."""
        at = known_entry(data, 0, *self._views[:3])
        while len(data) - at >= _SIZE:
            yield data[at : at + _SIZE]
            at = known_entry(data, at + _SIZE, *self._views[:3])

    def keep_batches(self, rows: memoryview, kept: memoryview) -> None:
        """See kernels.producers.keep_batches."""
        keep_batches(rows, *self._views[:3], kept)

    # ---- many entries at once

    def load(self, data: Buffer, now: int, expiration_ms: int, ongoing: Transactions) -> None:
        """Load the entries of a snapshot and their open transactions, except expired ones."""
        view, at, status = memoryview(data), 0, int(Applied.NO_ROOM)
        while status == Applied.NO_ROOM:
            at, status = load_entries(view, at, now, expiration_ms, Producers(*self._views), OpenTransactions(*ongoing.columns))
            self._answer(status, ongoing)

    def add_rows(
        self, rows: memoryview, at: int, ongoing: Transactions, ended: memoryview, *, reports_all: bool
    ) -> tuple[int, bool, int]:
        """Add batches (kernels.producers.apply_batches). Returns (row that was not added, is it refused?, bytes of `ended`).

        Stops before the last column if `ended` is full. Only the last batch of each producer is stored.
        """
        self._batches.clear()
        at, status, size = apply_batches(rows, at, Producers(*self._views), OpenTransactions(*ongoing.columns), ended,
                                        reports_all)  # fmt: skip
        self._answer(status, ongoing)
        return at, status == Applied.REFUSED, size

    def pieces(self) -> Iterator[memoryview]:
        """Yield the bytes of all entries, some at a time."""
        count, capacity = len(self), self._state[TableState.CAPACITY]
        chains = capacity if capacity <= _MOST_CHAINS else max(_MOST_CHAINS, capacity // 4)
        heads, links = (memoryview(array("i", bytes(4 * size))) for size in (chains, max(1, count)))
        link_buckets(memoryview(self._entries), count, heads, links)
        cursor = memoryview(array("q", (0, 0)))
        while count > 0:
            piece = memoryview(bytearray(min(count, _PIECE) * _SIZE))
            size = gather_entries(memoryview(self._entries), heads, links, capacity, cursor, piece)
            yield piece[:size]
            count -= _PIECE

    # ---- memory

    @property
    def _views(self) -> tuple[memoryview, memoryview, memoryview, memoryview]:
        return memoryview(self._entries), memoryview(self._heads), memoryview(self._links), memoryview(self._state)

    def _answer(self, status: int, ongoing: Transactions) -> None:
        """Do what a kernel requests."""
        if status == Applied.BAD_START:
            raise AssertionError("columns of producers do not match")
        if status == Applied.NO_ROOM:
            self._make_room()
            ongoing.make_room()

    def _make_room(self) -> None:
        """Allocate space for one more entry, and enough chains to keep them short."""
        count, room = len(self), len(self._links)
        if count < room:
            return
        more = max(_ROOM, count // 16)
        self._entries += bytes(more * _SIZE)
        self._links.frombytes(bytes(4 * more))
        if count + more > 2 * len(self._heads):
            self._heads = array("i", bytes(8 * len(self._heads)))
            link_chains(memoryview(self._entries), count, memoryview(self._heads), memoryview(self._links))

    def _find(self, producer_id: int) -> int:
        entries, heads, links, _ = self._views
        return int(find_producer(entries, heads, links, producer_id))

    def _entry(self, stored: ProducerSnapshotEntry) -> ProducerStateEntry:
        entry = ProducerStateEntry.of_snapshot(stored)
        batches = self._batches.get(stored.producer_id)
        if batches is not None:
            entry.batches = tuple(map(BatchMetadata._make, _BATCH.iter_unpack(batches)))
        return entry
