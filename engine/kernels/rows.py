# cython: language_level=3, boundscheck=False, wraparound=False
"""Copy chosen rows of Arrow arrays into columns of records over one buffer, and choose the partition of each row.

The inverse of `gather`. An array of bytes is its buffers: `data`, 32-bit `ends` (one more than rows), `valid` (a bit per
row, 0 is null; empty: no nulls) and `start`, the row of the buffers that is row 0 of the array. `chosen` has row numbers.
Every number is checked before it is used.
"""

import cython
from cython.cimports.engine.kernels import fields
from cython.cimports.engine.kernels.numbers import copy_bytes, put_raw_varint, raw_varint_size

_LOW = cython.declare(cython.ulonglong, 2**32 - 1)
_MURMUR = cython.declare(cython.ulonglong, 0x5BD1E995)
_SEED = cython.declare(cython.ulonglong, 0x9747B28C)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _has_rows(ends: cython.const[cython.int][::1], valid: cython.const[cython.uchar][::1], start: cython.Py_ssize_t,
              length: cython.Py_ssize_t) -> cython.bint:
    """Do the buffers have rows start … start + length − 1?"""
    if start < 0 or length < 0 or ends.shape[0] < 1 or start > ends.shape[0] - 1 - length: return False
    return valid.shape[0] == 0 or (start + length + 7) // 8 <= valid.shape[0]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _has_room(first: cython.Py_ssize_t, end: cython.Py_ssize_t, chosen: cython.Py_ssize_t, record: cython.Py_ssize_t,
              capacity: cython.Py_ssize_t) -> cython.bint:
    """Do rows first … end − 1 of `chosen` exist, and do they fit into `capacity` records from `record` on?"""
    if first < 0 or end > chosen or record < 0: return False
    return end <= first or end - first <= capacity - record


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_null(valid: cython.const[cython.uchar][::1], row: cython.Py_ssize_t) -> cython.bint:
    return valid.shape[0] != 0 and not (valid[row >> 3] >> (row & 7)) & 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _stored(size: cython.longlong) -> cython.ulonglong:
    """Return a size, or −1, in zigzag."""
    return 2 * size if size >= 0 else 1


@cython.final
@cython.cclass
class Blobs:
    """The buffers of an array of bytes, see the module; `length` rows from `start` on."""

    data: cython.const[cython.uchar][::1]
    ends: cython.const[cython.int][::1]
    valid: cython.const[cython.uchar][::1]
    start: cython.Py_ssize_t
    length: cython.Py_ssize_t

    def __init__(self, data: cython.const[cython.uchar][::1], ends: cython.const[cython.int][::1],
                  valid: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, length: cython.Py_ssize_t):
        self.data, self.ends, self.valid, self.start, self.length = data, ends, valid, start, length


@cython.final
@cython.cclass
class Numbers:
    """The buffers of an array of 64-bit integers; fields as in Blobs."""

    values: cython.const[cython.longlong][::1]
    valid: cython.const[cython.uchar][::1]
    start: cython.Py_ssize_t
    length: cython.Py_ssize_t

    def __init__(self, values: cython.const[cython.longlong][::1], valid: cython.const[cython.uchar][::1],
                  start: cython.Py_ssize_t, length: cython.Py_ssize_t):
        self.values, self.valid, self.start, self.length = values, valid, start, length


@cython.final
@cython.cclass
class HeaderLists:
    """The buffers of an array of lists of headers: `ends` are those of the rows in `keys` and `values`; others as in Blobs."""

    ends: cython.const[cython.int][::1]
    valid: cython.const[cython.uchar][::1]
    start: cython.Py_ssize_t
    length: cython.Py_ssize_t
    keys: Blobs
    values: Blobs

    def __init__(self, ends: cython.const[cython.int][::1], valid: cython.const[cython.uchar][::1],
                  start: cython.Py_ssize_t, length: cython.Py_ssize_t, keys: Blobs, values: Blobs):
        self.ends, self.valid, self.start, self.length, self.keys, self.values = ends, valid, start, length, keys, values


@cython.final
@cython.cclass
class Chosen:
    """The rows rows[first:end] of an array, in this order."""

    rows: cython.const[cython.longlong][::1]
    first: cython.Py_ssize_t
    end: cython.Py_ssize_t

    def __init__(self, rows: cython.const[cython.longlong][::1], first: cython.Py_ssize_t, end: cython.Py_ssize_t):
        self.rows, self.first, self.end = rows, first, end


