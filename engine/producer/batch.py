"""A batch on its way: open for records, closed, sent, split, done; and the compression ratio that is expected of the next ones.

Mirrors ProducerBatch, the parts of MemoryRecordsBuilder that a producer uses, and CompressionRatioEstimator.
"""

from __future__ import annotations

from array import array
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from engine.formats import INT_MAX, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, BatchField, Codec, Status, to_float
from engine.kernels.accumulate import OpenRecords, upper_bound
from engine.kernels.decode import decode_records
from engine.record.assembly import BatchSpec, UnbuildableBatch, finish_batch
from engine.record.columns import BatchColumns, RecordColumns

if TYPE_CHECKING:
    from engine.producer.cluster import TopicPartition
    from engine.producer.failures import ProducerError

_GROWTH = 1.1  # ByteBufferOutputStream.REALLOCATION_FACTOR

_IMPROVING, _DETERIORATING = to_float(0.005), to_float(0.05)


class CompressionRatioEstimator:
    """The expected ratio of compressed to uncompressed bytes of each topic, for one codec, in Java's float."""

    def __init__(self) -> None:
        self._ratios: dict[str, float] = {}

    def estimation(self, topic: str) -> float:
        """Return the expected ratio of the next batch of a topic: 1 at first."""
        return self._ratios.get(topic, 1.0)

    def set(self, topic: str, ratio: float) -> None:
        """Replace the expected ratio."""
        self._ratios[topic] = to_float(ratio)

    def update(self, topic: str, observed: float) -> None:
        """Move the expected ratio towards the one of a closed batch: up in large steps, down in small ones."""
        current = self.estimation(topic)
        if observed > current:
            self._ratios[topic] = max(to_float(current + _DETERIORATING), observed)
        elif observed < current:
            self._ratios[topic] = max(to_float(current - _IMPROVING), observed)


_NONE = memoryview(array("q"))


class Records(NamedTuple):
    """Columns over one buffer, as kernels take them. Appending overwrites the offsets of the columns.

    partitions  of each record by its number; −1: the producer chooses. Empty: it chooses all
    """

    data: memoryview
    columns: RecordColumns
    partitions: memoryview = _NONE


