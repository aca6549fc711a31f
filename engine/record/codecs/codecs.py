"""Decompression up to a limit, and compression, with the five codecs of Kafka. Mirrors CompressionType and common.compress.

What counts as damage follows Kafka's readers, not the codec libraries. They differ in checksums, in consecutive frames and in
bytes after the last frame. Libraries are imported on first use. All functions are thread-safe.
"""

from __future__ import annotations

import threading
from array import array
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import UsageError
from engine.formats import CODEC_NAMES, MAGIC_V0, MAGIC_V2, Codec
from engine.kernels.blocks import TABLE, snappy_block, snappy_bound
from engine.kernels.frames import NOT_PLAIN, plain_zstd_size
from engine.record.codecs import gzip as gzip_members
from engine.record.codecs import lz4 as lz4_frames
from engine.record.codecs import zstd as zstd_frames
from engine.record.codecs.bounded import Output, OverLimitError
from engine.record.damage import CorruptError, unknown_codec

if TYPE_CHECKING:
    from collections.abc import Callable

    from zstandard import ZstdCompressor, ZstdDecompressor

Buffer = bytes | bytearray | memoryview


class InflateStatus(IntEnum):
    """The result of a decompression."""

    OK = 0  # complete, as Kafka would read it
    CORRUPT = 1  # `data` has the bytes before the damage
    OVER_LIMIT = 2  # `data` has the beginning; the rest was not decompressed
    UNKNOWN_CODEC = 3


class Inflated(NamedTuple):
    """The output: `data` is never longer than the limit, `problem` is one line, None if there is none."""

    data: Buffer
    status: InflateStatus
    problem: str | None


FINDINGS = {
    InflateStatus.CORRUPT: "decompression-failed",
    InflateStatus.OVER_LIMIT: "over-limit",
    InflateStatus.UNKNOWN_CODEC: "unknown-codec",
}  # code of the finding
LEVELS = {Codec.GZIP: (1, 9, -1), Codec.LZ4: (1, 17, 9), Codec.ZSTD: (-131072, 22, 3)}  # smallest, largest, default

_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\0\0\0\x01\0\0\0\x01"  # version 1, readable since version 1
_XERIAL_BLOCK = 32 * 1024  # SnappyOutputStream's default
_SNAPPY_PIECE = 1 << 20  # decompressed bytes that may be in memory twice
_SNAPPY_BEST_RATIO = 64  # largest output of an element of a block by its own bytes

_ZSTD_WINDOW = 1 << 27  # default limit of zstd-jni


class _Contexts(threading.local):
    """Codec contexts, which are slow to make and must not be shared between threads."""

    def __init__(self) -> None:
        self.decompressor: ZstdDecompressor | None = None
        self.compressors: dict[int, ZstdCompressor] = {}


_contexts = _Contexts()


def inflate(codec: int, data: memoryview | bytes, limit: int, *, magic: int = MAGIC_V2) -> Inflated:
    """Decompress the records of one batch, at most `limit` bytes.

    codec  id of the codec (attribute bits 0 to 2)       data   compressed bytes, any length
    magic  message format: 0 accepts LZ4 frames with a wrong header checksum (KAFKA-3160)

    Never raises for bad bytes, and never holds more than the limit and one block of the codec. Without a codec the result is a
    view of `data`.
    """
    limit = max(limit, 0)
    if codec == Codec.NONE:
        if len(data) > limit:
            return Inflated(data[:limit], InflateStatus.OVER_LIMIT, f"{len(data)} bytes, the limit is {limit}")
        return Inflated(data, InflateStatus.OK, None)
    inflater = _INFLATERS.get(codec)
    if inflater is None:
        return Inflated(b"", InflateStatus.UNKNOWN_CODEC, unknown_codec(codec).what)
    output = Output(limit)
    try:
        inflater(memoryview(data), output, magic)
    except OverLimitError:
        return Inflated(output.data, InflateStatus.OVER_LIMIT, f"{CODEC_NAMES[codec]}: more than {limit} bytes")
    except CorruptError as damage:
        return Inflated(output.data, InflateStatus.CORRUPT, f"{CODEC_NAMES[codec]}: {damage}")
    return Inflated(output.data, InflateStatus.OK, None)


def deflate(codec: int, data: Buffer, *, level: int | None = None, magic: int = MAGIC_V2) -> bytes:
    """Compress as Kafka's writers do: the same bytes, if zlib and libzstd have the versions of Kafka's JVM.

    level  None is Kafka's default (gzip -1, lz4 9, zstd 3); UsageError outside LEVELS, or for a codec without levels
    magic  message format: 0 writes the wrong LZ4 header checksum that its readers expect (KAFKA-3160)
    """
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        return gzip_members.write(data, _level(Codec.GZIP, level))
    if codec == Codec.SNAPPY:
        return _deflate_snappy(data, level)
    if codec == Codec.LZ4:
        return lz4_frames.write(data, _level(Codec.LZ4, level), broken_checksum=magic == MAGIC_V0)
    if codec == Codec.ZSTD:
        return _deflate_zstd(data, _level(Codec.ZSTD, level))
    raise UsageError(f"codec id {codec} is unknown", "use one of " + ", ".join(CODEC_NAMES))


def _level(codec: Codec, level: int | None) -> int:
    least, most, default = LEVELS[codec]
    if level is None:
        return default
    if level != default and not least <= level <= most:
        raise UsageError(f"{CODEC_NAMES[codec]} has no compression level {level}", f"use {least} to {most}")
    return level


# ---- gzip: see gzip.py


