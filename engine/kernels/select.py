# cython: language_level=3, boundscheck=False, wraparound=False
"""Searches in columns: gaps between offsets, selected records, runs of similar batches, batches that need a check."""

import cython
from cython.cimports.engine.kernels import fields
from cython.cimports.engine.kernels.bounds import batches_exist
from cython.cimports.engine.kernels.predicates import (
    has_delete_horizon,
    is_compressed,
    is_control,
    is_damaged,
    is_known,
    is_legacy,
    is_transactional,
)

ANY = -fields.LONG_MAX - 1  # for producer_id and leader_epoch: any value
_ANY = cython.declare(cython.longlong, ANY)


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def next_gap(records: cython.longlong[:, ::1], start: cython.Py_ssize_t, count: cython.Py_ssize_t,
             previous: cython.longlong):
    """Return the first record from row `start` on whose offset is not the previous offset + 1; `count`: none.

    previous  the offset before row `start`
    """
    index: cython.Py_ssize_t = start
    if start < 0 or count > records.shape[1]: return count
    with cython.nogil:
        while index < count:
            if previous == fields.LONG_MAX or records[fields.R_OFFSET, index] != previous + 1: return index
            previous = records[fields.R_OFFSET, index]
            index += 1
        return count


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.longlong, cython.bint))
def next_break(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t,
               claimed: cython.longlong, known: cython.bint, compacted: cython.bint):
    """Find the first batch from `row` on that does not follow the previous one, by headers only → (row, claimed, known).

    claimed    in and out: last offset of the batch before the row
    known      in and out: is there such an offset? If not, the next batch starts a new sequence
    compacted  gaps are allowed, only decreasing offsets are not
    `last_row`: none. Otherwise the batch has a wrong checksum, begins at or below `claimed`, or ends before it begins;
    or, if not `compacted`, there is a gap after `claimed`, or it has a count or a delete horizon that only compaction
    writes. A compressed wrapper of format 0 or 1 has no base offset: only its last offset must increase.
    """
    base: cython.longlong
    last: cython.longlong
    if row < 0 or last_row > batches.shape[1]: return last_row, claimed, known
    with cython.nogil:
        while row < last_row:
            if is_damaged(batches, row): return row, claimed, known
            base = batches[fields.B_BASE_OFFSET, row]
            last = batches[fields.B_LAST_OFFSET, row]
            if known and base <= claimed: return row, claimed, known
            if not is_legacy(batches, row):
                if last < base or (base < 0 and last > base + fields.INT_MAX): return row, claimed, known
                if not compacted:
                    if known and base != claimed + 1: return row, claimed, known
                    if batches[fields.B_COUNT, row] - 1 != last - base: return row, claimed, known
                    if has_delete_horizon(batches, row): return row, claimed, known
            elif not compacted and known and base != claimed + 1 and not is_compressed(batches, row):
                return row, claimed, known
            claimed, known = last, True
            row += 1
        return row, claimed, known


