# cython: language_level=3, boundscheck=False, wraparound=False
"""Walk a segment as recovery does, in one pass: sizes, checksums, index entries, leader epochs, producers.

Mirrors LogSegment.recover. Nothing is kept of a batch but what those need, so a log of small batches goes through at the
speed of memory. Of a run of batches of one producer only the first and the last five are told (see `recover_batches`).
"""

from array import array
from enum import IntEnum

import cython

from engine.formats import (
    BATCH_HEADER,
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_SIZE_UP_TO_MAGIC,
    LEGACY_OVERHEAD_V0,
    LOG_OVERHEAD,
    MIN_RECORD_SIZE,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    ControlType,
)
from engine.kernels.placement import PLACE_FIELDS, Place, Placed

if cython.compiled:
    from cython.cimports.engine.kernels.checksum import checksum, kafkalog_crc32c, kafkalog_has_crc32c
    from cython.cimports.engine.kernels.numbers import i16, i32, i64, u32, wrapped_sum
    from cython.cimports.engine.kernels.placement import place
else:
    from engine.kernels.checksum import checksum
    from engine.kernels.numbers import i16, i32, i64, u32, wrapped_sum
    from engine.kernels.placement import place


class Walk(IntEnum):
    """State of a walk behind that of `Place`, in the same array: one 64-bit integer each."""

    BATCHES = PLACE_FIELDS  # that were walked over
    RECORDS = PLACE_FIELDS + 1  # in them, as headers count; one for each entry of magic below 2
    NEXT_OFFSET = PLACE_FIELDS + 2  # last offset of the last batch + 1, as Java adds
    MAP_END = PLACE_FIELDS + 3  # the same of the last batch of magic 2 and above
    HAS_MAP_END = PLACE_FIELDS + 4  # 1: there was one
    EPOCH = PLACE_FIELDS + 5  # largest leader epoch so far; −1: none
    EPOCHS_AT = PLACE_FIELDS + 6  # columns used in the output for epochs
    ROWS_AT = PLACE_FIELDS + 7  # columns used in the output for producers
    PRODUCERS = PLACE_FIELDS + 8  # slots used
    HOLES = PLACE_FIELDS + 9  # batches of magic 2 and above behind a gap, or with fewer records than offsets
    DISORDERS = PLACE_FIELDS + 10  # batches that begin below NEXT_OFFSET, which the caller sets before the first one
    DISORDER_AT = PLACE_FIELDS + 11  # of the first of them: its position in the .log
    DISORDER_OFFSET = PLACE_FIELDS + 12  # its base offset
    DISORDER_BEHIND = PLACE_FIELDS + 13  # the NEXT_OFFSET that it is below


WALK_FIELDS = PLACE_FIELDS + 14


class Walked(IntEnum):
    """Why a walk stopped at a batch, which is not in the state. Below 100: see Placed."""

    END = 0  # nothing is left
    TORN = 100  # 17 bytes or fewer are left, or the batch goes on behind the end
    BAD_SIZE = 101  # a size field below 14
    INVALID = 102  # a batch below its header's size, or with a wrong checksum
    UNCHECKED = 103  # its checksum is left to a library: call again with CHECKED
    MARKER = 104  # a control batch that needs a closer look: call again with LOOKED_AT
    NO_ROOM = 105  # an output is used up: take what is there, reset its counter, and call again
    SLOTS_FULL = 106  # too many producers: `flush_producers`, and call again
    BAD_START = 107  # arguments that do not fit together


class Flag(IntEnum):
    """What the caller knows of the batch at `start`; for this one only."""

    CHECKED = 1  # its checksum is right
    LOOKED_AT = 2  # it is a control batch, and its marker is none of our business
    HEAD_ONLY = 4  # the data hold its header, the body is elsewhere; the walk ends behind it


class Row(IntEnum):
    """Fields of the output for producers: one column per batch that must be looked at."""

    PRODUCER_ID = 0
    PRODUCER_EPOCH = 1
    BASE_SEQUENCE = 2
    BASE_OFFSET = 3
    LAST_OFFSET = 4
    MAX_TIMESTAMP = 5
    KIND = 6  # bits of Kind
    MARKER = 7  # ControlType of its marker
    COORDINATOR_EPOCH = 8
    MARKER_TIMESTAMP = 9


class Kind(IntEnum):
    """Bits of Row.KIND."""

    TRANSACTIONAL = 1
    CONTROL = 2
    HAS_MARKER = 4


