# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Compress Snappy and LZ4 blocks to the same bytes as Kafka's libraries: Snappy 1.1.9 and 1.1.10, LZ4 1.9 (fast).

Both find matches of four bytes with a table of 16-bit positions, which limits the block size. Other versions of these libraries
compress to other bytes, which every reader accepts too.
"""

import cython
from cython.cimports.engine.kernels.numbers import copy_bytes
from cython.cimports.libc.string import memcpy

SNAPPY_BLOCK = 1 << 16  # largest block that a position of 16 bits can point into
LZ4_BLOCK = (1 << 16) + 10  # LZ4_64Klimit − 1: LZ4 compresses larger blocks with another algorithm
TABLE = 1 << 14  # entries of a table of positions

_SNAPPY_BLOCK = cython.declare(cython.Py_ssize_t, SNAPPY_BLOCK)
_LZ4_BLOCK = cython.declare(cython.Py_ssize_t, LZ4_BLOCK)
_TABLE = cython.declare(cython.Py_ssize_t, TABLE)
_SNAPPY_MAGIC = cython.declare(cython.uint, 0x1E35A7BD)
_LZ4_MAGIC = cython.declare(cython.uint, 2654435761)
_WORD = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_LZ4_TABLE = cython.declare(cython.Py_ssize_t, 1 << 13)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _word(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.uint:
    """Return four bytes in the order of the processor: one load, where u32_le takes four. Only for comparisons and hashes."""
    word: cython.uint
    memcpy(cython.address(word), cython.address(data[at]), 4)
    return word


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _long_word(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.ulonglong:
    """Return eight bytes in the order of the processor."""
    word: cython.ulonglong
    memcpy(cython.address(word), cython.address(data[at]), 8)
    return word


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _copy_literals(out: cython.uchar[::1], at: cython.Py_ssize_t, data: cython.const[cython.uchar][::1],
                   start: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Copy like copy_bytes. Few bytes, the usual case, are copied as 16, without a call; later writes replace the others."""
    if size <= 16 and start + 16 <= data.shape[0] and at + 16 <= out.shape[0]:
        memcpy(cython.address(out[at]), cython.address(data[start]), 16)
        return at + size
    return copy_bytes(out, at, data, start, size)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _match_length(data: cython.const[cython.uchar][::1], one: cython.Py_ssize_t, other: cython.Py_ssize_t,
                  end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the number of equal bytes from `one` and from `other` on; `one` is before `other`, which stays before `end`."""
    start: cython.Py_ssize_t = other
    difference: cython.ulonglong
    while other + 8 <= end:
        difference = _long_word(data, one) ^ _long_word(data, other)
        if difference: return other - start + equal_bytes(difference)
        one += 8
        other += 8
    while other < end and data[one] == data[other]:
        one += 1
        other += 1
    return other - start


# ---- snappy


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _snappy_hash(word: cython.uint, mask: cython.uint) -> cython.Py_ssize_t:
    product: cython.ulonglong = word
    product = (product * _SNAPPY_MAGIC) & _WORD
    return ((product >> 17) & mask) >> 1  # the mask is for bytes, an entry has two


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _snappy_literal(data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, size: cython.Py_ssize_t,
                    out: cython.uchar[::1], at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    rest: cython.Py_ssize_t = size - 1
    count: cython.Py_ssize_t = 0
    if rest < 60:
        out[at] = rest << 2
    else:
        while rest > 0:
            count += 1
            out[at + count] = rest & 255
            rest >>= 8
        out[at] = (59 + count) << 2
    return _copy_literals(out, at + 1 + count, data, start, size)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _snappy_copy_64(out: cython.uchar[::1], at: cython.Py_ssize_t, offset: cython.Py_ssize_t,
                    size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write a copy of at most 64 bytes from `offset` bytes back → position after it."""
    if size < 12 and offset < 2048:
        out[at] = 1 + ((size - 4) << 2) + ((offset >> 3) & 0xE0)
        out[at + 1] = offset & 255
        return at + 2
    out[at] = 2 + ((size - 1) << 2)
    out[at + 1] = offset & 255
    out[at + 2] = offset >> 8
    return at + 3


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _snappy_copy(out: cython.uchar[::1], at: cython.Py_ssize_t, offset: cython.Py_ssize_t,
                 size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    while size >= 68:
        at = _snappy_copy_64(out, at, offset, 64)
        size -= 64
    if size > 64:
        at = _snappy_copy_64(out, at, offset, 60)
        size -= 60
    return _snappy_copy_64(out, at, offset, size)


def snappy_bound(size: int) -> int:
    """Return the largest compressed size of `size` bytes."""
    return 32 + size + size // 6


def lz4_bound(size: int) -> int:
    """Return the largest compressed size of `size` bytes."""
    return size + size // 255 + 16


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def snappy_block(data: cython.const[cython.uchar][::1], out: cython.uchar[::1], table: cython.ushort[::1]):
    """Compress `data` → bytes written to `out`; −1: more than SNAPPY_BLOCK bytes, or `out` or `table` is too small.

    out    snappy_bound(len(data)) bytes        table  TABLE entries, with any content
    """
    size: cython.Py_ssize_t = data.shape[0]
    rest: cython.Py_ssize_t = size
    at: cython.Py_ssize_t = 0
    entries: cython.Py_ssize_t = 256
    index: cython.Py_ssize_t
    if size > _SNAPPY_BLOCK or table.shape[0] < _TABLE or out.shape[0] < 32 + size + size // 6: return -1
    with cython.nogil:
        while rest >= 128:
            out[at] = (rest & 127) | 128
            rest >>= 7
            at += 1
        out[at] = rest
        at += 1
        while entries < size and entries < _TABLE:
            entries *= 2
        for index in range(entries):
            table[index] = 0
        return _snappy_fragment(data, out, at, table, 2 * (entries - 1)) if size else at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _snappy_fragment(data: cython.const[cython.uchar][::1], out: cython.uchar[::1], at: cython.Py_ssize_t,
                     table: cython.ushort[::1], mask: cython.uint) -> cython.Py_ssize_t:
    """Mirrors CompressFragment."""
    end: cython.Py_ssize_t = data.shape[0]
    limit: cython.Py_ssize_t = end - 15
    here: cython.Py_ssize_t = 0
    emitted: cython.Py_ssize_t
    ahead: cython.Py_ssize_t
    candidate: cython.Py_ssize_t
    slot: cython.Py_ssize_t
    matched: cython.Py_ssize_t
    start: cython.Py_ssize_t
    skip: cython.Py_ssize_t
    word: cython.uint
    found: cython.bint
    if end < 15: return _snappy_literal(data, 0, end, out, at)
    while True:
        emitted = here
        here += 1
        skip = 32
        found = False
        candidate = 0
        if limit - here >= 16:
            start = here
            while here < start + 16:
                word = _word(data, here)
                slot = _snappy_hash(word, mask)
                candidate = table[slot]
                table[slot] = here
                if _word(data, candidate) == word:
                    found = True
                    break
                here += 1
            if not found: skip = 48
        if not found:
            while True:
                word = _word(data, here)
                slot = _snappy_hash(word, mask)
                ahead = here + (skip >> 5)
                skip += skip >> 5
                if ahead > limit: return _snappy_literal(data, emitted, end - emitted, out, at)
                candidate = table[slot]
                table[slot] = here
                if _word(data, candidate) == word: break
                here = ahead
        at = _snappy_literal(data, emitted, here - emitted, out, at)
        while True:
            start = here
            matched = 4 + _match_length(data, candidate + 4, here + 4, end)
            here += matched
            at = _snappy_copy(out, at, start - candidate, matched)
            if here >= limit:
                return _snappy_literal(data, here, end - here, out, at) if here < end else at
            table[_snappy_hash(_word(data, here - 1), mask)] = here - 1
            word = _word(data, here)
            slot = _snappy_hash(word, mask)
            candidate = table[slot]
            table[slot] = here
            if _word(data, candidate) != word: break


# ---- lz4


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _lz4_hash(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    product: cython.ulonglong = _word(data, at)
    product = (product * _LZ4_MAGIC) & _WORD
    return product >> 19


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _lz4_length(out: cython.uchar[::1], at: cython.Py_ssize_t, length: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write a length of 15 or more, without the 15 in its token → position after it."""
    length -= 15
    while length >= 255:
        out[at] = 255
        length -= 255
        at += 1
    out[at] = length
    return at + 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _lz4_literals(data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, size: cython.Py_ssize_t,
                  out: cython.uchar[::1], at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write a token and its literals; the match length is added to the token later → position after them."""
    if size >= 15:
        out[at] = 15 << 4
        at = _lz4_length(out, at + 1, size)
    else:
        out[at] = size << 4
        at += 1
    return _copy_literals(out, at, data, start, size)


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def lz4_block(data: cython.const[cython.uchar][::1], out: cython.uchar[::1], table: cython.ushort[::1]):
    """Compress `data` → bytes written to `out`; −1: more than LZ4_BLOCK bytes, or `out` or `table` is too small.

    out    lz4_bound(len(data)) bytes        table  TABLE entries, with any content
    Mirrors LZ4_compress_default.
    """
    with cython.nogil:
        return lz4_part(data, out, table)


def lz4_part(data, out, table):  # typed in blocks.pxd, so that other kernels call it as C
    """See `lz4_block`."""
    end: cython.Py_ssize_t = data.shape[0]
    limit: cython.Py_ssize_t = end - 11  # after the last position where a match may begin
    match_end: cython.Py_ssize_t = end - 5
    anchor: cython.Py_ssize_t = 0
    here: cython.Py_ssize_t = 0
    ahead: cython.Py_ssize_t
    match: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t = 0
    token: cython.Py_ssize_t
    slot: cython.Py_ssize_t
    length: cython.Py_ssize_t
    step: cython.Py_ssize_t
    tries: cython.Py_ssize_t
    index: cython.Py_ssize_t
    if end > _LZ4_BLOCK or table.shape[0] < _TABLE or out.shape[0] < end + end // 255 + 16: return -1
    if end < 13: return _lz4_literals(data, 0, end, out, 0)
    for index in range(_LZ4_TABLE):
        table[index] = 0
    here = 1
    slot = _lz4_hash(data, here)
    while True:
        ahead = here
        step = 1
        tries = 64
        while True:
            here = ahead
            ahead += step
            step = tries >> 6
            tries += 1
            if ahead > limit: return _lz4_literals(data, anchor, end - anchor, out, at)
            match = table[slot]
            table[slot] = here
            slot = _lz4_hash(data, ahead)
            if _word(data, match) == _word(data, here): break
        while here > anchor and match > 0 and data[here - 1] == data[match - 1]:
            here -= 1
            match -= 1
        token = at
        at = _lz4_literals(data, anchor, here - anchor, out, at)
        while True:
            out[at] = (here - match) & 255
            out[at + 1] = (here - match) >> 8
            at += 2
            length = _match_length(data, match + 4, here + 4, match_end)
            here += length + 4
            if length >= 15:
                out[token] += 15
                at = _lz4_length(out, at, length)
            else:
                out[token] += length
            anchor = here
            if here >= limit: return _lz4_literals(data, anchor, end - anchor, out, at)
            table[_lz4_hash(data, here - 2)] = here - 2
            slot = _lz4_hash(data, here)
            match = table[slot]
            table[slot] = here
            if _word(data, match) != _word(data, here): break
            token = at
            out[at] = 0
            at += 1
        here += 1
        slot = _lz4_hash(data, here)
