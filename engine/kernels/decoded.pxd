cdef class Decoded:
    cdef const unsigned char[::1] data
    cdef long long[:, ::1] batches
    cdef long long[:, ::1] records
    cdef long long base
