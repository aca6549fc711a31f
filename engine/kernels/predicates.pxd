# cython: boundscheck=False, wraparound=False
# What a batch is, by its columns: the questions that several kernels ask, each answered in one place. C from a pxd is
# inlined: nothing is left of a call. There is a batch `row`. The bits of format 2 are read as they are, also in formats 0
# and 1, where none of them has a meaning.
from engine.kernels cimport fields


# Has it format 0 or 1, or what is taken for it?
cdef inline bint is_legacy(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_MAGIC, row] < fields.MAGIC_V2


# Has it a codec, be it one that does not exist?
cdef inline bint is_compressed(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_ATTRIBUTES, row] & fields.CODEC_MASK != 0


# Is it part of a transaction, its end included?
cdef inline bint is_transactional(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_ATTRIBUTES, row] & fields.TRANSACTIONAL_FLAG != 0


# Are its records for brokers, not for consumers?
cdef inline bint is_control(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_ATTRIBUTES, row] & fields.CONTROL_FLAG != 0


# Is it one of both?
cdef inline bint is_transactional_or_control(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_ATTRIBUTES, row] & (fields.TRANSACTIONAL_FLAG | fields.CONTROL_FLAG) != 0


# Does its base timestamp say until when its tombstones stay?
cdef inline bint has_delete_horizon(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_ATTRIBUTES, row] & fields.DELETE_HORIZON_FLAG != 0


# Did an idempotent producer write it, or a coordinator for one?
cdef inline bint has_producer(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_PRODUCER_ID, row] > fields.NO_PRODUCER_ID


# Is its checksum known to be right?
cdef inline bint is_whole(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_VALID, row] == 1


# Is its checksum known to be wrong?
cdef inline bint is_damaged(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return batches[fields.B_VALID, row] == 0


# Are there such a format and such a codec?
cdef inline bint is_known(long long[:, ::1] batches, Py_ssize_t row) noexcept nogil:
    return (0 <= batches[fields.B_MAGIC, row] <= fields.MAGIC_V2
            and batches[fields.B_ATTRIBUTES, row] & fields.CODEC_MASK <= fields.LAST_CODEC)
