# cython: boundscheck=False, wraparound=False
# Properties of a batch, from its columns, for all kernels. Functions of a .pxd are inlined. The caller has checked that
# batch `row` exists. The attribute bits of format 2 are tested in formats 0 and 1 too, where they have no meaning.
from engine.kernels cimport fields


# Does it have format 0 or 1 (or a magic below 0, which Kafka treats the same)?
cdef inline bint is_legacy(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_MAGIC, row] < fields.MAGIC_V2


# Does it have a codec, even an unknown one?
cdef inline bint is_compressed(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_ATTRIBUTES, row] & fields.CODEC_MASK != 0


# Is it part of a transaction (markers included)?
cdef inline bint is_transactional(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_ATTRIBUTES, row] & fields.TRANSACTIONAL_FLAG != 0


# Are its records for brokers, not for consumers?
cdef inline bint is_control(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_ATTRIBUTES, row] & fields.CONTROL_FLAG != 0


# Is it a transactional or control batch?
cdef inline bint is_transactional_or_control(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_ATTRIBUTES, row] & (fields.TRANSACTIONAL_FLAG | fields.CONTROL_FLAG) != 0


# Is its base timestamp the delete horizon of its tombstones?
cdef inline bint has_delete_horizon(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_ATTRIBUTES, row] & fields.DELETE_HORIZON_FLAG != 0


# Did an idempotent producer write it, or a transaction coordinator for a producer?
cdef inline bint has_producer(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_PRODUCER_ID, row] > fields.NO_PRODUCER_ID


# Is its checksum known to be right?
cdef inline bint is_whole(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_VALID, row] == 1


# Is its checksum known to be wrong?
cdef inline bint is_damaged(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_VALID, row] == 0


# Are its format and its codec known?
cdef inline bint is_known(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return (0 <= batches[fields.B_MAGIC, row] <= fields.MAGIC_V2
            and batches[fields.B_ATTRIBUTES, row] & fields.CODEC_MASK <= fields.LAST_CODEC)
