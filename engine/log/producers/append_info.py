"""Check and collect what one producer appends. Mirrors ProducerAppendInfo."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from engine.formats import INT_MAX, NO_PRODUCER_EPOCH, ControlType
from engine.log.append_errors import (
    IllegalArgument,
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from engine.log.producers.entry import BatchMetadata, CompletedTxn, TxnMetadata
from engine.record.sequences import last_sequence

if TYPE_CHECKING:
    from engine.log.producers.entry import ProducerStateEntry
    from engine.log.scan.producer_rows import ProducerRow, TxnMarker

TRANSACTION_VERSION_UNKNOWN = -1
_SHORT_MAX = 2**15 - 1
_STRICT_VERSION = 2  # from this transaction version on a marker has a larger epoch than the transaction


class AppendOrigin(Enum):
    """Who appends: it decides what is checked."""

    REPLICATION = "replication"  # a follower, and recovery: the leader has checked everything
    COORDINATOR = "coordinator"  # a group or transaction coordinator: no sequences
    CLIENT = "client"
    RAFT_LEADER = "raft-leader"


class ProducerAppendInfo:
    """The batches of one append by one producer: checked against what it did before, then handed to `update`.

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
        """Take in a batch; what it completes. Raises AppendRefused.

        An empty control batch does nothing: its transaction has been cleaned away.
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
            return None  # a marker without data moves nothing
        return CompletedTxn(self.producer_id, first_offset, row.base_offset, marker.control_type is ControlType.ABORT)

    def _check_epoch(self, epoch: int, offset: int, transaction_version: int) -> None:
        current, strict = self.entry.producer_epoch, transaction_version >= _STRICT_VERSION
        if epoch > current or (epoch == current and not strict):
            return
        is_repeated = epoch == current and (self.entry.current_txn_first_offset is None or epoch == _SHORT_MAX)
        if is_repeated or self._origin is AppendOrigin.REPLICATION:
            return  # the marker was written, the answer got lost
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