@cython.final
@cython.cclass
class Conditions:
    """Conditions for records.

    first_offset, last_offset  first_offset <= offset <= last_offset
    from_ms, last_ms           from_ms <= timestamp <= last_ms
    producer_id, leader_epoch  of the record's batch; ANY: any value
    transactional              only records of transactional batches
    """

    first_offset: cython.longlong
    last_offset: cython.longlong
    from_ms: cython.longlong
    last_ms: cython.longlong
    producer_id: cython.longlong
    leader_epoch: cython.longlong
    transactional: cython.bint

    def __init__(self, offsets: tuple, times: tuple, producer_id: cython.longlong, leader_epoch: cython.longlong,
                  transactional: cython.bint):
        self.first_offset, self.last_offset = offsets
        self.from_ms, self.last_ms = times
        self.producer_id, self.leader_epoch, self.transactional = producer_id, leader_epoch, transactional


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def mask_records(records: cython.longlong[:, ::1], count: cython.Py_ssize_t, batches: cython.longlong[:, ::1],
                 wanted: Conditions, keep: cython.uchar[::1]):
    """Set `keep` to 1 for each of `count` records that meets the conditions, else to 0 → their number; −1: bad columns."""
    first_offset: cython.longlong = wanted.first_offset
    last_offset: cython.longlong = wanted.last_offset
    from_ms: cython.longlong = wanted.from_ms
    last_ms: cython.longlong = wanted.last_ms
    producer_id: cython.longlong = wanted.producer_id
    leader_epoch: cython.longlong = wanted.leader_epoch
    transactional: cython.bint = wanted.transactional
    index: cython.Py_ssize_t
    row: cython.Py_ssize_t
    fits: cython.bint
    kept: cython.Py_ssize_t = 0
    if count < 0 or count > records.shape[1] or count > keep.shape[0]: return -1
    if not batches_exist(records, 0, count, batches.shape[1]): return -1
    with cython.nogil:
        for index in range(count):
            row = records[fields.R_BATCH, index]
            fits = first_offset <= records[fields.R_OFFSET, index] and from_ms <= records[fields.R_TIMESTAMP, index]
            fits = fits and records[fields.R_OFFSET, index] <= last_offset and records[fields.R_TIMESTAMP, index] <= last_ms
            fits = fits and (producer_id == _ANY or batches[fields.B_PRODUCER_ID, row] == producer_id)
            fits = fits and (leader_epoch == _ANY or batches[fields.B_LEADER_EPOCH, row] == leader_epoch)
            fits = fits and (not transactional or is_transactional(batches, row))
            keep[index] = fits
            kept += fits
        return kept


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def pack_records(records: cython.longlong[:, ::1], count: cython.Py_ssize_t, keep: cython.const[cython.uchar][::1]):
    """Move the records whose `keep` is not 0 to the front, in order → their number; −1: `keep` is too small."""
    index: cython.Py_ssize_t
    field: cython.Py_ssize_t
    kept: cython.Py_ssize_t = 0
    if count < 0 or count > records.shape[1] or count > keep.shape[0]: return -1
    with cython.nogil:
        for index in range(count):
            if keep[index]:
                if kept != index:
                    for field in range(fields.R_FIELDS):
                        records[field, kept] = records[field, index]
                kept += 1
        return kept


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def run_end(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t):
    """Return the end of the run of batches like `row`: same kind of format (below 2 or not), compression and control flag.

    last_row  the largest result
    Batches of format 2 with BODY LEFT_OUT never end a run of format 2; `row` itself is not such a batch.
    """
    end: cython.Py_ssize_t = row + 1
    legacy: cython.bint
    compressed: cython.bint
    control: cython.bint
    if row < 0 or last_row > batches.shape[1] or row >= last_row: return last_row
    legacy = is_legacy(batches, row)
    compressed = is_compressed(batches, row)
    control = is_control(batches, row)
    with cython.nogil:
        while end < last_row:
            if not legacy and not is_legacy(batches, end) and batches[fields.B_BODY, end] == fields.LEFT_OUT:
                end += 1
                continue
            if is_legacy(batches, end) != legacy or is_compressed(batches, end) != compressed: return end
            if is_control(batches, end) != control: return end
            end += 1
        return end


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def next_unsound(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t):
    """Return the first batch from `row` on with a wrong checksum, a magic outside 0–2 or an unknown codec; `last_row`: none."""
    if row < 0 or last_row > batches.shape[1]: return last_row
    with cython.nogil:
        while row < last_row:
            if is_damaged(batches, row) or not is_known(batches, row): return row
            row += 1
        return row


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def next_cleaned(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t):
    """Return the first batch of format 2 from `row` on that shows signs of compaction, `last_row`: none.

    It has a right checksum, and more offsets than records or a delete horizon.
    """
    base: cython.longlong
    last: cython.longlong
    count: cython.longlong
    if row < 0 or last_row > batches.shape[1]: return last_row
    with cython.nogil:
        while row < last_row:
            if not is_legacy(batches, row) and not is_damaged(batches, row):
                if has_delete_horizon(batches, row): return row
                base = batches[fields.B_BASE_OFFSET, row]
                last = batches[fields.B_LAST_OFFSET, row]
                count = batches[fields.B_COUNT, row]
                if 0 <= count and base <= last and (base >= 0 or last <= base + fields.INT_MAX):
                    if count <= last - base: return row
            row += 1
        return row


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def next_unchecked(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t):
    """Return the first batch from `row` on whose checksum the scan did not compute; `last_row`: none."""
    if row < 0 or last_row > batches.shape[1]: return last_row
    with cython.nogil:
        while row < last_row and batches[fields.B_VALID, row] >= 0:
            row += 1
        return row


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.longlong)
def largest_timestamp(records: cython.longlong[:, ::1], first: cython.Py_ssize_t, end: cython.Py_ssize_t):
    """Return the largest timestamp of records first … end − 1; −1 if none is larger."""
    largest: cython.longlong = -1
    if first < 0 or end > records.shape[1]: return -1
    with cython.nogil:
        while first < end:
            if records[fields.R_TIMESTAMP, first] > largest: largest = records[fields.R_TIMESTAMP, first]
            first += 1
        return largest


@cython.ccall
@cython.exceptval(check=False)
def largest_timestamps(records: cython.longlong[:, ::1], first: cython.Py_ssize_t, end: cython.Py_ssize_t,
                       largest: cython.longlong[::1]) -> cython.void:
    """Update largest[row] for each batch row with the timestamps of the records first … end − 1.

    Records outside the table, and rows outside `largest`, are skipped.
    """
    row: cython.longlong
    if first < 0 or end > records.shape[1]: return
    with cython.nogil:
        while first < end:
            row = records[fields.R_BATCH, first]
            if 0 <= row < largest.shape[0] and records[fields.R_TIMESTAMP, first] > largest[row]:
                largest[row] = records[fields.R_TIMESTAMP, first]
            first += 1
