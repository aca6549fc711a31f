# cython: boundscheck=False, wraparound=False
from libc.string cimport memcpy


cdef inline void move_16(unsigned char[::1] out, Py_ssize_t at, Py_ssize_t start) noexcept nogil:
    memcpy(&out[at], &out[start], 16)  # the caller has checked that they do not overlap


cdef inline void copy_16(unsigned char[::1] out, Py_ssize_t at, const unsigned char[::1] data,
                         Py_ssize_t start) noexcept nogil:
    memcpy(&out[at], &data[start], 16)  # one wide move


cdef (Py_ssize_t, Py_ssize_t) inflate_rows(const unsigned char[::1] data, long long[:, ::1] batches, Py_ssize_t row,
                                           Py_ssize_t end, const unsigned char[::1] checksums,
                                           const unsigned long long[::1] library, unsigned char[::1] out,
                                           Py_ssize_t at) noexcept nogil
