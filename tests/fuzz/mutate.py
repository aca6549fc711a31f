"""Damage to real files, of the kind that gets past the first check.

Bytes that are changed blindly die at the checksum or the size field. So most mutants of a log are made of one batch:
its header fields, its records (inflated and compressed again) or its compressed bytes are changed, then size and
checksum are made to fit again.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from crc32c import crc32c

from engine.discovery.names import FileKind
from engine.errors import KafkalogError
from engine.formats import ABORTED_TXN, BATCH_HEADER, CODEC_MASK, LEGACY_V1, PRODUCER_SNAPSHOT_ENTRY
from engine.record.codecs.codecs import deflate, inflate
from tests.fuzz.seeds import LOGS

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from tests.fuzz.seeds import Seed

_EXTREMES = (0, 1, -1, 2, 127, 128, 255, 256, 32767, -32768, 65535, 2**31 - 1, -(2**31), 2**31, 2**32 - 1,
             2**62, 2**63 - 1, -(2**63), 2**63 - 2, 13, 14, 17, 61)
_WORDS = (b"", b"-", b"+7", b"0x10", b"1e3", b"\xd9\xa3", b"\xff", b"\\u12", b"=", b"[" * 3000, b"null")
_INFLATED = 1 << 17
_COMPRESS_MAX = 1 << 16
_BATCH_FIELDS = tuple(zip(
    BATCH_HEADER.positions.values(), [*list(BATCH_HEADER.positions.values())[1:], BATCH_HEADER.size], strict=True,
))
_LEGACY_FIELDS = ((0, 8), (8, 12), (12, 16), (16, 17), (17, 18), (18, 22), (18, 26), (26, 30))
_ENTRY_SIZES = {FileKind.OFFSET_INDEX: 4, FileKind.TIME_INDEX: 4, FileKind.TRANSACTION_INDEX: 2, FileKind.PRODUCER_SNAPSHOT: 2}


def mutate(rng: random.Random, seed: Seed, others: Sequence[Seed]) -> bytes:
    """A damaged copy of the seed's bytes; `others` are of the same kind, to splice with."""
    if seed.kind in LOGS:
        return _log(rng, seed.data, others)
    if seed.kind is FileKind.LOG_07:
        return _log_07(rng, seed.data, others)
    data = bytearray(seed.data)
    if seed.kind in _ENTRY_SIZES:
        for _ in range(rng.randrange(1, 4)):
            if rng.random() < 0.6:
                _integer(rng, data, _ENTRY_SIZES[seed.kind])
            else:
                _bytes(rng, data)
        if rng.random() < 0.1:
            data += bytes(rng.choice((1, 8, 12, 24, 34, ABORTED_TXN.size, PRODUCER_SNAPSHOT_ENTRY.size)))
        if seed.kind is FileKind.PRODUCER_SNAPSHOT and len(data) >= 6 and rng.random() < 0.8:
            data[2:6] = crc32c(data[6:]).to_bytes(4, "big")
        return bytes(data)
    return _text(rng, data)


# ---- plain damage


def _bytes(rng: random.Random, data: bytearray) -> None:
    """One blind damage somewhere."""
    at = rng.randrange(len(data) + 1)
    how = rng.randrange(9)
    if how == 0 and at < len(data):
        data[at] ^= 1 << rng.randrange(8)
    elif how == 1 and at < len(data):
        data[at] = rng.choice((0, 1, 0x7F, 0x80, 0x81, 0xFF, rng.randrange(256)))
    elif how == 2:
        data[at:at] = rng.randbytes(rng.randrange(1, 9))
    elif how == 3:
        del data[at : at + rng.randrange(1, 20)]
    elif how == 4:
        del data[at:]
    elif how == 5:
        source = rng.randrange(len(data) + 1)
        piece = data[source : source + rng.randrange(1, 200)]
        data[at : at + rng.choice((0, len(piece)))] = piece
    elif how == 6:
        _integer(rng, data, 1)
    elif how == 7:
        data[at : at + rng.choice((0, 5))] = rng.choice((
            b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00",
            b"\xfe\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x00", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ))
    else:
        size = rng.choice((1, 8, 64, 200))
        data[at : at + size] = bytes([rng.choice((0, 0xFF, 0x20))]) * size