ROW_FIELDS = len(Row)

# a slot: one producer and its current run of data batches
_USED = cython.declare(cython.int, 0)
_ID = cython.declare(cython.int, 1)
_RUN_EPOCH = cython.declare(cython.int, 2)
_RUN_KIND = cython.declare(cython.int, 3)  # −1: no run
_HELD = cython.declare(cython.int, 4)  # batches since the first of the run
_RING = cython.declare(cython.int, 5)  # the last five of them: base sequence, base offset, last offset, max timestamp
_RING_SIZE = cython.declare(cython.longlong, 5)
_RING_FIELDS = cython.declare(cython.longlong, 4)
SLOT_FIELDS = 25
SLOTS = 2048  # a power of two
_SLOT_FIELDS = cython.declare(cython.Py_ssize_t, SLOT_FIELDS)

_HEADER = cython.declare(cython.Py_ssize_t, BATCH_HEADER.size)
_PRELUDE = cython.declare(cython.Py_ssize_t, HEADER_SIZE_UP_TO_MAGIC)
_OVERHEAD = cython.declare(cython.Py_ssize_t, LOG_OVERHEAD)
_SMALLEST = cython.declare(cython.longlong, MIN_RECORD_SIZE)
_LEGACY_TIMESTAMP_END = cython.declare(cython.Py_ssize_t, LOG_OVERHEAD + LEGACY_OVERHEAD_V0)
_LENGTH_AT = cython.declare(cython.Py_ssize_t, BATCH_HEADER.positions["batch_length"])
_EPOCH_AT = cython.declare(cython.Py_ssize_t, BATCH_HEADER.positions["partition_leader_epoch"])
_MAGIC_AT = cython.declare(cython.Py_ssize_t, BATCH_HEADER.positions["magic"])
_CRC_AT = cython.declare(cython.Py_ssize_t, BATCH_HEADER.positions["crc"])
_ATTRIBUTES_AT = cython.declare(cython.Py_ssize_t, BATCH_HEADER.positions["attributes"])
_DELTA_AT = cython.declare(cython.Py_ssize_t, BATCH_HEADER.positions["last_offset_delta"])
_BASE_TIMESTAMP_AT = cython.declare(cython.Py_ssize_t, BATCH_HEADER.positions["base_timestamp"])
_MAX_TIMESTAMP_AT = cython.declare(cython.Py_ssize_t, BATCH_HEADER.positions["max_timestamp"])
_PRODUCER_AT = cython.declare(cython.Py_ssize_t, BATCH_HEADER.positions["producer_id"])
_PRODUCER_EPOCH_AT = cython.declare(cython.Py_ssize_t, BATCH_HEADER.positions["producer_epoch"])
_SEQUENCE_AT = cython.declare(cython.Py_ssize_t, BATCH_HEADER.positions["base_sequence"])
_COUNT_AT = cython.declare(cython.Py_ssize_t, BATCH_HEADER.positions["record_count"])

_BASE_OFFSET = cython.declare(cython.int, Place.BASE_OFFSET)
_INTERVAL = cython.declare(cython.int, Place.INTERVAL)
_POSITION = cython.declare(cython.int, Place.POSITION)
_SINCE_ENTRY = cython.declare(cython.int, Place.SINCE_ENTRY)
_MAX_TIMESTAMP = cython.declare(cython.int, Place.MAX_TIMESTAMP)
_MAX_TIMESTAMP_OFFSET = cython.declare(cython.int, Place.MAX_TIMESTAMP_OFFSET)
_BATCHES = cython.declare(cython.int, Walk.BATCHES)
_RECORDS = cython.declare(cython.int, Walk.RECORDS)
_NEXT_OFFSET = cython.declare(cython.int, Walk.NEXT_OFFSET)
_MAP_END = cython.declare(cython.int, Walk.MAP_END)
_HAS_MAP_END = cython.declare(cython.int, Walk.HAS_MAP_END)
_EPOCH = cython.declare(cython.int, Walk.EPOCH)
_EPOCHS_AT = cython.declare(cython.int, Walk.EPOCHS_AT)
_ROWS_AT = cython.declare(cython.int, Walk.ROWS_AT)
_PRODUCERS = cython.declare(cython.int, Walk.PRODUCERS)
_HOLES = cython.declare(cython.int, Walk.HOLES)
_DISORDERS = cython.declare(cython.int, Walk.DISORDERS)
_DISORDER_AT = cython.declare(cython.int, Walk.DISORDER_AT)
_DISORDER_OFFSET = cython.declare(cython.int, Walk.DISORDER_OFFSET)
_DISORDER_BEHIND = cython.declare(cython.int, Walk.DISORDER_BEHIND)
_FIELDS = cython.declare(cython.Py_ssize_t, WALK_FIELDS)

