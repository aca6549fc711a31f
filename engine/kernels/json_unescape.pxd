cdef int four_hex(unsigned char[::1] data, Py_ssize_t at) noexcept nogil
cdef Py_ssize_t unescape(unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end, Py_ssize_t to) noexcept nogil
cdef Py_ssize_t put_string(unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end, Py_ssize_t to) noexcept nogil
