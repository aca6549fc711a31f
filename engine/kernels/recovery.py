# cython: language_level=3, boundscheck=False, wraparound=False
"""Recover a segment in one pass: check sizes and checksums, write index entries, report leader epochs and producers.

Mirrors LogSegment.recover. Only the fields for this are read, so logs of small batches are recovered at the speed of memory. Of
a run of batches of one producer only the first and the last are reported (see `Recovered`).
"""

from array import array

import cython
from cython.cimports.engine.kernels import fields, walk
from cython.cimports.engine.kernels.checksum import checksum, kafkalog_crc32c, kafkalog_has_crc32c, sliced_reach
from cython.cimports.engine.kernels.numbers import fits_int, i16, i32, i64, u32, varint, varlong, wrapped_sum
from cython.cimports.engine.kernels.placement import place

SLOTS = 2048  # a power of two

# Largest batches whose checksums are computed here; larger ones are left to a library.
_HARDWARE = cython.declare(cython.bint, kafkalog_has_crc32c())
_INLINE = cython.declare(cython.longlong, sliced_reach())
_INLINE_HARDWARE = cython.declare(cython.longlong, 2**31)


def new_slots() -> memoryview:
    """Return empty slots for `recover_batches`."""
    return memoryview(array("q", bytes(8 * SLOTS * walk.SLOT_FIELDS))).cast("B").cast("q", (SLOTS, walk.SLOT_FIELDS))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.longlong, cython.longlong, cython.longlong))
