# cython: boundscheck=False, wraparound=False
# The functions of predicates.py for compiled kernels: C from a pxd is inlined, nothing is left of a call.
from engine.kernels cimport fields


cdef inline bint is_legacy(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_MAGIC, row] < fields.MAGIC_V2


cdef inline bint is_compressed(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_ATTRIBUTES, row] & fields.CODEC_MASK != 0


cdef inline bint is_transactional(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_ATTRIBUTES, row] & fields.TRANSACTIONAL_FLAG != 0


cdef inline bint is_control(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_ATTRIBUTES, row] & fields.CONTROL_FLAG != 0


cdef inline bint is_transactional_or_control(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_ATTRIBUTES, row] & (fields.TRANSACTIONAL_FLAG | fields.CONTROL_FLAG) != 0


cdef inline bint has_delete_horizon(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_ATTRIBUTES, row] & fields.DELETE_HORIZON_FLAG != 0


cdef inline bint has_producer(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_PRODUCER_ID, row] > fields.NO_PRODUCER_ID


cdef inline bint is_whole(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_VALID, row] == 1


cdef inline bint is_damaged(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_VALID, row] == 0


cdef inline bint is_known(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return (0 <= batches[fields.B_MAGIC, row] <= fields.MAGIC_V2
            and batches[fields.B_ATTRIBUTES, row] & fields.CODEC_MASK <= fields.LAST_CODEC)
