# cython: language_level=3, boundscheck=False, wraparound=False
"""Decode the usual values of `__remote_log_metadata` into rows of bytes: copies of segments and changes of their state.

Unusual values are left to engine.remote.records.

Mirrors RemoteLogSegmentMetadataRecord and RemoteLogSegmentMetadataUpdateRecord, version 0.
"""

import cython
from cython.cimports.engine.kernels import fields, tables
from cython.cimports.engine.kernels.numbers import copy_bytes, i64

# positions in a value, relative to the first id, which follows the name of the topic
_NAME_AT = cython.declare(cython.Py_ssize_t, 3)  # after frame version, type, version: size of the name + 1, name
_LONGEST_NAME = cython.declare(cython.int, 127)  # whose size fits in one byte
_KEY_SIZE = cython.declare(cython.Py_ssize_t, 20)  # topic id and partition; no tags
_ID_AT = cython.declare(cython.Py_ssize_t, 21)
_ID_SIZE = cython.declare(cython.Py_ssize_t, 16)  # no tags
_OFFSETS_AT = cython.declare(cython.Py_ssize_t, 38)  # of a SEGMENT: start and end offset
_SEGMENT_BROKER_AT = cython.declare(cython.Py_ssize_t, 54)
_MAX_TIMESTAMP_AT = cython.declare(cython.Py_ssize_t, 58)
_SEGMENT_EVENT_AT = cython.declare(cython.Py_ssize_t, 66)
_EPOCHS_AT = cython.declare(cython.Py_ssize_t, 74)  # number of leader epochs + 1
_EPOCH_AT = cython.declare(cython.Py_ssize_t, 75)  # leader epoch and its start offset; no tags
_SIZE_AT = cython.declare(cython.Py_ssize_t, 88)
_SEGMENT_CUSTOM_AT = cython.declare(cython.Py_ssize_t, 92)  # no custom metadata
_SEGMENT_STATE_AT = cython.declare(cython.Py_ssize_t, 93)
_SEGMENT_TAGS_AT = cython.declare(cython.Py_ssize_t, 94)  # no tag, or one: is the transaction index empty?
_TAG_SIZE = cython.declare(cython.Py_ssize_t, 4)
_UPDATE_BROKER_AT = cython.declare(cython.Py_ssize_t, 38)  # of an UPDATE: broker, timestamp of the event
_UPDATE_CUSTOM_AT = cython.declare(cython.Py_ssize_t, 50)
_UPDATE_STATE_AT = cython.declare(cython.Py_ssize_t, 51)
_UPDATE_SIZE = cython.declare(cython.Py_ssize_t, 53)  # no tags
_LAST_STATE = cython.declare(cython.int, 3)


