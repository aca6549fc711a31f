"""Read and write LZ4 frames as Kafka does. Mirrors Lz4BlockInputStream and Lz4BlockOutputStream.

Kafka's reader is stricter than the frame format (independent blocks only, no dictionaries) and more lenient (it ignores the
content checksum and bytes after the end mark), so this module parses frames, block by block.
"""

from __future__ import annotations

import struct
import threading
from array import array
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from engine.formats import LZ4_FRAME_BLOCK, LZ4_STORED
from engine.kernels.blocks import TABLE, lz4_block, lz4_bound
from engine.record.damage import CorruptError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Buffer = bytes | bytearray | memoryview

MAGIC = b"\x04\x22\x4d\x18"
_CONTENT_CHECKSUM, _CONTENT_SIZE, _BLOCK_CHECKSUM, _INDEPENDENT = 0x04, 0x08, 0x10, 0x20
_WRITTEN_DESCRIPTOR = b"\x60\x40"  # version 1, independent blocks of up to 64 KiB, no checksums
_END_MARK = b"\0\0\0\0"
_FAST_LEVEL = 9  # Kafka's default level does not mean high compression
_U32 = 0xFFFFFFFF
_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393


@lru_cache(maxsize=64)
def header_checksum(descriptor: bytes) -> int:
    """Return the second byte of XXH32 over at most 15 bytes, which a frame stores after its descriptor."""
    value = (_PRIME_5 + len(descriptor)) & _U32
    whole = len(descriptor) & ~3
    for (lane,) in struct.iter_unpack("<I", descriptor[:whole]):
        value = _rotate(value + lane * _PRIME_3, 17) * _PRIME_4 & _U32
    for byte in descriptor[whole:]:
        value = _rotate(value + byte * _PRIME_5, 11) * _PRIME_1 & _U32
    value = (value ^ value >> 15) * _PRIME_2 & _U32
    value = (value ^ value >> 13) * _PRIME_3 & _U32
    return (value ^ value >> 16) >> 8 & 0xFF


@cache
def written_checksums() -> memoryview:
    """Return the header checksums of frames of independent blocks without checksums, for blocks of 64 KiB up to 4 MiB."""
    return memoryview(bytes(header_checksum(bytes((_WRITTEN_DESCRIPTOR[0], size << 4))) for size in range(4, 8)))


@cache
def written_header(*, broken_checksum: bool = False) -> bytes:
    """Return the header of a frame, see `write`."""
    hashed = MAGIC + _WRITTEN_DESCRIPTOR if broken_checksum else _WRITTEN_DESCRIPTOR
    return MAGIC + _WRITTEN_DESCRIPTOR + bytes((header_checksum(hashed),))


def _rotate(value: int, by: int) -> int:
    value &= _U32
    return (value << by | value >> 32 - by) & _U32


def blocks(data: memoryview, *, ignore_checksum: bool) -> Iterator[bytes]:
    """Return the decompressed blocks of a frame, each at most 4 MiB. Raises CorruptError if Kafka would stop.

    ignore_checksum  of the descriptor: for message format 0 Kafka wrote a wrong one (KAFKA-3160)
    """
    from lz4.block import LZ4BlockError, decompress

    at, flags, largest = _read_header(data, ignore_checksum=ignore_checksum)
    checksum_size = 4 if flags & _BLOCK_CHECKSUM else 0
    while True:
        if len(data) - at < 4:
            raise CorruptError("ends before the end mark")
        size = int.from_bytes(data[at : at + 4], "little")
        at += 4
        stored, size = size & LZ4_STORED, size & ~LZ4_STORED
        if size == 0:
            if flags & _CONTENT_CHECKSUM and len(data) - at < 4:
                raise CorruptError("ends inside the content checksum")
            return
        if size > largest:
            raise CorruptError(f"a block of {size} bytes, the frame allows {largest}")
        if size > len(data) - at:
            raise CorruptError(f"a block of {size} bytes, {len(data) - at} are left")
        block = data[at : at + size]
        try:
            inflated = bytes(block) if stored else decompress(block, uncompressed_size=largest)
        except LZ4BlockError:
            raise CorruptError("a block that cannot be decompressed") from None
        if checksum_size:
            if len(data) - at - size < checksum_size:
                raise CorruptError("ends inside a block checksum")
            _verify_block(data[at - 4 : at + size + checksum_size])
        if not inflated:
            return  # Kafka's buffered reader takes an empty block for the end
        at += size + checksum_size
        yield inflated


