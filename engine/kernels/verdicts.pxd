cdef class LastRecords:
    cdef const long long[::1] ids
    cdef const long long[::1] offsets
    cdef const short[::1] epochs
    cdef long long round_end

cdef int kind_of(long long[:, ::1] batches, long long[:, ::1] counts, Py_ssize_t row, LastRecords last_records) noexcept nogil
cdef bint keeps_header(long long[:, ::1] batches, Py_ssize_t row, LastRecords last_records) noexcept nogil
