# cython: language_level=3, boundscheck=False, wraparound=False
"""The keys of ordinary batches into the offset map, in one call: inflated, decoded, put in order, remembered.

The other way is a call for each step of each few hundred KiB. Threads that work side by side, each on its own log, then wait
for each other at every return to the interpreter. Mirrors Cleaner.buildOffsetMapForSegment.
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
    """What inflating and decoding needs.

    checksums, library  see frames.inflate_frames        room, records   working space        nobody   a 0 for each batch
    """

    checksums: cython.const[cython.uchar][::1]
    library: cython.const[cython.ulonglong][::1]
    room: cython.uchar[::1]
    records: cython.longlong[:, ::1]
    nobody: cython.const[cython.uchar][::1]

    def __init__(self, checksums: cython.const[cython.uchar][::1], library: cython.const[cython.ulonglong][::1],
                  room: cython.uchar[::1], records: cython.longlong[:, ::1], nobody: cython.const[cython.uchar][::1]):
        self.checksums, self.library, self.room = checksums, library, room
        self.records, self.nobody = records, nobody


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.longlong, cython.longlong))
def map_batches(known: OffsetMap, window: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1],
                row: cython.Py_ssize_t, end: cython.Py_ssize_t, space: Space, start_offset: cython.longlong,
                last: cython.longlong):
    """Remember the keys of the batches row … end − 1 → (the batch where it stopped, records read, last).

    window     the bytes that BODY of `batches` counts in; LEFT_OUT: the batch is passed over
    start_offset  see offset_map.put_keys
    last       the last offset before, −1: none; see cleaning.check_order. OUT_OF_ORDER: some records are not as they should be
    It stops before a batch that has another codec than LZ4 and zstd, is a control batch, has format 0 or 1, is damaged, or for
    which there is no room, be it in the map: nothing of it is in the columns or counted then. `end`: all is done.
    """
    records: cython.longlong[:, ::1] = space.records
    state: cython.longlong[::1] = known.state
    read: cython.longlong = 0
    behind: cython.Py_ssize_t
    count: cython.Py_ssize_t
    _end: cython.Py_ssize_t
    most: cython.longlong
    packed: cython.bint
    status: cython.int
    if row < 0 or end > batches.shape[1] or end > space.nobody.shape[0]: return row, 0, last
    if records.shape[0] < fields.R_FIELDS or state.shape[0] < tables.MAP_FIELDS: return row, 0, last
    with cython.nogil:
        while row < end:
            most = min(records.shape[1], state[tables.MAP_CAPACITY] - state[tables.MAP_ENTRIES])
            behind, packed = _alike(batches, row, end, most)
            if packed: behind, _end = inflate_rows(
                window, batches, row, behind, space.checksums, space.library, space.room, 0)
            if behind == row: break
            if packed:
                count, status = _put_batches(known, space.room, batches, row, behind, space, start_offset)
            else:
                count, status = _put_batches(known, window, batches, row, behind, space, start_offset)
            if status != fields.END:
                if packed: _as_before(batches, row, behind)
                break
            if count and last != _OUT_OF_ORDER:
                last = last_in_order(batches, records, 0, count, last)
                if last < 0: last = _OUT_OF_ORDER
            read += count
            row = behind
        return row, read, last


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.int))
def _put_batches(known: OffsetMap, data: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1],
                 row: cython.Py_ssize_t, end: cython.Py_ssize_t, space: Space, start_offset: cython.longlong):
    """(how many records of the batches row … end − 1 were put, whose bodies lie in `data`; END, or anything else: not all)."""
    count: cython.Py_ssize_t
    _row: cython.Py_ssize_t
    _at: cython.Py_ssize_t
    _done: cython.longlong
    status: cython.int
    count, _row, _at, _done, status = decode_rows(data, batches, row, end, 0, 0, space.records, 0)
    if status == fields.END:
        _row, status = put_rows(known, data, space.records, 0, count, start_offset, space.nobody)
    return count, status


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.bint))
def _alike(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, end: cython.Py_ssize_t, most: cython.longlong):
    """(behind the batches from `row` on that are ordinary, all packed or none, and say they hold `most` records; are they?)."""
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
def _as_before(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.void:
    """Point the bodies of inflated batches into the window again."""
    while row < end:
        if batches[fields.B_BODY, row] != fields.LEFT_OUT:
            batches[fields.B_BODY, row] = batches[fields.B_POSITION, row] + fields.V2_SIZE
            batches[fields.B_BODY_END, row] = batches[fields.B_POSITION, row] + batches[fields.B_SIZE, row]
        row += 1
