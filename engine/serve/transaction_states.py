"""ListTransactions, DescribeTransactions and DescribeProducers, which kafka-transactions.sh sends.

A read-only server answers with the states in the logs of `__transaction_state` in the log dirs. If producers may write, it
answers with those of its own coordinator. Mirrors TransactionCoordinator.handleListTransactions and
handleDescribeTransactions, and ReplicaManager.activeProducerState.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.errors import KafkalogError, argument
from engine.log.fetch.coordinator_logs import TRANSACTION_TOPIC, IdState, TransactionState, coordinator_logs, state_records
from engine.log.fetch.producer_states import producers_of
from engine.protocol.error_codes import Error
from engine.serve.partition_reads import error_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.findings import Finding
    from engine.log.producers.table import ProducerTable
    from engine.serve.catalogue import Catalogue, Partition

    Body = dict[str, Any]

_MOST_PRODUCERS = 20_000  # of a partition in an answer: each takes some hundred bytes


class TransactionalId(NamedTuple):
    """A transactional id as its coordinator knows it. `start_ms`: of the transaction, −1: none is open."""

    state: TransactionState
    producer_id: int
    epoch: int
    timeout_ms: int
    start_ms: int
    partitions: tuple[tuple[str, int], ...]


class StatesOnDisk:
    """The transactional ids in the log dirs. They are read on first use, and again for each request if logs are followed."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue, self._lock = catalogue, Lock()
        self._reported: set[Finding] = set()
        self._known: dict[str, TransactionalId] | None = None

    def read(self) -> Mapping[str, TransactionalId]:
        """Return the transactional ids by name. Raises KafkalogError."""
        with self._lock:
            if self._known is None or self._catalogue.is_followed:
                self._known = self._read()
            return self._known

    def _read(self) -> dict[str, TransactionalId]:
        found: dict[str, TransactionalId] = {}
        files, log_dirs = self._catalogue.files, [one.path for one in self._catalogue.log_dirs]
        for directory in coordinator_logs(files, log_dirs, TRANSACTION_TOPIC).values():
            for record in state_records(files, directory, self._report):
                found.pop(record.transactional_id, None)
                if record.value is not None:
                    one = IdState.of(record, record.value)
                    if one.state is not None and one.state is not TransactionState.Dead:
                        found[record.transactional_id] = TransactionalId(
                            one.state, one.producer_id, one.epoch, one.timeout_ms, one.start_ms, one.partitions
                        )
        return found

    def _report(self, finding: Finding) -> None:
        if finding not in self._reported:
            self._reported.add(finding)
            self._catalogue.report(finding)


