"""Read and write uncompressed logs in a simple way, without the tested engine: keys and values only."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import crc32c

from tests.support.schema_bytes import varint

if TYPE_CHECKING:
    from collections.abc import Iterator


class PlainRecord(NamedTuple):
    """A record of any format."""

    offset: int
    is_control: bool
    key: bytes | None
    value: bytes | None


def plain_records(data: bytes) -> Iterator[PlainRecord]:
    """Return the records up to the first incomplete batch; checksums are not checked."""
    at = 0
    while len(data) - at > 17:
        base, length = struct.unpack_from(">qi", data, at)
        end = at + 12 + length
        if length < 14 or end > len(data):
            return
        if data[at + 16] < 2:
            yield _legacy(base, data, at)
        else:
            yield from _batch(base, data, at, end)
        at = end


def _legacy(offset: int, data: bytes, at: int) -> PlainRecord:
    magic, attributes = data[at + 16], data[at + 17]
    assert attributes & 7 == 0
    at += 18 + 8 * magic
    parts: list[bytes | None] = []
    for _ in "kv":
        (size,) = struct.unpack_from(">i", data, at)
        parts.append(None if size < 0 else data[at + 4 : at + 4 + size])
        at += 4 + max(size, 0)
    return PlainRecord(offset, False, *parts)


def _batch(base: int, data: bytes, at: int, end: int) -> Iterator[PlainRecord]:
    (attributes,) = struct.unpack_from(">h", data, at + 21)
    (count,) = struct.unpack_from(">i", data, at + 57)
    assert attributes & 7 == 0
    at += 61
    for _ in range(count):
        size, body = _varint(data, at)
        at = body + size
        assert at <= end
        _, body = _varint(data, body + 1)
        delta, body = _varint(data, body)
        parts: list[bytes | None] = []
        for _ in "kv":
            length, body = _varint(data, body)
            parts.append(None if length < 0 else data[body : body + length])
            body += max(length, 0)
        yield PlainRecord(base + delta, bool(attributes & 0x20), *parts)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), at


def plain_log(records: list[tuple[bytes | None, bytes | None]], per_batch: int = 200) -> bytes:
    """An uncompressed v2 log with these keys and values at offsets 0, 1, 2, …."""
    batches = (records[at : at + per_batch] for at in range(0, len(records), per_batch))
    return b"".join(_plain_batch(number * per_batch, batch) for number, batch in enumerate(batches))


def _plain_batch(base: int, records: list[tuple[bytes | None, bytes | None]]) -> bytes:
    body = b"".join(_plain_record(delta, key, value) for delta, (key, value) in enumerate(records))
    checked = struct.pack(">hiqqqhii", 0, len(records) - 1, 0, 0, -1, -1, -1, len(records)) + body
    return struct.pack(">qiibI", base, len(checked) + 9, 0, 2, crc32c.crc32c(checked)) + checked


def _plain_record(delta: int, key: bytes | None, value: bytes | None) -> bytes:
    parts = b"".join(_zigzag(-1) if part is None else _zigzag(len(part)) + part for part in (key, value))
    record = b"\0" + _zigzag(0) + _zigzag(delta) + parts + _zigzag(0)
    return _zigzag(len(record)) + record


def _zigzag(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else ~(value << 1))
