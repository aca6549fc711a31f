# cython: language_level=3, boundscheck=False, wraparound=False
"""What a leader looks at in records before it takes them, and what it stamps on batches that it takes as they are.

Mirrors the loops of LogValidator and DefaultRecordBatch's setters.
"""

from enum import IntEnum

import cython

from engine.formats import (
    BATCH_HEADER,
    CODEC_MASK,
    CONTROL_FLAG,
    TIMESTAMP_TYPE_FLAG,
    BatchField,
    RecordField,
)

if cython.compiled:
    from cython.cimports.engine.kernels import fields
    from cython.cimports.engine.kernels.numbers import put_int
else:
    from engine.kernels import fields
    from engine.kernels.numbers import put_int


class Trait(IntEnum):
    """Rows of a table, one column per batch: what its records are. Set all to 0, LARGEST to −1, before the first call."""

    FLAGS = 0  # see Flag
    LARGEST = 1  # largest timestamp of its records, −1 none
    COUNT = 2  # records seen
    CHANGED = 3  # `stamp_batches`: the checksum has to be made anew


class Flag:
    """Bits of Trait.FLAGS: what records of a batch are."""

    NULL_KEY = 1
    TIMESTAMP = 2  # one lies outside the bounds
    OFFSETS = 4  # they do not count from the base offset on without a gap
    BROKEN = 8  # the records could not be decoded: the caller sets it


TRAITS = len(Trait)

_FLAGS = cython.declare(cython.int, Trait.FLAGS)
_LARGEST = cython.declare(cython.int, Trait.LARGEST)
_SEEN = cython.declare(cython.int, Trait.COUNT)
_CHANGED = cython.declare(cython.int, Trait.CHANGED)
_TRAITS = cython.declare(cython.Py_ssize_t, TRAITS)
_NULL_KEY = cython.declare(cython.longlong, Flag.NULL_KEY)
_TIMESTAMP_FLAG = cython.declare(cython.longlong, Flag.TIMESTAMP)
_OFFSETS = cython.declare(cython.longlong, Flag.OFFSETS)

_R_BATCH = cython.declare(cython.int, RecordField.BATCH)
_R_OFFSET = cython.declare(cython.int, RecordField.OFFSET)
_R_TIMESTAMP = cython.declare(cython.int, RecordField.TIMESTAMP)
_R_KEY_SIZE = cython.declare(cython.int, RecordField.KEY_SIZE)

_POSITION = cython.declare(cython.int, BatchField.POSITION)
_SIZE = cython.declare(cython.int, BatchField.SIZE)
_MAGIC = cython.declare(cython.int, BatchField.MAGIC)
_VALID = cython.declare(cython.int, BatchField.VALID)
_ATTRIBUTES = cython.declare(cython.int, BatchField.ATTRIBUTES)
_BASE_OFFSET = cython.declare(cython.int, BatchField.BASE_OFFSET)
_LAST_OFFSET = cython.declare(cython.int, BatchField.LAST_OFFSET)
_COUNT = cython.declare(cython.int, BatchField.COUNT)
_MAX_TIMESTAMP = cython.declare(cython.int, BatchField.MAX_TIMESTAMP)
_PRODUCER_ID = cython.declare(cython.int, BatchField.PRODUCER_ID)
_BASE_SEQUENCE = cython.declare(cython.int, BatchField.BASE_SEQUENCE)
_LEADER_EPOCH = cython.declare(cython.int, BatchField.LEADER_EPOCH)

_HEADER = cython.declare(cython.Py_ssize_t, BATCH_HEADER.size)
_EPOCH_AT = cython.declare(cython.Py_ssize_t, BATCH_HEADER.positions["partition_leader_epoch"])
_ATTRIBUTES_AT = cython.declare(cython.Py_ssize_t, BATCH_HEADER.positions["attributes"])
_TIMESTAMP_AT = cython.declare(cython.Py_ssize_t, BATCH_HEADER.positions["max_timestamp"])

