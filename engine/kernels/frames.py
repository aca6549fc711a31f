# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decompress the frames of many batches in one call: LZ4 frames in this kernel, zstd frames with libzstd.

Only frames as Kafka's own writers make them are decompressed here. Unusual, damaged or too large ones are left to the readers
in engine.record, which decide what counts as damage.
"""

import cython
from cython.cimports.engine.kernels import fields
from cython.cimports.engine.kernels.frames import copy_16, move_16
from cython.cimports.engine.kernels.libzstd import decompress
from cython.cimports.engine.kernels.numbers import copy_bytes, u32_le
from cython.cimports.engine.kernels.predicates import is_legacy

_LZ4_MAGIC = cython.declare(cython.uint, 0x184D2204)
_LZ4_PLAIN = cython.declare(cython.int, 0x60)  # frame descriptor: version 1, independent blocks, no other flag
_LZ4_NOT_SIZE = cython.declare(cython.int, 0x8F)  # bits that do not belong to the block size and must be 0
_ZSTD_MAGIC = cython.declare(cython.uint, 0xFD2FB528)
_ZSTD_BLOCK = cython.declare(cython.longlong, 128 << 10)  # largest block; a block is also not larger than the window
# zstd-jni's stream refuses a larger window than this, unless the content fits in Kafka's read buffer (_ZSTD_AT_ONCE) and the
# frame in one read of the stream's input (_ZSTD_INPUT)
_ZSTD_WINDOW = cython.declare(cython.longlong, 1 << 27)
_ZSTD_AT_ONCE = cython.declare(cython.longlong, 16 << 10)
_ZSTD_INPUT = cython.declare(cython.Py_ssize_t, 131075)
_LAST_LITERALS = cython.declare(cython.Py_ssize_t, 5)  # bytes without matches at the end of a block, by the format
_MATCH_LIMIT = cython.declare(cython.Py_ssize_t, 12)

UNKNOWN_SIZE, NOT_PLAIN = -1, -2
_UNKNOWN_SIZE = cython.declare(cython.longlong, UNKNOWN_SIZE)
_NOT_PLAIN = cython.declare(cython.longlong, NOT_PLAIN)


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t))
def inflate_frames(data: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1], row: cython.Py_ssize_t,
                   end: cython.Py_ssize_t, checksums: cython.const[cython.uchar][::1],
                   library: cython.const[cython.ulonglong][::1], out: cython.uchar[::1], at: cython.Py_ssize_t):
    """Decompress the batches row … end − 1 of format 2 into `out`, from `at` on → (row where it stopped, at).

    batches    BODY and BODY_END: in: positions in `data`; out: positions in `out`. A batch with BODY LEFT_OUT is skipped
    checksums  last header byte of an LZ4 frame with blocks of 64 KiB, 256 KiB, 1 MiB and 4 MiB
    library    see libzstd; empty: stops at zstd
    Stops before the first batch that has another codec, is not one frame as Kafka writes it (LZ4: independent blocks,
    no checksums), is damaged, or does not fit in `out`; the columns of this batch are unchanged.
    """
    with cython.nogil:
        return inflate_rows(data, batches, row, end, checksums, library, out, at)


@cython.ccall
@cython.exceptval(check=False)
def holds_codec(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, end: cython.Py_ssize_t,
                codec: cython.longlong) -> cython.bint:
    """Does one of the batches row … end − 1 of format 2, except those with BODY LEFT_OUT, have this codec?"""
    if row < 0 or end > batches.shape[1]: return False
    while row < end:
        if (batches[fields.B_ATTRIBUTES, row] & fields.CODEC_MASK == codec and not is_legacy(batches, row)
                and batches[fields.B_BODY, row] != fields.LEFT_OUT):
            return True
        row += 1
    return False


def inflate_rows(data, batches, row, end, checksums, library, out, at):  # typed in frames.pxd: other kernels call it as C
    """See `inflate_frames`."""
    codec: cython.longlong
    start: cython.Py_ssize_t
    body_end: cython.Py_ssize_t
    after: cython.Py_ssize_t
    largest: cython.Py_ssize_t = 0  # bytes of the largest zstd frame: if the next may not fit, it is not tried
    if row < 0 or end > batches.shape[1] or at < 0 or at > out.shape[0] or checksums.shape[0] < 4: return row, at
    while row < end:
        start = batches[fields.B_BODY, row]
        if start == fields.LEFT_OUT:
            row += 1
            continue
        body_end = batches[fields.B_BODY_END, row]
        if is_legacy(batches, row): return row, at
        codec = batches[fields.B_ATTRIBUTES, row] & fields.CODEC_MASK
        if codec != fields.LZ4 and codec != fields.ZSTD: return row, at
        if start < 0 or start > body_end or body_end > data.shape[0]: return row, at
        after = at
        if start < body_end or batches[fields.B_COUNT, row] != 0:
            if codec == fields.LZ4:
                after = _lz4_frame(data, start, body_end, checksums, out, at)
            elif out.shape[0] - at >= largest:
                after = _zstd_frame(data, start, body_end, library, out, at)
                largest = max(largest, after - at)
            else:
                after = -1
            if after < 0: return row, at
        batches[fields.B_BODY, row] = at
        batches[fields.B_BODY_END, row] = after
        at = after
        row += 1
    return row, at


# ---- LZ4


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _lz4_frame(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t,
               checksums: cython.const[cython.uchar][::1], out: cython.uchar[::1],
               here: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Decompress the frame data[at:end] to out[here:] → position after it in `out`; −1: see inflate_frames."""
    size: cython.Py_ssize_t
    largest: cython.Py_ssize_t
    after: cython.Py_ssize_t
    word: cython.uint
    if end - at < 7 or u32_le(data, at) != _LZ4_MAGIC: return -1
    if data[at + 4] != _LZ4_PLAIN or data[at + 5] & _LZ4_NOT_SIZE: return -1
    word = data[at + 5] >> 4
    if word < 4 or data[at + 6] != checksums[word - 4]: return -1
    largest = 1 << (2 * word + 8)
    at += 7
    while True:
        if end - at < 4: return -1
        word = u32_le(data, at)
        size = word & (fields.LZ4_STORED - 1)
        at += 4
        if size == 0: return here
        if size > largest or size > end - at: return -1
        if word & fields.LZ4_STORED:
            if size > out.shape[0] - here: return -1
            after = copy_bytes(out, here, data, at, size)
        else:
            after = _lz4_block(data, at, at + size, out, here, largest)
        if after <= here: return -1  # Kafka's reader stops at an empty block
        here = after
        at += size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _lz4_block(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t, out: cython.uchar[::1],
               start: cython.Py_ssize_t, largest: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Decompress the block data[at:end] to out[start:] → position after it; −1: damaged, unusual, or no room.

    As in the LZ4 library, the rules for the end of a block are relative to the largest block that the frame allows.
    """
    here: cython.Py_ssize_t = start
    room: cython.Py_ssize_t = min(out.shape[0], start + largest)
    token: cython.Py_ssize_t
    size: cython.Py_ssize_t
    back: cython.Py_ssize_t
    step: cython.Py_ssize_t
    byte: cython.Py_ssize_t
    while True:
        if at >= end: return -1
        token = data[at]
        at += 1
        size = token >> 4
        if size == 15:
            byte = 255
            while byte == 255:
                if at >= end: return -1
                byte = data[at]
                at += 1
                size += byte
        if size > end - at or size > room - here: return -1
        if size <= 16 and end - at >= 16 and room - here >= 16:
            copy_16(out, here, data, at)
        elif size:
            copy_bytes(out, here, data, at, size)
        at += size
        here += size
        if at == end: return here
        if end - at < 3 + _LAST_LITERALS or here > start + largest - _MATCH_LIMIT: return -1
        back = data[at] | (data[at + 1] << 8)
        at += 2
        if back == 0 or back > here - start: return -1
        size = token & 15
        if size == 15:
            byte = 255
            while byte == 255:
                if at >= end: return -1
                byte = data[at]
                at += 1
                size += byte
        size += 4
        if size > room - here or here + size > start + largest - _LAST_LITERALS: return -1
        if back >= 16 and room - here >= size + 16:
            step = 0
            while step < size:
                move_16(out, here + step, here + step - back)
                step += 16
        else:
            for step in range(here, here + size):
                out[step] = out[step - back]
        here += size


# ---- zstd


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _zstd_frame(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t,
                library: cython.const[cython.ulonglong][::1], out: cython.uchar[::1],
                here: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Decompress the frame data[at:end] to out[here:] → position after it in `out`; −1: see inflate_frames.

    Content larger than the frame's window or than one block is left to the reader in engine.record: only a stream checks
    references beyond the window, and the sizes of blocks.
    """
    size: cython.longlong
    window: cython.longlong
    room: cython.Py_ssize_t
    made: cython.Py_ssize_t
    size, window = _measure(data, at, end)
    room = min(out.shape[0] - here, min(window, _ZSTD_BLOCK))
    if size == _NOT_PLAIN or size > room: return -1
    made = decompress(library, data, at, end, out[:here + room], here)
    if made < 1: return -1
    return here + made


@cython.ccall
@cython.exceptval(check=False)
def plain_zstd_size(data: cython.const[cython.uchar][::1]) -> cython.longlong:
    """Return the content size in the header of the frame `data`; UNKNOWN_SIZE: it has none.

    NOT_PLAIN: `data` is not exactly one frame, or a skippable frame, or one with a content size of 0; or its window or size
    is so large that it depends on the way of decompressing what counts as damage. The content of blocks is not checked.
    """
    size: cython.longlong
    _window: cython.longlong
    with cython.nogil:
        size, _window = _measure(data, 0, data.shape[0])
        return size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.longlong, cython.longlong))
