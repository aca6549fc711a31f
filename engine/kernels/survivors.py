# cython: language_level=3, boundscheck=False, wraparound=False
"""Which offsets survive a compaction, a bit each, once every key is known: a batch without one need not be read again."""

import cython
from cython.cimports.engine.kernels import fields, tables
from cython.cimports.engine.kernels.predicates import is_legacy, is_transactional_or_control

LONGEST = 1 << 16  # offsets of a batch that are looked through for a survivor: so the work is bounded by the input

_LONGEST = cython.declare(cython.longlong, LONGEST)


@cython.ccall
@cython.exceptval(check=False)
def note_survivors(slots: cython.const[cython.ulonglong][::1], start: cython.longlong,
                   survivors: cython.ulonglong[::1]) -> cython.bint:
    """Set the bit of every offset in the map `slots`, bit 0 standing for `start`; False: one of them lies outside."""
    index: cython.Py_ssize_t
    number: cython.Py_ssize_t
    at: cython.ulonglong
    one: cython.ulonglong = 1
    first: cython.ulonglong = max(start, 0)
    size: cython.ulonglong = survivors.shape[0]
    with cython.nogil:
        for index in range(slots.shape[0] // tables.SLOT_WORDS):
            number = index * tables.SLOT_WORDS
            if slots[number] == 0 and slots[number + 1] == 0: continue
            if slots[number + 2] < first: return False
            at = slots[number + 2] - first
            if at >> 6 >= size: return False
            survivors[at >> 6] |= one << (at & 63)
        return True


@cython.ccall
@cython.exceptval(check=False)
def judge(batches: cython.longlong[:, ::1], rows: cython.Py_ssize_t, verdicts: cython.uchar[::1],
          survivors: cython.const[cython.ulonglong][::1], start: cython.longlong, latest: cython.longlong,
          alike: cython.bint) -> cython.bint:
    """Turn ASK into ASK_SURVIVORS or SUPERSEDED for batches whose keys were all put into the map.

    These lie between the offsets `start` and `latest` as a whole.
    alike  transactional ones too: both passes know the same of their transactions
    False: arguments that do not fit each other.
    """
    row: cython.Py_ssize_t
    first: cython.longlong
    last: cython.longlong
    if rows < 0 or rows > batches.shape[1] or rows > verdicts.shape[0] or start < 0: return False
    if latest >= start and (latest - start) >> 6 >= survivors.shape[0]: return False
    for row in range(rows):
        if verdicts[row] != tables.ASK: continue
        if is_legacy(batches, row) or (not alike and is_transactional_or_control(batches, row)): continue
        first = batches[fields.B_BASE_OFFSET, row]
        last = batches[fields.B_LAST_OFFSET, row]
        if first < start or last > latest or last < first or batches[fields.B_COUNT, row] < 1: continue
        verdicts[row] = tables.ASK_SURVIVORS
        if last - first < _LONGEST and not _survives(survivors, first - start, last - start):
            verdicts[row] = tables.SUPERSEDED
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _survives(survivors: cython.const[cython.ulonglong][::1], first: cython.longlong, last: cython.longlong) -> cython.bint:
    """Is one of the bits first … last set?"""
    word: cython.Py_ssize_t = first >> 6
    end: cython.Py_ssize_t = last >> 6
    bits: cython.ulonglong = survivors[word] >> (first & 63)
    one: cython.ulonglong = 1
    if word == end: return bits & (((one << (last - first)) << 1) - 1) != 0
    if bits: return True
    word += 1
    while word < end:
        if survivors[word]: return True
        word += 1
    return survivors[end] & (((one << (last & 63)) << 1) - 1) != 0
