# cython: language_level=3, boundscheck=False, wraparound=False
"""CRC-32C and CRC-32 of small ranges, by slicing: for batches so small that a library call would cost more.

Large ranges go to the crc32c package and zlib (see record.windows), which use the processor's own instructions.
"""

from array import array

import cython

CASTAGNOLI = 0x82F63B78  # reversed polynomial of CRC-32C (v2 batches, producer snapshots)
IEEE = 0xEDB88320  # reversed polynomial of CRC-32 (v0, v1, 0.7)


_ONES = cython.declare(cython.uint, 0xFFFFFFFF)


def make_tables(polynomial: int) -> array:
    """Eight tables of 256 entries for slicing-by-8, flat."""
    tables = array("I", bytes(4 * 8 * 256))
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ polynomial if value & 1 else value >> 1
        tables[byte] = value
    for level in range(1, 8):
        for byte in range(256):
            before = tables[(level - 1) * 256 + byte]
            tables[level * 256 + byte] = tables[before & 0xFF] ^ (before >> 8)
    return tables


def checksum(data, start, end, tables):  # typed in checksum.pxd, so that other kernels call it as C
    """CRC of data[start:end], unsigned; −1 where the range or the tables do not fit.

    data    any bytes        start, end  byte positions        tables  from `make_tables`
    """
    at: cython.Py_ssize_t = start
    crc: cython.uint = _ONES
    if start < 0 or end < start or end > data.shape[0] or tables.shape[0] < 2048: return -1
    while end - at >= 8:
        crc = (tables[1792 + ((crc ^ data[at]) & 0xFF)] ^ tables[1536 + (((crc >> 8) ^ data[at + 1]) & 0xFF)]
               ^ tables[1280 + (((crc >> 16) ^ data[at + 2]) & 0xFF)] ^ tables[1024 + (((crc >> 24) ^ data[at + 3]) & 0xFF)]
               ^ tables[768 + data[at + 4]] ^ tables[512 + data[at + 5]]
               ^ tables[256 + data[at + 6]] ^ tables[data[at + 7]])
        at += 8
    while at < end:
        crc = (crc >> 8) ^ tables[(crc ^ data[at]) & 0xFF]
        at += 1
    return crc ^ _ONES
