"""zstd's own functions for kernels that work on many batches in one call, without the interpreter in between.

Compiled kernels take these from libzstd.pxd. Interpreted ones can not call an address: there the callers have other ways,
through the library's module, and make the same bytes. The functions come as `library`, see tables.Zstd and
engine.record.libzstd, which finds them; they write no byte behind `out`, whatever `data` holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.kernels.numbers import Bytes


def decompress(_library: memoryview, _data: Bytes, _start: int, _end: int, _out: memoryview, _at: int) -> int:
    """Inflate the frame data[start:end] to out[at:] → bytes it made; −1: no library, damage, or no room."""
    return -1


def compress(_library: memoryview, _data: Bytes, _size: int, _out: memoryview, _at: int) -> int:
    """data[:size] as one frame at out[at:], as Java's stream writes it → position behind it; −1: no library, or no room."""
    return -1
