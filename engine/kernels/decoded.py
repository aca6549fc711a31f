# cython: language_level=3
"""Batches and their records as kernels take them. It stands alone because four kernels share it."""

import cython


@cython.final
@cython.cclass
class Decoded:  # declared in decoded.pxd
    """Columns of batches and of records, and `data`, the bytes that the records' positions count in.

    base  file position that the batches' positions count from
    """

    def __init__(self, data: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1],
                  records: cython.longlong[:, ::1], base: cython.longlong = 0):
        self.data, self.batches, self.records, self.base = data, batches, records, base