_END = cython.declare(cython.int, Walked.END)
_OVERFLOW = cython.declare(cython.int, Placed.OVERFLOW)
_PLACE_NO_ROOM = cython.declare(cython.int, Placed.NO_ROOM)
_TORN = cython.declare(cython.int, Walked.TORN)
_BAD_SIZE = cython.declare(cython.int, Walked.BAD_SIZE)
_INVALID = cython.declare(cython.int, Walked.INVALID)
_UNCHECKED = cython.declare(cython.int, Walked.UNCHECKED)
_MARKER = cython.declare(cython.int, Walked.MARKER)
_NO_ROOM = cython.declare(cython.int, Walked.NO_ROOM)
_SLOTS_FULL = cython.declare(cython.int, Walked.SLOTS_FULL)
_BAD_START = cython.declare(cython.int, Walked.BAD_START)
_CHECKED = cython.declare(cython.int, Flag.CHECKED)
_LOOKED_AT = cython.declare(cython.int, Flag.LOOKED_AT)
_HEAD_ONLY = cython.declare(cython.int, Flag.HEAD_ONLY)

_R_PRODUCER_ID = cython.declare(cython.int, Row.PRODUCER_ID)
_R_PRODUCER_EPOCH = cython.declare(cython.int, Row.PRODUCER_EPOCH)
_R_BASE_SEQUENCE = cython.declare(cython.int, Row.BASE_SEQUENCE)
_R_BASE_OFFSET = cython.declare(cython.int, Row.BASE_OFFSET)
_R_LAST_OFFSET = cython.declare(cython.int, Row.LAST_OFFSET)
_R_MAX_TIMESTAMP = cython.declare(cython.int, Row.MAX_TIMESTAMP)
_R_KIND = cython.declare(cython.int, Row.KIND)
_R_MARKER = cython.declare(cython.int, Row.MARKER)
_R_COORDINATOR_EPOCH = cython.declare(cython.int, Row.COORDINATOR_EPOCH)
_R_MARKER_TIMESTAMP = cython.declare(cython.int, Row.MARKER_TIMESTAMP)
_ROW_FIELDS = cython.declare(cython.Py_ssize_t, ROW_FIELDS)
_K_TRANSACTIONAL = cython.declare(cython.longlong, Kind.TRANSACTIONAL)
_K_CONTROL = cython.declare(cython.longlong, Kind.CONTROL)
_K_HAS_MARKER = cython.declare(cython.longlong, Kind.HAS_MARKER)

_CODEC = cython.declare(cython.longlong, CODEC_MASK)
_LOG_APPEND_TIME = cython.declare(cython.longlong, TIMESTAMP_TYPE_FLAG)
_TRANSACTIONAL = cython.declare(cython.longlong, TRANSACTIONAL_FLAG)
_CONTROL = cython.declare(cython.longlong, CONTROL_FLAG)
_COMMIT = cython.declare(cython.longlong, ControlType.COMMIT)

_INT_MAX = cython.declare(cython.longlong, 2**31 - 1)
_LARGEST = cython.declare(cython.longlong, 2**63 - 1)

# Checksums of batches up to these sizes are computed here; a library does larger ones, and all when interpreted.
_HARDWARE = cython.declare(cython.bint, kafkalog_has_crc32c() if cython.compiled else False)
_INLINE = cython.declare(cython.longlong, 1024 if cython.compiled else 0)
_INLINE_HARDWARE = cython.declare(cython.longlong, 2**31)


def new_slots() -> memoryview:
    """Empty slots for `recover_batches`."""
    return memoryview(array("q", bytes(8 * SLOTS * SLOT_FIELDS))).cast("B").cast("q", (SLOTS, SLOT_FIELDS))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.longlong, cython.Py_ssize_t))
def _varint(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t):
    """(a zigzag number, the position behind it); position −1: cut off, or longer than nine bytes."""
    raw: cython.ulonglong = 0
    shift: cython.int = 0
    byte: cython.ulonglong
    value: cython.longlong
    while at < end and shift < 63:
        byte = data[at]
        at += 1
        raw |= (byte & 127) << shift
        if byte < 128:
            value = raw >> 1
            if raw & 1: return -value - 1, at
            return value, at
        shift += 7
    return 0, -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.longlong, cython.longlong, cython.longlong))
