# cython: language_level=3, boundscheck=False, wraparound=False
"""CRC-32C and CRC-32 of small ranges, for which a library call would cost more than the computation.

CRC-32C uses the processor's instruction if checksum.pxd finds it, else slicing; CRC-32 always uses slicing. Large batches are
left to the crc32c package (see record.windows), which computes several parts of a range in parallel.
"""

from array import array

import cython

CASTAGNOLI = 0x82F63B78  # reversed polynomial of CRC-32C (v2 batches, producer snapshots)
IEEE = 0xEDB88320  # reversed polynomial of CRC-32 (v0, v1, 0.7)


_ONES = cython.declare(cython.uint, 0xFFFFFFFF)


def make_tables(polynomial: cython.uint) -> array:
    """Return sixteen tables of 256 entries for slicing-by-16, in one array."""
    made = array("I", bytes(4 * 16 * 256))
    tables: cython.uint[::1] = made
    value: cython.uint
    byte: cython.Py_ssize_t
    level: cython.Py_ssize_t
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ polynomial if value & 1 else value >> 1
        tables[byte] = value
    for level in range(1, 16):
        for byte in range(256):
            value = tables[(level - 1) * 256 + byte]
            tables[level * 256 + byte] = tables[value & 0xFF] ^ (value >> 8)
    return made


def checksum(data, start, end, tables):
    """Return the unsigned CRC of data[start:end] by slicing; −1: the range or the tables do not fit.

    start, end  byte positions        tables  from `make_tables`
    """
    if start < 0 or end < start or end > data.shape[0] or tables.shape[0] < 4096: return -1
    return sliced(cython.address(data[start]), end - start, cython.address(tables[0]))


def sliced(data, size, tables):
    """Return the CRC of the first `size` bytes."""
    at: cython.Py_ssize_t = 0
    crc: cython.uint = _ONES
    while size - at >= 16:
        crc = (tables[3840 + ((crc ^ data[at]) & 0xFF)] ^ tables[3584 + (((crc >> 8) ^ data[at + 1]) & 0xFF)]
               ^ tables[3328 + (((crc >> 16) ^ data[at + 2]) & 0xFF)]
               ^ tables[3072 + (((crc >> 24) ^ data[at + 3]) & 0xFF)] ^ tables[2816 + data[at + 4]]
               ^ tables[2560 + data[at + 5]] ^ tables[2304 + data[at + 6]] ^ tables[2048 + data[at + 7]]
               ^ tables[1792 + data[at + 8]] ^ tables[1536 + data[at + 9]] ^ tables[1280 + data[at + 10]]
               ^ tables[1024 + data[at + 11]] ^ tables[768 + data[at + 12]] ^ tables[512 + data[at + 13]]
               ^ tables[256 + data[at + 14]] ^ tables[data[at + 15]])
        at += 16
    while at < size:
        crc = (crc >> 8) ^ tables[(crc ^ data[at]) & 0xFF]
        at += 1
    return crc ^ _ONES