_REFUSED = cython.declare(cython.longlong, CODEC_MASK | CONTROL_FLAG | TIMESTAMP_TYPE_FLAG)
_APPEND_TIME = cython.declare(cython.longlong, TIMESTAMP_TYPE_FLAG)
_KEPT_ATTRIBUTES = cython.declare(cython.longlong, 0x7F)


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def judge_records(records: cython.longlong[:, ::1], count: cython.Py_ssize_t, batches: cython.longlong[:, ::1],
                  low: cython.longlong, high: cython.longlong, traits: cython.longlong[:, ::1]):
    """Note in `traits` what the first `count` records are → how many were looked at, −1 for columns that do not fit.

    records    RecordColumns: BATCH, OFFSET, TIMESTAMP, KEY_SIZE        batches  BatchColumns: BASE_OFFSET
    low, high  timestamps that are allowed; −1 always is
    traits   in and out, see Trait: one column for each batch that BATCH names
    """
    index: cython.Py_ssize_t
    row: cython.Py_ssize_t
    rows: cython.Py_ssize_t = min(batches.shape[1], traits.shape[1])
    timestamp: cython.longlong
    base: cython.longlong
    flags: cython.longlong
    if count < 0 or count > records.shape[1] or traits.shape[0] < _TRAITS: return -1
    with cython.nogil:
        for index in range(count):
            row = records[_R_BATCH, index]
            if row < 0 or row >= rows: return -1
            flags = 0
            timestamp = records[_R_TIMESTAMP, index]
            base = batches[_BASE_OFFSET, row]
            if timestamp > traits[_LARGEST, row]: traits[_LARGEST, row] = timestamp
            if timestamp != -1 and (timestamp < low or timestamp > high): flags |= _TIMESTAMP_FLAG
            if records[_R_KEY_SIZE, index] < 0: flags |= _NULL_KEY
            if base > fields.LONG_MAX - traits[_SEEN, row] or records[_R_OFFSET, index] != base + traits[_SEEN, row]:
                flags |= _OFFSETS
            traits[_SEEN, row] += 1
            traits[_FLAGS, row] |= flags
        return count


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.longlong))
def stamp_batches(data: cython.uchar[::1], batches: cython.longlong[:, ::1], row: cython.Py_ssize_t,
                  last_row: cython.Py_ssize_t, traits: cython.longlong[:, ::1], refused: cython.longlong,
                  largest_size: cython.longlong, next_offset: cython.longlong, leader_epoch: cython.longlong,
                  append_time: cython.longlong):
    """Give the batches row … last_row − 1 their offsets, as long as they can be taken as they are → (row, next offset).

    data          the batches; offset and epoch are written, timestamps and attributes where they change
    batches       BatchColumns of `data`, changed alike, but for the checksum
    traits      in: what `judge_records` made of them; out: CHANGED is 1 where the checksum has to be made anew
    refused       a batch with one of these Flags is not taken
    largest_size  nor one with more bytes
    append_time   ms, stamped on every batch (LogAppendTime); −1: batches keep their records' own (CreateTime)
    It stops, without touching it, at a batch that a client may not send or that has to be looked at more closely: wrong
    checksum, format other than 2, compressed, control, LogAppendTime of its own, base offset other than 0, a count other
    than its offsets say, a producer without sequence, more offsets than there are.
    """
    at: cython.Py_ssize_t
    size: cython.longlong
    count: cython.longlong
    largest: cython.longlong
    attributes: cython.longlong
    wanted: cython.longlong
    if row < 0 or last_row > batches.shape[1] or last_row > traits.shape[1]: return row, next_offset
    if traits.shape[0] < _TRAITS: return row, next_offset
    with cython.nogil:
        while row < last_row:
            at = batches[_POSITION, row]
            size = batches[_SIZE, row]
            count = batches[_COUNT, row]
            attributes = batches[_ATTRIBUTES, row]
            if at < 0 or size < _HEADER or size > largest_size or size > data.shape[0] or at > data.shape[0] - size:
                return row, next_offset
            if batches[_VALID, row] != 1 or batches[_MAGIC, row] != 2 or attributes & _REFUSED: return row, next_offset
            if batches[_BASE_OFFSET, row] != 0 or count <= 0 or batches[_LAST_OFFSET, row] != count - 1: return row, next_offset
            if traits[_FLAGS, row] & refused or traits[_SEEN, row] != count: return row, next_offset
            if batches[_PRODUCER_ID, row] > -1 and batches[_BASE_SEQUENCE, row] < 0: return row, next_offset
            if next_offset > fields.LONG_MAX - count: return row, next_offset
            wanted = attributes
            largest = traits[_LARGEST, row]
            if append_time >= 0:
                wanted = attributes | _APPEND_TIME
                largest = append_time
            traits[_CHANGED, row] = wanted != attributes or largest != batches[_MAX_TIMESTAMP, row]
            if traits[_CHANGED, row]:
                data[at + _ATTRIBUTES_AT] = 0
                data[at + _ATTRIBUTES_AT + 1] = wanted & _KEPT_ATTRIBUTES
                put_int(data, at + _TIMESTAMP_AT, largest, 8)
                batches[_ATTRIBUTES, row] = wanted & _KEPT_ATTRIBUTES
                batches[_MAX_TIMESTAMP, row] = largest
            put_int(data, at, next_offset, 8)
            put_int(data, at + _EPOCH_AT, leader_epoch, 4)
            batches[_BASE_OFFSET, row] = next_offset
            next_offset += count
            batches[_LAST_OFFSET, row] = next_offset - 1
            batches[_LEADER_EPOCH, row] = leader_epoch
            row += 1
        return row, next_offset