class ProducerIdAndEpoch(NamedTuple):
    """An idempotent producer."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH

    @property
    def is_valid(self) -> bool:
        """Whether a broker assigned it."""
        return self.producer_id > NO_PRODUCER_ID


class FinalState(Enum):
    """How a batch ended."""

    ABORTED = "aborted"
    FAILED = "failed"
    SUCCEEDED = "succeeded"


class ProducerBatch:
    """A batch of one partition.

    buffer       for its records; its size, `capacity`, is the limit of the estimated size
    ratio        expected compression ratio (see CompressionRatioEstimator)
    created_ms   the delivery timeout counts from here
    is_split     made of the records of a batch that was too large for the broker
    spec         codec, level; producer and sequence, once the batch was drained
    base_offset  of the first record in the log, once it is known
    error        why it failed or was aborted
    parts        the batches into which it was split
    """

    __slots__ = (
        "_buffer",
        "_built",
        "attempts",
        "attempts_when_leader_changed",
        "base_offset",
        "capacity",
        "created_ms",
        "error",
        "final_state",
        "in_flight",
        "is_released",
        "is_split",
        "last_append_ms",
        "last_attempt_ms",
        "leader_epoch",
        "log_append_time",
        "observed_ratio",
        "partition",
        "parts",
        "record_errors",
        "records",
        "reopened",
        "retry",
        "spec",
    )  # fmt: skip

    def __init__(
        self, partition: TopicPartition, spec: BatchSpec, buffer: bytearray, ratio: float, created_ms: int, *,
        is_split: bool = False,
    ) -> None:  # fmt: skip
        self.partition, self.spec, self.capacity, self.is_split = partition, spec, len(buffer), is_split
        self.records = OpenRecords(buffer, len(buffer), 0 if spec.codec == Codec.NONE else ratio)
        self._buffer = buffer
        self.created_ms = self.last_attempt_ms = self.last_append_ms = created_ms
        self.attempts = self.attempts_when_leader_changed = 0
        self.leader_epoch: int | None = None
        self.retry = self.reopened = self.in_flight = self.is_released = False
        self.final_state: FinalState | None = None
        self.base_offset = self.log_append_time = -1
        self.error: ProducerError | None = None
        self.parts: list[ProducerBatch] = []
        self.record_errors: dict[int, ProducerError] = {}
        self.observed_ratio = 1.0
        self._built: bytes | None = None

    # ---- records

    def append(
        self, records: Records, rows: memoryview, first: int, end: int, now: int, budget: int = INT_MAX
    ) -> tuple[int, int]:
        """Append the records rows[first:end] while they fit.

        budget  stop when the records without a partition have added this many bytes to the estimated size
        Returns the index of the next record in `rows`, and what was spent of the budget. Raises UnbuildableBatch.
        """
        data, table, partitions = records.data, records.columns.table, records.partitions
        at, status = self.records.append(data, table, partitions, rows, first, end, budget)
        spent = self.records.spent
        while status == Status.FULL:
            written = self.records.written
            needed = upper_bound(data, table, rows[at])
            self._buffer = bytearray(max(int((written + needed) * _GROWTH), 2 * written))
            self.records.grow(self._buffer)
            at, status = self.records.append(data, table, partitions, rows, at, end, budget - spent)
            spent += self.records.spent
        if status != Status.END:
            raise UnbuildableBatch(f"record {rows[at]} of the input cannot be written: a key, value or header is too large")
        if at > first:
            self.last_append_ms = now
        return int(at), int(spent)

    @property
    def count(self) -> int:
        """The number of records."""
        return int(self.records.count)

    @property
    def is_full(self) -> bool:
        """Whether no record can be added."""
        return bool(self.records.is_full)

    @property
    def estimated_size(self) -> int:
        """The size of the batch: exact once it is built, before that what is expected."""
        return int(self.records.estimated_size) if self._built is None else len(self._built)

    # ---- bytes

    @property
    def is_closed(self) -> bool:
        """Whether the bytes are built."""
        return self._built is not None

    def close(self, estimates: CompressionRatioEstimator) -> bytes:
        """Build the bytes if necessary, and learn from their compression ratio; returns the bytes."""
        if self._built is None:
            self._build()
        estimates.update(self.partition.topic, self.observed_ratio)
        self.reopened = False
        assert self._built is not None
        return self._built

    @property
    def encoded(self) -> bytes:
        """The bytes of the batch."""
        if self._built is None:
            self._build()
        assert self._built is not None
        return self._built

    def _build(self) -> None:
        self.records.close()
        first, largest = self.records.timestamps
        body = self.records.body
        self._built = finish_batch(self.spec, body, self.count - 1, first, largest, self.count)
        if self.spec.codec != Codec.NONE:
            self.observed_ratio = self.records.ratio_of(len(self._built) - self.spec.header_size)

    # ---- producer and sequence

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """The producer that sends the batch."""
        return ProducerIdAndEpoch(self.spec.producer_id, self.spec.producer_epoch)

    @property
    def base_sequence(self) -> int:
        """The sequence of the first record, or NO_SEQUENCE."""
        return self.spec.base_sequence

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, as ProducerBatch computes it."""
        return self.spec.base_sequence + self.count - 1

    @property
    def has_sequence(self) -> bool:
        """Whether the batch was drained by an idempotent producer."""
        return self.spec.base_sequence != NO_SEQUENCE

    def set_producer(self, producer: ProducerIdAndEpoch, sequence: int, *, transactional: bool) -> None:
        """Give the batch its producer and sequence, before it is built."""
        if self._built is not None:
            raise AssertionError("a batch that is built has its sequence")
        self._set_spec(producer, sequence, transactional=transactional)

    def reset_producer(self, producer: ProducerIdAndEpoch, sequence: int) -> None:
        """Replace producer and sequence of a batch that was sent; its header is written again."""
        self.reopened, self._built = True, None
        self._set_spec(producer, sequence, transactional=self.spec.transactional)

    def _set_spec(self, producer: ProducerIdAndEpoch, sequence: int, *, transactional: bool) -> None:
        self.spec = self.spec._replace(
            producer_id=producer.producer_id, producer_epoch=producer.epoch, base_sequence=sequence, transactional=transactional
        )

    # ---- attempts

    def note_leader(self, epoch: int | None) -> None:
        """Remember the number of attempts if there is a newer leader."""
        if epoch is not None and (self.leader_epoch is None or self.leader_epoch < epoch):
            self.attempts_when_leader_changed, self.leader_epoch = self.attempts, epoch

    @property
    def has_new_leader(self) -> bool:
        """Whether the leader changed since the last attempt, which makes waiting needless."""
        return self.attempts >= 1 and self.attempts == self.attempts_when_leader_changed

    def put_back(self, now: int) -> None:
        """Count an attempt that failed."""
        self.attempts += 1
        self.last_append_ms = max(self.last_append_ms, now)
        self.last_attempt_ms = self.last_append_ms
        self.retry = True

    def waited_ms(self, now: int) -> int:
        """Return the time since the batch was created or put back."""
        return max(0, now - self.last_attempt_ms)

    def has_expired(self, delivery_timeout_ms: int, now: int) -> bool:
        """Return whether its time is over."""
        return delivery_timeout_ms <= now - self.created_ms

    # ---- the end

    def finish(
        self, state: FinalState, *, base_offset: int = -1, append_time: int = -1, error: ProducerError | None = None
    ) -> bool:
        """End the batch; False if it had ended before."""
        if self.final_state is not None:
            if self.final_state == FinalState.SUCCEEDED:
                raise AssertionError(f"{self.partition}: a batch that succeeded is {state.value}")
            return False
        self.final_state, self.base_offset, self.log_append_time, self.error = state, base_offset, append_time, error
        self.records.close()
        return True

    def free(self) -> bytearray:
        """Give up the bytes, because nobody will send them again; returns the buffer."""
        self.records.close()
        self.records.release()
        self._built = None
        buffer, self._buffer = self._buffer, bytearray()
        return buffer

    def split(self, batch_size: int, estimates: CompressionRatioEstimator) -> list[ProducerBatch]:
        """Return batches of at most `batch_size` bytes with the same records; sequences continue in the next one."""
        records = self._decoded()
        rows = memoryview(array("q", range(self.count)))
        parts: list[ProducerBatch] = []
        at, sequence = 0, self.spec.base_sequence
        plain = self.spec._replace(
            producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH, base_sequence=NO_SEQUENCE, transactional=False
        )
        while at < self.count:
            capacity = max(upper_bound(records.data, records.columns.table, at), batch_size)
            ratio = estimates.estimation(self.partition.topic)
            part = ProducerBatch(self.partition, plain, bytearray(capacity), ratio, self.created_ms, is_split=True)
            at, _ = part.append(records, rows, at, self.count, self.created_ms)
            part.records.close()
            if self.has_sequence:
                part.set_producer(self.producer, sequence, transactional=self.spec.transactional)
                sequence += part.count
            parts.append(part)
        self.parts = parts
        return parts

    def _decoded(self) -> Records:
        body, columns, batches = self.records.body, RecordColumns(self.count), BatchColumns(1)
        fields = {
            BatchField.BODY: 0, BatchField.BODY_END: len(body), BatchField.COUNT: self.count, BatchField.BASE_OFFSET: 0,
            BatchField.BASE_TIMESTAMP: self.records.timestamps[0],
        }  # fmt: skip
        for field, number in fields.items():
            batches.table[field, 0] = number
        filled, _, _, _, status = decode_records(body, batches.table, 0, 1, 0, 0, columns.table, 0)
        if status != Status.END or filled != self.count:
            raise AssertionError(f"{self.partition}: a batch of {self.count} records has {filled}")
        return Records(body, columns, memoryview(bytearray(8 * self.count)).cast("q"))

    def locate(self, index: int) -> tuple[ProducerBatch, int]:
        """Return the batch that has the record `index` now, after splits, and its index there."""
        batch = self
        while batch.parts:
            for part in batch.parts:
                if index < part.count:
                    batch = part
                    break
                index -= part.count
        return batch, index
