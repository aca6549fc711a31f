# cython: language_level=3, boundscheck=False, wraparound=False
"""Encode columns as v2 records or v0/v1 entries, after measuring them. Mirrors DefaultRecord and LegacyRecord.

Columns are those of formats.RecordField; positions in them are byte positions in one buffer `data`, which holds keys,
values and headers (headers in their wire form, as decoding finds them). All positions, sizes and header lengths are checked.
No byte is written of a record that does not fit.
"""

import cython
from cython.cimports.engine.kernels import fields
from cython.cimports.engine.kernels.numbers import copy_bytes, put_int, put_raw_varint, put_sized, raw_varint_size, varint

_ALL_BITS = cython.declare(cython.ulonglong, 2**64 - 1)
_NO_RECORD = cython.declare(cython.Py_ssize_t, -1)
_NO_ROOM = cython.declare(cython.Py_ssize_t, -2)
_SIGN = cython.declare(cython.ulonglong, 2**63)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _difference(one: cython.longlong, other: cython.longlong) -> cython.ulonglong:
    """Return one − other as 64 bits of two's complement: wraps like Java's long; exact if one >= other."""
    minuend: cython.ulonglong = one
    subtrahend: cython.ulonglong = other
    return (minuend - subtrahend) & _ALL_BITS


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _zigzag(bits: cython.ulonglong) -> cython.ulonglong:
    """Convert two's complement to zigzag: 0, −1, 1, −2 … become 0, 1, 2, 3 …"""
    if bits >= _SIGN: return 2 * (_ALL_BITS - bits) + 1
    return 2 * bits


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _headers_end(data: cython.const[cython.uchar][::1], start: cython.longlong,
                 count: cython.longlong) -> cython.Py_ssize_t:
    """Return the position after `count` headers in wire form; −1: they are not in `data` or not valid."""
    end: cython.Py_ssize_t = data.shape[0]
    at: cython.Py_ssize_t
    field: cython.longlong
    size: cython.longlong
    if count < 0 or start < 0 or start > end or count > end: return -1
    at = start
    for field in range(2 * count):
        size, at = varint(data, at, end)
        if at < 0 or size > end - at: return -1
        if size >= 0: at += size
        elif size != -1 or field % 2 == 0: return -1  # −1: a null value
    return at


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _fits(data: cython.const[cython.uchar][::1], position: cython.longlong, size: cython.longlong) -> cython.bint:
    """Is this a range in `data` whose size fits in an int32?"""
    return size >= 0 and position >= 0 and position <= data.shape[0] and size <= data.shape[0] - position \
        and size <= fields.INT_MAX


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _field_size(size: cython.longlong) -> cython.longlong:
    """Return the bytes of a key or value with its varint."""
    if size < 64: return 1 + size if size > 0 else 1
    return raw_varint_size(2 * size) + size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _body_size(data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1], row: cython.Py_ssize_t,
               delta: cython.ulonglong, stamp: cython.ulonglong) -> cython.longlong:
    """Return the bytes of a v2 record after its length field; −1: the columns are not valid.

    delta, stamp   offset and timestamp relative to the batch, as 64 bits and as zigzag
    """
    key: cython.longlong = records[fields.R_KEY_SIZE, row]
    value: cython.longlong = records[fields.R_VALUE_SIZE, row]
    count: cython.longlong = records[fields.R_HEADER_COUNT, row]
    body: cython.longlong
    end: cython.longlong
    if delta > fields.INT_MAX: return -1
    if key != -1 and not _fits(data, records[fields.R_KEY_POSITION, row], key): return -1
    if value != -1 and not _fits(data, records[fields.R_VALUE_POSITION, row], value): return -1
    body = 1 + raw_varint_size(stamp) + raw_varint_size(2 * delta) + _field_size(key) + _field_size(value)
    if count == 0: return body + 1 if body < fields.INT_MAX else -1
    end = _headers_end(data, records[fields.R_HEADERS_POSITION, row], count)
    if end < 0: return -1
    body += raw_varint_size(2 * count) + end - records[fields.R_HEADERS_POSITION, row]
    return body if body <= fields.INT_MAX else -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _offset_delta(offset: cython.longlong, base_offset: cython.longlong) -> cython.ulonglong:
    """Return offset − base; all bits are set if it is negative."""
    if offset < base_offset: return _ALL_BITS
    return _difference(offset, base_offset)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _entry_size(data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1], row: cython.Py_ssize_t,
                magic: cython.int) -> cython.longlong:
    """Return the size field of a v0 or v1 entry; −1: the columns are not valid."""
    size: cython.longlong = fields.V0_OVERHEAD if magic == 0 else fields.V1_OVERHEAD
    key: cython.longlong = records[fields.R_KEY_SIZE, row]
    value: cython.longlong = records[fields.R_VALUE_SIZE, row]
    if records[fields.R_HEADER_COUNT, row] != 0: return -1
    if key != -1 and not _fits(data, records[fields.R_KEY_POSITION, row], key): return -1
    if value != -1 and not _fits(data, records[fields.R_VALUE_POSITION, row], value): return -1
    if key > 0: size += key
    if value > 0: size += value
    return size if size <= fields.INT_MAX else -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _bad_rows(records: cython.longlong[:, ::1], first: cython.Py_ssize_t, count: cython.Py_ssize_t) -> cython.bint:
    return (records.shape[0] < fields.R_FIELDS or first < 0 or count < 0 or first > records.shape[1]
            or count > records.shape[1] - first)


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.longlong, cython.int))
def measure_records(data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1],
                    first: cython.Py_ssize_t, count: cython.Py_ssize_t, magic: cython.int,
                    base_offset: cython.longlong, base_timestamp: cython.longlong, sizes: cython.longlong[::1]):
    """Measure the encoded size of each record → (records measured, sum of sizes, status).

    data, records   see the module; rows first … first + count − 1        magic   0, 1 or 2
    base_offset, base_timestamp   of the batch, magic 2 only
    sizes    out, one row per record: size with its length field or entry header
    status   END · FULL (`sizes` used up) · BAD_RECORD (the next record cannot be written: a position or size outside
             `data`, invalid headers, headers before magic 2, an offset below the base or 2^31 or more above it)
             · BAD_START (columns or magic that do not exist)
    """
    row: cython.Py_ssize_t
    done: cython.Py_ssize_t = 0
    total: cython.longlong = 0
    size: cython.longlong
    delta: cython.ulonglong
    stamp: cython.ulonglong
    if _bad_rows(records, first, count) or magic < 0 or magic > 2: return 0, 0, fields.BAD_START
    with cython.nogil:
        for row in range(first, first + count):
            if done == sizes.shape[0]: return done, total, fields.FULL
            if magic == 2:
                delta = _offset_delta(records[fields.R_OFFSET, row], base_offset)
                stamp = _zigzag(_difference(records[fields.R_TIMESTAMP, row], base_timestamp))
                size = _body_size(data, records, row, delta, stamp)
                if size >= 0: size += raw_varint_size(2 * size)
            else:
                size = _entry_size(data, records, row, magic)
                if size >= 0: size += fields.OVERHEAD
            if size < 0: return done, total, fields.BAD_RECORD
            sizes[done] = size
            total += size
            done += 1
        return done, total, fields.END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def encode_records(data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1],
                   first: cython.Py_ssize_t, count: cython.Py_ssize_t,
                   base_offset: cython.longlong, base_timestamp: cython.longlong,
                   out: cython.uchar[::1], start: cython.Py_ssize_t):
    """Write v2 records → (records written, position after them, status).

    data, records   see the module; rows first … first + count − 1        out   bytes, written from `start` on
    status   END · FULL (the next record does not fit in `out`) · BAD_RECORD (see measure_records)
             · BAD_START (columns or a start that do not exist)
    A timestamp delta beyond 64 bits wraps, as it does when it is read.
    """
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t = start
    after: cython.Py_ssize_t
    done: cython.Py_ssize_t = 0
    if _bad_rows(records, first, count) or start < 0 or start > out.shape[0]: return 0, start, fields.BAD_START
    with cython.nogil:
        for row in range(first, first + count):
            after = _put_record(data, records, row, base_offset, base_timestamp, out, at)
            if after < 0: return done, at, fields.FULL if after == _NO_ROOM else fields.BAD_RECORD
            at = after
            done += 1
        return done, at, fields.END


