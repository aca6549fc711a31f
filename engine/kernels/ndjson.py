# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Columns → JSON objects, one a line, straight into a byte buffer. docs/json.md describes them.

Nothing is lost: keys, values, header keys and header values are JSON strings where they are well-formed UTF-8, else
base64 in a field of the same name with `_b64` behind it. With the flag ESCAPE, what a terminal would obey is written
as \\u202e.
"""

import cython

from engine.formats import BatchField, RecordField, Status
from engine.kernels.words import ARRAY, CONTENTS, ESCAPE, META, OPEN

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

SCHEMA = 1  # version of the objects' schema; the literals below say it too
BATCH_OBJECT_LIMIT = 960  # no batch object is longer
_BATCH_LIMIT = cython.declare(cython.Py_ssize_t, BATCH_OBJECT_LIMIT)
_RECORD_LIMIT = cython.declare(cython.Py_ssize_t, 448)  # a record object without headers, key and value
_HEADER_LIMIT = cython.declare(cython.Py_ssize_t, 40)  # what stands around a header's key and value

_META = cython.declare(cython.int, META)
_CONTENTS = cython.declare(cython.int, CONTENTS)
_ESCAPE = cython.declare(cython.int, ESCAPE)
_OPEN = cython.declare(cython.int, OPEN)
_ARRAY = cython.declare(cython.int, ARRAY)

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
    """Copy `size` bytes of a literal; the caller has made sure that they fit. Inlined, so that `size` is a constant."""
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
    if value: return _put(out, at, b'true', 4)
    return _put(out, at, b'false', 5)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.longlong, cython.Py_ssize_t))
def _varint(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t):
    if cython.compiled: return varint(cython.address(data[0]), at, data.shape[0])
    return varint(data, at, data.shape[0])


# ---- bytes as JSON strings ------------------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _string_size(data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, size: cython.Py_ssize_t,
                 escape: cython.bint) -> cython.Py_ssize_t:
    """Bytes that the text of a JSON string takes, without its quotes; −1: these bytes are not well-formed UTF-8."""
    index: cython.Py_ssize_t
    seen: cython.uchar = 0
    byte: cython.uchar
    more: cython.Py_ssize_t = 0
    for index in range(size):
        byte = data[start + index]
        seen |= byte
        more += (byte == 34) + (byte == 92) + (byte < 32) * 5
    if seen < 128 and more == 0 and not escape: return size
    return _careful_size(data, start, start + size, escape)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _careful_size(data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t,
                  escape: cython.bint) -> cython.Py_ssize_t:
    """The slow way of `_string_size`."""
    index: cython.Py_ssize_t = start
    size: cython.Py_ssize_t
    total: cython.Py_ssize_t = 0
    byte: cython.uchar
    while index < end:
        byte = data[index]
        if byte < 128:
            index += 1
            total += 1
            if byte == 34 or byte == 92:
                total += 1
            elif byte < 32:
                total += 1 if _short(byte) else 5
            elif byte == 127 and escape:
                total += 5
            continue
        if cython.compiled: size = utf8_sequence(cython.address(data[0]), index, end)
        else: size = utf8_sequence(data, index, end)
        if size < 0: return -1
        if escape and is_unsafe(_code_point(data, index, size)):
            total += 6
        else:
            total += size
        index += size
    return total


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _code_point(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.int:
    if cython.compiled: return code_point(cython.address(data[0]), at, size)
    return code_point(data, at, size)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _short(byte: cython.uchar) -> cython.uchar:
    """The letter of a control character's short escape, 0 where it has none."""
    if byte == 10: return 110
    if byte == 9: return 116
    if byte == 13: return 114
    if byte == 8: return 98
    if byte == 12: return 102
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _string(out: cython.uchar[::1], at: cython.Py_ssize_t, data: cython.const[cython.uchar][::1],
            start: cython.Py_ssize_t, size: cython.Py_ssize_t, text_size: cython.Py_ssize_t,
            escape: cython.bint) -> cython.Py_ssize_t:
    """The text of a JSON string, which `_string_size` has found to take `text_size` bytes."""
    index: cython.Py_ssize_t
    if text_size != size: return _careful(out, at, data, start, start + size, escape)
    for index in range(size):
        out[at + index] = data[start + index]
    return at + size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _careful(out: cython.uchar[::1], at: cython.Py_ssize_t, data: cython.const[cython.uchar][::1],
             start: cython.Py_ssize_t, end: cython.Py_ssize_t, escape: cython.bint) -> cython.Py_ssize_t:
    """The slow way of `_string`. The bytes are well-formed."""
    index: cython.Py_ssize_t = start
    size: cython.Py_ssize_t
    part: cython.Py_ssize_t
    code: cython.int
    byte: cython.uchar
    while index < end:
        byte = data[index]
        if byte >= 32 and byte < 127 and byte != 34 and byte != 92:
            out[at] = byte
            at += 1
            index += 1
        elif byte < 128:
            index += 1
            if byte == 34 or byte == 92 or _short(byte):
                out[at] = 92
                out[at + 1] = byte if byte > 31 else _short(byte)
                at += 2
            elif byte == 127 and not escape:
                out[at] = byte
                at += 1
            else:
                at = _escaped(out, at, byte)
        else:
            size = 2 if byte < 0xE0 else (3 if byte < 0xF0 else 4)
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
@cython.nogil
@cython.exceptval(check=False)
def _escaped(out: cython.uchar[::1], at: cython.Py_ssize_t, code: cython.int) -> cython.Py_ssize_t:
    """\\u202e, for characters of 16 bits."""
    shift: cython.int
    digit: cython.int
    out[at] = 92
    out[at + 1] = 117
    for shift in range(4):
        digit = (code >> (12 - 4 * shift)) & 15
        out[at + 2 + shift] = 48 + digit if digit < 10 else 87 + digit
    return at + 6


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _base64(out: cython.uchar[::1], at: cython.Py_ssize_t, data: cython.const[cython.uchar][::1],
            start: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Base64 with padding (RFC 4648, section 4)."""
    index: cython.Py_ssize_t = start
    end: cython.Py_ssize_t = start + size
    bits: cython.int
    while end - index >= 3:
        bits = data[index] * 65536 + data[index + 1] * 256 + data[index + 2]
        out[at] = _letter(bits >> 18)
        out[at + 1] = _letter((bits >> 12) & 63)
        out[at + 2] = _letter((bits >> 6) & 63)
        out[at + 3] = _letter(bits & 63)
        at += 4
        index += 3
    if index < end:
        bits = data[index] * 65536
        if end - index == 2: bits += data[index + 1] * 256
        out[at] = _letter(bits >> 18)
        out[at + 1] = _letter((bits >> 12) & 63)
        out[at + 2] = _letter((bits >> 6) & 63) if end - index == 2 else 61
        out[at + 3] = 61
        at += 4
    return at


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _letter(value: cython.int) -> cython.uchar:
    if value < 26: return 65 + value
    if value < 52: return 71 + value
    if value < 62: return value - 4
    return 43 if value == 62 else 47


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _room_for(size: cython.Py_ssize_t, text_size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Bytes that a field of `size` bytes takes inside its quotes."""
    if text_size >= 0: return text_size
    return (size + 2) // 3 * 4


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _bytes(out: cython.uchar[::1], at: cython.Py_ssize_t, data: cython.const[cython.uchar][::1],
           start: cython.Py_ssize_t, size: cython.Py_ssize_t, text_size: cython.Py_ssize_t,
           escape: cython.bint) -> cython.Py_ssize_t:
    """What follows `"key` or `"value`: `":null`, `":"text"` or `_b64":"base64"`."""
    if size < 0: return _put(out, at, b'":null', 6)
    if text_size < 0:
        at = _put(out, at, b'_b64":"', 7)
        at = _base64(out, at, data, start, size)
    else:
        at = _put(out, at, b'":"', 3)
        at = _string(out, at, data, start, size, text_size, escape)
    return _put(out, at, b'"', 1)


# ---- objects --------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _codec(out: cython.uchar[::1], at: cython.Py_ssize_t, codec: cython.longlong) -> cython.Py_ssize_t:
    if codec == 0: return _put(out, at, b'"none"', 6)
    if codec == 1: return _put(out, at, b'"gzip"', 6)
    if codec == 2: return _put(out, at, b'"snappy"', 8)
    if codec == 3: return _put(out, at, b'"lz4"', 5)
    if codec == 4: return _put(out, at, b'"zstd"', 6)
    at = _put(out, at, b'"unknown(', 9)
    at = _number(out, at, codec)
    return _put(out, at, b')"', 2)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _timestamp_type(out: cython.uchar[::1], at: cython.Py_ssize_t, magic: cython.longlong,
                    attributes: cython.longlong) -> cython.Py_ssize_t:
    if magic == 0: return _put(out, at, b',"timestamp_type":"NoTimestampType"', 35)
    if attributes & 8: return _put(out, at, b',"timestamp_type":"LogAppendTime"', 33)
    return _put(out, at, b',"timestamp_type":"CreateTime"', 30)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _batch_object(out: cython.uchar[::1], at: cython.Py_ssize_t, batches: cython.longlong[:, ::1],
                  row: cython.Py_ssize_t, base: cython.longlong, flags: cython.int) -> cython.Py_ssize_t:
    magic: cython.longlong = batches[_B_MAGIC, row]
    attributes: cython.longlong = batches[_B_ATTRIBUTES, row]
    sequence: cython.longlong
    if flags & _ARRAY: at = _put(out, at, b',', 1)
    at = _put(out, at, b'{"type":"batch","schema":1,"position":', 38)
    at = _number(out, at, base + batches[_B_POSITION, row])
    at = _put(out, at, b',"size":', 8)
    at = _number(out, at, batches[_B_SIZE, row])
    at = _put(out, at, b',"magic":', 9)
    at = _number(out, at, magic)
    if magic >= 2:
        at = _put(out, at, b',"base_offset":', 15)
        at = _number(out, at, batches[_B_BASE_OFFSET, row])
    at = _put(out, at, b',"last_offset":', 15)
    at = _number(out, at, batches[_B_LAST_OFFSET, row])
    if magic >= 2:
        at = _put(out, at, b',"count":', 9)
        at = _number(out, at, batches[_B_COUNT, row])
        at = _put(out, at, b',"base_sequence":', 17)
        sequence = batches[_B_BASE_SEQUENCE, row]
        at = _number(out, at, sequence)
        at = _put(out, at, b',"last_sequence":', 17)
        if sequence != -1:
            sequence = advance(sequence, delta(batches[_B_LAST_OFFSET, row], batches[_B_BASE_OFFSET, row]))
        at = _number(out, at, sequence)
        at = _put(out, at, b',"producer_id":', 15)
        at = _number(out, at, batches[_B_PRODUCER_ID, row])
        at = _put(out, at, b',"producer_epoch":', 18)
        at = _number(out, at, batches[_B_PRODUCER_EPOCH, row])
        at = _put(out, at, b',"partition_leader_epoch":', 26)
        at = _number(out, at, batches[_B_LEADER_EPOCH, row])
        at = _put(out, at, b',"is_transactional":', 20)
        at = _boolean(out, at, (attributes & 16) != 0)
        at = _put(out, at, b',"is_control":', 14)
        at = _boolean(out, at, (attributes & 32) != 0)
        at = _put(out, at, b',"delete_horizon_ms":', 21)
        if attributes & 64: at = _number(out, at, batches[_B_BASE_TIMESTAMP, row])
        else: at = _put(out, at, b'null', 4)
        at = _put(out, at, b',"base_timestamp":', 18)
        at = _number(out, at, batches[_B_BASE_TIMESTAMP, row])
    at = _put(out, at, b',"max_timestamp":', 17)
    at = _number(out, at, batches[_B_MAX_TIMESTAMP, row])
    at = _timestamp_type(out, at, magic, attributes)
    at = _put(out, at, b',"compression":', 15)
    at = _codec(out, at, attributes & 7)
    at = _put(out, at, b',"crc":', 7)
    at = _number(out, at, batches[_B_CRC, row])
    at = _put(out, at, b',"is_valid":', 12)
    at = _boolean(out, at, batches[_B_VALID, row] == 1)
    return _put(out, at, b'}\n', 2)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _headers_room(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, count: cython.longlong,
                  escape: cython.bint) -> cython.Py_ssize_t:
    """Bytes that the objects of `count` headers take."""
    size: cython.longlong
    needed: cython.Py_ssize_t = 0
    for _ in range(count):
        size, at = _varint(data, at)
        needed += _HEADER_LIMIT + _room_for(size, _string_size(data, at, size, escape))
        size, at = _varint(data, at + size)
        if size > 0:
            needed += _room_for(size, _string_size(data, at, size, escape))
            at += size
    return needed


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _headers(out: cython.uchar[::1], at: cython.Py_ssize_t, data: cython.const[cython.uchar][::1],
             position: cython.Py_ssize_t, count: cython.longlong, escape: cython.bint) -> cython.Py_ssize_t:
    index: cython.longlong
    size: cython.longlong
    for index in range(count):
        if index > 0: at = _put(out, at, b',{"key', 6)
        else: at = _put(out, at, b'{"key', 5)
        size, position = _varint(data, position)
        at = _bytes(out, at, data, position, size, _string_size(data, position, size, escape), escape)
        size, position = _varint(data, position + size)
        at = _put(out, at, b',"value', 7)
        if size >= 0:
            at = _bytes(out, at, data, position, size, _string_size(data, position, size, escape), escape)
            position += size
        else:
            at = _put(out, at, b'":null', 6)
        at = _put(out, at, b'}', 1)
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.int))
def _record_object(out: cython.uchar[::1], at: cython.Py_ssize_t, room: cython.Py_ssize_t,
                   data: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1],
                   records: cython.longlong[:, ::1], record: cython.Py_ssize_t, flags: cython.int):
    row: cython.Py_ssize_t = records[_BATCH, record]
    magic: cython.longlong = batches[_B_MAGIC, row]
    sequence: cython.longlong
    key: cython.Py_ssize_t = records[_KEY_POSITION, record]
    value: cython.Py_ssize_t = records[_VALUE_POSITION, record]
    key_size: cython.Py_ssize_t = records[_KEY_SIZE, record]
    value_size: cython.Py_ssize_t = records[_VALUE_SIZE, record]
    key_text: cython.Py_ssize_t = 0
    value_text: cython.Py_ssize_t = 0
    count: cython.longlong = records[_HEADER_COUNT, record]
    headers: cython.Py_ssize_t = records[_HEADERS_POSITION, record]
    needed: cython.Py_ssize_t = _RECORD_LIMIT
    escape: cython.bint = (flags & _ESCAPE) != 0
    if flags & _CONTENTS:
        if key_size > 0:
            key_text = _string_size(data, key, key_size, escape)
            needed += _room_for(key_size, key_text)
        if value_size > 0:
            value_text = _string_size(data, value, value_size, escape)
            needed += _room_for(value_size, value_text)
    if flags & _META and magic >= 2 and count > 0: needed += _headers_room(data, headers, count, escape)
    if needed > room - at: return at, _FULL
    if flags & _ARRAY: at = _put(out, at, b',', 1)
    at = _put(out, at, b'{"type":"record","schema":1,"offset":', 37)
    at = _number(out, at, records[_OFFSET, record])
    if flags & _META:
        at = _put(out, at, b',"timestamp":', 13)
        at = _number(out, at, records[_TIMESTAMP, record])
        at = _timestamp_type(out, at, magic, batches[_B_ATTRIBUTES, row])
        at = _put(out, at, b',"key_size":', 12)
        at = _number(out, at, key_size)
        at = _put(out, at, b',"value_size":', 14)
        at = _number(out, at, value_size)
        if magic >= 2:
            at = _put(out, at, b',"sequence":', 12)
            sequence = batches[_B_BASE_SEQUENCE, row]
            if sequence >= 0:
                at = _number(out, at, advance(sequence, delta(records[_OFFSET, record], batches[_B_BASE_OFFSET, row])))
            else:
                at = _put(out, at, b'-1', 2)
            at = _put(out, at, b',"headers":[', 12)
            if count > 0: at = _headers(out, at, data, headers, count, escape)
            at = _put(out, at, b']', 1)
        else:
            at = _put(out, at, b',"crc":', 7)
            at = _number(out, at, records[_CRC, record])
            at = _put(out, at, b',"is_valid":', 12)
            at = _boolean(out, at, records[_VALID, record] == 1)
    if flags & _CONTENTS:
        at = _put(out, at, b',"key', 5)
        at = _bytes(out, at, data, key, key_size, key_text, escape)
        at = _put(out, at, b',"value', 7)
        at = _bytes(out, at, data, value, value_size, value_text, escape)
    if not flags & _OPEN: at = _put(out, at, b'}\n', 2)
    return at, _END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def batch_objects(out: cython.uchar[::1], at: cython.Py_ssize_t, batches: cython.longlong[:, ::1],
                  row: cython.Py_ssize_t, last_row: cython.Py_ssize_t, flags: cython.int, base: cython.longlong):
    """The objects of batches row … last_row − 1 → (position behind the text, row, status END or FULL).

    flags  ARRAY, or 0
    base   file position of byte 0 of the window that the batches' positions count from
    """
    room: cython.Py_ssize_t = out.shape[0]
    if row < 0 or last_row > batches.shape[1] or at < 0: return at, row, _BAD_START
    with cython.nogil:
        while row < last_row:
            if room - at < _BATCH_LIMIT: return at, row, _FULL
            at = _batch_object(out, at, batches, row, base, flags)
            row += 1
        return at, row, _END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def record_objects(out: cython.uchar[::1], at: cython.Py_ssize_t, data: cython.const[cython.uchar][::1],
                   batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t,
                   records: cython.longlong[:, ::1], record: cython.Py_ssize_t, last_record: cython.Py_ssize_t,
                   flags: cython.int, base: cython.longlong):
    """Batches and their records, interleaved → (position behind the text, row, record, status).

    data    the bytes that hold the records
    row     the next batch whose object is due; up to, not including, `last_row`
    record  the next record; `last_record` is behind the last. A record's batch object stands before it.
    flags   META | CONTENTS | ESCAPE | OPEN | ARRAY; OPEN: records lack the closing brace and the line end
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
                at = _batch_object(out, at, batches, row, base, flags)
                row += 1
            if record >= last_record: return at, row, record, _END
            at, status = _record_object(out, at, room, data, batches, records, record, flags)
            if status != _END: return at, row, record, status
            record += 1


if not cython.compiled:
    from engine.kernels.reference_ndjson import batch_objects, record_objects  # noqa: F401  # too slow interpreted
