cdef int place(long long[::1] state, unsigned char[::1] offsets, unsigned char[::1] times, long long last,
               long long timestamp) noexcept nogil
