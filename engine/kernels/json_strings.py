# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Write bytes as JSON strings: as text if they are well-formed UTF-8, else as base64.

Typed in json_strings.pxd; as in `words`, `out` and `data` are pointers. Callers measure with `string_size` or `field_room`
first, then write with `string_field`.
"""

import cython
from cython.cimports.engine.kernels.words import code_point, is_unsafe, java_escape, utf8_sequence


def string_size(data, start, size, escape):
    """Return the size of the text of a JSON string without its quotes; −1: the bytes are not well-formed UTF-8."""
    index: cython.Py_ssize_t
    seen: cython.uchar = 0
    byte: cython.uchar
    more: cython.Py_ssize_t = 0
    for index in range(size):
        byte = data[start + index]
        seen |= byte
        more += (byte == 34) + (byte == 92) + (byte < 32) * 5
    if seen < 128 and more == 0 and not escape: return size
    return _characters_size(data, start, start + size, escape)


def _characters_size(data, start, end, escape):
    """Do the work of `string_size` character by character."""
    index: cython.Py_ssize_t = start
    size: cython.Py_ssize_t
    total: cython.Py_ssize_t = 0
    byte: cython.uchar
    while index < end:
        byte = data[index]
        if byte < 128:
            index += 1
            total += 1
            if byte == 34 or byte == 92:
                total += 1
            elif byte < 32:
                total += 1 if _short(byte) else 5
            elif byte == 127 and escape:
                total += 5
            continue
        size = utf8_sequence(data, index, end)
        if size < 0: return -1
        if escape and is_unsafe(code_point(data, index, size)):
            total += 12 if size == 4 else 6
        else:
            total += size
        index += size
    return total


def field_room(size, text_size):
    """Return the size of the text or base64 of a field of `size` bytes, without quotes."""
    if text_size >= 0: return text_size
    return (size + 2) // 3 * 4


def string_field(out, at, data, start, size, text_size, escape):
    """Write what follows `"key` or `"value`: `":null`, `":"text"` or `_b64":"base64"` → position after it.

    size       bytes of the field, below 0: null        text_size  from `string_size`
    """
    index: cython.Py_ssize_t
    if size < 0: return _put(out, at, b'":null', 6)
    if text_size < 0:
        at = _put(out, at, b'_b64":"', 7)
        at = base64(out, at, data, start, size)
    else:
        at = _put(out, at, b'":"', 3)
        if text_size != size:
            at = _put_characters(out, at, data, start, start + size, escape)
        else:
            for index in range(size):
                out[at + index] = data[start + index]
            at += size
    return _put(out, at, b'"', 1)


def _put(out, at, text, size):
    index: cython.Py_ssize_t
    for index in range(size):
        out[at + index] = text[index]
    return at + size


def _short(byte):
    """Return the letter of a control character's short escape, 0: it has none."""
    if byte == 10: return 110
    if byte == 9: return 116
    if byte == 13: return 114
    if byte == 8: return 98
    if byte == 12: return 102
    return 0


def _put_characters(out, at, data, start, end, escape):
    """Write the text of a JSON string character by character; the bytes are well-formed UTF-8."""
    index: cython.Py_ssize_t = start
    size: cython.Py_ssize_t
    part: cython.Py_ssize_t
    code: cython.int
    byte: cython.uchar
    while index < end:
        byte = data[index]
        if byte >= 32 and byte < 127 and byte != 34 and byte != 92:
            out[at] = byte
            at += 1
            index += 1
        elif byte < 128:
            index += 1
            if byte == 34 or byte == 92 or _short(byte):
                out[at] = 92
                out[at + 1] = byte if byte > 31 else _short(byte)
                at += 2
            elif byte == 127 and not escape:
                out[at] = byte
                at += 1
            else:
                at = java_escape(out, at, byte)
        else:
            size = 2 if byte < 0xE0 else (3 if byte < 0xF0 else 4)
            if escape:
                code = code_point(data, index, size)
                if is_unsafe(code):
                    at = java_escape(out, at, code)
                    index += size
                    continue
            for part in range(size):
                out[at + part] = data[index + part]
            at += size
            index += size
    return at


def base64(out, at, data, start, size):
    """Write base64 with padding (RFC 4648, section 4)."""
    index: cython.Py_ssize_t = start
    end: cython.Py_ssize_t = start + size
    bits: cython.int
    while end - index >= 3:
        bits = data[index] * 65536 + data[index + 1] * 256 + data[index + 2]
        out[at] = _letter(bits >> 18)
        out[at + 1] = _letter((bits >> 12) & 63)
        out[at + 2] = _letter((bits >> 6) & 63)
        out[at + 3] = _letter(bits & 63)
        at += 4
        index += 3
    if index < end:
        bits = data[index] * 65536
        if end - index == 2: bits += data[index + 1] * 256
        out[at] = _letter(bits >> 18)
        out[at + 1] = _letter((bits >> 12) & 63)
        out[at + 2] = _letter((bits >> 6) & 63) if end - index == 2 else 61
        out[at + 3] = 61
        at += 4
    return at


def _letter(value):
    if value < 26: return 65 + value
    if value < 52: return 71 + value
    if value < 62: return value - 4
    return 43 if value == 62 else 47
