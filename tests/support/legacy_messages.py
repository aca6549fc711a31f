"""Messages of formats 0 and 1, byte by byte, with any content."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from engine.formats import Codec
from engine.record.codecs.codecs import deflate

if TYPE_CHECKING:
    from collections.abc import Iterable


def message(
    offset: int, key: bytes | None = None, value: bytes | None = None, *, magic: int = 1, attributes: int = 0,
    timestamp: int = 1000, crc: int | None = None, tail: bytes = b"",
) -> bytes:  # fmt: skip
    """One message; `crc` None: the right one."""
    body = struct.pack(">bB", magic, attributes)
    if magic != 0:
        body += struct.pack(">q", timestamp)
    for field in (key, value):
        body += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    body += tail
    stored = zlib.crc32(body) if crc is None else crc
    return struct.pack(">qiI", offset, len(body) + 4, stored) + body


def wrapper(
    offset: int, inner: bytes | Iterable[bytes], codec: int = Codec.GZIP, *, magic: int = 1, attributes: int = 0,
    timestamp: int = 1000, crc: int | None = None,
) -> bytes:  # fmt: skip
    """The message around a compressed set."""
    data = inner if isinstance(inner, bytes) else b"".join(inner)
    packed = deflate(codec, data, magic=max(magic, 0))
    return message(offset, None, packed, magic=magic, attributes=attributes | codec, timestamp=timestamp, crc=crc)


def overlong(offset: int, key: bytes, value: bytes, *, magic: int = 1, size: int = 4113) -> bytes:
    """A message whose value has the size field `size`, with the checksum from before."""
    damaged = bytearray(message(offset, key, value, magic=magic))
    at = len(damaged) - len(value) - 4
    damaged[at : at + 4] = struct.pack(">i", size)
    return bytes(damaged)
