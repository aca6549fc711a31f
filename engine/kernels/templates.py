# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Write records by a template into a byte buffer: a sequence of constants and fields of a record.

The text of `fetch --template`, its JSON objects and the lines of `export --as csv` are templates. Bytes are written unchanged,
except in JSON fields, which are written as in `ndjson`, and in cells of CSV.
"""

import cython
from cython.cimports.engine.kernels import fields, tables
from cython.cimports.engine.kernels.bounds import BLOCK, batches_exist, contents_exist
from cython.cimports.engine.kernels.csv_cells import cell_size, cells_room, put_cells, quote
from cython.cimports.engine.kernels.decoded import Decoded
from cython.cimports.engine.kernels.json_strings import field_room, put_field, text_size_of
from cython.cimports.engine.kernels.ndjson import headers_room, put_headers
from cython.cimports.engine.kernels.numbers import copy_bytes, put_int, varint
from cython.cimports.engine.kernels.predicates import is_legacy
from cython.cimports.engine.kernels.words import number, put, timestamp_type

_PIECE_LIMIT = cython.declare(cython.Py_ssize_t, 20)  # largest piece in bytes, without constants, key, value and headers


@cython.final
@cython.cclass
class Template:
    """The pieces of every record: `pieces`, a table of tables.Piece, and the bytes of its `constants`.

    guard  of cells of CSV: see `put_cells`
    """

    pieces: cython.longlong[:, ::1]
    constants: cython.const[cython.uchar][::1]
    guard: cython.bint

    def __init__(self, pieces: cython.longlong[:, ::1], constants: cython.const[cython.uchar][::1],
                 guard: cython.bint = False):
        self.pieces, self.constants, self.guard = pieces, constants, guard


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fixed_room(pieces: cython.longlong[:, ::1], constants: cython.const[cython.uchar][::1],
                room: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the largest size of a record without key, value and headers; more than `room`: too large; −1: invalid pieces."""
    index: cython.Py_ssize_t
    needed: cython.Py_ssize_t = 0
    kind: cython.longlong
    size: cython.longlong
    for index in range(pieces.shape[1]):
        kind = pieces[tables.PIECE_KIND, index]
        size = _PIECE_LIMIT
        if kind < 0 or kind > tables.LAST_SHOWN: return -1
        if kind == tables.SHOW_CONSTANT:
            size = pieces[tables.PIECE_SIZE, index]
            if size < 0 or size > constants.shape[0]: return -1
            if not 0 <= pieces[tables.PIECE_START, index] <= constants.shape[0] - size: return -1
        needed = room + 1 if size > room - needed else needed + size
    return needed


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _header_texts_room(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t,
                       count: cython.longlong) -> cython.Py_ssize_t:
    """Return the largest size of `count` headers from `at` on as name=value; −1: damaged headers."""
    size: cython.longlong
    needed: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = data.shape[0]
    for _ in range(count):
        size, at = varint(data, at, end)
        if at < 0 or size < 0 or size > end - at: return -1
        needed += size + 6  # a comma, `=`, NULL
        size, at = varint(data, at + size, end)
        if at < 0 or size > end - at: return -1
        if size > 0:
            needed += size
            at += size
    return needed


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_header_texts(out: cython.uchar[::1], at: cython.Py_ssize_t, data: cython.const[cython.uchar][::1],
                      position: cython.Py_ssize_t, count: cython.longlong) -> cython.Py_ssize_t:
    """Write headers as name=value, with commas between them."""
    index: cython.longlong
    size: cython.longlong
    for index in range(count):
        if index > 0: at = put(out, at, b",", 1)
        size, position = varint(data, position, data.shape[0])
        at = copy_bytes(out, at, data, position, size)
        at = put(out, at, b"=", 1)
        size, position = varint(data, position + size, data.shape[0])
        if size < 0:
            at = put(out, at, b"NULL", 4)
        else:
            at = copy_bytes(out, at, data, position, size)
            position += size
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_headers_cell(out: cython.uchar[::1], at: cython.Py_ssize_t, data: cython.const[cython.uchar][::1],
                      position: cython.Py_ssize_t, count: cython.longlong) -> cython.Py_ssize_t:
    """Write headers as a cell of CSV."""
    start: cython.Py_ssize_t = at
    if count <= 0: return put(out, at, b"\\N", 2)
    at = put_headers(out, put(out, at, b"[", 1), data, position, count, False)
    return quote(out, start, put(out, at, b"]", 1))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.Py_ssize_t))
