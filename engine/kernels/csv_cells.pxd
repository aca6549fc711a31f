# cython: boundscheck=False, wraparound=False
cdef Py_ssize_t cell_size(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t size) noexcept nogil
cdef Py_ssize_t cells_room(Py_ssize_t size, Py_ssize_t text_size) noexcept nogil
cdef Py_ssize_t put_cells(unsigned char[::1] out, Py_ssize_t at, const unsigned char[::1] data, Py_ssize_t start,
                          Py_ssize_t size, Py_ssize_t text_size, bint guard) noexcept nogil
cdef Py_ssize_t quote(unsigned char[::1] out, Py_ssize_t start, Py_ssize_t at) noexcept nogil

cdef bint _is_guarded(unsigned char byte) noexcept nogil
