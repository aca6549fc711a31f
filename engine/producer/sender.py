"""Turns of the sender: which requests go out now, and what their answers mean for batches. Mirrors Sender."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from engine.java.hash_maps import hash_order
from engine.producer import requests
from engine.producer.batch import FinalState
from engine.producer.cluster import TopicPartition
from engine.producer.failures import ProducerError
from engine.producer.sequences import State
from engine.protocol.error_codes import Error

if TYPE_CHECKING:
    from engine.producer.accumulator import RecordAccumulator
    from engine.producer.batch import ProducerBatch
    from engine.producer.cluster import Cluster
    from engine.producer.config import ProducerConfig
    from engine.producer.requests import Request
    from engine.producer.sequences import TransactionManager


class Clock(Protocol):
    """Time in ms."""

    def now(self) -> int:
        """Return the current time."""

    def sleep(self, ms: int) -> None:
        """Wait before a request is sent again."""


class Client(Protocol):
    """What the sender must know of the connections."""

    def is_ready(self, node: int) -> bool:
        """Return whether a request can be sent to the node: connected, and not too many in flight."""

    def least_loaded(self) -> int | None:
        """Return any node that can take a request; None: there is none."""


class Answer(NamedTuple):
    """What a broker says of one partition of a Produce request."""

    error: Error
    base_offset: int = -1
    append_time: int = -1
    log_start_offset: int = -1
    message: str | None = None
    record_errors: tuple[tuple[int, str | None], ...] = ()


class Sender:
    """Sends what is ready and completes batches."""

    def __init__(
        self, config: ProducerConfig, accumulator: RecordAccumulator, transactions: TransactionManager | None, clock: Clock,
        client: Client,
    ) -> None:  # fmt: skip
        self._config, self._accumulator, self._transactions = config, accumulator, transactions
        self._clock, self._client = clock, client
        self._in_flight: dict[TopicPartition, list[ProducerBatch]] = {}
        self._nothing_expires_before = 0
        self._keeps_order = config.max_in_flight == 1

    # ---- out

    def turn(self, cluster: Cluster) -> list[Request]:
        """Return the requests to be sent now, in order."""
        transactions = self._transactions
        if transactions is not None:
            transactions.resolve_sequences()
            if transactions.has_fatal_error:
                if transactions.last_error is not None:
                    self._abort_all(transactions.last_error)
                return []
            if transactions.state == State.ABORTABLE_ERROR and self._lacks_authorization(transactions):
                return []
            transactions.ask_for_producer_id()
            is_busy, request = self._transactional_request(transactions)
            if is_busy:
                return [] if request is None else [request]
        return self._data_requests(cluster, self._clock.now())

    def _lacks_authorization(self, transactions: TransactionManager) -> bool:
        error = transactions.last_error
        if error is None or error.name not in ("TransactionalIdAuthorizationException", "ClusterAuthorizationException"):
            return False
        transactions.fail_pending(error)
        self._abort_all(error)
        return True

    def _abort_all(self, error: ProducerError) -> None:
        if self._accumulator.incomplete:
            self._accumulator.abort(error)
            self._in_flight.clear()

    def _transactional_request(self, transactions: TransactionManager) -> tuple[bool, Request | None]:
        """Return (whether no data is sent in this turn, the request to a coordinator)."""
        if transactions.sent is not None:
            return True, None
        if transactions.state == State.ABORTABLE_ERROR and transactions.last_error is not None:
            self._accumulator.abort(transactions.last_error, only_undrained=True)
        elif transactions.state == State.ABORTING_TRANSACTION:
            error = ProducerError("TransactionAbortedException", "Failing batch since transaction was aborted")
            self._accumulator.abort(error, only_undrained=True)
        pending = transactions.next_request(has_incomplete=bool(self._accumulator.incomplete))
        if pending is None:
            return False, None
        node = transactions.coordinator if pending.of_coordinator else self._client.least_loaded()
        if node is None:
            if pending.of_coordinator:
                transactions.look_up_coordinator()
            transactions.retry(pending)
            return True, None
        if pending.is_retry:
            self._clock.sleep(self._config.retry_backoff_ms if pending.backoff_ms is None else pending.backoff_ms)
        transactions.sent = pending
        return True, pending.request._replace(node=node)

    def _data_requests(self, cluster: Cluster, now: int) -> list[Request]:
        accumulator = self._accumulator
        ready = accumulator.ready(cluster, now)
        nodes = []
        for node in ready.nodes:
            can_drain = self._client.is_ready(node)
            accumulator.note_latency(node, now, can_drain=can_drain)
            if can_drain:
                nodes.append(node)
        drained = accumulator.drain(cluster, nodes, now)
        for batches in drained.values():
            for batch in batches:
                self._in_flight.setdefault(batch.partition, []).append(batch)
                if self._keeps_order:
                    accumulator.muted.add(batch.partition)
        self._fail_expired(now)
        with_v1 = self._transactions is not None and self._transactions.is_transactional and not self._transactions.is_v2
        found = []
        for node in hash_order(drained, int):
            batches = drained[node]
            for batch in batches:
                batch.in_flight = True
            if batches:
                found.append(requests.produce(self._config, cluster, node, batches, with_v1=with_v1))
        return found

    def _fail_expired(self, now: int) -> None:
        if now < self._nothing_expires_before:
            return
        accumulator, sent = self._accumulator, []
        accumulator.next_expiry_ms = now + self._config.delivery_timeout_ms  # of a batch that is made from now on
        for partition, batches in list(self._in_flight.items()):
            while batches and batches[0].has_expired(self._config.delivery_timeout_ms, now):
                sent.append(batches.pop(0))
            if batches:
                accumulator.note_expiry(batches[0])
            else:
                del self._in_flight[partition]
        waiting = accumulator.expired(now)
        self._nothing_expires_before = accumulator.next_expiry_ms
        for expired, is_waiting in ((waiting, True), (sent, False)):
            for batch in expired:
                what = (
                    f"Expiring {batch.count} record(s) for {batch.partition}:{now - batch.created_ms} ms has passed since "
                    "batch creation. The request has not been sent, or no server response has been received yet."
                )
                error = ProducerError("TimeoutException", what, is_retriable=True)
                self._fail(batch, error, adjust=False, releases=is_waiting)
                if self._transactions is not None and batch.retry:
                    self._transactions.mark_unresolved(batch)

    # ---- back

    def complete_produce(self, request: Request, body: dict[str, Any] | None, cluster: Cluster) -> None:
        """Take the response to a Produce request, as engine.protocol decodes it. None: sent with acks=0, which has none."""
        batches = {batch.partition: batch for batch in request.batches}
        if body is None:
            for batch in request.batches:
                self._complete(batch, Answer(Error.NONE))
            return
        names = {requests.uuid_of(topic.id): name for name, topic in cluster.topics.items() if any(topic.id)}
        for topic in body["responses"]:
            name = names.get(topic.get("topicId"), topic.get("name"))
            for one in topic["partitionResponses"]:
                self._complete(batches[TopicPartition(name, one["index"])], _answer(one))

    def complete_transactional(self, body: dict[str, Any] | None) -> None:
        """Take the response to a request of transactions or idempotence. None: the connection was closed."""
        assert self._transactions is not None
        pending = self._transactions.sent
        if pending is None:
            raise AssertionError("no such request was sent")
        if body is None:
            self._transactions.handle_disconnect(pending)
        else:
            self._transactions.handle(pending, body)

    def _complete(self, batch: ProducerBatch, answer: Answer) -> None:
        batch.in_flight = False
        error, is_done = answer.error, batch.final_state is not None
        if error is Error.MESSAGE_TOO_LARGE and batch.count > 1 and not is_done:
            if self._transactions is not None:
                self._transactions.forget(batch)
            self._accumulator.split_and_put_back(batch)
            self._remove(batch)
        elif error is Error.NONE:
            self._succeed(batch, answer)
        elif self._can_retry(batch, answer):
            self._accumulator.put_back(batch, self._clock.now())
            self._forget_in_flight(batch)
        elif error is Error.DUPLICATE_SEQUENCE_NUMBER:
            self._succeed(batch, answer)
        else:
            self._fail_with(batch, answer)
        if self._keeps_order:
            self._accumulator.muted.discard(batch.partition)

    def _can_retry(self, batch: ProducerBatch, answer: Answer) -> bool:
        if batch.has_expired(self._config.delivery_timeout_ms, self._clock.now()) or batch.attempts >= self._config.retries:
            return False
        if batch.final_state is not None:
            return False
        if self._transactions is None:
            return answer.error.is_retriable
        return self._transactions.can_retry(batch, answer.error, answer.log_start_offset)

    def _succeed(self, batch: ProducerBatch, answer: Answer) -> None:
        if self._transactions is not None:
            self._transactions.note_success(batch, answer.base_offset)
        if batch.finish(FinalState.SUCCEEDED, base_offset=answer.base_offset, append_time=answer.append_time):
            self._remove(batch)
        else:
            self._accumulator.release_memory(batch)

    def _fail_with(self, batch: ProducerBatch, answer: Answer) -> None:
        error, topic = answer.error, batch.partition.topic
        if error is Error.TOPIC_AUTHORIZATION_FAILED:
            problem = ProducerError(error.exception, f"Not authorized to access topics: [{topic}]")
        elif error is Error.CLUSTER_AUTHORIZATION_FAILED:
            problem = ProducerError(error.exception, "The producer is not authorized to do idempotent sends")
        else:
            problem = ProducerError.of(error, answer.message)
        batch.record_errors = _record_errors(answer)
        self._fail(batch, problem, adjust=batch.attempts < self._config.retries, releases=True)

    def _fail(self, batch: ProducerBatch, error: ProducerError, *, adjust: bool, releases: bool) -> None:
        """Fail a batch. `releases`: its memory is free now; otherwise when its answer comes."""
        if not batch.finish(FinalState.FAILED, error=error):
            if releases:
                self._accumulator.release_memory(batch)
            return
        if self._transactions is not None:
            self._transactions.note_failed_batch(batch, error, adjust=adjust)
        if releases:
            self._remove(batch)
        else:
            self._forget_in_flight(batch)
            self._accumulator.incomplete.pop(batch, None)

    def _remove(self, batch: ProducerBatch) -> None:
        self._forget_in_flight(batch)
        self._accumulator.release(batch)

    def _forget_in_flight(self, batch: ProducerBatch) -> None:
        batches = self._in_flight.get(batch.partition)
        if batches is not None and batch in batches:
            batches.remove(batch)
            if not batches:
                del self._in_flight[batch.partition]


def _answer(one: dict[str, Any]) -> Answer:
    errors = tuple((each["batchIndex"], each["batchIndexErrorMessage"]) for each in one["recordErrors"])
    error = Error(one["errorCode"])
    return Answer(error, one["baseOffset"], one["logAppendTimeMs"], one["logStartOffset"], one["errorMessage"], errors)


def _record_errors(answer: Answer) -> dict[int, ProducerError]:
    """Return the errors of single records; the others of the batch fail because of them."""
    found: dict[int, ProducerError] = {}
    for index, own in answer.record_errors:
        text = next(text for text in (own, answer.message, answer.error.message) if text is not None)
        is_only = len(answer.record_errors) == 1
        found[index] = ProducerError.of(answer.error, text) if is_only else ProducerError("InvalidRecordException", text)
    return found


def outcome(batch: ProducerBatch, index: int) -> ProducerError | None:
    """Return why the record `index` of a batch that is done failed; None: it is in the log."""
    if batch.error is None or not batch.record_errors:
        return batch.error
    what = "Failed to append record because it was part of a batch which had one more more invalid records"
    return batch.record_errors.get(index) or ProducerError("KafkaException", what)