def _read_header(data: memoryview, *, ignore_checksum: bool) -> tuple[int, int, int]:
    """Return (position of the first block, flags, largest block in bytes)."""
    if len(data) < 6:
        raise CorruptError("ends inside the header")
    if data[:4] != MAGIC:
        raise CorruptError("not an LZ4 frame")
    flags, block_descriptor = data[4], data[5]
    if flags >> 6 != 1:
        raise CorruptError(f"frame version {flags >> 6} is unsupported")
    if flags & 3:
        raise CorruptError("reserved bits are set")
    if not flags & _INDEPENDENT:
        raise CorruptError("dependent blocks are unsupported")
    if block_descriptor & 0x8F or block_descriptor >> 4 < 4:
        raise CorruptError(f"block descriptor {block_descriptor:02x} is invalid")
    end = 14 if flags & _CONTENT_SIZE else 6  # the content size itself is not checked
    if len(data) <= end:
        raise CorruptError("ends inside the header")
    if not ignore_checksum and data[end] != header_checksum(bytes(data[4:end])):
        raise CorruptError("header checksum does not match")
    return end + 1, flags, 1 << (2 * (block_descriptor >> 4) + 8)


def _verify_block(block: memoryview) -> None:
    """Check a block (size, bytes, checksum) as a frame of its own, so that the library computes XXH32."""
    import lz4.frame

    descriptor = b"\x70\x70"  # version 1, independent blocks of up to 4 MiB, with checksums
    frame = b"".join((MAGIC, descriptor, bytes((header_checksum(descriptor),)), block, _END_MARK))
    try:
        lz4.frame.decompress(frame)
    except RuntimeError:
        raise CorruptError("block checksum does not match") from None


def write(data: Buffer, level: int, *, broken_checksum: bool) -> bytes:
    """Return one frame: independent blocks of 64 KiB, with no checksum but the header's.

    level            9 is the fast compressor, any other level the high compressor
    broken_checksum  the header checksum of message format 0, which covers the frame's magic, too (KAFKA-3160)
    """
    compress = _fast_blocks() if level == _FAST_LEVEL else _high_blocks(level)
    parts: list[Buffer] = [written_header(broken_checksum=broken_checksum)]
    view = memoryview(data)
    for at in range(0, len(view), LZ4_FRAME_BLOCK):
        block = view[at : at + LZ4_FRAME_BLOCK]
        compressed = compress(block)
        if len(compressed) < len(block):
            parts += (len(compressed).to_bytes(4, "little"), compressed)
        else:
            parts += ((len(block) | LZ4_STORED).to_bytes(4, "little"), block)
    parts.append(_END_MARK)
    return b"".join(parts)


class _Buffers(threading.local):
    """Buffers of the compressor, one set per thread."""

    def __init__(self) -> None:
        self.out = memoryview(bytearray(lz4_bound(LZ4_FRAME_BLOCK)))
        self.table = memoryview(array("H", bytes(2 * TABLE)))


_buffers = _Buffers()


def _fast_blocks() -> Callable[[memoryview], Buffer]:
    """Return the function whose output is identical to Kafka's."""
    out, table = _buffers.out, _buffers.table
    return lambda block: bytes(out[: lz4_block(block, out, table)])


def _high_blocks(level: int) -> Callable[[memoryview], Buffer]:
    from lz4.block import compress

    return lambda block: bytes(compress(block, store_size=False, mode="high_compression", compression=level))
