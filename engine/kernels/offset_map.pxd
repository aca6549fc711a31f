cdef (Py_ssize_t, int) put_rows(
    const unsigned char[::1] data, long long[:, ::1] records, Py_ssize_t first, Py_ssize_t end, long long start_offset,
    const unsigned char[::1] skipped, unsigned long long[::1] slots, unsigned long long secret_0, unsigned long long secret_1,
    long long[::1] state) noexcept nogil