@cython.final
@cython.cclass
class NumberRule:
    """How `take_numbers` converts and checks numbers.

    unit     divisor, rounding down        missing  value for null
    least    smallest accepted value       grows    each value must be larger than the one before
    """

    unit: cython.longlong
    missing: cython.longlong
    least: cython.longlong
    grows: cython.bint

    def __init__(self, unit: cython.longlong, missing: cython.longlong, least: cython.longlong, grows: cython.bint):
        self.unit, self.missing, self.least, self.grows = unit, missing, least, grows


@cython.ccall
@cython.exceptval(check=False)
def measure_rows(blobs: Blobs, rows: Chosen) -> cython.longlong:
    """Return the bytes of the rows of an array; −1: the buffers do not have these rows."""
    ends: cython.const[cython.int][::1] = blobs.ends
    valid: cython.const[cython.uchar][::1] = blobs.valid
    start: cython.Py_ssize_t = blobs.start
    length: cython.Py_ssize_t = blobs.length
    chosen: cython.const[cython.longlong][::1] = rows.rows
    first: cython.Py_ssize_t = rows.first
    end: cython.Py_ssize_t = rows.end
    index: cython.Py_ssize_t
    row: cython.longlong
    total: cython.longlong = 0
    if not _has_rows(ends, valid, start, length) or first < 0 or end > chosen.shape[0]: return -1
    with cython.nogil:
        for index in range(first, end):
            row = chosen[index]
            if row < 0 or row >= length: return -1
            row += start
            if _is_null(valid, row): continue
            if ends[row] < 0 or ends[row + 1] < ends[row]: return -1
            total += ends[row + 1] - ends[row]
        return total


@cython.ccall
@cython.exceptval(check=False)
def take_rows(blobs: Blobs, rows: Chosen, out: cython.uchar[::1], at: cython.Py_ssize_t, records: cython.longlong[:, ::1],
              record: cython.Py_ssize_t, position_field: cython.int) -> cython.Py_ssize_t:
    """Copy the rows to out[at:] → position after them; −1: no room, or the rows do not exist.

    records, record  out: position (in `position_field`) and size (in the next field) of each row, from `record` on; null: −1
    """
    data: cython.const[cython.uchar][::1] = blobs.data
    ends: cython.const[cython.int][::1] = blobs.ends
    valid: cython.const[cython.uchar][::1] = blobs.valid
    start: cython.Py_ssize_t = blobs.start
    length: cython.Py_ssize_t = blobs.length
    chosen: cython.const[cython.longlong][::1] = rows.rows
    first: cython.Py_ssize_t = rows.first
    end: cython.Py_ssize_t = rows.end
    index: cython.Py_ssize_t
    row: cython.longlong
    size: cython.longlong
    if not _has_rows(ends, valid, start, length) or at < 0: return -1
    if not _has_room(first, end, chosen.shape[0], record, records.shape[1]): return -1
    if position_field < 0 or position_field + 1 >= records.shape[0]: return -1
    with cython.nogil:
        for index in range(first, end):
            row = chosen[index]
            if row < 0 or row >= length: return -1
            row += start
            records[position_field, record] = at
            if _is_null(valid, row):
                records[position_field + 1, record] = -1
            else:
                size = ends[row + 1]
                size -= ends[row]
                if ends[row] < 0 or size < 0 or ends[row + 1] > data.shape[0] or size > out.shape[0] - at: return -1
                at = copy_bytes(out, at, data, ends[row], size)
                records[position_field + 1, record] = size
            record += 1
        return at


@cython.ccall
@cython.exceptval(check=False)
def measure_header_rows(headers: HeaderLists, rows: Chosen) -> cython.longlong:
    """Return the bytes of the headers of the rows in wire form; −1: the rows do not exist; −2: a header without key."""
    lists: cython.const[cython.int][::1] = headers.ends
    lists_valid: cython.const[cython.uchar][::1] = headers.valid
    start: cython.Py_ssize_t = headers.start
    length: cython.Py_ssize_t = headers.length
    key_ends: cython.const[cython.int][::1] = headers.keys.ends
    key_valid: cython.const[cython.uchar][::1] = headers.keys.valid
    key_start: cython.Py_ssize_t = headers.keys.start
    value_ends: cython.const[cython.int][::1] = headers.values.ends
    value_valid: cython.const[cython.uchar][::1] = headers.values.valid
    value_start: cython.Py_ssize_t = headers.values.start
    count: cython.Py_ssize_t = headers.keys.length
    chosen: cython.const[cython.longlong][::1] = rows.rows
    first: cython.Py_ssize_t = rows.first
    end: cython.Py_ssize_t = rows.end
    index: cython.Py_ssize_t
    row: cython.longlong
    header: cython.longlong
    total: cython.longlong = 0
    size: cython.longlong
    if not _has_rows(lists, lists_valid, start, length) or first < 0 or end > chosen.shape[0]: return -1
    if not _has_rows(key_ends, key_valid, key_start, count) or not _has_rows(value_ends, value_valid, value_start, count):
        return -1
    with cython.nogil:
        for index in range(first, end):
            row = chosen[index]
            if row < 0 or row >= length: return -1
            row += start
            if _is_null(lists_valid, row): continue
            if lists[row] < 0 or lists[row + 1] > count: return -1
            for header in range(lists[row], lists[row + 1]):
                if _is_null(key_valid, key_start + header): return -2
                size = key_ends[key_start + header + 1]
                size -= key_ends[key_start + header]
                if size < 0: return -1
                total += size + raw_varint_size(_stored(size))
                size = -1
                if not _is_null(value_valid, value_start + header):
                    size = value_ends[value_start + header + 1]
                    size -= value_ends[value_start + header]
                    if size < 0: return -1
                    total += size
                total += raw_varint_size(_stored(size))
        return total


