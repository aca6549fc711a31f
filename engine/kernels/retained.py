# cython: language_level=3, boundscheck=False, wraparound=False
"""Write what compaction retains of the batches of a window in one call: copy complete batches, rewrite the others.

Only batches without codec, or with LZ4 or zstd as Kafka writes them, are rewritten here. Others are left to engine.log.cleaner,
which would produce the same bytes for these.
Mirrors MemoryRecords.filterTo.
"""

import cython
from cython.cimports.engine.kernels import fields, tables
from cython.cimports.engine.kernels.blocks import lz4_part
from cython.cimports.engine.kernels.checksum import crc32c
from cython.cimports.engine.kernels.encode import put_record
from cython.cimports.engine.kernels.libzstd import compress
from cython.cimports.engine.kernels.numbers import copy_bytes, put_int
from cython.cimports.engine.kernels.predicates import has_delete_horizon, is_legacy
from cython.cimports.engine.kernels.verdicts import LastRecords, kind_of

_BLOCK_WORST = cython.declare(cython.Py_ssize_t, 16)  # a compressed block has at most n + n/255 + this number of bytes
_FRAMING = cython.declare(cython.Py_ssize_t, 8)  # the size field of a block, and the end mark
_KEPT_FLAGS = cython.declare(cython.longlong, fields.CODEC_MASK | fields.TIMESTAMP_TYPE_FLAG | fields.TRANSACTIONAL_FLAG
                             | fields.CONTROL_FLAG)


@cython.final
@cython.cclass
class CountedWindow:
    """A window with counted records: `window`, the bytes at POSITION of `batches`, and `counts` by batch, see tables.Count."""

    window: cython.const[cython.uchar][::1]
    batches: cython.longlong[:, ::1]
    counts: cython.longlong[:, ::1]

    def __init__(self, window: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1],
                  counts: cython.longlong[:, ::1]):
        self.window, self.batches, self.counts = window, batches, counts


@cython.final
@cython.cclass
class Marked:
    """Records, of which some are retained: rows first … end − 1 of `records`, whose contents are in `data`.

    They belong to the batches to write, in order; records of earlier batches may come first.
    keep            by record from `first` on: not 0 if it is retained
    delete_horizon  ms, for batches that keep tombstones and have no delete horizon yet
    """

    data: cython.const[cython.uchar][::1]
    records: cython.longlong[:, ::1]
    first: cython.Py_ssize_t
    end: cython.Py_ssize_t
    keep: cython.const[cython.uchar][::1]
    delete_horizon: cython.longlong

    def __init__(self, data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1], first: cython.Py_ssize_t,
                  end: cython.Py_ssize_t, keep: cython.const[cython.uchar][::1], delete_horizon: cython.longlong):
        self.data, self.records, self.first, self.end = data, records, first, end
        self.keep, self.delete_horizon = keep, delete_horizon


