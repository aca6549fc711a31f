cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define KAFKALOG_PREFETCH(address) __builtin_prefetch(address)
    #else
    #define KAFKALOG_PREFETCH(address) ((void)(address))
    #endif
    """
    void prefetch "KAFKALOG_PREFETCH"(const void* address) noexcept nogil

cdef (unsigned long long, unsigned long long) digest(const unsigned char[::1] data, unsigned long long secret_0,
                                                     unsigned long long secret_1) noexcept nogil
cdef bint digest_ahead(const unsigned char[::1] data, long long[:, ::1] records, Py_ssize_t first, Py_ssize_t end,
                       const unsigned char[::1] answered, unsigned long long secret_0, unsigned long long secret_1,
                       unsigned long long[::1] slots, Py_ssize_t count, unsigned long long* ones,
                       unsigned long long* others) noexcept nogil
