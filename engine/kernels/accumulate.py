# cython: language_level=3, boundscheck=False, wraparound=False
"""The loops of a producer: partitions of keys, and records that are appended to a batch while they fit.

Mirrors Utils.murmur2, AbstractRecords.estimateSizeInBytesUpperBound and MemoryRecordsBuilder.
"""

import cython
from cython.cimports.engine.kernels import fields
from cython.cimports.engine.kernels.numbers import (
    copy_bytes,
    put_raw_varint,
    put_sized,
    raw_varint_size,
    u32_le,
    varint,
    wrapped_difference,
)

_SEED = cython.declare(cython.uint, 0x9747B28C)
_M = cython.declare(cython.uint, 0x5BD1E995)
_RECORD_OVERHEAD = cython.declare(cython.longlong, 21)  # DefaultRecord.MAX_RECORD_OVERHEAD
_SAFETY = cython.declare(cython.float, 1.05)  # MemoryRecordsBuilder.COMPRESSION_RATE_ESTIMATION_FACTOR


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _murmur2(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.uint:
    """Return murmur2 of data[at:at + size], as 32 unsigned bits."""
    end: cython.Py_ssize_t = at + size
    value: cython.uint = _SEED ^ cython.cast(cython.uint, size)
    word: cython.uint
    while end - at >= 4:
        word = u32_le(data, at)
        word *= _M
        word = (word ^ (word >> 24)) * _M
        value = (value * _M) ^ word
        at += 4
    if end - at == 3: value ^= data[at + 2] << 16
    if end - at >= 2: value ^= data[at + 1] << 8
    if end - at >= 1: value = (value ^ data[at]) * _M
    value = (value ^ (value >> 13)) * _M
    return value ^ (value >> 15)


@cython.ccall
@cython.exceptval(check=False)
def murmur2(data: cython.const[cython.uchar][::1]) -> cython.longlong:
    """Return the murmur2 hash of a key as Java's int."""
    value: cython.longlong = _murmur2(data, 0, data.shape[0])
    return value - (1 << 32) if value > fields.INT_MAX else value


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _lies_in(data: cython.const[cython.uchar][::1], position: cython.longlong, size: cython.longlong) -> cython.bint:
    return 0 <= size <= fields.INT_MAX and 0 <= position <= data.shape[0] and size <= data.shape[0] - position


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.int))
def key_partitions(data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1], first: cython.Py_ssize_t,
                   end: cython.Py_ssize_t, count: cython.longlong, partitions: cython.longlong[::1]):
    """Write the partition of each record with a key into partitions[first:end], where it is −1 → (rows done, status).

    count   partitions of the topic        partitions   −1 is left for a null key
    status  END · BAD_RECORD (a key outside `data`) · BAD_START (rows that do not exist, no partition)
    """
    row: cython.Py_ssize_t
    size: cython.longlong
    positive: cython.longlong
    if first < 0 or end > records.shape[1] or end > partitions.shape[0]: return first, fields.BAD_START
    if records.shape[0] < fields.R_FIELDS or count < 1: return first, fields.BAD_START
    with cython.nogil:
        for row in range(first, end):
            size = records[fields.R_KEY_SIZE, row]
            if size == -1 or partitions[row] != -1: continue
            if not _lies_in(data, records[fields.R_KEY_POSITION, row], size): return row, fields.BAD_RECORD
            positive = _murmur2(data, records[fields.R_KEY_POSITION, row], size) & fields.INT_MAX
            partitions[row] = positive % count
        return end, fields.END


@cython.ccall
@cython.exceptval(check=False)
def given_partitions(given: cython.const[cython.longlong][::1], first: cython.Py_ssize_t, end: cython.Py_ssize_t,
                     count: cython.longlong, partitions: cython.longlong[::1]) -> cython.Py_ssize_t:
    """Copy the partitions of rows first … end − 1 → the first row whose partition is not below `count`, or `end`."""
    row: cython.Py_ssize_t
    if first < 0 or end > given.shape[0] or end > partitions.shape[0]: return first
    with cython.nogil:
        for row in range(first, end):
            if given[row] >= count: return row
            partitions[row] = given[row]
        return end


