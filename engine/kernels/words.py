# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Write numbers and escapes, read UTF-8, and add sequence numbers, for the kernels that print.

Typed in words.pxd, so that other kernels call these as C. `out` and `data` are pointers, since a memoryview would be copied
for every call. words.pxd also has inlined functions that take memoryviews: `put`, `number`, `boolean`, `timestamp_type`,
`sequence_size`, `character` and `unicode_escape`.
"""

from array import array

import cython
from cython.cimports.engine.kernels import fields

from engine.kernels.escapes import UNSAFE_RANGES

_INT_SPAN = cython.declare(cython.longlong, 2**32)

# UNSAFE_RANGES in one array: first, last, first, …
_BOUNDS = cython.declare(cython.int[::1], array("i", [bound for ends in UNSAFE_RANGES for bound in ends]))
_BOUND_COUNT = cython.declare(cython.Py_ssize_t, 2 * len(UNSAFE_RANGES))


def decimal(out, at, value):
    """Write a signed decimal number of 64 bits, at most 20 bytes → position after it."""
    rest: cython.ulonglong
    high: cython.ulonglong
    if value < 0:
        out[at] = 45
        at += 1
        rest = -(value + 1)  # −2^63 has no positive counterpart
        rest += 1
    else:
        rest = value
    if rest < 100_000_000: return _eight_at_most(out, at, rest)
    high = rest // 100_000_000  # eight digits each, which the processor can compute in parallel
    low: cython.uint = rest - high * 100_000_000
    if high < 100_000_000:
        at = _eight_at_most(out, at, high)
    else:
        at = decimal(out, at, high)
    group: cython.uint = low // 10000
    return _four(out, _four(out, at, group), low - group * 10000)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _eight_at_most(out: cython.p_uchar, at: cython.Py_ssize_t, value: cython.uint) -> cython.Py_ssize_t:
    """Write a number below 100,000,000 → position after it."""
    group: cython.uint
    if value < 10000: return _leading(out, at, value)
    group = value // 10000
    return _four(out, _leading(out, at, group), value - group * 10000)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _leading(out: cython.p_uchar, at: cython.Py_ssize_t, group: cython.uint) -> cython.Py_ssize_t:
    """Write a number below 10000 with one to four digits → position after it."""
    pair: cython.uint
    if group < 100:
        if group < 10:
            out[at] = 48 + group
            return at + 1
        return two(out, at, group)
    pair = group // 100
    group -= pair * 100
    if pair < 10:
        out[at] = 48 + pair
        return two(out, at + 1, group)
    return two(out, two(out, at, pair), group)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _four(out: cython.p_uchar, at: cython.Py_ssize_t, group: cython.uint) -> cython.Py_ssize_t:
    """Write a number below 10000 with four digits → position after it."""
    pair: cython.uint = group // 100
    return two(out, two(out, at, pair), group - pair * 100)


def utf8_sequence(data, at, end):
    """Return the size of the well-formed multi-byte sequence at `at`; negative: number of bytes that one U+FFFD replaces.

    Java's decoder replaces each maximal ill-formed part by one U+FFFD, and so an encoded surrogate as a whole.
    """
    lead: cython.uchar = data[at]
    low: cython.uchar = 0x80
    high: cython.uchar = 0xBF
    needed: cython.Py_ssize_t
    index: cython.Py_ssize_t
    if lead < 0xC2 or lead > 0xF4: return -1
    if lead < 0xE0:
        needed = 2
    elif lead < 0xF0:
        needed = 3
        if lead == 0xE0: low = 0xA0
    else:
        needed = 4
        if lead == 0xF0: low = 0x90
        if lead == 0xF4: high = 0x8F
    if end - at < 2 or data[at + 1] < low or data[at + 1] > high: return -1
    if lead == 0xED and data[at + 1] >= 0xA0:
        if end - at >= 3 and 0x80 <= data[at + 2] <= 0xBF: return -3
        return -2
    for index in range(2, needed):
        if at + index >= end or data[at + index] < 0x80 or data[at + index] > 0xBF: return -index
    return needed


def code_point(data, at, size):
    """Decode a sequence of 2 to 4 bytes."""
    code: cython.int
    if size == 2: return (data[at] & 31) * 64 + (data[at + 1] & 63)
    if size == 3: return (data[at] & 15) * 4096 + (data[at + 1] & 63) * 64 + (data[at + 2] & 63)
    code = (data[at] & 7) * 4096 + (data[at + 1] & 63) * 64 + (data[at + 2] & 63)
    return code * 64 + (data[at + 3] & 63)


def is_unsafe(code):
    """Can this character above 127 control a terminal, or is it invisible? See escapes.UNSAFE_RANGES."""
    at: cython.Py_ssize_t
    for at in range(0, _BOUND_COUNT, 2):
        if code < _BOUNDS[at]: return False
        if code <= _BOUNDS[at + 1]: return True
    return False


def hex_digit(value):
    """Return the lower-case hexadecimal digit of 0 … 15."""
    if value < 10: return 48 + value
    return 87 + value


def java_escape(out, at, code):
    """Write an escape like \\u202e, or two (surrogates) for a character above 16 bits → position after it."""
    if code > 0xFFFF:
        at = java_escape(out, at, 0xD7C0 + (code >> 10))
        code = 0xDC00 + (code & 0x3FF)
    out[at] = 92
    out[at + 1] = 117
    out[at + 2] = hex_digit(code // 4096)
    out[at + 3] = hex_digit(code // 256 % 16)
    out[at + 4] = hex_digit(code // 16 % 16)
    out[at + 5] = hex_digit(code % 16)
    return at + 6


def advance(sequence, increment):
    """Add to a sequence number; 0 follows 2^31 − 1, in 32-bit arithmetic. Mirrors DefaultRecordBatch.incrementSequence."""
    last: cython.int = sequence  # both are ints in Java
    more: cython.int = increment
    wide: cython.longlong = last
    if last > _int32(fields.INT_MAX - more):
        wide = more - (fields.INT_MAX - last) - 1
    else:
        wide += more
    return _int32(wide)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _int32(value: cython.longlong) -> cython.longlong:
    if value > fields.INT_MAX: return value - _INT_SPAN
    if value < -fields.INT_MAX - 1: return value + _INT_SPAN
    return value
