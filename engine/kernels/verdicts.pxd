cdef int kind_of(long long[:, ::1] batches, long long[:, ::1] counts, Py_ssize_t row, const long long[::1] ids,
                 const long long[::1] offsets, const short[::1] epochs, long long round_end) noexcept nogil
cdef bint is_precious(long long[:, ::1] batches, Py_ssize_t row, const long long[::1] ids, const long long[::1] offsets,
                      const short[::1] epochs, long long round_end) noexcept nogil
