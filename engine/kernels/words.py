# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What the kernels that print share: numbers, UTF-8, the sizes of headers, sequence numbers, and their flags.

Typed in words.pxd, so that other kernels call these as C: compiled, `out` and `data` are pointers, since a memoryview
would be copied for every call; interpreted they are the memoryviews themselves.
"""

import cython

META = 1  # print the record's metadata (not --skip-record-metadata)
CONTENTS = 2  # print key and payload
ESCAPE = 4  # for a terminal
OPEN = 8  # leave the record open: somebody goes on behind it
ARRAY = 16  # JSON objects are elements of an array: a comma in front of each

_MASK = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_LARGEST = cython.declare(cython.longlong, 2**63 - 1)
_INT_MAX = cython.declare(cython.longlong, 2**31 - 1)
_INT_SPAN = cython.declare(cython.longlong, 2**32)


def number(out, at, value):
    """Write a signed decimal number of 64 bits, at most 20 bytes → the position behind it."""
    rest: cython.ulonglong
    scan: cython.ulonglong
    digits: cython.Py_ssize_t = 1
    index: cython.Py_ssize_t
    if value < 0:
        out[at] = 45
        at += 1
        rest = -(value + 1)  # −2^63 has no positive twin
        rest += 1
    else:
        rest = value
    scan = rest
    while scan >= 10000:
        scan = scan // 10000
        digits += 4
    while scan >= 10:
        scan = scan // 10
        digits += 1
    index = at + digits
    while index > at:
        index -= 1
        out[index] = 48 + rest % 10
        rest = rest // 10
    return at + digits


def utf8_sequence(data, at, end):
    """Bytes of the well-formed multi-byte sequence at `at`; negative: bytes that one U+FFFD stands for.

    Java's decoder replaces each maximal ill-formed part once, and an encoded surrogate as a whole.
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
    """The character that a sequence of 2 to 4 bytes stands for."""
    code: cython.int
    if size == 2: return (data[at] & 31) * 64 + (data[at + 1] & 63)
    if size == 3: return (data[at] & 15) * 4096 + (data[at + 1] & 63) * 64 + (data[at + 2] & 63)
    code = (data[at] & 7) * 4096 + (data[at + 1] & 63) * 64 + (data[at + 2] & 63)
    return code * 64 + (data[at + 3] & 63)


def is_unsafe(code):
    """Would a terminal obey this character above 127: C1 controls, bidirectional marks, line ends, invisible ones."""
    return (code < 160 or code == 0x61C or 0x200B <= code <= 0x200F or 0x2028 <= code <= 0x202E
            or 0x2060 <= code <= 0x206F or code == 0xFEFF)


def varint(data, at, end):
    """(the length at `at`, the position behind it). decode_records has checked it already."""
    raw: cython.ulonglong = 0
    shift: cython.int = 0
    byte: cython.ulonglong
    value: cython.longlong
    while at < end and shift < 35:
        byte = data[at]
        at += 1
        raw |= (byte & 127) << shift
        if byte < 128: break
        shift += 7
    raw &= _MASK
    value = raw >> 1
    if raw & 1: return -value - 1, at
    return value, at


def advance(sequence, increment):
    """DefaultRecordBatch.incrementSequence: sequences go on at 0 behind 2^31 − 1, in Java's 32-bit arithmetic."""
    wide: cython.longlong
    if sequence > _int32(_INT_MAX - increment):
        wide = increment - (_INT_MAX - sequence) - 1
    else:
        wide = sequence + increment
    return _int32(wide)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _int32(value: cython.longlong) -> cython.longlong:
    if value > _INT_MAX: return value - _INT_SPAN
    if value < -_INT_MAX - 1: return value + _INT_SPAN
    return value


def delta(last, first):
    """last − first, which fits 32 bits although offsets may have gone around at 2^63."""
    if last < 0 and first > 0 and first > _LARGEST + last: return (last + _LARGEST + 1) + (_LARGEST - first) + 1
    if last > 0 and first < 0 and last > _LARGEST + first: return (last - _LARGEST - 1) + (-_LARGEST - 1 - first)
    return last - first
