# cython: language_level=3, boundscheck=False, wraparound=False
"""What either pass of a cleaner does with the batches of a window, once it is known which belong to aborted transactions and
which markers nothing needs: who is read, who is passed over, who stays or goes as a whole. Mirrors Cleaner.
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
def pass_over(batches: cython.longlong[:, ::1], rows: cython.Py_ssize_t, goes: cython.const[cython.uchar][::1],
              by_row: cython.longlong[::1]) -> cython.bint:
    """For the first pass: control batches and aborted data are not read, and count as Kafka counts them.

    goes    see transactions.decide_rows
    by_row  out, one more than rows: how many records of the batches before each were passed over
    False: arguments that do not fit each other.
    """
    row: cython.Py_ssize_t
    passed: cython.longlong = 0
    if rows < 0 or rows > batches.shape[1] or rows > goes.shape[0] or rows >= by_row.shape[0]: return False
    for row in range(rows):
        by_row[row] = passed
        if is_legacy(batches, row) or not is_transactional_or_control(batches, row): continue
        if is_control(batches, row):
            passed += 1  # each, also if empty
        elif goes[row]:
            passed += batches[fields.B_COUNT, row]
        else:
            continue
        batches[fields.B_BODY, row] = fields.LEFT_OUT
    by_row[rows] = passed
    return True


@cython.ccall
@cython.exceptval(check=False)
def judge_transactions(batches: cython.longlong[:, ::1], rows: cython.Py_ssize_t,
                       goes: cython.const[cython.uchar][::1], now: cython.longlong, verdicts: cython.uchar[::1],
                       counts: cython.longlong[:, ::1]) -> cython.bint:
    """For the second pass: what becomes of transactional and control batches as a whole. Others keep their verdict.

    goes    see transactions.decide_rows        now  ms: a marker that nothing needs goes when its delete horizon is reached
    counts  by batch, see tables.Count: such a marker without a horizon has a TOMBSTONES of 1, for it needs one
    False: arguments that do not fit each other.
    """
    row: cython.Py_ssize_t
    if rows < 0 or rows > batches.shape[1] or rows > goes.shape[0] or rows > verdicts.shape[0]: return False
    if counts.shape[0] < tables.COUNTS or rows > counts.shape[1]: return False
    for row in range(rows):
        if is_legacy(batches, row) or not is_transactional_or_control(batches, row): continue
        if not is_control(batches, row):
            if goes[row]: verdicts[row] = tables.KEEP_NONE
            continue
        verdicts[row] = tables.KEEP_ALL
        if not goes[row]: continue
        if not has_delete_horizon(batches, row): counts[tables.C_TOMBSTONES, row] = 1
        elif batches[fields.B_BASE_TIMESTAMP, row] <= now: verdicts[row] = tables.KEEP_NONE
    return True


@cython.ccall
@cython.exceptval(check=False)
def leave_out(batches: cython.longlong[:, ::1], rows: cython.Py_ssize_t, verdicts: cython.const[cython.uchar][::1],
              counts: cython.longlong[:, ::1]) -> cython.Py_ssize_t:
    """Settle the counts of batches whose records need not be read for their verdict → how many batches are left to read.

    −1: arguments that do not fit each other.
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
    """The batches that stay, as headers, though they have no records left.

    ids, offsets, epochs  of active producers, in order of their ids: last data offset (−1: none is known) and epoch
    round_end             last offset of the round: the batch that ends with it stays
    """

    def __init__(self, ids: cython.const[cython.longlong][::1], offsets: cython.const[cython.longlong][::1],
                  epochs: cython.const[cython.short][::1], round_end: cython.longlong):
        self.ids, self.offsets, self.epochs, self.round_end = ids, offsets, epochs, round_end


def kind_of(batches, counts, row, last_records):  # typed in verdicts.pxd, so that others call it as C
    """What becomes of a batch whose records are counted: DROP, COPY, REWRITE or EMPTY.

    counts  see tables.Count
    REWRITE is one that loses some records or needs a delete horizon.
    """
    kept: cython.longlong = counts[tables.C_KEPT, row]
    if kept == 0: return tables.EMPTY if is_precious(batches, row, last_records) else tables.DROP
    if is_legacy(batches, row) or kept < counts[tables.C_READ, row]: return tables.REWRITE
    if counts[tables.C_TOMBSTONES, row] and not has_delete_horizon(batches, row): return tables.REWRITE
    return tables.COPY


@cython.ccall
@cython.exceptval(check=False)
def stays_empty(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_records: LastRecords) -> cython.bint:
    """Does a batch stay, as a header, though it has no records left? Mirrors Cleaner.checkBatchRetention."""
    if row < 0 or row >= batches.shape[1]: return False
    return is_precious(batches, row, last_records)


def is_precious(batches, row, last_records):  # typed in verdicts.pxd
    """The same, of a batch that is there."""
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
def count_gone(batches: cython.longlong[:, ::1], rows: cython.Py_ssize_t, verdicts: cython.const[cython.uchar][::1],
               last_records: LastRecords) -> cython.longlong:
    """Records of batches of which nothing stays, by their verdict; −1: there are no such rows. See `stays_empty`."""
    row: cython.Py_ssize_t
    count: cython.longlong = 0
    if rows < 0 or rows > batches.shape[1] or rows > verdicts.shape[0]: return -1
    for row in range(rows):
        if verdicts[row] == tables.KEEP_NONE and not is_precious(batches, row, last_records):
            count += batches[fields.B_COUNT, row]
    return count


@cython.ccall
@cython.exceptval(check=False)
def total(counts: cython.longlong[:, ::1], field: cython.Py_ssize_t, rows: cython.Py_ssize_t) -> cython.longlong:
    """The sum of one of the counts over the first `rows` batches; −1: there are no such."""
    row: cython.Py_ssize_t
    found: cython.longlong = 0
    if field < 0 or field >= counts.shape[0] or rows < 0 or rows > counts.shape[1]: return -1
    for row in range(rows):
        found += counts[field, row]
    return found
