# cython: boundscheck=False, wraparound=False
# The objects of headers, also for `templates`: measure with `headers_room` first, then write with `put_headers`. Inline, because
# the loops that use them would copy their memoryviews for each record.
from engine.kernels.json_strings cimport field_room, put_field, text_size_of
from engine.kernels.numbers cimport varint
from engine.kernels.words cimport put

cdef enum:
    HEADER_LIMIT = 40  # largest header object without its key and value


# the largest size of the objects of `count` headers from `at` on; -1: damaged headers
cdef inline Py_ssize_t headers_room(const unsigned char[::1] data, Py_ssize_t at, long long count, bint escape) noexcept nogil:
    cdef long long size
    cdef Py_ssize_t needed = 0
    cdef Py_ssize_t end = data.shape[0]
    for _ in range(count):
        size, at = varint(data, at, end)
        if at < 0 or size < 0 or size > end - at: return -1
        needed += HEADER_LIMIT + field_room(size, text_size_of(data, at, size, escape))
        size, at = varint(data, at + size, end)
        if at < 0 or size > end - at: return -1
        if size > 0:
            needed += field_room(size, text_size_of(data, at, size, escape))
            at += size
    return needed


# write the objects of headers that `headers_room` has measured, with commas between them; returns the position after them
cdef inline Py_ssize_t put_headers(unsigned char[::1] out, Py_ssize_t at, const unsigned char[::1] data, Py_ssize_t position,
                                   long long count, bint escape) noexcept nogil:
    cdef long long index, size
    for index in range(count):
        if index > 0: at = put(out, at, b',{"key', 6)
        else: at = put(out, at, b'{"key', 5)
        size, position = varint(data, position, data.shape[0])
        at = put_field(out, at, data, position, size, text_size_of(data, position, size, escape), escape)
        size, position = varint(data, position + size, data.shape[0])
        at = put(out, at, b',"value', 7)
        if size >= 0:
            at = put_field(out, at, data, position, size, text_size_of(data, position, size, escape), escape)
            position += size
        else:
            at = put(out, at, b'":null', 6)
        at = put(out, at, b'}', 1)
    return at
