# cython: language_level=3, boundscheck=False, wraparound=False
"""Hold index entries against the batches of their log, side by side in one walk; find the batches that decide.

An index is compared as bytes. What a broker of today would have written costs nothing; every other entry becomes a
column of a table, which says what the log holds at that place.
"""

import cython

from engine.formats import (
    CODEC_MASK,
    CONTROL_FLAG,
    OFFSET_INDEX_ENTRY,
    TIME_INDEX_ENTRY,
    TRANSACTIONAL_FLAG,
    BatchField,
    Status,
)

if cython.compiled:
    from cython.cimports.engine.kernels.numbers import i32, i64
else:
    from engine.kernels.numbers import i32, i64

# fields of the state of a check, which goes on from window to window; see `start_state`
NEXT, BEFORE, LARGEST, PENDING, DECIDED = range(5)
STATE_FIELDS = 5
# fields of the table of doubtful entries, and of what the log holds where they point
ENTRY, IS_BATCH, PREVIOUS, FIRST, LAST, BEHIND, MEETS_END, OLD_FORMAT = range(8)  # of an offset index
STAMP, STAMP_BEFORE = 5, 6  # of a time index, whose other fields are the same
DOUBTFUL_FIELDS = 8

_STATE_FIELDS = cython.declare(cython.Py_ssize_t, STATE_FIELDS)
_DOUBTFUL_FIELDS = cython.declare(cython.Py_ssize_t, DOUBTFUL_FIELDS)
_NEXT = cython.declare(cython.int, NEXT)
_BEFORE = cython.declare(cython.int, BEFORE)
_LARGEST = cython.declare(cython.int, LARGEST)
_PENDING = cython.declare(cython.int, PENDING)
_DECIDED = cython.declare(cython.int, DECIDED)
_ENTRY = cython.declare(cython.int, ENTRY)
_IS_BATCH = cython.declare(cython.int, IS_BATCH)
_PREVIOUS = cython.declare(cython.int, PREVIOUS)
_FIRST = cython.declare(cython.int, FIRST)
_LAST = cython.declare(cython.int, LAST)
_BEHIND = cython.declare(cython.int, BEHIND)
_MEETS_END = cython.declare(cython.int, MEETS_END)
_OLD_FORMAT = cython.declare(cython.int, OLD_FORMAT)
_STAMP = cython.declare(cython.int, STAMP)
_STAMP_BEFORE = cython.declare(cython.int, STAMP_BEFORE)

_POSITION = cython.declare(cython.int, BatchField.POSITION)
_MAGIC = cython.declare(cython.int, BatchField.MAGIC)
_ATTRIBUTES = cython.declare(cython.int, BatchField.ATTRIBUTES)
_BASE_OFFSET = cython.declare(cython.int, BatchField.BASE_OFFSET)
_LAST_OFFSET = cython.declare(cython.int, BatchField.LAST_OFFSET)
_COUNT = cython.declare(cython.int, BatchField.COUNT)
_MAX_TIMESTAMP = cython.declare(cython.int, BatchField.MAX_TIMESTAMP)
_PRODUCER_ID = cython.declare(cython.int, BatchField.PRODUCER_ID)
_PRODUCER_EPOCH = cython.declare(cython.int, BatchField.PRODUCER_EPOCH)
_LEADER_EPOCH = cython.declare(cython.int, BatchField.LEADER_EPOCH)

_CODEC = cython.declare(cython.longlong, CODEC_MASK)
_OF_A_TRANSACTION = cython.declare(cython.longlong, TRANSACTIONAL_FLAG | CONTROL_FLAG)

_OFFSET_ENTRY = cython.declare(cython.Py_ssize_t, OFFSET_INDEX_ENTRY.size)
_ENTRY_POSITION_AT = cython.declare(cython.Py_ssize_t, OFFSET_INDEX_ENTRY.positions["position"])
_TIME_ENTRY = cython.declare(cython.Py_ssize_t, TIME_INDEX_ENTRY.size)
_ENTRY_OFFSET_AT = cython.declare(cython.Py_ssize_t, TIME_INDEX_ENTRY.positions["relative_offset"])

