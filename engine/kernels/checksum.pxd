cpdef long long checksum(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end,
                         const unsigned int[::1] tables) noexcept nogil