def _measure(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t):
    """Return (`plain_zstd_size` of data[at:end], window size of the frame in bytes)."""
    index: cython.Py_ssize_t
    start: cython.Py_ssize_t = at
    size_bytes: cython.int = 0
    word: cython.longlong
    window: cython.longlong = 0
    content: cython.ulonglong = 0
    size: cython.longlong
    byte: cython.ulonglong
    descriptor: cython.int
    if end - at < 6 or u32_le(data, at) != _ZSTD_MAGIC: return _NOT_PLAIN, 0
    descriptor = data[at + 4]
    at += 5
    if descriptor & 8: return _NOT_PLAIN, 0
    if descriptor & 32 == 0:
        window = 1024
        window <<= data[at] >> 3
        window += (window >> 3) * (data[at] & 7)
        at += 1
    if descriptor & 3: at += 1 << ((descriptor & 3) - 1)
    if descriptor >> 6 or descriptor & 32: size_bytes = 1 << (descriptor >> 6)
    if size_bytes > end - at: return _NOT_PLAIN, 0
    for index in range(size_bytes):
        byte = data[at + index]
        content |= byte << (8 * index)
    if size_bytes == 2: content += 256
    if size_bytes and (content == 0 or content >> 63): return _NOT_PLAIN, 0
    size = content
    if descriptor & 32: window = size
    at += size_bytes
    while True:
        if end - at < 3: return _NOT_PLAIN, 0
        word = data[at] | (data[at + 1] << 8) | (data[at + 2] << 16)
        at += 3 + (1 if word & 6 == 2 else word >> 3)  # an RLE block stores one byte, whatever its size
        if word & 1: break
    if descriptor & 4: at += 4
    if at != end: return _NOT_PLAIN, 0
    if size_bytes == 0: return _UNKNOWN_SIZE if window <= _ZSTD_WINDOW else _NOT_PLAIN, window
    if size <= _ZSTD_AT_ONCE and end - start <= _ZSTD_INPUT: return size, window
    return size if size <= min(window, _ZSTD_BLOCK) and window <= _ZSTD_WINDOW else _NOT_PLAIN, window