def _marker(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t):
    """Return (type, coordinator epoch, timestamp delta) of the only record of a control batch; type −1: unusual, see MARKER.

    at, end  start of the record, end of the batch
    """
    length: cython.longlong
    delta: cython.longlong
    kind: cython.longlong
    epoch: cython.longlong
    length, at = varint(data, at, end)
    if at < 0 or length != end - at or length < 1: return -1, 0, 0
    delta, at = varlong(data, at + 1, end)
    if at < 0: return -1, 0, 0
    length, at = varint(data, at, end)  # the offset delta
    if at < 0: return -1, 0, 0
    length, at = varint(data, at, end)
    if at < 0 or length != 4 or end - at < 4: return -1, 0, 0
    if i16(data, at) != 0: return -1, 0, 0
    kind = i16(data, at + 2)
    if kind < 0 or kind > fields.COMMIT: return -1, 0, 0
    length, at = varint(data, at + 4, end)
    if at < 0 or length != 6 or end - at < 7: return -1, 0, 0
    if i16(data, at) != 0 or data[at + 6] != 0 or end - at != 7: return -1, 0, 0
    epoch = i32(data, at + 2)
    return kind, epoch, delta


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _slot_of(slots: cython.longlong[:, ::1], producer_id: cython.longlong) -> cython.Py_ssize_t:
    """Return the slot of `producer_id`, or a free one for it, which always exists."""
    mask: cython.longlong = slots.shape[0] - 1
    slot: cython.longlong = (producer_id ^ (producer_id >> 11)) & mask
    while slots[slot, walk.SLOT_USED] != 0 and slots[slot, walk.SLOT_ID] != producer_id:
        slot = (slot + 1) & mask
    return slot


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _report_pending(slots: cython.longlong[:, ::1], slot: cython.Py_ssize_t, reported: cython.longlong[:, ::1],
                    at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Report the pending batch of a slot, if any → rows used."""
    if slots[slot, walk.SLOT_PENDING] == 0: return at
    reported[walk.P_PRODUCER_ID, at] = slots[slot, walk.SLOT_ID]
    reported[walk.P_PRODUCER_EPOCH, at] = slots[slot, walk.SLOT_EPOCH]
    reported[walk.P_KIND, at] = slots[slot, walk.SLOT_KIND]
    reported[walk.P_BASE_SEQUENCE, at] = slots[slot, walk.SLOT_LAST]
    reported[walk.P_BASE_OFFSET, at] = slots[slot, walk.SLOT_LAST + 1]
    reported[walk.P_LAST_OFFSET, at] = slots[slot, walk.SLOT_LAST + 2]
    reported[walk.P_MAX_TIMESTAMP, at] = slots[slot, walk.SLOT_LAST + 3]
    slots[slot, walk.SLOT_PENDING] = 0
    return at + 1


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.int)
def flush_producers(slots: cython.longlong[:, ::1], state: cython.longlong[::1], reported: cython.longlong[:, ::1]):
    """Report all pending batches and clear the slots → END, or NO_ROOM: process the rows and call again."""
    slot: cython.Py_ssize_t
    if state.shape[0] < walk.WALK_FIELDS or state[walk.S_REPORTED_AT] < 0: return walk.W_BAD_START
    if reported.shape[0] < walk.PRODUCER_FIELDS or slots.shape[1] < walk.SLOT_FIELDS: return walk.W_BAD_START
    with cython.nogil:
        for slot in range(slots.shape[0]):
            if slots[slot, walk.SLOT_USED] == 0: continue
            if reported.shape[1] - state[walk.S_REPORTED_AT] < 1: return walk.W_NO_ROOM
            state[walk.S_REPORTED_AT] = _report_pending(slots, slot, reported, state[walk.S_REPORTED_AT])
            slots[slot, walk.SLOT_USED] = 0
        state[walk.S_PRODUCERS] = 0
        return walk.W_END


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.longlong, cython.int))
def _size_of(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t, flags: cython.int):
    """Return (total size of the batch at `at`, END), or the status of a header that cannot be read."""
    size: cython.longlong
    if end - at <= fields.UP_TO_MAGIC: return 0, walk.W_TORN
    size = i32(data, at + fields.V2_BATCH_LENGTH_AT)
    if size < fields.SMALLEST: return 0, walk.W_BAD_SIZE
    if size > end - at - fields.OVERHEAD and not flags & walk.HEAD_ONLY: return 0, walk.W_TORN
    size += fields.OVERHEAD
    if data[at + fields.V2_MAGIC_AT] < 2 or data[at + fields.V2_MAGIC_AT] >= 128:  # a negative byte in Java
        if end - at < fields.V1_KEY_SIZE_AT: return 0, walk.W_TORN
    else:
        if size < fields.V2_SIZE: return 0, walk.W_INVALID
        if end - at < fields.V2_SIZE: return 0, walk.W_TORN
    return size, walk.W_END


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _check(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.longlong, magic: cython.longlong,
           castagnoli: cython.const[cython.uint][::1], ieee: cython.const[cython.uint][::1]) -> cython.int:
    """Return END if the batch's checksum is right, INVALID if it is wrong, UNCHECKED if a library is faster."""
    crc: cython.longlong = -1
    if magic < fields.MAGIC_V2:
        if size > _INLINE: return walk.W_UNCHECKED
        crc = checksum(data, at + fields.V2_MAGIC_AT, at + size, ieee)
        return walk.W_END if crc == u32(data, at + fields.OVERHEAD) else walk.W_INVALID
    if _HARDWARE and size <= _INLINE_HARDWARE:
        crc = kafkalog_crc32c(cython.address(data[at + fields.V2_ATTRIBUTES_AT]), size - fields.V2_ATTRIBUTES_AT)
    elif size <= _INLINE:
        crc = checksum(data, at + fields.V2_ATTRIBUTES_AT, at + size, castagnoli)
    else:
        return walk.W_UNCHECKED
    return walk.W_END if crc == u32(data, at + fields.V2_CRC_AT) else walk.W_INVALID


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.longlong, cython.longlong, cython.longlong, cython.longlong))
def _kind_of(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.longlong,
             attributes: cython.longlong, count: cython.longlong, flags: cython.int):
    """Return (bits of Kind, marker, coordinator epoch, timestamp delta) of a producer's batch; Kind −1: unusual marker."""
    kind: cython.longlong = 0
    marker: cython.longlong
    coordinator: cython.longlong
    delta: cython.longlong
    if attributes & fields.TRANSACTIONAL_FLAG: kind = walk.K_TRANSACTIONAL
    if not attributes & fields.CONTROL_FLAG: return kind, -1, 0, 0
    kind |= walk.K_CONTROL
    if count == 0 or flags & walk.MARKER_CHECKED: return kind, -1, 0, 0
    if count != 1 or attributes & fields.CODEC_MASK or flags & walk.HEAD_ONLY: return -1, -1, 0, 0
    marker, coordinator, delta = _marker(data, at + fields.V2_SIZE, at + size)
    if marker < 0: return -1, -1, 0, 0
    return kind | walk.K_HAS_MARKER, marker, coordinator, delta


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _note_order(state: cython.longlong[::1], base_offset: cython.longlong, has_hole: cython.bint) -> cython.void:
    """Count a batch that begins below the next offset, or that has a gap before or in it."""
    if base_offset < state[walk.S_NEXT_OFFSET]:
        if state[walk.S_DISORDERS] == 0:
            state[walk.S_DISORDER_AT] = state[walk.S_POSITION]
            state[walk.S_DISORDER_OFFSET] = base_offset
            state[walk.S_DISORDER_EXPECTED] = state[walk.S_NEXT_OFFSET]
        state[walk.S_DISORDERS] += 1
    elif has_hole:
        state[walk.S_HOLES] += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _note_unknown_magic(state: cython.longlong[::1], magic: cython.longlong, base_offset: cython.longlong) -> cython.void:
    """Count a batch with an unknown magic."""
    if state[walk.S_UNKNOWN_MAGICS] == 0:
        state[walk.S_UNKNOWN_MAGIC_AT] = state[walk.S_POSITION]
        state[walk.S_UNKNOWN_MAGIC_OFFSET] = base_offset
        state[walk.S_UNKNOWN_MAGIC] = magic
    state[walk.S_UNKNOWN_MAGICS] += 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _note_epoch(state: cython.longlong[::1], epochs: cython.longlong[:, ::1], epoch: cython.longlong,
                base_offset: cython.longlong) -> cython.void:
    """Report the leader epoch of the next batch if it differs from the one before. The caller has checked the room."""
    if epoch != state[walk.S_EPOCH]:
        state[walk.S_EPOCH] = epoch
        epochs[0, state[walk.S_EPOCHS_AT]] = epoch
        epochs[1, state[walk.S_EPOCHS_AT]] = base_offset
        epochs[2, state[walk.S_EPOCHS_AT]] = state[walk.S_POSITION]
        epochs[3, state[walk.S_EPOCHS_AT]] = state[walk.S_BATCHES]
        state[walk.S_EPOCHS_AT] += 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _assign_slot(slots: cython.longlong[:, ::1], slot: cython.Py_ssize_t, producer: cython.longlong) -> cython.bint:
    """Assign a free slot to `producer`, without a run; False: the slot is already assigned to it."""
    if slots[slot, walk.SLOT_USED] != 0: return False
    slots[slot, walk.SLOT_USED] = 1
    slots[slot, walk.SLOT_ID] = producer
    slots[slot, walk.SLOT_KIND] = -1
    slots[slot, walk.SLOT_PENDING] = 0
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _keep_last(slots: cython.longlong[:, ::1], slot: cython.Py_ssize_t, sequence: cython.longlong, base_offset: cython.longlong,
               last: cython.longlong, timestamp: cython.longlong) -> cython.void:
    """Make a batch that continues the slot's run its pending batch, instead of the one before."""
    slots[slot, walk.SLOT_LAST] = sequence
    slots[slot, walk.SLOT_LAST + 1] = base_offset
    slots[slot, walk.SLOT_LAST + 2] = last
    slots[slot, walk.SLOT_LAST + 3] = timestamp
    slots[slot, walk.SLOT_PENDING] = 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _begin_run(slots: cython.longlong[:, ::1], slot: cython.Py_ssize_t, kind: cython.longlong, epoch: cython.longlong,
               reported: cython.longlong[:, ::1], at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Report the slot's pending batch, and begin a run, except with a control batch → row for the new batch."""
    at = _report_pending(slots, slot, reported, at)
    slots[slot, walk.SLOT_KIND] = -1 if kind & walk.K_CONTROL else kind
    slots[slot, walk.SLOT_EPOCH] = epoch
    reported[walk.P_PRODUCER_ID, at] = slots[slot, walk.SLOT_ID]
    reported[walk.P_PRODUCER_EPOCH, at] = epoch
    reported[walk.P_KIND, at] = kind
    return at


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _marker_time(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, attributes: cython.longlong,
                 timestamp: cython.longlong, delta: cython.longlong) -> cython.longlong:
    """Return the timestamp of the marker in the control batch at `at`."""
    if attributes & fields.TIMESTAMP_TYPE_FLAG: return timestamp
    return wrapped_sum(i64(data, at + fields.V2_BASE_TIMESTAMP_AT), delta)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.longlong, cython.longlong, cython.longlong, cython.longlong, cython.longlong))
