# cython: language_level=3, boundscheck=False, wraparound=False
"""Fill the buffers of Arrow arrays from columns of records. Fields of a batch are repeated for each of its records.

An array of bytes has three buffers: a bit per row (0 is null), 32-bit ends, and the bytes. Callers allocate the sizes that
`fitting` and `measure_headers` return; every position and size is checked again before a byte is read or written.
"""

import cython
from cython.cimports.engine.kernels import fields
from cython.cimports.engine.kernels.numbers import copy_bytes, varint, wrapped_sum

_LAST_MS = cython.declare(cython.longlong, fields.LONG_MAX // 1000)  # largest timestamp in ms that fits 64 bits in µs


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.longlong, cython.longlong))
def fitting(records: cython.longlong[:, ::1], first: cython.Py_ssize_t, end: cython.Py_ssize_t, room: cython.longlong):
    """Find the records from `first` on whose keys and values fit in `room` bytes → (end of them, key bytes, value bytes).

    The first record always counts as fitting, so that a caller makes progress, unless it is too large for any array.
    """
    keys: cython.longlong = 0
    values: cython.longlong = 0
    key: cython.longlong
    value: cython.longlong
    index: cython.Py_ssize_t = first
    if first < 0 or end > records.shape[1]: return first, 0, 0
    with cython.nogil:
        while index < end:
            key = records[fields.R_KEY_SIZE, index]
            value = records[fields.R_VALUE_SIZE, index]
            if key < 0: key = 0
            if value < 0: value = 0
            if key > fields.INT_MAX or value > fields.INT_MAX: break
            if index > first and keys + values + key + value > room: break
            keys += key
            values += value
            index += 1
        return index, keys, values


@cython.final
@cython.cclass
class Blobs:
    """The output buffers of an array of bytes.

    out    the bytes        ends  32-bit ends
    valid  a bit per row: set for rows that are not null, otherwise unchanged
    """

    out: cython.uchar[::1]
    ends: cython.int[::1]
    valid: cython.uchar[::1]

    def __init__(self, out: cython.uchar[::1], ends: cython.int[::1], valid: cython.uchar[::1]):
        self.out, self.ends, self.valid = out, ends, valid


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t))
def gather(data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1], position_field: cython.int,
           first: cython.Py_ssize_t, end: cython.Py_ssize_t, blobs: Blobs, at: cython.Py_ssize_t, row: cython.Py_ssize_t):
    """Append the keys or values of records first … end − 1 → (bytes in `out`, nulls); (−1, 0): no room.

    position_field  KEY_POSITION or VALUE_POSITION; the next field has the sizes
    at, row         position in `out` and row of the first record; the caller has set ends[row]
    """
    out: cython.uchar[::1] = blobs.out
    ends: cython.int[::1] = blobs.ends
    valid: cython.uchar[::1] = blobs.valid
    index: cython.Py_ssize_t
    start: cython.longlong
    size: cython.longlong
    nulls: cython.Py_ssize_t = 0
    if first < 0 or end > records.shape[1] or position_field < 0 or position_field + 1 >= records.shape[0]: return -1, 0
    if row < 0 or at < 0 or (end > first and row + (end - first) >= ends.shape[0]): return -1, 0
    if end > first and (row + (end - first) + 7) // 8 > valid.shape[0]: return -1, 0
    with cython.nogil:
        for index in range(first, end):
            size = records[position_field + 1, index]
            if size < 0:
                nulls += 1
            else:
                start = records[position_field, index]
                if start < 0 or size > data.shape[0] - start or size > out.shape[0] - at: return -1, 0
                at = copy_bytes(out, at, data, start, size)
                valid[row >> 3] |= 1 << (row & 7)
            row += 1
            ends[row] = at
        return at, nulls


