"""Read consecutive zstd frames as Kafka does. Mirrors ZstdInputStreamNoFinalizer of zstd-jni.

The library reports neither a truncated frame nor, for frames without a content size, what follows the frame, and it cannot
limit the output of one call. So this module parses the headers of frames and blocks, and passes one block at a time to the
library. It stands alone, like each codec.
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
_INPUT_BUFFER = 131075  # zstd-jni reads its input in pieces of this size (ZSTD_DStreamInSize)
_NO_ROOM = "Destination buffer is too small"  # reported for some damage by a context with little memory …
_DAMAGE = "Data corruption detected"  # … and by one with more


def blocks(data: memoryview, context: ZstdDecompressor) -> Iterator[bytes]:
    """Return the content of all frames, at most 128 KiB at a time. Raises CorruptError if Kafka would stop."""
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
                    if left < 0:  # a context that has decompressed larger data reports damage
                        raise CorruptError(_DAMAGE)
                yield part
                at = end
        else:
            raise CorruptError("unknown frame descriptor")
        if at > len(data):
            # inside a later frame zstd-jni reports its end only when it must fill its input buffer again
            if start and (start - 1) // _INPUT_BUFFER == (len(data) - 1) // _INPUT_BUFFER:
                return
            raise CorruptError("ends inside a frame")
        start = at


def _declared(frame: memoryview) -> int | None:
    """Return the content size in the frame's header; None: it has none, or the header is incomplete."""
    import zstandard

    try:
        size = zstandard.frame_content_size(frame)
    except zstandard.ZstdError:
        return None
    return None if size < 0 else size


def _steps(data: memoryview, start: int) -> Iterator[int]:
    """Return the ends of header, blocks and checksum of a frame; the last is after the data if the frame is truncated."""
    import zstandard

    beyond = len(data) + 1
    try:
        at = start + zstandard.frame_header_size(data[start:])
    except zstandard.ZstdError:
        at = beyond
    yield at
    while len(data) - at >= 3:
        block = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        at += 3 + (1 if block >> 1 & 3 == 1 else block >> 3)  # a run of equal bytes is stored as one byte
        yield at
        if block & 1:
            if data[start + 4] & 4:
                yield at + 4
            return
    if at <= len(data):
        yield beyond
