# cython: boundscheck=False, wraparound=False
# Check the positions in columns of records before kernels read the bytes there. The caller has checked that rows
# first … end − 1 exist. Only sign bits are combined, without a branch, so that the compiler can vectorize the loops.
from engine.kernels cimport fields

cdef enum:
    BLOCK = 512


# Does each of the records first … end − 1 belong to one of the batches 0 … rows − 1?
cdef inline bint batches_exist(long long[:, ::1] records, Py_ssize_t first, Py_ssize_t end, Py_ssize_t rows) noexcept nogil:
    cdef unsigned long long wrong = 0
    cdef unsigned long long last = <unsigned long long>rows - 1
    cdef unsigned long long row
    cdef Py_ssize_t index
    for index in range(first, end):
        row = <unsigned long long>records[fields.R_BATCH, index]
        wrong |= row | (last - row)
    return wrong >> 63 == 0


# Do keys and values of the records first … end − 1 lie in `data`? A null (size below 0) must have a valid position too.
cdef inline bint contents_exist(const unsigned char[::1] data, long long[:, ::1] records, Py_ssize_t first,
                                Py_ssize_t end) noexcept nogil:
    cdef unsigned long long wrong = 0
    cdef unsigned long long room = <unsigned long long>data.shape[0]
    cdef unsigned long long at, size
    cdef Py_ssize_t index
    for index in range(first, end):
        at = <unsigned long long>records[fields.R_KEY_POSITION, index]
        size = <unsigned long long>records[fields.R_KEY_SIZE, index]
        wrong |= at | (room - at) | (room - at - (size & ((size >> 63) - 1)))  # the size of a null counts as 0
    for index in range(first, end):
        at = <unsigned long long>records[fields.R_VALUE_POSITION, index]
        size = <unsigned long long>records[fields.R_VALUE_SIZE, index]
        wrong |= at | (room - at) | (room - at - (size & ((size >> 63) - 1)))  # the size of a null counts as 0
    return wrong >> 63 == 0