def put_record(data, records, row, base_offset, base_timestamp, out, at):  # typed in encode.pxd, for other kernels
    """Write one v2 record at `at` → position after it; −1: columns not valid, −2: no room; then nothing is written.

    data, records   see the module; the caller has checked `row` and `at`
    """
    return _put_record(data, records, row, base_offset, base_timestamp, out, at)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_record(data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1], row: cython.Py_ssize_t,
                base_offset: cython.longlong, base_timestamp: cython.longlong, out: cython.uchar[::1],
                at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    size: cython.longlong
    pairs: cython.longlong
    headers: cython.Py_ssize_t
    delta: cython.ulonglong = _offset_delta(records[fields.R_OFFSET, row], base_offset)
    stamp: cython.ulonglong = _zigzag(_difference(records[fields.R_TIMESTAMP, row], base_timestamp))
    size = _body_size(data, records, row, delta, stamp)
    if size < 0: return _NO_RECORD
    if size + raw_varint_size(2 * size) > out.shape[0] - at: return _NO_ROOM
    at = put_raw_varint(out, at, 2 * size)
    out[at] = 0  # records have no attributes yet
    at = put_raw_varint(out, at + 1, stamp)
    at = put_raw_varint(out, at, 2 * delta)
    at = put_sized(out, at, data, records[fields.R_KEY_POSITION, row], records[fields.R_KEY_SIZE, row])
    at = put_sized(out, at, data, records[fields.R_VALUE_POSITION, row], records[fields.R_VALUE_SIZE, row])
    pairs = records[fields.R_HEADER_COUNT, row]
    at = put_raw_varint(out, at, 2 * pairs)
    if pairs > 0:
        headers = _headers_end(data, records[fields.R_HEADERS_POSITION, row], pairs)
        headers -= records[fields.R_HEADERS_POSITION, row]
        at = copy_bytes(out, at, data, records[fields.R_HEADERS_POSITION, row], headers)
    return at


