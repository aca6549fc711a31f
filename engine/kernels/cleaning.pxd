cdef int kind_of(long long[:, ::1] batches, long long[:, ::1] counts, Py_ssize_t row,
                 const long long[::1] precious) noexcept nogil
