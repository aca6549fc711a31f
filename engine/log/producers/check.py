"""Check transaction indexes and producer snapshots of a partition against its batches, in one walk over the log.

The state of every producer is computed from the log start offset on, as ProducerStateManager does when it rebuilds. Batches
before the first one are not known, and the cleaner removes batches: then only contradictions to the batches are reported.
"""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING, NamedTuple

from engine.findings import Finding, Where
from engine.formats import (
    CONTROL_FLAG,
    INT_MAX,
    LONG_MIN,
    PRODUCER_SNAPSHOT_ENTRY,
    TRANSACTIONAL_FLAG,
    BatchField,
    ControlType,
    to_int,
)
from engine.kernels.producers import Producers, differing_entry, follow_batches
from engine.kernels.verify import first_from, next_hole
from engine.log.finding_limits import FileFindings
from engine.log.producers.table import ProducerTable
from engine.log.segment.producer_rows import unreadable_marker
from engine.record.columns import RecordColumns
from engine.record.control import ControlRecordInvalid, increment_sequence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.checkpoint.producer_snapshot import ProducerSnapshot
    from engine.files import Buffer
    from engine.formats import AbortedTxn, ProducerSnapshotEntry
    from engine.index.transaction import TransactionIndex
    from engine.record.windows import Window

    Report = Callable[[Finding], None]

_SIZE = PRODUCER_SNAPSHOT_ENTRY.size
_AT = PRODUCER_SNAPSHOT_ENTRY.positions
_BATCH_AT, _BATCH = _AT["producer_epoch"], struct.Struct(">hiqiq")  # up to the timestamp
_NO_DATA = struct.Struct(">iqi")  # last sequence, last offset, offset delta
_ROOM = 1024  # producers to allocate space for at once


def is_sequence_before(last: int, sequence: int) -> bool:
    """Is `sequence` at or before `last`? After INT_MAX, numbers begin again at 0."""
    return (sequence - last - 1) & INT_MAX > INT_MAX // 2


class SeenProducers(ProducerTable):
    """Producers by id, each with a number that does not change. Mirrors ProducerStateEntry with its last batch only.

    marker_offsets  by number: offset of the last marker, −1: none was read
    has_data        by number: does the open transaction have records, or did the cleaner remove all of them?
    """

    def __init__(self) -> None:
        super().__init__(keeps_batches=False)
        self.marker_offsets = array("q")
        self.has_data = bytearray()

    def number_of(self, producer_id: int) -> int:
        """The number of a producer; a new producer is added."""
        number = self.find_or_add(producer_id)
        if number >= len(self.marker_offsets):
            self.marker_offsets.extend(array("q", (-1,)) * _ROOM)
            self.has_data += bytes(_ROOM)
        return number

    def find(self, producer_id: int) -> tuple[ProducerSnapshotEntry, int] | None:
        """The snapshot entry of a producer and the offset of its last marker; None: it has no batch or marker."""
        number = self._find(producer_id)
        if number < 0:
            return None
        return PRODUCER_SNAPSHOT_ENTRY.read(self._entries, number * _SIZE), self.marker_offsets[number]

    def sequence_before(self, number: int, epoch: int, base_sequence: int) -> int | None:
        """The last sequence number of the producer, if a batch with `base_sequence` cannot follow it in the log; else None.

        Sequence numbers rise, and begin again at 0 after INT_MAX. Compaction leaves gaps. 0 is not checked: a group coordinator
        writes it into all its transactional batches.
        """
        known, last, *_ = _BATCH.unpack_from(self._entries, number * _SIZE + _BATCH_AT)
        is_known = known == epoch and last >= 0 and base_sequence > 0
        return int(last) if is_known and is_sequence_before(last, base_sequence) else None

    def append(self, number: int, epoch: int, first: int, last: int, base_sequence: int, timestamp: int) -> None:
        """Add a batch with data."""
        sequence = increment_sequence(base_sequence, last - first) if base_sequence >= 0 else -1
        _BATCH.pack_into(self._entries, number * _SIZE + _BATCH_AT, epoch, sequence, last, to_int(last - first), timestamp)

    def follow(self, batches: memoryview, row: int, last_row: int) -> int:
        """Add the batches from `row` on; returns the first one that needs more, see kernels.producers.follow_batches."""
        return int(follow_batches(batches, row, last_row, Producers(*self._views), memoryview(self.has_data)))

    def txn_first_offset(self, number: int) -> int:
        """First offset of the producer's open transaction; −1: none is open."""
        return PRODUCER_SNAPSHOT_ENTRY.field("current_txn_first_offset", self._entries, number * _SIZE)

    def begin(self, number: int, first_offset: int) -> None:
        """Begin a transaction."""
        PRODUCER_SNAPSHOT_ENTRY.put("current_txn_first_offset", self._entries, number * _SIZE, first_offset)

    def end(self, number: int, epoch: int, coordinator_epoch: int, timestamp: int, offset: int) -> None:
        """Add a marker at `offset`."""
        at = number * _SIZE
        if PRODUCER_SNAPSHOT_ENTRY.field("producer_epoch", self._entries, at) != epoch:
            _NO_DATA.pack_into(self._entries, at + _AT["last_sequence"], -1, -1, 0)
        for name, value in (("producer_epoch", epoch), ("coordinator_epoch", coordinator_epoch), ("timestamp", timestamp),
                            ("current_txn_first_offset", -1)):
            PRODUCER_SNAPSHOT_ENTRY.put(name, self._entries, at, value)
        self.marker_offsets[number], self.has_data[number] = offset, 0

    def differing(self, pieces: Iterable[Buffer]) -> Iterator[ProducerSnapshotEntry]:
        """Yield the snapshot entries in `pieces` that are not equal to the computed ones."""
        for piece in pieces:
            view = memoryview(piece)
            at = self._differing(view, 0)
            while len(view) - at >= _SIZE:
                yield PRODUCER_SNAPSHOT_ENTRY.read(view, at)
                at = self._differing(view, at + _SIZE)

    def _differing(self, view: memoryview, at: int) -> int:
        entries, heads, links, _ = self._views
        return int(differing_entry(view, at, entries, heads, links))