@cython.final
@cython.cclass
class LegacyForm:
    """The fields that entries of magic 0 or 1 have in common.

    magic, attributes   of every entry
    origin        offsets are written relative to it: 0, or the base offset in a wrapper of magic 1
    append_time   ms, written instead of each timestamp if attributes have LogAppendTime
    """

    magic: cython.int
    attributes: cython.int
    origin: cython.longlong
    append_time: cython.longlong

    def __init__(self, magic: cython.int, attributes: cython.int, origin: cython.longlong, append_time: cython.longlong):
        self.magic, self.attributes, self.origin, self.append_time = magic, attributes, origin, append_time


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def encode_legacy(data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1],
                  first: cython.Py_ssize_t, count: cython.Py_ssize_t, form: LegacyForm, out: cython.uchar[::1],
                  start: cython.Py_ssize_t, ends: cython.longlong[::1]):
    """Write entries of magic 0 or 1 with a checksum of 0 → (entries written, position after them, status).

    data, records   see the module; rows first … first + count − 1
    out, ends     out: bytes, written from `start` on; position after each entry (the caller then writes the CRC-32s)
    status        as encode_records; FULL also if `ends` is used up
    """
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t = start
    end: cython.Py_ssize_t = out.shape[0]
    done: cython.Py_ssize_t = 0
    size: cython.longlong
    offset: cython.longlong
    magic: cython.int = form.magic
    attributes: cython.int = form.attributes
    origin: cython.longlong = form.origin
    stamp: cython.longlong = form.append_time
    if _bad_rows(records, first, count) or magic < 0 or magic > 1: return 0, start, fields.BAD_START
    if start < 0 or start > end: return 0, start, fields.BAD_START
    with cython.nogil:
        for row in range(first, first + count):
            size = _entry_size(data, records, row, magic)
            offset = records[fields.R_OFFSET, row]
            if size < 0: return done, at, fields.BAD_RECORD
            if origin != 0:
                if offset < origin or _difference(offset, origin) > fields.INT_MAX: return done, at, fields.BAD_RECORD
                offset = _difference(offset, origin)
            if done == ends.shape[0] or size + fields.OVERHEAD > end - at: return done, at, fields.FULL
            at = put_int(out, at, offset, 8)
            at = put_int(out, at, size, 4)
            at = put_int(out, at, 0, 4)
            out[at] = magic
            out[at + 1] = attributes & 255
            at += 2
            if magic == 1:
                if not attributes & fields.TIMESTAMP_TYPE_FLAG: stamp = records[fields.R_TIMESTAMP, row]
                at = put_int(out, at, stamp, 8)
            at = _put_sized(data, records[fields.R_KEY_POSITION, row], records[fields.R_KEY_SIZE, row], out, at)
            at = _put_sized(data, records[fields.R_VALUE_POSITION, row], records[fields.R_VALUE_SIZE, row], out, at)
            ends[done] = at
            done += 1
        return done, at, fields.END


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_sized(data: cython.const[cython.uchar][::1], position: cython.longlong, size: cython.longlong,
               out: cython.uchar[::1], at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    at = put_int(out, at, size, 4)
    return copy_bytes(out, at, data, position, size) if size > 0 else at


@cython.ccall
@cython.exceptval(check=False)
def varint_size(value: cython.longlong, origin: cython.longlong = 0) -> cython.Py_ssize_t:
    """Return the bytes of value − origin as a signed varint or varlong; the difference wraps at 64 bits."""
    return raw_varint_size(_zigzag(_difference(value, origin)))


@cython.ccall
@cython.exceptval(check=False)
def put_varint(out: cython.uchar[::1], at: cython.Py_ssize_t, value: cython.longlong) -> cython.Py_ssize_t:
    """Write a signed varint or varlong at `at` → position after it, −1: no room."""
    bits: cython.ulonglong = _zigzag(_difference(value, 0))
    if at < 0 or at > out.shape[0] or raw_varint_size(bits) > out.shape[0] - at: return -1
    return put_raw_varint(out, at, bits)
