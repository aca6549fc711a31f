"""Idempotence and transactions of a producer: sequences of its batches, its epoch, and the requests to the coordinator.

Mirrors TransactionManager, TxnPartitionMap and TxnPartitionEntry, without offsets of consumer groups and two-phase commit.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from engine.formats import NO_SEQUENCE
from engine.producer import requests
from engine.producer.batch import ProducerIdAndEpoch
from engine.producer.failures import ProducerError
from engine.protocol.error_codes import Error
from engine.protocol.messages import Api
from engine.record.control import increment_sequence

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.producer.batch import ProducerBatch
    from engine.producer.cluster import TopicPartition
    from engine.producer.config import ProducerConfig
    from engine.producer.requests import Request

_NO_SEQUENCE_ACKED = -1
_FIND_COORDINATOR, _INIT, _ADD_PARTITIONS, _END, _RAISE_EPOCH = range(5)  # priorities of requests
_LAST_EPOCH = 2**15 - 1
_CONCURRENT_BACKOFF_MS = 20  # TransactionManager.ADD_PARTITIONS_RETRY_BACKOFF_MS
_V2 = 2  # transaction.version


class State(Enum):
    """The states of Kafka's TransactionManager, without that of a prepared transaction."""

    UNINITIALIZED = "UNINITIALIZED"
    INITIALIZING = "INITIALIZING"
    READY = "READY"
    IN_TRANSACTION = "IN_TRANSACTION"
    COMMITTING_TRANSACTION = "COMMITTING_TRANSACTION"
    ABORTING_TRANSACTION = "ABORTING_TRANSACTION"
    ABORTABLE_ERROR = "ABORTABLE_ERROR"
    FATAL_ERROR = "FATAL_ERROR"


_COMPLETING = (State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION)
_BEFORE = {
    State.UNINITIALIZED: (State.READY, State.ABORTABLE_ERROR),
    State.INITIALIZING: (State.UNINITIALIZED, *_COMPLETING),
    State.READY: (State.INITIALIZING, *_COMPLETING),
    State.IN_TRANSACTION: (State.READY,),
    State.COMMITTING_TRANSACTION: (State.IN_TRANSACTION,),
    State.ABORTING_TRANSACTION: (State.IN_TRANSACTION, State.ABORTABLE_ERROR),
    State.ABORTABLE_ERROR: (State.IN_TRANSACTION, State.COMMITTING_TRANSACTION, State.ABORTABLE_ERROR, State.INITIALIZING),
    State.FATAL_ERROR: tuple(State),
}  # fmt: skip
_FATAL_FOR_ALL = {
    "ClusterAuthorizationException", "TransactionalIdAuthorizationException", "ProducerFencedException",
    "UnsupportedVersionException", "InvalidPidMappingException",
}  # fmt: skip
_FENCED = {Error.INVALID_PRODUCER_EPOCH, Error.PRODUCER_FENCED}
_LOST_COORDINATOR = {Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR}
_FATAL_IN_TRANSACTION = {
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Error.INVALID_TXN_STATE, Error.INVALID_PRODUCER_ID_MAPPING
}  # fmt: skip


class Result:
    """The outcome of an operation that needs answers: `is_done`, and `error` if it failed."""

    def __init__(self) -> None:
        self.is_done = False
        self.error: ProducerError | None = None

    def finish(self, error: ProducerError | None = None) -> None:
        """End the operation."""
        if not self.is_done:
            self.is_done, self.error = True, error


class Pending:
    """A request to the coordinator that waits to be sent or answered. `of_coordinator`: it needs to be known."""

    def __init__(self, priority: int, request: Request, result: Result, *, of_coordinator: bool = True) -> None:
        self.priority, self.request, self.result, self.of_coordinator = priority, request, result, of_coordinator
        self.is_retry = False
        self.backoff_ms: int | None = None  # None: retry.backoff.ms

    @property
    def is_end_txn(self) -> bool:
        """Whether it ends a transaction."""
        return self.request.api_key == Api.END_TXN


