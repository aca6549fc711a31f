# cython: language_level=3, boundscheck=False, wraparound=False
"""Hold index entries against the batches of their log, side by side in one walk; find the batches that decide.

An index is compared as bytes. What a broker of today would have written costs nothing; every other entry becomes a row
of a table, which says what the log holds at that place (see tables.OffsetDoubt and TimeDoubt).
"""

import cython
from cython.cimports.engine.kernels import fields, tables
from cython.cimports.engine.kernels.numbers import i32, i64
from cython.cimports.engine.kernels.predicates import (
    has_producer,
    is_compressed,
    is_legacy,
    is_transactional_or_control,
)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _misfit(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t,
            state: cython.longlong[::1], doubtful: cython.longlong[:, ::1], used: cython.Py_ssize_t) -> cython.bint:
    """Do the arguments of a check not fit each other?"""
    if row < 0 or last_row > batches.shape[1] or used < 0: return True
    if state.shape[0] < tables.CHECK_FIELDS or doubtful.shape[0] < tables.DOUBT_FIELDS: return True
    return state[tables.CHECK_NEXT] < 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _position_of(entries: cython.const[cython.uchar][::1], entry: cython.Py_ssize_t) -> cython.longlong:
    """Where an entry of an offset index points to."""
    return i32(entries, entry * fields.OFFSET_ENTRY_SIZE + fields.OFFSET_ENTRY_POSITION_AT)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _doubt(doubtful: cython.longlong[:, ::1], at: cython.Py_ssize_t, entry: cython.longlong, previous: cython.longlong,
           first: cython.longlong, last: cython.longlong) -> cython.void:
    """Write what the tables of both indexes have in common."""
    doubtful[tables.DOUBT_ENTRY, at] = entry
    doubtful[tables.DOUBT_IS_BATCH, at] = 1
    doubtful[tables.DOUBT_PREVIOUS, at] = previous
    doubtful[tables.DOUBT_FIRST, at] = first
    doubtful[tables.DOUBT_LAST, at] = last


