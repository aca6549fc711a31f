# cython: language_level=3, boundscheck=False, wraparound=False
"""Walk the batches of a window and read their headers into columns. Mirrors FileLogInputStream.

One walk serves every message format: offset, size and magic stand at the same place in all of them.
"""

import cython

if cython.compiled:
    from cython.cimports.engine.kernels import fields
    from cython.cimports.engine.kernels.checksum import crc32, crc32c, crc32c_reach
    from cython.cimports.engine.kernels.numbers import i16, i32, i64, u32, wrapped_sum
else:
    from engine.kernels import fields
    from engine.kernels.checksum import crc32, crc32c, crc32c_reach
    from engine.kernels.numbers import i16, i32, i64, u32, wrapped_sum

# Messages up to this size are checked here; a library call pays for larger ones, and always when interpreted.
_INLINE_CRC32 = cython.declare(cython.Py_ssize_t, 1024 if cython.compiled else 0)


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
    reach: cython.Py_ssize_t = crc32c_reach()
    size: cython.longlong
    crc: cython.longlong
    delta: cython.longlong
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
            magic = data[at + fields.V2_MAGIC_AT]
            if magic >= 128: magic -= 256
            batches[fields.B_POSITION, row] = at
            batches[fields.B_SIZE, row] = size
            batches[fields.B_MAGIC, row] = magic
            batches[fields.B_BODY_END, row] = at + size
            batches[fields.B_BASE_OFFSET, row] = i64(data, at)
            if magic >= 2:
                if end - at < fields.V2_SIZE: return row, at, fields.TORN
                crc = u32(data, at + fields.V2_CRC_AT)
                batches[fields.B_CRC, row] = crc
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
                batches[fields.B_BODY, row] = at + fields.V2_SIZE
                if size < fields.V2_SIZE:
                    batches[fields.B_BODY, row] = at + size
                    batches[fields.B_VALID, row] = 0
                elif size <= reach:
                    batches[fields.B_VALID, row] = crc == crc32c(data, at + fields.V2_ATTRIBUTES_AT, at + size, castagnoli)
                else:
                    batches[fields.B_VALID, row] = -1
            else:
                crc = u32(data, at + fields.OVERHEAD)
                batches[fields.B_CRC, row] = crc
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
                batches[fields.B_BODY, row] = at
                if size <= _INLINE_CRC32:
                    batches[fields.B_VALID, row] = crc == crc32(data, at + fields.V2_MAGIC_AT, at + size, ieee)
                else:
                    batches[fields.B_VALID, row] = -1
            row += 1
            at += size


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
    if start < 0 or end > data.shape[0]: return -1
    with cython.nogil:
        while at < behind and end - at >= fields.OVERHEAD + fields.SMALLEST:
            if data[at + fields.V2_MAGIC_AT] <= 2 and data[at] < 128:
                if data[at + fields.V2_MAGIC_AT] == 2:
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
    if end - at < fields.V2_SIZE or data[at + fields.V2_ATTRIBUTES_AT] != 0: return False
    if data[at + fields.V2_ATTRIBUTES_AT + 1] & fields.CODEC_MASK > 4: return False
    size = i32(data, at + fields.V2_BATCH_LENGTH_AT) + fields.OVERHEAD
    count = i32(data, at + fields.V2_RECORD_COUNT_AT)
    if size < fields.V2_SIZE or size > largest or count < 0 or count > size: return False
    return i32(data, at + fields.V2_LAST_OFFSET_DELTA_AT) >= 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _may_be_message(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t,
                    largest: cython.longlong) -> cython.bint:
    """Is this a plausible header of format 0 or 1?"""
    attributes: cython.int = data[at + fields.V1_ATTRIBUTES_AT]
    size: cython.longlong = i32(data, at + fields.V1_MESSAGE_SIZE_AT) + fields.OVERHEAD
    if attributes > 15 or attributes & fields.CODEC_MASK > 3 or size > largest: return False
    if data[at + fields.V1_MAGIC_AT] == 0:
        return size >= fields.OVERHEAD + fields.V0_OVERHEAD and -1 <= i32(data, at + fields.V0_KEY_SIZE_AT) <= size
    if size < fields.OVERHEAD + fields.V1_OVERHEAD or end - at < fields.V1_KEY_SIZE_AT + 4: return False
    return -1 <= i32(data, at + fields.V1_KEY_SIZE_AT) <= size


if not cython.compiled:
    from engine.kernels.reference import scan_batches  # noqa: F401  # too slow interpreted
