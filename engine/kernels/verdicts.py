# cython: language_level=3, boundscheck=False, wraparound=False
"""Decide which batches of a window both passes of a cleaner read, skip, keep or delete, after `transactions` has found aborted
data and markers that are no longer needed. Mirrors Cleaner.
"""

import cython
from cython.cimports.engine.kernels import fields, tables
from cython.cimports.engine.kernels.predicates import (
    has_delete_horizon,
    has_producer,
    is_control,
    is_legacy,
    is_transactional_or_control,
)


@cython.ccall
@cython.exceptval(check=False)
def skip_removable(batches: cython.longlong[:, ::1], rows: cython.Py_ssize_t, removable: cython.const[cython.uchar][::1],
                   by_row: cython.longlong[::1]) -> cython.bint:
    """Skip control batches and aborted data in the first pass, and count them as Kafka does.

    removable    see transactions.decide_rows
    by_row  out, one more than rows: number of skipped records before each batch
    False: bad arguments.
    """
    row: cython.Py_ssize_t
    passed: cython.longlong = 0
    if rows < 0 or rows > batches.shape[1] or rows > removable.shape[0] or rows >= by_row.shape[0]: return False
    for row in range(rows):
        by_row[row] = passed
        if is_legacy(batches, row) or not is_transactional_or_control(batches, row): continue
        if is_control(batches, row):
            passed += 1  # one for each, even if it is empty
        elif removable[row]:
            passed += batches[fields.B_COUNT, row]
        else:
            continue
        batches[fields.B_BODY, row] = fields.LEFT_OUT
    by_row[rows] = passed
    return True


@cython.ccall
@cython.exceptval(check=False)
def judge_transactions(batches: cython.longlong[:, ::1], rows: cython.Py_ssize_t,
                       removable: cython.const[cython.uchar][::1], now: cython.longlong, verdicts: cython.uchar[::1],
                       counts: cython.longlong[:, ::1]) -> cython.bint:
    """Set the verdicts of transactional and control batches for the second pass. Other verdicts stay unchanged.

    removable    see transactions.decide_rows        now  ms: an unneeded marker is deleted if its delete horizon is reached
    counts  by batch, see tables.Count: TOMBSTONES is set to 1 for an unneeded marker that must get a delete horizon
    False: bad arguments.
    """
    row: cython.Py_ssize_t
    if rows < 0 or rows > batches.shape[1] or rows > removable.shape[0] or rows > verdicts.shape[0]: return False
    if counts.shape[0] < tables.COUNTS or rows > counts.shape[1]: return False
    for row in range(rows):
        if is_legacy(batches, row) or not is_transactional_or_control(batches, row): continue
        if not is_control(batches, row):
            if removable[row]: verdicts[row] = tables.KEEP_NONE
            continue
        verdicts[row] = tables.KEEP_ALL
        if not removable[row]: continue
        if not has_delete_horizon(batches, row): counts[tables.C_TOMBSTONES, row] = 1
        elif batches[fields.B_BASE_TIMESTAMP, row] <= now: verdicts[row] = tables.KEEP_NONE
    return True


@cython.ccall
@cython.exceptval(check=False)
def skip_decided(batches: cython.longlong[:, ::1], rows: cython.Py_ssize_t, verdicts: cython.const[cython.uchar][::1],
                 counts: cython.longlong[:, ::1]) -> cython.Py_ssize_t:
    """Skip batches whose verdict does not need their records, and set their counts → number of batches left to read.

    −1: bad arguments.
    """
    row: cython.Py_ssize_t
    left: cython.Py_ssize_t = 0
    if rows < 0 or rows > batches.shape[1] or rows > verdicts.shape[0]: return -1
    if counts.shape[0] < tables.COUNTS or rows > counts.shape[1]: return -1
    for row in range(rows):
        if is_legacy(batches, row) or verdicts[row] == tables.ASK or verdicts[row] == tables.ASK_SURVIVORS:
            left += 1
            continue
        if verdicts[row] == tables.KEEP_ALL and counts[tables.C_TOMBSTONES, row] != 0:
            left += 1
            continue
        counts[tables.C_READ, row] = batches[fields.B_COUNT, row]
        if verdicts[row] == tables.KEEP_ALL:
            counts[tables.C_KEPT, row] = batches[fields.B_COUNT, row]
        batches[fields.B_BODY, row] = fields.LEFT_OUT
    return left


