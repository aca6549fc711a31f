"""The state of one producer: its last batches, by which a repeated batch is recognised, and its transaction.

Mirrors ProducerStateEntry, BatchMetadata, TxnMetadata, CompletedTxn.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from engine.formats import INT_MAX, NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, ControlType, ProducerSnapshotEntry, to_int
from engine.kernels.tables import KEPT_BATCHES
from engine.log.append_errors import (
    IllegalArgument,
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from engine.record.control import decrement_sequence, last_sequence

if TYPE_CHECKING:
    from engine.log.segment.producer_rows import ProducerRow, TxnMarker


BATCHES_TO_RETAIN = KEPT_BATCHES


class BatchMetadata(NamedTuple):
    """An appended batch."""

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
    """An open transaction: its producer and its first offset."""

    producer_id: int
    first_offset: int


class CompletedTxn(NamedTuple):
    """A transaction with data whose marker is at `last_offset`."""

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
        """The state from a snapshot entry, which has only the last batch."""
        open_since = entry.current_txn_first_offset
        state = cls(
            entry.producer_id, entry.producer_epoch, entry.coordinator_epoch, entry.timestamp,
            None if open_since == -1 else open_since,
        )  # fmt: skip
        if entry.last_offset >= 0:
            state.batches = (BatchMetadata(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp),)
        return state

    def to_snapshot(self) -> ProducerSnapshotEntry:
        """The snapshot entry, which has only the last batch."""
        last = self.batches[-1] if self.batches else BatchMetadata(NO_SEQUENCE, -1, 0, NO_TIMESTAMP)
        open_since = self.current_txn_first_offset
        return ProducerSnapshotEntry(
            self.producer_id, self.producer_epoch, last.last_seq, last.last_offset, to_int(last.offset_delta),
            self.last_timestamp, self.coordinator_epoch, -1 if open_since is None else open_since,
        )  # fmt: skip

    @property
    def is_empty(self) -> bool:
        """Does it have no batch?"""
        return not self.batches

    @property
    def last_seq(self) -> int:
        """Sequence of the last record, NO_SEQUENCE without batches."""
        return self.batches[-1].last_seq if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        """Offset of the last record that is not a marker, −1 without batches."""
        return self.batches[-1].last_offset if self.batches else -1

    def without_batches(self) -> ProducerStateEntry:
        """A copy without batches (withProducerId)."""
        return ProducerStateEntry(
            self.producer_id, self.producer_epoch, self.coordinator_epoch, self.last_timestamp,
            self.current_txn_first_offset,
        )  # fmt: skip

    def add_batch(self, producer_epoch: int, batch: BatchMetadata) -> None:
        """Add a batch. If its epoch differs from the last one, all earlier batches are removed."""
        self._set_epoch(producer_epoch)
        self.batches = (*self.batches, batch)[-BATCHES_TO_RETAIN:]
        self.last_timestamp = batch.timestamp

    def end_transaction(self, producer_epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        """Apply a marker."""
        self._set_epoch(producer_epoch)
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = None
        self.last_timestamp = timestamp

    def update(self, newer: ProducerStateEntry) -> None:
        """Apply a newer state."""
        self._set_epoch(newer.producer_epoch)
        self.batches = (*self.batches, *newer.batches)[-BATCHES_TO_RETAIN:]
        self.coordinator_epoch = newer.coordinator_epoch
        self.current_txn_first_offset = newer.current_txn_first_offset
        self.last_timestamp = newer.last_timestamp

    def find_duplicate(self, row: ProducerRow) -> BatchMetadata | None:
        """The stored batch with the same epoch and sequences."""
        if row.producer_epoch != self.producer_epoch:
            return None
        wanted = (row.base_sequence, last_sequence(row.base_sequence, row.last_offset - row.base_offset))
        return next((batch for batch in self.batches if (batch.first_seq, batch.last_seq) == wanted), None)

    def _set_epoch(self, producer_epoch: int) -> None:
        if self.producer_epoch != producer_epoch:
            self.batches = ()
            self.producer_epoch = producer_epoch


TRANSACTION_VERSION_UNKNOWN = -1
_SHORT_MAX = 2**15 - 1
_STRICT_VERSION = 2  # from this transaction version on, the epoch of a marker is higher than that of the transaction


class AppendOrigin(Enum):
    """Origin of an append; it decides what is checked."""

    REPLICATION = "replication"  # a follower or recovery: the leader has checked everything
    COORDINATOR = "coordinator"  # a group or transaction coordinator: no sequences
    CLIENT = "client"
    RAFT_LEADER = "raft-leader"


class ProducerAppendInfo:
    """The batches of one append by one producer. They are checked against its state, then passed to `update`.

    started  transactions that began
    """

    def __init__(self, topic_partition: str, current: ProducerStateEntry, origin: AppendOrigin) -> None:
        self.producer_id = current.producer_id
        self.entry = current.without_batches()
        self.started: list[TxnMetadata] = []
        self._topic_partition = topic_partition
        self._current = current
        self._origin = origin

    def append(self, row: ProducerRow, transaction_version: int = TRANSACTION_VERSION_UNKNOWN) -> CompletedTxn | None:
        """Add a batch. Returns the transaction that it completes. Raises AppendRefused.

        An empty control batch changes nothing: the cleaner has removed its transaction.
        """
        if not row.is_control:
            self._append_data(row)
            return None
        if row.marker is None:
            return None
        return self._append_marker(row, row.marker, transaction_version)

    def _append_data(self, row: ProducerRow) -> None:
        self._check_epoch(row.producer_epoch, row.base_offset, TRANSACTION_VERSION_UNKNOWN)
        if self._origin is AppendOrigin.CLIENT:
            self._check_sequence(row)
        delta = row.last_offset - row.base_offset
        last_seq = last_sequence(row.base_sequence, delta)
        self.entry.add_batch(row.producer_epoch, BatchMetadata(last_seq, row.last_offset, delta, row.max_timestamp))
        if self.entry.current_txn_first_offset is not None and not row.is_transactional:
            raise InvalidTxnState(
                f"Expected transactional write from producer {self.producer_id} at offset "
                f"(offset={row.base_offset}, segment=[-1:-1]) in partition {self._topic_partition}"
            )
        if self.entry.current_txn_first_offset is None and row.is_transactional:
            self.entry.current_txn_first_offset = row.base_offset
            self.started.append(TxnMetadata(self.producer_id, row.base_offset))

    def _append_marker(self, row: ProducerRow, marker: TxnMarker, transaction_version: int) -> CompletedTxn | None:
        if transaction_version == TRANSACTION_VERSION_UNKNOWN:
            if self._origin is not AppendOrigin.REPLICATION:
                raise IllegalArgument(
                    "transactionVersion must be explicitly specified, cannot use default value TV_UNKNOWN for origin "
                    + self._origin.name
                )
            transaction_version = 0
        self._check_epoch(row.producer_epoch, row.base_offset, transaction_version)
        self._check_coordinator(marker, row.base_offset)
        first_offset = self.entry.current_txn_first_offset
        self.entry.end_transaction(row.producer_epoch, marker.coordinator_epoch, marker.timestamp)
        if first_offset is None:
            return None  # a marker without data changes nothing
        return CompletedTxn(self.producer_id, first_offset, row.base_offset, marker.control_type is ControlType.ABORT)

    def _check_epoch(self, epoch: int, offset: int, transaction_version: int) -> None:
        current, strict = self.entry.producer_epoch, transaction_version >= _STRICT_VERSION
        if epoch > current or (epoch == current and not strict):
            return
        is_repeated = epoch == current and (self.entry.current_txn_first_offset is None or epoch == _SHORT_MAX)
        if is_repeated or self._origin is AppendOrigin.REPLICATION:
            return  # a retry: the marker was written, but the answer was lost
        raise InvalidProducerEpoch(
            f"Epoch of producer {self.producer_id} at offset {offset} in {self._topic_partition} is {epoch}, which is "
            f"{'<=' if strict else '<'} the last seen epoch {current} (TV{transaction_version})"
        )

    def _check_coordinator(self, marker: TxnMarker, offset: int) -> None:
        if self.entry.coordinator_epoch > marker.coordinator_epoch and self._origin is not AppendOrigin.REPLICATION:
            raise TransactionCoordinatorFenced(
                f"Invalid coordinator epoch for producerId {self.producer_id} at offset {offset} in partition "
                f"{self._topic_partition}: {marker.coordinator_epoch} (zombie), {self.entry.coordinator_epoch} (current)"
            )

    def _check_sequence(self, row: ProducerRow) -> None:
        epoch, sequence = row.producer_epoch, row.base_sequence
        if epoch != self.entry.producer_epoch:
            if sequence != 0 and self.entry.producer_epoch != NO_PRODUCER_EPOCH:
                raise OutOfOrderSequence(
                    f"Invalid sequence number for new epoch of producer {self.producer_id}at offset {row.base_offset} in "
                    f"partition {self._topic_partition}: {epoch} (request epoch), {sequence} (seq. number), "
                    f"{self.entry.producer_epoch} (current producer epoch)"
                )
            return
        last = self.entry.last_seq
        if self.entry.is_empty and epoch == self._current.producer_epoch:
            last = self._current.last_seq
        if self._current.producer_epoch != NO_PRODUCER_EPOCH and not _in_sequence(last, sequence):
            raise OutOfOrderSequence(
                f"Out of order sequence number for producer {self.producer_id} at offset {row.base_offset} in partition "
                f"{self._topic_partition}: {sequence} (incoming seq. number), {last} (current end sequence number)"
            )


def _in_sequence(last_seq: int, next_seq: int) -> bool:
    return next_seq == last_seq + 1 or (next_seq == 0 and last_seq == INT_MAX)
