# cython: language_level=3, boundscheck=False, wraparound=False
"""Records of v2 batches → columns. Mirrors DefaultRecord.readFrom and DefaultRecordBatch.iterator."""

import cython

from engine.formats import BatchField, RecordField, Status

_END = cython.declare(cython.int, Status.END)
_FULL = cython.declare(cython.int, Status.FULL)
_BAD_START = cython.declare(cython.int, Status.BAD_START)
_BAD_VARINT = cython.declare(cython.int, Status.BAD_VARINT)
_BAD_RECORD = cython.declare(cython.int, Status.BAD_RECORD)
_BAD_COUNT = cython.declare(cython.int, Status.BAD_COUNT)

_B_ATTRIBUTES = cython.declare(cython.int, BatchField.ATTRIBUTES)
_B_BASE_OFFSET = cython.declare(cython.int, BatchField.BASE_OFFSET)
_B_COUNT = cython.declare(cython.int, BatchField.COUNT)
_B_MAX_TIMESTAMP = cython.declare(cython.int, BatchField.MAX_TIMESTAMP)
_B_BASE_TIMESTAMP = cython.declare(cython.int, BatchField.BASE_TIMESTAMP)
_B_BODY = cython.declare(cython.int, BatchField.BODY)
_B_BODY_END = cython.declare(cython.int, BatchField.BODY_END)

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
_MASK = cython.declare(cython.ulonglong, 0xFFFFFFFF)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.longlong, cython.Py_ssize_t))
def _varint(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t):
    """A zigzag varint of 32 bits → (value, position behind it); (0, −1) where it is cut off or longer than five bytes.

    Bits of the fifth byte beyond the 32nd are dropped, as Java drops them. Mirrors ByteUtils.readVarint.
    """
    raw: cython.ulonglong = 0
    byte: cython.ulonglong = 0
    shift: cython.int = 0
    if at < 0: return 0, -1
    if at < end and data[at] < 128:  # most are of one byte
        if data[at] & 1: return -_signed(data[at] >> 1) - 1, at + 1
        return data[at] >> 1, at + 1
    while shift < 35:
        if at >= end: return 0, -1
        byte = data[at]
        at += 1
        raw |= (byte & 127) << shift
        if byte < 128:
            raw &= _MASK
            if raw & 1: return -_signed(raw >> 1) - 1, at
            return _signed(raw >> 1), at
        shift += 7
    return 0, -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.longlong, cython.Py_ssize_t))
