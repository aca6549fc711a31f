# cython: language_level=3, boundscheck=False, wraparound=False
"""Walk the batches of a window and read their headers into columns. Mirrors FileLogInputStream.

One walk serves every message format: offset, size and magic stand at the same place in all of them.
"""

import cython

from engine.formats import (
    BATCH_HEADER,
    HEADER_SIZE_UP_TO_MAGIC,
    LEGACY_OVERHEAD_V0,
    LEGACY_OVERHEAD_V1,
    LEGACY_V0,
    LEGACY_V1,
    LOG_OVERHEAD,
    MIN_RECORD_SIZE,
    BatchField,
    Status,
)

if cython.compiled:
    from cython.cimports.engine.kernels.checksum import checksum
else:
    from engine.kernels.checksum import checksum

_HEADER = cython.declare(cython.Py_ssize_t, BATCH_HEADER.size)
_PRELUDE = cython.declare(cython.Py_ssize_t, HEADER_SIZE_UP_TO_MAGIC)
_OVERHEAD = cython.declare(cython.Py_ssize_t, LOG_OVERHEAD)
_SMALLEST = cython.declare(cython.Py_ssize_t, MIN_RECORD_SIZE)
_LEGACY_TIMESTAMP_END = cython.declare(cython.Py_ssize_t, LOG_OVERHEAD + LEGACY_OVERHEAD_V0)

_SMALLEST_V1 = cython.declare(cython.Py_ssize_t, LEGACY_OVERHEAD_V1)
_KEY_AT_V0 = cython.declare(cython.Py_ssize_t, LEGACY_V0.positions["key_size"])
_KEY_AT_V1 = cython.declare(cython.Py_ssize_t, LEGACY_V1.positions["key_size"])

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

_END = cython.declare(cython.int, Status.END)
_TORN = cython.declare(cython.int, Status.TORN)
_BAD_SIZE = cython.declare(cython.int, Status.BAD_SIZE)
_FULL = cython.declare(cython.int, Status.FULL)
_BAD_START = cython.declare(cython.int, Status.BAD_START)

_POSITION = cython.declare(cython.int, BatchField.POSITION)
_SIZE = cython.declare(cython.int, BatchField.SIZE)
_MAGIC = cython.declare(cython.int, BatchField.MAGIC)
_VALID = cython.declare(cython.int, BatchField.VALID)
_CRC = cython.declare(cython.int, BatchField.CRC)
_ATTRIBUTES = cython.declare(cython.int, BatchField.ATTRIBUTES)
_BASE_OFFSET = cython.declare(cython.int, BatchField.BASE_OFFSET)
_LAST_OFFSET = cython.declare(cython.int, BatchField.LAST_OFFSET)
_COUNT = cython.declare(cython.int, BatchField.COUNT)
_MAX_TIMESTAMP = cython.declare(cython.int, BatchField.MAX_TIMESTAMP)
_BASE_TIMESTAMP = cython.declare(cython.int, BatchField.BASE_TIMESTAMP)
_PRODUCER_ID = cython.declare(cython.int, BatchField.PRODUCER_ID)
_PRODUCER_EPOCH = cython.declare(cython.int, BatchField.PRODUCER_EPOCH)
_BASE_SEQUENCE = cython.declare(cython.int, BatchField.BASE_SEQUENCE)
_LEADER_EPOCH = cython.declare(cython.int, BatchField.LEADER_EPOCH)
_BODY = cython.declare(cython.int, BatchField.BODY)
_BODY_END = cython.declare(cython.int, BatchField.BODY_END)

_LARGEST = cython.declare(cython.longlong, 2**63 - 1)

