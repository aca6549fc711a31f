# cython: language_level=3, boundscheck=False, wraparound=False
"""Decide over columns: gaps between offsets, and which records a selection keeps."""

import cython

from engine.formats import RECORD_FIELDS, BatchField, RecordField

_B_ATTRIBUTES = cython.declare(cython.int, BatchField.ATTRIBUTES)
_B_PRODUCER_ID = cython.declare(cython.int, BatchField.PRODUCER_ID)
_B_LEADER_EPOCH = cython.declare(cython.int, BatchField.LEADER_EPOCH)
_BATCH = cython.declare(cython.int, RecordField.BATCH)
_OFFSET = cython.declare(cython.int, RecordField.OFFSET)
_TIMESTAMP = cython.declare(cython.int, RecordField.TIMESTAMP)
_FIELDS = cython.declare(cython.Py_ssize_t, RECORD_FIELDS)

ANY = -(2**63)  # for producer_id and leader_epoch: every value will do
_ANY = cython.declare(cython.longlong, ANY)
_LARGEST = cython.declare(cython.longlong, 2**63 - 1)


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def next_gap(records: cython.longlong[:, ::1], start: cython.Py_ssize_t, count: cython.Py_ssize_t,
             previous: cython.longlong):
    """First record from column `start` on whose offset is not one more than the offset before; `count`: none.

    previous  the offset before column `start`
    """
    index: cython.Py_ssize_t = start
    if start < 0 or count > records.shape[1]: return count
    with cython.nogil:
        while index < count:
            if previous == _LARGEST or records[_OFFSET, index] != previous + 1: return index
            previous = records[_OFFSET, index]
            index += 1
        return count


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def mask_records(records: cython.longlong[:, ::1], count: cython.Py_ssize_t, batches: cython.longlong[:, ::1],
                 first_offset: cython.longlong, end_offset: cython.longlong, from_ms: cython.longlong,
                 to_ms: cython.longlong, producer_id: cython.longlong, leader_epoch: cython.longlong,
                 transactional: cython.bint, keep: cython.uchar[::1]):
    """Write 1 into `keep` for each of `count` records that fits, else 0 → how many fit.

    first_offset, end_offset   first_offset <= offset < end_offset
    from_ms, to_ms             from_ms <= timestamp < to_ms
    producer_id, leader_epoch  of the record's batch; ANY: whatever it is
    transactional              only records of transactional batches
    """
    index: cython.Py_ssize_t
    row: cython.Py_ssize_t
    fits: cython.bint
    kept: cython.Py_ssize_t = 0
    if count < 0 or count > records.shape[1] or count > keep.shape[0]: return 0
    with cython.nogil:
        for index in range(count):
            row = records[_BATCH, index]
            fits = first_offset <= records[_OFFSET, index] < end_offset
            fits = fits and from_ms <= records[_TIMESTAMP, index] < to_ms
            fits = fits and (producer_id == _ANY or batches[_B_PRODUCER_ID, row] == producer_id)
            fits = fits and (leader_epoch == _ANY or batches[_B_LEADER_EPOCH, row] == leader_epoch)
            fits = fits and (not transactional or batches[_B_ATTRIBUTES, row] & 16 != 0)
            keep[index] = fits
            kept += fits
        return kept


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def compact_records(records: cython.longlong[:, ::1], count: cython.Py_ssize_t, keep: cython.const[cython.uchar][::1]):
    """Move the records whose `keep` is not 0 to the front, in order → how many there are."""
    index: cython.Py_ssize_t
    field: cython.Py_ssize_t
    kept: cython.Py_ssize_t = 0
    if count < 0 or count > records.shape[1] or count > keep.shape[0]: return 0
    with cython.nogil:
        for index in range(count):
            if keep[index]:
                if kept != index:
                    for field in range(_FIELDS):
                        records[field, kept] = records[field, index]
                kept += 1
        return kept
