# cython: language_level=3, boundscheck=False, wraparound=False
"""Put the keys of ordinary batches into the offset map in one call: decompress, decode, check the order, put.

With a call for each of these steps, parallel threads, each with its own log, would wait for each other at every return to the
interpreter. Mirrors Cleaner.buildOffsetMapForSegment.
"""

import cython
from cython.cimports.engine.kernels import fields, tables
from cython.cimports.engine.kernels.cleaning import last_in_order
from cython.cimports.engine.kernels.decode import decode_rows
from cython.cimports.engine.kernels.frames import inflate_rows
from cython.cimports.engine.kernels.offset_map import OffsetMap, put_rows
from cython.cimports.engine.kernels.predicates import is_control, is_legacy

OUT_OF_ORDER = -2
_OUT_OF_ORDER = cython.declare(cython.longlong, OUT_OF_ORDER)


@cython.final
@cython.cclass
class Space:
    """Tables and working memory for decompressing and decoding.

    checksums, library  see frames.inflate_frames        room, records   working memory        none_skipped   a 0 for each batch
    """

    checksums: cython.const[cython.uchar][::1]
    library: cython.const[cython.ulonglong][::1]
    room: cython.uchar[::1]
    records: cython.longlong[:, ::1]
    none_skipped: cython.const[cython.uchar][::1]

    def __init__(self, checksums: cython.const[cython.uchar][::1], library: cython.const[cython.ulonglong][::1],
                  room: cython.uchar[::1], records: cython.longlong[:, ::1], none_skipped: cython.const[cython.uchar][::1]):
        self.checksums, self.library, self.room = checksums, library, room
        self.records, self.none_skipped = records, none_skipped


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.longlong, cython.longlong))
def map_batches(known: OffsetMap, window: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1],
                row: cython.Py_ssize_t, end: cython.Py_ssize_t, space: Space, start_offset: cython.longlong,
                last: cython.longlong):
    """Put the keys of the batches row … end − 1 into the map → (the batch where it stopped, records read, last).

    window     the bytes at BODY of `batches`; a batch with BODY LEFT_OUT is skipped
    start_offset  see offset_map.put_keys
    last       in and out: last offset so far, −1: none; OUT_OF_ORDER: `cleaning.check_order` failed for some records
    Stops before a batch that has a codec other than LZ4 and zstd, is a control batch, has format 0 or 1, is damaged, or does
    not fit in the working memory or the map; the columns of this batch are unchanged. `end`: all batches are done.
    """
    records: cython.longlong[:, ::1] = space.records
    state: cython.longlong[::1] = known.state
    read: cython.longlong = 0
    after: cython.Py_ssize_t
    count: cython.Py_ssize_t
    _end: cython.Py_ssize_t
    most: cython.longlong
    packed: cython.bint
    status: cython.int
    if row < 0 or end > batches.shape[1] or end > space.none_skipped.shape[0]: return row, 0, last
    if records.shape[0] < fields.R_FIELDS or state.shape[0] < tables.MAP_FIELDS: return row, 0, last
    with cython.nogil:
        while row < end:
            most = min(records.shape[1], state[tables.MAP_CAPACITY] - state[tables.MAP_ENTRIES])
            after, packed = _find_run(batches, row, end, most)
            if packed: after, _end = inflate_rows(
                window, batches, row, after, space.checksums, space.library, space.room, 0)
            if after == row: break
            if packed:
                count, status = _put_batches(known, space.room, batches, row, after, space, start_offset)
            else:
                count, status = _put_batches(known, window, batches, row, after, space, start_offset)
            if status != fields.END:
                if packed: _restore_bodies(batches, row, after)
                break
            if count and last != _OUT_OF_ORDER:
                last = last_in_order(batches, records, 0, count, last)
                if last < 0: last = _OUT_OF_ORDER
            read += count
            row = after
        return row, read, last


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.int))
def _put_batches(known: OffsetMap, data: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1],
                 row: cython.Py_ssize_t, end: cython.Py_ssize_t, space: Space, start_offset: cython.longlong):
    """Put the keys of batches row … end − 1, whose bodies are in `data` → (records, END if all were put)."""
    count: cython.Py_ssize_t
    _row: cython.Py_ssize_t
    _at: cython.Py_ssize_t
    _done: cython.longlong
    status: cython.int
    count, _row, _at, _done, status = decode_rows(data, batches, row, end, 0, 0, space.records, 0)
    if status == fields.END:
        _row, status = put_rows(known, data, space.records, 0, count, start_offset, space.none_skipped)
    return count, status


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.bint))
def _find_run(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, end: cython.Py_ssize_t, most: cython.longlong):
    """Find a run of ordinary batches from `row` on with at most `most` records, all compressed or none → (end, compressed?)."""
    first: cython.longlong = -1
    codec: cython.longlong
    while row < end:
        if is_legacy(batches, row): break
        if batches[fields.B_BODY, row] != fields.LEFT_OUT:
            codec = batches[fields.B_ATTRIBUTES, row] & fields.CODEC_MASK
            if is_control(batches, row) or (codec != 0 and codec != fields.LZ4 and codec != fields.ZSTD): break
            if first >= 0 and (codec == 0) != (first == 0): break
            if batches[fields.B_COUNT, row] < 0 or batches[fields.B_COUNT, row] > most: break
            first = codec
            most -= batches[fields.B_COUNT, row]
        row += 1
    return row, first > 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _restore_bodies(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.void:
    """Set the bodies of decompressed batches to their positions in the window again."""
    while row < end:
        if batches[fields.B_BODY, row] != fields.LEFT_OUT:
            batches[fields.B_BODY, row] = batches[fields.B_POSITION, row] + fields.V2_SIZE
            batches[fields.B_BODY_END, row] = batches[fields.B_POSITION, row] + batches[fields.B_SIZE, row]
        row += 1
