cdef Py_ssize_t number(unsigned char* out, Py_ssize_t at, long long value) noexcept nogil
cdef Py_ssize_t utf8_sequence(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef int code_point(const unsigned char* data, Py_ssize_t at, Py_ssize_t size) noexcept nogil
cdef bint is_unsafe(int code) noexcept nogil
cdef (long long, Py_ssize_t) varint(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef long long advance(long long sequence, long long increment) noexcept nogil
cdef long long delta(long long last, long long first) noexcept nogil
