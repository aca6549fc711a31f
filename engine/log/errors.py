"""Why an operation on a log or a segment fails. Kafka's exceptions of the same places are named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.discovery.names import parent_of
from engine.errors import KafkalogError, argument
from engine.formats import INT_MAX
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
    from engine.files import ReadOnlyFiles

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
    "no_offset_left",
    "no_such_size",
    "whole_recovery",
]


def whole_recovery(directory: str) -> str:
    """Advice: the command that reads all of the partition in `directory`, and says what a recovery would cut and keep."""
    place = argument(directory)
    return f"kafkalog recover --dry-run --full {place}    # reads all of it, and reports what would be truncated"


class SegmentOffsetOverflow(KafkalogError):
    """A batch whose last offset does not fit after its segment's base offset (SegmentOffsetOverflowException).

    The segment must be split. `base_offset` names it, `offset` is the one that does not fit.
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
    """A segment without its .index: it is recovered (NoSuchFileException)."""

    code = "index-missing"


class SegmentTooLarge(KafkalogError):
    """A .log above 2^31 − 1 bytes, which no index can point into (KafkaException)."""

    code = "segment-too-large"


def refuse_too_large(files: ReadOnlyFiles, path: str, size: int) -> None:
    """Raise SegmentTooLarge if the .log at `path` has so many bytes that Kafka does not open it. Raises UnreadableFile."""
    if size <= INT_MAX:
        return
    with files.open(path) as file:
        is_hole = file.next_data(INT_MAX, size) == size
    what, place = f"{path}: {size} bytes, the largest segment has {INT_MAX}", argument(path)
    if is_hole:
        what += "; the rest is a hole in the file"
        do = f"truncate -s {INT_MAX} {place}    # removes the hole only; then: kafkalog recover {argument(parent_of(path))}"
    else:
        do = f"du -h {place}    # its size on the disk; a log has fewer: move the file out of the partition"
    raise SegmentTooLarge(what, do=do)


class CorruptRecord(KafkalogError):
    """What no sound log has, met where it was expected to be sound: a size, an offset (CorruptRecordException)."""

    code = "corrupt-record"


def no_such_size(path: str, position: int) -> CorruptRecord:
    """Of the log at `path`: what lies at byte `position` says a size that no batch can have."""
    return CorruptRecord(f"{path}: no batch has the size found at byte {position}", do=whole_recovery(parent_of(path)))


def no_offset_left(path: str, position: int, offset: int) -> CorruptRecord:
    """Of the log at `path`: after the batch at byte `position`, which begins at `offset`, no offset is left."""
    what = f"{path}: the batch at byte {position}, from offset {offset} on, leaves no offset for the next batch"
    return CorruptRecord(what, do=whole_recovery(parent_of(path)))


class LogDamaged(KafkalogError):
    """A log that was left as it is: opening it would lose records, or what it holds is no ground for other files."""

    code = "log-damaged"
    exit_status = 4


class RollRefused(KafkalogError):
    """A new segment would begin where one stands, or below the active one (KafkaException)."""

    code = "roll-refused"


class CompactionRefused(KafkalogError):
    """A log that no cleaner compacts."""

    code = "compaction-refused"


class OffsetOutOfRange(KafkalogError):
    """An offset outside the log, or beyond the high watermark (OffsetOutOfRangeException): wrong usage, the log is well."""

    code = "offset-out-of-range"
    exit_status = 2


class RecordsInRemoteStorage(KafkalogError):
    """An offset of a tiered log that no local segment has."""

    code = "records-in-remote-storage"


class SplitFailed(KafkalogError):
    """A segment whose offsets do not fit its index cannot be split either (IllegalStateException)."""

    code = "split-failed"
