# cython: language_level=3, boundscheck=False, wraparound=False
"""Search for byte strings: which batches hold one, and which records hold one in a key or a value.

Most batches of a log do not hold what a user searches for. They are left out before their records are decoded.
"""

import cython
from cython.cimports.engine.kernels import fields, tables
from cython.cimports.engine.kernels.bounds import contents_exist
from cython.cimports.engine.kernels.numbers import varint
from cython.cimports.engine.kernels.predicates import is_legacy, is_whole

# Positions that are compared at once: the compiler turns this loop into vector instructions.
_BLOCK = cython.declare(cython.Py_ssize_t, 64)
# One position per string; `Needles` has no more strings.
LARGEST_SET = 8
_LARGEST_SET = cython.declare(cython.Py_ssize_t, LARGEST_SET)


@cython.final
@cython.cclass
class Needles:
    """The byte strings to search for, at most LARGEST_SET.

    texts   all strings, one after the other       masks  a byte for each of theirs: 0x20 if it is a lower-case letter and its
            case does not matter, else 0           table  see tables.Needle, a column per string
    """

    texts: cython.const[cython.uchar][::1]
    masks: cython.const[cython.uchar][::1]
    table: cython.longlong[:, ::1]

    def __init__(self, texts: cython.const[cython.uchar][::1], masks: cython.const[cython.uchar][::1],
                 table: cython.longlong[:, ::1]):
        number: cython.Py_ssize_t
        size: cython.longlong
        if table.shape[0] != tables.NEEDLE_FIELDS or not 0 < table.shape[1] <= _LARGEST_SET:
            raise ValueError("one to eight strings")
        if masks.shape[0] != texts.shape[0]: raise ValueError("one mask for each byte")
        for number in range(table.shape[1]):
            size = table[tables.NEEDLE_SIZE, number]
            if size < 1 or size > texts.shape[0]: raise ValueError("an empty string, or a string outside `texts`")
            if not 0 <= table[tables.NEEDLE_START, number] <= texts.shape[0] - size: raise ValueError("outside `texts`")
            if not 0 <= table[tables.NEEDLE_RARE, number] < size: raise ValueError("outside the string")
            if not 0 <= table[tables.NEEDLE_SECOND, number] < size: raise ValueError("outside the string")
        self.texts, self.masks, self.table = texts, masks, table


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _find(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t, needles: Needles,
          number: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the first position of the string `number` in data[at:end]; `end`: it is not there.

    Two of its bytes, those at `rare` and `second`, are compared first.
    """
    start: cython.Py_ssize_t = needles.table[tables.NEEDLE_START, number]
    size: cython.Py_ssize_t = needles.table[tables.NEEDLE_SIZE, number]
    rare: cython.Py_ssize_t = needles.table[tables.NEEDLE_RARE, number]
    second: cython.Py_ssize_t = needles.table[tables.NEEDLE_SECOND, number]
    stop: cython.Py_ssize_t = end - size + 1  # the string can begin at positions before it
    here: cython.Py_ssize_t
    near: cython.Py_ssize_t
    index: cython.Py_ssize_t
    one: cython.uchar = needles.texts[start + rare]
    other: cython.uchar = needles.texts[start + second]
    one_mask: cython.uchar = needles.masks[start + rare]
    other_mask: cython.uchar = needles.masks[start + second]
    found: cython.uchar
    while at < stop:
        near = at + _BLOCK
        if near <= stop:
            found = 0
            for index in range(64):
                found |= (((data[at + rare + index] | one_mask) == one) & ((data[at + second + index] | other_mask) == other))
            if found == 0:
                at = near
                continue
        else:
            near = stop
        for here in range(at, near):
            if (data[here + rare] | one_mask) != one or (data[here + second] | other_mask) != other: continue
            index = 0
            while index < size and (data[here + index] | needles.masks[start + index]) == needles.texts[start + index]:
                index += 1
            if index == size: return here
        at = near
    return end


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def leave_out_batches(data: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1], row: cython.Py_ssize_t,
                      end: cython.Py_ssize_t, needles: Needles):
    """Set BODY to LEFT_OUT for each of the batches row … end − 1 that holds none of the strings → number of other batches.

    data     the bytes at BODY … BODY_END of the batches, which follow each other there; gaps between them are searched too
    Kept are also batches of formats 0 and 1, and those whose checksum is not known to be right: the problems of their records
    are to be reported. −1: bad arguments; some batches may be left out already, none of them wrongly.
    """
    table: cython.longlong[:, ::1] = needles.table
    hits: cython.Py_ssize_t[8]  # of each string: its first position from the current batch on
    kept: cython.Py_ssize_t = 0
    number: cython.Py_ssize_t
    at: cython.Py_ssize_t
    body_end: cython.Py_ssize_t
    last: cython.Py_ssize_t = 0  # end of the last batch
    size: cython.Py_ssize_t
    holds: cython.bint
    if row < 0 or end > batches.shape[1]: return -1
    with cython.nogil:
        for number in range(row, end):
            if batches[fields.B_BODY, number] == fields.LEFT_OUT or is_legacy(batches, number): continue
            at = batches[fields.B_BODY, number]
            body_end = batches[fields.B_BODY_END, number]
            if at < last or body_end < at or body_end > data.shape[0]: return -1
            last = body_end
        for number in range(8): hits[number] = -1
        while row < end:
            at = batches[fields.B_BODY, row]
            if at == fields.LEFT_OUT:
                row += 1
                continue
            if is_legacy(batches, row) or not is_whole(batches, row):
                kept += 1
                row += 1
                continue
            body_end = batches[fields.B_BODY_END, row]
            holds = False
            for number in range(table.shape[1]):
                size = table[tables.NEEDLE_SIZE, number]
                if hits[number] < at: hits[number] = _find(data, at, last, needles, number)
                if hits[number] <= body_end - size: holds = True
            if holds: kept += 1
            else: batches[fields.B_BODY, row] = fields.LEFT_OUT
            row += 1
        return kept


@cython.ccall
@cython.exceptval(check=False)
@cython.returns(cython.Py_ssize_t)
def mask_holding(data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1], first: cython.Py_ssize_t,
                 needles: Needles, in_keys: cython.bint, in_values: cython.bint, in_headers: cython.bint,
                 keep: cython.uchar[::1]):
    """Set `keep` to 0 for each record from `first` on that holds none of the strings in the chosen fields → records kept.

    in_headers  names and values of headers        keep  a byte for each record, up to the last one to search
    Only records whose `keep` is not 0 are searched. −1: bad arguments, nothing is changed.
    """
    kept: cython.Py_ssize_t = 0
    record: cython.Py_ssize_t
    end: cython.Py_ssize_t = keep.shape[0]
    if first < 0 or end > records.shape[1]: return -1
    if not contents_exist(data, records, first, end): return -1
    with cython.nogil:
        for record in range(first, end):
            if keep[record] == 0: continue
            if in_keys and _holds(data, records[fields.R_KEY_POSITION, record], records[fields.R_KEY_SIZE, record], needles):
                kept += 1
            elif in_values and _holds(data, records[fields.R_VALUE_POSITION, record], records[fields.R_VALUE_SIZE, record],
                                      needles):
                kept += 1
            elif in_headers and _in_headers(data, records[fields.R_HEADERS_POSITION, record],
                                            records[fields.R_HEADER_COUNT, record], needles):
                kept += 1
            else:
                keep[record] = 0
        return kept


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _holds(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.Py_ssize_t,
           needles: Needles) -> cython.bint:
    """Does data[at:at + size] hold one of the strings?"""
    number: cython.Py_ssize_t
    for number in range(needles.table.shape[1]):
        if _find(data, at, at + size, needles, number) < at + size: return True
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _in_headers(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, count: cython.longlong,
                needles: Needles) -> cython.bint:
    """Does a name or a value of `count` headers from `at` on hold one of the strings? Damaged headers end the search."""
    size: cython.longlong
    end: cython.Py_ssize_t = data.shape[0]
    part: cython.int
    for _ in range(count):
        for part in range(2):  # name, value
            size, at = varint(data, at, end)
            if at < 0 or size > end - at: return False
            if size > 0:
                if _holds(data, at, size, needles): return True
                at += size
    return False