def _marker(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t):
    """(type, coordinator epoch, timestamp delta) of the only record of a plain control batch; type −1: look closer.

    at, end  where the record begins and the batch ends
    """
    length: cython.longlong
    delta: cython.longlong
    kind: cython.longlong
    epoch: cython.longlong
    length, at = _varint(data, at, end)
    if at < 0 or length != end - at or length < 1: return -1, 0, 0
    delta, at = _varint(data, at + 1, end)
    if at < 0: return -1, 0, 0
    length, at = _varint(data, at, end)  # the offset delta
    if at < 0: return -1, 0, 0
    length, at = _varint(data, at, end)
    if at < 0 or length != 4 or end - at < 4: return -1, 0, 0
    if i16(data, at) != 0: return -1, 0, 0
    kind = i16(data, at + 2)
    if kind < 0 or kind > _COMMIT: return -1, 0, 0
    length, at = _varint(data, at + 4, end)
    if at < 0 or length != 6 or end - at < 7: return -1, 0, 0
    if i16(data, at) != 0 or data[at + 6] != 0 or end - at != 7: return -1, 0, 0
    epoch = i32(data, at + 2)
    return kind, epoch, delta


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _slot_of(slots: cython.longlong[:, ::1], producer_id: cython.longlong) -> cython.Py_ssize_t:
    """The slot that `producer_id` has, or would get. There is always a free one."""
    mask: cython.longlong = slots.shape[0] - 1
    slot: cython.longlong = (producer_id ^ (producer_id >> 11)) & mask
    while slots[slot, _USED] != 0 and slots[slot, _ID] != producer_id:
        slot = (slot + 1) & mask
    return slot


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _release(slots: cython.longlong[:, ::1], slot: cython.Py_ssize_t, rows: cython.longlong[:, ::1],
             at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Tell the batches that the slot holds back, at most five → columns used."""
    held: cython.longlong = slots[slot, _HELD]
    first: cython.longlong = 0
    ring: cython.Py_ssize_t
    if held > _RING_SIZE: first = held - _RING_SIZE
    while first < held:
        ring = _RING + (first % _RING_SIZE) * _RING_FIELDS
        rows[_R_PRODUCER_ID, at] = slots[slot, _ID]
        rows[_R_PRODUCER_EPOCH, at] = slots[slot, _RUN_EPOCH]
        rows[_R_KIND, at] = slots[slot, _RUN_KIND]
        rows[_R_BASE_SEQUENCE, at] = slots[slot, ring]
        rows[_R_BASE_OFFSET, at] = slots[slot, ring + 1]
        rows[_R_LAST_OFFSET, at] = slots[slot, ring + 2]
        rows[_R_MAX_TIMESTAMP, at] = slots[slot, ring + 3]
        at += 1
        first += 1
    slots[slot, _HELD] = 0
    return at


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.int)
def flush_producers(slots: cython.longlong[:, ::1], state: cython.longlong[::1], rows: cython.longlong[:, ::1]):
    """Tell all batches that are held back, and forget the producers → END, or NO_ROOM: take the rows and call again."""
    slot: cython.Py_ssize_t
    if state.shape[0] < _FIELDS or rows.shape[0] < _ROW_FIELDS or slots.shape[1] < _SLOT_FIELDS: return _BAD_START
    if state[_ROWS_AT] < 0: return _BAD_START
    with cython.nogil:
        for slot in range(slots.shape[0]):
            if slots[slot, _USED] == 0: continue
            if rows.shape[1] - state[_ROWS_AT] < _RING_SIZE: return _NO_ROOM
            state[_ROWS_AT] = _release(slots, slot, rows, state[_ROWS_AT])
            slots[slot, _USED] = 0
        state[_PRODUCERS] = 0
        return _END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.int))
def recover_batches(data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t,
                    flags: cython.int, state: cython.longlong[::1], offsets: cython.uchar[::1],
                    times: cython.uchar[::1], epochs: cython.longlong[:, ::1], rows: cython.longlong[:, ::1],
                    slots: cython.longlong[:, ::1], castagnoli: cython.const[cython.uint][::1],
                    ieee: cython.const[cython.uint][::1]):
    """Walk the sound batches of data[start:end] → (where the walk stopped, status).

    data      read-only bytes, any content        start, end  byte positions in `data`        flags   bits of Flag
    state     in and out: Place, and behind it Walk; what stands at `start` is at state POSITION of the .log
    offsets, times   out, index entries in the files' own bytes
    epochs    out: epoch and base offset of each batch whose leader epoch is above all before it
    rows      out: producers, see Row. Rows come in file order, with one freedom: of a run of data batches of one producer
              with the same epoch and transactional flag, the first comes in its place, and of the others only the last
              five, later, but before any other batch of that producer, and when `flush_producers` is called.
    slots     in and out: `new_slots`        castagnoli, ieee   tables of `checksum.make_tables`
    status    see Walked, below 100 Placed
    """
    at: cython.Py_ssize_t = start
    size: cython.longlong
    magic: cython.longlong
    crc: cython.longlong
    base_offset: cython.longlong
    last: cython.longlong
    timestamp: cython.longlong
    attributes: cython.longlong
    producer: cython.longlong
    epoch: cython.longlong
    count: cython.longlong
    marker: cython.longlong
    coordinator: cython.longlong
    delta: cython.longlong
    kind: cython.longlong
    run_epoch: cython.longlong
    column: cython.Py_ssize_t
    slot: cython.Py_ssize_t
    ring: cython.Py_ssize_t
    status: cython.int
    base: cython.longlong
    if start < 0 or end < start or end > data.shape[0] or state.shape[0] < _FIELDS: return start, _BAD_START
    if epochs.shape[0] < 2 or rows.shape[0] < _ROW_FIELDS or slots.shape[1] < _SLOT_FIELDS: return start, _BAD_START
    if slots.shape[0] < 4 or slots.shape[0] & (slots.shape[0] - 1) != 0: return start, _BAD_START
    if state[_EPOCHS_AT] < 0 or state[_ROWS_AT] < 0 or state[_PRODUCERS] < 0: return start, _BAD_START
    base = state[_BASE_OFFSET]
    with cython.nogil:
        while True:
            if at == end: return at, _END
            if end - at <= _PRELUDE: return at, _TORN
            size = i32(data, at + _LENGTH_AT)
            if size < _SMALLEST: return at, _BAD_SIZE
            if size > end - at - _OVERHEAD and not flags & _HEAD_ONLY: return at, _TORN
            size += _OVERHEAD
            magic = data[at + _MAGIC_AT]
            if magic >= 128: magic -= 256
            base_offset = i64(data, at)
            if magic >= 2:
                if size < _HEADER: return at, _INVALID
                if end - at < _HEADER: return at, _TORN
                if not flags & _CHECKED:
                    crc = u32(data, at + _CRC_AT)
                    if _HARDWARE and size <= _INLINE_HARDWARE:
                        if cython.compiled:
                            if crc != kafkalog_crc32c(cython.address(data[at + _ATTRIBUTES_AT]), size - _ATTRIBUTES_AT):
                                return at, _INVALID
                    elif size <= _INLINE:
                        if crc != checksum(data, at + _ATTRIBUTES_AT, at + size, castagnoli): return at, _INVALID
                    else:
                        return at, _UNCHECKED
                attributes = data[at + _ATTRIBUTES_AT + 1]
                last = wrapped_sum(base_offset, i32(data, at + _DELTA_AT))
                timestamp = i64(data, at + _MAX_TIMESTAMP_AT)
                producer = i64(data, at + _PRODUCER_AT)
                count = i32(data, at + _COUNT_AT)
            else:
                if end - at < _LEGACY_TIMESTAMP_END: return at, _TORN
                if not flags & _CHECKED:
                    if size > _INLINE: return at, _UNCHECKED
                    if u32(data, at + _OVERHEAD) != checksum(data, at + _MAGIC_AT, at + size, ieee): return at, _INVALID
                attributes = 0
                last = base_offset
                timestamp = -1
                if magic != 0: timestamp = i64(data, at + _PRELUDE + 1)
                producer = -1
                count = 1
            # everything that may keep the batch out is asked before anything of it is noted
            if last < base or (base < 0 and last > _LARGEST + base) or last - base > _INT_MAX: return at, _OVERFLOW
            if epochs.shape[1] - state[_EPOCHS_AT] < 1 or rows.shape[1] - state[_ROWS_AT] <= _RING_SIZE: return at, _NO_ROOM
            kind = 0
            marker = -1
            coordinator = 0
            delta = 0
            slot = -1
            if producer >= 0:
                slot = _slot_of(slots, producer)
                if slots[slot, _USED] == 0 and state[_PRODUCERS] >= slots.shape[0] // 2: return at, _SLOTS_FULL
                if attributes & _TRANSACTIONAL: kind = _K_TRANSACTIONAL
                if attributes & _CONTROL:
                    kind |= _K_CONTROL
                    if count != 0 and not flags & _LOOKED_AT:
                        if count == 1 and attributes & _CODEC == 0 and not flags & _HEAD_ONLY:
                            marker, coordinator, delta = _marker(data, at + _HEADER, at + size)
                        if marker < 0: return at, _MARKER
                        kind |= _K_HAS_MARKER
            if state[_SINCE_ENTRY] > state[_INTERVAL]:
                status = place(state, offsets, times, last, timestamp)
                if status == _PLACE_NO_ROOM: return at, _NO_ROOM
                if status != _END: return at, status
            elif timestamp > state[_MAX_TIMESTAMP]:
                state[_MAX_TIMESTAMP] = timestamp
                state[_MAX_TIMESTAMP_OFFSET] = last
            if base_offset < state[_NEXT_OFFSET]:
                if state[_DISORDERS] == 0:
                    state[_DISORDER_AT] = state[_POSITION]
                    state[_DISORDER_OFFSET] = base_offset
                    state[_DISORDER_BEHIND] = state[_NEXT_OFFSET]
                state[_DISORDERS] += 1
            elif magic >= 2 and (base_offset > state[_NEXT_OFFSET] or count <= i32(data, at + _DELTA_AT)):
                state[_HOLES] += 1
            state[_POSITION] += size
            state[_SINCE_ENTRY] += size
            state[_BATCHES] += 1
            if count > 0: state[_RECORDS] += count
            state[_NEXT_OFFSET] = wrapped_sum(last, 1)
            if magic >= 2:
                state[_MAP_END] = state[_NEXT_OFFSET]
                state[_HAS_MAP_END] = 1
                epoch = i32(data, at + _EPOCH_AT)
                if epoch > state[_EPOCH]:
                    state[_EPOCH] = epoch
                    epochs[0, state[_EPOCHS_AT]] = epoch
                    epochs[1, state[_EPOCHS_AT]] = base_offset
                    state[_EPOCHS_AT] += 1
            if slot >= 0:
                if slots[slot, _USED] == 0:
                    slots[slot, _USED] = 1
                    slots[slot, _ID] = producer
                    slots[slot, _RUN_KIND] = -1
                    slots[slot, _HELD] = 0
                    state[_PRODUCERS] += 1
                run_epoch = i16(data, at + _PRODUCER_EPOCH_AT)
                if kind == slots[slot, _RUN_KIND] and run_epoch == slots[slot, _RUN_EPOCH]:
                    ring = _RING + (slots[slot, _HELD] % _RING_SIZE) * _RING_FIELDS
                    slots[slot, ring] = i32(data, at + _SEQUENCE_AT)
                    slots[slot, ring + 1] = base_offset
                    slots[slot, ring + 2] = last
                    slots[slot, ring + 3] = timestamp
                    slots[slot, _HELD] += 1
                else:
                    column = _release(slots, slot, rows, state[_ROWS_AT])
                    slots[slot, _RUN_KIND] = kind
                    slots[slot, _RUN_EPOCH] = run_epoch
                    if kind & _K_CONTROL: slots[slot, _RUN_KIND] = -1
                    rows[_R_PRODUCER_ID, column] = producer
                    rows[_R_PRODUCER_EPOCH, column] = run_epoch
                    rows[_R_BASE_SEQUENCE, column] = i32(data, at + _SEQUENCE_AT)
                    rows[_R_BASE_OFFSET, column] = base_offset
                    rows[_R_LAST_OFFSET, column] = last
                    rows[_R_MAX_TIMESTAMP, column] = timestamp
                    rows[_R_KIND, column] = kind
                    rows[_R_MARKER, column] = marker
                    rows[_R_COORDINATOR_EPOCH, column] = coordinator
                    rows[_R_MARKER_TIMESTAMP, column] = -1
                    if kind & _K_HAS_MARKER:
                        if attributes & _LOG_APPEND_TIME: rows[_R_MARKER_TIMESTAMP, column] = timestamp
                        else: rows[_R_MARKER_TIMESTAMP, column] = wrapped_sum(i64(data, at + _BASE_TIMESTAMP_AT), delta)
                    state[_ROWS_AT] = column + 1
            if flags & _HEAD_ONLY: return end, _END
            flags = 0
            at += size