_END = cython.declare(cython.int, Status.END)
_FULL = cython.declare(cython.int, Status.FULL)
_BAD_START = cython.declare(cython.int, Status.BAD_START)


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def check_offset_entries(entries: cython.const[cython.uchar][::1], base_offset: cython.longlong,
                         batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t,
                         base: cython.longlong, state: cython.longlong[::1], doubtful: cython.longlong[:, ::1],
                         used: cython.Py_ssize_t):
    """Compare an offset index with batches row … last_row − 1 → (row reached, columns of `doubtful` used, status).

    entries      whole entries of the index, positions in growing order      base_offset  of the segment, below 2^62
    batches      of a window that begins at byte `base` of the log
    state        NEXT entry · BEFORE: last offset of the batch before · PENDING: column that is still being filled, or −1 ·
                 DECIDED: first entry that can only be a last offset; goes on with the next window
    doubtful     out, one column per entry that is not the last offset of the batch at its position: ENTRY number ·
                 IS_BATCH: does a batch begin there · PREVIOUS: last offset of the batch before · FIRST, LAST of the batch ·
                 BEHIND: last offset in front of the next entry's batch · MEETS_END: is it the last offset of a batch up to
                 there · OLD_FORMAT: compressed, format 0 or 1, so that FIRST is not known
    status       END: all rows are done · FULL: empty `doubtful`, put −1 into PENDING, call again · BAD_START
    """
    count: cython.Py_ssize_t = entries.shape[0] // _OFFSET_ENTRY
    capacity: cython.Py_ssize_t = doubtful.shape[1]
    entry: cython.Py_ssize_t
    pending: cython.Py_ssize_t
    position: cython.longlong
    at: cython.longlong
    first: cython.longlong
    last: cython.longlong
    offset: cython.longlong
    if row < 0 or last_row > batches.shape[1] or state.shape[0] < _STATE_FIELDS or used < 0: return row, used, _BAD_START
    if state[_NEXT] < 0 or state[_PENDING] >= capacity or doubtful.shape[0] < _DOUBTFUL_FIELDS: return row, used, _BAD_START
    if state[_PENDING] >= 0 and not 0 <= doubtful[_ENTRY, state[_PENDING]] < count: return row, used, _BAD_START
    with cython.nogil:
        entry = state[_NEXT]
        pending = state[_PENDING]
        while row < last_row:
            position = base + batches[_POSITION, row]
            first = batches[_BASE_OFFSET, row]
            last = batches[_LAST_OFFSET, row]
            if pending >= 0:
                offset = base_offset + i32(entries, doubtful[_ENTRY, pending] * _OFFSET_ENTRY)
                if entry < count and i32(entries, entry * _OFFSET_ENTRY + _ENTRY_POSITION_AT) <= position:
                    pending = -1
                else:
                    doubtful[_BEHIND, pending] = last
                    if last == offset: doubtful[_MEETS_END, pending] = 1
            while entry < count:
                at = i32(entries, entry * _OFFSET_ENTRY + _ENTRY_POSITION_AT)
                if at > position: break
                offset = base_offset + i32(entries, entry * _OFFSET_ENTRY)
                if at == position and offset == last:
                    if first != last and state[_DECIDED] < 0: state[_DECIDED] = entry
                    pending = -1
                elif used == capacity:
                    state[_NEXT] = entry
                    state[_PENDING] = pending
                    return row, used, _FULL
                else:
                    doubtful[_ENTRY, used] = entry
                    doubtful[_IS_BATCH, used] = at == position
                    doubtful[_PREVIOUS, used] = state[_BEFORE]
                    doubtful[_FIRST, used] = first
                    doubtful[_LAST, used] = last
                    doubtful[_BEHIND, used] = last
                    doubtful[_MEETS_END, used] = 0
                    doubtful[_OLD_FORMAT, used] = batches[_MAGIC, row] < 2 and batches[_ATTRIBUTES, row] & _CODEC != 0
                    pending = used if at == position else -1
                    used += 1
                entry += 1
            state[_BEFORE] = last
            row += 1
        state[_NEXT] = entry
        state[_PENDING] = pending
        return row, used, _END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def check_time_entries(entries: cython.const[cython.uchar][::1], base_offset: cython.longlong,
                       batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t,
                       state: cython.longlong[::1], doubtful: cython.longlong[:, ::1], used: cython.Py_ssize_t):
    """Compare a time index with batches row … last_row − 1 → (row reached, columns of `doubtful` used, status).

    entries      whole entries of the index, offsets in growing order        base_offset  of the segment, below 2^62
    state        NEXT entry · BEFORE: last offset of the batch before · LARGEST timestamp up to there
    doubtful     out, one column per entry that does not name the last offset and the timestamp of a batch that is later
                 than all before it: ENTRY · PREVIOUS · FIRST, LAST of the first batch that ends at its offset or behind ·
                 STAMP: that batch's largest timestamp · STAMP_BEFORE: the largest before it
    status       END: all rows are done · FULL: empty `doubtful`, call again · BAD_START
    """
    count: cython.Py_ssize_t = entries.shape[0] // _TIME_ENTRY
    capacity: cython.Py_ssize_t = doubtful.shape[1]
    entry: cython.Py_ssize_t
    last: cython.longlong
    stamp: cython.longlong
    offset: cython.longlong
    if row < 0 or last_row > batches.shape[1] or state.shape[0] < _STATE_FIELDS or used < 0: return row, used, _BAD_START
    if state[_NEXT] < 0 or doubtful.shape[0] < _DOUBTFUL_FIELDS: return row, used, _BAD_START
    with cython.nogil:
        entry = state[_NEXT]
        while row < last_row:
            last = batches[_LAST_OFFSET, row]
            stamp = batches[_MAX_TIMESTAMP, row]
            while entry < count:
                offset = base_offset + i32(entries, entry * _TIME_ENTRY + _ENTRY_OFFSET_AT)
                if offset > last: break
                if offset != last or stamp <= state[_LARGEST] or i64(entries, entry * _TIME_ENTRY) != stamp:
                    if used == capacity:
                        state[_NEXT] = entry
                        return row, used, _FULL
                    doubtful[_ENTRY, used] = entry
                    doubtful[_IS_BATCH, used] = 1
                    doubtful[_PREVIOUS, used] = state[_BEFORE]
                    doubtful[_FIRST, used] = batches[_BASE_OFFSET, row]
                    if batches[_MAGIC, row] < 2 and batches[_ATTRIBUTES, row] & _CODEC != 0 and state[_BEFORE] < last:
                        doubtful[_FIRST, used] = state[_BEFORE] + 1
                    doubtful[_LAST, used] = last
                    doubtful[_STAMP, used] = stamp
                    doubtful[_STAMP_BEFORE, used] = state[_LARGEST]
                    doubtful[_OLD_FORMAT, used] = batches[_MAGIC, row] == 0
                    used += 1
                entry += 1
            if stamp > state[_LARGEST]: state[_LARGEST] = stamp
            state[_BEFORE] = last
            row += 1
        state[_NEXT] = entry
        return row, used, _END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def next_turn(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t,
              epoch: cython.longlong, before: cython.longlong):
    """First batch from `row` on with another leader epoch, or that begins at or below the end of the one before it;
    `last_row`: none.

    epoch, before   leader epoch and last offset of the batch before `row`
    """
    if row < 0 or last_row > batches.shape[1]: return last_row
    with cython.nogil:
        while row < last_row:
            if batches[_LEADER_EPOCH, row] != epoch or batches[_BASE_OFFSET, row] <= before: return row
            before = batches[_LAST_OFFSET, row]
            row += 1
        return row


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def next_hole(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t,
              before: cython.longlong):
    """First batch from `row` on that lacks offsets, inside or in front of itself; `last_row`: none.

    before  last offset of the batch before `row`
    What a compressed set of format 0 or 1 lacks is not seen.
    """
    if row < 0 or last_row > batches.shape[1]: return last_row
    with cython.nogil:
        while row < last_row:
            if batches[_MAGIC, row] >= 2:
                if batches[_BASE_OFFSET, row] > before and batches[_BASE_OFFSET, row] != before + 1: return row
                if batches[_LAST_OFFSET, row] < batches[_BASE_OFFSET, row]: return row
                if batches[_LAST_OFFSET, row] - batches[_BASE_OFFSET, row] >= batches[_COUNT, row]: return row
            elif batches[_ATTRIBUTES, row] & _CODEC == 0 and batches[_BASE_OFFSET, row] > before:
                if batches[_BASE_OFFSET, row] != before + 1: return row
            before = batches[_LAST_OFFSET, row]
            row += 1
        return row


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def first_from(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t,
               offset: cython.longlong):
    """First batch from `row` on that begins at `offset` or behind it; `last_row`: none."""
    if row < 0 or last_row > batches.shape[1]: return last_row
    with cython.nogil:
        while row < last_row and batches[_BASE_OFFSET, row] < offset:
            row += 1
        return row


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def next_for_producer_state(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t):
    """First batch from `row` on that a producer's state needs; `last_row`: none.

    Every transactional and control batch of a producer, and of plain ones in a row of one producer and epoch the last.
    """
    if row < 0 or last_row > batches.shape[1]: return last_row
    with cython.nogil:
        while row < last_row:
            if batches[_PRODUCER_ID, row] >= 0:
                if batches[_ATTRIBUTES, row] & _OF_A_TRANSACTION != 0 or row + 1 == last_row: return row
                if batches[_PRODUCER_ID, row + 1] != batches[_PRODUCER_ID, row]: return row
                if batches[_PRODUCER_EPOCH, row + 1] != batches[_PRODUCER_EPOCH, row]: return row
                if batches[_ATTRIBUTES, row + 1] & _OF_A_TRANSACTION != 0: return row
            row += 1
        return row