@cython.ccall
@cython.exceptval(check=False)
def same_kind(partitions: cython.const[cython.longlong][::1], first: cython.Py_ssize_t,
              end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the end of the rows from `first` on that all have a partition, or all have none (−1)."""
    row: cython.Py_ssize_t = first + 1
    if first < 0 or end > partitions.shape[0] or first >= end: return end
    with cython.nogil:
        while row < end and (partitions[row] < 0) == (partitions[first] < 0): row += 1
        return row


@cython.ccall
@cython.exceptval(check=False)
def rows_of(partitions: cython.const[cython.longlong][::1], first: cython.Py_ssize_t, end: cython.Py_ssize_t,
            partition: cython.longlong, rows: cython.longlong[::1]) -> cython.Py_ssize_t:
    """Write the numbers of the rows first … end − 1 with this partition, or with none (−1), into `rows` → how many."""
    row: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    if first < 0 or end > partitions.shape[0] or end - first > rows.shape[0]: return 0
    with cython.nogil:
        for row in range(first, end):
            if partitions[row] < 0 or partitions[row] == partition:
                rows[count] = row
                count += 1
        return count


@cython.ccall
@cython.exceptval(check=False)
def group_rows(partitions: cython.const[cython.longlong][::1], first: cython.Py_ssize_t, end: cython.Py_ssize_t,
               skipped: cython.longlong, starts: cython.longlong[::1], rows: cython.longlong[::1]) -> cython.bint:
    """Group the rows first … end − 1 by partition, in order, without those of `rows_of(skipped)`.

    starts  out: where the rows of each partition begin in `rows`, and the end of the last; one more than partitions, zeros
    rows    out, at least end − first
    False: bad arguments, or a partition that `starts` lacks.
    """
    row: cython.Py_ssize_t
    partition: cython.longlong
    count: cython.Py_ssize_t = starts.shape[0] - 1
    if first < 0 or end < first or end > partitions.shape[0] or end - first > rows.shape[0] or count < 0: return False
    with cython.nogil:
        for row in range(first, end):
            partition = partitions[row]
            if partition < 0 or partition == skipped: continue
            if partition >= count: return False
            starts[partition + 1] += 1
        for row in range(count): starts[row + 1] += starts[row]
        for row in range(first, end):
            partition = partitions[row]
            if partition < 0 or partition == skipped: continue
            rows[starts[partition]] = row
            starts[partition] += 1
        for row in range(count, 0, -1): starts[row] = starts[row - 1]
        starts[0] = 0
        return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _content_size(data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1],
                  row: cython.Py_ssize_t) -> cython.longlong:
    """Return the bytes of key, value and headers of a record, with their sizes and number; −1: the columns are not valid."""
    key: cython.longlong = records[fields.R_KEY_SIZE, row]
    value: cython.longlong = records[fields.R_VALUE_SIZE, row]
    count: cython.longlong = records[fields.R_HEADER_COUNT, row]
    size: cython.longlong = 2
    field: cython.longlong
    part: cython.longlong
    at: cython.Py_ssize_t
    if key != -1:
        if not _lies_in(data, records[fields.R_KEY_POSITION, row], key): return -1
        size += raw_varint_size(2 * key) + key - 1
    if value != -1:
        if not _lies_in(data, records[fields.R_VALUE_POSITION, row], value): return -1
        size += raw_varint_size(2 * value) + value - 1
    if count == 0: return size + 1
    at = records[fields.R_HEADERS_POSITION, row]
    if count < 0 or at < 0 or at > data.shape[0] or count > data.shape[0] - at: return -1
    for field in range(2 * count):
        part, at = varint(data, at, data.shape[0])
        if at < 0 or part > data.shape[0] - at: return -1
        if part >= 0: at += part
        elif part != -1 or field % 2 == 0: return -1  # −1: a null value
    return size + raw_varint_size(2 * count) + at - records[fields.R_HEADERS_POSITION, row]


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.longlong, cython.longlong))
def upper_bounds(data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1], first: cython.Py_ssize_t,
                 end: cython.Py_ssize_t, limit: cython.longlong):
    """Find the rows from `first` on of which none could exceed `limit` bytes as a batch of its own.

    Returns (end of these rows, largest and sum of their upper bounds). A row that cannot be encoded ends them, too.
    """
    row: cython.Py_ssize_t
    largest: cython.longlong = 0
    total: cython.longlong = 0
    size: cython.longlong
    if first < 0 or end > records.shape[1] or records.shape[0] < fields.R_FIELDS: return first, 0, 0
    with cython.nogil:
        for row in range(first, end):
            size = _content_size(data, records, row)
            if size < 0: return row, largest, total
            size += fields.V2_SIZE + _RECORD_OVERHEAD
            if size > limit: return row, largest, total
            total += size
            if size > largest: largest = size
        return end, largest, total


@cython.ccall
@cython.exceptval(check=False)
def upper_bound(data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1],
                row: cython.Py_ssize_t) -> cython.longlong:
    """Return the largest size of a batch with only the record `row`; −1: it cannot be encoded."""
    size: cython.longlong
    if row < 0 or row >= records.shape[1] or records.shape[0] < fields.R_FIELDS: return -1
    size = _content_size(data, records, row)
    return size + fields.V2_SIZE + _RECORD_OVERHEAD if size >= 0 else -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_record(data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1], row: cython.Py_ssize_t,
                size: cython.longlong, stamp: cython.ulonglong, out: cython.uchar[::1],
                at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write a record whose columns and room were checked → position after it.

    encode.put_record checks everything again, which takes as long as the writing.
    size   bytes after the length field        stamp  the timestamp relative to the first one, as zigzag
    """
    end: cython.Py_ssize_t
    at = put_raw_varint(out, at, 2 * size)
    end = at + size
    out[at] = 0  # records have no attributes yet
    at = put_raw_varint(out, at + 1, stamp)
    at = put_raw_varint(out, at, 2 * records[fields.R_OFFSET, row])
    at = put_sized(out, at, data, records[fields.R_KEY_POSITION, row], records[fields.R_KEY_SIZE, row])
    at = put_sized(out, at, data, records[fields.R_VALUE_POSITION, row], records[fields.R_VALUE_SIZE, row])
    at = put_raw_varint(out, at, 2 * records[fields.R_HEADER_COUNT, row])
    if end > at: at = copy_bytes(out, at, data, records[fields.R_HEADERS_POSITION, row], end - at)
    return at


@cython.final
@cython.cclass
class OpenRecords:
    """The records of a batch that is being filled, with offsets from 0 and without compression. Mirrors MemoryRecordsBuilder.

    out    room for their bytes; `grow` makes more
    limit  bytes that the batch should not exceed; its first record may be of any size
    ratio  expected compressed size by uncompressed size; 0: without a codec, so that sizes are exact
    """

    _out: cython.uchar[::1]
    _limit: cython.longlong
    _ratio: cython.float
    _written: cython.longlong
    _count: cython.longlong
    _base_timestamp: cython.longlong
    _max_timestamp: cython.longlong
    _largest: cython.longlong
    _closed: cython.bint
    _spent: cython.longlong

    def __init__(self, out: cython.uchar[::1], limit: cython.longlong, ratio: cython.float):
        self._out, self._limit, self._ratio = out, limit, ratio
        self._written = self._count = self._base_timestamp = self._largest = self._spent = 0
        self._max_timestamp = fields.NO_TIMESTAMP
        self._closed = False

    @property
    def body(self):
        """The bytes of the records, a view."""
        return self._out[: self._written]

    @property
    def written(self):
        """The number of bytes in `body`."""
        return self._written

    @property
    def count(self):
        """The number of records."""
        return self._count

    @property
    def timestamps(self):
        """The timestamp of the first record and the largest one, in ms."""
        return self._base_timestamp, self._max_timestamp

    @property
    def largest(self):
        """The largest upper bound of a record in bytes (see `upper_bound`)."""
        return self._largest

    @property
    def estimated_size(self):
        """The expected size of the batch in bytes: exact without a codec."""
        return self._estimated()

    @property
    def is_full(self):
        """Whether no record can be added, whatever its size."""
        return self._is_full()

    @property
    def spent(self):
        """The bytes that records without a partition added to the estimated size in the last call of `append`."""
        return self._spent

    @property
    def is_filled(self):
        """Whether the estimated size has reached the limit."""
        return self._count > 0 and self._limit <= self._estimated()

    def ratio_of(self, compressed: cython.longlong):
        """Return the ratio of compressed bytes to `written`, as Java's float."""
        ratio: cython.float = compressed
        return ratio / cython.cast(cython.float, self._written) if self._written > 0 else 1.0

    def close(self) -> None:
        """Accept no more records."""
        self._closed = True

    def grow(self, out: cython.uchar[::1]) -> None:
        """Continue in a larger buffer."""
        out[: self._written] = self._out[: self._written]
        self._out = out

    def release(self) -> None:
        """Give the buffer back; only the number of records is left."""
        self._written = 0
        self._out = bytearray()

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _estimated(self) -> cython.longlong:
        scaled: cython.float
        if self._ratio == 0: return fields.V2_SIZE + self._written
        scaled = self._written
        scaled = scaled * self._ratio
        scaled = scaled * _SAFETY
        return fields.V2_SIZE + cython.cast(cython.longlong, scaled)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _is_full(self) -> cython.bint:
        return self._closed or (self._count > 0 and self._limit <= self._estimated())

    @cython.ccall
    @cython.exceptval(check=False)
    @cython.returns((cython.Py_ssize_t, cython.int))
    def append(self, data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1],
               partitions: cython.const[cython.longlong][::1], rows: cython.const[cython.longlong][::1],
               first: cython.Py_ssize_t, end: cython.Py_ssize_t, budget: cython.longlong):
        """Append the records with the row numbers rows[first:end] while they fit → (index of the next one in `rows`, status).

        records     their offsets are overwritten
        partitions  of each row; only records without one (−1) spend the budget
        budget      stop when they have added this many bytes to the estimated size, see `spent`
        status      END (no rows are left, the budget is spent, or the batch is full: a record that does not fit closes it)
                    · FULL (see `grow`) · BAD_RECORD (see encode.measure_records) · BAD_START (rows that do not exist)
        """
        index: cython.Py_ssize_t = first
        row: cython.longlong
        before: cython.longlong
        status: cython.int = fields.END
        self._spent = 0
        if first < 0 or end > rows.shape[0] or records.shape[0] < fields.R_FIELDS: return first, fields.BAD_START
        with cython.nogil:
            while index < end and not self._is_full():
                row = rows[index]
                if row < 0 or row >= records.shape[1] or row >= partitions.shape[0]: return index, fields.BAD_START
                before = self._estimated() if self._count > 0 else 0
                status = self._put(data, records, row)
                if status != fields.END or self._closed: return index, status
                index += 1
                if partitions[row] < 0:
                    self._spent += self._estimated() - before
                    if self._spent >= budget: return index, status
        return index, status

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _put(self, data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1],
             row: cython.Py_ssize_t) -> cython.int:
        """Append one record, or close the batch if it does not fit → status."""
        content: cython.longlong = _content_size(data, records, row)
        stamp: cython.longlong = records[fields.R_TIMESTAMP, row]
        delta: cython.longlong
        zigzag: cython.ulonglong
        size: cython.longlong
        if content < 0 or self._count > fields.INT_MAX: return fields.BAD_RECORD
        if self._count == 0: self._base_timestamp = stamp
        delta = wrapped_difference(stamp, self._base_timestamp)
        zigzag = -(delta + 1) if delta < 0 else delta
        zigzag = 2 * zigzag + (1 if delta < 0 else 0)
        size = 1 + raw_varint_size(zigzag) + raw_varint_size(2 * self._count) + content
        if size > fields.INT_MAX: return fields.BAD_RECORD
        if self._count > 0 and self._limit < self._estimated() + size + raw_varint_size(2 * size):
            self._closed = True
            return fields.END
        if size + raw_varint_size(2 * size) > self._out.shape[0] - self._written: return fields.FULL
        records[fields.R_OFFSET, row] = self._count
        self._written = _put_record(data, records, row, size, zigzag, self._out, self._written)
        self._count += 1
        if stamp > self._max_timestamp: self._max_timestamp = stamp
        content += fields.V2_SIZE + _RECORD_OVERHEAD
        if content > self._largest: self._largest = content
        return fields.END
