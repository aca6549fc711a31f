"""Why an operation on a log or a segment fails. Each docstring names Kafka's exception for the same case."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.discovery.names import parent_of
from engine.errors import KafkalogError, argument
from engine.formats import BATCH_HEADER, LOG_OVERHEAD, MIN_RECORD_SIZE
from engine.index.entries import (
    CorruptIndex,
    IndexFull,
    IndexOffsetOverflow,
    InvalidIndexSize,
    InvalidOffset,
    InvalidTimestamp,
    TransactionOrder,
)

if TYPE_CHECKING:
    from engine.files import OpenFile

__all__ = [
    "CompactionRefused",
    "CorruptIndex",
    "CorruptRecord",
    "IndexFull",
    "IndexOffsetOverflow",
    "InvalidIndexSize",
    "InvalidOffset",
    "InvalidTimestamp",
    "LogDamaged",
    "OffsetIndexMissing",
    "OffsetOutOfRange",
    "RecordsInRemoteStorage",
    "RollRefused",
    "SegmentOffsetOverflow",
    "SegmentTooLarge",
    "SplitFailed",
    "TransactionOrder",
    "cut_off",
    "no_offset_left",
    "no_such_size",
    "whole_recovery",
]


def whole_recovery(directory: str) -> str:
    """Advice: the command that reads the whole partition and reports what a recovery would truncate and keep."""
    named = argument(directory)
    return f"kafkalog recover --dry-run --full {named}    # reads all of it, and reports what would be truncated"


class SegmentOffsetOverflow(KafkalogError):
    """A batch whose last offset does not fit after its segment's base offset (SegmentOffsetOverflowException).

    The segment must be split. `base_offset` is its base offset, `offset` the one that does not fit.
    """

    code = "segment-offset-overflow"

    def __init__(self, path: str, base_offset: int, offset: int) -> None:
        super().__init__(
            f"{path}: Detected offset overflow at offset {offset} in segment of base offset {base_offset}",
            do=f"kafkalog recover {argument(parent_of(path))}    # splits the segment",
        )
        self.base_offset = base_offset
        self.offset = offset


class OffsetIndexMissing(KafkalogError):
    """A segment has no .index and must be recovered (NoSuchFileException)."""

    code = "index-missing"


class SegmentTooLarge(KafkalogError):
    """A .log above 2^31 − 1 bytes, for which no index entry can exist (KafkaException)."""

    code = "segment-too-large"


class CorruptRecord(KafkalogError):
    """An invalid size or offset in a batch that was expected to be valid (CorruptRecordException)."""

    code = "corrupt-record"


def no_such_size(file: OpenFile, position: int) -> CorruptRecord:
    """The error for a batch at byte `position` of a .log whose size is invalid. Mirrors FileLogInputStream.nextBatch."""
    what = f"{file.path}: no batch has the size found at byte {position}"
    error = CorruptRecord(what, do=whole_recovery(parent_of(file.path)))
    size = BATCH_HEADER.field("batch_length", file.read(position, LOG_OVERHEAD), 0)
    says = f"Found record size {size} smaller than minimum record overhead ({MIN_RECORD_SIZE})"
    error.broker_says = f"{says} in file {file.path}."
    return error


def cut_off(file: OpenFile, position: int) -> CorruptRecord:
    """The error for a .log that ends inside the batch at byte `position`, although it is not the end of the log."""
    what = f"{file.path}: the file ends inside the batch at byte {position}"
    return CorruptRecord(what, do=whole_recovery(parent_of(file.path)))


def no_offset_left(path: str, position: int, offset: int) -> CorruptRecord:
    """The error for the batch at byte `position` of the .log at `path`, from `offset` on, after which no offset is left."""
    what = f"{path}: the batch at byte {position}, from offset {offset} on, leaves no offset for the next batch"
    return CorruptRecord(what, do=whole_recovery(parent_of(path)))


class LogDamaged(KafkalogError):
    """The log was left unchanged: opening it would lose records, or its damage makes it no basis for other files."""

    code = "log-damaged"
    exit_status = 4


class RollRefused(KafkalogError):
    """A new segment would begin at the base offset of an existing one, or below the active one (KafkaException)."""

    code = "roll-refused"


class RetentionUnknown(KafkalogError):
    """Segments that only settings could allow to delete, which are not known. The log was left unchanged."""

    code = "retention-unknown"
    exit_status = 4


class CompactionRefused(KafkalogError):
    """A log that no cleaner compacts."""

    code = "compaction-refused"


class OffsetOutOfRange(KafkalogError):
    """An offset outside the log, or above the high watermark (OffsetOutOfRangeException). The log itself is valid."""

    code = "offset-out-of-range"
    exit_status = 2


class RecordsInRemoteStorage(KafkalogError):
    """An offset of a tiered log that is below its local segments."""

    code = "records-in-remote-storage"


class SplitFailed(KafkalogError):
    """A segment whose offsets do not fit its index cannot be split either (IllegalStateException)."""

    code = "split-failed"
