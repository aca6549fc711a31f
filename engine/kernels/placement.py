# cython: language_level=3, boundscheck=False, wraparound=False
"""Where index entries fall: the offset and time index entries of a run of batches, as bytes. Mirrors LogSegment.append.

Appending and recovering place entries by the same rule, so both use this: before a batch is counted, it gets an entry if
more bytes than the index interval went by since the last batch that got one.
"""

from enum import IntEnum

import cython

from engine.formats import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY, BatchField

if cython.compiled:
    from cython.cimports.engine.kernels.numbers import fits_int, put_int
else:
    from engine.kernels.numbers import fits_int, put_int


class Place(IntEnum):
    """State that goes on from call to call: one 64-bit integer each."""

    BASE_OFFSET = 0  # of the segment
    INTERVAL = 1  # index.interval.bytes
    POSITION = 2  # file position of the next batch
    SINCE_ENTRY = 3  # bytes from the last batch that got an entry, or from the start, to POSITION
    MAX_TIMESTAMP = 4  # largest so far, −1 none
    MAX_TIMESTAMP_OFFSET = 5  # last offset of the first batch that has it
    OFFSETS = 6  # entries in the offset index
    OFFSETS_MAX = 7  # entries that it can hold
    LAST_OFFSET = 8  # offset of its last entry
    TIMES = 9  # entries in the time index
    TIMES_MAX = 10  # entries that it can hold, the one for closing included
    LAST_TIME = 11  # timestamp of its last entry, −1 none
    LAST_TIME_OFFSET = 12  # offset of its last entry
    OFFSETS_AT = 13  # bytes in the output for the offset index
    TIMES_AT = 14  # bytes in the output for the time index


class Placed(IntEnum):
    """Why placing stopped."""

    END = 0  # every batch is placed
    NO_ROOM = 1  # the output is used up: call again
    OVERFLOW = 2  # the batch's last offset does not fit behind the base offset in 31 bits
    OFFSETS_FULL = 3
    OFFSET_ORDER = 4  # its last offset is not above that of the last entry
    TIMES_FULL = 5
    TIME_ORDER = 6  # the largest timestamp's offset is below that of the last entry
    TIME_RANGE = 7  # the largest timestamp's offset does not fit behind the base offset in 31 bits
    BAD_START = 8  # arguments that do not fit together


PLACE_FIELDS = len(Place)

_BASE_OFFSET = cython.declare(cython.int, Place.BASE_OFFSET)
_INTERVAL = cython.declare(cython.int, Place.INTERVAL)
_POSITION = cython.declare(cython.int, Place.POSITION)
_SINCE_ENTRY = cython.declare(cython.int, Place.SINCE_ENTRY)
_MAX_TIMESTAMP = cython.declare(cython.int, Place.MAX_TIMESTAMP)
_MAX_TIMESTAMP_OFFSET = cython.declare(cython.int, Place.MAX_TIMESTAMP_OFFSET)
_OFFSETS = cython.declare(cython.int, Place.OFFSETS)
_OFFSETS_MAX = cython.declare(cython.int, Place.OFFSETS_MAX)
_LAST_OFFSET = cython.declare(cython.int, Place.LAST_OFFSET)
_TIMES = cython.declare(cython.int, Place.TIMES)
_TIMES_MAX = cython.declare(cython.int, Place.TIMES_MAX)
_LAST_TIME = cython.declare(cython.int, Place.LAST_TIME)
_LAST_TIME_OFFSET = cython.declare(cython.int, Place.LAST_TIME_OFFSET)
_OFFSETS_AT = cython.declare(cython.int, Place.OFFSETS_AT)
_TIMES_AT = cython.declare(cython.int, Place.TIMES_AT)
_FIELDS = cython.declare(cython.Py_ssize_t, PLACE_FIELDS)

_END = cython.declare(cython.int, Placed.END)
_NO_ROOM = cython.declare(cython.int, Placed.NO_ROOM)
_OVERFLOW = cython.declare(cython.int, Placed.OVERFLOW)
_OFFSETS_FULL = cython.declare(cython.int, Placed.OFFSETS_FULL)
_OFFSET_ORDER = cython.declare(cython.int, Placed.OFFSET_ORDER)
_TIMES_FULL = cython.declare(cython.int, Placed.TIMES_FULL)
_TIME_ORDER = cython.declare(cython.int, Placed.TIME_ORDER)
_TIME_RANGE = cython.declare(cython.int, Placed.TIME_RANGE)
_BAD_START = cython.declare(cython.int, Placed.BAD_START)

_B_SIZE = cython.declare(cython.int, BatchField.SIZE)
_B_MAGIC = cython.declare(cython.int, BatchField.MAGIC)
_B_VALID = cython.declare(cython.int, BatchField.VALID)
_B_PRODUCER_ID = cython.declare(cython.int, BatchField.PRODUCER_ID)
_B_LEADER_EPOCH = cython.declare(cython.int, BatchField.LEADER_EPOCH)
_B_LAST_OFFSET = cython.declare(cython.int, BatchField.LAST_OFFSET)
_B_MAX_TIMESTAMP = cython.declare(cython.int, BatchField.MAX_TIMESTAMP)

