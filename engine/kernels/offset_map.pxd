cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define KAFKALOG_PREFETCH(address) __builtin_prefetch(address)
    #else
    #define KAFKALOG_PREFETCH(address) ((void)(address))
    #endif
    """
    void prefetch "KAFKALOG_PREFETCH"(const void* address) noexcept nogil

cdef class OffsetMap:
    cdef unsigned long long[::1] slots
    cdef unsigned long long secret_0
    cdef unsigned long long secret_1
    cdef long long[::1] state

cdef (Py_ssize_t, int) put_rows(
    OffsetMap known, const unsigned char[::1] data, long long[:, ::1] records, Py_ssize_t first, Py_ssize_t end,
    long long start_offset, const unsigned char[::1] skipped) noexcept nogil