# Batches up to this size are checked here; a library call pays for larger ones, and always when interpreted.
_INLINE_CRC = cython.declare(cython.Py_ssize_t, 1024 if cython.compiled else 0)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _i16(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.longlong:
    value: cython.longlong = data[at]
    if value >= 128: value -= 256
    return value * 256 + data[at + 1]


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
    high: cython.longlong = _i16(data, at)  # the sign lives in the top byte: no mask, no overflow, same in both builds
    high = high * 256 + data[at + 2]
    return high * 256 + data[at + 3]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _i64(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.longlong:
    high: cython.longlong = _i32(data, at)
    high = high * 65536 + data[at + 4] * 256 + data[at + 5]
    return high * 65536 + data[at + 6] * 256 + data[at + 7]


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def scan_batches(data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t,
                 batches: cython.longlong[:, ::1],
                 castagnoli: cython.const[cython.uint][::1], ieee: cython.const[cython.uint][::1]):
    """Walk the whole batches of data[start:end] → (columns filled, where the walk stopped, status).

    data      read-only bytes, any content       start, end  byte positions in `data`
    batches   out, one column per batch: see formats.BatchField
    castagnoli, ieee   tables of `checksum.make_tables`
    status    END · TORN (17 bytes or fewer are left, or the batch goes on behind `end`) · BAD_SIZE (a size field below
              14) · FULL (columns used up) · BAD_START (arguments outside `data`)
    A batch of magic 2 that is smaller than its header has VALID 0 and an empty body.
    """
    capacity: cython.Py_ssize_t = batches.shape[1]
    at: cython.Py_ssize_t = start
    row: cython.Py_ssize_t = 0
    size: cython.longlong
    crc: cython.longlong
    magic: cython.longlong
    if start < 0 or end < start or end > data.shape[0]: return 0, start, _BAD_START
    with cython.nogil:
        while True:
            if at == end: return row, at, _END
            if end - at <= _PRELUDE: return row, at, _TORN
            size = _i32(data, at + _LENGTH_AT)
            if size < _SMALLEST: return row, at, _BAD_SIZE
            if size > end - at - _OVERHEAD: return row, at, _TORN
            if row == capacity: return row, at, _FULL
            size += _OVERHEAD
            magic = data[at + _MAGIC_AT]
            if magic >= 128: magic -= 256
            batches[_POSITION, row] = at
            batches[_SIZE, row] = size
            batches[_MAGIC, row] = magic
            batches[_BODY_END, row] = at + size
            batches[_BASE_OFFSET, row] = _i64(data, at)
            if magic >= 2:
                if end - at < _HEADER: return row, at, _TORN
                crc = _u32(data, at + _CRC_AT)
                batches[_CRC, row] = crc
                batches[_ATTRIBUTES, row] = data[at + _ATTRIBUTES_AT + 1]
                batches[_LAST_OFFSET, row] = _sum(batches[_BASE_OFFSET, row], _i32(data, at + _DELTA_AT))
                batches[_COUNT, row] = _i32(data, at + _COUNT_AT)
                batches[_MAX_TIMESTAMP, row] = _i64(data, at + _MAX_TIMESTAMP_AT)
                batches[_BASE_TIMESTAMP, row] = _i64(data, at + _BASE_TIMESTAMP_AT)
                batches[_PRODUCER_ID, row] = _i64(data, at + _PRODUCER_AT)
                batches[_PRODUCER_EPOCH, row] = _i16(data, at + _PRODUCER_EPOCH_AT)
                batches[_BASE_SEQUENCE, row] = _i32(data, at + _SEQUENCE_AT)
                batches[_LEADER_EPOCH, row] = _i32(data, at + _EPOCH_AT)
                batches[_BODY, row] = at + _HEADER
                if size < _HEADER:
                    batches[_BODY, row] = at + size
                    batches[_VALID, row] = 0
                elif size <= _INLINE_CRC:
                    batches[_VALID, row] = crc == checksum(data, at + _ATTRIBUTES_AT, at + size, castagnoli)
                else:
                    batches[_VALID, row] = -1
            else:
                crc = _u32(data, at + _OVERHEAD)
                batches[_CRC, row] = crc
                batches[_ATTRIBUTES, row] = data[at + _PRELUDE]
                batches[_LAST_OFFSET, row] = batches[_BASE_OFFSET, row]
                batches[_COUNT, row] = -1
                batches[_MAX_TIMESTAMP, row] = -1
                if magic != 0 and end - at >= _LEGACY_TIMESTAMP_END:
                    batches[_MAX_TIMESTAMP, row] = _i64(data, at + _PRELUDE + 1)
                batches[_BASE_TIMESTAMP, row] = batches[_MAX_TIMESTAMP, row]
                batches[_PRODUCER_ID, row] = -1
                batches[_PRODUCER_EPOCH, row] = -1
                batches[_BASE_SEQUENCE, row] = -1
                batches[_LEADER_EPOCH, row] = -1
                batches[_BODY, row] = at
                if size <= _INLINE_CRC:
                    batches[_VALID, row] = crc == checksum(data, at + _MAGIC_AT, at + size, ieee)
                else:
                    batches[_VALID, row] = -1
            row += 1
            at += size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _sum(offset: cython.longlong, delta: cython.longlong) -> cython.longlong:
    """offset + delta as Java adds longs: a sum behind 2^63 − 1 goes on at −2^63. delta fits 32 bits."""
    if delta > 0 and offset > _LARGEST - delta:
        return offset - _LARGEST - 1 + delta - _LARGEST - 1
    if delta < 0 and offset < -_LARGEST - 1 - delta:
        return offset + _LARGEST + 1 + delta + _LARGEST + 1
    return offset + delta


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def find_candidate(data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, behind: cython.Py_ssize_t,
                   end: cython.Py_ssize_t, largest: cython.longlong):
    """First position from `start` on, before `behind`, that may begin a batch of any format; −1: none.

    A candidate has magic 0, 1 or 2, a size between its header and `largest` bytes, a codec that exists, and plausible
    offset, delta, count or key size. Its checksum is the caller's to check: the batch may go on behind `end`. A batch of
    format 2 is only seen where its whole header lies before `end`: where data go on there, `behind` must leave room.
    """
    at: cython.Py_ssize_t = start
    size: cython.longlong
    count: cython.longlong
    magic: cython.int
    if start < 0 or end > data.shape[0]: return -1
    with cython.nogil:
        while at < behind and end - at >= _OVERHEAD + _SMALLEST:
            magic = data[at + _MAGIC_AT]
            if magic <= 2 and data[at] < 128:
                size = _i32(data, at + _LENGTH_AT) + _OVERHEAD
                if magic == 2:
                    if end - at >= _HEADER and data[at + _ATTRIBUTES_AT] == 0 and data[at + _ATTRIBUTES_AT + 1] & 7 <= 4:
                        count = _i32(data, at + _COUNT_AT)
                        if _HEADER <= size <= largest and 0 <= count <= size and _i32(data, at + _DELTA_AT) >= 0:
                            return at
                elif data[at + _PRELUDE] <= 15 and data[at + _PRELUDE] & 7 <= 3 and size <= largest:
                    if magic == 0 and size >= _OVERHEAD + _SMALLEST and -1 <= _i32(data, at + _KEY_AT_V0) <= size:
                        return at
                    if magic == 1 and size >= _OVERHEAD + _SMALLEST_V1 and end - at >= _KEY_AT_V1 + 4:
                        if -1 <= _i32(data, at + _KEY_AT_V1) <= size: return at
            at += 1
        return -1


if not cython.compiled:
    from engine.kernels.reference import scan_batches  # noqa: F401  # too slow interpreted