_OFFSET_ENTRY = cython.declare(cython.Py_ssize_t, OFFSET_INDEX_ENTRY.size)
_TIME_ENTRY = cython.declare(cython.Py_ssize_t, TIME_INDEX_ENTRY.size)


def place(state, offsets, times, last, timestamp):  # typed in placement.pxd, so that other kernels call it as C
    """Give the batch at state POSITION an entry in both indexes → END, or why not (see Placed).

    last, timestamp  its last offset, and the largest timestamp in it
    """
    base: cython.longlong = state[_BASE_OFFSET]
    at: cython.Py_ssize_t = state[_OFFSETS_AT]
    time_at: cython.Py_ssize_t = state[_TIMES_AT]
    if at < 0 or offsets.shape[0] - at < _OFFSET_ENTRY or time_at < 0 or times.shape[0] - time_at < _TIME_ENTRY:
        return _NO_ROOM
    if state[_OFFSETS] >= state[_OFFSETS_MAX]: return _OFFSETS_FULL
    if state[_OFFSETS] != 0 and last <= state[_LAST_OFFSET]: return _OFFSET_ORDER
    if timestamp > state[_MAX_TIMESTAMP]:
        state[_MAX_TIMESTAMP] = timestamp
        state[_MAX_TIMESTAMP_OFFSET] = last
    at = put_int(offsets, at, last - base, 4)
    state[_OFFSETS_AT] = put_int(offsets, at, state[_POSITION], 4)
    state[_OFFSETS] += 1
    state[_LAST_OFFSET] = last
    if state[_TIMES] >= state[_TIMES_MAX] - 1: return _TIMES_FULL
    if state[_TIMES] != 0 and state[_MAX_TIMESTAMP_OFFSET] < state[_LAST_TIME_OFFSET]: return _TIME_ORDER
    if state[_MAX_TIMESTAMP] > state[_LAST_TIME]:
        if not fits_int(base, state[_MAX_TIMESTAMP_OFFSET]): return _TIME_RANGE
        time_at = put_int(times, time_at, state[_MAX_TIMESTAMP], 8)
        state[_TIMES_AT] = put_int(times, time_at, state[_MAX_TIMESTAMP_OFFSET] - base, 4)
        state[_TIMES] += 1
        state[_LAST_TIME] = state[_MAX_TIMESTAMP]
        state[_LAST_TIME_OFFSET] = state[_MAX_TIMESTAMP_OFFSET]
    state[_SINCE_ENTRY] = 0
    return _END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.int))
def place_entries(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t,
                  state: cython.longlong[::1], offsets: cython.uchar[::1], times: cython.uchar[::1]):
    """Place batches row … last_row − 1 → (the batch that stopped it, status).

    batches  columns SIZE, LAST_OFFSET and MAX_TIMESTAMP are read; batches follow each other from state POSITION on
    state    in and out, see Place; the batch that stopped it is not in it
    offsets, times   out, entries in the files' own bytes, from state OFFSETS_AT and TIMES_AT on
    status   see Placed. Where the time index refuses the entry of a batch (TIMES_FULL, TIME_ORDER, TIME_RANGE) the offset
             index has got its own already, as in the broker.
    """
    base: cython.longlong
    last: cython.longlong
    status: cython.int
    if row < 0 or last_row > batches.shape[1] or state.shape[0] < _FIELDS: return row, _BAD_START
    base = state[_BASE_OFFSET]
    with cython.nogil:
        while row < last_row:
            last = batches[_B_LAST_OFFSET, row]
            if not fits_int(base, last): return row, _OVERFLOW
            if state[_SINCE_ENTRY] > state[_INTERVAL]:
                status = place(state, offsets, times, last, batches[_B_MAX_TIMESTAMP, row])
                if status != _END: return row, status
            elif batches[_B_MAX_TIMESTAMP, row] > state[_MAX_TIMESTAMP]:
                state[_MAX_TIMESTAMP] = batches[_B_MAX_TIMESTAMP, row]
                state[_MAX_TIMESTAMP_OFFSET] = last
            state[_POSITION] += batches[_B_SIZE, row]
            state[_SINCE_ENTRY] += batches[_B_SIZE, row]
            row += 1
        return row, _END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def next_invalid(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t):
    """First batch from `row` on that is not known to be whole (VALID not 1); `last_row`: none."""
    if row < 0 or last_row > batches.shape[1]: return last_row
    with cython.nogil:
        while row < last_row and batches[_B_VALID, row] == 1:
            row += 1
        return row


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def next_epoch(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t,
               epoch: cython.longlong):
    """First batch from `row` on whose leader epoch is above `epoch`; `last_row`: none. Magic below 2 has none."""
    if row < 0 or last_row > batches.shape[1]: return last_row
    with cython.nogil:
        while row < last_row and (batches[_B_LEADER_EPOCH, row] <= epoch or batches[_B_MAGIC, row] < 2):
            row += 1
        return row


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def next_producer(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t):
    """First batch from `row` on that has a producer id; `last_row`: none."""
    if row < 0 or last_row > batches.shape[1]: return last_row
    with cython.nogil:
        while row < last_row and (batches[_B_PRODUCER_ID, row] < 0 or batches[_B_MAGIC, row] < 2):
            row += 1
        return row
