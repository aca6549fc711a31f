# cython: language_level=3, boundscheck=False, wraparound=False
"""Messages of formats 0 and 1 → columns. Mirrors LegacyRecord and AbstractLegacyRecordBatch.DataLogInputStream.

Any magic but 0 is laid out like 1, as Kafka reads it.
"""

import cython

from engine.formats import (
    CODEC_MASK,
    LEGACY_OVERHEAD_V0,
    LEGACY_V0,
    LEGACY_V1,
    LOG_OVERHEAD,
    MAGIC_V1,
    RECORD_FIELDS,
    RecordField,
    Status,
)

if cython.compiled:
    from cython.cimports.engine.kernels.checksum import checksum
else:
    from engine.kernels.checksum import checksum

_OVERHEAD = cython.declare(cython.Py_ssize_t, LOG_OVERHEAD)
_SMALLEST = cython.declare(cython.Py_ssize_t, LEGACY_OVERHEAD_V0)
_SIZE_AT = cython.declare(cython.Py_ssize_t, LEGACY_V1.positions["message_size"])
_CRC_AT = cython.declare(cython.Py_ssize_t, LEGACY_V1.positions["crc"])
_MAGIC_AT = cython.declare(cython.Py_ssize_t, LEGACY_V1.positions["magic"])
_ATTRIBUTES_AT = cython.declare(cython.Py_ssize_t, LEGACY_V1.positions["attributes"])
_TIMESTAMP_AT = cython.declare(cython.Py_ssize_t, LEGACY_V1.positions["timestamp"])
_KEY_AT_V0 = cython.declare(cython.Py_ssize_t, LEGACY_V0.positions["key_size"])
_KEY_AT_V1 = cython.declare(cython.Py_ssize_t, LEGACY_V1.positions["key_size"])
_V1 = cython.declare(cython.int, MAGIC_V1)
_CODEC = cython.declare(cython.int, CODEC_MASK)
_FIELDS = cython.declare(cython.Py_ssize_t, RECORD_FIELDS)

_END = cython.declare(cython.int, Status.END)
_TORN = cython.declare(cython.int, Status.TORN)
_BAD_SIZE = cython.declare(cython.int, Status.BAD_SIZE)
_FULL = cython.declare(cython.int, Status.FULL)
_BAD_START = cython.declare(cython.int, Status.BAD_START)
_BAD_RECORD = cython.declare(cython.int, Status.BAD_RECORD)
_BAD_CODEC = cython.declare(cython.int, Status.BAD_CODEC)

_BATCH = cython.declare(cython.int, RecordField.BATCH)
_OFFSET = cython.declare(cython.int, RecordField.OFFSET)
_TIMESTAMP = cython.declare(cython.int, RecordField.TIMESTAMP)
_KEY_POSITION = cython.declare(cython.int, RecordField.KEY_POSITION)
_KEY_SIZE = cython.declare(cython.int, RecordField.KEY_SIZE)
_VALUE_POSITION = cython.declare(cython.int, RecordField.VALUE_POSITION)
_VALUE_SIZE = cython.declare(cython.int, RecordField.VALUE_SIZE)
_HEADERS_POSITION = cython.declare(cython.int, RecordField.HEADERS_POSITION)
_HEADER_COUNT = cython.declare(cython.int, RecordField.HEADER_COUNT)
_CRC = cython.declare(cython.int, RecordField.CRC)
_VALID = cython.declare(cython.int, RecordField.VALID)

_LARGEST = cython.declare(cython.longlong, 2**63 - 1)