@cython.ccall
@cython.exceptval(check=False)
def decode_values(data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1], first: cython.Py_ssize_t,
                  end: cython.Py_ssize_t, kinds: cython.uchar[::1], rows: cython.uchar[::1]) -> cython.bint:
    """Decode the values of the records first … end − 1. False: bad arguments, nothing was decoded.

    kinds  out: a tables.RemoteKind for each
    rows   out: REMOTE_ROW_SIZE bytes for each, see tables.RemoteRow; undefined for OTHER, and for fields that an UPDATE lacks
    """
    index: cython.Py_ssize_t
    at: cython.longlong
    size: cython.longlong
    if first < 0 or end > records.shape[1] or records.shape[0] < fields.R_FIELDS: return False
    if end - first > kinds.shape[0] or end - first > rows.shape[0] // tables.REMOTE_ROW_SIZE: return False
    with cython.nogil:
        for index in range(first, end):
            at = records[fields.R_VALUE_POSITION, index]
            size = records[fields.R_VALUE_SIZE, index]
            kinds[index - first] = tables.REMOTE_OTHER
            if at < 0 or at > data.shape[0] or size > data.shape[0] - at: continue
            kinds[index - first] = _decode(data, at, size, rows, (index - first) * tables.REMOTE_ROW_SIZE)
        return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _decode(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.Py_ssize_t, rows: cython.uchar[::1],
            row: cython.Py_ssize_t) -> cython.int:
    """Decode one value, which lies in `data` → its kind."""
    ids: cython.Py_ssize_t
    if size <= _NAME_AT or data[at] != 1 or data[at + 2] != 0: return tables.REMOTE_OTHER
    if data[at + _NAME_AT] == 0 or data[at + _NAME_AT] > _LONGEST_NAME: return tables.REMOTE_OTHER
    ids = at + _NAME_AT + data[at + _NAME_AT]
    size -= ids - at
    if data[at + 1] == 0: return _segment(data, ids, size, rows, row)
    if data[at + 1] == 1: return _update(data, ids, size, rows, row)
    return tables.REMOTE_OTHER


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_ids(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, rows: cython.uchar[::1],
             row: cython.Py_ssize_t) -> cython.bint:
    if data[at + _KEY_SIZE] != 0 or data[at + _ID_AT + _ID_SIZE] != 0: return False
    copy_bytes(rows, row + tables.REMOTE_KEY, data, at, _KEY_SIZE)
    copy_bytes(rows, row + tables.REMOTE_ID, data, at + _ID_AT, _ID_SIZE)
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _segment(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.Py_ssize_t, rows: cython.uchar[::1],
             row: cython.Py_ssize_t) -> cython.int:
    """Decode the start of a copy, of a segment with one leader epoch that begins with it → SEGMENT or OTHER."""
    start: cython.longlong
    is_empty: cython.bint = False
    tags: cython.Py_ssize_t = size - _SEGMENT_TAGS_AT
    if tags == _TAG_SIZE:
        tags = at + _SEGMENT_TAGS_AT
        if data[tags] != 1 or data[tags + 1] != 0 or data[tags + 2] != 1 or data[tags + 3] > 1: return tables.REMOTE_OTHER
        is_empty = data[tags + 3] != 0
    elif tags != 1 or data[at + _SEGMENT_TAGS_AT] != 0: return tables.REMOTE_OTHER
    start = i64(data, at + _OFFSETS_AT)
    if start < 0 or i64(data, at + _OFFSETS_AT + 8) < start: return tables.REMOTE_OTHER
    if data[at + _EPOCHS_AT] != 2 or i64(data, at + _EPOCH_AT + 4) != start: return tables.REMOTE_OTHER
    if data[at + _EPOCH_AT + 12] != 0 or data[at + _SEGMENT_CUSTOM_AT] != 0: return tables.REMOTE_OTHER
    if data[at + _SEGMENT_STATE_AT] > _LAST_STATE or not _put_ids(data, at, rows, row): return tables.REMOTE_OTHER
    copy_bytes(rows, row + tables.REMOTE_OFFSETS, data, at + _OFFSETS_AT, 16)
    copy_bytes(rows, row + tables.REMOTE_MAX_TIMESTAMP, data, at + _MAX_TIMESTAMP_AT, 8)
    copy_bytes(rows, row + tables.REMOTE_SIZE, data, at + _SIZE_AT, 4)
    copy_bytes(rows, row + tables.REMOTE_EPOCH, data, at + _EPOCH_AT, 4)
    rows[row + tables.REMOTE_TXN_INDEX_EMPTY] = is_empty
    copy_bytes(rows, row + tables.REMOTE_BROKER, data, at + _SEGMENT_BROKER_AT, 4)
    copy_bytes(rows, row + tables.REMOTE_EVENT, data, at + _SEGMENT_EVENT_AT, 8)
    rows[row + tables.REMOTE_STATE] = data[at + _SEGMENT_STATE_AT]
    return tables.REMOTE_SEGMENT


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _update(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.Py_ssize_t, rows: cython.uchar[::1],
            row: cython.Py_ssize_t) -> cython.int:
    """Decode a change of state without custom metadata → UPDATE or OTHER."""
    if size != _UPDATE_SIZE or data[at + _UPDATE_CUSTOM_AT] != 0 or data[at + _UPDATE_SIZE - 1] != 0: return tables.REMOTE_OTHER
    if data[at + _UPDATE_STATE_AT] > _LAST_STATE or not _put_ids(data, at, rows, row): return tables.REMOTE_OTHER
    copy_bytes(rows, row + tables.REMOTE_BROKER, data, at + _UPDATE_BROKER_AT, 12)
    rows[row + tables.REMOTE_STATE] = data[at + _UPDATE_STATE_AT]
    return tables.REMOTE_UPDATE
