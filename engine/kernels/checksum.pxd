# cython: boundscheck=False, wraparound=False

cdef extern from *:
    """
    #ifndef KAFKALOG_CRC32C
    #define KAFKALOG_CRC32C
    #include <stddef.h>
    #include <string.h>
    #if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    #include <cpuid.h>
    static int kafkalog_crc32c_known = -1;
    static inline int kafkalog_has_crc32c(void) {
        unsigned int a, b, c, d;
        if (kafkalog_crc32c_known < 0) kafkalog_crc32c_known = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2);
        return kafkalog_crc32c_known;
    }
    #ifdef __clang__
    __attribute__((target("sse4.2,crc32")))
    #else
    __attribute__((target("sse4.2")))
    #endif
    static inline unsigned int kafkalog_crc32c(const unsigned char *data, size_t size) {
        unsigned long long crc = 0xFFFFFFFFu, word;
        for (; size >= 8; size -= 8, data += 8) {
            memcpy(&word, data, 8);
            crc = __builtin_ia32_crc32di(crc, word);
        }
        for (; size; size--, data++) crc = __builtin_ia32_crc32qi((unsigned int)crc, *data);
        return (unsigned int)crc ^ 0xFFFFFFFFu;
    }
    #elif defined(__aarch64__) && defined(__linux__) && (defined(__GNUC__) || defined(__clang__))
    #include <sys/auxv.h>
    static int kafkalog_crc32c_known = -1;
    static inline int kafkalog_has_crc32c(void) {
        if (kafkalog_crc32c_known < 0) kafkalog_crc32c_known = (getauxval(AT_HWCAP) >> 7) & 1;  /* HWCAP_CRC32 */
        return kafkalog_crc32c_known;
    }
    #ifdef __clang__
    __attribute__((target("crc")))
    #else
    __attribute__((target("+crc")))
    #endif
    static inline unsigned int kafkalog_crc32c(const unsigned char *data, size_t size) {
        unsigned int crc = 0xFFFFFFFFu;
        unsigned long long word;
        for (; size >= 8; size -= 8, data += 8) {
            memcpy(&word, data, 8);
            __asm__("crc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
        }
        for (; size; size--, data++) __asm__("crc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(*data));
        return crc ^ 0xFFFFFFFFu;
    }
    #else
    static inline int kafkalog_has_crc32c(void) { return 0; }
    static inline unsigned int kafkalog_crc32c(const unsigned char *data, size_t size) {
        (void)data; (void)size;
        return 0;
    }
    #endif
    #endif
    """
    bint kafkalog_has_crc32c() noexcept nogil
    unsigned int kafkalog_crc32c(const unsigned char *data, size_t size) noexcept nogil

cpdef long long checksum(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end,
                         const unsigned int[::1] tables) noexcept nogil
cdef long long sliced(const unsigned char* data, Py_ssize_t size, const unsigned int* tables) noexcept nogil


# Largest ranges that are checked here. For larger ones the library is faster, since it computes several parts in parallel.
cdef inline Py_ssize_t sliced_reach() noexcept nogil:
    return 1024


cdef inline Py_ssize_t crc32c_reach() noexcept nogil:
    return 32768 if kafkalog_has_crc32c() else sliced_reach()


# CRC-32C and CRC-32 of data[start:end]; the caller has checked the range.

cdef inline long long crc32c(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end,
                             const unsigned int[::1] tables) noexcept nogil:
    if kafkalog_has_crc32c(): return kafkalog_crc32c(&data[start], end - start)
    return checksum(data, start, end, tables)


cdef inline long long crc32(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end,
                            const unsigned int[::1] tables) noexcept nogil:
    if tables.shape[0] < 4096: return -1
    return sliced(&data[start], end - start, &tables[0])
