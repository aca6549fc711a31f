"""Read and write consecutive gzip members as Kafka does. Mirrors GZIPInputStream of Java 17 over an 8 KiB buffer.

Whether Java looks for another member depends on where its buffer ends, so this module tracks the buffer.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from engine.record.damage import CorruptError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.record.codecs.bounded import Output

    Buffer = bytes | bytearray | memoryview

_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"  # no name, no time, unknown system: as Java writes it
_BUFFER = 8192  # GzipCompression's input buffer; determines whether Java looks for another member
_TRAILER = 8
_STEP = 64 << 10  # compressed bytes per call of zlib, which copies what it does not use
_PIECE = 1 << 20  # decompressed bytes per call of zlib, which holds them twice
_HCRC, _EXTRA, _NAME, _COMMENT = 2, 4, 8, 16


def inflate(data: memoryview, output: Output) -> None:
    """Decompress all members into `output`. Raises CorruptError if Kafka would stop, OverLimitError."""
    start = _header(data, 0)
    filled = start  # Java's buffer has read the input up to here
    step = _STEP
    while True:
        end, size, crc = _member(data, start, step, output)
        step = _BUFFER  # small, so that after each of many tiny members little is copied
        filled += -(-(end - filled) // _BUFFER) * _BUFFER if end > filled else 0
        filled = min(filled, len(data))
        buffered, at = filled - end, end + _TRAILER
        if at > len(data):
            raise CorruptError("ends inside a trailer")
        if int.from_bytes(data[end : end + 4], "little") != crc:
            raise CorruptError("checksum does not match")
        if int.from_bytes(data[end + 4 : at], "little") != size & 0xFFFFFFFF:
            raise CorruptError("size in the trailer does not match")
        filled = max(filled, at)
        if filled == len(data) and buffered <= 26:
            return  # Java looks for another member only if there is room for one
        try:
            start = _header(data, at)
        except CorruptError:
            return  # anything else is padding for Java
        filled = max(filled, start)


def _header(data: memoryview, at: int) -> int:
    """Return the position after the header at `at`. Raises CorruptError if there is none."""
    end = at + len(_HEADER)
    if data[at : at + 2] != b"\x1f\x8b"[: len(data) - at]:
        raise CorruptError("not in gzip format")
    if end > len(data):
        raise CorruptError("ends inside a header")
    if data[at + 2] != zlib.DEFLATED:
        raise CorruptError(f"unsupported compression method {data[at + 2]}")
    flags = data[at + 3]
    if not flags:
        return end
    if flags & _EXTRA:
        end += 2 + int.from_bytes(data[end : end + 2], "little")
    for flag in (_NAME, _COMMENT):
        while flags & flag:
            text = bytes(data[end : end + 256])
            if not text:
                raise CorruptError("ends inside a header")
            end += text.find(b"\0") + 1 or len(text)
            if text.find(b"\0") >= 0:
                break
    if flags & _HCRC:
        if data[end : end + 2] != (zlib.crc32(data[at:end]) & 0xFFFF).to_bytes(2, "little"):
            raise CorruptError("header checksum does not match")
        end += 2
    if end > len(data):
        raise CorruptError("ends inside a header")
    return end


def _member(data: memoryview, start: int, step: int, output: Output) -> tuple[int, int, int]:
    """Decompress one member into `output`; returns (position after its deflate stream, size, CRC-32 of the output)."""
    before = len(output.data)
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    at, size, crc = start, 0, 0
    try:
        while not inflater.eof:
            if at >= len(data):
                raise CorruptError("ends inside the compressed data")
            for part in _parts(inflater, data[at : at + step], output):
                output.add(part)
                size, crc = size + len(part), zlib.crc32(part, crc)
            at = min(at + step, len(data))
    except zlib.error as error:
        output.cut(before)
        _salvage(data[start:], output)
        raise CorruptError(str(error).partition(": ")[2] or str(error)) from None
    return at - len(inflater.unused_data), size, crc


def _parts(inflater: zlib._Decompress, data: memoryview, output: Output) -> Iterator[bytes]:
    """Decompress the next bytes of a deflate stream, in pieces."""
    left: Buffer = data
    while not inflater.eof:
        most = min(output.left + 1, _PIECE)
        part = inflater.decompress(left, most)
        yield part
        left = inflater.unconsumed_tail
        if not left and len(part) < most:
            return


def _salvage(data: memoryview, output: Output) -> None:
    """Decompress a deflate stream up to its damage; zlib reports the damage without that output."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    before, at = inflater.copy(), 0
    try:
        for at in range(0, len(data), _BUFFER):
            before = inflater.copy()
            output.add(inflater.decompress(data[at : at + _BUFFER], output.left + 1))
    except zlib.error:
        pass
    try:
        for one in range(at, min(at + _BUFFER, len(data))):
            output.add(before.decompress(data[one : one + 1], output.left + 1))
    except zlib.error:
        pass


def write(data: Buffer, level: int) -> bytes:
    """Return `data` as one member, compressed at a level of zlib."""
    deflater = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    trailer = zlib.crc32(data).to_bytes(4, "little") + (len(data) & 0xFFFFFFFF).to_bytes(4, "little")
    return b"".join((_HEADER, deflater.compress(data), deflater.flush(), trailer))