@cython.final
@cython.cclass
class Entries:
    """An index: whole entries in growing order of what they are compared by, and the base offset of the segment, below
    2^63 − 2^32."""

    data: cython.const[cython.uchar][::1]
    base_offset: cython.longlong

    def __init__(self, data: cython.const[cython.uchar][::1], base_offset: cython.longlong):
        self.data, self.base_offset = data, base_offset


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def check_offset_entries(index: Entries, batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t,
                         base: cython.longlong, state: cython.longlong[::1], doubtful: cython.longlong[:, ::1],
                         used: cython.Py_ssize_t):
    """Compare an offset index with batches row … last_row − 1 → (row reached, rows of `doubtful` used, status).

    index        its positions grow
    batches      of a window that begins at byte `base` of the log
    state        see tables.Check; goes on with the next window
    doubtful     out, see tables.OffsetDoubt: each entry that is not the last offset of the batch at its position
    status       END: all rows are done · FULL: empty `doubtful`, put −1 into PENDING, call again · BAD_START
    """
    entries: cython.const[cython.uchar][::1] = index.data
    base_offset: cython.longlong = index.base_offset
    count: cython.Py_ssize_t = entries.shape[0] // fields.OFFSET_ENTRY_SIZE
    capacity: cython.Py_ssize_t = doubtful.shape[1]
    entry: cython.Py_ssize_t
    pending: cython.Py_ssize_t
    position: cython.longlong
    at: cython.longlong
    first: cython.longlong
    last: cython.longlong
    offset: cython.longlong
    if _misfit(batches, row, last_row, state, doubtful, used): return row, used, fields.BAD_START
    pending = state[tables.CHECK_PENDING]
    if pending >= capacity: return row, used, fields.BAD_START
    if pending >= 0 and not 0 <= doubtful[tables.DOUBT_ENTRY, pending] < count: return row, used, fields.BAD_START
    with cython.nogil:
        entry = state[tables.CHECK_NEXT]
        while row < last_row:
            position = base + batches[fields.B_POSITION, row]
            first = batches[fields.B_BASE_OFFSET, row]
            last = batches[fields.B_LAST_OFFSET, row]
            if pending >= 0:
                offset = base_offset + i32(entries, doubtful[tables.DOUBT_ENTRY, pending] * fields.OFFSET_ENTRY_SIZE)
                if entry < count and _position_of(entries, entry) <= position:
                    pending = -1
                else:
                    doubtful[tables.DOUBT_BEHIND, pending] = last
                    if last == offset: doubtful[tables.DOUBT_MEETS_END, pending] = 1
            while entry < count:
                at = _position_of(entries, entry)
                if at > position: break
                offset = base_offset + i32(entries, entry * fields.OFFSET_ENTRY_SIZE)
                if at == position and offset == last:
                    if first != last and state[tables.CHECK_DECIDED] < 0: state[tables.CHECK_DECIDED] = entry
                    pending = -1
                elif used == capacity:
                    state[tables.CHECK_NEXT] = entry
                    state[tables.CHECK_PENDING] = pending
                    return row, used, fields.FULL
                else:
                    _doubt(doubtful, used, entry, state[tables.CHECK_BEFORE], first, last)
                    doubtful[tables.DOUBT_IS_BATCH, used] = at == position
                    doubtful[tables.DOUBT_BEHIND, used] = last
                    doubtful[tables.DOUBT_MEETS_END, used] = 0
                    doubtful[tables.DOUBT_OLD_FORMAT, used] = is_legacy(batches, row) and is_compressed(batches, row)
                    pending = used if at == position else -1
                    used += 1
                entry += 1
            state[tables.CHECK_BEFORE] = last
            row += 1
        state[tables.CHECK_NEXT] = entry
        state[tables.CHECK_PENDING] = pending
        return row, used, fields.END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def check_time_entries(index: Entries, batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t,
                       state: cython.longlong[::1], doubtful: cython.longlong[:, ::1], used: cython.Py_ssize_t):
    """Compare a time index with batches row … last_row − 1 → (row reached, rows of `doubtful` used, status).

    index        its offsets grow
    state        see tables.Check; goes on with the next window
    doubtful     out, see tables.TimeDoubt: each entry that does not name the last offset and the timestamp of a batch that is
                 later than all before it, with the first batch that ends at its offset or behind
    status       END: all rows are done · FULL: empty `doubtful`, call again · BAD_START
    """
    entries: cython.const[cython.uchar][::1] = index.data
    base_offset: cython.longlong = index.base_offset
    count: cython.Py_ssize_t = entries.shape[0] // fields.TIME_ENTRY_SIZE
    capacity: cython.Py_ssize_t = doubtful.shape[1]
    entry: cython.Py_ssize_t
    first: cython.longlong
    last: cython.longlong
    stamp: cython.longlong
    offset: cython.longlong
    if _misfit(batches, row, last_row, state, doubtful, used): return row, used, fields.BAD_START
    with cython.nogil:
        entry = state[tables.CHECK_NEXT]
        while row < last_row:
            last = batches[fields.B_LAST_OFFSET, row]
            stamp = batches[fields.B_MAX_TIMESTAMP, row]
            while entry < count:
                offset = base_offset + i32(entries, entry * fields.TIME_ENTRY_SIZE + fields.TIME_ENTRY_RELATIVE_OFFSET_AT)
                if offset > last: break
                if (offset != last or stamp <= state[tables.CHECK_LARGEST]
                        or i64(entries, entry * fields.TIME_ENTRY_SIZE) != stamp):
                    if used == capacity:
                        state[tables.CHECK_NEXT] = entry
                        return row, used, fields.FULL
                    first = batches[fields.B_BASE_OFFSET, row]
                    if is_legacy(batches, row) and is_compressed(batches, row) and state[tables.CHECK_BEFORE] < last:
                        first = state[tables.CHECK_BEFORE] + 1
                    _doubt(doubtful, used, entry, state[tables.CHECK_BEFORE], first, last)
                    doubtful[tables.DOUBT_STAMP, used] = stamp
                    doubtful[tables.DOUBT_STAMP_BEFORE, used] = state[tables.CHECK_LARGEST]
                    doubtful[tables.DOUBT_OLD_FORMAT, used] = batches[fields.B_MAGIC, row] == 0
                    used += 1
                entry += 1
            if stamp > state[tables.CHECK_LARGEST]: state[tables.CHECK_LARGEST] = stamp
            state[tables.CHECK_BEFORE] = last
            row += 1
        state[tables.CHECK_NEXT] = entry
        return row, used, fields.END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.bint))
