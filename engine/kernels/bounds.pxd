# cython: boundscheck=False, wraparound=False
# Whether columns of records can be believed: kernels ask before they read what columns point to. The caller has made sure
# that there are rows first … end − 1. Sums of sign bits, without a branch, so that they become vector code.
from engine.kernels cimport fields

cdef enum:
    BLOCK = 512


# Is each of the records first … end − 1 of one of the batches 0 … rows − 1?
cdef inline bint batches_are_there(long long[:, ::1] records, Py_ssize_t first, Py_ssize_t end, Py_ssize_t rows) noexcept nogil:
    cdef unsigned long long wrong = 0
    cdef unsigned long long last = <unsigned long long>rows - 1
    cdef unsigned long long row
    cdef Py_ssize_t index
    for index in range(first, end):
        row = <unsigned long long>records[fields.R_BATCH, index]
        wrong |= row | (last - row)
    return wrong >> 63 == 0


# Do keys and values of the records first … end − 1 lie in `data`? Those of a size below 0, nulls, have a position too.
cdef inline bint contents_are_there(const unsigned char[::1] data, long long[:, ::1] records, Py_ssize_t first,
                                    Py_ssize_t end) noexcept nogil:
    cdef unsigned long long wrong = 0
    cdef unsigned long long room = <unsigned long long>data.shape[0]
    cdef unsigned long long at, size
    cdef Py_ssize_t index
    for index in range(first, end):
        at = <unsigned long long>records[fields.R_KEY_POSITION, index]
        size = <unsigned long long>records[fields.R_KEY_SIZE, index]
        wrong |= at | (room - at) | (room - at - (size & ((size >> 63) - 1)))  # a null takes nothing
    for index in range(first, end):
        at = <unsigned long long>records[fields.R_VALUE_POSITION, index]
        size = <unsigned long long>records[fields.R_VALUE_SIZE, index]
        wrong |= at | (room - at) | (room - at - (size & ((size >> 63) - 1)))  # a null takes nothing
    return wrong >> 63 == 0