@cython.ccall
@cython.exceptval(check=False)
def take_header_rows(headers: HeaderLists, rows: Chosen, out: cython.uchar[::1], at: cython.Py_ssize_t,
                     records: cython.longlong[:, ::1], record: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write the headers of the rows, which all have keys, to out[at:] in wire form → position after them; −1: no room."""
    lists: cython.const[cython.int][::1] = headers.ends
    lists_valid: cython.const[cython.uchar][::1] = headers.valid
    start: cython.Py_ssize_t = headers.start
    length: cython.Py_ssize_t = headers.length
    keys: cython.const[cython.uchar][::1] = headers.keys.data
    key_ends: cython.const[cython.int][::1] = headers.keys.ends
    key_start: cython.Py_ssize_t = headers.keys.start
    values: cython.const[cython.uchar][::1] = headers.values.data
    value_ends: cython.const[cython.int][::1] = headers.values.ends
    value_valid: cython.const[cython.uchar][::1] = headers.values.valid
    value_start: cython.Py_ssize_t = headers.values.start
    count: cython.Py_ssize_t = headers.keys.length
    chosen: cython.const[cython.longlong][::1] = rows.rows
    first: cython.Py_ssize_t = rows.first
    end: cython.Py_ssize_t = rows.end
    index: cython.Py_ssize_t
    row: cython.longlong
    header: cython.longlong
    size: cython.longlong
    begin: cython.longlong
    if not _has_rows(lists, lists_valid, start, length) or at < 0: return -1
    if not _has_rows(key_ends, value_valid[:0], key_start, count): return -1
    if not _has_rows(value_ends, value_valid, value_start, count) or records.shape[0] < fields.R_FIELDS: return -1
    if not _has_room(first, end, chosen.shape[0], record, records.shape[1]): return -1
    with cython.nogil:
        for index in range(first, end):
            row = chosen[index]
            if row < 0 or row >= length: return -1
            row += start
            records[fields.R_HEADERS_POSITION, record] = at
            records[fields.R_HEADER_COUNT, record] = 0
            if not _is_null(lists_valid, row):
                if lists[row] < 0 or lists[row + 1] > count: return -1
                if lists[row + 1] > lists[row]: records[fields.R_HEADER_COUNT, record] = lists[row + 1] - lists[row]
                for header in range(lists[row], lists[row + 1]):
                    begin = key_ends[key_start + header]
                    size = key_ends[key_start + header + 1] - begin
                    if begin < 0 or size < 0 or size > keys.shape[0] - begin or size > out.shape[0] - at - 5: return -1
                    at = copy_bytes(out, put_raw_varint(out, at, _stored(size)), keys, begin, size)
                    begin = value_ends[value_start + header]
                    size = value_ends[value_start + header + 1] - begin
                    if begin < 0 or size < 0 or size > values.shape[0] - begin or size > out.shape[0] - at - 5: return -1
                    if _is_null(value_valid, value_start + header):
                        at = put_raw_varint(out, at, 1)
                    else:
                        at = copy_bytes(out, put_raw_varint(out, at, _stored(size)), values, begin, size)
            record += 1
        return at


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.longlong))
def take_numbers(numbers: Numbers, rows: Chosen, rule: NumberRule, records: cython.longlong[:, ::1],
                 record: cython.Py_ssize_t, field: cython.int):
    """Copy the numbers of the rows into a field of records → (rows done, the rejected number).

    Rows done −1: the rows do not exist.
    """
    values: cython.const[cython.longlong][::1] = numbers.values
    valid: cython.const[cython.uchar][::1] = numbers.valid
    start: cython.Py_ssize_t = numbers.start
    length: cython.Py_ssize_t = numbers.length
    unit: cython.longlong = rule.unit
    least: cython.longlong = rule.least
    chosen: cython.const[cython.longlong][::1] = rows.rows
    first: cython.Py_ssize_t = rows.first
    end: cython.Py_ssize_t = rows.end
    index: cython.Py_ssize_t
    row: cython.longlong
    value: cython.longlong
    if start < 0 or length < 0 or start > values.shape[0] - length or unit <= 0: return -1, 0
    if valid.shape[0] != 0 and (start + length + 7) // 8 > valid.shape[0]: return -1, 0
    if not _has_room(first, end, chosen.shape[0], record, records.shape[1]) or field < 0 or field >= records.shape[0]:
        return -1, 0
    with cython.nogil:
        for index in range(first, end):
            row = chosen[index]
            if row < 0 or row >= length: return -1, 0
            row += start
            if _is_null(valid, row):
                value = rule.missing
            else:
                value = values[row] // unit
            if value < least: return index - first, value
            if rule.grows:
                if value == fields.LONG_MAX: return index - first, value
                least = value + 1
            records[field, record] = value
            record += 1
        return end - first, 0


@cython.ccall
@cython.exceptval(check=False)
def group_rows(codes: cython.const[cython.int][::1], count: cython.Py_ssize_t, ends: cython.longlong[::1],
               chosen: cython.longlong[::1]) -> cython.bint:
    """Sort the rows 0 … count − 1 by their codes (stable) → False: a code is too large for `ends`.

    chosen  out: the row numbers        ends    out, one more than codes: end of the rows of each code in `chosen`
    """
    row: cython.Py_ssize_t
    code: cython.Py_ssize_t
    groups: cython.Py_ssize_t = ends.shape[0] - 1
    if count < 0 or count > codes.shape[0] or count > chosen.shape[0] or groups < 0: return False
    with cython.nogil:
        for code in range(groups + 1): ends[code] = 0
        for row in range(count):
            code = codes[row]
            if code < 0 or code >= groups: return False
            ends[code + 1] += 1
        for code in range(groups): ends[code + 1] += ends[code]
        for row in range(count):  # ends[code] is the index of its next row, and finally its end
            code = codes[row]
            chosen[ends[code]] = row
            ends[code] += 1
        return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _murmur2(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.ulonglong:
    """Return a hash of 32 bits. Mirrors Utils.murmur2."""
    digest: cython.ulonglong = _SEED ^ size
    word: cython.ulonglong
    end: cython.Py_ssize_t = at + (size & ~3)
    rest: cython.Py_ssize_t = size & 3
    high: cython.ulonglong
    while at < end:
        word = data[at + 3]
        word = word * 256 + data[at + 2]
        word = word * 256 + data[at + 1]
        word = word * 256 + data[at]
        word = (word * _MURMUR) & _LOW
        word = ((word ^ (word >> 24)) * _MURMUR) & _LOW
        digest = ((digest * _MURMUR) & _LOW) ^ word
        at += 4
    if rest > 0:
        if rest == 3:
            high = data[at + 2]
            digest ^= high << 16
        if rest >= 2:
            high = data[at + 1]
            digest ^= high << 8
        digest = ((digest ^ data[at]) * _MURMUR) & _LOW
    digest = ((digest ^ (digest >> 13)) * _MURMUR) & _LOW
    return digest ^ (digest >> 15)


@cython.ccall
@cython.exceptval(check=False)
def choose_partitions(data: cython.const[cython.uchar][::1], ends: cython.const[cython.int][::1],
                      valid: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, count: cython.Py_ssize_t,
                      partitions: cython.longlong, keyless: cython.longlong, out: cython.int[::1]) -> cython.bint:
    """Write the partition of each row with a negative out[row], from the hash of its key.

    keyless  the partition of rows without a key        False: the buffers do not have `count` rows
    Mirrors BuiltInPartitioner.partitionForKey.
    """
    row: cython.Py_ssize_t
    begin: cython.Py_ssize_t
    size: cython.Py_ssize_t
    if not _has_rows(ends, valid, start, count) or count > out.shape[0] or partitions <= 0: return False
    with cython.nogil:
        for row in range(count):
            if out[row] >= 0: continue
            if _is_null(valid, start + row):
                out[row] = keyless
                continue
            begin = ends[start + row]
            size = ends[start + row + 1] - begin
            if begin < 0 or size < 0 or size > data.shape[0] - begin: return False
            out[row] = (_murmur2(data, begin, size) & fields.INT_MAX) % partitions
        return True
