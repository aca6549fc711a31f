"""Bytes → columns for builds without a compiler: plain twins of kernels that are too slow interpreted. Made to be read.

They have the contracts of the kernels that they stand for and are what those are tested against. Speed comes from few
steps of the interpreter for each record: struct and slices instead of single bytes, lists that become columns batch by
batch.
"""

from __future__ import annotations

from array import array

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
from engine.kernels.numbers import capacity_of

_UNKNOWN = -1

Row = tuple[int, ...]  # a column of a table: an integer for each of its fields
About = tuple[int, int, int, int | None]  # see _about


# ---- batches


def scan_batches(
    data: memoryview, start: int, end: int, batches: memoryview, _castagnoli: object, _ieee: object,
) -> tuple[int, int, Status]:  # fmt: skip
    """See scan.scan_batches; checksums are left to the caller (VALID −1), whose library is faster."""
    if start < 0 or end < start or end > len(data):
        return 0, start, Status.BAD_START
    rows: list[Row] = []
    capacity, at = capacity_of(batches), start
    status: Status = Status.END
    while at < end:
        if end - at <= HEADER_SIZE_UP_TO_MAGIC:
            status = Status.TORN
            break
        length = BATCH_HEADER.field("batch_length", data, at)
        if length < MIN_RECORD_SIZE:
            status = Status.BAD_SIZE
            break
        size = LOG_OVERHEAD + length
        if size > end - at:
            status = Status.TORN
            break
        if len(rows) == capacity:
            status = Status.FULL
            break
        if BATCH_HEADER.field("magic", data, at) >= MAGIC_V2:
            if end - at < BATCH_HEADER.size:
                status = Status.TORN
                break
            rows.append(_batch(data, at, size))
        else:
            rows.append(_entry(data, at, size, end))
        at += size
    if rows:
        _store(rows, batches, 0)
    return len(rows), at, status


def _batch(data: memoryview, at: int, size: int) -> Row:
    """A batch of magic 2, in the order of BatchField."""
    header = BATCH_HEADER.read(data, at)
    body, valid = (at + BATCH_HEADER.size, _UNKNOWN) if size >= BATCH_HEADER.size else (at + size, 0)
    return (
        at, size, header.magic, valid, header.crc, header.attributes & 0xFF, header.base_offset,
        header.base_offset + header.last_offset_delta, header.record_count, header.max_timestamp,
        header.base_timestamp, header.producer_id, header.producer_epoch, header.base_sequence,
        header.partition_leader_epoch, body, at + size,
    )  # fmt: skip


def _entry(data: memoryview, at: int, size: int, end: int) -> Row:
    """A message of magic 0 or 1 (or of one that does not exist), in the order of BatchField."""
    field = LEGACY_V1.field
    offset, crc, magic, attributes = (field(name, data, at) for name in ("offset", "crc", "magic", "attributes"))
    timestamp = -1
    if magic != 0 and end - at >= LEGACY_V1.positions["key_size"]:
        timestamp = field("timestamp", data, at)
    return (
        at, size, magic, _UNKNOWN, crc, attributes, offset, offset, -1, timestamp, timestamp, -1, -1, -1, -1,
        at, at + size,
    )  # fmt: skip


# ---- records


class _Broken(Exception):
    """A record can't be decoded."""

    def __init__(self, status: Status) -> None:
        self.status = status


# what a varint of one byte means; the last entries say that it goes on
_SMALL: list[int | None] = [*(byte >> 1 ^ -(byte & 1) for byte in range(128)), *[None] * 128]


def _varint(data: bytes | memoryview, at: int, bits: int = 32) -> tuple[int, int]:
    """A zigzag varint of two bytes or more at `at` → (value, position behind it).

    Bits beyond `bits` are dropped, as Java drops them. Raises _Broken, and IndexError where `data` ends.
    """
    byte, following = data[at], data[at + 1]
    if following < 128:  # the usual case: two bytes
        raw = byte & 127 | following << 7
        return raw >> 1 ^ -(raw & 1), at + 2
    raw = 0
    for shift in range(0, bits + 3, 7):
        byte = data[at]
        at += 1
        raw |= (byte & 127) << shift
        if byte < 128:
            raw &= (1 << bits) - 1
            return raw >> 1 ^ -(raw & 1), at
    raise _Broken(Status.BAD_VARINT)


