cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define KAFKALOG_PREFETCH(address) __builtin_prefetch(address)
    #else
    #define KAFKALOG_PREFETCH(address) ((void)(address))
    #endif
    """
    void prefetch "KAFKALOG_PREFETCH"(const void* address) noexcept nogil