_FIELDS = (
    BatchField.PRODUCER_ID, BatchField.PRODUCER_EPOCH, BatchField.ATTRIBUTES, BatchField.BASE_OFFSET,
    BatchField.LAST_OFFSET, BatchField.BASE_SEQUENCE, BatchField.MAX_TIMESTAMP, BatchField.COUNT,
)
_IDS = struct.Struct(f">q{PRODUCER_SNAPSHOT_ENTRY.size - 8}x")  # producer ids in entries of a snapshot


class Aborted(NamedTuple):
    """An abort marker at offset `last_offset`, with the values of its index entry; `first_offset` −1: not known."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    has_data: bool


def _row_at(table: memoryview, row: int, rows: int, offset: int) -> int:
    """The row after the batches from `row` on that end below `offset`, as a broker counts them for a snapshot there."""
    after: int = first_from(table, row, rows, offset)
    is_inside = after > row and table[BatchField.LAST_OFFSET, after - 1] >= offset
    return after - 1 if is_inside else after


class ProducerCheck:
    """Call it with every window of every log of a partition, in order.

    snapshots         the readable ones, by offset
    log_start_offset  batches that end before it are not part of the log any more; 0: all are, or it is not known
    """

    def __init__(
        self, snapshots: Iterable[tuple[int, ProducerSnapshot]], report: Report, log_start_offset: int = 0
    ) -> None:
        self._report, self._log_start_offset = report, log_start_offset
        self._due = sorted(snapshots, reverse=True, key=lambda item: item[0])
        self._producers = SeenProducers()
        self._open: dict[int, int] = {}  # producer → first offset of its open transaction
        self._first_offset: int | None = None  # of the log
        self._end = -1  # last offset so far
        self._base_offset = 0  # of the segment
        self._last_hole = LONG_MIN  # no offset is missing from here on
        self._aborted: list[Aborted] = []  # abort markers of this segment
        self._committed: set[int] = set()  # offsets of commit markers of this segment that its index lists
        self._named: set[int] = set()
        self._records = RecordColumns(8)
        self._log_path = ""

    @property
    def _has_holes(self) -> bool:
        return self._last_hole > LONG_MIN

    @property
    def _knows_all(self) -> bool:
        """Was the log read from its very first batch on, without a gap?"""
        return not self._has_holes and self._first_offset == 0

    def begin_segment(self, base_offset: int, index: TransactionIndex | None) -> None:
        """Start a segment with its transaction index."""
        self._base_offset = base_offset
        self._aborted.clear()
        self._committed.clear()
        self._named = set() if index is None else {txn.last_offset for txn in index}

    def feed(self, window: Window, log_path: str) -> None:
        """Process the window's batches, which come from `log_path`."""
        self._log_path = log_path
        table, row = window.batches.table, 0
        if self._first_offset is None:
            first = table[BatchField.BASE_OFFSET, 0]
            self._first_offset = max(first, self._log_start_offset)
            self._end = max(first - 1, LONG_MIN)
        if next_hole(table, 0, window.rows, self._end) < window.rows:
            self._last_hole = table[BatchField.LAST_OFFSET, window.rows - 1]
        if self._log_start_offset:
            row = _row_at(table, 0, window.rows, self._log_start_offset)
        while row < window.rows:
            after = _row_at(table, row, window.rows, self._due[-1][0]) if self._due else window.rows
            self._follow(window, row, after)
            row = after
            if row < window.rows:
                self._compare(*self._due.pop())
        self._end = table[BatchField.LAST_OFFSET, window.rows - 1]

    def _follow(self, window: Window, row: int, last_row: int) -> None:
        table, producers = window.batches.table, self._producers
        row = producers.follow(table, row, last_row)
        while row < last_row:
            producer, epoch, attributes, first, last, sequence, timestamp, count = (table[field, row] for field in _FIELDS)
            if attributes & CONTROL_FLAG:
                if count > 0:
                    self._marker(window, row)
            else:
                number = producers.number_of(producer)
                before = producers.sequence_before(number, epoch, sequence)
                if before is not None:
                    self._report_turn(window, row, before)
                producers.append(number, epoch, first, last, sequence, timestamp)
                if attributes & TRANSACTIONAL_FLAG:
                    if producers.txn_first_offset(number) < 0:
                        producers.begin(number, first)
                        self._open[producer] = first
                    producers.has_data[number] |= count > 0
            row = producers.follow(table, row + 1, last_row)

    def _report_turn(self, window: Window, row: int, last_sequence: int) -> None:
        if not window.batches.table[BatchField.VALID, row]:
            return  # a wrong checksum is reported already
        producer, epoch, _, first, _, sequence, *_ = (window.batches.table[field, row] for field in _FIELDS)
        where = Where(self._log_path, window.base + window.batches.table[BatchField.POSITION, row], first)
        what = f"producer {producer}, epoch {epoch}: sequence number {sequence} after {last_sequence}"
        self._report(Finding("sequence-order", where, what))

    def _marker(self, window: Window, row: int) -> None:
        """Process a control batch of a producer."""
        from engine.log.segment.recovery_walk import read_marker  # imports codecs; most logs have no markers

        table = window.batches.table
        producer, offset = table[BatchField.PRODUCER_ID, row], table[BatchField.BASE_OFFSET, row]
        try:
            marker = read_marker(window, row, self._records)
        except ControlRecordInvalid as error:
            if table[BatchField.VALID, row]:  # a wrong checksum is reported already
                self._report(unreadable_marker(window, row, self._log_path, error))
            return
        if marker is None:
            return
        number = self._producers.number_of(producer)
        first = self._producers.txn_first_offset(number)
        self._open.pop(producer, None)
        if marker.control_type is ControlType.ABORT:
            stable = min(self._open.values(), default=offset + 1)
            self._aborted.append(Aborted(producer, first, offset, stable, bool(self._producers.has_data[number])))
        elif offset in self._named and first >= 0:
            self._committed.add(offset)
        epoch = table[BatchField.PRODUCER_EPOCH, row]
        self._producers.end(number, epoch, marker.coordinator_epoch, marker.timestamp, offset)

    # ---- transaction index

    def end_segment(self, index: TransactionIndex | None, path: str) -> bool:
        """End the segment: compare it with its transaction index at `path`. Returns whether an entry is missing."""
        findings, is_incomplete = FileFindings(path, self._report), False
        entries: dict[int, tuple[int, AbortedTxn]] = {}
        if index is not None:
            for finding in index.sanity():
                self._report(finding)
            entries = {txn.last_offset: (number * index.entry_size, txn) for number, txn in enumerate(index)}
        for aborted in self._aborted:
            if aborted.last_offset in entries:
                position, txn = entries.pop(aborted.last_offset)
                what = self._contradiction(aborted, txn)
                if what:
                    findings.add("txnindex-mismatch", what, position, aborted.last_offset)
            elif aborted.has_data:
                what = (
                    f"no entry for the transaction of producer {aborted.producer_id} from offset {aborted.first_offset}, "
                    f"aborted at {aborted.last_offset}: not harmless"
                )
                findings.add("txnindex-incomplete", what, None, aborted.last_offset)
                is_incomplete = True
        for offset, (position, txn) in entries.items():
            if offset in self._committed:
                what = (f"producer {txn.producer_id} committed at offset {offset}: not harmless, read_committed consumers do "
                        "not see its records")
                findings.add("txnindex-mismatch", what, position, offset)
            elif self._knows_all or offset > self._end:
                what = f"no abort marker of producer {txn.producer_id} at offset {offset}"
                findings.add("txnindex-mismatch", what, position, offset)
        return is_incomplete

    def _contradiction(self, seen: Aborted, txn: AbortedTxn) -> str | None:
        """How `txn` contradicts the abort marker; None: it does not."""
        if txn.producer_id != seen.producer_id:
            return f"producer {txn.producer_id}, the abort marker there is of producer {seen.producer_id}"
        if not self._fits(txn.first_offset, seen.first_offset):
            found = f"begins at {seen.first_offset}" if seen.first_offset >= 0 else "has no records"
            return f"first offset {txn.first_offset}, the transaction {found}: not harmless"
        if not self._fits(txn.last_stable_offset, seen.last_stable_offset):
            return f"last stable offset {txn.last_stable_offset}, it was {seen.last_stable_offset}"
        return None

    def _fits(self, stored: int, seen: int) -> bool:
        """May the offset `stored` be right, if the batches say `seen`? It may be lower, in batches that were deleted.

        It may be higher too: a transaction from `seen` on may have ended in batches that no longer exist.
        """
        if stored == seen or (stored > seen >= 0 and seen < self._last_hole):
            return True
        is_deleted = self._has_holes or stored < (self._first_offset or 0)
        return is_deleted and (seen < 0 or stored < seen)

    # ---- snapshots

    def finish(self) -> None:
        """End the log: compare the remaining snapshots. Those after its end describe other batches."""
        end = max(self._end + 1, self._base_offset)
        for offset, snapshot in reversed(self._due):
            if offset <= end:
                self._compare(offset, snapshot)
        self._due.clear()

    def _compare(self, offset: int, snapshot: ProducerSnapshot) -> None:
        """Compare a snapshot with the state at its offset. Producers that are missing in it may have expired."""
        findings = FileFindings(snapshot.path, self._report)
        for entry in self._producers.differing(snapshot.pieces()):
            what = self._difference(entry)
            if what:
                findings.add("snapshot-mismatch", f"producer {entry.producer_id}: {what}", None, offset)
        unlisted = set(self._open) if self._knows_all else set()
        if unlisted:
            for piece in snapshot.pieces():
                unlisted.difference_update(producer for (producer,) in _IDS.iter_unpack(piece))
        for producer, first in self._open.items():
            if producer in unlisted:
                what = f"producer {producer} is missing, its transaction from offset {first} is open: not harmless"
                findings.add("snapshot-mismatch", what, None, offset)

    def _difference(self, stored: ProducerSnapshotEntry) -> str | None:
        """How `stored` contradicts the batches; None: it does not."""
        before = self._base_offset if self._first_offset is None else self._first_offset  # an empty log has no batch
        found = self._producers.find(stored.producer_id)
        if found is None:
            if self._knows_all or (stored.last_offset >= before and not self._has_holes):
                return f"last offset {stored.last_offset}, but it has no batch there"
            return None
        seen, marker_offset = found
        if stored.last_offset == marker_offset >= 0 and stored.offset_delta == 0:
            return None  # brokers before 1.1 stored the marker as the last batch
        # after an expiration a snapshot has only the later batches or markers of a producer; they may be in a gap
        is_marker_last = marker_offset > seen.last_offset or self._has_holes
        is_marker_alone = stored.last_offset == stored.last_sequence == -1 and is_marker_last
        if seen.last_offset > stored.last_offset and not is_marker_alone:
            return f"last offset {stored.last_offset}, but its last batch before that ends at {seen.last_offset}"
        if seen.last_offset < stored.last_offset:
            if self._has_holes or stored.last_offset < before:
                return None
            return f"last offset {stored.last_offset}, but its last batch before that ends at {seen.last_offset}"
        for name in ("last_sequence", "offset_delta", "producer_epoch", "coordinator_epoch", "timestamp"):
            value, right = getattr(stored, name), getattr(seen, name)
            if is_marker_alone and name in ("last_sequence", "offset_delta"):
                continue
            if name == "coordinator_epoch" and value == -1 and seen.last_offset > marker_offset:
                continue
            if value != right and (name in ("last_sequence", "offset_delta") or self._knows_all):
                return f"{name.replace('_', ' ')} {value}, but {right} in the batches"
        if not self._fits(stored.current_txn_first_offset, seen.current_txn_first_offset):
            what = f"open transaction from {stored.current_txn_first_offset}, but {seen.current_txn_first_offset}"
            return what + " in the batches: not harmless"
        return None
