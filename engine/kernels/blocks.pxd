cdef extern from *:
    """
    #if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    #define KAFKALOG_EQUAL_BYTES(difference) (__builtin_ctzll(difference) >> 3)
    #else
    #define KAFKALOG_EQUAL_BYTES(difference) (__builtin_clzll(difference) >> 3)
    #endif
    """
    # The number of equal bytes at the start of two different words in the order of the processor; `difference`: one ^ other.
    int equal_bytes "KAFKALOG_EQUAL_BYTES"(unsigned long long difference) noexcept nogil


cdef Py_ssize_t lz4_part(const unsigned char[::1] data, unsigned char[::1] out, unsigned short[::1] table) noexcept nogil
