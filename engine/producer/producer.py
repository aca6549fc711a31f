"""A producer without connections: records in, requests out, answers in. Mirrors KafkaProducer.

Records go in with `send`; `sender.turn` returns the requests that a client sends; it passes the answers to `sender.complete_…`.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from engine.formats import Status
from engine.kernels.accumulate import given_partitions, key_partitions, upper_bound, upper_bounds
from engine.producer.accumulator import RecordAccumulator
from engine.producer.batch import Records
from engine.producer.config import ROUND_ROBIN
from engine.producer.failures import ProducerError
from engine.producer.partitioner import UNKNOWN_PARTITION, RoundRobinPartitioner
from engine.producer.sender import Sender, outcome
from engine.producer.sequences import TransactionManager
from engine.record.assembly import UnbuildableBatch
from engine.record.builder import NewRecord, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.producer.accumulator import Appended
    from engine.producer.batch import ProducerBatch
    from engine.producer.cluster import Cluster
    from engine.producer.config import ProducerConfig
    from engine.producer.partitioner import Random
    from engine.producer.sender import Client, Clock


# errors of the transaction that fail the record; others are thrown by the call (ApiException)
_FAIL_THE_RECORD = {"InvalidProducerEpochException", "ProducerFencedException"}


class Environment(NamedTuple):
    """What a producer cannot know on its own.

    random               31 bits, for the sticky partitioner        uniform  0 to 1, for times between attempts
    transaction_version  the finalized feature of the brokers
    """

    clock: Clock
    client: Client
    random: Random
    uniform: Callable[[], float]
    transaction_version: Callable[[], int] = lambda: 2


class Sent(NamedTuple):
    """Records first … end − 1 of a call, and the batches that have them.

    end    less than asked for if memory is lacking, or if record `end` is refused
    error  why it is refused, or why the transaction does not take the records that were appended; None: no error
    """

    end: int
    appended: list[Appended]
    error: ProducerError | None = None


class ProducerRecord(NamedTuple):
    """One record. `partition` and `timestamp` (ms) None: the producer decides."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Sequence[tuple[bytes, bytes | None]] = ()


class RecordMetadata(NamedTuple):
    """Where a record is. The offset is −1 if the broker did not say (acks=0)."""

    partition: int
    offset: int
    timestamp: int


class Handle:
    """A record that was sent alone. `batch`, `index`: where it is; None: it was refused, `error` says why."""

    def __init__(self, timestamp: int, batch: ProducerBatch | None, index: int = 0, error: ProducerError | None = None) -> None:
        self._timestamp, self._batch, self._index, self._error = timestamp, batch, index, error

    def result(self) -> RecordMetadata | None:
        """Return what the broker said; None: the record is on its way. Raises ProducerError if it failed."""
        if self._error is not None:
            raise self._error
        assert self._batch is not None
        batch, index = self._batch.locate(self._index)
        if batch.final_state is None:
            return None
        error = outcome(batch, index)
        if error is not None:
            raise error
        offset = -1 if batch.base_offset == -1 else batch.base_offset + index
        timestamp = self._timestamp if batch.log_append_time == -1 else batch.log_append_time
        return RecordMetadata(batch.partition.partition, offset, timestamp)


