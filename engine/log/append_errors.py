"""Appends that Kafka refuses: one class per exception, under its name. `kafka` is the full name, messages are Kafka's."""

from __future__ import annotations

from engine.errors import KafkalogError


class AppendRefused(KafkalogError):
    """An append that was not carried out: no record of it was written."""

    code = "append-refused"
    kafka = "org.apache.kafka.common.errors.ApiException"

    @property
    def kafka_text(self) -> str:
        """Exception and message as Java prints them."""
        return f"{self.kafka}: {self}"


class CorruptRecord(AppendRefused):
    """A checksum or a size that does not fit (CorruptRecordException)."""

    code = "corrupt-record"
    kafka = "org.apache.kafka.common.errors.CorruptRecordException"


class InvalidRecord(AppendRefused):
    """Records that break a rule of the format or of the topic (InvalidRecordException)."""

    code = "invalid-record"
    kafka = "org.apache.kafka.common.InvalidRecordException"


class InvalidTimestamp(AppendRefused):
    """A timestamp that the topic does not allow (InvalidTimestampException)."""

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
    """A batch above max.message.bytes (RecordTooLargeException)."""

    code = "record-too-large"
    kafka = "org.apache.kafka.common.errors.RecordTooLargeException"

    @classmethod
    def check(cls, name: str, size: int, max_message_size: int) -> None:
        """Raise it if a batch of `size` bytes, as it came, is more than the partition `name` takes."""
        if size > max_message_size:
            raise cls(
                f"The record batch size in the append to {name} is {size} bytes which exceeds the maximum configured value "
                f"of {max_message_size})."
            )


class RecordBatchTooLarge(AppendRefused):
    """More bytes than segment.bytes (RecordBatchTooLargeException)."""

    code = "record-batch-too-large"
    kafka = "org.apache.kafka.common.errors.RecordBatchTooLargeException"

    @classmethod
    def check(cls, name: str, size: int, segment_size: int) -> None:
        """Raise it if no segment of the partition `name` takes `size` bytes at once."""
        if size > segment_size:
            raise cls(
                f"Message batch size is {size} bytes in append to partition {name}, which exceeds the maximum configured "
                f"segment size of {segment_size}."
            )


class UnsupportedCompressionType(AppendRefused):
    """A codec that the batch may not have (UnsupportedCompressionTypeException)."""

    code = "unsupported-compression-type"
    kafka = "org.apache.kafka.common.errors.UnsupportedCompressionTypeException"


class OutOfOrderSequence(AppendRefused):
    """A sequence that does not follow the producer's last one (OutOfOrderSequenceException)."""

    code = "out-of-order-sequence"
    kafka = "org.apache.kafka.common.errors.OutOfOrderSequenceException"


class InvalidProducerEpoch(AppendRefused):
    """An epoch older than the producer's (InvalidProducerEpochException)."""

    code = "invalid-producer-epoch"
    kafka = "org.apache.kafka.common.errors.InvalidProducerEpochException"


class InvalidTxnState(AppendRefused):
    """A plain batch of a producer that has a transaction open (InvalidTxnStateException)."""

    code = "invalid-txn-state"
    kafka = "org.apache.kafka.common.errors.InvalidTxnStateException"


class TransactionCoordinatorFenced(AppendRefused):
    """A marker of an older transaction coordinator (TransactionCoordinatorFencedException)."""

    code = "transaction-coordinator-fenced"
    kafka = "org.apache.kafka.common.errors.TransactionCoordinatorFencedException"


class OffsetsOutOfOrder(AppendRefused):
    """Offsets of a follower's append that do not grow (OffsetsOutOfOrderException)."""

    code = "offsets-out-of-order"
    kafka = "org.apache.kafka.storage.internals.log.OffsetsOutOfOrderException"


class UnexpectedAppendOffset(AppendRefused):
    """A follower's append that begins below the log end offset (UnexpectedAppendOffsetException)."""

    code = "unexpected-append-offset"
    kafka = "org.apache.kafka.server.storage.log.UnexpectedAppendOffsetException"


class IllegalArgument(AppendRefused):
    """What Kafka's code never expects (IllegalArgumentException)."""

    code = "illegal-argument"
    kafka = "java.lang.IllegalArgumentException"
