"""Why an index refuses to be opened or to take an entry. Kafka's exceptions of the same places are named."""

from __future__ import annotations

from engine.errors import KafkalogError, UnreadableFile


class IndexTooLarge(UnreadableFile):
    """An index with more bytes than one may have. It was not read."""


class CorruptIndex(KafkalogError):
    """An index that the broker would not use: its segment is recovered (CorruptIndexException)."""

    code = "index-corrupt"


class IndexFull(KafkalogError):
    """No room for another entry (IllegalArgumentException). Appending rolls before; in recovery the index is too small."""

    code = "index-full"


class InvalidOffset(KafkalogError):
    """An entry whose offset does not follow the last one (InvalidOffsetException)."""

    code = "invalid-offset"


class InvalidTimestamp(KafkalogError):
    """An entry whose timestamp is below that of the last one (IllegalStateException)."""

    code = "invalid-timestamp"


class IndexOffsetOverflow(KafkalogError):
    """An offset that 31 bits behind the base offset can not hold (IndexOffsetOverflowException)."""

    code = "index-offset-overflow"


class InvalidIndexSize(KafkalogError):
    """segment.index.bytes holds not even one entry (IllegalArgumentException)."""

    code = "invalid-index-size"


class TransactionOrder(KafkalogError):
    """An aborted transaction that ends before the one in front of it (IllegalArgumentException)."""

    code = "transaction-order"
