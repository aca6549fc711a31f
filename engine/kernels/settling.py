# cython: language_level=3, boundscheck=False, wraparound=False
"""What stays of the batches of a chunk, one behind the other, in one call: whole ones copied, others written anew.

Only what needs no second look is done here: batches of format 2 without codec, or with LZ4 as Kafka writes it. All others
are left to engine.log.cleaner, which makes the same bytes of these. Interpreted, what is written anew is left to it too.
Mirrors MemoryRecords.filterTo.
"""

import cython

if cython.compiled:
    from cython.cimports.engine.kernels import fields, tables
    from cython.cimports.engine.kernels.blocks import lz4_part
    from cython.cimports.engine.kernels.checksum import crc32c
    from cython.cimports.engine.kernels.cleaning import kind_of
    from cython.cimports.engine.kernels.encode import put_record
    from cython.cimports.engine.kernels.numbers import copy_bytes, put_int
    from cython.cimports.engine.kernels.predicates import has_delete_horizon, is_control
else:
    from engine.kernels import fields, tables
    from engine.kernels.cleaning import kind_of
    from engine.kernels.numbers import copy_bytes
    from engine.kernels.predicates import has_delete_horizon, is_control

_BLOCK_WORST = cython.declare(cython.Py_ssize_t, 16)  # bytes that a block may have beyond what it holds and a 255th of that
_FRAMING = cython.declare(cython.Py_ssize_t, 8)  # the size of a block, and the end mark
_KEPT_FLAGS = cython.declare(cython.longlong, fields.CODEC_MASK | fields.TIMESTAMP_TYPE_FLAG | fields.TRANSACTIONAL_FLAG
                             | fields.CONTROL_FLAG)


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.Py_ssize_t))
def settle(window: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1], counts: cython.longlong[:, ::1],
           row: cython.Py_ssize_t, end: cython.Py_ssize_t, precious: cython.const[cython.longlong][::1],
           data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1], first: cython.Py_ssize_t,
           behind: cython.Py_ssize_t, keep: cython.const[cython.uchar][::1], delete_horizon: cython.longlong,
           frame_head: cython.const[cython.uchar][::1], castagnoli: cython.const[cython.uint][::1],
           body: cython.uchar[::1], table: cython.ushort[::1], out: cython.uchar[::1], at: cython.Py_ssize_t):
    """Write what stays of the batches row … end − 1 to `out` → (the batch where it stopped, position behind, last written).

    window      the bytes that POSITION and SIZE of `batches` count in
    counts      by batch, see tables.Count        precious  see cleaning.next_run
    data, records   rows first … behind − 1: records of these batches, in order, and perhaps of some before them
    keep        by record from `first` on: not 0 where it stays
    delete_horizon  ms, for batches that keep tombstones and have none yet
    frame_head  of an LZ4 frame, up to its first block        body, table  working space, table as blocks.TABLE says
    out, at     what is there before `at` stays
    It stops before a batch that needs another look, or for which `out` or `body` has no room; `end`: all is done. The third
    is the last batch of which something was written, −1: none.
    """
    last: cython.Py_ssize_t = -1
    here: cython.Py_ssize_t = first
    position: cython.Py_ssize_t
    size: cython.Py_ssize_t
    done: cython.Py_ssize_t
    kind: cython.int
    if row < 0 or end > batches.shape[1] or end > counts.shape[1] or at < 0 or at > out.shape[0]: return row, at, -1
    if first < 0 or behind > records.shape[1] or behind - first > keep.shape[0] or records.shape[0] < fields.R_FIELDS:
        return row, at, -1
    with cython.nogil:
        while row < end:
            kind = kind_of(batches, counts, row, precious)
            if kind != tables.DROP:
                position = batches[fields.B_POSITION, row]
                size = batches[fields.B_SIZE, row]
                if position < 0 or size < fields.V2_SIZE or size > window.shape[0] - position: return row, at, last
                if kind == tables.ALONE:
                    while here < behind and records[fields.R_BATCH, here] < row:
                        here += 1
                    done = _anew(window, batches, counts, row, data, records, here, behind, keep[here - first:],
                                 delete_horizon, frame_head, castagnoli, body, table, out, at)
                    if done < 0: return row, at, last
                    at = done
                elif size > out.shape[0] - at:
                    return row, at, last
                else:
                    at = copy_bytes(out, at, window, position, size)
                last = row
            row += 1
        return row, at, last


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _anew(window: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1], counts: cython.longlong[:, ::1],
          row: cython.Py_ssize_t, data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1],
          first: cython.Py_ssize_t, behind: cython.Py_ssize_t, keep: cython.const[cython.uchar][::1],
          delete_horizon: cython.longlong, frame_head: cython.const[cython.uchar][::1],
          castagnoli: cython.const[cython.uint][::1], body: cython.uchar[::1], table: cython.ushort[::1],
          out: cython.uchar[::1], at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write one batch with the records that stay → position behind it; −1: see `settle`."""
    attributes: cython.longlong = batches[fields.B_ATTRIBUTES, row]
    codec: cython.longlong = attributes & fields.CODEC_MASK
    horizon: cython.longlong = fields.NO_TIMESTAMP
    largest: cython.longlong = -1
    base: cython.longlong
    taken: cython.longlong = 0
    index: cython.Py_ssize_t = first
    start: cython.Py_ssize_t = at
    here: cython.Py_ssize_t
    if batches[fields.B_MAGIC, row] != fields.MAGIC_V2 or is_control(batches, row) or counts[tables.C_KEPT, row] < 1: return -1
    if not cython.compiled: return -1  # the other way is faster: it has its checksums from a library
    if codec != 0 and codec != fields.LZ4: return -1
    if out.shape[0] - at < fields.V2_SIZE: return -1
    if has_delete_horizon(batches, row):
        horizon = batches[fields.B_BASE_TIMESTAMP, row]
    elif counts[tables.C_TOMBSTONES, row] > 0:
        horizon = delete_horizon
    elif counts[tables.C_KEPT, row] == counts[tables.C_READ, row]:
        return -1
    base = horizon
    here = 0 if codec else at + fields.V2_SIZE
    while index < behind and records[fields.R_BATCH, index] == row:
        if keep[index - first]:
            if taken == 0 and horizon == fields.NO_TIMESTAMP: base = records[fields.R_TIMESTAMP, index]
            here = put_record(data, records, index, batches[fields.B_BASE_OFFSET, row], base, body if codec else out, here)
            if here < 0: return -1
            if records[fields.R_TIMESTAMP, index] > largest: largest = records[fields.R_TIMESTAMP, index]
            taken += 1
        index += 1
    if taken != counts[tables.C_KEPT, row]: return -1
    if codec:
        here = _frame(body, here, frame_head, table, out, at + fields.V2_SIZE)
        if here < 0: return -1
    copy_bytes(out, start, window, batches[fields.B_POSITION, row], fields.V2_SIZE)
    attributes &= _KEPT_FLAGS
    if attributes & fields.TIMESTAMP_TYPE_FLAG: largest = batches[fields.B_MAX_TIMESTAMP, row]
    if horizon >= 0: attributes |= fields.DELETE_HORIZON_FLAG
    put_int(out, start + fields.V2_BATCH_LENGTH_AT, here - start - fields.OVERHEAD, 4)
    put_int(out, start + fields.V2_ATTRIBUTES_AT, attributes, 2)
    put_int(out, start + fields.V2_BASE_TIMESTAMP_AT, base, 8)
    put_int(out, start + fields.V2_MAX_TIMESTAMP_AT, largest, 8)
    put_int(out, start + fields.V2_RECORD_COUNT_AT, taken, 4)
    put_int(out, start + fields.V2_CRC_AT, crc32c(out, start + fields.V2_ATTRIBUTES_AT, here, castagnoli), 4)
    return here


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _frame(body: cython.uchar[::1], size: cython.Py_ssize_t, head: cython.const[cython.uchar][::1],
           table: cython.ushort[::1], out: cython.uchar[::1], at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """body[:size] as one LZ4 frame at `at` → position behind it; −1: no room. Mirrors Lz4BlockOutputStream."""
    start: cython.Py_ssize_t = 0
    length: cython.Py_ssize_t
    packed: cython.Py_ssize_t
    if head.shape[0] > out.shape[0] - at: return -1
    at = copy_bytes(out, at, head, 0, head.shape[0])
    while start < size:
        length = min(size - start, fields.LZ4_FRAME_BLOCK)
        if out.shape[0] - at < length + length // 255 + _BLOCK_WORST + _FRAMING: return -1
        packed = lz4_part(body[start:start + length], out[at + 4:], table)
        if packed < 0: return -1
        if packed < length:
            _put_little(out, at, packed)
        else:
            packed = length
            _put_little(out, at, length | fields.LZ4_STORED)
            copy_bytes(out, at + 4, body, start, length)
        at += 4 + packed
        start += length
    if out.shape[0] - at < 4: return -1
    _put_little(out, at, 0)  # the end mark
    return at + 4


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_little(out: cython.uchar[::1], at: cython.Py_ssize_t, value: cython.longlong) -> cython.void:
    """Write 32 bits, little-endian."""
    out[at] = value & 255
    out[at + 1] = (value >> 8) & 255
    out[at + 2] = (value >> 16) & 255
    out[at + 3] = (value >> 24) & 255
