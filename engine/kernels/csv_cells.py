# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Write bytes as cells of CSV (RFC 4180): text if they are well-formed UTF-8 without control characters, else base64.

Typed in csv_cells.pxd. Callers measure with `cell_size` and `cells_room` first, then write with `put_cells`. It stands alone
for `templates`: a format with rules of its own.
"""

import cython
from cython.cimports.engine.kernels.json_strings import base64
from cython.cimports.engine.kernels.numbers import copy_bytes
from cython.cimports.engine.kernels.words import put, utf8_sequence


def cell_size(data, start, size):
    r"""Return the size of the text with its quotes; −1: it must be base64, because it is not text, or is \N, which is null."""
    index: cython.Py_ssize_t
    end: cython.Py_ssize_t = start + size
    length: cython.Py_ssize_t
    byte: cython.uchar
    seen: cython.uchar = 0
    quotes: cython.Py_ssize_t = 0
    special: cython.Py_ssize_t = 0  # commas, and characters that end a line
    control: cython.Py_ssize_t = 0
    for index in range(start, end):
        byte = data[index]
        seen |= byte
        quotes += byte == 34
        special += (byte == 44) | (byte == 10) | (byte == 13)
        control += (byte == 127) | ((byte < 32) & (byte != 9) & (byte != 10) & (byte != 13))
    if control > 0 or (size == 2 and data[start] == 92 and data[start + 1] == 78): return -1
    if seen >= 128:
        index = start
        while index < end:
            length = 1 if data[index] < 128 else utf8_sequence(cython.address(data[0]), index, end)
            if length < 0: return -1
            index += length
    return size + quotes + 2 if quotes > 0 or special > 0 else size


def cells_room(size, text_size):
    """Return the largest size of both cells of a field of `size` bytes."""
    return 5 + (text_size if text_size >= 0 else (size + 2) // 3 * 4)  # null, a comma, and null or a guard


def put_cells(out, at, data, start, size, text_size, guard):
    r"""Write the cells of text and of base64, with a comma between them → position after them. The other one is null, \N.

    size       bytes of the field, below 0: null     text_size  from `cell_size`
    guard      put a ' before what a spreadsheet could take for a formula, and before a '
    """
    index: cython.Py_ssize_t
    if size < 0: return put(out, at, b"\\N,\\N", 5)
    if text_size < 0:
        at = put(out, at, b"\\N,", 3)
        if guard and data[start] >> 2 == 62: at = put(out, at, b"'", 1)  # the base64 begins with +
        return base64(cython.address(out[0]), at, cython.address(data[0]), start, size)
    if text_size != size: at = put(out, at, b'"', 1)
    if guard and size > 0 and _is_guarded(data[start]): at = put(out, at, b"'", 1)
    if text_size == size:
        at = copy_bytes(out, at, data, start, size)
    else:
        for index in range(start, start + size):
            if data[index] == 34:
                out[at] = 34
                at += 1
            out[at] = data[index]
            at += 1
        at = put(out, at, b'"', 1)
    return put(out, at, b",\\N", 3)


def quote(out, start, at):
    """Make out[start:at] a cell, in quotes and with its own quotes doubled → position after it."""
    index: cython.Py_ssize_t
    quotes: cython.Py_ssize_t = 0
    for index in range(start, at):
        quotes += out[index] == 34
    end: cython.Py_ssize_t = at + quotes + 2
    to: cython.Py_ssize_t = end - 1
    out[to] = 34
    index = at
    while index > start:
        index -= 1
        to -= 1
        out[to] = out[index]
        if out[to] == 34:
            to -= 1
            out[to] = 34
    out[start] = 34
    return end


def _is_guarded(byte):
    """Return whether a spreadsheet could take text that begins with this byte for a formula, or for text with a guard."""
    return byte == 61 or byte == 43 or byte == 45 or byte == 64 or byte == 9 or byte == 13 or byte == 39  # = + - @ \t \r '
