# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Lines of a key, a separator and a value → record columns. Nothing is copied: both stay where they stood."""

import cython
from cython.cimports.engine.kernels import fields, tables


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _line_end(data: cython.uchar[::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Position of the next line feed; `end` where there is none."""
    while at < end and data[at] != 10:
        at += 1
    return at


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is(data: cython.uchar[::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t,
        word: cython.const[cython.uchar][::1]) -> cython.bint:
    """Are these bytes `word`?"""
    index: cython.Py_ssize_t
    if end - start != word.shape[0]: return False
    for index in range(word.shape[0]):
        if data[start + index] != word[index]: return False
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _find(data: cython.uchar[::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t,
          word: cython.const[cython.uchar][::1]) -> cython.Py_ssize_t:
    """Where `word` begins first; `end` where it does not."""
    at: cython.Py_ssize_t = start
    size: cython.Py_ssize_t = word.shape[0]
    while end - at >= size:
        if data[at] == word[0] and _is(data, at, at + size, word): return at
        at += 1
    return end


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def parse_text_lines(data: cython.uchar[::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t,
                     separator: cython.const[cython.uchar][::1], null: cython.const[cython.uchar][::1],
                     timestamp: cython.longlong, records: cython.longlong[:, ::1], filled: cython.Py_ssize_t):
    """Lines data[start:end] → (rows filled, position of the next line, status).

    separator  between key and value; empty, or not in the line: there is no key
    null       a key or value that is this text is null; empty: none is
    timestamp  of every record, ms
    status     END · FULL · BAD_START: bytes outside `data`, or columns that are no records
    A line ends with LF or CR LF; the last may lack it.
    """
    at: cython.Py_ssize_t = start
    line_end: cython.Py_ssize_t
    behind: cython.Py_ssize_t
    split: cython.Py_ssize_t
    if start < 0 or start > end or end > data.shape[0]: return filled, start, tables.PARSED_BAD_START
    if filled < 0 or records.shape[0] < fields.R_FIELDS: return filled, start, tables.PARSED_BAD_START
    with cython.nogil:
        while at < end:
            if filled >= records.shape[1]: return filled, at, tables.PARSED_FULL
            line_end = _line_end(data, at, end)
            behind = line_end + 1
            if line_end > at and data[line_end - 1] == 13: line_end -= 1
            records[fields.R_BATCH, filled] = 0
            records[fields.R_OFFSET, filled] = filled
            records[fields.R_TIMESTAMP, filled] = timestamp
            records[fields.R_HEADERS_POSITION, filled] = at
            records[fields.R_HEADER_COUNT, filled] = 0
            records[fields.R_KEY_POSITION, filled] = at
            records[fields.R_KEY_SIZE, filled] = -1
            if separator.shape[0]:
                split = _find(data, at, line_end, separator)
                if split < line_end:
                    if not null.shape[0] or not _is(data, at, split, null): records[fields.R_KEY_SIZE, filled] = split - at
                    at = split + separator.shape[0]
            records[fields.R_VALUE_POSITION, filled] = at
            records[fields.R_VALUE_SIZE, filled] = line_end - at
            if null.shape[0] and _is(data, at, line_end, null): records[fields.R_VALUE_SIZE, filled] = -1
            filled += 1
            at = behind if behind < end else end
        return filled, at, tables.PARSED_END
