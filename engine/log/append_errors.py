"""Appends that Kafka refuses: one class per exception of Kafka. `kafka` is its full name; the messages are Kafka's."""

from __future__ import annotations

from engine.errors import KafkalogError


class AppendRefused(KafkalogError):
    """A refused append: none of its records was written."""

    code = "append-refused"
    kafka = "org.apache.kafka.common.errors.ApiException"

    @property
    def kafka_text(self) -> str:
        """Exception and message as Java prints them."""
        return f"{self.kafka}: {self}"


class CorruptRecord(AppendRefused):
    """A checksum or a size is wrong (CorruptRecordException)."""

    code = "input-corrupt"
    kafka = "org.apache.kafka.common.errors.CorruptRecordException"


class BrokenCompression(CorruptRecord):
    """Compressed data cannot be inflated; each codec has its own exception."""

    kafka = "org.apache.kafka.common.KafkaException"


class InvalidRecord(AppendRefused):
    """Records break a rule of the format or of the topic (InvalidRecordException)."""

    code = "invalid-record"
    kafka = "org.apache.kafka.common.InvalidRecordException"


class InvalidTimestamp(AppendRefused):
    """The topic does not allow the timestamp (InvalidTimestampException)."""

    code = "invalid-timestamp"
    kafka = "org.apache.kafka.common.errors.InvalidTimestampException"


class RecordValidationFailed(AppendRefused):
    """Some records of a batch are invalid (RecordValidationException).

    cause    the error that the producer gets: InvalidRecord or InvalidTimestamp
    records  (number within the batch, what is wrong with it)
    """

    code = "record-validation-failed"
    kafka = "org.apache.kafka.storage.internals.log.RecordValidationException"

    def __init__(self, cause: AppendRefused, records: list[tuple[int, str]]) -> None:
        super().__init__(cause.kafka_text)
        self.cause = cause
        self.records = records


class RecordTooLarge(AppendRefused):
    """A batch is larger than max.message.bytes (RecordTooLargeException)."""

    code = "record-too-large"
    kafka = "org.apache.kafka.common.errors.RecordTooLargeException"

    @classmethod
    def check(cls, name: str, size: int, max_message_size: int) -> None:
        """Raise if a batch of `size` bytes, as the producer sent it, is larger than the partition `name` accepts."""
        if size > max_message_size:
            raise cls(
                f"The record batch size in the append to {name} is {size} bytes which exceeds the maximum configured value "
                f"of {max_message_size})."
            )


class RecordBatchTooLarge(AppendRefused):
    """The append is larger than segment.bytes (RecordBatchTooLargeException)."""

    code = "record-batch-too-large"
    kafka = "org.apache.kafka.common.errors.RecordBatchTooLargeException"

    @classmethod
    def check(cls, name: str, size: int, segment_size: int) -> None:
        """Raise if `size` bytes do not fit into one segment of the partition `name`."""
        if size > segment_size:
            raise cls(
                f"Message batch size is {size} bytes in append to partition {name}, which exceeds the maximum configured "
                f"segment size of {segment_size}."
            )


class UnsupportedCompressionType(AppendRefused):
    """The topic or the format does not allow the codec (UnsupportedCompressionTypeException)."""

    code = "unsupported-compression-type"
    kafka = "org.apache.kafka.common.errors.UnsupportedCompressionTypeException"


class OutOfOrderSequence(AppendRefused):
    """The sequence number does not follow the producer's last one (OutOfOrderSequenceException)."""

    code = "out-of-order-sequence"
    kafka = "org.apache.kafka.common.errors.OutOfOrderSequenceException"


class InvalidProducerEpoch(AppendRefused):
    """The producer epoch is older than the producer's current one (InvalidProducerEpochException)."""

    code = "invalid-producer-epoch"
    kafka = "org.apache.kafka.common.errors.InvalidProducerEpochException"


class InvalidTxnState(AppendRefused):
    """A batch outside a transaction from a producer that has a transaction open (InvalidTxnStateException)."""

    code = "invalid-txn-state"
    kafka = "org.apache.kafka.common.errors.InvalidTxnStateException"


class TransactionCoordinatorFenced(AppendRefused):
    """A marker from an older transaction coordinator (TransactionCoordinatorFencedException)."""

    code = "transaction-coordinator-fenced"
    kafka = "org.apache.kafka.common.errors.TransactionCoordinatorFencedException"


class OffsetsOutOfOrder(AppendRefused):
    """Offsets in a follower's append do not increase (OffsetsOutOfOrderException)."""

    code = "offsets-out-of-order"
    kafka = "org.apache.kafka.storage.internals.log.OffsetsOutOfOrderException"


class UnexpectedAppendOffset(AppendRefused):
    """A follower's append begins below the log end offset (UnexpectedAppendOffsetException)."""

    code = "unexpected-append-offset"
    kafka = "org.apache.kafka.server.storage.log.UnexpectedAppendOffsetException"


class UnsupportedOperation(AppendRefused):
    """A batch that Kafka's code fails to write (UnsupportedOperationException)."""

    code = "unsupported-operation"
    kafka = "java.lang.UnsupportedOperationException"


class IllegalArgument(AppendRefused):
    """A state that Kafka's code never expects (IllegalArgumentException)."""

    code = "illegal-argument"
    kafka = "java.lang.IllegalArgumentException"
