# cython: boundscheck=False, wraparound=False
cdef Py_ssize_t string_size(const unsigned char* data, Py_ssize_t start, Py_ssize_t size, bint escape) noexcept nogil
cdef Py_ssize_t field_room(Py_ssize_t size, Py_ssize_t text_size) noexcept nogil
cdef Py_ssize_t string_field(unsigned char* out, Py_ssize_t at, const unsigned char* data, Py_ssize_t start,
                             Py_ssize_t size, Py_ssize_t text_size, bint escape) noexcept nogil
cdef Py_ssize_t base64(unsigned char* out, Py_ssize_t at, const unsigned char* data, Py_ssize_t start,
                       Py_ssize_t size) noexcept nogil

cdef Py_ssize_t _characters_size(const unsigned char* data, Py_ssize_t start, Py_ssize_t end, bint escape) noexcept nogil
cdef Py_ssize_t _put(unsigned char* out, Py_ssize_t at, const char* text, Py_ssize_t size) noexcept nogil
cdef unsigned char _short(unsigned char byte) noexcept nogil
cdef Py_ssize_t _put_characters(unsigned char* out, Py_ssize_t at, const unsigned char* data, Py_ssize_t start,
                                Py_ssize_t end, bint escape) noexcept nogil
cdef unsigned char _letter(int value) noexcept nogil


# string_size and string_field for memoryviews

cdef inline Py_ssize_t text_size_of(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t size,
                                    bint escape) noexcept nogil:
    return string_size(&data[0], start, size, escape)


cdef inline Py_ssize_t put_field(unsigned char[::1] out, Py_ssize_t at, const unsigned char[::1] data, Py_ssize_t start,
                                 Py_ssize_t size, Py_ssize_t text_size, bint escape) noexcept nogil:
    return string_field(&out[0], at, &data[0], start, size, text_size, escape)