@cython.ccall
@cython.exceptval(check=False)
def spread(batches: cython.longlong[:, ::1], field: cython.int, records: cython.longlong[:, ::1],
           first: cython.Py_ssize_t, end: cython.Py_ssize_t, out: cython.longlong[::1], row: cython.Py_ssize_t,
           added: cython.longlong) -> cython.bint:
    """Write a field of its batch for each of the records first … end − 1, from out[row] on; False: bad arguments.

    added  is added to each value: for positions the start of the window, else 0
    """
    index: cython.Py_ssize_t
    batch: cython.longlong
    if first < 0 or end > records.shape[1] or field < 0 or field >= batches.shape[0]: return False
    if row < 0 or (end > first and row + (end - first) > out.shape[0]): return False
    with cython.nogil:
        for index in range(first, end):
            batch = records[fields.R_BATCH, index]
            if batch < 0 or batch >= batches.shape[1]: return False
            out[row] = wrapped_sum(batches[field, batch], added)
            row += 1
        return True


@cython.ccall
@cython.exceptval(check=False)
def timestamp_types(batches: cython.longlong[:, ::1], records: cython.longlong[:, ::1], first: cython.Py_ssize_t,
                    end: cython.Py_ssize_t, out: cython.int[::1], row: cython.Py_ssize_t) -> cython.bint:
    """Write the timestamp types of records first … end − 1, from out[row] on; False: bad arguments.

    0 CreateTime, 1 LogAppendTime, −1 in format 0, which has no timestamps (TimestampType).
    """
    index: cython.Py_ssize_t
    batch: cython.longlong
    if first < 0 or end > records.shape[1]: return False
    if row < 0 or (end > first and row + (end - first) > out.shape[0]): return False
    with cython.nogil:
        for index in range(first, end):
            batch = records[fields.R_BATCH, index]
            if batch < 0 or batch >= batches.shape[1]: return False
            if batches[fields.B_MAGIC, batch] == 0:
                out[row] = -1
            else:
                out[row] = batches[fields.B_ATTRIBUTES, batch] & fields.TIMESTAMP_TYPE_FLAG != 0
            row += 1
        return True


