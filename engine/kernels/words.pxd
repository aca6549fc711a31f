# cython: boundscheck=False, wraparound=False
from libc.string cimport memcpy

from engine.kernels cimport fields
from engine.kernels.numbers cimport i32, i64, wrapped_difference, wrapped_sum

cdef extern from *:
    """
    #define kafkalog_pairs "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849" \\
        "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899"
    """
    const char* PAIRS "kafkalog_pairs"  # 00 01 02 … 99

cdef Py_ssize_t decimal(unsigned char* out, Py_ssize_t at, long long value) noexcept nogil
cdef Py_ssize_t utf8_sequence(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef int code_point(const unsigned char* data, Py_ssize_t at, Py_ssize_t size) noexcept nogil
cdef bint is_unsafe(int code) noexcept nogil
cdef unsigned char hex_digit(int value) noexcept nogil
cdef Py_ssize_t java_escape(unsigned char* out, Py_ssize_t at, int code) noexcept nogil
cdef long long advance(long long sequence, long long increment) noexcept nogil


cdef inline Py_ssize_t put(unsigned char[::1] out, Py_ssize_t at, const char* text, Py_ssize_t size) noexcept nogil:
    memcpy(&out[at], text, size)  # inlined with a constant size: a few moves
    return at + size


cdef inline Py_ssize_t two(unsigned char* out, Py_ssize_t at, unsigned int pair) noexcept nogil:
    memcpy(out + at, PAIRS + 2 * pair, 2)
    return at + 2


cdef inline Py_ssize_t number(unsigned char[::1] out, Py_ssize_t at, long long value) noexcept nogil:
    if 0 <= value < 10:
        out[at] = <unsigned char>(48 + value)
        return at + 1
    if value == -1:
        out[at] = 45
        out[at + 1] = 49
        return at + 2
    return decimal(&out[0], at, value)


cdef inline Py_ssize_t boolean(unsigned char[::1] out, Py_ssize_t at, bint value) noexcept nogil:
    return put(out, at, b"true", 4) if value else put(out, at, b"false", 5)


# Write Kafka's name of the timestamp type; at most 15 bytes.
cdef inline Py_ssize_t timestamp_type(unsigned char[::1] out, Py_ssize_t at, long long magic, long long attributes) noexcept nogil:
    if magic == 0: return put(out, at, b"NoTimestampType", 15)
    if attributes & fields.TIMESTAMP_TYPE_FLAG: return put(out, at, b"LogAppendTime", 13)
    return put(out, at, b"CreateTime", 10)


# The sequence of a record; −1: its batch has none.
cdef inline long long record_sequence(long long[:, ::1] batches, Py_ssize_t row, long long offset) noexcept nogil:
    cdef long long base = batches[fields.B_BASE_SEQUENCE, row]
    return advance(base, wrapped_difference(offset, batches[fields.B_BASE_OFFSET, row])) if base >= 0 else -1


# The sequence of a batch's last record; −1: it has none.
cdef inline long long last_sequence(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    cdef long long base = batches[fields.B_BASE_SEQUENCE, row]
    if base == -1: return base
    return advance(base, wrapped_difference(batches[fields.B_LAST_OFFSET, row], batches[fields.B_BASE_OFFSET, row]))


# The numbers of an entry of an index, in their order in the file: (timestamp, offset) of a time index, else (offset, position).
cdef inline (long long, long long) index_entry(const unsigned char[::1] index, Py_ssize_t row, long long base_offset,
                                               bint is_time) noexcept nogil:
    cdef Py_ssize_t at
    if is_time:
        at = row * fields.TIME_ENTRY_SIZE
        return i64(index, at), wrapped_sum(base_offset, i32(index, at + fields.TIME_ENTRY_RELATIVE_OFFSET_AT))
    at = row * fields.OFFSET_ENTRY_SIZE
    return wrapped_sum(base_offset, i32(index, at)), i32(index, at + fields.OFFSET_ENTRY_POSITION_AT)


cdef inline Py_ssize_t unicode_escape(unsigned char[::1] out, Py_ssize_t at, int code) noexcept nogil:
    return java_escape(&out[0], at, code)


cdef inline Py_ssize_t sequence_size(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    return utf8_sequence(&data[0], at, end)


cdef inline int character(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    return code_point(&data[0], at, size)
