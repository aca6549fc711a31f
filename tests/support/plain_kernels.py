"""Simple, slow versions of scan.scan_batches and decode.decode_records, with which these kernels are compared.

Real Kafka cannot tell at which byte of a damaged log a kernel must stop and why, nor how it must handle invalid columns.
"""

from __future__ import annotations

from engine.formats import (
    BATCH_HEADER,
    HEADER_SIZE_UP_TO_MAGIC,
    LEFT_OUT,
    LEGACY_V1,
    LOG_OVERHEAD,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    TIMESTAMP_TYPE_FLAG,
    BatchField,
    Status,
    to_long,
)

_UNKNOWN = -1


def scan_batches(data: memoryview, start: int, end: int, batches: memoryview, *_tables: object) -> tuple[int, int, Status]:
    """Like the kernel, but VALID is always −1 (no checksums)."""
    if start < 0 or end < start or end > len(data):
        return 0, start, Status.BAD_START
    count, at = 0, start
    while at < end:
        if end - at <= HEADER_SIZE_UP_TO_MAGIC:
            return count, at, Status.TORN
        length = BATCH_HEADER.field("batch_length", data, at)
        if length < MIN_RECORD_SIZE:
            return count, at, Status.BAD_SIZE
        size = LOG_OVERHEAD + length
        if size > end - at:
            return count, at, Status.TORN
        if count == batches.shape[1]:
            return count, at, Status.FULL
        is_v2 = BATCH_HEADER.field("magic", data, at) >= MAGIC_V2
        if is_v2 and end - at < BATCH_HEADER.size:
            return count, at, Status.TORN
        _store(_batch(data, at, size) if is_v2 else _message(data, at, size, end), batches, count)
        count, at = count + 1, at + size
    return count, at, Status.END


def _batch(data: memoryview, at: int, size: int) -> tuple[int, ...]:
    """A batch of format 2, in the order of BatchField."""
    header = BATCH_HEADER.read(data, at)
    body, valid = (at + BATCH_HEADER.size, _UNKNOWN) if size >= BATCH_HEADER.size else (at + size, 0)
    return (
        at, size, header.magic, valid, header.crc, header.attributes & 0xFF, header.base_offset,
        header.base_offset + header.last_offset_delta, header.record_count, header.max_timestamp,
        header.base_timestamp, header.producer_id, header.producer_epoch, header.base_sequence,
        header.partition_leader_epoch, body, at + size,
    )  # fmt: skip


def _message(data: memoryview, at: int, size: int, end: int) -> tuple[int, ...]:
    """A message of format 0 or 1 (or of an unknown one), in the order of BatchField."""
    field = LEGACY_V1.field
    offset, crc, magic, attributes = (field(name, data, at) for name in ("offset", "crc", "magic", "attributes"))
    has_timestamp = magic != 0 and end - at >= LEGACY_V1.positions["key_size"]
    timestamp = field("timestamp", data, at) if has_timestamp else -1
    return at, size, magic, _UNKNOWN, crc, attributes, offset, offset, -1, timestamp, timestamp, -1, -1, -1, -1, at, at + size


class Broken(Exception):
    """A record cannot be decoded."""

    def __init__(self, status: Status) -> None:
        self.status = status


def varint(data: bytes | memoryview, at: int, bits: int = 32) -> tuple[int, int]:
    """A zigzag varint → (value, position after it). Bits beyond `bits` are dropped, as Java drops them. Raises Broken."""
    raw = 0
    for shift in range(0, bits + 3, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        raw |= (byte & 127) << shift
        if byte < 128:
            raw &= (1 << bits) - 1
            return raw >> 1 ^ -(raw & 1), at
    raise Broken(Status.BAD_VARINT)


def decode_records(
    data: memoryview, batches: memoryview, row: int, last_row: int, at: int, done: int, records: memoryview, filled: int,
) -> tuple[int, int, int, int, Status]:  # fmt: skip
    """Like the kernel."""
    if row < 0 or last_row > batches.shape[1] or filled < 0:
        return filled, row, at, done, Status.BAD_START
    while row < last_row:
        if batches[BatchField.BODY, row] == LEFT_OUT and done == 0:
            row += 1
            continue
        count, end = batches[BatchField.COUNT, row], batches[BatchField.BODY_END, row]
        if done == 0:
            at = batches[BatchField.BODY, row]
            if count < 0:
                return filled, row, at, done, Status.BAD_COUNT
        if end > len(data) or at < 0 or at > end:
            return filled, row, at, done, Status.BAD_START
        while done < count:
            if filled >= records.shape[1]:
                return filled, row, at, done, Status.FULL
            try:
                fields, at = _record(data[:end], at, batches, row)
            except Broken as broken:
                return filled, row, at, done, broken.status
            _store(fields, records, filled)
            filled, done = filled + 1, done + 1
        if at != end:
            return filled, row, at, done, Status.BAD_COUNT
        row, done = row + 1, 0
    return filled, row, 0, 0, Status.END


def _record(data: memoryview, at: int, batches: memoryview, row: int) -> tuple[tuple[int, ...], int]:
    """(the record at `at` in the order of RecordField, the position after it). Raises Broken."""
    length, base = varint(data, at)
    if length < 1 or length > len(data) - base:
        raise Broken(Status.BAD_RECORD)
    record = bytes(data[base : base + length])
    stamp, at = varint(record, 1, 64)
    delta, at = varint(record, at)
    key_size, key_at = varint(record, at)
    value_size, value_at = varint(record, _after(record, key_at, key_size))
    headers, headers_at = varint(record, _after(record, value_at, value_size))
    if headers < 0 or headers > len(record) - headers_at:
        raise Broken(Status.BAD_RECORD)
    at = headers_at
    for _ in range(headers):
        size, at = varint(record, at)
        if size < 0:
            raise Broken(Status.BAD_RECORD)
        size, at = varint(record, _after(record, at, size))
        at = _after(record, at, size)
    if at != len(record):
        raise Broken(Status.BAD_RECORD)
    timestamp = batches[BatchField.BASE_TIMESTAMP, row] + stamp
    if batches[BatchField.ATTRIBUTES, row] & TIMESTAMP_TYPE_FLAG:
        timestamp = batches[BatchField.MAX_TIMESTAMP, row]
    fields = (
        row, batches[BatchField.BASE_OFFSET, row] + delta, timestamp, base + key_at, max(key_size, -1), base + value_at,
        max(value_size, -1), base + headers_at, headers, 0, 1,
    )  # fmt: skip
    return fields, base + length


def _after(record: bytes, at: int, size: int) -> int:
    """The position after a field of `size` bytes at `at`; a null has none. Raises Broken."""
    if size > len(record) - at:
        raise Broken(Status.BAD_RECORD)
    return at + max(size, 0)


def _store(row: tuple[int, ...], table: memoryview, column: int) -> None:
    """Write a row of a table. Numbers above 64 bits wrap like Java's long."""
    for field, value in enumerate(row):
        table[field, column] = to_long(value)
