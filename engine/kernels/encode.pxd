cdef Py_ssize_t put_record(const unsigned char[::1] data, long long[:, ::1] records, Py_ssize_t row, long long base_offset,
                           long long base_timestamp, unsigned char[::1] out, Py_ssize_t at) noexcept nogil
