cdef Py_ssize_t lz4_part(const unsigned char[::1] data, unsigned char[::1] out, unsigned short[::1] table) noexcept nogil