def sound_offset_entries(index: Entries, number: cython.Py_ssize_t, end: cython.Py_ssize_t,
                         block: cython.const[cython.uchar][::1], start: cython.longlong, size: cython.longlong,
                         limit: cython.longlong):
    """How many of the entries number … end − 1 of an offset index, one after the other, name the last offset of a batch of
    format 2 at their position → (how many, has one of these batches several offsets?).

    block, start  bytes of the log, and their position in it; it ends at entries that point elsewhere
    size, limit   of the log; bytes that a batch may have there
    Also other entries may be right: they take another look.
    """
    several: cython.bint = False
    found: cython.Py_ssize_t = 0
    at: cython.longlong
    length: cython.longlong
    delta: cython.longlong
    if number < 0 or end > index.data.shape[0] // fields.OFFSET_ENTRY_SIZE or start < 0 or limit < 0: return 0, False
    with cython.nogil:
        while number < end:
            at = _position_of(index.data, number) - start
            if at < 0 or block.shape[0] < fields.V2_SIZE or at > block.shape[0] - fields.V2_SIZE: return found, several
            length = i32(block, at + fields.V2_BATCH_LENGTH_AT)
            if length < fields.V2_SIZE - fields.OVERHEAD: return found, several
            if length > size - (start + at) - fields.OVERHEAD: return found, several
            if length > limit - fields.OVERHEAD or block[at + fields.V2_MAGIC_AT] != fields.MAGIC_V2: return found, several
            delta = i32(block, at + fields.V2_LAST_OFFSET_DELTA_AT)
            if i64(block, at) > fields.LONG_MAX - fields.INT_MAX or i64(block, at) < 0: return found, several
            if i64(block, at) + delta != index.base_offset + i32(index.data, number * fields.OFFSET_ENTRY_SIZE):
                return found, several
            several = several or delta != 0
            found += 1
            number += 1
        return found, several


