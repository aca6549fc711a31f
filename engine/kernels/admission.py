# cython: language_level=3, boundscheck=False, wraparound=False
"""Check records before an append, and write offset, epoch and timestamp into batches that a leader accepts unchanged.

Mirrors the loops of LogValidator and the setters of DefaultRecordBatch.
"""

import cython
from cython.cimports.engine.kernels import fields, tables
from cython.cimports.engine.kernels.numbers import put_int
from cython.cimports.engine.kernels.predicates import has_producer, is_whole

_NOT_TAKEN = cython.declare(cython.longlong, fields.CODEC_MASK | fields.CONTROL_FLAG | fields.TIMESTAMP_TYPE_FLAG)


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def judge_records(records: cython.longlong[:, ::1], count: cython.Py_ssize_t, batches: cython.longlong[:, ::1],
                  low: cython.longlong, high: cython.longlong, traits: cython.longlong[:, ::1]):
    """Collect the traits of the first `count` records by batch → records checked, −1 for columns that do not fit.

    records    RecordColumns: BATCH, OFFSET, TIMESTAMP, KEY_SIZE
    batches    BatchColumns: BASE_OFFSET
    low, high  smallest and largest allowed timestamp; −1 is always allowed
    traits     in and out, see tables.Trait: a row for each batch
    """
    index: cython.Py_ssize_t
    row: cython.Py_ssize_t
    rows: cython.Py_ssize_t = min(batches.shape[1], traits.shape[1])
    timestamp: cython.longlong
    base: cython.longlong
    flaws: cython.longlong
    seen: cython.longlong
    if count < 0 or count > records.shape[1] or traits.shape[0] < tables.TRAITS: return -1
    with cython.nogil:
        for index in range(count):
            row = records[fields.R_BATCH, index]
            if row < 0 or row >= rows: return -1
            flaws = 0
            timestamp = records[fields.R_TIMESTAMP, index]
            base = batches[fields.B_BASE_OFFSET, row]
            if timestamp > traits[tables.T_LARGEST, row]: traits[tables.T_LARGEST, row] = timestamp
            if timestamp != -1 and (timestamp < low or timestamp > high): flaws |= tables.FLAW_TIMESTAMP
            if records[fields.R_KEY_SIZE, index] < 0: flaws |= tables.FLAW_NULL_KEY
            seen = traits[tables.T_COUNT, row]
            if base > fields.LONG_MAX - seen or records[fields.R_OFFSET, index] != base + seen: flaws |= tables.FLAW_OFFSETS
            traits[tables.T_COUNT, row] = seen + 1
            traits[tables.T_FLAWS, row] |= flaws
        return count


@cython.final
@cython.cclass
class Leader:
    """The values that a leader writes into batches, and the limits of the batches that it accepts.

    leader_epoch  written into every batch
    append_time   ms, written into every batch (LogAppendTime); −1: the records keep their timestamps (CreateTime)
    refused       bits of Flaw: a batch with one of them is not accepted
    largest_size  bytes: a larger batch is not accepted
    """

    leader_epoch: cython.longlong
    append_time: cython.longlong
    refused: cython.longlong
    largest_size: cython.longlong

    def __init__(self, leader_epoch: cython.longlong, append_time: cython.longlong, refused: cython.longlong,
                  largest_size: cython.longlong):
        self.leader_epoch, self.append_time = leader_epoch, append_time
        self.refused, self.largest_size = refused, largest_size


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.longlong))
def stamp_batches(data: cython.uchar[::1], batches: cython.longlong[:, ::1], row: cython.Py_ssize_t,
                  last_row: cython.Py_ssize_t, traits: cython.longlong[:, ::1], next_offset: cython.longlong,
                  leader: Leader):
    """Assign offsets to batches row … last_row − 1, up to the first that is not accepted unchanged → (row, next offset).

    data          the batches; offset and epoch are written, timestamps and attributes if they change
    batches       BatchColumns of `data`, changed in the same way, except the checksum
    traits        in: from `judge_records`; out: CHANGED is 1 if the checksum must be computed again
    next_offset   of the first batch
    Stops before a batch that a client may not send or that needs more checks, and leaves it unchanged: wrong checksum, format
    other than 2, compressed, control, LogAppendTime, base offset other than 0, count different from its number of offsets,
    producer without sequence, no offsets left.
    """
    at: cython.Py_ssize_t
    size: cython.longlong
    count: cython.longlong
    largest: cython.longlong
    attributes: cython.longlong
    wanted: cython.longlong
    if row < 0 or last_row > batches.shape[1] or last_row > traits.shape[1]: return row, next_offset
    if traits.shape[0] < tables.TRAITS: return row, next_offset
    with cython.nogil:
        while row < last_row:
            at = batches[fields.B_POSITION, row]
            size = batches[fields.B_SIZE, row]
            count = batches[fields.B_COUNT, row]
            attributes = batches[fields.B_ATTRIBUTES, row]
            if at < 0 or size < fields.V2_SIZE or size > leader.largest_size: return row, next_offset
            if size > data.shape[0] or at > data.shape[0] - size: return row, next_offset
            if not is_whole(batches, row) or batches[fields.B_MAGIC, row] != fields.MAGIC_V2: return row, next_offset
            if attributes & _NOT_TAKEN: return row, next_offset
            if batches[fields.B_BASE_OFFSET, row] != 0: return row, next_offset
            if count <= 0 or batches[fields.B_LAST_OFFSET, row] != count - 1: return row, next_offset
            if traits[tables.T_FLAWS, row] & leader.refused or traits[tables.T_COUNT, row] != count: return row, next_offset
            if has_producer(batches, row) and batches[fields.B_BASE_SEQUENCE, row] < 0: return row, next_offset
            if next_offset > fields.LONG_MAX - count: return row, next_offset
            wanted = attributes
            largest = traits[tables.T_LARGEST, row]
            if leader.append_time >= 0:
                wanted = attributes | fields.TIMESTAMP_TYPE_FLAG
                largest = leader.append_time
            traits[tables.T_CHANGED, row] = wanted != attributes or largest != batches[fields.B_MAX_TIMESTAMP, row]
            if traits[tables.T_CHANGED, row]:
                data[at + fields.V2_ATTRIBUTES_AT] = 0
                data[at + fields.V2_ATTRIBUTES_AT + 1] = wanted & fields.KNOWN_ATTRIBUTES
                put_int(data, at + fields.V2_MAX_TIMESTAMP_AT, largest, 8)
                batches[fields.B_ATTRIBUTES, row] = wanted & fields.KNOWN_ATTRIBUTES
                batches[fields.B_MAX_TIMESTAMP, row] = largest
            put_int(data, at, next_offset, 8)
            put_int(data, at + fields.V2_PARTITION_LEADER_EPOCH_AT, leader.leader_epoch, 4)
            batches[fields.B_BASE_OFFSET, row] = next_offset
            next_offset += count
            batches[fields.B_LAST_OFFSET, row] = next_offset - 1
            batches[fields.B_LEADER_EPOCH, row] = leader.leader_epoch
            row += 1
        return row, next_offset
