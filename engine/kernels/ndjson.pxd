# cython: boundscheck=False, wraparound=False
# The objects of headers, also for `templates`: measure with `headers_room` first, then write with `put_headers`.
cdef Py_ssize_t headers_room(const unsigned char[::1] data, Py_ssize_t at, long long count, bint escape) noexcept nogil
cdef Py_ssize_t put_headers(unsigned char[::1] out, Py_ssize_t at, const unsigned char[::1] data, Py_ssize_t position,
                            long long count, bint escape) noexcept nogil