def _varlong(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t):
    """A zigzag varint of 64 bits → (value, position behind it); (0, −1) where it is cut off or longer than ten bytes.

    Mirrors ByteUtils.readVarlong.
    """
    raw: cython.ulonglong = 0
    byte: cython.ulonglong = 0
    shift: cython.int = 0
    while shift < 70:
        if at >= end: return 0, -1
        byte = data[at]
        at += 1
        if shift == 63:
            raw |= (byte & 1) << shift
        else:
            raw |= (byte & 127) << shift
        if byte < 128:
            if raw & 1: return -_signed(raw >> 1) - 1, at
            return _signed(raw >> 1), at
        shift += 7
    return 0, -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _signed(value: cython.ulonglong) -> cython.longlong:
    """A value below 2^63 as signed number."""
    return value


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
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.Py_ssize_t, cython.longlong, cython.int))
def decode_records(data: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1],
                   row: cython.Py_ssize_t, last_row: cython.Py_ssize_t, at: cython.Py_ssize_t, done: cython.longlong,
                   records: cython.longlong[:, ::1], filled: cython.Py_ssize_t):
    """Decode the records of batches row … last_row − 1 → (records filled, row, at, done, status).

    data      the bytes that hold the records: the window, or an arena of inflated bytes
    batches   BatchColumns; BODY and BODY_END are positions in `data`
    at, done  where to go on within batch `row` and how many of its records are done; 0, 0 begins the batch
    records   out, RecordColumns, from column `filled` on
    status    END (all rows done) · FULL (columns used up: call again with what was returned, `filled` 0)
              or what is wrong with batch `row`, whose records before the damage are in the columns:
              BAD_VARINT, BAD_RECORD (a length does not fit), BAD_COUNT (negative, or bytes are left over);
              go on with row + 1, 0, 0
    """
    capacity: cython.Py_ssize_t = records.shape[1]
    size: cython.Py_ssize_t = data.shape[0]
    end: cython.Py_ssize_t
    body_end: cython.Py_ssize_t
    count: cython.longlong
    length: cython.longlong
    delta: cython.longlong
    headers: cython.longlong
    index: cython.longlong
    timestamp: cython.longlong
    append_time: cython.bint
    if row < 0 or last_row > batches.shape[1] or filled < 0: return filled, row, at, done, _BAD_START
    with cython.nogil:
        while row < last_row:
            count = batches[_B_COUNT, row]
            end = batches[_B_BODY_END, row]
            if done == 0:
                at = batches[_B_BODY, row]
                if count < 0: return filled, row, at, done, _BAD_COUNT
            if end > size or at < 0 or at > end: return filled, row, at, done, _BAD_START
            append_time = batches[_B_ATTRIBUTES, row] & 8
            while done < count:
                if filled >= capacity: return filled, row, at, done, _FULL
                length, at = _varint(data, at, end)
                if at < 0: return filled, row, at, done, _BAD_VARINT
                if length < 1 or length > end - at: return filled, row, at, done, _BAD_RECORD
                body_end = at + length
                at += 1
                timestamp, at = _varlong(data, at, body_end)
                if at < 0: return filled, row, at, done, _BAD_VARINT
                delta, at = _varint(data, at, body_end)
                if at < 0: return filled, row, at, done, _BAD_VARINT
                if append_time:
                    records[_TIMESTAMP, filled] = batches[_B_MAX_TIMESTAMP, row]
                else:
                    records[_TIMESTAMP, filled] = _sum(batches[_B_BASE_TIMESTAMP, row], timestamp)
                records[_OFFSET, filled] = _sum(batches[_B_BASE_OFFSET, row], delta)
                length, at = _varint(data, at, body_end)
                if at < 0: return filled, row, at, done, _BAD_VARINT
                if length < 0: length = -1
                elif length > body_end - at: return filled, row, at, done, _BAD_RECORD
                records[_KEY_POSITION, filled] = at
                records[_KEY_SIZE, filled] = length
                if length > 0: at += length
                length, at = _varint(data, at, body_end)
                if at < 0: return filled, row, at, done, _BAD_VARINT
                if length < 0: length = -1
                elif length > body_end - at: return filled, row, at, done, _BAD_RECORD
                records[_VALUE_POSITION, filled] = at
                records[_VALUE_SIZE, filled] = length
                if length > 0: at += length
                headers, at = _varint(data, at, body_end)
                if at < 0: return filled, row, at, done, _BAD_VARINT
                if headers < 0 or headers > body_end - at: return filled, row, at, done, _BAD_RECORD
                records[_HEADERS_POSITION, filled] = at
                records[_HEADER_COUNT, filled] = headers
                for index in range(headers):
                    length, at = _varint(data, at, body_end)
                    if at < 0: return filled, row, at, done, _BAD_VARINT
                    if length < 0 or length > body_end - at: return filled, row, at, done, _BAD_RECORD
                    at += length
                    length, at = _varint(data, at, body_end)
                    if at < 0: return filled, row, at, done, _BAD_VARINT
                    if length > body_end - at: return filled, row, at, done, _BAD_RECORD
                    if length > 0: at += length
                if at != body_end: return filled, row, at, done, _BAD_RECORD
                records[_BATCH, filled] = row
                records[_CRC, filled] = 0
                records[_VALID, filled] = 1
                filled += 1
                done += 1
            if at != end: return filled, row, at, done, _BAD_COUNT
            row += 1
            done = 0
        return filled, row, 0, 0, _END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.longlong, cython.Py_ssize_t))
def read_varint(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t):
    """A zigzag varint of 32 bits in data[at:end] → (value, position behind it); (0, −1) where there is none."""
    if at < 0 or end > data.shape[0]: return 0, -1
    return _varint(data, at, end)


if not cython.compiled:
    from engine.kernels.reference import decode_records  # noqa: F401  # too slow interpreted