class _Entry:
    """The sequences of a partition."""

    def __init__(self) -> None:
        self.producer = ProducerIdAndEpoch()
        self.next_sequence = 0
        self.last_acked_sequence = _NO_SEQUENCE_ACKED
        self.last_acked_offset = -1
        self.in_flight: list[ProducerBatch] = []

    def sorted_in_flight(self) -> list[ProducerBatch]:
        """Return the batches that are not acknowledged, by sequence."""
        return sorted(self.in_flight, key=lambda batch: (*batch.producer, batch.base_sequence))

    def start_at_beginning(self, producer: ProducerIdAndEpoch) -> None:
        """Restart sequences at 0 with a new epoch, those of batches in flight too."""
        sequence = 0
        for batch in self.sorted_in_flight():
            batch.reset_producer(producer, sequence)
            sequence += batch.count
        self.producer, self.next_sequence, self.last_acked_sequence = producer, sequence, _NO_SEQUENCE_ACKED

    def close_gap(self, failed: ProducerBatch) -> None:
        """Move later sequences down by the records of a batch that failed for good."""
        if self.next_sequence < failed.count:
            raise AssertionError(f"{failed.partition}: the next sequence {self.next_sequence} is below {failed.count}")
        self.next_sequence -= failed.count
        for batch in self.sorted_in_flight():
            if batch.base_sequence >= failed.base_sequence:
                batch.reset_producer(batch.producer, batch.base_sequence - failed.count)