def _any_varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint of 32 bits, however long. Raises as _varint."""
    value = _SMALL[data[at]]
    return _varint(data, at) if value is None else (value, at + 1)


def decode_records(
    data: memoryview, batches: memoryview, row: int, last_row: int, at: int, done: int, records: memoryview, filled: int,
) -> tuple[int, int, int, int, Status]:  # fmt: skip
    """See decode.decode_records."""
    if row < 0 or last_row > capacity_of(batches) or filled < 0:
        return filled, row, at, done, Status.BAD_START
    decoded: list[Row] = []
    row, at, done, status = _decode(data, batches, row, last_row, at, done, decoded, capacity_of(records) - filled)
    if decoded:
        _store(decoded, records, filled)
    return filled + len(decoded), row, at, done, status


def _decode(
    data: memoryview, batches: memoryview, row: int, last_row: int, at: int, done: int, decoded: list[Row], room: int,
) -> tuple[int, int, int, Status]:  # fmt: skip
    """Append at most `room` records to `decoded`, as tuples in the order of RecordField → (row, at, done, status)."""
    while row < last_row:
        if batches[BatchField.BODY, row] == LEFT_OUT and done == 0:
            row += 1
            continue
        count = batches[BatchField.COUNT, row]
        end = batches[BatchField.BODY_END, row]
        if done == 0:
            at = batches[BatchField.BODY, row]
            if count < 0:
                return row, at, done, Status.BAD_COUNT
        if end > len(data) or at < 0 or at > end:
            return row, at, done, Status.BAD_START
        before = len(decoded)
        about = _about(batches, row)
        size, status = _decode_body(data[at:end], at, min(count - done, room - before), about, decoded)
        done, at = done + len(decoded) - before, at + size
        if status != Status.END:
            return row, at, done, status
        if done < count:
            return row, at, done, Status.FULL
        if at != end:
            return row, at, done, Status.BAD_COUNT
        row, done = row + 1, 0
    return row, 0, 0, Status.END


def _about(batches: memoryview, row: int) -> About:
    """What a batch says about its records: (row, base offset, base timestamp, timestamp of all its records or None)."""
    append_time = batches[BatchField.MAX_TIMESTAMP, row] if batches[BatchField.ATTRIBUTES, row] & TIMESTAMP_TYPE_FLAG else None
    return row, batches[BatchField.BASE_OFFSET, row], batches[BatchField.BASE_TIMESTAMP, row], append_time


def _decode_body(body: memoryview, base: int, wanted: int, about: About, decoded: list[Row]) -> tuple[int, Status]:
    """Append at most `wanted` records from the start of `body` → (bytes that they take, what is wrong with the next).

    base  position of body[0], which positions count from
    """
    at = 0
    try:
        for _ in range(wanted):
            size, start = _SMALL[body[at]], at + 1
            if size is None:
                size, start = _varint(body, at)
            if size < 1 or size > len(body) - start:
                return at, Status.BAD_RECORD
            decoded.append(_decode_record(bytes(body[start : start + size]), base + start, about))
            at = start + size
    except _Broken as broken:
        return at, broken.status
    except IndexError:  # the bytes end inside a varint
        return at, Status.BAD_VARINT
    return at, Status.END


def _decode_record(record: bytes, base: int, about: About) -> Row:
    """One record without its length; `record[0]` has position `base`. Raises _Broken, IndexError at the end of bytes."""
    row, base_offset, base_timestamp, append_time = about
    small = _SMALL
    stamp, at = small[record[1]], 2
    if stamp is None:
        stamp, at = _varint(record, 1, 64)
    delta = small[record[at]]
    at += 1
    if delta is None:
        delta, at = _varint(record, at - 1)
    key_size = small[record[at]]
    at += 1
    if key_size is None:
        key_size, at = _varint(record, at - 1)
    key_at = at
    if key_size > 0:
        at += key_size
        if at > len(record):
            raise _Broken(Status.BAD_RECORD)
    value_size = small[record[at]]
    at += 1
    if value_size is None:
        value_size, at = _varint(record, at - 1)
    value_at = at
    if value_size > 0:
        at += value_size
        if at > len(record):
            raise _Broken(Status.BAD_RECORD)
    headers = small[record[at]]
    at += 1
    if headers is None:
        headers, at = _varint(record, at - 1)
    if headers < 0 or headers > len(record) - at:
        raise _Broken(Status.BAD_RECORD)
    headers_at = at
    for _ in range(headers):
        at = _skip_header(record, at)
    if at != len(record):
        raise _Broken(Status.BAD_RECORD)
    return (
        row, base_offset + delta, base_timestamp + stamp if append_time is None else append_time,
        base + key_at, key_size if key_size >= 0 else -1, base + value_at, value_size if value_size >= 0 else -1,
        base + headers_at, headers, 0, 1,
    )  # fmt: skip


def _skip_header(record: bytes, at: int) -> int:
    """Position behind the header at `at`. Raises as _decode_record."""
    size, at = _any_varint(record, at)
    if size < 0 or size > len(record) - at:
        raise _Broken(Status.BAD_RECORD)
    size, at = _any_varint(record, at + size)
    if size > len(record) - at:
        raise _Broken(Status.BAD_RECORD)
    return at + max(size, 0)


def _store(rows: list[Row], table: memoryview, first: int) -> None:
    """Tuples into columns, from column `first` on. What lies beyond 64 bits goes around, as Java's longs do."""
    capacity, flat = capacity_of(table), table.cast("B").cast("q")
    for field, values in enumerate(zip(*rows, strict=True)):
        try:
            column = array("q", values)
        except OverflowError:
            column = array("q", [to_long(value) for value in values])
        start = field * capacity + first
        flat[start : start + len(rows)] = column