class KafkaProducer:
    """Partitions and collects records; `sender` sends them. Transactions are `transactions`."""

    def __init__(self, config: ProducerConfig, environment: Environment) -> None:
        self.config, self._clock = config, environment.clock
        self.transactions = TransactionManager(config, environment.transaction_version) if config.idempotence else None
        self.accumulator = RecordAccumulator(
            config, environment.clock.now, environment.random, environment.uniform, self.transactions
        )
        self.sender = Sender(config, self.accumulator, self.transactions, environment.clock, environment.client)
        if config.partitioner_class not in (None, ROUND_ROBIN):
            raise ProducerError("ConfigException", f"Class {config.partitioner_class} could not be found.")
        self._partitioner = RoundRobinPartitioner() if config.partitioner_class == ROUND_ROBIN else None

    def transactional(self) -> TransactionManager:
        """Return the manager of transactions. Raises ProducerError if the producer has none."""
        if self.transactions is None:
            what = (
                "Cannot use transactional methods without enabling transactions by setting the transactional.id "
                "configuration property"
            )
            raise ProducerError("IllegalStateException", what)
        return self.transactions

    def send(self, topic: str, records: Records, first: int, end: int, cluster: Cluster) -> Sent:
        """Partition the records first … end − 1, and put them into batches. Their offsets are overwritten.

        Raises ProducerError for a call that makes no sense, such as one outside of a transaction.
        """
        if self.accumulator.closed:
            raise ProducerError("IllegalStateException", "Cannot perform operation after producer has been closed")
        refused: ProducerError | None = None
        stop = self._end_of_sound(records, first, end)
        try:
            chosen = self._choose(topic, records, first, min(stop + 1, end), cluster)
        except ProducerError as problem:
            return Sent(first, [], problem)
        if stop < end:
            refused = self._refusal(records, stop)
        at, appended = self.accumulator.append(topic, records._replace(partitions=chosen), first, stop, cluster)
        error = self._add_partitions(appended) or (refused if at == stop else None)
        return Sent(at, appended, error)

    def _add_partitions(self, appended: list[Appended]) -> ProducerError | None:
        """Make partitions part of the transaction; returns an error that fails records, raises others."""
        try:
            for partition in dict.fromkeys(one.batch.partition for one in appended):
                if self.transactions is not None:
                    self.transactions.add_partition(partition)
        except ProducerError as error:
            if error.name not in _FAIL_THE_RECORD:
                raise
            return error
        return None

    def send_one(self, record: ProducerRecord, cluster: Cluster) -> tuple[Handle, Appended | None]:
        """Send one record; also returns what was appended. Raises ProducerError where KafkaProducer.send throws."""
        for name, number in (("partition", record.partition), ("timestamp", record.timestamp)):
            if number is not None and number < 0:
                what = f"{name.capitalize()} number" if name == "partition" else name.capitalize()
                message = f"Invalid {name}: {number}. {what} should always be non-negative or null."
                raise ProducerError("IllegalArgumentException", message)
        timestamp = self._clock.now() if record.timestamp is None else record.timestamp
        data, columns = stage([NewRecord(0, timestamp, record.key, record.value, record.headers)])
        records = Records(memoryview(data), columns)
        if record.partition is not None:
            records = records._replace(partitions=memoryview(array("q", [record.partition])))
        sent = self.send(record.topic, records, 0, 1, cluster)
        error = sent.error
        if not sent.appended and error is None:
            error = self._exhausted(records)
        appended = sent.appended[0] if sent.appended else None
        if error is not None:
            if self.transactions is not None:
                self.transactions.note_failure(error)
            return Handle(timestamp, None, error=error), appended
        assert appended is not None
        return Handle(timestamp, appended.batch, appended.start), appended

    def _exhausted(self, records: Records) -> ProducerError:
        size = max(self.config.batch_size, upper_bound(records.data, records.columns.table, 0))
        memory = self.accumulator.memory
        what = (
            f"Failed to allocate {size} bytes within the configured max blocking time {self.config.max_block_ms} ms. "
            f"Total memory: {memory.total} bytes. Available memory: {memory.available} bytes. "
            f"Poolable size: {self.config.batch_size} bytes"
        )
        return ProducerError("BufferExhaustedException", what, is_retriable=True)

    def _end_of_sound(self, records: Records, first: int, end: int) -> int:
        limit = min(self.config.max_request_size, self.config.buffer_memory)
        return int(upper_bounds(records.data, records.columns.table, first, end, limit)[0])

    def _refusal(self, records: Records, row: int) -> ProducerError:
        size = upper_bound(records.data, records.columns.table, row)
        if size < 0:
            raise UnbuildableBatch(f"record {row} of the input cannot be written: a key, value or header is too large")
        limit = self.config.max_request_size
        if size > limit:
            which = f"{limit}, which is the value of the max.request.size configuration."
        else:
            which = "the total memory buffer you have configured with the buffer.memory configuration."
        what = f"The message is {size} bytes when serialized which is larger than {which}"
        return ProducerError("RecordTooLargeException", what)

    def _choose(self, topic: str, records: Records, first: int, end: int, cluster: Cluster) -> memoryview:
        """Return the partition of each record by its number, UNKNOWN_PARTITION: the sticky one."""
        count, wait = cluster.partition_count(topic), self.config.max_block_ms
        if count is None:
            what = f"Topic {topic} not present in metadata after {wait} ms."
            raise ProducerError("TimeoutException", what, is_retriable=True)
        chosen = memoryview(array("q", [UNKNOWN_PARTITION]) * end)
        given = records.partitions
        if len(given):
            row = given_partitions(given, first, end, count, chosen)
            if row < end:
                known = f"Partition {given[row]} of topic {topic} with partition count {count}"
                what = f"{known} is not present in metadata after {wait} ms."
                raise ProducerError("TimeoutException", what, is_retriable=True)
        if self._partitioner is not None:
            for row in range(first, end):
                if chosen[row] == UNKNOWN_PARTITION:
                    chosen[row] = self._partitioner.partition(topic, cluster)
        elif not self.config.ignore_keys:
            done, status = key_partitions(records.data, records.columns.table, first, end, count, chosen)
            if status != Status.END:
                raise UnbuildableBatch(f"record {done} of the input cannot be written: its key is not in the input")
        return chosen
