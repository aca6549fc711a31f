"""Batches and records as objects: light views on columns, made on demand. Mirrors RecordBatch, Record, DefaultRecordBatch.

For people, tests and decisions about single batches; loops over all records read the columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.formats import (
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    MAGIC_V2,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchField,
    RecordField,
)
from engine.record.builder import increment_sequence
from engine.record.reader import MAX_DECOMPRESSED_BYTES, ChunkReader
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import OpenFile
    from engine.findings import Finding
    from engine.record.columns import BatchColumns
    from engine.record.reader import Chunk


class RecordBatch:
    """One batch, or one entry of formats 0 and 1, as its header says. Valid as long as its window.

    base  file position of the window that positions in `batches` count from
    """

    __slots__ = ("_base", "_batches", "_row")

    def __init__(self, batches: BatchColumns, row: int, base: int) -> None:
        self._batches, self._row, self._base = batches, row, base

    def _field(self, field: BatchField) -> int:
        value: int = self._batches.table[field, self._row]
        return value

    @property
    def position(self) -> int:
        """Byte position in the file."""
        return self._base + self._field(BatchField.POSITION)

    @property
    def size_in_bytes(self) -> int:
        """Whole size, header included."""
        return self._field(BatchField.SIZE)

    @property
    def magic(self) -> int:
        """Message format: 0, 1 or 2."""
        return self._field(BatchField.MAGIC)

    @property
    def base_offset(self) -> int:
        """First offset; of formats 0 and 1 the entry's own, which for a compressed set is its last."""
        return self._field(BatchField.BASE_OFFSET)

    @property
    def last_offset(self) -> int:
        """Last offset that the batch claims, whatever the cleaner left of it."""
        return self._field(BatchField.LAST_OFFSET)

    @property
    def record_count(self) -> int | None:
        """Records, as the header says; None in formats 0 and 1."""
        return self._field(BatchField.COUNT) if self.magic >= MAGIC_V2 else None

    @property
    def codec(self) -> int:
        """Compression codec: a formats.Codec, or a number that is none."""
        return self._field(BatchField.ATTRIBUTES) & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Do all records have the broker's time, `max_timestamp`?"""
        return bool(self._field(BatchField.ATTRIBUTES) & TIMESTAMP_TYPE_FLAG) and self.magic != 0

    @property
    def is_transactional(self) -> bool:
        """Is it part of a transaction?"""
        return self.magic >= MAGIC_V2 and bool(self._field(BatchField.ATTRIBUTES) & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        """Does it hold control records, such as transaction markers?"""
        return self.magic >= MAGIC_V2 and bool(self._field(BatchField.ATTRIBUTES) & CONTROL_FLAG)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When its tombstones and markers may go (KIP-534); None: not set."""
        has_horizon = self.magic >= MAGIC_V2 and self._field(BatchField.ATTRIBUTES) & DELETE_HORIZON_FLAG
        return self._field(BatchField.BASE_TIMESTAMP) if has_horizon else None

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp, ms; NO_TIMESTAMP in format 0."""
        return self._field(BatchField.MAX_TIMESTAMP)

    @property
    def producer_id(self) -> int:
        """Of an idempotent producer, or NO_PRODUCER_ID."""
        return self._field(BatchField.PRODUCER_ID)

    @property
    def producer_epoch(self) -> int:
        """Epoch of the producer, or NO_PRODUCER_EPOCH."""
        return self._field(BatchField.PRODUCER_EPOCH)

    @property
    def base_sequence(self) -> int:
        """Sequence of the first record, or NO_SEQUENCE."""
        return self._field(BatchField.BASE_SEQUENCE)

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, or NO_SEQUENCE; 0 follows 2147483647."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset - self.base_offset)

    @property
    def partition_leader_epoch(self) -> int:
        """Epoch of the leader that appended it, or NO_PARTITION_LEADER_EPOCH."""
        return self._field(BatchField.LEADER_EPOCH)

    @property
    def crc(self) -> int:
        """The checksum as stored, unsigned."""
        return self._field(BatchField.CRC)

    @property
    def is_valid(self) -> bool:
        """Does the stored checksum fit the bytes?"""
        return self._field(BatchField.VALID) == 1


class Record:
    """One record of a chunk; `batch` is the batch around it. Valid as long as its chunk."""

    __slots__ = ("_chunk", "_column", "batch")

    def __init__(self, chunk: Chunk, column: int, batch: RecordBatch) -> None:
        self._chunk, self._column, self.batch = chunk, column, batch

    def _field(self, field: RecordField) -> int:
        value: int = self._chunk.records.table[field, self._column]
        return value

    @property
    def offset(self) -> int:
        """Log offset."""
        return self._field(RecordField.OFFSET)

    @property
    def timestamp(self) -> int:
        """Milliseconds since the epoch, or NO_TIMESTAMP."""
        return self._field(RecordField.TIMESTAMP)

    @property
    def sequence(self) -> int:
        """Sequence of the producer, or NO_SEQUENCE."""
        first = self.batch.base_sequence
        return increment_sequence(first, self.offset - self.batch.base_offset) if first >= 0 else NO_SEQUENCE

    @property
    def key(self) -> bytes | None:
        """A copy of the key; None is null."""
        return self._chunk.key(self._column)

    @property
    def value(self) -> bytes | None:
        """A copy of the value; None is null: a tombstone, where the topic is compacted."""
        return self._chunk.value(self._column)

    @property
    def headers(self) -> list[tuple[bytes, bytes | None]]:
        """Copies of the headers, in order. Formats 0 and 1 have none."""
        return self._chunk.headers(self._column) if self.batch.magic >= MAGIC_V2 else []

    @property
    def key_size(self) -> int:
        """Bytes of the key; −1: null."""
        return self._field(RecordField.KEY_SIZE)

    @property
    def value_size(self) -> int:
        """Bytes of the value; −1: null."""
        return self._field(RecordField.VALUE_SIZE)


def read_batches(file: OpenFile) -> Iterator[RecordBatch]:
    """The batches of a log from its beginning to the first damage, headers only. Each is valid until the next.

    Raises UnreadableFile, and FileChangedWhileReading.
    """
    for window in LogWalk(file):
        for row in range(window.rows):
            yield RecordBatch(window.batches, row, window.base)


def read_records(
    file: OpenFile, report: Callable[[Finding], None], limit: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Record]:
    """The records of a log, of every format, control records included. Each is valid until the next.

    report  takes what is wrong inside batches        limit  bytes that a batch may inflate to
    Raises UnreadableFile, and FileChangedWhileReading.
    """
    reader = ChunkReader(file.path, report, limit)
    for window in LogWalk(file):
        for chunk in reader.chunks(window):
            batch_of = chunk.records.field(RecordField.BATCH)
            for column in range(chunk.first, chunk.end):
                yield Record(chunk, column, RecordBatch(chunk.batches, batch_of[column], window.base))