def _integer(rng: random.Random, data: bytearray, step: int) -> None:
    """An integer of 1, 2, 4 or 8 bytes at a multiple of `step` becomes an extreme, or a little more or less."""
    size = rng.choice((1, 2, 4, 4, 8))
    if len(data) < size:
        return
    at = rng.randrange((len(data) - size) // step + 1) * step
    value = int.from_bytes(data[at : at + size], "big") + rng.choice((-1, 1, 0))
    if rng.random() < 0.7:
        value = rng.choice(_EXTREMES)
    data[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, "big")


def _text(rng: random.Random, data: bytearray) -> bytes:
    """Checkpoints, properties, JSON: numbers and lines as well as bytes."""
    for _ in range(rng.randrange(1, 4)):
        how = rng.randrange(5)
        words = bytes(data).replace(b"\n", b" \n ").split(b" ")
        at = rng.randrange(len(words))
        if how == 0:
            words[at] = str(rng.choice(_EXTREMES)).encode() if rng.random() < 0.8 else b"1" * rng.choice((19, 20, 40, 5000))
        elif how == 1:
            words[at] = rng.choice(_WORDS)
        elif how == 2:
            words.insert(at, rng.choice(words))
        elif how == 3:
            del words[at]
        else:
            _bytes(rng, data)
            continue
        data[:] = b" ".join(words).replace(b" \n ", b"\n")
    return bytes(data)


# ---- logs


def split(data: bytes) -> list[bytes]:
    """The entries of a log as far as their sizes are sound, then what is left (often nothing)."""
    at, parts = 0, []
    while len(data) - at > 17:
        size = int.from_bytes(data[at + 8 : at + 12], "big", signed=True) + 12
        if size < 26 or size > len(data) - at:
            break
        parts.append(data[at : at + size])
        at += size
    return [*parts, data[at:]]


def _log(rng: random.Random, data: bytes, others: Sequence[Seed]) -> bytes:
    parts = split(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(max(1, len(parts) - 1))
        how = rng.random()
        if how < 0.75:
            parts[at] = _entry(rng, parts[at])
        elif how < 0.8:
            parts.insert(at, rng.choice(parts))
        elif how < 0.85:
            del parts[at]
        elif how < 0.93:
            parts.insert(at, rng.choice(split(rng.choice(others).data)))
        else:
            whole = bytearray(b"".join(parts))
            _bytes(rng, whole)
            parts = split(bytes(whole))
        if not parts:
            parts = [b""]
    return b"".join(parts)


def _entry(rng: random.Random, entry: bytes) -> bytes:
    if len(entry) <= 17:
        damaged = bytearray(entry)
        _bytes(rng, damaged)
        return bytes(damaged)
    if 2 <= entry[16] < 128:
        return _batch(rng, entry) if len(entry) >= BATCH_HEADER.size else bytes(entry)
    return _legacy(rng, entry)


def _batch(rng: random.Random, entry: bytes) -> bytes:
    """One v2 batch: its header, its records or its compressed bytes."""
    head, body = bytearray(entry[: BATCH_HEADER.size]), entry[BATCH_HEADER.size :]
    how = rng.random()
    if how < 0.3:
        for _ in range(rng.randrange(1, 4)):
            start, end = rng.choice(_BATCH_FIELDS)
            head[start:end] = (rng.choice(_EXTREMES) % (1 << 8 * (end - start))).to_bytes(end - start, "big")
    elif how < 0.45 or (not head[22] & CODEC_MASK and how < 0.5):
        damaged = bytearray(body)
        for _ in range(rng.randrange(1, 4)):
            _bytes(rng, damaged)
        body = bytes(damaged)
    elif how < 0.55:
        head[22] = rng.choice((rng.randrange(8), head[22] ^ 8, head[22] ^ 16, head[22] ^ 32, head[22] ^ 64, rng.randrange(256)))
    else:
        codec = head[22] & CODEC_MASK
        records = bytes(inflate(codec, body, _INFLATED).data)
        body = _deflated(rng, codec, _records(rng, records), head)
    if rng.random() < 0.1:
        head[57:61] = rng.choice((0, 1, 2**31 - 1, 2**32 - 1, 5)).to_bytes(4, "big")
    return repaired(bytes(head) + body, size=rng.random() < 0.95, crc=rng.random() < 0.95)


def _deflated(rng: random.Random, codec: int, records: bytes, head: bytearray) -> bytes:
    """`records` in the codec of the header, now and then in another one."""
    if rng.random() < 0.15:
        codec = rng.randrange(5)
        head[22] = head[22] & ~CODEC_MASK | codec
    try:
        return deflate(codec, records[:_COMPRESS_MAX])
    except KafkalogError:
        return records  # a codec that does not exist


def repaired(entry: bytes, *, size: bool = True, crc: bool = True) -> bytes:
    """A v2 batch or v0/v1 entry with a size field and a checksum that fit."""
    data = bytearray(entry)
    if size and len(data) >= 12:
        data[8:12] = (len(data) - 12).to_bytes(4, "big")
    if crc and len(data) >= 22 and 2 <= data[16] < 128:
        data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    elif crc and len(data) >= 18:
        data[12:16] = zlib.crc32(data[16:]).to_bytes(4, "big")
    return bytes(data)


def _records(rng: random.Random, records: bytes) -> bytes:
    """Damage to the records of a v2 batch: lengths and deltas by their varints, or anything."""
    if rng.random() < 0.35:
        damaged = bytearray(records)
        for _ in range(rng.randrange(1, 3)):
            _bytes(rng, damaged)
        return bytes(damaged)
    spots = _varints(records)
    if not spots:
        return records + rng.randbytes(rng.randrange(20))
    start, end, value, first = rng.choice(spots)
    how = rng.randrange(4)
    if how == 0:
        new = _lengthened(rng, records[start:end])
    elif how == 1:
        new = zigzag(rng.choice(_EXTREMES), rng.choice((32, 64)))
    elif how == 2:
        new = zigzag(value + rng.choice((-1, 1, -2, 2)), 64)
    else:
        new = records[start:end] + rng.randbytes(rng.randrange(1, 4))
    out = records[:start] + new + records[end:]
    if first != start and rng.random() < 0.7:  # let the record's own length fit again
        length, at = unzigzag(records, first)
        fitting = zigzag(length + len(new) - (end - start), 64)
        out = out[:first] + fitting + out[at:]
    return out


def _varints(records: bytes) -> list[tuple[int, int, int, int]]:
    """(start, end, value, start of the record) of the varints of the first records."""
    spots: list[tuple[int, int, int, int]] = []
    at = 0
    try:
        for _ in range(8):
            first = at
            size, after = unzigzag(records, at)
            spots.append((at, after, size, first))
            at, end = after + 1, after + size
            for field in range(5):
                value, after = unzigzag(records, at)
                spots.append((at, after, value, first))
                at = after + (max(value, 0) if field in (2, 3) else 0)
            while at < end and len(spots) < 100:
                value, after = unzigzag(records, at)
                spots.append((at, after, value, first))
                at = after + max(value, 0)
            at = end
    except IndexError:
        pass
    return spots


def zigzag(value: int, bits: int) -> bytes:
    """A varint of 32 or 64 bits."""
    raw = ((value << 1) ^ (value >> 63)) % (1 << bits)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def unzigzag(data: bytes, at: int) -> tuple[int, int]:
    """(value, position behind it). Raises IndexError at the end of the data."""
    raw = shift = 0
    if at < 0:
        raise IndexError(at)
    while True:
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80 or shift > 70:
            return (raw >> 1) ^ -(raw & 1), at


def _lengthened(rng: random.Random, varint: bytes) -> bytes:
    """The same value in more bytes than needed."""
    return varint[:-1] + bytes([varint[-1] | 0x80]) + b"\x80" * rng.randrange(10) + b"\0"


def _legacy(rng: random.Random, entry: bytes) -> bytes:
    """One v0 or v1 entry: its fields, or the inner set of a wrapper."""
    data = bytearray(entry)
    magic, codec = data[16], data[17] & CODEC_MASK
    how = rng.random()
    if how < 0.3 or not codec:
        for _ in range(rng.randrange(1, 3)):
            if how < 0.15:
                _bytes(rng, data)
            else:
                start, end = rng.choice(_LEGACY_FIELDS)
                data[start:end] = (rng.choice(_EXTREMES) % (1 << 8 * (end - start))).to_bytes(end - start, "big")
        return repaired(bytes(data), size=rng.random() < 0.9, crc=rng.random() < 0.95)
    value_at = (LEGACY_V1.size if magic else LEGACY_V1.size - 8) + 4
    head, value = bytes(data[:value_at]), bytes(data[value_at:])
    if how < 0.5:
        damaged = bytearray(value)
        _bytes(rng, damaged)
        value = bytes(damaged)
    else:
        inner = split(bytes(inflate(codec, value, _INFLATED, magic=magic).data))
        for _ in range(rng.randrange(1, 3)):
            at = rng.randrange(max(1, len(inner) - 1))
            if rng.random() < 0.7:
                inner[at] = _entry(rng, inner[at])
            elif rng.random() < 0.5:
                inner.insert(at, entry)
            else:
                del inner[at]
                inner = inner or [b""]
        value = b"".join(inner)[:_COMPRESS_MAX]
        if 1 <= codec <= 4:
            value = deflate(codec, value, magic=0 if magic == 0 else 1)
    head = head[:-4] + (len(value) if rng.random() < 0.95 else 2**31 - 1).to_bytes(4, "big")
    return repaired(head + value, crc=rng.random() < 0.95)


# ---- Kafka 0.7


def _log_07(rng: random.Random, data: bytes, others: Sequence[Seed]) -> bytes:
    """Entries `size, magic, [attributes], crc, payload`, nested sets included."""
    parts = _split_07(data)
    at = rng.randrange(len(parts))
    if rng.random() < 0.15:
        parts.insert(at, rng.choice(_split_07(rng.choice(others).data)))
    elif rng.random() < 0.8:
        parts[at] = _entry_07(rng, parts[at], 0)
    else:
        whole = bytearray(data)
        _bytes(rng, whole)
        return bytes(whole)
    return b"".join(parts)


def _split_07(data: bytes) -> list[bytes]:
    at, parts = 0, []
    while len(data) - at >= 9:
        size = struct.unpack_from(">i", data, at)[0] + 4
        if size < 9 or size > len(data) - at:
            break
        parts.append(data[at : at + size])
        at += size
    return [*parts, data[at:]]


def _entry_07(rng: random.Random, entry: bytes, depth: int) -> bytes:
    data = bytearray(entry)
    head = 10 if len(data) > 4 and data[4] else 9
    if len(data) < head or rng.random() < 0.2:
        _bytes(rng, data)
        return bytes(data)
    payload = bytes(data[head:])
    codec = data[5] & 3 if head == 10 else 0
    if codec in (1, 2) and depth < 4 and rng.random() < 0.7:
        inner = _split_07(bytes(inflate(codec, payload, _INFLATED).data))
        at = rng.randrange(len(inner))
        inner[at] = _entry_07(rng, inner[at], depth + 1) if rng.random() < 0.8 else entry
        payload = deflate(codec, b"".join(inner)[:_COMPRESS_MAX])
    else:
        damaged = bytearray(payload)
        _bytes(rng, damaged)
        payload = bytes(damaged)
        if rng.random() < 0.3:
            data[4:6] = bytes([rng.choice((0, 1, 2, 255)), rng.randrange(256)])
    size = head - 4 + len(payload)
    crc = zlib.crc32(payload).to_bytes(4, "big") if rng.random() < 0.95 else b"\0\0\0\0"
    return size.to_bytes(4, "big") + bytes(data[4 : head - 4]) + crc + payload
