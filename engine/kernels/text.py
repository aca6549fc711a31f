# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Write columns as the text of kafka-dump-log into a byte buffer. Mirrors DumpLogSegments.

Payloads are decoded as by Java's `new String(bytes, UTF_8)`: well-formed UTF-8 is unchanged, every maximal ill-formed part
becomes one U+FFFD. With the flag ESCAPE, control characters, bidirectional marks and line ends in keys, payloads and header
keys are written as \\x1b or \\u202e, so that they cannot control a terminal.
"""

import cython
from cython.cimports.engine.kernels import fields
from cython.cimports.engine.kernels.bounds import BLOCK, batches_exist, contents_exist
from cython.cimports.engine.kernels.decoded import Decoded
from cython.cimports.engine.kernels.numbers import varint
from cython.cimports.engine.kernels.predicates import has_delete_horizon, is_control, is_legacy, is_transactional, is_whole
from cython.cimports.engine.kernels.words import (
    boolean,
    character,
    hex_digit,
    index_entry,
    is_unsafe,
    last_sequence,
    number,
    put,
    record_sequence,
    sequence_size,
    timestamp_type,
    unicode_escape,
)

_ENTRY_LIMIT = cython.declare(cython.Py_ssize_t, 64)  # largest line of an index entry

# ---- payloads -------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _payload(out: cython.uchar[::1], at: cython.Py_ssize_t, data: cython.const[cython.uchar][::1],
             start: cython.Py_ssize_t, size: cython.Py_ssize_t, escape: cython.bint) -> cython.Py_ssize_t:
    """Write bytes as Java decodes UTF-8. Needs room for four times `size`."""
    index: cython.Py_ssize_t
    seen: cython.uchar = 0
    for index in range(size):
        out[at + index] = data[start + index]
        seen |= data[start + index]
    if seen < 128 and not escape: return at + size
    return _put_characters(out, at, data, start, start + size, escape)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_characters(out: cython.uchar[::1], at: cython.Py_ssize_t, data: cython.const[cython.uchar][::1],
                    start: cython.Py_ssize_t, end: cython.Py_ssize_t, escape: cython.bint) -> cython.Py_ssize_t:
    """Do the work of `_payload` character by character."""
    index: cython.Py_ssize_t = start
    size: cython.Py_ssize_t
    code: cython.int
    part: cython.Py_ssize_t
    while index < end:
        if data[index] < 128:
            if escape and (data[index] < 32 or data[index] == 127):
                at = _escaped(out, at, data[index])
            else:
                out[at] = data[index]
                at += 1
            index += 1
            continue
        size = sequence_size(data, index, end)
        if size < 0:
            out[at] = 0xEF
            out[at + 1] = 0xBF
            out[at + 2] = 0xBD
            at += 3
            index -= size
            continue
        if escape:
            code = character(data, index, size)
            if is_unsafe(code):
                at = _escaped(out, at, code)
                index += size
                continue
        for part in range(size):
            out[at + part] = data[index + part]
        at += size
        index += size
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _escaped(out: cython.uchar[::1], at: cython.Py_ssize_t, code: cython.int) -> cython.Py_ssize_t:
    """Write an escape: \\n \\r \\t, \\x1b below 160, else \\u202e."""
    out[at] = 92
    if code == 10 or code == 13 or code == 9:
        out[at + 1] = 110 if code == 10 else (114 if code == 13 else 116)
        return at + 2
    if code < 160:
        out[at + 1] = 120
        out[at + 2] = hex_digit(code // 16)
        out[at + 3] = hex_digit(code % 16)
        return at + 4
    return unicode_escape(out, at, code)


# ---- lines ----------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _codec(out: cython.uchar[::1], at: cython.Py_ssize_t, codec: cython.longlong) -> cython.Py_ssize_t:
    if codec == 0: return put(out, at, b"none", 4)
    if codec == 1: return put(out, at, b"gzip", 4)
    if codec == 2: return put(out, at, b"snappy", 6)
    if codec == 3: return put(out, at, b"lz4", 3)
    if codec == 4: return put(out, at, b"zstd", 4)
    at = put(out, at, b"unknown(", 8)
    at = number(out, at, codec)
    return put(out, at, b")", 1)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _batch_line(out: cython.uchar[::1], at: cython.Py_ssize_t, batches: cython.longlong[:, ::1],
                row: cython.Py_ssize_t, base: cython.longlong) -> cython.Py_ssize_t:
    magic: cython.longlong = batches[fields.B_MAGIC, row]
    attributes: cython.longlong = batches[fields.B_ATTRIBUTES, row]
    if not is_legacy(batches, row):
        at = put(out, at, b"baseOffset: ", 12)
        at = number(out, at, batches[fields.B_BASE_OFFSET, row])
        at = put(out, at, b" lastOffset: ", 13)
        at = number(out, at, batches[fields.B_LAST_OFFSET, row])
        at = put(out, at, b" count: ", 8)
        at = number(out, at, batches[fields.B_COUNT, row])
        at = put(out, at, b" baseSequence: ", 15)
        at = number(out, at, batches[fields.B_BASE_SEQUENCE, row])
        at = put(out, at, b" lastSequence: ", 15)
        at = number(out, at, last_sequence(batches, row))
        at = put(out, at, b" producerId: ", 13)
        at = number(out, at, batches[fields.B_PRODUCER_ID, row])
        at = put(out, at, b" producerEpoch: ", 16)
        at = number(out, at, batches[fields.B_PRODUCER_EPOCH, row])
        at = put(out, at, b" partitionLeaderEpoch: ", 23)
        at = number(out, at, batches[fields.B_LEADER_EPOCH, row])
        at = put(out, at, b" isTransactional: ", 18)
        at = boolean(out, at, is_transactional(batches, row))
        at = put(out, at, b" isControl: ", 12)
        at = boolean(out, at, is_control(batches, row))
        if has_delete_horizon(batches, row):
            at = put(out, at, b" deleteHorizonMs: OptionalLong[", 31)
            at = number(out, at, batches[fields.B_BASE_TIMESTAMP, row])
            at = put(out, at, b"]", 1)
        else:
            at = put(out, at, b" deleteHorizonMs: OptionalLong.empty", 36)
    else:
        at = put(out, at, b"offset: ", 8)
        at = number(out, at, batches[fields.B_LAST_OFFSET, row])
    at = put(out, at, b" position: ", 11)
    at = number(out, at, base + batches[fields.B_POSITION, row])
    at = put(out, at, b" ", 1)
    at = timestamp_type(out, at, magic, attributes)
    at = put(out, at, b": ", 2)
    at = number(out, at, batches[fields.B_MAX_TIMESTAMP, row])
    at = put(out, at, b" size: ", 7)
    at = number(out, at, batches[fields.B_SIZE, row])
    at = put(out, at, b" magic: ", 8)
    at = number(out, at, magic)
    at = put(out, at, b" compresscodec: ", 16)
    at = _codec(out, at, attributes & fields.CODEC_MASK)
    at = put(out, at, b" crc: ", 6)
    at = number(out, at, batches[fields.B_CRC, row])
    at = put(out, at, b" isvalid: ", 10)
    at = boolean(out, at, is_whole(batches, row))
    return put(out, at, b"\n", 1)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _record_room(data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1],
                 record: cython.Py_ssize_t, flags: cython.int) -> cython.Py_ssize_t:
    """Return the largest size of the line of a record; −1: damaged headers."""
    needed: cython.Py_ssize_t = fields.RECORD_LINE_LIMIT
    size: cython.Py_ssize_t
    if flags & fields.CONTENTS:
        if records[fields.R_KEY_SIZE, record] > 0: needed += records[fields.R_KEY_SIZE, record] * fields.TEXT_GROWTH
        if records[fields.R_VALUE_SIZE, record] > 0: needed += records[fields.R_VALUE_SIZE, record] * fields.TEXT_GROWTH
    if flags & fields.META and records[fields.R_HEADER_COUNT, record] > 0:
        size = _keys_room(data, records[fields.R_HEADERS_POSITION, record], records[fields.R_HEADER_COUNT, record])
        if size < 0: return -1
        needed += size
    return needed


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _keys_room(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, count: cython.longlong) -> cython.Py_ssize_t:
    """Return the largest size of the keys of `count` headers from `at` on; −1: damaged headers."""
    needed: cython.Py_ssize_t = 0
    length: cython.longlong
    end: cython.Py_ssize_t = data.shape[0]
    if count > end: return -1
    for _ in range(count):  # after an invalid varint `at` stays −1, so the check at the end finds it
        length, at = varint(data, at, end)
        if length < 0 or length > end - at: return -1
        needed += length * fields.TEXT_GROWTH + 1
        length, at = varint(data, at + length, end)
        if length > end - at: return -1
        if length > 0: at += length
    return needed if at >= 0 else -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _metadata(out: cython.uchar[::1], at: cython.Py_ssize_t, data: cython.const[cython.uchar][::1],
              batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, records: cython.longlong[:, ::1],
              record: cython.Py_ssize_t, escape: cython.bint) -> cython.Py_ssize_t:
    """Write the fields before key and payload."""
    at = put(out, at, b"| offset: ", 10)
    at = number(out, at, records[fields.R_OFFSET, record])
    at = put(out, at, b" ", 1)
    at = timestamp_type(out, at, batches[fields.B_MAGIC, row], batches[fields.B_ATTRIBUTES, row])
    at = put(out, at, b": ", 2)
    at = number(out, at, records[fields.R_TIMESTAMP, record])
    at = put(out, at, b" keySize: ", 10)
    at = number(out, at, records[fields.R_KEY_SIZE, record])
    at = put(out, at, b" valueSize: ", 12)
    at = number(out, at, records[fields.R_VALUE_SIZE, record])
    if not is_legacy(batches, row):
        at = put(out, at, b" sequence: ", 11)
        at = number(out, at, record_sequence(batches, row, records[fields.R_OFFSET, record]))
        at = put(out, at, b" headerKeys: [", 14)
        if records[fields.R_HEADER_COUNT, record] > 0:
            at = _header_keys(out, at, data, records[fields.R_HEADERS_POSITION, record],
                              records[fields.R_HEADER_COUNT, record], escape)
        return put(out, at, b"]", 1)
    at = put(out, at, b" isValid: ", 10)
    at = boolean(out, at, records[fields.R_VALID, record] == 1)
    at = put(out, at, b" crc: ", 6)
    return number(out, at, records[fields.R_CRC, record])


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _header_keys(out: cython.uchar[::1], at: cython.Py_ssize_t, data: cython.const[cython.uchar][::1],
                 headers: cython.Py_ssize_t, count: cython.longlong, escape: cython.bint) -> cython.Py_ssize_t:
    """Write the keys of headers with commas between them."""
    index: cython.longlong
    length: cython.longlong
    for index in range(count):
        if index > 0: at = put(out, at, b",", 1)
        length, headers = varint(data, headers, data.shape[0])
        at = _payload(out, at, data, headers, length, escape)
        length, headers = varint(data, headers + length, data.shape[0])
        if length > 0: headers += length
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.int))
def _record_line(out: cython.uchar[::1], at: cython.Py_ssize_t, room: cython.Py_ssize_t,
                 data: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1],
                 records: cython.longlong[:, ::1], record: cython.Py_ssize_t, flags: cython.int):
    key_size: cython.longlong = records[fields.R_KEY_SIZE, record]
    value_size: cython.longlong = records[fields.R_VALUE_SIZE, record]
    needed: cython.Py_ssize_t = _record_room(data, records, record, flags)
    escape: cython.bint = (flags & fields.ESCAPE) != 0
    if needed < 0: return at, fields.BAD_START
    if needed > room - at: return at, fields.FULL
    if flags & fields.META: at = _metadata(out, at, data, batches, records[fields.R_BATCH, record], records, record, escape)
    if flags & fields.CONTENTS:
        if key_size >= 0:
            if flags & fields.META: at = put(out, at, b" key: ", 6)
            else: at = put(out, at, b"| key: ", 7)
            at = _payload(out, at, data, records[fields.R_KEY_POSITION, record], key_size, escape)
        if value_size >= 0:
            if flags & fields.META or key_size >= 0: at = put(out, at, b" payload: ", 10)
            else: at = put(out, at, b"| payload: ", 11)
            at = _payload(out, at, data, records[fields.R_VALUE_POSITION, record], value_size, escape)
    if not flags & fields.OPEN: at = put(out, at, b"\n", 1)
    return at, fields.END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def print_batches(out: cython.uchar[::1], at: cython.Py_ssize_t, batches: cython.longlong[:, ::1],
                  row: cython.Py_ssize_t, last_row: cython.Py_ssize_t, base: cython.longlong):
    """Write the lines of batches row … last_row − 1 → (position after the text, row, status END or FULL).

    base   file position of the window; the batches' positions are relative to it
    """
    room: cython.Py_ssize_t = out.shape[0]
    if row < 0 or last_row > batches.shape[1] or at < 0: return at, row, fields.BAD_START
    with cython.nogil:
        while row < last_row:
            if room - at < fields.BATCH_LINE_LIMIT: return at, row, fields.FULL
            at = _batch_line(out, at, batches, row, base)
            row += 1
        return at, row, fields.END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def print_records(out: cython.uchar[::1], at: cython.Py_ssize_t, decoded: Decoded, row: cython.Py_ssize_t,
                  last_row: cython.Py_ssize_t, record: cython.Py_ssize_t, last_record: cython.Py_ssize_t,
                  flags: cython.int):
    """Write the lines of batches, each followed by its records → (position after the text, row, record, status).

    row     the next batch to write, up to last_row − 1
    record  the next record to write, up to last_record − 1
    flags   META | CONTENTS | ESCAPE | OPEN
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
                if room - at < fields.BATCH_LINE_LIMIT: return at, row, record, fields.FULL
                at = _batch_line(out, at, batches, row, base)
                row += 1
            if record >= last_record: return at, row, record, fields.END
            at, status = _record_line(out, at, room, data, batches, records, record, flags)
            if status != fields.END: return at, row, record, status
            record += 1


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def print_entries(out: cython.uchar[::1], at: cython.Py_ssize_t, index: cython.const[cython.uchar][::1],
                  row: cython.Py_ssize_t, last_row: cython.Py_ssize_t, base_offset: cython.longlong, is_time: cython.bint):
    """Write the lines of the entries row … last_row − 1 of an index → (position after the text, row, status END or FULL).

    index    whole entries of an offset index, or of a time index (`is_time`)
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
            at = number(out, put(out, at, b"timestamp: ", 11) if is_time else put(out, at, b"offset: ", 8), first)
            at = number(out, put(out, at, b" offset: ", 9) if is_time else put(out, at, b" position: ", 11), second)
            at = put(out, at, b"\n", 1)
            row += 1
        return at, row, fields.END
