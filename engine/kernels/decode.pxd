cdef (Py_ssize_t, Py_ssize_t, Py_ssize_t, long long, int) decode_rows(
    const unsigned char[::1] data, long long[:, ::1] batches, Py_ssize_t row, Py_ssize_t last_row, Py_ssize_t at,
    long long done, long long[:, ::1] records, Py_ssize_t filled) noexcept nogil
