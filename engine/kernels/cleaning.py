# cython: language_level=3, boundscheck=False, wraparound=False
"""Checks of batches and records for the cleaner, and copying the retained records of a batch."""

import cython
from cython.cimports.engine.kernels import fields
from cython.cimports.engine.kernels.predicates import is_known, is_legacy, is_whole


@cython.ccall
@cython.exceptval(check=False)
def first_unsound(batches: cython.longlong[:, ::1], rows: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the first batch with a wrong checksum, an unknown message format or an unknown codec; `rows`: none."""
    row: cython.Py_ssize_t = 0
    if rows > batches.shape[1]: return 0
    while row < rows:
        if not is_whole(batches, row) or not is_known(batches, row): return row
        row += 1
    return rows


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.longlong))
def copy_kept(records: cython.longlong[:, ::1], first: cython.Py_ssize_t, end: cython.Py_ssize_t,
              keep: cython.const[cython.uchar][::1], out: cython.longlong[:, ::1]):
    """Copy the records of first … end − 1 whose keep[index − first] is not 0 → (number, largest timestamp).

    (−1, 0): `out` or `keep` is too small.
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
    """Return the last offset of the records first … end − 1; −1: a record that no producer or broker writes.

    Every record must have a key and an offset within its batch, and offsets must increase, starting above `last`.
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
