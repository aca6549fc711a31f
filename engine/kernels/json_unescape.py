# cython: language_level=3, boundscheck=False, wraparound=False
"""Decode JSON strings in place: an escape never becomes longer.

The caller has checked that the string is valid (see `lines`).
"""

import cython


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def four_hex(data: cython.uchar[::1], at: cython.Py_ssize_t) -> cython.int:
    """Return the value of four hexadecimal digits; −1: not all are digits."""
    value: cython.int = 0
    digit: cython.int
    index: cython.Py_ssize_t
    for index in range(at, at + 4):
        digit = data[index]
        if 48 <= digit <= 57:
            digit -= 48
        elif 65 <= digit <= 70:
            digit -= 55
        elif 97 <= digit <= 102:
            digit -= 87
        else:
            return -1
        value = value * 16 + digit
    return value


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def unescape(data: cython.uchar[::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t,
             to: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Decode the string data[start:end] to data[to:] → position after it. `to` is at most `start`."""
    at: cython.Py_ssize_t = start
    code: cython.int
    byte: cython.uchar
    while at < end:
        byte = data[at]
        if byte != 92:
            data[to] = byte
            at += 1
            to += 1
            continue
        byte = data[at + 1]
        at += 2
        if byte != 117:
            if byte == 98: byte = 8
            elif byte == 102: byte = 12
            elif byte == 110: byte = 10
            elif byte == 114: byte = 13
            elif byte == 116: byte = 9
            data[to] = byte
            to += 1
            continue
        code = four_hex(data, at)
        at += 4
        if 0xD800 <= code <= 0xDBFF:
            code = 0x10000 + (code - 0xD800) * 1024 + four_hex(data, at + 2) - 0xDC00
            at += 6
        to = _utf8(data, to, code)
    return to


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _utf8(data: cython.uchar[::1], to: cython.Py_ssize_t, code: cython.int) -> cython.Py_ssize_t:
    """Write a character → position after it."""
    if code < 0x80:
        data[to] = code
        return to + 1
    if code < 0x800:
        data[to] = 0xC0 | (code >> 6)
        data[to + 1] = 0x80 | (code & 63)
        return to + 2
    if code < 0x10000:
        data[to] = 0xE0 | (code >> 12)
        data[to + 1] = 0x80 | ((code >> 6) & 63)
        data[to + 2] = 0x80 | (code & 63)
        return to + 3
    data[to] = 0xF0 | (code >> 18)
    data[to + 1] = 0x80 | ((code >> 12) & 63)
    data[to + 2] = 0x80 | ((code >> 6) & 63)
    data[to + 3] = 0x80 | (code & 63)
    return to + 4


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_string(data: cython.uchar[::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t,
               to: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write the decoded string data[start:end] to data[to:], after its length as a varint → position after it.

    `to` is at least six bytes before `start`.
    """
    size: cython.Py_ssize_t = unescape(data, start, end, start) - start
    value: cython.Py_ssize_t = 2 * size
    while value >= 128:
        data[to] = (value & 127) | 128
        value >>= 7
        to += 1
    data[to] = value
    return _move(data, start, start + size, to + 1)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _move(data: cython.uchar[::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t,
          to: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Move data[start:end] to data[to:] → position after it. `to` is before `start`; the ranges may overlap."""
    while start < end:
        data[to] = data[start]
        start += 1
        to += 1
    return to