@cython.final
@cython.cclass
class Timestamps:
    """The first `rows` of `batches`, one after the other in the log, and the `largest` timestamp of the records of each.

    base  file position that the batches' positions count from
    """

    batches: cython.longlong[:, ::1]
    rows: cython.Py_ssize_t
    base: cython.longlong
    largest: cython.const[cython.longlong][::1]

    def __init__(self, batches: cython.longlong[:, ::1], rows: cython.Py_ssize_t, base: cython.longlong,
                 largest: cython.const[cython.longlong][::1]):
        self.batches, self.rows, self.base, self.largest = batches, rows, base, largest


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.longlong))
def sound_time_entries(index: Entries, number: cython.Py_ssize_t, end: cython.Py_ssize_t, offsets: Entries,
                       known: Timestamps, previous: cython.longlong):
    """How many of the entries number … end − 1 of a time index, one after the other, name the last offset and the largest
    timestamp of one of the batches → (how many, timestamp of the last one).

    offsets   the offset index, whose offsets grow: it leads to that batch, or to one of those before it
    previous  timestamp of the entry before, which is smaller than that of the next one
    Also other entries may be right: they take another look.
    """
    batches: cython.longlong[:, ::1] = known.batches
    row: cython.Py_ssize_t = 0
    start: cython.Py_ssize_t = 0
    found: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t = -1  # the last entry of the offset index at or below the offset
    count: cython.Py_ssize_t = offsets.data.shape[0] // fields.OFFSET_ENTRY_SIZE
    high: cython.Py_ssize_t = count
    middle: cython.Py_ssize_t
    offset: cython.longlong
    timestamp: cython.longlong
    if number < 0 or end > index.data.shape[0] // fields.TIME_ENTRY_SIZE: return 0, previous
    if known.rows > batches.shape[1] or known.rows > known.largest.shape[0]: return 0, previous
    with cython.nogil:
        while number < end:
            offset = index.base_offset + i32(index.data, number * fields.TIME_ENTRY_SIZE + fields.TIME_ENTRY_RELATIVE_OFFSET_AT)
            timestamp = i64(index.data, number * fields.TIME_ENTRY_SIZE)
            while row < known.rows and batches[fields.B_LAST_OFFSET, row] < offset:
                row += 1
            if row >= known.rows or batches[fields.B_LAST_OFFSET, row] != offset: return found, previous
            if timestamp <= previous or known.largest[row] != timestamp: return found, previous
            if batches[fields.B_COUNT, row] < 1: return found, previous
            while high - at > 1 and found == 0:
                middle = at + (high - at) // 2
                if offsets.base_offset + i32(offsets.data, middle * fields.OFFSET_ENTRY_SIZE) <= offset: at = middle
                else: high = middle
            while at + 1 < count and offsets.base_offset + i32(offsets.data, (at + 1) * fields.OFFSET_ENTRY_SIZE) <= offset:
                at += 1
            if at < 0: return found, previous
            while start < row and known.base + batches[fields.B_POSITION, start] < _position_of(offsets.data, at):
                start += 1
            if known.base + batches[fields.B_POSITION, start] != _position_of(offsets.data, at): return found, previous
            previous = timestamp
            found += 1
            number += 1
        return found, previous


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def next_turn(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t,
              epoch: cython.longlong, before: cython.longlong):
    """First batch from `row` on with another leader epoch, that begins at or below the end of the one before it, or that ends
    below its beginning or at the largest offset; `last_row`: none.

    epoch, before   leader epoch and last offset of the batch before `row`
    """
    if row < 0 or last_row > batches.shape[1]: return last_row
    with cython.nogil:
        while row < last_row:
            if batches[fields.B_LEADER_EPOCH, row] != epoch or batches[fields.B_BASE_OFFSET, row] <= before: return row
            before = batches[fields.B_LAST_OFFSET, row]
            if before == fields.LONG_MAX or before < batches[fields.B_BASE_OFFSET, row]: return row
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
    first: cython.longlong
    last: cython.longlong
    if row < 0 or last_row > batches.shape[1]: return last_row
    with cython.nogil:
        while row < last_row:
            first = batches[fields.B_BASE_OFFSET, row]
            last = batches[fields.B_LAST_OFFSET, row]
            if not is_legacy(batches, row):
                if first > before and first != before + 1: return row
                if last < first or last - first >= batches[fields.B_COUNT, row]: return row
            elif not is_compressed(batches, row) and first > before and first != before + 1:
                return row
            before = last
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
        while row < last_row and batches[fields.B_BASE_OFFSET, row] < offset:
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
            if has_producer(batches, row):
                if is_transactional_or_control(batches, row) or row + 1 == last_row: return row
                if batches[fields.B_PRODUCER_ID, row + 1] != batches[fields.B_PRODUCER_ID, row]: return row
                if batches[fields.B_PRODUCER_EPOCH, row + 1] != batches[fields.B_PRODUCER_EPOCH, row]: return row
                if is_transactional_or_control(batches, row + 1): return row
            row += 1
        return row
