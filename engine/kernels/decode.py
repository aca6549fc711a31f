# cython: language_level=3, boundscheck=False, wraparound=False
"""Records of v2 batches → columns. Mirrors DefaultRecord.readFrom and DefaultRecordBatch.iterator."""

import cython
from cython.cimports.engine.kernels import fields
from cython.cimports.engine.kernels.numbers import varint, varlong, wrapped_sum


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.longlong, cython.int))
def _field(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t):
    """Return (position, size, END) of a key or value, size −1 for null; or the status of a damaged one."""
    size: cython.longlong
    size, at = varint(data, at, end)
    if at < 0: return at, 0, fields.BAD_VARINT
    if size < 0: return at, -1, fields.END
    if size > end - at: return at, 0, fields.BAD_RECORD
    return at, size, fields.END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.Py_ssize_t, cython.longlong, cython.int))
def decode_records(data: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1],
                   row: cython.Py_ssize_t, last_row: cython.Py_ssize_t, at: cython.Py_ssize_t, done: cython.longlong,
                   records: cython.longlong[:, ::1], filled: cython.Py_ssize_t):
    """Decode the records of batches row … last_row − 1 → (records filled, row, at, done, status).

    data      the bytes of the records: the window, or a buffer of decompressed bytes
    batches   BatchColumns; BODY and BODY_END are positions in `data`; a batch with BODY LEFT_OUT is skipped
    at, done  position to continue at in batch `row`, and number of its records already decoded; 0, 0: at its start
    records   out, RecordColumns, from row `filled` on
    status    END (all rows done) · FULL (columns used up: call again with the returned values and `filled` 0),
              or the damage of batch `row`, whose records before it are in the columns:
              BAD_VARINT, BAD_RECORD (a length does not fit), BAD_COUNT (negative, or bytes are left over);
              continue with row + 1, 0, 0
    """
    with cython.nogil:
        return _decode(data, batches, row, last_row, at, done, records, filled)


def decode_rows(data, batches, row, last_row, at, done, records, filled):  # typed in decode.pxd, for other kernels
    """See `decode_records`."""
    return _decode(data, batches, row, last_row, at, done, records, filled)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.Py_ssize_t, cython.longlong, cython.int))
def _decode(data: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1], row: cython.Py_ssize_t,
            last_row: cython.Py_ssize_t, at: cython.Py_ssize_t, done: cython.longlong, records: cython.longlong[:, ::1],
            filled: cython.Py_ssize_t):
    """See `decode_records`."""
    capacity: cython.Py_ssize_t = records.shape[1]
    size: cython.Py_ssize_t = data.shape[0]
    end: cython.Py_ssize_t
    body_end: cython.Py_ssize_t
    count: cython.longlong
    length: cython.longlong
    delta: cython.longlong
    headers: cython.longlong
    timestamp: cython.longlong
    status: cython.int
    append_time: cython.bint
    if row < 0 or last_row > batches.shape[1] or filled < 0: return filled, row, at, done, fields.BAD_START
    while row < last_row:
        if batches[fields.B_BODY, row] == fields.LEFT_OUT and done == 0:
            row += 1
            continue
        count = batches[fields.B_COUNT, row]
        end = batches[fields.B_BODY_END, row]
        if done == 0:
            at = batches[fields.B_BODY, row]
            if count < 0: return filled, row, at, done, fields.BAD_COUNT
        if end > size or at < 0 or at > end: return filled, row, at, done, fields.BAD_START
        append_time = batches[fields.B_ATTRIBUTES, row] & fields.TIMESTAMP_TYPE_FLAG
        while done < count:
            if filled >= capacity: return filled, row, at, done, fields.FULL
            length, at = varint(data, at, end)
            if at < 0: return filled, row, at, done, fields.BAD_VARINT
            if length < 1 or length > end - at: return filled, row, at, done, fields.BAD_RECORD
            body_end = at + length
            at += 1
            timestamp, at = varlong(data, at, body_end)
            if at < 0: return filled, row, at, done, fields.BAD_VARINT
            delta, at = varint(data, at, body_end)
            if at < 0: return filled, row, at, done, fields.BAD_VARINT
            if append_time:
                records[fields.R_TIMESTAMP, filled] = batches[fields.B_MAX_TIMESTAMP, row]
            else:
                records[fields.R_TIMESTAMP, filled] = wrapped_sum(batches[fields.B_BASE_TIMESTAMP, row], timestamp)
            records[fields.R_OFFSET, filled] = wrapped_sum(batches[fields.B_BASE_OFFSET, row], delta)
            at, length, status = _field(data, at, body_end)
            if status != fields.END: return filled, row, at, done, status
            records[fields.R_KEY_POSITION, filled] = at
            records[fields.R_KEY_SIZE, filled] = length
            if length > 0: at += length
            at, length, status = _field(data, at, body_end)
            if status != fields.END: return filled, row, at, done, status
            records[fields.R_VALUE_POSITION, filled] = at
            records[fields.R_VALUE_SIZE, filled] = length
            if length > 0: at += length
            headers, at = varint(data, at, body_end)
            if at < 0: return filled, row, at, done, fields.BAD_VARINT
            if headers < 0 or headers > body_end - at: return filled, row, at, done, fields.BAD_RECORD
            records[fields.R_HEADERS_POSITION, filled] = at
            records[fields.R_HEADER_COUNT, filled] = headers
            at, status = _skip_headers(data, at, body_end, headers)
            if status != fields.END: return filled, row, at, done, status
            if at != body_end: return filled, row, at, done, fields.BAD_RECORD
            records[fields.R_BATCH, filled] = row
            records[fields.R_CRC, filled] = 0
            records[fields.R_VALID, filled] = 1
            filled += 1
            done += 1
        if at != end: return filled, row, at, done, fields.BAD_COUNT
        row += 1
        done = 0
    return filled, row, 0, 0, fields.END


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.int))
def _skip_headers(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t,
                  count: cython.longlong):
    """Return (position after `count` headers, END), or the status of a damaged one."""
    length: cython.longlong
    for _ in range(count):
        length, at = varint(data, at, end)
        if at < 0: return at, fields.BAD_VARINT
        if length < 0 or length > end - at: return at, fields.BAD_RECORD
        length, at = varint(data, at + length, end)
        if at < 0: return at, fields.BAD_VARINT
        if length > end - at: return at, fields.BAD_RECORD
        if length > 0: at += length
    return at, fields.END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.longlong, cython.Py_ssize_t))
def read_varint(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t):
    """Read a zigzag varint of 32 bits in data[at:end] → (value, position after it); (0, −1): no valid varint."""
    if at < 0 or end > data.shape[0]: return 0, -1
    return varint(data, at, end)
