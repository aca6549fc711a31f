# cython: language_level=3, boundscheck=False, wraparound=False
"""Batches and records as a cleaner takes them: sound ones, in order; and those of a batch that stay."""

import cython
from cython.cimports.engine.kernels import fields
from cython.cimports.engine.kernels.predicates import is_known, is_legacy, is_whole


@cython.ccall
@cython.exceptval(check=False)
def first_unsound(batches: cython.longlong[:, ::1], rows: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The first batch with a wrong checksum, an unknown message format or an unknown codec; `rows`: none."""
    row: cython.Py_ssize_t = 0
    if rows > batches.shape[1]: return 0
    while row < rows:
        if not is_whole(batches, row) or not is_known(batches, row): return row
        row += 1
    return rows


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.longlong))
def take_kept(records: cython.longlong[:, ::1], first: cython.Py_ssize_t, end: cython.Py_ssize_t,
              keep: cython.const[cython.uchar][::1], out: cython.longlong[:, ::1]):
    """Copy those of the records first … end − 1 for which keep[index − first] is not 0 → (how many, largest timestamp).

    (−1, 0) where they do not fit `out` or `keep`.
    """
    index: cython.Py_ssize_t
    field: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    largest: cython.longlong = -1
    if first < 0 or end > records.shape[1] or end - first > keep.shape[0]: return -1, 0
    if records.shape[0] < fields.R_FIELDS or out.shape[0] < fields.R_FIELDS: return -1, 0
    with cython.nogil:
        for index in range(first, end):
            if keep[index - first] == 0: continue
            if count == out.shape[1]: return -1, 0
            for field in range(fields.R_FIELDS):
                out[field, count] = records[field, index]
            if records[fields.R_TIMESTAMP, index] > largest: largest = records[fields.R_TIMESTAMP, index]
            count += 1
        return count, largest


@cython.ccall
@cython.exceptval(check=False)
def check_order(batches: cython.longlong[:, ::1], records: cython.longlong[:, ::1], first: cython.Py_ssize_t,
                end: cython.Py_ssize_t, last: cython.longlong) -> cython.longlong:
    """The last offset of the records first … end − 1; −1: they are not as producers and brokers write them.

    They are if every record has a key, lies in the range of offsets that its batch names, and offsets grow, from `last` on.
    """
    with cython.nogil:
        return last_in_order(batches, records, first, end, last)


def last_in_order(batches, records, first, end, last):  # typed in cleaning.pxd, so that other kernels call it as C
    """See `check_order`."""
    index: cython.Py_ssize_t
    row: cython.Py_ssize_t
    offset: cython.longlong
    if first < 0 or end > records.shape[1]: return -1
    for index in range(first, end):
        row = records[fields.R_BATCH, index]
        offset = records[fields.R_OFFSET, index]
        if row < 0 or row >= batches.shape[1] or offset <= last or records[fields.R_KEY_SIZE, index] < 0: return -1
        if offset > batches[fields.B_LAST_OFFSET, row]: return -1
        if not is_legacy(batches, row) and offset < batches[fields.B_BASE_OFFSET, row]: return -1
        last = offset
    return last
