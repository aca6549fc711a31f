"""Encode columns as the bytes of one batch: fields, checksums, compression, in every format.

Mirrors DefaultRecordBatch.writeHeader, LegacyRecord.writeCompressedRecordHeader and the checks of MemoryRecordsBuilder.
Uncompressed bytes equal Kafka's; compressed ones are equal after decompression.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import KafkalogError
from engine.formats import (
    BATCH_HEADER,
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    INT_MAX,
    LEGACY_OVERHEAD_V0,
    LEGACY_OVERHEAD_V1,
    LEGACY_V0,
    LEGACY_V1,
    LOG_OVERHEAD,
    LONG_MAX,
    LONG_MIN,
    MAGIC_V0,
    MAGIC_V1,
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchField,
    BatchHeader,
    Codec,
    LegacyHeaderV0,
    LegacyHeaderV1,
    RecordField,
    Status,
)
from engine.kernels.encode import LegacyForm, encode_legacy, encode_records, measure_records
from engine.record.windows import crc32c

if TYPE_CHECKING:
    from engine.record.columns import BatchColumns, RecordColumns

CREATE_TIME, LOG_APPEND_TIME = 0, 1  # timestamp types in attribute bit 3

_SIZE = LEGACY_V0.fields["key_size"]  # a value has the same size field
_CHECKED_FROM = BATCH_HEADER.positions["attributes"]
_LEGACY_CRC_AT = LEGACY_V0.positions["crc"]
_LEGACY_CHECKED_FROM = LEGACY_V0.positions["magic"]


class UnbuildableBatch(KafkalogError):
    """Records that do not fit into a batch: offsets out of order, fields that the format lacks, too many bytes."""

    code = "unbuildable-batch"


class BatchSpec(NamedTuple):
    """The header fields of a batch."""

    base_offset: int = 0
    codec: Codec = Codec.NONE
    level: int | None = None  # None: Kafka's default for the codec
    timestamp_type: int = CREATE_TIME
    log_append_time: int = NO_TIMESTAMP  # ms, with LOG_APPEND_TIME
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    transactional: bool = False
    control: bool = False
    delete_horizon_ms: int = NO_TIMESTAMP
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH
    magic: int = MAGIC_V2

    @property
    def attributes(self) -> int:
        """The attributes field of the batch or wrapper."""
        attributes = int(self.codec)
        if self.magic > MAGIC_V0 and self.timestamp_type == LOG_APPEND_TIME:
            attributes |= TIMESTAMP_TYPE_FLAG
        if self.transactional:
            attributes |= TRANSACTIONAL_FLAG
        if self.control:
            attributes |= CONTROL_FLAG
        if self.delete_horizon_ms >= 0:
            attributes |= DELETE_HORIZON_FLAG
        return attributes

    @property
    def header_size(self) -> int:
        """Bytes before the first record, never compressed (AbstractRecords.recordBatchHeaderSizeInBytes)."""
        if self.magic == MAGIC_V2:
            return BATCH_HEADER.size
        return LOG_OVERHEAD + legacy_overhead(self.magic) if self.codec != Codec.NONE else 0


def spec_of(batches: BatchColumns, row: int) -> BatchSpec:
    """Return the header fields of a batch of any format, for a batch of format 2 without a delete horizon."""
    table = batches.table
    attributes, magic = table[BatchField.ATTRIBUTES, row], table[BatchField.MAGIC, row]
    append_time = magic > MAGIC_V0 and bool(attributes & TIMESTAMP_TYPE_FLAG)
    is_v2 = magic >= MAGIC_V2
    return BatchSpec(
        base_offset=table[BatchField.BASE_OFFSET, row],
        codec=Codec(attributes & CODEC_MASK),
        timestamp_type=LOG_APPEND_TIME if append_time else CREATE_TIME,
        log_append_time=table[BatchField.MAX_TIMESTAMP, row] if append_time else NO_TIMESTAMP,
        producer_id=table[BatchField.PRODUCER_ID, row],
        producer_epoch=table[BatchField.PRODUCER_EPOCH, row],
        base_sequence=table[BatchField.BASE_SEQUENCE, row],
        transactional=is_v2 and bool(attributes & TRANSACTIONAL_FLAG),
        control=is_v2 and bool(attributes & CONTROL_FLAG),
        partition_leader_epoch=table[BatchField.LEADER_EPOCH, row],
    )


def check_spec(spec: BatchSpec) -> None:
    """Raise UnbuildableBatch if the format lacks a field of `spec`, as MemoryRecordsBuilder and its close() do."""
    if spec.magic not in (MAGIC_V0, MAGIC_V1, MAGIC_V2):
        raise UnbuildableBatch(f"message format {spec.magic} does not exist")
    for value in (spec.base_offset, spec.log_append_time, spec.delete_horizon_ms):
        if not LONG_MIN <= value <= LONG_MAX:
            raise UnbuildableBatch(f"{value} has more than 64 bits")
    if spec.transactional and spec.producer_id == NO_PRODUCER_ID:
        raise UnbuildableBatch("a transactional batch needs a producer id")
    if spec.producer_id != NO_PRODUCER_ID:
        if spec.producer_epoch == NO_PRODUCER_EPOCH:
            raise UnbuildableBatch("a batch with a producer id needs a producer epoch")
        if spec.base_sequence < 0 and not spec.control:
            raise UnbuildableBatch("a batch with a producer id needs a sequence")
    if spec.magic < MAGIC_V2:
        lacking = (
            ("transactions", spec.transactional), ("control records", spec.control), ("zstd", spec.codec == Codec.ZSTD),
            ("delete horizons", spec.delete_horizon_ms >= 0), ("producer ids", spec.producer_id != NO_PRODUCER_ID),
        )  # fmt: skip
        for what, wanted in lacking:
            if wanted:
                raise UnbuildableBatch(f"message format {spec.magic} has no {what}")


def encode_batch(
    spec: BatchSpec,
    data: bytes | bytearray | memoryview,
    columns: RecordColumns,
    count: int,
    *,
    first: int = 0,
    last_offset: int | None = None,
) -> bytes:
    """Return the batch of columns first … first + count − 1 over `data`, with at least one record.

    Magic 2: one batch. Magic 0 and 1: one wrapper with a codec, or a message set without. `last_offset` replaces the offset of
    the last record. Raises UnbuildableBatch.
    """
    if count < 1 or first < 0 or count > columns.capacity - first:
        raise UnbuildableBatch(f"{count} columns from {first} on do not exist: there are {columns.capacity}")
    rows = _Rows(memoryview(data), columns, first, count)
    last = columns.table[RecordField.OFFSET, first + count - 1]
    if last_offset is not None:
        if not last <= last_offset <= spec.base_offset + INT_MAX:
            raise UnbuildableBatch(f"{last_offset} cannot be the last offset of a batch that ends with offset {last}")
        last = last_offset
    largest = spec.log_append_time
    if spec.timestamp_type != LOG_APPEND_TIME:
        largest = max(rows.field(RecordField.TIMESTAMP))
    if spec.magic < MAGIC_V2:
        entries = _encode_entries(spec, rows)
        return entries if spec.codec == Codec.NONE else _wrap(spec, _deflate(spec, entries), last, largest)
    base_timestamp = spec.delete_horizon_ms if spec.delete_horizon_ms >= 0 else rows.field(RecordField.TIMESTAMP)[0]
    body = _encode_body(spec, rows, base_timestamp)
    return finish_batch(spec, body, last, base_timestamp, largest, count)


def encode_body(
    spec: BatchSpec, data: memoryview, columns: RecordColumns, first: int, count: int, base_timestamp: int,
) -> bytearray:
    """Return the records first … first + count − 1 as the uncompressed body of a batch of magic 2.

    Several bodies can be concatenated for one batch. Raises UnbuildableBatch.
    """
    return _encode_body(spec, _Rows(data, columns, first, count), base_timestamp)


def finish_batch(
    spec: BatchSpec, body: bytes | bytearray, last_offset: int, base_timestamp: int, max_timestamp: int, count: int,
) -> bytes:
    """Return the batch of magic 2 with the uncompressed records `body`. Mirrors DefaultRecordBatch.writeHeader.

    Raises UnbuildableBatch.
    """
    body = _deflate(spec, body) if body else body
    header = BatchHeader(
        spec.base_offset, BATCH_HEADER.size - LOG_OVERHEAD + len(body), spec.partition_leader_epoch, spec.magic, 0,
        spec.attributes, last_offset - spec.base_offset, base_timestamp, max_timestamp,
        spec.producer_id, spec.producer_epoch, spec.base_sequence, count,
    )  # fmt: skip
    try:
        head = bytearray(BATCH_HEADER.pack(header))
        BATCH_HEADER.put("crc", head, 0, crc32c(body, crc32c(head[_CHECKED_FROM:])))
        return b"".join((head, body))
    except struct.error as error:
        raise UnbuildableBatch(f"a field of the batch header is out of range: {error}") from error


def empty_batch(spec: BatchSpec, last_offset: int, timestamp: int = NO_TIMESTAMP) -> bytes:
    """Return a batch without records, as the cleaner writes it to keep producer state or offsets.

    `timestamp` is the largest one of the original batch. Mirrors DefaultRecordBatch.writeEmptyHeader.
    """
    plain = spec._replace(codec=Codec.NONE, delete_horizon_ms=NO_TIMESTAMP)
    return finish_batch(plain, b"", last_offset, NO_TIMESTAMP, timestamp, 0)


def legacy_overhead(magic: int) -> int:
    """Return the bytes of an entry of magic 0 or 1 without offset, size, key and value (LegacyRecord.recordOverhead)."""
    return LEGACY_OVERHEAD_V0 if magic == MAGIC_V0 else LEGACY_OVERHEAD_V1


class _Rows(NamedTuple):
    """Columns first … first + length − 1 over the buffer to which they refer."""

    data: memoryview
    columns: RecordColumns
    first: int
    length: int

    def field(self, field: RecordField) -> memoryview:
        return self.columns.field(field)[self.first : self.first + self.length]

    def measure(self, magic: int, base_offset: int, base_timestamp: int) -> int:
        """Return the encoded size of the records in bytes. Raises UnbuildableBatch if one cannot be written."""
        sizes = memoryview(array("q", bytes(8 * self.length)))
        done, size, status = measure_records(
            self.data, self.columns.table, self.first, self.length, magic, base_offset, base_timestamp, sizes,
        )  # fmt: skip
        self.expect_end(status, done)
        if size > INT_MAX - BATCH_HEADER.size:
            raise UnbuildableBatch(f"{self.length} records take {size} bytes, more than one batch can hold")
        return int(size)

    def expect_end(self, status: int, done: int) -> None:
        """Raise UnbuildableBatch if a kernel stopped early, at record `done`."""
        if status == Status.BAD_RECORD:
            offset = self.columns.table[RecordField.OFFSET, self.first + done]
            raise UnbuildableBatch(f"offset {offset}: no record can be made of its columns")
        if status != Status.END:
            raise AssertionError(f"kernel status {status} with columns and room checked")


def _encode_body(spec: BatchSpec, rows: _Rows, base_timestamp: int) -> bytearray:
    body = bytearray(rows.measure(MAGIC_V2, spec.base_offset, base_timestamp))
    done, _, status = encode_records(
        rows.data, rows.columns.table, rows.first, rows.length, spec.base_offset, base_timestamp, memoryview(body), 0,
    )  # fmt: skip
    rows.expect_end(status, done)
    return body


def _deflate(spec: BatchSpec, data: bytes | bytearray) -> bytes | bytearray:
    if spec.codec == Codec.NONE:
        return data
    from engine.record.codecs.codecs import deflate  # imports the codec libraries

    packed = deflate(spec.codec, data, level=spec.level, magic=spec.magic)
    if len(packed) > INT_MAX - BATCH_HEADER.size:
        raise UnbuildableBatch(f"{len(packed)} compressed bytes are more than one batch can hold")
    return packed


def _encode_entries(spec: BatchSpec, rows: _Rows) -> bytes:
    """Return entries of magic 0 or 1, each with its checksum: a message set, or the content of a wrapper."""
    wrapped = spec.codec != Codec.NONE
    out = memoryview(bytearray(rows.measure(spec.magic, 0, 0)))
    ends = memoryview(array("q", bytes(8 * rows.length)))
    origin = spec.base_offset if wrapped and spec.magic == MAGIC_V1 else 0
    form = LegacyForm(spec.magic, spec.attributes & TIMESTAMP_TYPE_FLAG, origin, spec.log_append_time)
    done, _, status = encode_legacy(rows.data, rows.columns.table, rows.first, rows.length, form, out, 0, ends)
    rows.expect_end(status, done)
    at = 0
    for end in ends:
        LEGACY_V0.put("crc", out, at, zlib.crc32(out[at + _LEGACY_CHECKED_FROM : end]))
        at = end
    return bytes(out)


def _wrap(spec: BatchSpec, value: bytes | bytearray, last_offset: int, max_timestamp: int) -> bytes:
    """Return the entry of magic 0 or 1 around a compressed message set. Mirrors LegacyRecord.writeCompressedRecordHeader."""
    size = legacy_overhead(spec.magic) + len(value)
    fields = (last_offset, size, 0, spec.magic, spec.attributes)
    if spec.magic == MAGIC_V0:
        head = LEGACY_V0.pack(LegacyHeaderV0(*fields, -1))
    else:
        head = LEGACY_V1.pack(LegacyHeaderV1(*fields, max_timestamp, -1))
    head += _SIZE.pack(len(value))
    crc = zlib.crc32(value, zlib.crc32(head[_LEGACY_CHECKED_FROM:]))
    return head[:_LEGACY_CRC_AT] + LEGACY_V0.fields["crc"].pack(crc) + head[_LEGACY_CHECKED_FROM:] + value
