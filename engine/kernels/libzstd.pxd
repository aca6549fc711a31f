# cython: boundscheck=False, wraparound=False
# Calls of libzstd from kernels that handle many batches in one call, without the interpreter in between. `library` has the
# addresses of its functions (see tables.Zstd; engine.record.codecs.libzstd finds them). The functions never write after the end
# of `out`, for any content of `data`.
from engine.kernels cimport tables

ctypedef struct zstd_input:
    const void* data
    size_t size
    size_t at

ctypedef struct zstd_output:
    void* data
    size_t size
    size_t at

ctypedef size_t (*zstd_decompress)(void* context, void* out, size_t room, const void* data, size_t size) noexcept nogil
ctypedef size_t (*zstd_compress)(void* context, zstd_output* out, zstd_input* data, int directive) noexcept nogil
ctypedef size_t (*zstd_reset)(void* context, int what) noexcept nogil


cdef inline bint zstd_failed(size_t result) noexcept nogil:
    return result > <size_t>0 - 120  # error codes are the largest numbers (ZSTD_isError)


# Decompress the frame data[start:end] to out[at:] → bytes written; −1: no library, damage, or no room.
cdef inline Py_ssize_t decompress(const unsigned long long[::1] library, const unsigned char[::1] data, Py_ssize_t start,
                                  Py_ssize_t end, unsigned char[::1] out, Py_ssize_t at) noexcept nogil:
    cdef zstd_decompress call
    cdef size_t made
    if library.shape[0] < tables.ZSTD_WORDS or start >= end or at >= out.shape[0]: return -1
    call = <zstd_decompress><size_t>library[tables.ZSTD_DECOMPRESS]
    made = call(<void*><size_t>library[tables.ZSTD_DECOMPRESSION], &out[at], out.shape[0] - at, &data[start], end - start)
    return -1 if zstd_failed(made) else <Py_ssize_t>made


# Compress data[:size] to one frame at out[at:], with the bytes that zstd-jni's stream writes → position after it; −1: no
# library, or no room.
cdef inline Py_ssize_t compress(const unsigned long long[::1] library, const unsigned char[::1] data, Py_ssize_t size,
                                unsigned char[::1] out, Py_ssize_t at) noexcept nogil:
    cdef zstd_compress call
    cdef zstd_reset reset
    cdef zstd_input source
    cdef zstd_output target
    cdef void* context
    cdef size_t left
    cdef int directive
    if library.shape[0] < tables.ZSTD_WORDS or size < 1 or size > data.shape[0] or at >= out.shape[0]: return -1
    call = <zstd_compress><size_t>library[tables.ZSTD_COMPRESS]
    reset = <zstd_reset><size_t>library[tables.ZSTD_RESET]
    context = <void*><size_t>library[tables.ZSTD_COMPRESSION]
    if zstd_failed(reset(context, 1)): return -1  # ZSTD_reset_session_only: the parameters stay
    source.data, source.size, source.at = &data[0], size, 0
    target.data, target.size, target.at = &out[at], out.shape[0] - at, 0
    while source.at < source.size:
        if zstd_failed(call(context, &target, &source, 0)) or target.at == target.size: return -1  # ZSTD_e_continue
    for directive in range(1, 3):  # ZSTD_e_flush, then ZSTD_e_end, which writes an empty last block: as zstd-jni's stream does
        left = call(context, &target, &source, directive)
        if left != 0: return -1  # an error, or no room for the rest
    return at + <Py_ssize_t>target.at