def _head(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, magic: cython.longlong):
    """Return (attributes, last offset, largest timestamp, producer id, count) of the batch at `at`; defaults for magic 0, 1."""
    timestamp: cython.longlong = -1
    if magic >= fields.MAGIC_V2:
        return (data[at + fields.V2_ATTRIBUTES_AT + 1],
                wrapped_sum(i64(data, at), i32(data, at + fields.V2_LAST_OFFSET_DELTA_AT)),
                i64(data, at + fields.V2_MAX_TIMESTAMP_AT), i64(data, at + fields.V2_PRODUCER_ID_AT),
                i32(data, at + fields.V2_RECORD_COUNT_AT))
    if magic != 0: timestamp = i64(data, at + fields.V1_TIMESTAMP_AT)
    return 0, i64(data, at), timestamp, -1, 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _count(state: cython.longlong[::1], size: cython.longlong, records: cython.longlong, last: cython.longlong,
           magic: cython.longlong) -> cython.void:
    """Add a batch of `size` bytes with the last offset `last` to the state."""
    state[walk.S_POSITION] += size
    state[walk.S_SINCE_ENTRY] += size
    state[walk.S_BATCHES] += 1
    if records > 0: state[walk.S_RECORDS] += records
    state[walk.S_NEXT_OFFSET] = wrapped_sum(last, 1)
    if magic >= fields.MAGIC_V2:
        state[walk.S_MAP_END] = state[walk.S_NEXT_OFFSET]
        state[walk.S_HAS_MAP_END] = 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _report_batch(reported: cython.longlong[:, ::1], row: cython.Py_ssize_t, sequence: cython.longlong,
                  base_offset: cython.longlong, last: cython.longlong, timestamp: cython.longlong) -> cython.void:
    """Write the fields of a batch that `_begin_run` does not write."""
    reported[walk.P_BASE_SEQUENCE, row] = sequence
    reported[walk.P_BASE_OFFSET, row] = base_offset
    reported[walk.P_LAST_OFFSET, row] = last
    reported[walk.P_MAX_TIMESTAMP, row] = timestamp


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _report_marker(reported: cython.longlong[:, ::1], row: cython.Py_ssize_t, marker: cython.longlong,
                   coordinator: cython.longlong, timestamp: cython.longlong) -> cython.void:
    """Write the fields of the batch's marker; −1 for none."""
    reported[walk.P_MARKER, row] = marker
    reported[walk.P_COORDINATOR_EPOCH, row] = coordinator
    reported[walk.P_MARKER_TIMESTAMP, row] = timestamp


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _bad_arguments(start: cython.Py_ssize_t, end: cython.Py_ssize_t, size: cython.Py_ssize_t, state: cython.longlong[::1],
                   epochs: cython.longlong[:, ::1], reported: cython.longlong[:, ::1],
                   slots: cython.longlong[:, ::1]) -> cython.bint:
    """Are the arguments of `recover_batches` inconsistent?"""
    if start < 0 or end < start or end > size or state.shape[0] < walk.WALK_FIELDS: return True
    if epochs.shape[0] < 4 or reported.shape[0] < walk.PRODUCER_FIELDS or slots.shape[1] < walk.SLOT_FIELDS: return True
    if slots.shape[0] < 4 or slots.shape[0] & (slots.shape[0] - 1) != 0: return True
    return state[walk.S_EPOCHS_AT] < 0 or state[walk.S_REPORTED_AT] < 0 or state[walk.S_PRODUCERS] < 0


