# cython: language_level=3, boundscheck=False, wraparound=False
"""Index entries of batches that are appended or recovered, and what they tell of their producers. Mirrors LogSegment.append.

A batch gets an entry in the offset and time index if more bytes than the index interval precede it since the last batch with
an entry. The partition of a record is chosen in `engine.producer.partitioner`, its segment in `engine.log.partition`.
"""

import cython
from cython.cimports.engine.kernels import fields, walk
from cython.cimports.engine.kernels.numbers import fits_int, put_int
from cython.cimports.engine.kernels.predicates import has_producer, is_control, is_legacy, is_transactional, is_whole


def place(state, offsets, times, last, timestamp):  # typed in placement.pxd, so that other kernels call it as C
    """Write entries in both indexes for the batch at state POSITION → END, or why not (see Placed).

    last, timestamp  last offset and largest timestamp of the batch
    """
    base: cython.longlong = state[walk.S_BASE_OFFSET]
    at: cython.Py_ssize_t = state[walk.S_OFFSETS_AT]
    time_at: cython.Py_ssize_t = state[walk.S_TIMES_AT]
    if at < 0 or offsets.shape[0] - at < fields.OFFSET_ENTRY_SIZE: return walk.PLACED_NO_ROOM
    if time_at < 0 or times.shape[0] - time_at < fields.TIME_ENTRY_SIZE: return walk.PLACED_NO_ROOM
    if state[walk.S_OFFSETS] >= state[walk.S_OFFSETS_MAX]: return walk.PLACED_OFFSETS_FULL
    if state[walk.S_OFFSETS] != 0 and last <= state[walk.S_LAST_OFFSET]: return walk.PLACED_OFFSET_ORDER
    if timestamp > state[walk.S_MAX_TIMESTAMP]:
        state[walk.S_MAX_TIMESTAMP] = timestamp
        state[walk.S_MAX_TIMESTAMP_OFFSET] = last
    at = put_int(offsets, at, last - base, 4)
    state[walk.S_OFFSETS_AT] = put_int(offsets, at, state[walk.S_POSITION], 4)
    state[walk.S_OFFSETS] += 1
    state[walk.S_LAST_OFFSET] = last
    if state[walk.S_TIMES] >= state[walk.S_TIMES_MAX] - 1: return walk.PLACED_TIMES_FULL
    if state[walk.S_TIMES] != 0 and state[walk.S_MAX_TIMESTAMP_OFFSET] < state[walk.S_LAST_TIME_OFFSET]:
        return walk.PLACED_TIME_ORDER
    if state[walk.S_MAX_TIMESTAMP] > state[walk.S_LAST_TIME]:
        if not fits_int(base, state[walk.S_MAX_TIMESTAMP_OFFSET]): return walk.PLACED_TIME_RANGE
        time_at = put_int(times, time_at, state[walk.S_MAX_TIMESTAMP], 8)
        state[walk.S_TIMES_AT] = put_int(times, time_at, state[walk.S_MAX_TIMESTAMP_OFFSET] - base, 4)
        state[walk.S_TIMES] += 1
        state[walk.S_LAST_TIME] = state[walk.S_MAX_TIMESTAMP]
        state[walk.S_LAST_TIME_OFFSET] = state[walk.S_MAX_TIMESTAMP_OFFSET]
    state[walk.S_SINCE_ENTRY] = 0
    return walk.PLACED_END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.int))
def place_entries(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t,
                  state: cython.longlong[::1], offsets: cython.uchar[::1], times: cython.uchar[::1]):
    """Write the entries of batches row … last_row − 1 → (the batch where it stopped, status).

    batches  SIZE, LAST_OFFSET and MAX_TIMESTAMP; batches follow each other from state POSITION on
    state    in and out, see Placing; does not include the batch where it stopped
    offsets, times   out, entries in the files' format, from state OFFSETS_AT and TIMES_AT on
    status   see Placed. If the time index rejects the entry of a batch (TIMES_FULL, TIME_ORDER, TIME_RANGE), the offset
             index already has its entry, as in the broker.
    """
    base: cython.longlong
    last: cython.longlong
    status: cython.int
    if row < 0 or last_row > batches.shape[1] or state.shape[0] < walk.PLACE_FIELDS: return row, walk.PLACED_BAD_START
    base = state[walk.S_BASE_OFFSET]
    with cython.nogil:
        while row < last_row:
            last = batches[fields.B_LAST_OFFSET, row]
            if not fits_int(base, last): return row, walk.PLACED_OVERFLOW
            if state[walk.S_SINCE_ENTRY] > state[walk.S_INTERVAL]:
                status = place(state, offsets, times, last, batches[fields.B_MAX_TIMESTAMP, row])
                if status != walk.PLACED_END: return row, status
            elif batches[fields.B_MAX_TIMESTAMP, row] > state[walk.S_MAX_TIMESTAMP]:
                state[walk.S_MAX_TIMESTAMP] = batches[fields.B_MAX_TIMESTAMP, row]
                state[walk.S_MAX_TIMESTAMP_OFFSET] = last
            state[walk.S_POSITION] += batches[fields.B_SIZE, row]
            state[walk.S_SINCE_ENTRY] += batches[fields.B_SIZE, row]
            row += 1
        return row, walk.PLACED_END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def next_invalid(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t):
    """Return the first batch from `row` on whose checksum is not known to be right (VALID not 1); `last_row`: none."""
    if row < 0 or last_row > batches.shape[1]: return last_row
    with cython.nogil:
        while row < last_row and is_whole(batches, row):
            row += 1
        return row


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.bint))
def report_producers(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t,
                   reported: cython.longlong[:, ::1], count: cython.Py_ssize_t):
    """Report the batches row … last_row − 1 of producers → (row after them, rows in `reported`, is the last a control batch?).

    reported   out, from row `count` on, see ProducerField. It may be full before `last_row`
    Stops after a control batch, which is reported without its marker: the caller reads its record.
    """
    if row < 0 or last_row > batches.shape[1]: return last_row, count, False
    if count < 0 or reported.shape[0] < walk.PRODUCER_FIELDS: return last_row, count, False
    with cython.nogil:
        while row < last_row and count < reported.shape[1]:
            if not is_legacy(batches, row) and has_producer(batches, row):
                reported[walk.P_PRODUCER_ID, count] = batches[fields.B_PRODUCER_ID, row]
                reported[walk.P_PRODUCER_EPOCH, count] = batches[fields.B_PRODUCER_EPOCH, row]
                reported[walk.P_BASE_SEQUENCE, count] = batches[fields.B_BASE_SEQUENCE, row]
                reported[walk.P_BASE_OFFSET, count] = batches[fields.B_BASE_OFFSET, row]
                reported[walk.P_LAST_OFFSET, count] = batches[fields.B_LAST_OFFSET, row]
                reported[walk.P_MAX_TIMESTAMP, count] = batches[fields.B_MAX_TIMESTAMP, row]
                reported[walk.P_KIND, count] = walk.K_TRANSACTIONAL if is_transactional(batches, row) else 0
                reported[walk.P_MARKER, count] = -1
                reported[walk.P_COORDINATOR_EPOCH, count] = 0
                reported[walk.P_MARKER_TIMESTAMP, count] = -1
                count += 1
                if is_control(batches, row):
                    reported[walk.P_KIND, count - 1] += walk.K_CONTROL
                    return row + 1, count, True
            row += 1
        return row, count, False