# Messages up to this size are checked here; a library call pays for larger ones, and always when interpreted.
_INLINE_CRC = cython.declare(cython.Py_ssize_t, 1024 if cython.compiled else 0)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _u32(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.longlong:
    value: cython.longlong = data[at]
    value = value * 256 + data[at + 1]
    value = value * 256 + data[at + 2]
    return value * 256 + data[at + 3]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _i32(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.longlong:
    value: cython.longlong = data[at]
    if value >= 128:  # the sign lives in the top byte: no mask, no overflow, same in both builds
        value -= 256
    value = value * 256 + data[at + 1]
    value = value * 256 + data[at + 2]
    return value * 256 + data[at + 3]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _i64(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.longlong:
    value: cython.longlong = _i32(data, at)
    value = value * 65536 + data[at + 4] * 256 + data[at + 5]
    return value * 65536 + data[at + 6] * 256 + data[at + 7]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _sum(one: cython.longlong, other: cython.longlong) -> cython.longlong:
    """one + other as Java adds longs: around at 2^63."""
    if other > 0 and one > _LARGEST - other: return (one - _LARGEST - 1) + (other - _LARGEST - 1)
    if other < 0 and one < -_LARGEST - 1 - other: return (one + _LARGEST + 1) + (other + _LARGEST + 1)
    return one + other


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.longlong, cython.Py_ssize_t, cython.int))
def measure_messages(data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t):
    """Walk the whole messages of data[start:end] → (messages, offset of the last, where the walk stopped, status).

    status  END · TORN (a message goes on behind `end`: Kafka takes that for the end of an inner set)
            · BAD_SIZE (below 14, the smallest message) · BAD_START (arguments outside `data`)
    Mirrors DataLogInputStream.nextBatch.
    """
    at: cython.Py_ssize_t = start
    count: cython.Py_ssize_t = 0
    last: cython.longlong = -1
    size: cython.longlong
    if start < 0 or start > end or end > data.shape[0]: return 0, -1, start, _BAD_START
    with cython.nogil:
        while at < end:
            if end - at < _OVERHEAD: return count, last, at, _TORN
            size = _i32(data, at + _SIZE_AT)
            if size < _SMALLEST: return count, last, at, _BAD_SIZE
            if size > end - at - _OVERHEAD: return count, last, at, _TORN
            last = _i64(data, at)
            count += 1
            at += _OVERHEAD + size
        return count, last, at, _END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def decode_messages(data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t,
                    batch: cython.longlong, step: cython.int, base: cython.longlong, append: cython.bint,
                    append_time: cython.longlong, records: cython.longlong[:, ::1], filled: cython.Py_ssize_t,
                    ieee: cython.const[cython.uint][::1]):
    """Decode uncompressed messages of data[start:end] → (columns filled, where it stopped, unchecked, status).

    batch        for RecordField.BATCH of the first message; `step` more for each one behind it: 0 for an inner set,
                 1 for plain entries that stand one behind the other
    base         is added to each offset: 0 for absolute ones
    append, append_time  the wrapper's append time replaces the timestamps of messages of format 1
    records      out, RecordColumns, from column `filled` on. Sizes below 0 are nulls and are given as stored;
                 HEADER_COUNT is 0. Timestamps of format 0 are -1
    ieee         tables of CRC-32
    unchecked    messages too large to be checked here: VALID is minus the bytes that their checksum covers,
                 HEADERS_POSITION where these begin; the caller puts 0 or 1 into VALID
    status       END · FULL (columns used up: call again from where it stopped) · TORN · BAD_SIZE · BAD_START
                 · BAD_RECORD (a key or value that does not fit) · BAD_CODEC (the message is compressed)
                 The messages before the damage are in the columns.
    """
    capacity: cython.Py_ssize_t = records.shape[1]
    at: cython.Py_ssize_t = start
    unchecked: cython.Py_ssize_t = 0
    message_end: cython.Py_ssize_t
    field: cython.Py_ssize_t
    size: cython.longlong
    length: cython.longlong
    crc: cython.longlong
    magic: cython.int
    if start < 0 or start > end or end > data.shape[0] or filled < 0 or records.shape[0] < _FIELDS:
        return filled, start, 0, _BAD_START
    with cython.nogil:
        while at < end:
            if end - at < _OVERHEAD: return filled, at, unchecked, _TORN
            size = _i32(data, at + _SIZE_AT)
            if size < _SMALLEST: return filled, at, unchecked, _BAD_SIZE
            if size > end - at - _OVERHEAD: return filled, at, unchecked, _TORN
            if filled >= capacity: return filled, at, unchecked, _FULL
            message_end = at + _OVERHEAD + size
            magic = data[at + _MAGIC_AT]
            if data[at + _ATTRIBUTES_AT] & _CODEC: return filled, at, unchecked, _BAD_CODEC
            records[_TIMESTAMP, filled] = -1
            field = at + _KEY_AT_V0
            if magic != 0:
                field = at + _KEY_AT_V1
                if message_end - field < 4: return filled, at, unchecked, _BAD_RECORD
                records[_TIMESTAMP, filled] = _i64(data, at + _TIMESTAMP_AT)
                if append and magic == _V1: records[_TIMESTAMP, filled] = append_time
            length = _i32(data, field)
            field += 4
            records[_KEY_POSITION, filled] = field
            records[_KEY_SIZE, filled] = length
            if length > 0:
                if length > message_end - field: return filled, at, unchecked, _BAD_RECORD
                field += length
            if message_end - field < 4: return filled, at, unchecked, _BAD_RECORD
            length = _i32(data, field)
            field += 4
            if length > message_end - field: return filled, at, unchecked, _BAD_RECORD
            records[_VALUE_POSITION, filled] = field
            records[_VALUE_SIZE, filled] = length
            records[_BATCH, filled] = batch
            records[_OFFSET, filled] = _sum(base, _i64(data, at))
            records[_HEADERS_POSITION, filled] = at + _MAGIC_AT
            records[_HEADER_COUNT, filled] = 0
            crc = _u32(data, at + _CRC_AT)
            records[_CRC, filled] = crc
            if size <= _INLINE_CRC:
                records[_VALID, filled] = crc == checksum(data, at + _MAGIC_AT, message_end, ieee)
            else:
                records[_VALID, filled] = at + _MAGIC_AT - message_end
                unchecked += 1
            filled += 1
            batch += step
            at = message_end
        return filled, at, unchecked, _END
