# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Parse lines of text or of JSON objects into record columns.

Keys and values are not copied: columns point into the line. A line of text is a key, a separator and a value. JSON strings are
decoded in index, where they become shorter, and headers are converted in index to their wire form. A line of JSON with an
unusual form is left unchanged for record.json_record, which parses all of JSON.
"""

import cython
from cython.cimports.engine.kernels import fields, tables
from cython.cimports.engine.kernels.json_unescape import four_hex, put_string, unescape

_DEEPEST = cython.declare(cython.int, 60)  # most levels of nested JSON
_FIELDS = cython.declare(cython.int, 6)  # bits for the members of _field
_MOST_DIGITS = cython.declare(cython.Py_ssize_t, 18)  # digits of a number that always fits 64 bits


# ---- first pass: check the whole line, without changes


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _space(data: cython.uchar[::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    while at < end and (data[at] == 32 or data[at] == 9 or data[at] == 13):
        at += 1
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _escape_end(data: cython.uchar[::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the position after the escape at `at`; −1: not valid, or half of a surrogate pair."""
    kind: cython.uchar
    code: cython.int
    if end - at < 2: return -1
    kind = data[at + 1]
    if kind != 117:
        if kind == 34 or kind == 92 or kind == 47 or kind == 98 or kind == 102 or kind == 110 or kind == 114 or kind == 116:
            return at + 2
        return -1
    if end - at < 6: return -1
    code = four_hex(data, at + 2)
    if code < 0: return -1
    if code < 0xD800 or code > 0xDFFF: return at + 6
    if code > 0xDBFF or end - at < 12 or data[at + 6] != 92 or data[at + 7] != 117: return -1
    code = four_hex(data, at + 8)
    if code < 0xDC00 or code > 0xDFFF: return -1
    return at + 12


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _string_end(data: cython.uchar[::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the position after the string at `at`; −1: not a valid string."""
    byte: cython.uchar
    if at >= end or data[at] != 34: return -1
    at += 1
    while at < end:
        byte = data[at]
        if byte == 34: return at + 1
        if byte < 32: return -1
        if byte == 92:
            at = _escape_end(data, at, end)
            if at < 0: return -1
        else:
            at += 1
    return -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _number_end(data: cython.uchar[::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the position after the number at `at`; −1: not a valid number."""
    start: cython.Py_ssize_t
    if at < end and data[at] == 45: at += 1
    if at >= end: return -1
    start = at
    while at < end and 48 <= data[at] <= 57: at += 1
    if at == start or (data[start] == 48 and at - start > 1): return -1
    if at < end and data[at] == 46:
        start = at + 1
        at = start
        while at < end and 48 <= data[at] <= 57: at += 1
        if at == start: return -1
    if at < end and (data[at] == 101 or data[at] == 69):
        at += 1
        if at < end and (data[at] == 43 or data[at] == 45): at += 1
        start = at
        while at < end and 48 <= data[at] <= 57: at += 1
        if at == start: return -1
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _value_end(data: cython.uchar[::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t,
               depth: cython.int) -> cython.Py_ssize_t:
    """Return the position after the JSON value at `at`; −1: not a valid value, or too many levels."""
    byte: cython.uchar
    closing: cython.uchar
    if at >= end or depth > _DEEPEST: return -1
    byte = data[at]
    if byte == 34: return _string_end(data, at, end)
    if byte == 116:
        return at + 4 if end - at >= 4 and data[at + 1] == 114 and data[at + 2] == 117 and data[at + 3] == 101 else -1
    if byte == 110:
        return at + 4 if end - at >= 4 and data[at + 1] == 117 and data[at + 2] == 108 and data[at + 3] == 108 else -1
    if byte == 102:
        if end - at >= 5 and data[at + 1] == 97 and data[at + 2] == 108 and data[at + 3] == 115 and data[at + 4] == 101:
            return at + 5
        return -1
    if byte != 123 and byte != 91: return _number_end(data, at, end)
    closing = byte + 2
    at = _space(data, at + 1, end)
    if at < end and data[at] == closing: return at + 1
    while at < end:
        if byte == 123:
            at = _string_end(data, at, end)
            if at < 0: return -1
            at = _space(data, at, end)
            if at >= end or data[at] != 58: return -1
            at = _space(data, at + 1, end)
        at = _value_end(data, at, end, depth + 1)
        if at < 0: return -1
        at = _space(data, at, end)
        if at >= end: return -1
        if data[at] == closing: return at + 1
        if data[at] != 44: return -1
        at = _space(data, at + 1, end)
    return -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _field(data: cython.uchar[::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
    """Return which member a name is: 1 key, 2 value, 3 headers, 4 timestamp, 5 type, 0 another one, −1 left to the caller."""
    size: cython.Py_ssize_t = end - start
    if size == 3: return 1 if data[start] == 107 and data[start + 1] == 101 and data[start + 2] == 121 else 0
    if size == 4:
        return 5 if (data[start] == 116 and data[start + 1] == 121 and data[start + 2] == 112
                     and data[start + 3] == 101) else 0
    if size == 5:
        return 2 if (data[start] == 118 and data[start + 1] == 97 and data[start + 2] == 108
                     and data[start + 3] == 117 and data[start + 4] == 101) else 0
    if size == 7:
        if (data[start] == 104 and data[start + 1] == 101 and data[start + 2] == 97
                and data[start + 3] == 100 and data[start + 4] == 101 and data[start + 5] == 114
                and data[start + 6] == 115): return 3
        if data[start] == 107 or data[start] == 99: return -1  # key_b64, control
    if size == 9:
        if (data[start] == 116 and data[start + 1] == 105 and data[start + 2] == 109
                and data[start + 3] == 101 and data[start + 4] == 115 and data[start + 5] == 116
                and data[start + 6] == 97 and data[start + 7] == 109 and data[start + 8] == 112): return 4
        if data[start] == 118: return -1  # value_b64
    return _escaped(data, start, end)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _escaped(data: cython.uchar[::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
    """Return −1 for a name with escapes, whose decoded form is not known here, else 0."""
    while start < end:
        if data[start] == 92: return -1
        start += 1
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _index_of(data: cython.uchar[::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t,
              names: cython.const[cython.uchar][::1]) -> cython.int:
    """Return the index of the name data[start:end] in `names`, where each name follows a byte with its size; −1: not found."""
    at: cython.Py_ssize_t = 0
    index: cython.int = 0
    size: cython.Py_ssize_t
    same: cython.Py_ssize_t
    while at < names.shape[0]:
        size = names[at]
        at += 1
        if size == end - start and names.shape[0] - at >= size:
            same = 0
            while same < size and data[start + same] == names[at + same]:
                same += 1
            if same == size: return index
        at += size
        index += 1
    return -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _headers_end(data: cython.uchar[::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the position after [{"key": "…", "value": "…" or null}, …]; −1: another form or order of members."""
    if at >= end or data[at] != 91: return -1
    at = _space(data, at + 1, end)
    if at < end and data[at] == 93: return at + 1
    while at < end:
        if data[at] != 123: return -1
        at = _member(data, _space(data, at + 1, end), end, 1)
        if at < 0: return -1
        at = _string_end(data, at, end)
        if at < 0: return -1
        at = _space(data, at, end)
        if at >= end or data[at] != 44: return -1
        at = _member(data, _space(data, at + 1, end), end, 2)
        if at < 0 or at >= end or (data[at] != 34 and data[at] != 110): return -1
        at = _value_end(data, at, end, 0)
        if at < 0: return -1
        at = _space(data, at, end)
        if at >= end or data[at] != 125: return -1
        at = _space(data, at + 1, end)
        if at >= end: return -1
        if data[at] == 93: return at + 1
        if data[at] != 44: return -1
        at = _space(data, at + 1, end)
    return -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _member(data: cython.uchar[::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t,
            field: cython.int) -> cython.Py_ssize_t:
    """Return the position of the value of the member at `at`; −1: it is not this field."""
    name_end: cython.Py_ssize_t = _string_end(data, at, end)
    if name_end < 0 or _field(data, at + 1, name_end - 1) != field: return -1
    at = _space(data, name_end, end)
    if at >= end or data[at] != 58: return -1
    return _space(data, at + 1, end)


# ---- second pass: make a record


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_headers(data: cython.uchar[::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
    """Convert the headers of data[start:end], which _headers_end has checked, to wire form from `start` on → their number."""
    at: cython.Py_ssize_t = _space(data, start + 1, end)
    to: cython.Py_ssize_t = start
    count: cython.longlong = 0
    string_end: cython.Py_ssize_t
    while at < end and data[at] == 123:
        at = _member(data, _space(data, at + 1, end), end, 1)
        string_end = _string_end(data, at, end)
        to = put_string(data, at + 1, string_end - 1, to)
        at = _space(data, string_end, end)
        at = _member(data, _space(data, at + 1, end), end, 2)
        string_end = _value_end(data, at, end, 0)
        if data[at] == 34:
            to = put_string(data, at + 1, string_end - 1, to)
        else:
            data[to] = 1  # a null
            to += 1
        count += 1
        at = _space(data, _space(data, string_end, end) + 1, end)
        if data[at] != 44: break
        at = _space(data, at + 1, end)
    return count


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.longlong))
def _content(data: cython.uchar[::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t):
    """Return (position, size) of a key or value: a decoded string, size −1 for null, else the JSON text itself."""
    if start < 0 or data[start] == 110: return 0, -1
    if data[start] != 34: return start, end - start
    if not _escaped(data, start + 1, end - 1): return start + 1, end - start - 2
    return start + 1, unescape(data, start + 1, end - 1, start + 1) - start - 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _json_line(data: cython.uchar[::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t, timestamp: cython.longlong,
               others: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1],
               row: cython.Py_ssize_t) -> cython.int:
    """Make a record of the line data[at:end] → 1; 0: the line is empty; −1: left to the caller, and unchanged."""
    key: cython.Py_ssize_t = -1
    key_end: cython.Py_ssize_t = -1
    value: cython.Py_ssize_t = -1
    value_end: cython.Py_ssize_t = -1
    headers: cython.Py_ssize_t = -1
    headers_end: cython.Py_ssize_t = -1
    name_end: cython.Py_ssize_t
    start: cython.Py_ssize_t = at
    after: cython.Py_ssize_t
    field: cython.int
    bit: cython.int
    one: cython.ulonglong = 1
    seen: cython.ulonglong = 0  # a bit for each member that may occur once
    at = _space(data, at, end)
    if at == end: return 0
    if data[at] != 123: return -1
    at = _space(data, at + 1, end)
    while at < end and data[at] != 125:
        name_end = _string_end(data, at, end)
        if name_end < 0: return -1
        field = _field(data, at + 1, name_end - 1)
        bit = field
        if field == 0 and others.shape[0]:
            bit = _index_of(data, at + 1, name_end - 1, others)
            if bit < 0: return -1
            bit += _FIELDS
        if bit > 0:
            if bit > 63 or seen >> bit & 1: return -1
            seen |= one << bit
        at = _space(data, name_end, end)
        if field < 0 or at >= end or data[at] != 58: return -1
        at = _space(data, at + 1, end)
        after = _headers_end(data, at, end) if field == 3 else _value_end(data, at, end, 0)
        if after < 0: return -1
        if field == 1:
            key = at
            key_end = after
        elif field == 2:
            value = at
            value_end = after
        elif field == 3:
            headers = at
            headers_end = after
        elif field == 4:
            if after - at > _MOST_DIGITS or data[at] < 48 or data[at] > 57: return -1
            timestamp = 0
            while at < after:
                if data[at] < 48 or data[at] > 57: return -1
                timestamp = timestamp * 10 + data[at] - 48
                at += 1
        elif field == 5:
            if after - at != 8 or not _is_record(data, at + 1): return -1
        at = _space(data, after, end)
        if at >= end: return -1
        if data[at] == 44:
            at = _space(data, at + 1, end)
            if at >= end or data[at] != 34: return -1
        elif data[at] != 125:
            return -1
    if at >= end or _space(data, at + 1, end) != end: return -1
    if key < 0 and value < 0: return -1
    records[fields.R_BATCH, row] = 0
    records[fields.R_OFFSET, row] = row
    records[fields.R_TIMESTAMP, row] = timestamp
    records[fields.R_KEY_POSITION, row], records[fields.R_KEY_SIZE, row] = _content(data, key, key_end)
    records[fields.R_VALUE_POSITION, row], records[fields.R_VALUE_SIZE, row] = _content(data, value, value_end)
    records[fields.R_HEADERS_POSITION, row] = headers if headers >= 0 else start
    records[fields.R_HEADER_COUNT, row] = _put_headers(data, headers, headers_end) if headers >= 0 else 0
    return 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_record(data: cython.uchar[::1], start: cython.Py_ssize_t) -> cython.bint:
    """Is this the word “record”? Lines of other types are left to the caller."""
    return (data[start] == 114 and data[start + 1] == 101 and data[start + 2] == 99
            and data[start + 3] == 111 and data[start + 4] == 114 and data[start + 5] == 100)


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def parse_json_lines(data: cython.uchar[::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t,
                     timestamp: cython.longlong, others: cython.const[cython.uchar][::1],
                     records: cython.longlong[:, ::1], filled: cython.Py_ssize_t):
    """Parse the lines data[start:end], each a JSON object → (rows filled, position of the next line, status).

    data       changed: strings with escapes and headers are converted in index
    timestamp  of records that have none, ms
    others     names of other allowed members, which are ignored: a byte with the size, then the name; empty: any
    status     see tables.Parsed. ODD: the next line is left to the caller, and unchanged. BAD_START: a range outside `data`, or
               columns of a wrong shape
    Members: key and value (a string, null, or any JSON, of which the text is taken), headers, timestamp, type.
    Empty lines are skipped.
    """
    at: cython.Py_ssize_t = start
    line_end: cython.Py_ssize_t
    made: cython.int
    if start < 0 or start > end or end > data.shape[0]: return filled, start, tables.PARSED_BAD_START
    if filled < 0 or records.shape[0] < fields.R_FIELDS: return filled, start, tables.PARSED_BAD_START
    with cython.nogil:
        while at < end:
            if filled >= records.shape[1]: return filled, at, tables.PARSED_FULL
            line_end = at
            while line_end < end and data[line_end] != 10:
                line_end += 1
            made = _json_line(data, at, line_end, timestamp, others, records, filled)
            if made < 0: return filled, at, tables.PARSED_ODD
            filled += made
            at = line_end + 1 if line_end < end else end
        return filled, at, tables.PARSED_END


# ---- lines of text


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _line_end(data: cython.uchar[::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the position of the next line feed; `end`: none."""
    while at < end and data[at] != 10:
        at += 1
    return at


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is(data: cython.uchar[::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t,
        word: cython.const[cython.uchar][::1]) -> cython.bint:
    """Are these bytes `word`?"""
    index: cython.Py_ssize_t
    if end - start != word.shape[0]: return False
    for index in range(word.shape[0]):
        if data[start + index] != word[index]: return False
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _find(data: cython.uchar[::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t,
          word: cython.const[cython.uchar][::1]) -> cython.Py_ssize_t:
    """Return the first position of `word`; `end`: not found."""
    at: cython.Py_ssize_t = start
    size: cython.Py_ssize_t = word.shape[0]
    while end - at >= size:
        if data[at] == word[0] and _is(data, at, at + size, word): return at
        at += 1
    return end


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t, cython.int))
def parse_text_lines(data: cython.uchar[::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t,
                     separator: cython.const[cython.uchar][::1], null: cython.const[cython.uchar][::1],
                     timestamp: cython.longlong, records: cython.longlong[:, ::1], filled: cython.Py_ssize_t):
    """Parse the lines data[start:end] → (rows filled, position of the next line, status).

    separator  between key and value; if it is empty or not in the line, there is no key
    null       text that stands for a null key or value; empty: none
    timestamp  of every record, ms
    status     END · FULL · BAD_START (a range outside `data`, or columns of a wrong shape)
    A line ends with LF or CR LF, which the last line may lack.
    """
    at: cython.Py_ssize_t = start
    line_end: cython.Py_ssize_t
    after: cython.Py_ssize_t
    split: cython.Py_ssize_t
    if start < 0 or start > end or end > data.shape[0]: return filled, start, tables.PARSED_BAD_START
    if filled < 0 or records.shape[0] < fields.R_FIELDS: return filled, start, tables.PARSED_BAD_START
    with cython.nogil:
        while at < end:
            if filled >= records.shape[1]: return filled, at, tables.PARSED_FULL
            line_end = _line_end(data, at, end)
            after = line_end + 1
            if line_end > at and data[line_end - 1] == 13: line_end -= 1
            records[fields.R_BATCH, filled] = 0
            records[fields.R_OFFSET, filled] = filled
            records[fields.R_TIMESTAMP, filled] = timestamp
            records[fields.R_HEADERS_POSITION, filled] = at
            records[fields.R_HEADER_COUNT, filled] = 0
            records[fields.R_KEY_POSITION, filled] = at
            records[fields.R_KEY_SIZE, filled] = -1
            if separator.shape[0]:
                split = _find(data, at, line_end, separator)
                if split < line_end:
                    if not null.shape[0] or not _is(data, at, split, null): records[fields.R_KEY_SIZE, filled] = split - at
                    at = split + separator.shape[0]
            records[fields.R_VALUE_POSITION, filled] = at
            records[fields.R_VALUE_SIZE, filled] = line_end - at
            if null.shape[0] and _is(data, at, line_end, null): records[fields.R_VALUE_SIZE, filled] = -1
            filled += 1
            at = after if after < end else end
        return filled, at, tables.PARSED_END
