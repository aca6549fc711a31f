# cython: language_level=3, boundscheck=False, wraparound=False
"""Decode messages of formats 0 and 1. Mirrors LegacyRecord and AbstractLegacyRecordBatch.DataLogInputStream.

Any magic other than 0 is read with the layout of 1, as in Kafka.
"""

import cython
from cython.cimports.engine.kernels import fields
from cython.cimports.engine.kernels.checksum import crc32
from cython.cimports.engine.kernels.numbers import i32, i64, u32, wrapped_sum


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.longlong, cython.Py_ssize_t, cython.int))
def measure_messages(data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t):
    """Walk the complete messages of data[start:end] → (messages, offset of the last, where the walk stopped, status).

    status  END · TORN (a message continues after `end`: Kafka treats that as the end of an inner set)
            · BAD_SIZE (below 14, the smallest message) · BAD_START (arguments outside `data`)
    Mirrors DataLogInputStream.nextBatch.
    """
    at: cython.Py_ssize_t = start
    count: cython.Py_ssize_t = 0
    last: cython.longlong = -1
    size: cython.longlong
    if start < 0 or start > end or end > data.shape[0]: return 0, -1, start, fields.BAD_START
    with cython.nogil:
        while at < end:
            if end - at < fields.OVERHEAD: return count, last, at, fields.TORN
            size = i32(data, at + fields.V1_MESSAGE_SIZE_AT)
            if size < fields.V0_OVERHEAD: return count, last, at, fields.BAD_SIZE
            if size > end - at - fields.OVERHEAD: return count, last, at, fields.TORN
            last = i64(data, at)
            count += 1
            at += fields.OVERHEAD + size
        return count, last, at, fields.END


@cython.final
@cython.cclass
class Origin:
    """The batch of messages, and how their offsets and timestamps are computed.

    batch        RecordField.BATCH of the first message
    step         is added to `batch` for each next message: 0 for an inner set, 1 for plain entries
    base         is added to each offset: 0 for absolute offsets
    append, append_time  if `append`, the wrapper's append time replaces the timestamps of messages of format 1
    """

    batch: cython.longlong
    step: cython.int
    base: cython.longlong
    append: cython.bint
    append_time: cython.longlong

    def __init__(self, batch: cython.longlong, step: cython.int, base: cython.longlong = 0, append: cython.bint = False,
                  append_time: cython.longlong = 0):
        self.batch, self.step, self.base, self.append, self.append_time = batch, step, base, append, append_time


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def decode_messages(data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t,
                    origin: Origin, records: cython.longlong[:, ::1], filled: cython.Py_ssize_t,
                    ieee: cython.const[cython.uint][::1]):
    """Decode uncompressed messages of data[start:end] → (rows filled, where it stopped, status).

    records      out, RecordColumns, from row `filled` on. Sizes below 0 are nulls, copied as stored;
                 HEADER_COUNT is 0. Timestamps of format 0 are −1
    ieee         tables of CRC-32
    status       END · FULL (columns used up: call again from where it stopped) · TORN · BAD_SIZE · BAD_START
                 · BAD_RECORD (a key or size field does not fit) · BAD_VALUE (the value does not fit: all other fields of the
                 message are in row `filled`, its size as stored) · BAD_CODEC (the message is compressed)
                 The messages before the damage are in the columns.
    """
    capacity: cython.Py_ssize_t = records.shape[1]
    at: cython.Py_ssize_t = start
    batch: cython.longlong = origin.batch
    message_end: cython.Py_ssize_t
    field: cython.Py_ssize_t
    size: cython.longlong
    length: cython.longlong
    crc: cython.longlong
    magic: cython.int
    if start < 0 or start > end or end > data.shape[0] or filled < 0 or records.shape[0] < fields.R_FIELDS:
        return filled, start, fields.BAD_START
    with cython.nogil:
        while at < end:
            if end - at < fields.OVERHEAD: return filled, at, fields.TORN
            size = i32(data, at + fields.V1_MESSAGE_SIZE_AT)
            if size < fields.V0_OVERHEAD: return filled, at, fields.BAD_SIZE
            if size > end - at - fields.OVERHEAD: return filled, at, fields.TORN
            if filled >= capacity: return filled, at, fields.FULL
            message_end = at + fields.OVERHEAD + size
            magic = data[at + fields.V1_MAGIC_AT]
            if data[at + fields.V1_ATTRIBUTES_AT] & fields.CODEC_MASK: return filled, at, fields.BAD_CODEC
            records[fields.R_TIMESTAMP, filled] = -1
            field = at + fields.V0_KEY_SIZE_AT
            if magic != 0:
                field = at + fields.V1_KEY_SIZE_AT
                if message_end - field < 4: return filled, at, fields.BAD_RECORD
                records[fields.R_TIMESTAMP, filled] = i64(data, at + fields.V1_TIMESTAMP_AT)
                if origin.append and magic == 1: records[fields.R_TIMESTAMP, filled] = origin.append_time
            length = i32(data, field)
            field += 4
            records[fields.R_KEY_POSITION, filled] = field
            records[fields.R_KEY_SIZE, filled] = length
            if length > 0:
                if length > message_end - field: return filled, at, fields.BAD_RECORD
                field += length
            if message_end - field < 4: return filled, at, fields.BAD_RECORD
            length = i32(data, field)
            field += 4
            records[fields.R_VALUE_POSITION, filled] = field
            records[fields.R_VALUE_SIZE, filled] = length
            records[fields.R_BATCH, filled] = batch
            records[fields.R_OFFSET, filled] = wrapped_sum(origin.base, i64(data, at))
            records[fields.R_HEADERS_POSITION, filled] = message_end
            records[fields.R_HEADER_COUNT, filled] = 0
            crc = u32(data, at + fields.V1_CRC_AT)
            records[fields.R_CRC, filled] = crc
            records[fields.R_VALID, filled] = crc == crc32(data, at + fields.V1_MAGIC_AT, message_end, ieee)
            if length > message_end - field: return filled, at, fields.BAD_VALUE
            filled += 1
            batch += origin.step
            at = message_end
        return filled, at, fields.END