class TransactionManager:
    """The state of an idempotent producer, with or without transactions.

    transaction_version  a function that returns the finalized feature `transaction.version` of the brokers
    coordinator          the node of the transaction's coordinator; None: not known
    """

    def __init__(self, config: ProducerConfig, transaction_version: Callable[[], int]) -> None:
        self._config, self._transaction_version = config, transaction_version
        self.transactional_id = config.transactional_id
        self.coordinator: int | None = None
        self.producer = ProducerIdAndEpoch()
        self.state = State.UNINITIALIZED
        self.last_error: ProducerError | None = None
        self.is_v2 = False
        self.sent: Pending | None = None
        self._version_is_known = self._needs_new_epoch = self._started = False
        self._pending: list[Pending] = []
        self._entries: dict[TopicPartition, _Entry] = {}
        self._unresolved: dict[TopicPartition, int] = {}
        self._to_rewrite: dict[TopicPartition, None] = {}
        self._new: dict[TopicPartition, None] = {}  # partitions to be added to the transaction
        self._adding: dict[TopicPartition, None] = {}
        self._added: set[TopicPartition] = set()

    # ---- calls of the user

    @property
    def is_transactional(self) -> bool:
        """Whether the producer has a transactional id."""
        return self.transactional_id is not None

    def initialize(self) -> Result:
        """Ask for a producer id (initTransactions). Raises ProducerError."""
        self._expect_id()
        self._fail_with_error()
        self._go_to(State.INITIALIZING)
        return self._enqueue_init(ProducerIdAndEpoch(), _INIT)

    def begin(self) -> None:
        """Begin a transaction. Raises ProducerError."""
        self._expect_id()
        self._fail_with_error()
        self._go_to(State.IN_TRANSACTION)

    def end(self, *, commit: bool) -> Result:
        """Commit or abort, once all batches are sent. Raises ProducerError."""
        self._expect_id()
        if commit or self.state != State.ABORTABLE_ERROR:
            self._fail_with_error()
        self._go_to(State.COMMITTING_TRANSACTION if commit else State.ABORTING_TRANSACTION)
        if not commit:
            self._new.clear()
        if self._new:
            self._enqueue_new_partitions()
        request = requests.end_txn(self._id, self.producer, commit=commit, with_v2=self.is_v2)
        self._update_version(initial=False)
        pending = Pending(_END, request, Result())
        self._enqueue(pending)
        return self._enqueue_init(self.producer, _RAISE_EPOCH) if self._needs_new_epoch else pending.result

    def add_partition(self, partition: TopicPartition) -> None:
        """Make a partition part of the transaction, for a record that was just appended. Raises ProducerError."""
        self._fail_with_error()
        if not self.is_transactional:
            return
        if not self.producer.is_valid:
            what = f"Cannot add partition {partition} to transaction before completing a call to initTransactions"
            raise ProducerError("IllegalStateException", what)
        if self.state != State.IN_TRANSACTION:
            what = f"Cannot add partition {partition} to transaction while in state  {self.state.name}"
            raise ProducerError("IllegalStateException", what)
        if self.is_v2:
            self._entry(partition)
            self._added.add(partition)
            self._started = True
        elif partition not in self._added and partition not in self._new and partition not in self._adding:
            self._entry(partition)
            self._new[partition] = None

    # ---- states

    @property
    def is_completing(self) -> bool:
        """Whether a transaction is being committed or aborted."""
        return self.state in _COMPLETING

    @property
    def has_fatal_error(self) -> bool:
        """Whether nothing more can be sent."""
        return self.state == State.FATAL_ERROR

    @property
    def _id(self) -> str:
        assert self.transactional_id is not None
        return self.transactional_id

    def _expect_id(self) -> None:
        if not self.is_transactional:
            raise ProducerError("IllegalStateException", "Transactional method invoked on a non-transactional producer.")

    def _go_to(self, state: State, error: ProducerError | None = None) -> None:
        if self.state not in _BEFORE[state]:
            prefix = f"TransactionalId {self.transactional_id}: " if self.is_transactional else ""
            what = f"{prefix}Invalid transition attempted from state {self.state.name} to state {state.name}"
            raise ProducerError("IllegalStateException", what)
        self.state, self.last_error = state, error

    def _fail_with_error(self) -> None:
        if self.state in (State.ABORTABLE_ERROR, State.FATAL_ERROR):
            who = f"Producer with transactionalId '{self.transactional_id}' and {_text_of(self.producer)}"
            name = self.last_error.name if self.last_error is not None else ""
            if name == "ProducerFencedException":
                raise ProducerError(name, f"{who} has been fenced by another producer with the same transactionalId")
            if name == "InvalidProducerEpochException":
                raise ProducerError(name, f"{who} attempted to produce with an old epoch")
            raise ProducerError("KafkaException", "Cannot execute transactional method because we are in an error state")

    def note_failure(self, error: ProducerError) -> None:
        """Go to an error state because a record failed (maybeTransitionToErrorState)."""
        if error.name in _FATAL_FOR_ALL:
            self._to_fatal(error)
        elif self.is_transactional:
            if error.is_retriable or error.name == "InvalidTxnStateException":
                what = "Transaction Request was aborted after exhausting retries."
                error = ProducerError("TransactionAbortableException", what)
            if not self.is_v2 and not self.is_completing:
                self._needs_new_epoch = True
            self._to_abortable(error)

    def _to_abortable(self, error: ProducerError) -> None:
        if self.state != State.ABORTING_TRANSACTION:
            self._go_to(State.ABORTABLE_ERROR, error)

    def _to_fatal(self, error: ProducerError) -> None:
        self._go_to(State.FATAL_ERROR, error)
        for pending in self._pending:
            pending.result.finish(error)

    def _update_version(self, *, initial: bool) -> None:
        """Learn the brokers' transaction.version, which counts from the next transaction on."""
        if self._version_is_known and initial:
            return
        self._version_is_known = True
        was_v2, self.is_v2 = self.is_v2, self._transaction_version() >= _V2
        if not initial and not was_v2 and self.is_v2:
            self._needs_new_epoch = True

    # ---- requests to the coordinator

    def _enqueue(self, pending: Pending) -> None:
        self._pending.append(pending)
        self._pending.sort(key=lambda one: one.priority)

    def _enqueue_init(self, producer: ProducerIdAndEpoch, priority: int) -> Result:
        request = requests.init_producer_id(self.transactional_id, self._config.transaction_timeout_ms, producer)
        pending = Pending(priority, request, Result(), of_coordinator=self.is_transactional)
        self._enqueue(pending)
        return pending.result

    def _enqueue_new_partitions(self) -> None:
        self._adding |= self._new
        self._new.clear()
        self._enqueue(Pending(_ADD_PARTITIONS, requests.add_partitions_to_txn(self._id, self.producer, self._adding), Result()))

    def look_up_coordinator(self) -> None:
        """Ask for the coordinator before everything else."""
        self.coordinator = None
        self._enqueue(Pending(_FIND_COORDINATOR, requests.find_coordinator(self._id), Result(), of_coordinator=False))

    def retry(self, pending: Pending) -> None:
        """Send a request again, after a pause."""
        pending.is_retry = True
        self._enqueue(pending)

    def next_request(self, *, has_incomplete: bool) -> Pending | None:
        """Return the next request to be sent. A transaction ends only when no batch is incomplete."""
        if self._new:
            self._enqueue_new_partitions()
        if not self._pending or (self._pending[0].is_end_txn and has_incomplete):
            return None
        pending = self._pending.pop(0)
        if self.state in (State.ABORTABLE_ERROR, State.FATAL_ERROR):
            if self.state == State.FATAL_ERROR or pending.request.api_key != Api.FIND_COORDINATOR:
                pending.result.finish(self.last_error)
                return None
        elif pending.is_end_txn and not self._started:
            pending.result.finish()
            self._reset_transaction()
            return self._pending.pop(0) if self._pending else None
        return pending

    def _reset_transaction(self) -> None:
        self._go_to(State.INITIALIZING if self._needs_new_epoch else State.READY)
        self._needs_new_epoch = self._started = False
        for partitions in (self._new, self._adding, self._added):
            partitions.clear()

    def ask_for_producer_id(self) -> None:
        """Raise the epoch of an idempotent producer if that is due, or ask for its first id."""
        if self.is_transactional:
            return
        if self._needs_new_epoch:
            self._raise_epoch()
        if self.state != State.INITIALIZING and not self.producer.is_valid:
            self._go_to(State.INITIALIZING)
            self._enqueue_init(ProducerIdAndEpoch(), _INIT)

    def _raise_epoch(self) -> None:
        if self.producer.epoch == _LAST_EPOCH:
            self.producer = ProducerIdAndEpoch()
            self._go_to(State.UNINITIALIZED)
        else:
            self.producer = self.producer._replace(epoch=self.producer.epoch + 1)
        for partition in self._to_rewrite:
            self._entry(partition).start_at_beginning(self.producer)
            self._unresolved.pop(partition, None)
        self._to_rewrite.clear()
        self._needs_new_epoch = False

    # ---- answers of the coordinator

    def handle(self, pending: Pending, body: dict[str, Any]) -> None:
        """Take the answer to a request, as engine.protocol decodes it."""
        handlers = {
            Api.INIT_PRODUCER_ID: self._handle_init, Api.FIND_COORDINATOR: self._handle_coordinator,
            Api.ADD_PARTITIONS_TO_TXN: self._handle_added, Api.END_TXN: self._handle_end,
        }  # fmt: skip
        self.sent = None
        handlers[pending.request.api_key](pending, body)

    def handle_disconnect(self, pending: Pending) -> None:
        """Send a request again whose connection was closed."""
        self.sent = None
        if pending.of_coordinator:
            self.look_up_coordinator()
        self.retry(pending)

    def _handle_init(self, pending: Pending, body: dict[str, Any]) -> None:
        error = Error(body["errorCode"])
        if error is not Error.NONE:
            self._fail(pending, error, abortable={Error.TRANSACTION_ABORTABLE, Error.CLUSTER_AUTHORIZATION_FAILED,
                                                  Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})  # fmt: skip
            return
        self.producer = ProducerIdAndEpoch(body["producerId"], body["producerEpoch"])
        self._go_to(State.READY)
        if pending.priority == _RAISE_EPOCH:
            self._entries.clear()
            self._unresolved.clear()
        elif self.is_transactional:
            self._update_version(initial=True)
        pending.result.finish()

    def _handle_coordinator(self, pending: Pending, body: dict[str, Any]) -> None:
        [found] = body["coordinators"] or [body]
        error = Error(found["errorCode"])
        if error is not Error.NONE:
            self._fail(pending, error, abortable={Error.TRANSACTION_ABORTABLE})
            return
        self.coordinator = found["nodeId"]
        pending.result.finish()

    def _handle_added(self, pending: Pending, body: dict[str, Any]) -> None:
        errors = [
            Error(one["partitionErrorCode"])
            for topic in body["resultsByTopicV3AndBelow"]
            for one in topic["resultsByPartition"]
        ]
        failed: list[Error] = [error for error in errors if error is not Error.NONE]
        if not failed:
            self._added.update(self._adding)
            self._adding.clear()
            self._started = True
            pending.result.finish()
            return
        if failed[0] is Error.CONCURRENT_TRANSACTIONS and not self._added:
            pending.backoff_ms = min(_CONCURRENT_BACKOFF_MS, self._config.retry_backoff_ms)
        self._fail(pending, failed[0], abortable=set(failed) - _FENCED - _FATAL_IN_TRANSACTION)

    def _handle_end(self, pending: Pending, body: dict[str, Any]) -> None:
        error = Error(body["errorCode"])
        if error is not Error.NONE:
            is_abort = not pending.request.body["committed"]
            others = set() if is_abort else {Error.TRANSACTION_ABORTABLE}
            self._fail(pending, error, abortable={Error.UNKNOWN_PRODUCER_ID, *others})
            return
        if body.get("producerId", -1) != -1:
            self.producer = ProducerIdAndEpoch(body["producerId"], body["producerEpoch"])
            self._entries.clear()
            self._unresolved.clear()
        self._reset_transaction()
        pending.result.finish()

    def _fail(self, pending: Pending, error: Error, abortable: set[Error]) -> None:
        if error in _LOST_COORDINATOR and pending.of_coordinator:
            self.look_up_coordinator()
            self.retry(pending)
        elif error.is_retriable:
            self.retry(pending)
        else:
            problem = ProducerError.of(Error.PRODUCER_FENCED if error in _FENCED else error)
            pending.result.finish(problem)
            if error in abortable:
                if error is Error.UNKNOWN_PRODUCER_ID and not self.is_v2:
                    self._needs_new_epoch = True
                self._to_abortable(problem)
            else:
                self._to_fatal(problem)

    def fail_pending(self, error: ProducerError) -> None:
        """Fail all requests that wait, after an authorization that is lacking."""
        for pending in self._pending:
            pending.result.finish(error)
        self._pending.clear()
        self._go_to(State.UNINITIALIZED)

    # ---- batches

    def _entry(self, partition: TopicPartition) -> _Entry:
        found = self._entries.get(partition)
        if found is None:
            found = self._entries[partition] = _Entry()
        return found

    def blocks(self, first: ProducerBatch) -> bool:
        """Return whether the first batch of a partition cannot be sent now (shouldStopDrainBatchesForPartition)."""
        partition = first.partition
        if self.has_fatal_error or (self.is_transactional and partition not in self._added) or not self.producer.is_valid:
            return True
        entry = self._entry(partition)
        if not first.has_sequence and ((entry.in_flight and entry.producer != self.producer) or partition in self._unresolved):
            return True
        lowest = entry.sorted_in_flight()[0].base_sequence if entry.in_flight else NO_SEQUENCE
        return lowest != NO_SEQUENCE and first.has_sequence and first.base_sequence != lowest

    def assign_sequence(self, batch: ProducerBatch) -> None:
        """Give a batch that is drained the next sequences of its partition."""
        entry = self._entry(batch.partition)
        if entry.producer != self.producer and not entry.in_flight:
            entry.start_at_beginning(self.producer)
        batch.set_producer(self.producer, entry.next_sequence, transactional=self.is_transactional)
        entry.next_sequence = increment_sequence(entry.next_sequence, batch.count)
        entry.in_flight.append(batch)

    def track(self, batch: ProducerBatch) -> None:
        """Remember a batch with a sequence as sent and not acknowledged."""
        self._entry(batch.partition).in_flight.append(batch)

    def forget(self, batch: ProducerBatch) -> None:
        """Forget a batch that `track` remembers."""
        in_flight = self._entry(batch.partition).in_flight
        if batch in in_flight:
            in_flight.remove(batch)

    def note_success(self, batch: ProducerBatch, base_offset: int) -> None:
        """Take the acknowledgement of a batch."""
        entry = self._entry(batch.partition)
        entry.last_acked_sequence = max(entry.last_acked_sequence, batch.last_sequence)
        if base_offset != -1:
            entry.last_acked_offset = max(entry.last_acked_offset, base_offset + batch.count - 1)
        self.forget(batch)

    def note_failed_batch(self, batch: ProducerBatch, error: ProducerError, *, adjust: bool) -> None:
        """Take the failure of a batch. `adjust`: later batches must close the gap in the sequences."""
        self.note_failure(error)
        self.forget(batch)
        if self.has_fatal_error:
            return
        if error.name == "OutOfOrderSequenceException" and not self.is_transactional:
            self._ask_for_epoch(batch.partition)
        elif error.name == "UnknownProducerIdException":
            self._entries.pop(batch.partition, None)
            self._unresolved.pop(batch.partition, None)
        elif adjust and not self.is_transactional:
            self._ask_for_epoch(batch.partition)
        elif adjust and batch.partition in self._entries:
            self._entry(batch.partition).close_gap(batch)

    def _ask_for_epoch(self, partition: TopicPartition) -> None:
        self._needs_new_epoch = True
        self._to_rewrite[partition] = None

    def mark_unresolved(self, batch: ProducerBatch) -> None:
        """Remember a batch that expired after it was sent: nobody knows whether the broker has it."""
        following = batch.last_sequence + 1
        self._unresolved[batch.partition] = max(self._unresolved.get(batch.partition, following), following)

    def resolve_sequences(self) -> None:
        """Decide on partitions with unresolved sequences once no batch of them is in flight."""
        for partition in list(self._unresolved):
            entry = self._entry(partition)
            if entry.in_flight:
                continue
            del self._unresolved[partition]
            if entry.next_sequence - entry.last_acked_sequence == 1:
                continue
            if self.is_transactional:
                what = ("The client hasn't received acknowledgment for some previously sent messages and can no longer retry "
                        "them. It is safe to abort the transaction and continue.")  # fmt: skip
                self._needs_new_epoch = self._needs_new_epoch or not self.is_v2
                self._to_abortable(ProducerError("KafkaException", what))
            else:
                self._ask_for_epoch(partition)

    def can_retry(self, batch: ProducerBatch, error: Error, log_start_offset: int) -> bool:
        """Return whether a batch that the broker refused may be sent again; perhaps with a new epoch."""
        entry, partition = self._entry(batch.partition), batch.partition
        if error is Error.UNKNOWN_PRODUCER_ID:
            if log_start_offset == -1 or batch.reopened:
                return True
            if self.is_transactional and entry.last_acked_offset < log_start_offset:
                entry.start_at_beginning(self.producer)
                return True
            if not self.is_transactional:
                self._ask_for_epoch(partition)
                return True
        elif error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER:
            is_next = batch.base_sequence - entry.last_acked_sequence == 1
            is_unresolved = partition in self._unresolved
            if not is_unresolved and (batch.reopened or not is_next):
                return True
            if not self.is_transactional:
                if not is_unresolved or self._unresolved[partition] == batch.base_sequence:
                    self._ask_for_epoch(partition)
                return True
        return error.is_retriable


def _text_of(producer: ProducerIdAndEpoch) -> str:
    return f"(producerId={producer.producer_id}, epoch={producer.epoch})"