class TransactionAnswers:
    """Answers about transactional ids, from `read`, and about the producers of partitions."""

    def __init__(
        self, catalogue: Catalogue, now_ms: Callable[[], int], read: Callable[[], Mapping[str, TransactionalId]]
    ) -> None:
        self._catalogue, self._now_ms, self._read = catalogue, now_ms, read

    def list_transactions(self, body: Body) -> Body:
        """Answer ListTransactions. A pattern (version 2) is not supported: the version is not listed."""
        names = TransactionState.__members__
        unknown = [one for one in body["stateFilters"] if one not in names]
        answer = {"throttleTimeMs": 0, "errorCode": 0, "unknownStateFilters": unknown, "transactionStates": []}
        if body.get("transactionalIdPattern"):
            return answer | {"errorCode": int(Error.UNSUPPORTED_VERSION)}
        try:
            known = self._read()
        except KafkalogError as error:
            self._catalogue.note(error)
            return answer | {"errorCode": int(Error.COORDINATOR_NOT_AVAILABLE)}
        states, producers = {names[one] for one in body["stateFilters"] if one in names}, set(body["producerIdFilters"])
        longer, now = body.get("durationFilter", -1), self._now_ms()
        shown = [
            {"transactionalId": name, "producerId": one.producer_id, "transactionState": one.state.name}
            for name, one in known.items()
            if (not body["stateFilters"] or one.state in states) and (not producers or one.producer_id in producers)
            and (longer < 0 or now - one.start_ms > longer)
        ]  # fmt: skip
        return answer | {"transactionStates": shown}

    def describe_transactions(self, body: Body) -> Body:
        """Answer DescribeTransactions."""
        known: Mapping[str, TransactionalId] = {}
        error = Error.TRANSACTIONAL_ID_NOT_FOUND
        try:
            known = self._read()
        except KafkalogError as failure:
            self._catalogue.note(failure)
            error = Error.COORDINATOR_NOT_AVAILABLE
        states = [_described(name, known.get(name), error if name else Error.INVALID_REQUEST)
                  for name in dict.fromkeys(body["transactionalIds"])]  # fmt: skip
        return {"throttleTimeMs": 0, "transactionStates": states}

    def describe_producers(self, body: Body) -> Body:
        """Answer DescribeProducers: of a log that is not open for producers all that it knows, as none expires."""
        topics: dict[str, dict[int, Body]] = {}
        for topic in body["topics"]:
            known = self._catalogue.topics.get(topic["name"])
            parts = topics.setdefault(topic["name"], {})
            for index in dict.fromkeys(topic["partitionIndexes"]):
                if index not in parts:
                    parts[index] = self._producers(None if known is None else known.partitions.get(index), index)
        answers = [{"name": name, "partitions": list(parts.values())} for name, parts in topics.items()]
        return {"throttleTimeMs": 0, "topics": answers}

    def _producers(self, partition: Partition | None, index: int) -> Body:
        answer: Body = {"partitionIndex": index, "errorCode": 0, "errorMessage": None, "activeProducers": []}
        if partition is None:
            return answer | {"errorCode": int(Error.UNKNOWN_TOPIC_OR_PARTITION)}
        try:
            directory, catalogue = partition.directory, self._catalogue
            if directory not in catalogue.open_logs:
                return answer | _active(partition, producers_of(catalogue.files, directory, catalogue.report))
            with partition.open_log() as log:
                return answer | _active(partition, log.producer_state.producers)
        except KafkalogError as failure:
            partition.note(failure)
            return answer | {"errorCode": int(error_of(failure))}


def _described(name: str, one: TransactionalId | None, error: Error) -> Body:
    if one is None:
        return {"errorCode": int(error), "transactionalId": name, "transactionState": "", "transactionTimeoutMs": 0,
                "transactionStartTimeMs": 0, "producerId": 0, "producerEpoch": 0, "topics": []}  # fmt: skip
    topics: dict[str, list[int]] = {}
    for topic, index in one.partitions:
        topics.setdefault(topic, []).append(index)
    return {
        "errorCode": 0, "transactionalId": name, "transactionState": one.state.name, "transactionTimeoutMs": one.timeout_ms,
        "transactionStartTimeMs": one.start_ms, "producerId": one.producer_id, "producerEpoch": one.epoch,
        "topics": [{"topic": topic, "partitions": indexes} for topic, indexes in topics.items()],
    }  # fmt: skip


def _active(partition: Partition, producers: ProducerTable) -> Body:
    if len(producers) > _MOST_PRODUCERS:
        command = f"kafkalog txn producers {argument(partition.directory)}"
        message = f"{len(producers)} producers are too many for an answer: {command}    # lists them"
        return {"errorCode": int(Error.POLICY_VIOLATION), "errorMessage": message}
    return {"activeProducers": [
        {"producerId": one.producer_id, "producerEpoch": one.producer_epoch, "lastSequence": one.last_seq,
         "lastTimestamp": one.last_timestamp, "coordinatorEpoch": one.coordinator_epoch,
         "currentTxnStartOffset": -1 if one.current_txn_first_offset is None else one.current_txn_first_offset}
        for one in producers.values()
    ]}  # fmt: skip