@cython.ccall
@cython.exceptval(check=False)
def microseconds(records: cython.longlong[:, ::1], first: cython.Py_ssize_t, end: cython.Py_ssize_t,
                 out: cython.longlong[::1], valid: cython.uchar[::1], row: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write the timestamps of records first … end − 1 as microseconds, from out[row] on → nulls; −1: no room.

    valid  a bit per row: set for rows that are not null. A timestamp that does not fit 64 bits as microseconds is null.
    """
    index: cython.Py_ssize_t
    timestamp: cython.longlong
    nulls: cython.Py_ssize_t = 0
    if first < 0 or end > records.shape[1] or row < 0: return -1
    if end > first and (row + (end - first) > out.shape[0] or (row + (end - first) + 7) // 8 > valid.shape[0]): return -1
    with cython.nogil:
        for index in range(first, end):
            timestamp = records[fields.R_TIMESTAMP, index]
            if timestamp > _LAST_MS or timestamp < -_LAST_MS:
                out[row] = 0
                nulls += 1
            else:
                out[row] = timestamp * 1000
                valid[row >> 3] |= 1 << (row & 7)
            row += 1
        return nulls


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.longlong, cython.longlong, cython.longlong))
def measure_headers(data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1], first: cython.Py_ssize_t,
                    end: cython.Py_ssize_t):
    """Measure the headers of records first … end − 1 → (headers, key bytes, value bytes); (−1, 0, 0): damaged."""
    index: cython.Py_ssize_t
    at: cython.Py_ssize_t
    count: cython.longlong
    size: cython.longlong
    total: cython.longlong = 0
    keys: cython.longlong = 0
    values: cython.longlong = 0
    if first < 0 or end > records.shape[1]: return -1, 0, 0
    with cython.nogil:
        for index in range(first, end):
            count = records[fields.R_HEADER_COUNT, index]
            at = records[fields.R_HEADERS_POSITION, index]
            if count > 0: total += count
            while count > 0:
                size, at = varint(data, at, data.shape[0])
                if at < 0 or size < 0 or size > data.shape[0] - at: return -1, 0, 0
                keys += size
                size, at = varint(data, at + size, data.shape[0])
                if at < 0 or size > data.shape[0] - at: return -1, 0, 0
                if size > 0:
                    values += size
                    at += size
                count -= 1
        return total, keys, values


@cython.final
@cython.cclass
class Headers:
    """The output buffers of an array of lists of headers: ends[row + 1] is the end of the headers of a row.

    valid            a bit per row: an empty list is null
    keys, key_ends   buffers of an array of bytes; no key is null        values  an array of bytes
    """

    ends: cython.int[::1]
    valid: cython.uchar[::1]
    keys: cython.uchar[::1]
    key_ends: cython.int[::1]
    values: Blobs

    def __init__(self, ends: cython.int[::1], valid: cython.uchar[::1], keys: cython.uchar[::1], key_ends: cython.int[::1],
                  values: Blobs):
        self.ends, self.valid, self.keys, self.key_ends, self.values = ends, valid, keys, key_ends, values


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.Py_ssize_t))
def gather_headers(data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1], first: cython.Py_ssize_t,
                   end: cython.Py_ssize_t, headers: Headers, row: cython.Py_ssize_t, header: cython.Py_ssize_t):
    """Append the headers of records first … end − 1 → (total headers, null lists, null values); (−1, 0, 0): no room.

    header  number of headers already in the buffers, with their ends
    No buffer is filled beyond 2 GiB, the limit of 32-bit ends.
    """
    lists: cython.int[::1] = headers.ends
    lists_valid: cython.uchar[::1] = headers.valid
    keys: cython.uchar[::1] = headers.keys
    key_ends: cython.int[::1] = headers.key_ends
    values: cython.uchar[::1] = headers.values.out
    value_ends: cython.int[::1] = headers.values.ends
    values_valid: cython.uchar[::1] = headers.values.valid
    index: cython.Py_ssize_t
    at: cython.Py_ssize_t
    count: cython.longlong
    size: cython.longlong
    empty: cython.Py_ssize_t = 0
    nulls: cython.Py_ssize_t = 0
    key_room: cython.Py_ssize_t = min(keys.shape[0], fields.INT_MAX)
    value_room: cython.Py_ssize_t = min(values.shape[0], fields.INT_MAX)
    if first < 0 or end > records.shape[1] or row < 0 or header < 0: return -1, 0, 0
    if end > first and (row + (end - first) >= lists.shape[0] or (row + (end - first) + 7) // 8 > lists_valid.shape[0]):
        return -1, 0, 0
    if header >= key_ends.shape[0] or header >= value_ends.shape[0] or key_ends[header] < 0 or value_ends[header] < 0:
        return -1, 0, 0
    with cython.nogil:
        for index in range(first, end):
            count = records[fields.R_HEADER_COUNT, index]
            at = records[fields.R_HEADERS_POSITION, index]
            if count <= 0: empty += 1
            else: lists_valid[row >> 3] |= 1 << (row & 7)
            while count > 0:
                if header + 1 >= key_ends.shape[0] or header + 1 >= value_ends.shape[0]: return -1, 0, 0
                if header // 8 >= values_valid.shape[0]: return -1, 0, 0
                size, at = varint(data, at, data.shape[0])
                if at < 0 or size < 0 or size > data.shape[0] - at or size > key_room - key_ends[header]: return -1, 0, 0
                key_ends[header + 1] = copy_bytes(keys, key_ends[header], data, at, size)
                size, at = varint(data, at + size, data.shape[0])
                if at < 0 or size > data.shape[0] - at or size > value_room - value_ends[header]: return -1, 0, 0
                if size < 0:
                    nulls += 1
                    value_ends[header + 1] = value_ends[header]
                else:
                    value_ends[header + 1] = copy_bytes(values, value_ends[header], data, at, size)
                    values_valid[header >> 3] |= 1 << (header & 7)
                    at += size
                header += 1
                count -= 1
            row += 1
            lists[row] = header
        return header, empty, nulls
