"""zstd frames one after the other, as Kafka reads them. Mirrors ZstdInputStreamNoFinalizer of zstd-jni.

The library says neither where a frame is cut off nor, for frames without a content size, what follows it, and it can
not bound what one call makes. So frames are taken apart here: headers of frames and blocks are walked, the library
gets one block at a time. It stands alone as each codec does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.record.damage import CorruptError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zstandard import ZstdDecompressor

MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_FIRST = range(0x50, 0x60)  # first byte of a skippable frame's magic
_SKIPPABLE_REST = b"\x2a\x4d\x18"
_INPUT_BUFFER = 131075  # zstd-jni reads its input in such pieces (ZSTD_DStreamInSize)
_NO_ROOM = "Destination buffer is too small"  # what a library that has inflated nothing larger before says of some damage …
_DAMAGE = "Data corruption detected"  # … and one that has


def blocks(data: memoryview, context: ZstdDecompressor) -> Iterator[bytes]:
    """What comes out of all frames, at most 128 KiB at a time. Raises CorruptError if Kafka would stop."""
    import zstandard

    start = 0
    while start < len(data):
        head = bytes(data[start : start + 4])
        if head[0] in _SKIPPABLE_FIRST and _SKIPPABLE_REST.startswith(head[1:]):
            at = start + 8 + int.from_bytes(data[start + 4 : start + 8], "little")
        elif MAGIC.startswith(head):
            at, stream, left = start, context.decompressobj(), _declared(data[start:])
            for end in _steps(data, start):
                try:
                    part = stream.decompress(data[at:end])
                except zstandard.ZstdError as error:
                    what = str(error).removeprefix("zstd decompressor error: ")
                    raise CorruptError(_DAMAGE if what == _NO_ROOM else what) from None
                if left is not None:
                    left -= len(part)
                    if left < 0:  # a library that has inflated something larger before has room for it
                        raise CorruptError(_DAMAGE)
                yield part
                at = end
        else:
            raise CorruptError("unknown frame descriptor")
        if at > len(data):
            # zstd-jni forgets that it is inside a later frame until it has to fill its input buffer again
            if start and (start - 1) // _INPUT_BUFFER == (len(data) - 1) // _INPUT_BUFFER:
                return
            raise CorruptError("ends inside a frame")
        start = at


def _declared(frame: memoryview) -> int | None:
    """The size that the frame says it will have; None: it does not say, or has no whole header."""
    import zstandard

    try:
        size = zstandard.frame_content_size(frame)
    except zstandard.ZstdError:
        return None
    return None if size < 0 else size


def _steps(data: memoryview, start: int) -> Iterator[int]:
    """Where header, blocks and checksum of a frame end; the last lies after the data if the frame does."""
    import zstandard

    beyond = len(data) + 1
    try:
        at = start + zstandard.frame_header_size(data[start:])
    except zstandard.ZstdError:
        at = beyond
    yield at
    while len(data) - at >= 3:
        block = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        at += 3 + (1 if block >> 1 & 3 == 1 else block >> 3)  # a run is one byte, whatever its size
        yield at
        if block & 1:
            if data[start + 4] & 4:
                yield at + 4
            return
    if at <= len(data):
        yield beyond
