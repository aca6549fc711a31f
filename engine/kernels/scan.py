# cython: language_level=3, boundscheck=False, wraparound=False
"""Scan the batches of a window and read their headers into columns. Mirrors FileLogInputStream.

Offset, size and magic have the same positions in all message formats, so one loop reads all formats.
"""

import cython
from cython.cimports.engine.kernels import fields
from cython.cimports.engine.kernels.checksum import crc32, crc32c, crc32c_reach, sliced_reach
from cython.cimports.engine.kernels.numbers import i16, i32, i64, u32, varint, wrapped_sum

# Largest messages that are checked here.
_INLINE_CRC32 = cython.declare(cython.Py_ssize_t, sliced_reach())


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def scan_batches(data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t,
                 batches: cython.longlong[:, ::1],
                 castagnoli: cython.const[cython.uint][::1], ieee: cython.const[cython.uint][::1]):
    """Scan the complete batches of data[start:end] → (rows filled, where the scan stopped, status).

    data      read-only bytes, any content       start, end  byte positions in `data`
    batches   out, a row for each batch: see formats.BatchField
    castagnoli, ieee   tables of `checksum.make_tables`
    status    END · TORN (17 bytes or fewer are left, or the batch continues after `end`) · BAD_SIZE (a size field below
              14) · FULL (columns used up) · BAD_START (arguments outside `data`)
    A batch of magic 2 that is smaller than its header has VALID 0 and an empty body.
    """
    capacity: cython.Py_ssize_t = batches.shape[1]
    at: cython.Py_ssize_t = start
    row: cython.Py_ssize_t = 0
    reach: cython.Py_ssize_t = crc32c_reach()
    size: cython.longlong
    crc: cython.longlong
    magic: cython.longlong
    if start < 0 or end < start or end > data.shape[0]: return 0, start, fields.BAD_START
    with cython.nogil:
        while True:
            if at == end: return row, at, fields.END
            if end - at <= fields.UP_TO_MAGIC: return row, at, fields.TORN
            size = i32(data, at + fields.V2_BATCH_LENGTH_AT)
            if size < fields.SMALLEST: return row, at, fields.BAD_SIZE
            if size > end - at - fields.OVERHEAD: return row, at, fields.TORN
            if row == capacity: return row, at, fields.FULL
            size += fields.OVERHEAD
            magic = _magic(data, at)
            if magic >= fields.MAGIC_V2 and end - at < fields.V2_SIZE: return row, at, fields.TORN
            _read_head(data, at, end, at, size, batches, row)
            if magic >= fields.MAGIC_V2:
                if size < fields.V2_SIZE:
                    batches[fields.B_VALID, row] = 0
                elif size <= reach:
                    crc = crc32c(data, at + fields.V2_ATTRIBUTES_AT, at + size, castagnoli)
                    batches[fields.B_VALID, row] = crc == batches[fields.B_CRC, row]
            elif size <= _INLINE_CRC32:
                crc = crc32(data, at + fields.V2_MAGIC_AT, at + size, ieee)
                batches[fields.B_VALID, row] = crc == batches[fields.B_CRC, row]
            row += 1
            at += size


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.longlong, cython.int))
def scan_heads(data: cython.const[cython.uchar][::1], stride: cython.Py_ssize_t, position: cython.longlong,
               end: cython.longlong, batches: cython.longlong[:, ::1]):
    """Read only the headers of batches → (rows filled, position after them, status).

    data      stride 0: the bytes of the file from `position` on; else a header at each multiple of `stride`, of batches that
              follow each other in the file from `position` on
    position, end  positions in the file: start of the first batch, end of the log
    batches   out, as in `scan_batches`, but with positions in the file, and VALID −1
    status    END: `data` has no other complete header, or the file ends here · FULL · TORN, BAD_SIZE, BAD_START as in
              `scan_batches`
    """
    capacity: cython.Py_ssize_t = batches.shape[1]
    first: cython.longlong = position
    row: cython.Py_ssize_t = 0
    at: cython.longlong = 0
    here: cython.longlong
    left: cython.longlong
    size: cython.longlong
    magic: cython.longlong
    if stride < 0 or position < 0 or end < position: return 0, position, fields.BAD_START
    with cython.nogil:
        while True:
            if position == end: return row, position, fields.END
            at = position - first if stride == 0 else row * stride
            if at >= data.shape[0]: return row, position, fields.END
            here = data.shape[0] - at if stride == 0 else min(stride, data.shape[0] - at)
            left = end - position
            if here < fields.V2_SIZE and here < left: return row, position, fields.END
            here = min(here, left)
            if here <= fields.UP_TO_MAGIC: return row, position, fields.TORN
            size = i32(data, at + fields.V2_BATCH_LENGTH_AT)
            if size < fields.SMALLEST: return row, position, fields.BAD_SIZE
            if size > left - fields.OVERHEAD: return row, position, fields.TORN
            magic = _magic(data, at)
            if magic >= fields.MAGIC_V2 and here < fields.V2_SIZE: return row, position, fields.TORN
            if row == capacity: return row, position, fields.FULL
            size += fields.OVERHEAD
            _read_head(data, at, at + here, position, size, batches, row)
            if magic >= fields.MAGIC_V2 and size < fields.V2_SIZE: batches[fields.B_VALID, row] = 0
            row += 1
            position += size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _magic(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.longlong:
    """Return the signed magic of the batch at `at`."""
    magic: cython.longlong = data[at + fields.V2_MAGIC_AT]
    return magic - 256 if magic >= 128 else magic


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _read_head(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t,
               position: cython.longlong, size: cython.longlong, batches: cython.longlong[:, ::1],
               row: cython.Py_ssize_t) -> cython.void:
    """Fill a row from the header at `at` of a batch of `size` bytes at `position`; VALID is −1.

    The caller has checked that the header lies before `end`: up to the magic, in format 2 completely.
    """
    magic: cython.longlong = _magic(data, at)
    delta: cython.longlong
    batches[fields.B_POSITION, row] = position
    batches[fields.B_SIZE, row] = size
    batches[fields.B_MAGIC, row] = magic
    batches[fields.B_VALID, row] = -1
    batches[fields.B_BODY_END, row] = position + size
    batches[fields.B_BASE_OFFSET, row] = i64(data, at)
    if magic >= fields.MAGIC_V2:
        batches[fields.B_CRC, row] = u32(data, at + fields.V2_CRC_AT)
        batches[fields.B_ATTRIBUTES, row] = data[at + fields.V2_ATTRIBUTES_AT + 1]
        delta = i32(data, at + fields.V2_LAST_OFFSET_DELTA_AT)
        batches[fields.B_LAST_OFFSET, row] = wrapped_sum(batches[fields.B_BASE_OFFSET, row], delta)
        batches[fields.B_COUNT, row] = i32(data, at + fields.V2_RECORD_COUNT_AT)
        batches[fields.B_MAX_TIMESTAMP, row] = i64(data, at + fields.V2_MAX_TIMESTAMP_AT)
        batches[fields.B_BASE_TIMESTAMP, row] = i64(data, at + fields.V2_BASE_TIMESTAMP_AT)
        batches[fields.B_PRODUCER_ID, row] = i64(data, at + fields.V2_PRODUCER_ID_AT)
        batches[fields.B_PRODUCER_EPOCH, row] = i16(data, at + fields.V2_PRODUCER_EPOCH_AT)
        batches[fields.B_BASE_SEQUENCE, row] = i32(data, at + fields.V2_BASE_SEQUENCE_AT)
        batches[fields.B_LEADER_EPOCH, row] = i32(data, at + fields.V2_PARTITION_LEADER_EPOCH_AT)
        batches[fields.B_BODY, row] = position + min(size, fields.V2_SIZE)
    else:
        batches[fields.B_CRC, row] = u32(data, at + fields.OVERHEAD)
        batches[fields.B_ATTRIBUTES, row] = data[at + fields.UP_TO_MAGIC]
        batches[fields.B_LAST_OFFSET, row] = batches[fields.B_BASE_OFFSET, row]
        batches[fields.B_COUNT, row] = -1
        batches[fields.B_MAX_TIMESTAMP, row] = -1
        if magic != 0 and end - at >= fields.V1_KEY_SIZE_AT:
            batches[fields.B_MAX_TIMESTAMP, row] = i64(data, at + fields.UP_TO_MAGIC + 1)
        batches[fields.B_BASE_TIMESTAMP, row] = batches[fields.B_MAX_TIMESTAMP, row]
        batches[fields.B_PRODUCER_ID, row] = -1
        batches[fields.B_PRODUCER_EPOCH, row] = -1
        batches[fields.B_BASE_SEQUENCE, row] = -1
        batches[fields.B_LEADER_EPOCH, row] = -1
        batches[fields.B_BODY, row] = position


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def find_candidate(data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, stop: cython.Py_ssize_t,
                   end: cython.Py_ssize_t, largest: cython.longlong):
    """Return the first position from `start` on, and before `stop`, of a possible batch of any format; −1: none.

    A candidate has magic 0, 1 or 2, a size between its header and `largest` bytes, a known codec, and plausible offset, delta
    and count. Its first record, or its key and value, must also fit, as far as they lie before `end`, because payload bytes
    often look like a header. The caller checks the checksum, since the batch may continue after `end`. A batch of format 2 is
    found only if its whole header lies before `end`: if more data follow, `stop` must be smaller than `end` by a header.
    """
    at: cython.Py_ssize_t = start
    if start < 0 or end > data.shape[0]: return -1
    with cython.nogil:
        while at < stop and end - at >= fields.OVERHEAD + fields.SMALLEST:
            if data[at + fields.V2_MAGIC_AT] <= fields.MAGIC_V2 and data[at] < 128:
                if data[at + fields.V2_MAGIC_AT] == fields.MAGIC_V2:
                    if _may_be_batch(data, at, end, largest): return at
                elif _may_be_message(data, at, end, largest): return at
            at += 1
        return -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _may_be_batch(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t,
                  largest: cython.longlong) -> cython.bint:
    """Is this a plausible header of format 2?"""
    size: cython.longlong
    count: cython.longlong
    delta: cython.longlong
    if end - at < fields.V2_SIZE or data[at + fields.V2_ATTRIBUTES_AT] != 0: return False
    if data[at + fields.V2_ATTRIBUTES_AT + 1] & fields.CODEC_MASK > fields.LAST_CODEC: return False
    size = i32(data, at + fields.V2_BATCH_LENGTH_AT) + fields.OVERHEAD
    count = i32(data, at + fields.V2_RECORD_COUNT_AT)
    delta = i32(data, at + fields.V2_LAST_OFFSET_DELTA_AT)
    if size < fields.V2_SIZE or size > largest or count < 0 or count > size or count > delta + 1: return False
    if count == 0: return size == fields.V2_SIZE
    if data[at + fields.V2_ATTRIBUTES_AT + 1] & fields.CODEC_MASK: return size > fields.V2_SIZE
    return _may_be_record(data, at + fields.V2_SIZE, end, size - fields.V2_SIZE)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _may_be_record(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t,
                   room: cython.longlong) -> cython.bint:
    """Does a possible record of format 2 begin at `at` and fit in `room` bytes? True if too little lies before `end`."""
    size: cython.longlong
    after: cython.Py_ssize_t
    if end - at < fields.VARINT_SIZE: return room >= fields.V2_SMALLEST_RECORD
    size, after = varint(data, at, end)
    return after > 0 and fields.V2_SMALLEST_RECORD - 1 <= size <= room - (after - at)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _may_be_message(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t,
                    largest: cython.longlong) -> cython.bint:
    """Is this a plausible header of format 0 or 1?"""
    attributes: cython.int = data[at + fields.V1_ATTRIBUTES_AT]
    size: cython.longlong = i32(data, at + fields.V1_MESSAGE_SIZE_AT) + fields.OVERHEAD
    if attributes > fields.LEGACY_ATTRIBUTES or attributes & fields.CODEC_MASK > fields.LAST_LEGACY_CODEC: return False
    if size > largest: return False
    if data[at + fields.V1_MAGIC_AT] == 0:
        return size >= fields.OVERHEAD + fields.V0_OVERHEAD and _may_be_fields(data, at + fields.V0_KEY_SIZE_AT, end, at + size)
    if size < fields.OVERHEAD + fields.V1_OVERHEAD or end - at < fields.V1_KEY_SIZE_AT + 4: return False
    return _may_be_fields(data, at + fields.V1_KEY_SIZE_AT, end, at + size)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _may_be_fields(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t,
                   stop: cython.longlong) -> cython.bint:
    """Can key and value of format 0 or 1 begin at `at` and end at `stop`? True if the value's size lies after `end`."""
    size: cython.longlong = i32(data, at)
    if size < -1: return False
    at += 4 + max(size, 0)
    if at + 4 > stop: return False
    if at + 4 > end: return True
    size = i32(data, at)
    return size >= -1 and at + 4 + max(size, 0) == stop
