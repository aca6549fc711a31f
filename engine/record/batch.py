"""Batches and records as objects, made from columns. Mirrors RecordBatch, Record, DefaultRecordBatch.

For people, tests and decisions about single batches; loops over many records use the columns.
"""

from __future__ import annotations

from collections import deque
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
from engine.record.codecs.bounded import MAX_DECOMPRESSED_BYTES
from engine.record.control import increment_sequence, last_sequence
from engine.record.reader import ChunkReader
from engine.record.soundness import unsound_batches, unsound_end
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import OpenFile
    from engine.findings import Finding
    from engine.record.columns import BatchColumns
    from engine.record.reader import Chunk


class RecordBatch:
    """The header of one batch, or of one entry of formats 0 and 1: a copy of its row, valid after the window.

    base  file position of the window to which positions in `batches` refer
    """

    __slots__ = ("_base", "_fields")

    def __init__(self, batches: BatchColumns, row: int, base: int) -> None:
        self._fields, self._base = batches.column(row), base

    @property
    def position(self) -> int:
        """Byte position in the file."""
        return self._base + self._fields[BatchField.POSITION]

    @property
    def size_in_bytes(self) -> int:
        """Size in bytes, including the header."""
        return self._fields[BatchField.SIZE]

    @property
    def magic(self) -> int:
        """Message format: 0, 1 or 2."""
        return self._fields[BatchField.MAGIC]

    @property
    def base_offset(self) -> int:
        """First offset; in formats 0 and 1 the entry's own, which for a compressed set is the last one."""
        return self._fields[BatchField.BASE_OFFSET]

    @property
    def last_offset(self) -> int:
        """Last offset of the batch, which compaction keeps."""
        return self._fields[BatchField.LAST_OFFSET]

    @property
    def record_count(self) -> int | None:
        """Number of records in the header; None in formats 0 and 1."""
        return self._fields[BatchField.COUNT] if self.magic >= MAGIC_V2 else None

    @property
    def codec(self) -> int:
        """Compression codec: a formats.Codec, or an unknown number."""
        return self._fields[BatchField.ATTRIBUTES] & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether all records have the broker's time, `max_timestamp`."""
        return bool(self._fields[BatchField.ATTRIBUTES] & TIMESTAMP_TYPE_FLAG) and self.magic != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return self.magic >= MAGIC_V2 and bool(self._fields[BatchField.ATTRIBUTES] & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds control records, such as transaction markers."""
        return self.magic >= MAGIC_V2 and bool(self._fields[BatchField.ATTRIBUTES] & CONTROL_FLAG)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers of the batch may be removed (KIP-534); None: not set."""
        has_horizon = self.magic >= MAGIC_V2 and self._fields[BatchField.ATTRIBUTES] & DELETE_HORIZON_FLAG
        return self._fields[BatchField.BASE_TIMESTAMP] if has_horizon else None

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp, ms; NO_TIMESTAMP in format 0."""
        return self._fields[BatchField.MAX_TIMESTAMP]

    @property
    def producer_id(self) -> int:
        """Id of the idempotent producer, or NO_PRODUCER_ID."""
        return self._fields[BatchField.PRODUCER_ID]

    @property
    def producer_epoch(self) -> int:
        """Epoch of the producer, or NO_PRODUCER_EPOCH."""
        return self._fields[BatchField.PRODUCER_EPOCH]

    @property
    def base_sequence(self) -> int:
        """Sequence of the first record, or NO_SEQUENCE."""
        return self._fields[BatchField.BASE_SEQUENCE]

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, or NO_SEQUENCE; 0 follows 2147483647."""
        return last_sequence(self.base_sequence, self.last_offset - self.base_offset)

    @property
    def partition_leader_epoch(self) -> int:
        """Epoch of the leader that appended it, or NO_PARTITION_LEADER_EPOCH."""
        return self._fields[BatchField.LEADER_EPOCH]

    @property
    def crc(self) -> int:
        """The checksum as stored, unsigned."""
        return self._fields[BatchField.CRC]

    @property
    def is_valid(self) -> bool:
        """Whether the stored checksum matches the bytes."""
        return self._fields[BatchField.VALID] == 1


class Record:
    """One record of a chunk, with copies of its key, value and headers; `batch` is the batch that contains it."""

    __slots__ = ("batch", "headers", "key", "offset", "timestamp", "value")

    def __init__(self, chunk: Chunk, column: int, batch: RecordBatch) -> None:
        table = chunk.records.table
        self.batch = batch
        self.offset: int = table[RecordField.OFFSET, column]
        self.timestamp: int = table[RecordField.TIMESTAMP, column]  # ms, or NO_TIMESTAMP
        self.key = chunk.key(column)  # None is null
        self.value = chunk.value(column)  # None is null; in a compacted topic a tombstone
        self.headers = chunk.headers(column) if batch.magic >= MAGIC_V2 else []  # (key, value), in order

    @property
    def sequence(self) -> int:
        """Sequence of the record, or NO_SEQUENCE."""
        first = self.batch.base_sequence
        return increment_sequence(first, self.offset - self.batch.base_offset) if first >= 0 else NO_SEQUENCE


def read_batches(file: OpenFile, report: Callable[[Finding], None]) -> Iterator[RecordBatch]:
    """Return the batches of a log up to the first damage, headers only.

    report  receives why and where the walk ended early, and wrong checksums
    Raises UnreadableFile, and FileChangedWhileReading.
    """
    walk = LogWalk(file)
    for window in walk:
        unsound = deque(unsound_batches(file.path, window, codecs=True))
        for row in range(window.rows):
            while unsound and unsound[0][0] == row:
                report(unsound.popleft()[1])
            yield RecordBatch(window.batches, row, window.base)
    _check_end(walk, report)


def read_records(
    file: OpenFile, report: Callable[[Finding], None], limit: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Record]:
    """Return the records of a log up to the first bad size field, of every format, including control records.

    report  receives problems          limit  decompressed bytes of a batch
    Raises UnreadableFile, and FileChangedWhileReading.
    """
    reader, walk = ChunkReader(file.path, report, limit), LogWalk(file)
    for window in walk:
        batches = [RecordBatch(window.batches, row, window.base) for row in range(window.rows)]
        for _, finding in unsound_batches(file.path, window, codecs=False):
            report(finding)
        for chunk in reader.chunks(window):
            batch_of = chunk.records.field(RecordField.BATCH)
            for column in range(chunk.first, chunk.end):
                yield Record(chunk, column, batches[batch_of[column]])
    _check_end(walk, report)


def _check_end(walk: LogWalk, report: Callable[[Finding], None]) -> None:
    finding = unsound_end(walk.file, walk.file.path, walk.stop, walk.position, walk.end)
    if finding is not None:
        report(finding)
