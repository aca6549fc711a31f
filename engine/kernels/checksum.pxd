# cython: boundscheck=False, wraparound=False

cdef extern from *:
    """
    #ifndef KAFKALOG_CRC32C
    #define KAFKALOG_CRC32C
    #include <stddef.h>
    #include <string.h>
    #if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    #include <cpuid.h>
    #include <immintrin.h>
    #ifdef __clang__
    #define KAFKALOG_CRC32C_TARGET "sse4.2,crc32"
    #else
    #define KAFKALOG_CRC32C_TARGET "sse4.2"
    #endif
    static int kafkalog_crc32c_known = -1;  /* 0: there is no instruction; 1: for words; 2: carry-less products of 256 bits, too */
    static inline int kafkalog_has_crc32c(void) {  /* __builtin_cpu_supports is always false in what zig compiles */
        unsigned int a, b, c, d, low, high;
        int found;
        if (kafkalog_crc32c_known >= 0) return kafkalog_crc32c_known;
        found = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2);
        if (found && (c & bit_PCLMUL) && (c & bit_AVX) && (c & bit_OSXSAVE)) {
            __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));  /* does the operating system keep registers of 256 bits? */
            if ((low & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2) && (c & bit_VPCLMULQDQ)) found = 2;
        }
        return kafkalog_crc32c_known = found;
    }
    /* Moves the remainders in both halves of `a` n bits on. low, high: x^(n + 31) and x^(n - 33) modulo the polynomial, reflected. */
    #define KAFKALOG_FOLD(a, low, high) _mm256_xor_si256( \\
        _mm256_clmulepi64_epi128(a, _mm256_set_epi64x(high, low, high, low), 0x00), \\
        _mm256_clmulepi64_epi128(a, _mm256_set_epi64x(high, low, high, low), 0x11))
    /* The register of the CRC after `blocks` blocks of 128 bytes, at least one. Four accumulators hide the latency of products. */
    __attribute__((target("avx2,pclmul,vpclmulqdq," KAFKALOG_CRC32C_TARGET)))
    static unsigned long long kafkalog_crc32c_wide(const unsigned char *data, size_t blocks) {
        const __m256i *at = (const __m256i *)data;
        __m256i a = _mm256_xor_si256(_mm256_loadu_si256(at), _mm256_set_epi64x(0, 0, 0, 0xFFFFFFFF));
        __m256i b = _mm256_loadu_si256(at + 1), c = _mm256_loadu_si256(at + 2), d = _mm256_loadu_si256(at + 3);
        __m128i rest;
        for (at += 4; --blocks; at += 4) {
            a = _mm256_xor_si256(KAFKALOG_FOLD(a, 0x6992cea2, 0x0d3b6092), _mm256_loadu_si256(at));
            b = _mm256_xor_si256(KAFKALOG_FOLD(b, 0x6992cea2, 0x0d3b6092), _mm256_loadu_si256(at + 1));
            c = _mm256_xor_si256(KAFKALOG_FOLD(c, 0x6992cea2, 0x0d3b6092), _mm256_loadu_si256(at + 2));
            d = _mm256_xor_si256(KAFKALOG_FOLD(d, 0x6992cea2, 0x0d3b6092), _mm256_loadu_si256(at + 3));
        }
        d = _mm256_xor_si256(d, KAFKALOG_FOLD(a, 0xc49f4f67, 0x0715ce53));
        d = _mm256_xor_si256(d, KAFKALOG_FOLD(b, 0x740eef02, 0x9e4addf8));
        d = _mm256_xor_si256(d, KAFKALOG_FOLD(c, 0x3da6d0cb, 0xba4fc28e));
        rest = _mm256_castsi256_si128(KAFKALOG_FOLD(d, 0xf20c0dfe, 0x493c7d27));
        rest = _mm_xor_si128(rest, _mm256_extracti128_si256(d, 1));
        return __builtin_ia32_crc32di(__builtin_ia32_crc32di(0, _mm_extract_epi64(rest, 0)), _mm_extract_epi64(rest, 1));
    }
    __attribute__((target(KAFKALOG_CRC32C_TARGET)))
    static inline unsigned int kafkalog_crc32c(const unsigned char *data, size_t size) {
        unsigned long long crc = 0xFFFFFFFFu, word;
        if (size >= 256 && kafkalog_has_crc32c() > 1) {
            crc = kafkalog_crc32c_wide(data, size / 128);
            data += size / 128 * 128;
            size %= 128;
        }
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
    int kafkalog_has_crc32c() noexcept nogil
    unsigned int kafkalog_crc32c(const unsigned char *data, size_t size) noexcept nogil

cpdef long long checksum(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end,
                         const unsigned int[::1] tables) noexcept nogil
cdef long long sliced(const unsigned char* data, Py_ssize_t size, const unsigned int* tables) noexcept nogil


# Largest ranges that are checked here. For larger ones the library is faster, since it computes several parts in parallel, except
# where products of 256 bits are faster than its instruction.
cdef inline Py_ssize_t sliced_reach() noexcept nogil:
    return 1024


cdef inline Py_ssize_t crc32c_reach() noexcept nogil:
    return 2**31 if kafkalog_has_crc32c() > 1 else 32768 if kafkalog_has_crc32c() else sliced_reach()


# CRC-32C and CRC-32 of data[start:end]; the caller has checked the range.

cdef inline long long crc32c(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end,
                             const unsigned int[::1] tables) noexcept nogil:
    if kafkalog_has_crc32c(): return kafkalog_crc32c(&data[start], end - start)
    return checksum(data, start, end, tables)


cdef inline long long crc32(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end,
                            const unsigned int[::1] tables) noexcept nogil:
    if tables.shape[0] < 4096: return -1
    return sliced(&data[start], end - start, &tables[0])