@cython.final
@cython.cclass
class Recovered:
    """The state and the output of a walk.

    state     Placing, followed by Walk
    offsets, times   index entries in the files' format
    epochs    leader epoch, base offset, position and number of each batch whose epoch differs from the one before it
    reported  batches of producers, see walk.ProducerField, in file order, except for runs: a run is the data batches of one
              producer that follow each other with the same epoch and transactional flag. The first batch of a run is reported
              in order. Of the others only the last one is reported, which is all that a snapshot stores: before the next batch
              of that producer that is not in the run, or by `flush_producers`.
    slots     from `new_slots`
    """

    state: cython.longlong[::1]
    offsets: cython.uchar[::1]
    times: cython.uchar[::1]
    epochs: cython.longlong[:, ::1]
    reported: cython.longlong[:, ::1]
    slots: cython.longlong[:, ::1]

    def __init__(self, state: cython.longlong[::1], offsets: cython.uchar[::1], times: cython.uchar[::1],
                  epochs: cython.longlong[:, ::1], reported: cython.longlong[:, ::1], slots: cython.longlong[:, ::1]):
        self.state, self.offsets, self.times = state, offsets, times
        self.epochs, self.reported, self.slots = epochs, reported, slots


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.int))
def recover_batches(data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t,
                    flags: cython.int, recovered: Recovered, castagnoli: cython.const[cython.uint][::1],
                    ieee: cython.const[cython.uint][::1]):
    """Walk the batches of data[start:end] up to the first invalid one → (where the walk stopped, status).

    data      read-only bytes, any content        start, end  byte positions in `data`        flags   bits of Flag
    recovered in and out; `start` is at POSITION of its state in the .log
    castagnoli, ieee   tables of `checksum.make_tables`        status    see Walked, below 100 Placed
    """
    state: cython.longlong[::1] = recovered.state
    offsets: cython.uchar[::1] = recovered.offsets
    times: cython.uchar[::1] = recovered.times
    epochs: cython.longlong[:, ::1] = recovered.epochs
    reported: cython.longlong[:, ::1] = recovered.reported
    slots: cython.longlong[:, ::1] = recovered.slots
    at: cython.Py_ssize_t = start
    size: cython.longlong
    magic: cython.longlong
    base_offset: cython.longlong
    last: cython.longlong
    timestamp: cython.longlong
    attributes: cython.longlong
    producer: cython.longlong
    epoch: cython.longlong
    sequence: cython.longlong
    count: cython.longlong
    marker: cython.longlong = -1
    coordinator: cython.longlong = 0
    marker_time: cython.longlong = 0  # of a control batch; first as the delta from the base timestamp
    kind: cython.longlong = -1
    row: cython.Py_ssize_t
    slot: cython.Py_ssize_t = -1
    status: cython.int
    if _bad_arguments(start, end, data.shape[0], state, epochs, reported, slots): return start, walk.W_BAD_START
    with cython.nogil:
        while at < end:
            size, status = _size_of(data, at, end, flags)
            if status != walk.W_END: return at, status
            magic = data[at + fields.V2_MAGIC_AT]
            if magic >= 128: magic -= 256
            if not flags & walk.CHECKED:
                status = _check(data, at, size, magic, castagnoli, ieee)
                if status != walk.W_END: return at, status
            base_offset = i64(data, at)
            attributes, last, timestamp, producer, count = _head(data, at, magic)
            # all checks that may stop at this batch come before any change of the state
            if last == fields.LONG_MAX or (last < 0 and base_offset > fields.INT_MAX): return at, walk.W_NO_OFFSET_LEFT
            if not fits_int(state[walk.S_BASE_OFFSET], last): return at, walk.PLACED_OVERFLOW
            if epochs.shape[1] - state[walk.S_EPOCHS_AT] < 1: return at, walk.W_NO_ROOM
            if reported.shape[1] - state[walk.S_REPORTED_AT] < 2: return at, walk.W_NO_ROOM
            if producer >= 0:
                slot = _slot_of(slots, producer)
                if slots[slot, walk.SLOT_USED] == 0 and state[walk.S_PRODUCERS] >= slots.shape[0] // 2:
                    return at, walk.W_SLOTS_FULL
                kind, marker, coordinator, marker_time = _kind_of(data, at, size, attributes, count, flags)
                if kind < 0: return at, walk.W_MARKER
            if state[walk.S_SINCE_ENTRY] > state[walk.S_INTERVAL]:  # inline: passing memoryviews to a function copies them
                status = place(state, offsets, times, last, timestamp)
                if status == walk.PLACED_NO_ROOM: return at, walk.W_NO_ROOM
                if status != walk.PLACED_END: return at, status
            elif timestamp > state[walk.S_MAX_TIMESTAMP]:
                state[walk.S_MAX_TIMESTAMP] = timestamp
                state[walk.S_MAX_TIMESTAMP_OFFSET] = last
            _note_order(state, base_offset, magic >= fields.MAGIC_V2 and (
                base_offset > state[walk.S_NEXT_OFFSET] or count <= i32(data, at + fields.V2_LAST_OFFSET_DELTA_AT)))
            if magic > fields.MAGIC_V2: _note_unknown_magic(state, magic, base_offset)
            if magic >= fields.MAGIC_V2:
                _note_epoch(state, epochs, i32(data, at + fields.V2_PARTITION_LEADER_EPOCH_AT), base_offset)
            _count(state, size, count, last, magic)
            if producer >= 0:
                if _assign_slot(slots, slot, producer): state[walk.S_PRODUCERS] += 1
                epoch = i16(data, at + fields.V2_PRODUCER_EPOCH_AT)
                sequence = i32(data, at + fields.V2_BASE_SEQUENCE_AT)
                if kind == slots[slot, walk.SLOT_KIND] and epoch == slots[slot, walk.SLOT_EPOCH]:
                    _keep_last(slots, slot, sequence, base_offset, last, timestamp)
                else:
                    if not kind & walk.K_HAS_MARKER: marker_time = -1
                    else: marker_time = _marker_time(data, at, attributes, timestamp, marker_time)
                    row = _begin_run(slots, slot, kind, epoch, reported, state[walk.S_REPORTED_AT])
                    _report_batch(reported, row, sequence, base_offset, last, timestamp)
                    _report_marker(reported, row, marker, coordinator, marker_time)
                    state[walk.S_REPORTED_AT] = row + 1
            if flags & walk.HEAD_ONLY: return end, walk.W_END
            flags = 0
            at += size
        return at, walk.W_END