def _inflate_gzip(data: memoryview, output: Output, _magic: int) -> None:
    gzip_members.inflate(data, output)


# ---- snappy: SnappyInputStream of snappy-java


def _inflate_snappy(data: memoryview, output: Output, _magic: int) -> None:
    if not len(data):
        raise CorruptError("empty")
    if len(data) < len(_XERIAL_HEADER) or data[:8] != _XERIAL_MAGIC:
        _snappy_block(data, output)  # one bare block, as other clients write it
        return
    at = len(_XERIAL_HEADER)  # versions in the first header are not checked
    while len(data) - at >= 4:
        if data[at : at + 4] == _XERIAL_MAGIC[:4]:
            header = data[at : at + len(_XERIAL_HEADER)]
            if len(header) < len(_XERIAL_HEADER):
                raise CorruptError("ends inside a header")
            if header[:8] == _XERIAL_MAGIC and int.from_bytes(header[8:12], "big", signed=True) < 1:
                raise CorruptError("incompatible version in a header")
            at += len(_XERIAL_HEADER)
            continue
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        at += 4
        if size < 0 or size > len(data) - at:
            raise CorruptError(f"a chunk of {size} bytes, {len(data) - at} are left")
        _snappy_block(data[at : at + size], output)
        at += size  # up to three bytes after the last chunk are ignored


def _snappy_block(block: memoryview, output: Output) -> None:
    import snappy

    declared, shift = 0, 0
    for byte in block[:5]:
        declared |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise CorruptError("a block without a size")
    if declared > len(block) * _SNAPPY_BEST_RATIO:
        raise CorruptError(f"a block of {len(block)} bytes that declares {declared}")
    if declared > output.left:
        raise OverLimitError
    try:
        output.add(snappy.uncompress(block) if declared <= _SNAPPY_PIECE else _large_snappy_block(block, declared))
    except snappy.UncompressError as error:
        raise CorruptError(f"a block that cannot be decompressed: {error.__cause__ or error}") from None


def _large_snappy_block(block: memoryview, declared: int) -> bytearray:
    """As `_snappy_block`, with the lower-level library, which fills a given buffer; the other one copies its output."""
    import cramjam

    data = bytearray(declared)
    try:
        cramjam.snappy.decompress_raw_into(block, data)
    except cramjam.DecompressionError as error:
        raise CorruptError(f"a block that cannot be decompressed: {error}") from None
    return data


def _deflate_snappy(data: Buffer, level: int | None) -> bytes:
    if level is not None:
        raise UsageError("snappy has no compression levels", "remove the level")
    compress = _snappy_blocks()
    view, parts = memoryview(data), [_XERIAL_HEADER]
    for at in range(0, len(view), _XERIAL_BLOCK):
        block = compress(view[at : at + _XERIAL_BLOCK])
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _snappy_blocks() -> Callable[[memoryview], bytes]:
    """Return the function whose output is identical to Kafka's."""
    out, table = memoryview(bytearray(snappy_bound(_XERIAL_BLOCK))), memoryview(array("H", bytes(2 * TABLE)))
    return lambda block: bytes(out[: snappy_block(block, out, table)])


# ---- lz4: see lz4.py


def _inflate_lz4(data: memoryview, output: Output, magic: int) -> None:
    for block in lz4_frames.blocks(data, ignore_checksum=magic == MAGIC_V0):
        output.add(block)


# ---- zstd: see zstd.py


def _zstd_decompressor() -> ZstdDecompressor:
    context = _contexts.decompressor
    if context is None:
        import zstandard

        context = _contexts.decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    return context


def _usual_size(frame: memoryview) -> int:
    """Return a size that a frame of ordinary records does not exceed."""
    return max(64 * 1024, 8 * len(frame))


def _inflate_zstd(data: memoryview, output: Output, _magic: int) -> None:
    import zstandard

    context = _zstd_decompressor()
    if NOT_PLAIN < plain_zstd_size(data) <= output.left:
        try:
            output.add(_zstd_frame(data, context, output.left))
        except zstandard.ZstdError:
            pass  # damage, or larger than expected: decompress it block by block
        else:
            return
    for part in zstd_frames.blocks(data, context):
        output.add(part)


def _zstd_frame(data: memoryview, context: ZstdDecompressor, limit: int) -> bytes:
    """Decompress one frame. Raises ZstdError for damage, and if it is more than the limit or 64 times its size.

    The library allocates the declared size: new memory costs more time than decompression.
    """
    import zstandard

    usual = min(limit, _usual_size(data))
    try:
        return context.decompress(data, max_output_size=usual or 1)
    except zstandard.ZstdError:
        room = min(limit, 64 * len(data))
        if room <= usual:
            raise
        return context.decompress(data, max_output_size=room)


def _deflate_zstd(data: Buffer, level: int) -> bytes:
    import zstandard

    context = _contexts.compressors.get(level)
    if context is None:
        context = zstandard.ZstdCompressor(level=level, write_content_size=False, write_checksum=False)
        _contexts.compressors[level] = context
    # Java's stream flushes a block before it ends the frame, which adds an empty last block
    stream = context.compressobj()
    parts = (stream.compress(data), stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK), stream.flush())
    return b"".join(parts)


_INFLATERS: dict[int, Callable[[memoryview, Output, int], None]] = {
    Codec.GZIP: _inflate_gzip,
    Codec.SNAPPY: _inflate_snappy,
    Codec.LZ4: _inflate_lz4,
    Codec.ZSTD: _inflate_zstd,
}