def _contents_room(data: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1],
                   records: cython.longlong[:, ::1], record: cython.Py_ssize_t, pieces: cython.longlong[:, ::1],
                   room: cython.Py_ssize_t):
    """Return (size of key, value and headers, `string_size` or `cell_size` of the key, of the value).

    The first is larger than `room` if they do not fit, −1 for damaged headers.
    """
    index: cython.Py_ssize_t
    needed: cython.Py_ssize_t = 0
    key_text: cython.Py_ssize_t = 0
    value_text: cython.Py_ssize_t = 0
    more: cython.Py_ssize_t
    key_size: cython.Py_ssize_t = max(records[fields.R_KEY_SIZE, record], 0)
    value_size: cython.Py_ssize_t = max(records[fields.R_VALUE_SIZE, record], 0)
    headers: cython.longlong = records[fields.R_HEADER_COUNT, record]
    if headers < 0 or is_legacy(batches, records[fields.R_BATCH, record]): headers = 0
    for index in range(pieces.shape[1]):
        kind: cython.longlong = pieces[tables.PIECE_KIND, index]
        if kind < tables.SHOW_KEY:
            continue
        more = 0
        if kind == tables.SHOW_KEY: more = key_size
        elif kind == tables.SHOW_VALUE: more = value_size
        elif kind == tables.SHOW_JSON_KEY:
            if key_size > 0: key_text = text_size_of(data, records[fields.R_KEY_POSITION, record], key_size, False)
            more = field_room(key_size, key_text)
        elif kind == tables.SHOW_JSON_VALUE:
            if value_size > 0: value_text = text_size_of(data, records[fields.R_VALUE_POSITION, record], value_size, False)
            more = field_room(value_size, value_text)
        elif kind == tables.SHOW_CSV_KEY:
            if key_size > 0: key_text = cell_size(data, records[fields.R_KEY_POSITION, record], key_size)
            more = cells_room(key_size, key_text)
        elif kind == tables.SHOW_CSV_VALUE:
            if value_size > 0: value_text = cell_size(data, records[fields.R_VALUE_POSITION, record], value_size)
            more = cells_room(value_size, value_text)
        elif headers > 0 and kind == tables.SHOW_CSV_HEADERS:
            more = headers_room(data, records[fields.R_HEADERS_POSITION, record], headers, False)
            if more >= 0: more = 2 * more + 4  # each byte could be a quote
        elif headers > 0 and kind == tables.SHOW_JSON_HEADERS:
            more = headers_room(data, records[fields.R_HEADERS_POSITION, record], headers, False)
        elif headers > 0 and kind == tables.SHOW_HEADERS:
            more = _header_texts_room(data, records[fields.R_HEADERS_POSITION, record], headers)
        if more < 0: return -1, key_text, value_text
        if more > room - needed: return room + 1, key_text, value_text
        needed += more
    return needed, key_text, value_text


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.int))
def _put_record(out: cython.uchar[::1], at: cython.Py_ssize_t, room: cython.Py_ssize_t,
                data: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1], records: cython.longlong[:, ::1],
                record: cython.Py_ssize_t, template: Template):
    """Write one record → (position after it, status). `room`: bytes of `out` that are left without the pieces of fixed size."""
    index: cython.Py_ssize_t
    kind: cython.longlong
    row: cython.Py_ssize_t = records[fields.R_BATCH, record]
    key: cython.Py_ssize_t = records[fields.R_KEY_POSITION, record]
    value: cython.Py_ssize_t = records[fields.R_VALUE_POSITION, record]
    key_size: cython.Py_ssize_t = max(records[fields.R_KEY_SIZE, record], -1)
    value_size: cython.Py_ssize_t = max(records[fields.R_VALUE_SIZE, record], -1)
    headers: cython.longlong = 0 if is_legacy(batches, row) else records[fields.R_HEADER_COUNT, record]
    needed, key_text, value_text = _contents_room(data, batches, records, record, template.pieces, room)
    if needed < 0: return at, fields.BAD_START
    if needed > room: return at, fields.FULL
    for index in range(template.pieces.shape[1]):
        kind = template.pieces[tables.PIECE_KIND, index]
        if kind == tables.SHOW_CONSTANT:
            at = copy_bytes(out, at, template.constants, template.pieces[tables.PIECE_START, index],
                            template.pieces[tables.PIECE_SIZE, index])
        elif kind == tables.SHOW_OFFSET: at = number(out, at, records[fields.R_OFFSET, record])
        elif kind == tables.SHOW_TIMESTAMP: at = number(out, at, records[fields.R_TIMESTAMP, record])
        elif kind == tables.SHOW_KEY_SIZE: at = number(out, at, key_size)
        elif kind == tables.SHOW_VALUE_SIZE: at = number(out, at, value_size)
        elif kind == tables.SHOW_BINARY_VALUE_SIZE: at = put_int(out, at, value_size, 4)
        elif kind == tables.SHOW_KEY: at = copy_bytes(out, at, data, key, max(key_size, 0))
        elif kind == tables.SHOW_VALUE: at = copy_bytes(out, at, data, value, max(value_size, 0))
        elif kind == tables.SHOW_TIMESTAMP_TYPE:
            at = timestamp_type(out, at, batches[fields.B_MAGIC, row], batches[fields.B_ATTRIBUTES, row])
        elif kind == tables.SHOW_LEADER_EPOCH:
            if batches[fields.B_LEADER_EPOCH, row] < 0: at = put(out, at, b"null", 4)
            else: at = number(out, at, batches[fields.B_LEADER_EPOCH, row])
        elif kind == tables.SHOW_JSON_KEY: at = put_field(out, at, data, key, key_size, key_text, False)
        elif kind == tables.SHOW_JSON_VALUE: at = put_field(out, at, data, value, value_size, value_text, False)
        elif kind == tables.SHOW_CSV_KEY: at = put_cells(out, at, data, key, key_size, key_text, template.guard)
        elif kind == tables.SHOW_CSV_VALUE: at = put_cells(out, at, data, value, value_size, value_text, template.guard)
        elif kind == tables.SHOW_CSV_HEADERS:
            at = _put_headers_cell(out, at, data, records[fields.R_HEADERS_POSITION, record], headers)
        elif headers > 0 and kind == tables.SHOW_JSON_HEADERS:
            at = put_headers(out, at, data, records[fields.R_HEADERS_POSITION, record], headers, False)
        elif headers > 0:
            at = _put_header_texts(out, at, data, records[fields.R_HEADERS_POSITION, record], headers)
    return at, fields.END


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def put_by_template(out: cython.uchar[::1], at: cython.Py_ssize_t, decoded: Decoded, record: cython.Py_ssize_t,
                    last_record: cython.Py_ssize_t, template: Template):
    """Write the records record … last_record − 1 by the template → (position after the text, next record, status).

    status     END, or FULL: write out[:at] to the file and call again; FULL with at == 0: `out` is too small for this
               record; BAD_START: bad arguments, or a record whose batch or bytes do not exist: this record and the others
               of its block (BLOCK) are not written
    """
    data: cython.const[cython.uchar][::1] = decoded.data
    batches: cython.longlong[:, ::1] = decoded.batches
    records: cython.longlong[:, ::1] = decoded.records
    room: cython.Py_ssize_t = out.shape[0]
    checked: cython.Py_ssize_t = record  # the records before it are checked
    status: cython.int
    fixed: cython.Py_ssize_t
    if at < 0 or at > room or record < 0 or last_record > records.shape[1]: return at, record, fields.BAD_START
    if template.pieces.shape[0] != tables.PIECE_FIELDS: return at, record, fields.BAD_START
    if records.shape[0] < fields.R_FIELDS: return at, record, fields.BAD_START
    with cython.nogil:
        fixed = _fixed_room(template.pieces, template.constants, room)
        if fixed < 0: return at, record, fields.BAD_START
        while record < last_record:
            if record == checked:
                checked = min(record + BLOCK, last_record)
                if not batches_exist(records, record, checked, batches.shape[1]): return at, record, fields.BAD_START
                if not contents_exist(data, records, record, checked): return at, record, fields.BAD_START
            if fixed > room - at: return at, record, fields.FULL
            at, status = _put_record(out, at, room - at - fixed, data, batches, records, record, template)
            if status != fields.END: return at, record, status
            record += 1
        return at, record, fields.END
