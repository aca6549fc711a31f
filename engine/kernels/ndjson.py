# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Write columns as JSON objects, one per line, into a byte buffer. docs/json.md describes them.

Keys, values, header keys and header values are JSON strings if they are well-formed UTF-8, else base64 in a field with the
suffix `_b64`: no byte is lost. With the flag ESCAPE, characters that would control a terminal are written as \\u202e.
"""

import cython
from cython.cimports.engine.kernels import fields
from cython.cimports.engine.kernels.bounds import BLOCK, batches_exist, contents_exist
from cython.cimports.engine.kernels.decoded import Decoded
from cython.cimports.engine.kernels.json_strings import field_room, put_field, text_size_of
from cython.cimports.engine.kernels.predicates import has_delete_horizon, is_control, is_legacy, is_transactional, is_whole
from cython.cimports.engine.kernels.words import (
    boolean,
    index_entry,
    last_sequence,
    number,
    put,
    record_sequence,
    timestamp_type,
)

_RECORD_LIMIT = cython.declare(cython.Py_ssize_t, 448)  # largest record object without headers, key and value
_ENTRY_LIMIT = cython.declare(cython.Py_ssize_t, 112)  # largest object of an index entry


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _codec(out: cython.uchar[::1], at: cython.Py_ssize_t, codec: cython.longlong) -> cython.Py_ssize_t:
    if codec == 0: return put(out, at, b'"none"', 6)
    if codec == 1: return put(out, at, b'"gzip"', 6)
    if codec == 2: return put(out, at, b'"snappy"', 8)
    if codec == 3: return put(out, at, b'"lz4"', 5)
    if codec == 4: return put(out, at, b'"zstd"', 6)
    at = put(out, at, b'"unknown(', 9)
    at = number(out, at, codec)
    return put(out, at, b')"', 2)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _batch_object(out: cython.uchar[::1], at: cython.Py_ssize_t, batches: cython.longlong[:, ::1],
                  row: cython.Py_ssize_t, base: cython.longlong, flags: cython.int) -> cython.Py_ssize_t:
    magic: cython.longlong = batches[fields.B_MAGIC, row]
    attributes: cython.longlong = batches[fields.B_ATTRIBUTES, row]
    if flags & fields.ARRAY: at = put(out, at, b',', 1)
    at = put(out, at, b'{"type":"batch","position":', 27)
    at = number(out, at, base + batches[fields.B_POSITION, row])
    at = put(out, at, b',"size":', 8)
    at = number(out, at, batches[fields.B_SIZE, row])
    at = put(out, at, b',"magic":', 9)
    at = number(out, at, magic)
    if not is_legacy(batches, row):
        at = put(out, at, b',"base_offset":', 15)
        at = number(out, at, batches[fields.B_BASE_OFFSET, row])
    at = put(out, at, b',"last_offset":', 15)
    at = number(out, at, batches[fields.B_LAST_OFFSET, row])
    if not is_legacy(batches, row):
        at = put(out, at, b',"count":', 9)
        at = number(out, at, batches[fields.B_COUNT, row])
        at = put(out, at, b',"base_sequence":', 17)
        at = number(out, at, batches[fields.B_BASE_SEQUENCE, row])
        at = put(out, at, b',"last_sequence":', 17)
        at = number(out, at, last_sequence(batches, row))
        at = put(out, at, b',"producer_id":', 15)
        at = number(out, at, batches[fields.B_PRODUCER_ID, row])
        at = put(out, at, b',"producer_epoch":', 18)
        at = number(out, at, batches[fields.B_PRODUCER_EPOCH, row])
        at = put(out, at, b',"partition_leader_epoch":', 26)
        at = number(out, at, batches[fields.B_LEADER_EPOCH, row])
        at = put(out, at, b',"is_transactional":', 20)
        at = boolean(out, at, is_transactional(batches, row))
        at = put(out, at, b',"is_control":', 14)
        at = boolean(out, at, is_control(batches, row))
        at = put(out, at, b',"delete_horizon_ms":', 21)
        if has_delete_horizon(batches, row): at = number(out, at, batches[fields.B_BASE_TIMESTAMP, row])
        else: at = put(out, at, b'null', 4)
        at = put(out, at, b',"base_timestamp":', 18)
        at = number(out, at, batches[fields.B_BASE_TIMESTAMP, row])
    at = put(out, at, b',"max_timestamp":', 17)
    at = number(out, at, batches[fields.B_MAX_TIMESTAMP, row])
    at = put(out, at, b',"timestamp_type":"', 19)
    at = timestamp_type(out, at, magic, attributes)
    at = put(out, at, b'","compression":', 16)
    at = _codec(out, at, attributes & fields.CODEC_MASK)
    at = put(out, at, b',"crc":', 7)
    at = number(out, at, batches[fields.B_CRC, row])
    at = put(out, at, b',"is_valid":', 12)
    at = boolean(out, at, is_whole(batches, row))
    return put(out, at, b'}\n', 2)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _metadata(out: cython.uchar[::1], at: cython.Py_ssize_t, data: cython.const[cython.uchar][::1],
              batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, records: cython.longlong[:, ::1],
              record: cython.Py_ssize_t, escape: cython.bint) -> cython.Py_ssize_t:
    """Write the fields between the offset and the key."""
    at = put(out, at, b',"timestamp":', 13)
    at = number(out, at, records[fields.R_TIMESTAMP, record])
    at = put(out, at, b',"timestamp_type":"', 19)
    at = timestamp_type(out, at, batches[fields.B_MAGIC, row], batches[fields.B_ATTRIBUTES, row])
    at = put(out, at, b'","key_size":', 13)
    at = number(out, at, records[fields.R_KEY_SIZE, record])
    at = put(out, at, b',"value_size":', 14)
    at = number(out, at, records[fields.R_VALUE_SIZE, record])
    if not is_legacy(batches, row):
        at = put(out, at, b',"sequence":', 12)
        at = number(out, at, record_sequence(batches, row, records[fields.R_OFFSET, record]))
        at = put(out, at, b',"headers":[', 12)
        if records[fields.R_HEADER_COUNT, record] > 0:
            at = put_headers(out, at, data, records[fields.R_HEADERS_POSITION, record],
                             records[fields.R_HEADER_COUNT, record], escape)
        return put(out, at, b']', 1)
    at = put(out, at, b',"crc":', 7)
    at = number(out, at, records[fields.R_CRC, record])
    at = put(out, at, b',"is_valid":', 12)
    return boolean(out, at, records[fields.R_VALID, record] == 1)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.int))
def _record_object(out: cython.uchar[::1], at: cython.Py_ssize_t, room: cython.Py_ssize_t,
                   data: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1],
                   records: cython.longlong[:, ::1], record: cython.Py_ssize_t, flags: cython.int):
    row: cython.Py_ssize_t = records[fields.R_BATCH, record]
    key: cython.Py_ssize_t = records[fields.R_KEY_POSITION, record]
    value: cython.Py_ssize_t = records[fields.R_VALUE_POSITION, record]
    key_size: cython.Py_ssize_t = records[fields.R_KEY_SIZE, record]
    value_size: cython.Py_ssize_t = records[fields.R_VALUE_SIZE, record]
    key_text: cython.Py_ssize_t = 0
    value_text: cython.Py_ssize_t = 0
    headers: cython.Py_ssize_t
    needed: cython.Py_ssize_t = _RECORD_LIMIT
    escape: cython.bint = (flags & fields.ESCAPE) != 0
    if flags & fields.CONTENTS:
        if key_size > 0:
            key_text = text_size_of(data, key, key_size, escape)
            needed += field_room(key_size, key_text)
        if value_size > 0:
            value_text = text_size_of(data, value, value_size, escape)
            needed += field_room(value_size, value_text)
    if flags & fields.META and records[fields.R_HEADER_COUNT, record] > 0 and not is_legacy(batches, row):
        headers = headers_room(data, records[fields.R_HEADERS_POSITION, record], records[fields.R_HEADER_COUNT, record],
                               escape)
        if headers < 0: return at, fields.BAD_START
        needed += headers
    if needed > room - at: return at, fields.FULL
    if flags & fields.ARRAY: at = put(out, at, b',', 1)
    at = put(out, at, b'{"type":"record","offset":', 26)
    at = number(out, at, records[fields.R_OFFSET, record])
    if flags & fields.META: at = _metadata(out, at, data, batches, row, records, record, escape)
    if flags & fields.CONTENTS:
        at = put(out, at, b',"key', 5)
        at = put_field(out, at, data, key, key_size, key_text, escape)
        at = put(out, at, b',"value', 7)
        at = put_field(out, at, data, value, value_size, value_text, escape)
    if not flags & fields.OPEN: at = put(out, at, b'}\n', 2)
    return at, fields.END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def batch_objects(out: cython.uchar[::1], at: cython.Py_ssize_t, batches: cython.longlong[:, ::1],
                  row: cython.Py_ssize_t, last_row: cython.Py_ssize_t, flags: cython.int, base: cython.longlong):
    """Write the objects of batches row … last_row − 1 → (position after the text, row, status END or FULL).

    flags  ARRAY, or 0
    base   file position of the window; the batches' positions are relative to it
    """
    room: cython.Py_ssize_t = out.shape[0]
    if row < 0 or last_row > batches.shape[1] or at < 0: return at, row, fields.BAD_START
    with cython.nogil:
        while row < last_row:
            if room - at < fields.BATCH_OBJECT_LIMIT: return at, row, fields.FULL
            at = _batch_object(out, at, batches, row, base, flags)
            row += 1
        return at, row, fields.END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def record_objects(out: cython.uchar[::1], at: cython.Py_ssize_t, decoded: Decoded, row: cython.Py_ssize_t,
                   last_row: cython.Py_ssize_t, record: cython.Py_ssize_t, last_record: cython.Py_ssize_t,
                   flags: cython.int):
    """Write batches, each followed by its records → (position after the text, row, record, status).

    row     the next batch to write, up to last_row − 1
    record  the next record to write, up to last_record − 1
    flags   META | CONTENTS | ESCAPE | OPEN | ARRAY; OPEN: records lack the closing brace and the line end
    status  END, or FULL: write out[:at] to the file and call again; FULL with at == 0: `out` is too small for this
            record; BAD_START: bad arguments, or a record whose batch or bytes do not exist: this record and the others
            of its block (BLOCK) are not written
    """
    data: cython.const[cython.uchar][::1] = decoded.data
    batches: cython.longlong[:, ::1] = decoded.batches
    records: cython.longlong[:, ::1] = decoded.records
    base: cython.longlong = decoded.base
    room: cython.Py_ssize_t = out.shape[0]
    checked: cython.Py_ssize_t = record  # the records before it are checked
    status: cython.int
    if row < 0 or last_row > batches.shape[1] or at < 0: return at, row, record, fields.BAD_START
    if record < 0 or last_record > records.shape[1]: return at, row, record, fields.BAD_START
    with cython.nogil:
        while True:
            if record == checked and record < last_record:
                checked = min(record + BLOCK, last_record)
                if not batches_exist(records, record, checked, batches.shape[1]): return at, row, record, fields.BAD_START
                if flags & fields.CONTENTS and not contents_exist(data, records, record, checked):
                    return at, row, record, fields.BAD_START
            while row < last_row and (record >= last_record or row <= records[fields.R_BATCH, record]):
                if room - at < fields.BATCH_OBJECT_LIMIT: return at, row, record, fields.FULL
                at = _batch_object(out, at, batches, row, base, flags)
                row += 1
            if record >= last_record: return at, row, record, fields.END
            at, status = _record_object(out, at, room, data, batches, records, record, flags)
            if status != fields.END: return at, row, record, status
            record += 1


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def entry_objects(out: cython.uchar[::1], at: cython.Py_ssize_t, index: cython.const[cython.uchar][::1],
                  row: cython.Py_ssize_t, last_row: cython.Py_ssize_t, base_offset: cython.longlong, is_time: cython.bint,
                  flags: cython.int):
    """Write the entries row … last_row − 1 of an index → (position after the text, row, status END or FULL).

    index    whole entries of an offset index, or of a time index (`is_time`)
    flags    ARRAY
    """
    room: cython.Py_ssize_t = out.shape[0]
    size: cython.Py_ssize_t = fields.TIME_ENTRY_SIZE if is_time else fields.OFFSET_ENTRY_SIZE
    first: cython.longlong
    second: cython.longlong
    if row < 0 or last_row > index.shape[0] // size or at < 0: return at, row, fields.BAD_START
    with cython.nogil:
        while row < last_row:
            if room - at < _ENTRY_LIMIT: return at, row, fields.FULL
            first, second = index_entry(index, row, base_offset, is_time)
            if flags & fields.ARRAY: at = put(out, at, b',', 1)
            if is_time: at = put(out, at, b'{"type":"time-index-entry","timestamp":', 39)
            else: at = put(out, at, b'{"type":"offset-index-entry","offset":', 38)
            at = number(out, at, first)
            at = number(out, put(out, at, b',"offset":', 10) if is_time else put(out, at, b',"position":', 12), second)
            at = put(out, at, b'}\n', 2)
            row += 1
        return at, row, fields.END
