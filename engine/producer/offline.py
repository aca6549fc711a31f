"""A producer of one topic without a network: one broker leads all partitions and takes every batch at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.formats import INT_MAX, LONG_MAX, RecordField
from engine.producer.batch import Records
from engine.producer.cluster import Cluster, Node, Topic
from engine.producer.producer import Environment, KafkaProducer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.producer.config import ProducerConfig
    from engine.producer.partitioner import Random
    from engine.record.columns import RecordColumns

_NODE = 1


class _Clock:
    """Time that moves with the records; it never goes back."""

    def __init__(self) -> None:
        self.time = 0

    def now(self) -> int:
        return self.time

    def sleep(self, ms: int) -> None:
        self.time += ms


class _Client:
    """A connection that is always ready."""

    def is_ready(self, node: int) -> bool:
        return node == _NODE

    def least_loaded(self) -> int:
        return _NODE


class OfflineProducer:
    """Partitions records, and returns the batches of each partition in the order in which they are sent.

    linger_ms  the time of a record is its timestamp: a batch is sent this long after its first record. None: no time passes, so
               that batches are sent when they are full, or at the end, as if the records came faster than they can be sent
    """

    def __init__(
        self, config: ProducerConfig, topic: str, partitions: int, random: Random, uniform: Callable[[], float],
        linger_ms: int | None = None,
    ) -> None:  # fmt: skip
        lasting = replace(
            config, acks=0, idempotence=False, linger_ms=INT_MAX if linger_ms is None else linger_ms,
            delivery_timeout_ms=LONG_MAX, max_request_size=config.buffer_memory,
        )  # fmt: skip
        self._topic, self._passes, self._clock = topic, linger_ms is not None, _Clock()
        self._cluster = Cluster((Node(_NODE, "127.0.0.1", 9092),), {topic: Topic((_NODE,) * partitions)})
        self._producer = KafkaProducer(lasting, Environment(self._clock, _Client(), random, uniform))

    def send(self, data: memoryview, columns: RecordColumns, filled: int) -> Iterator[tuple[int, bytes]]:
        """Take the first `filled` records; returns the batches that are sent now, with their partitions.

        Raises ProducerError for a record that a producer refuses; those before it are in batches.
        """
        records, at = Records(data, columns), 0
        while at < filled:
            end = filled
            if self._passes:
                end = self._move_clock(columns, at, filled)
                yield from self._sent()
            taken = self._producer.send(self._topic, records, at, end, self._cluster)
            if taken.error is not None:
                raise taken.error
            if taken.end < end:
                yield from self._make_room()
            at = taken.end

    def flush(self) -> Iterator[tuple[int, bytes]]:
        """Return the batches that wait."""
        accumulator = self._producer.accumulator
        accumulator.flushes += 1
        yield from self._sent()
        accumulator.flushes -= 1

    def _make_room(self) -> Iterator[tuple[int, bytes]]:
        """Send batches, because a record waits for memory."""
        memory = self._producer.accumulator.memory
        memory.waiting, before = True, memory.available
        yield from self._sent()
        memory.waiting = False
        if memory.available == before:
            raise AssertionError(f"{before} of {memory.total} bytes are free, and no batch can be sent")

    def _move_clock(self, columns: RecordColumns, at: int, filled: int) -> int:
        """Set the clock to the time of record `at`; returns the end of the records before which it does not move again."""
        timestamps = columns.field(RecordField.TIMESTAMP)
        self._clock.time = max(self._clock.time, timestamps[at])
        at += 1
        while at < filled and timestamps[at] <= self._clock.time:
            at += 1
        return at

    def _sent(self) -> Iterator[tuple[int, bytes]]:
        sender = self._producer.sender
        while requests := sender.turn(self._cluster):
            for request in requests:
                for batch in request.batches:
                    yield batch.partition.partition, batch.encoded
                sender.complete_produce(request, None, self._cluster)