@cython.final
@cython.cclass
class Writer:
    """Tables and working memory for rewriting batches.

    frame_head   header of an LZ4 frame                        library  see libzstd; empty: stops at zstd
    castagnoli   tables of `checksum.make_tables`              body, table  working memory; table: blocks.TABLE entries
    """

    frame_head: cython.const[cython.uchar][::1]
    library: cython.const[cython.ulonglong][::1]
    castagnoli: cython.const[cython.uint][::1]
    body: cython.uchar[::1]
    table: cython.ushort[::1]

    def __init__(self, frame_head: cython.const[cython.uchar][::1], library: cython.const[cython.ulonglong][::1],
                  castagnoli: cython.const[cython.uint][::1], body: cython.uchar[::1], table: cython.ushort[::1]):
        self.frame_head, self.library, self.castagnoli = frame_head, library, castagnoli
        self.body, self.table = body, table


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.Py_ssize_t))
def write_retained(counted: CountedWindow, row: cython.Py_ssize_t, end: cython.Py_ssize_t, last_records: LastRecords,
                   marked: Marked, writer: Writer, out: cython.uchar[::1], at: cython.Py_ssize_t):
    """Write what is retained of the batches row … end − 1 to out[at:] → (the batch where it stopped, position, last batch).

    Stops before a batch that is left to the caller, or that does not fit in `out` or the writer's `body`; `end`: all are done.
    position: after the written bytes; last batch: the last one of which something was written, −1: none.
    """
    batches: cython.longlong[:, ::1] = counted.batches
    counts: cython.longlong[:, ::1] = counted.counts
    last: cython.Py_ssize_t = -1
    here: cython.Py_ssize_t = marked.first
    position: cython.Py_ssize_t
    size: cython.Py_ssize_t
    done: cython.Py_ssize_t
    kind: cython.int
    if row < 0 or end > batches.shape[1] or end > counts.shape[1] or at < 0 or at > out.shape[0]: return row, at, -1
    if counts.shape[0] < tables.COUNTS or writer.castagnoli.shape[0] < 4096: return row, at, -1
    if marked.first < 0 or marked.end > marked.records.shape[1] or marked.end - marked.first > marked.keep.shape[0]:
        return row, at, -1
    if marked.records.shape[0] < fields.R_FIELDS: return row, at, -1
    with cython.nogil:
        while row < end:
            kind = kind_of(batches, counts, row, last_records)
            if kind != tables.DROP:
                position = batches[fields.B_POSITION, row]
                size = batches[fields.B_SIZE, row]
                if position < 0 or size < 0 or size > counted.window.shape[0] - position: return row, at, last
                if size < fields.V2_SIZE and not is_legacy(batches, row): return row, at, last
                if kind == tables.EMPTY:
                    done = _write_header(counted, row, writer, out, at)
                    if done < 0: return row, at, last
                    at = done
                elif kind == tables.REWRITE:
                    while here < marked.end and marked.records[fields.R_BATCH, here] < row:
                        here += 1
                    done = _rewrite_batch(counted, row, marked, here, writer, out, at)
                    if done < 0: return row, at, last
                    at = done
                elif size > out.shape[0] - at:
                    return row, at, last
                else:
                    at = copy_bytes(out, at, counted.window, position, size)
                last = row
            row += 1
        return row, at, last


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _write_header(counted: CountedWindow, row: cython.Py_ssize_t, writer: Writer, out: cython.uchar[::1],
                  at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write a batch's header without records, codec and delete horizon → position after it; −1: see `write_retained`."""
    batches: cython.longlong[:, ::1] = counted.batches
    if is_legacy(batches, row) or batches[fields.B_MAGIC, row] > fields.MAGIC_V2: return -1
    if out.shape[0] - at < fields.V2_SIZE: return -1
    copy_bytes(out, at, counted.window, batches[fields.B_POSITION, row], fields.V2_SIZE)
    return _finish(out, at, at + fields.V2_SIZE, batches[fields.B_ATTRIBUTES, row] & _KEPT_FLAGS & ~fields.CODEC_MASK,
                   fields.NO_TIMESTAMP, batches[fields.B_MAX_TIMESTAMP, row], 0, writer.castagnoli)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _rewrite_batch(counted: CountedWindow, row: cython.Py_ssize_t, marked: Marked, first: cython.Py_ssize_t, writer: Writer,
                   out: cython.uchar[::1], at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write one batch with its retained records, in format 2 → position after it; −1: see `write_retained`.

    first  its first record, if it has any
    """
    batches: cython.longlong[:, ::1] = counted.batches
    records: cython.longlong[:, ::1] = marked.records
    kept: cython.longlong = counted.counts[tables.C_KEPT, row]
    attributes: cython.longlong = batches[fields.B_ATTRIBUTES, row]
    codec: cython.longlong = attributes & fields.CODEC_MASK
    legacy: cython.bint = is_legacy(batches, row)
    horizon: cython.longlong = _horizon(batches, counted.counts, row, marked.delete_horizon)
    largest: cython.longlong = -1
    base: cython.longlong = horizon
    base_offset: cython.longlong = batches[fields.B_BASE_OFFSET, row]
    last_offset: cython.longlong = 0
    taken: cython.longlong = 0
    index: cython.Py_ssize_t = first
    here: cython.Py_ssize_t
    if batches[fields.B_MAGIC, row] > fields.MAGIC_V2 or kept < 1: return -1
    if codec != 0 and codec != fields.LZ4 and codec != fields.ZSTD: return -1
    if out.shape[0] - at < fields.V2_SIZE: return -1
    here = 0 if codec else at + fields.V2_SIZE
    while index < marked.end and records[fields.R_BATCH, index] == row:
        if marked.keep[index - marked.first]:
            last_offset = records[fields.R_OFFSET, index]
            if taken == 0 and horizon == fields.NO_TIMESTAMP: base = records[fields.R_TIMESTAMP, index]
            if taken == 0 and legacy: base_offset = last_offset
            here = put_record(marked.data, records, index, base_offset, base, writer.body if codec else out, here)
            if here < 0: return -1
            if records[fields.R_TIMESTAMP, index] > largest: largest = records[fields.R_TIMESTAMP, index]
            taken += 1
        index += 1
    if taken != kept: return -1
    if codec == fields.LZ4:
        here = _lz4_frame(writer, here, out, at + fields.V2_SIZE)
    elif codec == fields.ZSTD:
        here = compress(writer.library, writer.body, here, out, at + fields.V2_SIZE)
    if here < 0: return -1
    if legacy:
        attributes &= fields.CODEC_MASK if batches[fields.B_MAGIC, row] == 0 else fields.LEGACY_ATTRIBUTES
        _head(out, at, base_offset, last_offset)
    else:
        attributes &= _KEPT_FLAGS
        copy_bytes(out, at, counted.window, batches[fields.B_POSITION, row], fields.V2_SIZE)
    if attributes & fields.TIMESTAMP_TYPE_FLAG: largest = batches[fields.B_MAX_TIMESTAMP, row]
    if horizon >= 0: attributes |= fields.DELETE_HORIZON_FLAG
    return _finish(out, at, here, attributes, base, largest, taken, writer.castagnoli)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _horizon(batches: cython.longlong[:, ::1], counts: cython.longlong[:, ::1], row: cython.Py_ssize_t,
             delete_horizon: cython.longlong) -> cython.longlong:
    """Return the delete horizon that the batch has or gets; NO_TIMESTAMP: none."""
    if not is_legacy(batches, row) and has_delete_horizon(batches, row): return batches[fields.B_BASE_TIMESTAMP, row]
    return delete_horizon if counts[tables.C_TOMBSTONES, row] > 0 else fields.NO_TIMESTAMP


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _finish(out: cython.uchar[::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t, attributes: cython.longlong,
            base_timestamp: cython.longlong, largest: cython.longlong, count: cython.longlong,
            castagnoli: cython.const[cython.uint][::1]) -> cython.Py_ssize_t:
    """Write the header fields of the batch out[at:end] that depend on its records, and the checksum → `end`."""
    put_int(out, at + fields.V2_BATCH_LENGTH_AT, end - at - fields.OVERHEAD, 4)
    put_int(out, at + fields.V2_ATTRIBUTES_AT, attributes, 2)
    put_int(out, at + fields.V2_BASE_TIMESTAMP_AT, base_timestamp, 8)
    put_int(out, at + fields.V2_MAX_TIMESTAMP_AT, largest, 8)
    put_int(out, at + fields.V2_RECORD_COUNT_AT, count, 4)
    put_int(out, at + fields.V2_CRC_AT, crc32c(out, at + fields.V2_ATTRIBUTES_AT, end, castagnoli), 4)
    return end


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _head(out: cython.uchar[::1], at: cython.Py_ssize_t, base_offset: cython.longlong,
          last_offset: cython.longlong) -> cython.void:
    """Write a header for records of format 0 or 1, without leader epoch or producer. Their offsets span at most 2^31 − 1."""
    put_int(out, at + fields.V2_BASE_OFFSET_AT, base_offset, 8)
    put_int(out, at + fields.V2_PARTITION_LEADER_EPOCH_AT, -1, 4)
    out[at + fields.V2_MAGIC_AT] = fields.MAGIC_V2
    put_int(out, at + fields.V2_LAST_OFFSET_DELTA_AT, last_offset - base_offset, 4)
    put_int(out, at + fields.V2_PRODUCER_ID_AT, -1, 8)
    put_int(out, at + fields.V2_PRODUCER_EPOCH_AT, -1, 2)
    put_int(out, at + fields.V2_BASE_SEQUENCE_AT, -1, 4)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _lz4_frame(writer: Writer, size: cython.Py_ssize_t, out: cython.uchar[::1], at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write the first `size` bytes of the body as one LZ4 frame at `at` → position after it; −1: no room.

    Mirrors Lz4BlockOutputStream.
    """
    head: cython.const[cython.uchar][::1] = writer.frame_head
    body: cython.uchar[::1] = writer.body
    start: cython.Py_ssize_t = 0
    length: cython.Py_ssize_t
    packed: cython.Py_ssize_t
    if head.shape[0] > out.shape[0] - at: return -1
    at = copy_bytes(out, at, head, 0, head.shape[0])
    while start < size:
        length = min(size - start, fields.LZ4_FRAME_BLOCK)
        if out.shape[0] - at < length + length // 255 + _BLOCK_WORST + _FRAMING: return -1
        packed = lz4_part(body[start:start + length], out[at + 4:], writer.table)
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
