# cython: language_level=3
"""Batches and their records as arguments of kernels. It stands alone because four kernels share it."""

import cython


@cython.final
@cython.cclass
class Decoded:  # declared in decoded.pxd
    """Columns of batches and of records, and `data`, the bytes at the records' positions.

    base  file position of the window; the batches' positions are relative to it
    """

    def __init__(self, data: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1],
                  records: cython.longlong[:, ::1], base: cython.longlong = 0):
        self.data, self.batches, self.records, self.base = data, batches, records, base
