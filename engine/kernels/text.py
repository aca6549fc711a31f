# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Columns → the text of kafka-dump-log, straight into a byte buffer. Mirrors DumpLogSegments.

Payloads are what `new String(bytes, UTF_8)` makes of them: well-formed UTF-8 as it is, one U+FFFD for every maximal
ill-formed part. With the flag ESCAPE, control characters, bidirectional marks and line ends inside keys, payloads and
header keys are written as \\x1b or \\u202e, so that a terminal shows them instead of obeying.
"""

import cython

from engine.formats import BatchField, RecordField, Status
from engine.kernels.words import CONTENTS, ESCAPE, META, OPEN

if cython.compiled:
    from cython.cimports.engine.kernels.words import (
        advance,
        code_point,
        delta,
        is_unsafe,
        number,
        utf8_sequence,
        varint,
    )
    from cython.cimports.libc.string import memcpy
else:
    from engine.kernels.words import advance, code_point, delta, is_unsafe, number, utf8_sequence, varint

BATCH_LINE_LIMIT = 640  # no batch line is longer
_RECORD_LIMIT = cython.declare(cython.Py_ssize_t, 320)  # a record line without header keys, key and payload
_GROWTH = cython.declare(cython.Py_ssize_t, 4)  # bytes of text that one byte of payload may become

_META = cython.declare(cython.int, META)
_CONTENTS = cython.declare(cython.int, CONTENTS)
_ESCAPE = cython.declare(cython.int, ESCAPE)
_OPEN = cython.declare(cython.int, OPEN)
_BATCH_LIMIT = cython.declare(cython.Py_ssize_t, BATCH_LINE_LIMIT)

_END = cython.declare(cython.int, Status.END)
_FULL = cython.declare(cython.int, Status.FULL)
_BAD_START = cython.declare(cython.int, Status.BAD_START)

_B_POSITION = cython.declare(cython.int, BatchField.POSITION)
_B_SIZE = cython.declare(cython.int, BatchField.SIZE)
_B_MAGIC = cython.declare(cython.int, BatchField.MAGIC)
_B_VALID = cython.declare(cython.int, BatchField.VALID)
_B_CRC = cython.declare(cython.int, BatchField.CRC)
_B_ATTRIBUTES = cython.declare(cython.int, BatchField.ATTRIBUTES)
_B_BASE_OFFSET = cython.declare(cython.int, BatchField.BASE_OFFSET)
_B_LAST_OFFSET = cython.declare(cython.int, BatchField.LAST_OFFSET)
_B_COUNT = cython.declare(cython.int, BatchField.COUNT)
_B_MAX_TIMESTAMP = cython.declare(cython.int, BatchField.MAX_TIMESTAMP)
_B_BASE_TIMESTAMP = cython.declare(cython.int, BatchField.BASE_TIMESTAMP)
_B_PRODUCER_ID = cython.declare(cython.int, BatchField.PRODUCER_ID)
_B_PRODUCER_EPOCH = cython.declare(cython.int, BatchField.PRODUCER_EPOCH)
_B_BASE_SEQUENCE = cython.declare(cython.int, BatchField.BASE_SEQUENCE)
_B_LEADER_EPOCH = cython.declare(cython.int, BatchField.LEADER_EPOCH)

_BATCH = cython.declare(cython.int, RecordField.BATCH)
_OFFSET = cython.declare(cython.int, RecordField.OFFSET)
_TIMESTAMP = cython.declare(cython.int, RecordField.TIMESTAMP)
_KEY_POSITION = cython.declare(cython.int, RecordField.KEY_POSITION)
_KEY_SIZE = cython.declare(cython.int, RecordField.KEY_SIZE)
_VALUE_POSITION = cython.declare(cython.int, RecordField.VALUE_POSITION)
_VALUE_SIZE = cython.declare(cython.int, RecordField.VALUE_SIZE)
_HEADERS_POSITION = cython.declare(cython.int, RecordField.HEADERS_POSITION)
_HEADER_COUNT = cython.declare(cython.int, RecordField.HEADER_COUNT)
_CRC = cython.declare(cython.int, RecordField.CRC)
_VALID = cython.declare(cython.int, RecordField.VALID)


# ---- words and numbers ----------------------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put(out: cython.uchar[::1], at: cython.Py_ssize_t, text: cython.p_const_char,
         size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Copy `size` bytes of a literal; the caller has made sure that they fit."""
    index: cython.Py_ssize_t
    if cython.compiled:
        memcpy(cython.address(out[at]), text, size)  # of constant size where it is inlined: a few wide moves
    else:
        for index in range(size):
            out[at + index] = text[index]
    return at + size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _number(out: cython.uchar[::1], at: cython.Py_ssize_t, value: cython.longlong) -> cython.Py_ssize_t:
    if cython.compiled: return number(cython.address(out[0]), at, value)
    return number(out, at, value)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _boolean(out: cython.uchar[::1], at: cython.Py_ssize_t, value: cython.bint) -> cython.Py_ssize_t:
    if value: return _put(out, at, b"true", 4)
    return _put(out, at, b"false", 5)


