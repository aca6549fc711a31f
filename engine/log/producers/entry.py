"""What the log remembers of one producer. Mirrors ProducerStateEntry, BatchMetadata, TxnMetadata, CompletedTxn."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.formats import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, ProducerSnapshotEntry, to_int
from engine.kernels.tables import KEPT_BATCHES
from engine.record.sequences import decrement_sequence, last_sequence

if TYPE_CHECKING:
    from engine.log.scan.producer_rows import ProducerRow

BATCHES_TO_RETAIN = KEPT_BATCHES


class BatchMetadata(NamedTuple):
    """A batch that was appended."""

    last_seq: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_seq(self) -> int:
        """Sequence of the first record."""
        return decrement_sequence(self.last_seq, self.offset_delta)

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta


class TxnMetadata(NamedTuple):
    """An open transaction: who, and from which offset on."""

    producer_id: int
    first_offset: int


class CompletedTxn(NamedTuple):
    """A transaction that had data and found its marker, at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerStateEntry:
    """One producer: epochs, the last BATCHES_TO_RETAIN batches, the open transaction's first offset (None: none open)."""

    __slots__ = ("batches", "coordinator_epoch", "current_txn_first_offset", "last_timestamp", "producer_epoch", "producer_id")

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = NO_TIMESTAMP,
        current_txn_first_offset: int | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_txn_first_offset = current_txn_first_offset
        self.batches: tuple[BatchMetadata, ...] = ()

    @classmethod
    def of_snapshot(cls, entry: ProducerSnapshotEntry) -> ProducerStateEntry:
        """The producer that an entry describes: of its batches the last."""
        open_since = entry.current_txn_first_offset
        state = cls(
            entry.producer_id, entry.producer_epoch, entry.coordinator_epoch, entry.timestamp,
            None if open_since == -1 else open_since,
        )  # fmt: skip
        if entry.last_offset >= 0:
            state.batches = (BatchMetadata(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp),)
        return state

    def to_snapshot(self) -> ProducerSnapshotEntry:
        """What a snapshot keeps: of the batches only the last."""
        last = self.batches[-1] if self.batches else BatchMetadata(NO_SEQUENCE, -1, 0, NO_TIMESTAMP)
        open_since = self.current_txn_first_offset
        return ProducerSnapshotEntry(
            self.producer_id, self.producer_epoch, last.last_seq, last.last_offset, to_int(last.offset_delta),
            self.last_timestamp, self.coordinator_epoch, -1 if open_since is None else open_since,
        )  # fmt: skip

    @property
    def is_empty(self) -> bool:
        """Is no batch remembered?"""
        return not self.batches

    @property
    def last_seq(self) -> int:
        """Sequence of the last record, NO_SEQUENCE without batches."""
        return self.batches[-1].last_seq if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        """Offset of the last record that is no marker, −1 without batches."""
        return self.batches[-1].last_offset if self.batches else -1

    def without_batches(self) -> ProducerStateEntry:
        """A copy that remembers no batch (withProducerId)."""
        return ProducerStateEntry(
            self.producer_id, self.producer_epoch, self.coordinator_epoch, self.last_timestamp,
            self.current_txn_first_offset,
        )  # fmt: skip

    def add_batch(self, producer_epoch: int, batch: BatchMetadata) -> None:
        """Remember a batch; one of another epoch than the last puts all earlier ones out of mind."""
        self._set_epoch(producer_epoch)
        self.batches = (*self.batches, batch)[-BATCHES_TO_RETAIN:]
        self.last_timestamp = batch.timestamp

    def end_transaction(self, producer_epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        """Take in a marker."""
        self._set_epoch(producer_epoch)
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = None
        self.last_timestamp = timestamp

    def update(self, newer: ProducerStateEntry) -> None:
        """Take over what came since."""
        self._set_epoch(newer.producer_epoch)
        self.batches = (*self.batches, *newer.batches)[-BATCHES_TO_RETAIN:]
        self.coordinator_epoch = newer.coordinator_epoch
        self.current_txn_first_offset = newer.current_txn_first_offset
        self.last_timestamp = newer.last_timestamp

    def find_duplicate(self, row: ProducerRow) -> BatchMetadata | None:
        """The remembered batch with the same epoch and sequences."""
        if row.producer_epoch != self.producer_epoch:
            return None
        wanted = (row.base_sequence, last_sequence(row.base_sequence, row.last_offset - row.base_offset))
        return next((batch for batch in self.batches if (batch.first_seq, batch.last_seq) == wanted), None)

    def _set_epoch(self, producer_epoch: int) -> None:
        if self.producer_epoch != producer_epoch:
            self.batches = ()
            self.producer_epoch = producer_epoch
