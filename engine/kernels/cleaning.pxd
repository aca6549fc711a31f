cdef long long last_in_order(long long[:, ::1] batches, long long[:, ::1] records, Py_ssize_t first, Py_ssize_t end,
                             long long last) noexcept nogil
