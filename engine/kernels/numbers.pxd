# cython: boundscheck=False, wraparound=False
# Read and write integers (big-endian, except u32_le) and varints, add like Java, copy bytes. Functions of a .pxd are inlined,
# calls into another module cannot be. `data` are bytes, `at` is a byte position; the caller has checked that an integer lies
# in `data`.
from libc.string cimport memcpy


# A signed integer of 16 bits.
cdef inline long long i16(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil:
    return <short>((<unsigned int>data[at] << 8) | data[at + 1])


# An unsigned integer of 32 bits.
cdef inline long long u32(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil:
    return ((<unsigned int>data[at] << 24) | (<unsigned int>data[at + 1] << 16)
            | (<unsigned int>data[at + 2] << 8) | <unsigned int>data[at + 3])


# A signed integer of 32 bits.
cdef inline long long i32(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil:
    return <int><unsigned int>u32(data, at)


# A signed integer of 64 bits.
cdef inline long long i64(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil:
    return <long long>((<unsigned long long>u32(data, at) << 32) | <unsigned long long>u32(data, at + 4))


# An unsigned integer of 32 bits, little-endian.
cdef inline unsigned int u32_le(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil:
    return (data[at] | (<unsigned int>data[at + 1] << 8)
            | (<unsigned int>data[at + 2] << 16) | (<unsigned int>data[at + 3] << 24))


# one + other as Java adds longs: wraps at 2^63.
cdef inline long long wrapped_sum(long long one, long long other) noexcept nogil:
    return <long long>(<unsigned long long>one + <unsigned long long>other)


# one − other as Java subtracts longs.
cdef inline long long wrapped_difference(long long one, long long other) noexcept nogil:
    return <long long>(<unsigned long long>one - <unsigned long long>other)


# 0 <= offset − base <= 2^31 − 1: does the difference fit in a file's field of 32 bits?
cdef inline bint fits_int(long long base, long long offset) noexcept nogil:
    return offset >= base and <unsigned long long>offset - <unsigned long long>base <= 2147483647


# A zigzag varint of 32 bits in data[at:end] → (value, position after it).
# (0, −1): it is incomplete or longer than five bytes, or `at` is negative. Bits of the fifth byte above the 32nd are
# dropped, as in Java. Mirrors ByteUtils.readVarint.
cdef inline (long long, Py_ssize_t) varint(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    cdef unsigned int raw = 0
    cdef unsigned int byte
    cdef int shift = 0
    if at < 0: return 0, -1
    if at < end and data[at] < 128:  # one byte: the usual case
        byte = data[at]
        return <long long>(byte >> 1) ^ -<long long>(byte & 1), at + 1
    while shift < 35 and at < end:
        byte = data[at]
        at += 1
        raw |= (byte & 127) << shift
        if byte < 128: return <long long>(raw >> 1) ^ -<long long>(raw & 1), at
        shift += 7
    return 0, -1


# A zigzag varint of 64 bits in data[at:end], like `varint`; up to ten bytes. Mirrors ByteUtils.readVarlong.
cdef inline (long long, Py_ssize_t) varlong(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    cdef unsigned long long raw = 0
    cdef unsigned long long byte
    cdef int shift = 0
    if at < 0: return 0, -1
    while shift < 70 and at < end:
        byte = data[at]
        at += 1
        raw |= (byte & 127) << shift
        if byte < 128: return <long long>(raw >> 1) ^ -<long long>(raw & 1), at
        shift += 7
    return 0, -1


# Write the low `size` bytes of `value`, big-endian → position after them. The caller has checked the room.
cdef inline Py_ssize_t put_int(unsigned char[::1] out, Py_ssize_t at, long long value, int size) noexcept nogil:
    cdef int shift = 8 * size  # a literal where it is inlined: no loop is left
    while shift > 0:
        shift -= 8
        out[at] = <unsigned char>((value >> shift) & 255)
        at += 1
    return at


# Bytes of an unsigned value as a varint; a signed value must be converted to zigzag before.
cdef inline Py_ssize_t raw_varint_size(unsigned long long value) noexcept nogil:
    cdef Py_ssize_t size = 1
    while value >= 128:
        value >>= 7
        size += 1
    return size


# Write an unsigned value as a varint → position after it. The caller has checked the room.
cdef inline Py_ssize_t put_raw_varint(unsigned char[::1] out, Py_ssize_t at, unsigned long long value) noexcept nogil:
    while value >= 128:
        out[at] = <unsigned char>((value & 127) | 128)
        value >>= 7
        at += 1
    out[at] = <unsigned char>value
    return at + 1


# Copy data[start:start + size] to out[at:] → position after it. The caller has checked both ranges; they do not overlap.
cdef inline Py_ssize_t copy_bytes(unsigned char[::1] out, Py_ssize_t at, const unsigned char[::1] data, Py_ssize_t start,
                                  Py_ssize_t size) noexcept nogil:
    if size > 0:  # for size 0, `at` and `start` may be the end of a buffer, which must not be indexed
        memcpy(&out[at], &data[start], size)
    return at + size


# Write a key or value of a v2 record: its size as a varint, then data[start:start + size]; size −1 is null → position after it.
cdef inline Py_ssize_t put_sized(unsigned char[::1] out, Py_ssize_t at, const unsigned char[::1] data, Py_ssize_t start,
                                 long long size) noexcept nogil:
    if size < 0: return put_raw_varint(out, at, 1)
    return copy_bytes(out, put_raw_varint(out, at, 2 * size), data, start, size)
