# cython: language_level=3, boundscheck=False, wraparound=False
"""Compare index entries with the batches of their log in one walk; find batches that a check needs.

An index is compared as bytes. Entries as a current broker writes them need no further work; every other entry becomes a row of
a table with the fields of the batch that it points to (see tables.OffsetDoubt and TimeDoubt).
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
def _bad_arguments(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t,
                   state: cython.longlong[::1], doubtful: cython.longlong[:, ::1], used: cython.Py_ssize_t) -> cython.bint:
    """Are the arguments of a check inconsistent?"""
    if row < 0 or last_row > batches.shape[1] or used < 0: return True
    if state.shape[0] < tables.CHECK_FIELDS or doubtful.shape[0] < tables.DOUBT_FIELDS: return True
    return state[tables.CHECK_NEXT] < 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _position_of(entries: cython.const[cython.uchar][::1], entry: cython.Py_ssize_t) -> cython.longlong:
    """Return the position in an entry of an offset index."""
    return i32(entries, entry * fields.OFFSET_ENTRY_SIZE + fields.OFFSET_ENTRY_POSITION_AT)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _doubt(doubtful: cython.longlong[:, ::1], at: cython.Py_ssize_t, entry: cython.longlong, previous: cython.longlong,
           first: cython.longlong, last: cython.longlong) -> cython.void:
    """Write the fields that OffsetDoubt and TimeDoubt have in common."""
    doubtful[tables.DOUBT_ENTRY, at] = entry
    doubtful[tables.DOUBT_IS_BATCH, at] = 1
    doubtful[tables.DOUBT_PREVIOUS, at] = previous
    doubtful[tables.DOUBT_FIRST, at] = first
    doubtful[tables.DOUBT_LAST, at] = last


@cython.final
@cython.cclass
class Entries:
    """An index: complete entries, in ascending order of the field that is compared.

    base_offset  of the segment, below 2^63 − 2^32
    """

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

    index        ascending by position
    batches      of a window that begins at byte `base` of the log
    state        in and out, see tables.Check; kept for the next window
    doubtful     out, see tables.OffsetDoubt: each entry that is not the last offset of the batch at its position
    status       END: all rows are done · FULL: empty `doubtful`, set PENDING to −1, call again · BAD_START
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
    if _bad_arguments(batches, row, last_row, state, doubtful, used): return row, used, fields.BAD_START
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
                    doubtful[tables.DOUBT_LAST_BEFORE_NEXT, pending] = last
                    if last == offset: doubtful[tables.DOUBT_IS_LAST_OFFSET, pending] = 1
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
                    doubtful[tables.DOUBT_LAST_BEFORE_NEXT, used] = last
                    doubtful[tables.DOUBT_IS_LAST_OFFSET, used] = 0
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

    index        ascending by offset
    state        in and out, see tables.Check; kept for the next window
    doubtful     out, see tables.TimeDoubt: each entry that does not have the last offset and the timestamp of a batch with a
                 larger timestamp than all before it; with the first batch that ends at the entry's offset or after it
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
    if _bad_arguments(batches, row, last_row, state, doubtful, used): return row, used, fields.BAD_START
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
    """Count the entries number … end − 1 of an offset index up to the first one that is not the last offset of a batch of
    format 2 at its position → (count, does one of these batches have several offsets?).

    block, start  bytes of the log, and their position in it; the count stops at entries that point elsewhere
    size, limit   size of the log; largest batch in bytes
    The entry where it stops may still be right: the caller checks it.
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
    """The first `rows` of `batches`, consecutive in the log, and the `largest` timestamp of the records of each.

    base  file position of the window; the batches' positions are relative to it
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
    """Count the entries number … end − 1 of a time index up to the first one that is not the last offset and the largest
    timestamp of one of the batches → (count, timestamp of the last one counted).

    offsets   the offset index, ascending: its entry for the offset must point to that batch or to an earlier one of `known`
    previous  timestamp of the previous entry; timestamps must increase
    The entry where it stops may still be right: the caller checks it.
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
def next_epoch_break(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t,
                     epoch: cython.longlong, before: cython.longlong):
    """Return the first batch from `row` on with another leader epoch, or with a base offset at or below the previous last
    offset, or with a last offset below its base offset or equal to the largest offset; `last_row`: none.

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
    """Return the first batch from `row` on with missing offsets in it or before it; `last_row`: none.

    before  last offset of the batch before `row`
    Offsets that are missing in a compressed set of format 0 or 1 are not found.
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
    """Return the first batch from `row` on with a base offset of at least `offset`; `last_row`: none."""
    if row < 0 or last_row > batches.shape[1]: return last_row
    with cython.nogil:
        while row < last_row and batches[fields.B_BASE_OFFSET, row] < offset:
            row += 1
        return row


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def next_for_producer_state(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t):
    """Return the first batch from `row` on that the producer state needs; `last_row`: none.

    These are all transactional and control batches of producers, and the last of consecutive other batches of one producer and
    epoch.
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


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.longlong)
def largest_last_offset(batches: cython.longlong[:, ::1], rows: cython.Py_ssize_t):
    """Return the largest last offset of the first `rows` batches; the smallest number if there are none."""
    largest: cython.longlong = -fields.LONG_MAX - 1
    row: cython.Py_ssize_t
    if rows > batches.shape[1]: return largest
    with cython.nogil:
        for row in range(rows):
            largest = max(largest, batches[fields.B_LAST_OFFSET, row])
        return largest