# ---- payloads -------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _payload(out: cython.uchar[::1], at: cython.Py_ssize_t, data: cython.const[cython.uchar][::1],
             start: cython.Py_ssize_t, size: cython.Py_ssize_t, escape: cython.bint) -> cython.Py_ssize_t:
    """Bytes as Java's UTF-8 text. Needs room for four times `size`."""
    index: cython.Py_ssize_t
    seen: cython.uchar = 0
    for index in range(size):
        out[at + index] = data[start + index]
        seen |= data[start + index]
    if seen < 128 and not escape: return at + size
    return _careful(out, at, data, start, start + size, escape)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _careful(out: cython.uchar[::1], at: cython.Py_ssize_t, data: cython.const[cython.uchar][::1],
             start: cython.Py_ssize_t, end: cython.Py_ssize_t, escape: cython.bint) -> cython.Py_ssize_t:
    """The slow way of `_payload`: character by character."""
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
        size = _sequence(data, index, end)
        if size < 0:
            out[at] = 0xEF
            out[at + 1] = 0xBF
            out[at + 2] = 0xBD
            at += 3
            index -= size
            continue
        if escape:
            code = _code_point(data, index, size)
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
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _sequence(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    if cython.compiled: return utf8_sequence(cython.address(data[0]), at, end)
    return utf8_sequence(data, at, end)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _code_point(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.int:
    if cython.compiled: return code_point(cython.address(data[0]), at, size)
    return code_point(data, at, size)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _escaped(out: cython.uchar[::1], at: cython.Py_ssize_t, code: cython.int) -> cython.Py_ssize_t:
    """\\n \\r \\t, \\x1b below 160, else \\u202e."""
    out[at] = 92
    if code == 10 or code == 13 or code == 9:
        out[at + 1] = 110 if code == 10 else (114 if code == 13 else 116)
        return at + 2
    if code < 160:
        out[at + 1] = 120
        out[at + 2] = _digit(code // 16)
        out[at + 3] = _digit(code % 16)
        return at + 4
    out[at + 1] = 117
    out[at + 2] = _digit(code // 4096)
    out[at + 3] = _digit(code // 256 % 16)
    out[at + 4] = _digit(code // 16 % 16)
    out[at + 5] = _digit(code % 16)
    return at + 6


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _digit(value: cython.int) -> cython.uchar:
    if value < 10: return 48 + value
    return 87 + value


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.longlong, cython.Py_ssize_t))
def _varint(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t):
    if cython.compiled: return varint(cython.address(data[0]), at, end)
    return varint(data, at, end)


# ---- lines ----------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _codec(out: cython.uchar[::1], at: cython.Py_ssize_t, codec: cython.longlong) -> cython.Py_ssize_t:
    if codec == 0: return _put(out, at, b"none", 4)
    if codec == 1: return _put(out, at, b"gzip", 4)
    if codec == 2: return _put(out, at, b"snappy", 6)
    if codec == 3: return _put(out, at, b"lz4", 3)
    if codec == 4: return _put(out, at, b"zstd", 4)
    at = _put(out, at, b"unknown(", 8)
    at = _number(out, at, codec)
    return _put(out, at, b")", 1)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _timestamp_type(out: cython.uchar[::1], at: cython.Py_ssize_t, magic: cython.longlong,
                    attributes: cython.longlong) -> cython.Py_ssize_t:
    if magic == 0: return _put(out, at, b"NoTimestampType", 15)
    if attributes & 8: return _put(out, at, b"LogAppendTime", 13)
    return _put(out, at, b"CreateTime", 10)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _batch_line(out: cython.uchar[::1], at: cython.Py_ssize_t, batches: cython.longlong[:, ::1],
                row: cython.Py_ssize_t, base: cython.longlong) -> cython.Py_ssize_t:
    magic: cython.longlong = batches[_B_MAGIC, row]
    attributes: cython.longlong = batches[_B_ATTRIBUTES, row]
    sequence: cython.longlong
    if magic >= 2:
        at = _put(out, at, b"baseOffset: ", 12)
        at = _number(out, at, batches[_B_BASE_OFFSET, row])
        at = _put(out, at, b" lastOffset: ", 13)
        at = _number(out, at, batches[_B_LAST_OFFSET, row])
        at = _put(out, at, b" count: ", 8)
        at = _number(out, at, batches[_B_COUNT, row])
        at = _put(out, at, b" baseSequence: ", 15)
        sequence = batches[_B_BASE_SEQUENCE, row]
        at = _number(out, at, sequence)
        at = _put(out, at, b" lastSequence: ", 15)
        if sequence != -1:
            sequence = advance(sequence, delta(batches[_B_LAST_OFFSET, row], batches[_B_BASE_OFFSET, row]))
        at = _number(out, at, sequence)
        at = _put(out, at, b" producerId: ", 13)
        at = _number(out, at, batches[_B_PRODUCER_ID, row])
        at = _put(out, at, b" producerEpoch: ", 16)
        at = _number(out, at, batches[_B_PRODUCER_EPOCH, row])
        at = _put(out, at, b" partitionLeaderEpoch: ", 23)
        at = _number(out, at, batches[_B_LEADER_EPOCH, row])
        at = _put(out, at, b" isTransactional: ", 18)
        at = _boolean(out, at, (attributes & 16) != 0)
        at = _put(out, at, b" isControl: ", 12)
        at = _boolean(out, at, (attributes & 32) != 0)
        if attributes & 64:
            at = _put(out, at, b" deleteHorizonMs: OptionalLong[", 31)
            at = _number(out, at, batches[_B_BASE_TIMESTAMP, row])
            at = _put(out, at, b"]", 1)
        else:
            at = _put(out, at, b" deleteHorizonMs: OptionalLong.empty", 36)
    else:
        at = _put(out, at, b"offset: ", 8)
        at = _number(out, at, batches[_B_LAST_OFFSET, row])
    at = _put(out, at, b" position: ", 11)
    at = _number(out, at, base + batches[_B_POSITION, row])
    at = _put(out, at, b" ", 1)
    at = _timestamp_type(out, at, magic, attributes)
    at = _put(out, at, b": ", 2)
    at = _number(out, at, batches[_B_MAX_TIMESTAMP, row])
    at = _put(out, at, b" size: ", 7)
    at = _number(out, at, batches[_B_SIZE, row])
    at = _put(out, at, b" magic: ", 8)
    at = _number(out, at, magic)
    at = _put(out, at, b" compresscodec: ", 16)
    at = _codec(out, at, attributes & 7)
    at = _put(out, at, b" crc: ", 6)
    at = _number(out, at, batches[_B_CRC, row])
    at = _put(out, at, b" isvalid: ", 10)
    at = _boolean(out, at, batches[_B_VALID, row] == 1)
    return _put(out, at, b"\n", 1)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.int))
def _record_line(out: cython.uchar[::1], at: cython.Py_ssize_t, room: cython.Py_ssize_t,
                 data: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1],
                 records: cython.longlong[:, ::1], record: cython.Py_ssize_t, flags: cython.int):
    row: cython.Py_ssize_t = records[_BATCH, record]
    magic: cython.longlong = batches[_B_MAGIC, row]
    sequence: cython.longlong
    key_size: cython.longlong = records[_KEY_SIZE, record]
    value_size: cython.longlong = records[_VALUE_SIZE, record]
    needed: cython.Py_ssize_t = _RECORD_LIMIT
    headers: cython.Py_ssize_t
    index: cython.longlong
    length: cython.longlong
    escape: cython.bint = (flags & _ESCAPE) != 0
    if flags & _CONTENTS:
        if key_size > 0: needed += key_size * _GROWTH
        if value_size > 0: needed += value_size * _GROWTH
    if flags & _META:
        headers = records[_HEADERS_POSITION, record]
        for index in range(records[_HEADER_COUNT, record]):
            length, headers = _varint(data, headers, data.shape[0])
            needed += length * _GROWTH + 1
            headers += length
            length, headers = _varint(data, headers, data.shape[0])
            if length > 0: headers += length
    if needed > room - at: return at, _FULL
    if flags & _META:
        at = _put(out, at, b"| offset: ", 10)
        at = _number(out, at, records[_OFFSET, record])
        at = _put(out, at, b" ", 1)
        at = _timestamp_type(out, at, magic, batches[_B_ATTRIBUTES, row])
        at = _put(out, at, b": ", 2)
        at = _number(out, at, records[_TIMESTAMP, record])
        at = _put(out, at, b" keySize: ", 10)
        at = _number(out, at, key_size)
        at = _put(out, at, b" valueSize: ", 12)
        at = _number(out, at, value_size)
        if magic >= 2:
            at = _put(out, at, b" sequence: ", 11)
            sequence = batches[_B_BASE_SEQUENCE, row]
            if sequence >= 0:
                at = _number(out, at, advance(sequence, delta(records[_OFFSET, record], batches[_B_BASE_OFFSET, row])))
            else:
                at = _put(out, at, b"-1", 2)
            at = _put(out, at, b" headerKeys: [", 14)
            headers = records[_HEADERS_POSITION, record]
            for index in range(records[_HEADER_COUNT, record]):
                if index > 0: at = _put(out, at, b",", 1)
                length, headers = _varint(data, headers, data.shape[0])
                at = _payload(out, at, data, headers, length, escape)
                headers += length
                length, headers = _varint(data, headers, data.shape[0])
                if length > 0: headers += length
            at = _put(out, at, b"]", 1)
        else:
            at = _put(out, at, b" isValid: ", 10)
            at = _boolean(out, at, records[_VALID, record] == 1)
            at = _put(out, at, b" crc: ", 6)
            at = _number(out, at, records[_CRC, record])
    if flags & _CONTENTS:
        if key_size >= 0:
            if flags & _META: at = _put(out, at, b" key: ", 6)
            else: at = _put(out, at, b"| key: ", 7)
            at = _payload(out, at, data, records[_KEY_POSITION, record], key_size, escape)
        if value_size >= 0:
            if flags & _META or key_size >= 0: at = _put(out, at, b" payload: ", 10)
            else: at = _put(out, at, b"| payload: ", 11)
            at = _payload(out, at, data, records[_VALUE_POSITION, record], value_size, escape)
    if not flags & _OPEN: at = _put(out, at, b"\n", 1)
    return at, _END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def print_batches(out: cython.uchar[::1], at: cython.Py_ssize_t, batches: cython.longlong[:, ::1],
                  row: cython.Py_ssize_t, last_row: cython.Py_ssize_t, base: cython.longlong):
    """The lines of batches row … last_row − 1 → (position behind the text, row, status END or FULL).

    base   file position of byte 0 of the window that the batches' positions count from
    """
    room: cython.Py_ssize_t = out.shape[0]
    if row < 0 or last_row > batches.shape[1] or at < 0: return at, row, _BAD_START
    with cython.nogil:
        while row < last_row:
            if room - at < _BATCH_LIMIT: return at, row, _FULL
            at = _batch_line(out, at, batches, row, base)
            row += 1
        return at, row, _END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def print_records(out: cython.uchar[::1], at: cython.Py_ssize_t, data: cython.const[cython.uchar][::1],
                  batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t,
                  records: cython.longlong[:, ::1], record: cython.Py_ssize_t, last_record: cython.Py_ssize_t,
                  flags: cython.int, base: cython.longlong):
    """Batches and their records, interleaved → (position behind the text, row, record, status).

    data    the bytes that hold the records
    row     the next batch whose line is due; lines are printed up to, not including, `last_row`
    record  the next record; `last_record` is behind the last. A record's batch line stands before it.
    flags   META | CONTENTS | ESCAPE | OPEN
    status  END, or FULL: write out[:at] away and call again; FULL with at == 0 means that `out` is too small for this
            record
    """
    room: cython.Py_ssize_t = out.shape[0]
    status: cython.int
    if row < 0 or last_row > batches.shape[1] or at < 0: return at, row, record, _BAD_START
    if record < 0 or last_record > records.shape[1]: return at, row, record, _BAD_START
    with cython.nogil:
        while True:
            while row < last_row and (record >= last_record or row <= records[_BATCH, record]):
                if room - at < _BATCH_LIMIT: return at, row, record, _FULL
                at = _batch_line(out, at, batches, row, base)
                row += 1
            if record >= last_record: return at, row, record, _END
            at, status = _record_line(out, at, room, data, batches, records, record, flags)
            if status != _END: return at, row, record, status
            record += 1


if not cython.compiled:
    from engine.kernels.reference_text import print_batches, print_records  # noqa: F401  # too slow interpreted