@cython.final
@cython.cclass
class LastRecords:  # declared in verdicts.pxd
    """Which batches keep their header although they have no records left.

    ids, offsets, epochs  of active producers, in order of their ids: last data offset (−1: unknown) and epoch
    round_end             last offset of the round: the header of the batch that ends there is kept
    """

    def __init__(self, ids: cython.const[cython.longlong][::1], offsets: cython.const[cython.longlong][::1],
                  epochs: cython.const[cython.short][::1], round_end: cython.longlong):
        self.ids, self.offsets, self.epochs, self.round_end = ids, offsets, epochs, round_end


def kind_of(batches, counts, row, last_records):  # typed in verdicts.pxd, so that others call it as C
    """Return DROP, COPY, REWRITE or EMPTY for a batch with counted records.

    counts  see tables.Count
    REWRITE: it loses some records, or needs a delete horizon.
    """
    kept: cython.longlong = counts[tables.C_KEPT, row]
    if kept == 0: return tables.EMPTY if keeps_header(batches, row, last_records) else tables.DROP
    if is_legacy(batches, row) or kept < counts[tables.C_READ, row]: return tables.REWRITE
    if counts[tables.C_TOMBSTONES, row] and not has_delete_horizon(batches, row): return tables.REWRITE
    return tables.COPY


@cython.ccall
@cython.exceptval(check=False)
def stays_empty(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_records: LastRecords) -> cython.bint:
    """Does a batch keep its header although it has no records left? Mirrors Cleaner.checkBatchRetention."""
    if row < 0 or row >= batches.shape[1]: return False
    return keeps_header(batches, row, last_records)


def keeps_header(batches, row, last_records):  # typed in verdicts.pxd
    """Do the work of `stays_empty` for a batch that exists."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = min(last_records.ids.shape[0], last_records.offsets.shape[0], last_records.epochs.shape[0])
    end: cython.Py_ssize_t = high
    middle: cython.Py_ssize_t
    wanted: cython.longlong = batches[fields.B_PRODUCER_ID, row]
    if batches[fields.B_LAST_OFFSET, row] == last_records.round_end: return True
    if not has_producer(batches, row): return False
    while low < high:
        middle = low + (high - low) // 2
        if last_records.ids[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    if low == end or last_records.ids[low] != wanted: return False
    if last_records.offsets[low] >= 0: return last_records.offsets[low] == batches[fields.B_LAST_OFFSET, row]
    return is_control(batches, row) and last_records.epochs[low] == batches[fields.B_PRODUCER_EPOCH, row]


@cython.ccall
@cython.exceptval(check=False)
def count_deleted(batches: cython.longlong[:, ::1], rows: cython.Py_ssize_t, verdicts: cython.const[cython.uchar][::1],
                  last_records: LastRecords) -> cython.longlong:
    """Return the number of records of batches that are deleted with their headers, by their verdicts; −1: bad arguments."""
    row: cython.Py_ssize_t
    count: cython.longlong = 0
    if rows < 0 or rows > batches.shape[1] or rows > verdicts.shape[0]: return -1
    for row in range(rows):
        if verdicts[row] == tables.KEEP_NONE and not keeps_header(batches, row, last_records):
            count += batches[fields.B_COUNT, row]
    return count


@cython.ccall
@cython.exceptval(check=False)
def total(counts: cython.longlong[:, ::1], field: cython.Py_ssize_t, rows: cython.Py_ssize_t) -> cython.longlong:
    """Return the sum of one of the counts over the first `rows` batches; −1: bad arguments."""
    row: cython.Py_ssize_t
    found: cython.longlong = 0
    if field < 0 or field >= counts.shape[0] or rows < 0 or rows > counts.shape[1]: return -1
    for row in range(rows):
        found += counts[field, row]
    return found
