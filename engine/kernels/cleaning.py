# cython: language_level=3, boundscheck=False, wraparound=False
"""What becomes of the batches of a window when it is compacted: those that go, those that stay as they are, the rest.

Also which offsets survive, a bit each, once every key is known: a batch without one need not be read a second time.
"""

import cython

if cython.compiled:
    from cython.cimports.engine.kernels import fields, tables
    from cython.cimports.engine.kernels.predicates import (
        has_delete_horizon,
        has_producer,
        is_control,
        is_known,
        is_legacy,
        is_transactional_or_control,
        is_whole,
    )
else:
    from engine.kernels import fields, tables
    from engine.kernels.predicates import (
        has_delete_horizon,
        has_producer,
        is_control,
        is_known,
        is_legacy,
        is_transactional_or_control,
        is_whole,
    )


LONGEST = 1 << 16  # offsets of a batch that are looked through for a survivor: so the work is bounded by the input

_LONGEST = cython.declare(cython.longlong, LONGEST)


@cython.ccall
@cython.exceptval(check=False)
def first_unsound(batches: cython.longlong[:, ::1], rows: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The first batch with a wrong checksum, an unknown message format or an unknown codec; `rows`: none."""
    row: cython.Py_ssize_t = 0
    if rows > batches.shape[1]: return 0
    with cython.nogil:
        while row < rows:
            if not is_whole(batches, row) or not is_known(batches, row): return row
            row += 1
        return rows


@cython.ccall
@cython.exceptval(check=False)
def next_in_transaction(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t,
                        rows: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """First batch from `row` on that is transactional or a control batch; `rows`: none."""
    if row < 0 or rows > batches.shape[1]: return rows
    with cython.nogil:
        while row < rows and (is_legacy(batches, row) or not is_transactional_or_control(batches, row)):
            row += 1
        return row


@cython.ccall
@cython.exceptval(check=False)
def total(counts: cython.longlong[:, ::1], field: cython.Py_ssize_t, rows: cython.Py_ssize_t) -> cython.longlong:
    """The sum of one of the counts over the first `rows` batches; −1: there are no such."""
    row: cython.Py_ssize_t
    found: cython.longlong = 0
    if field < 0 or field >= counts.shape[0] or rows < 0 or rows > counts.shape[1]: return -1
    for row in range(rows):
        found += counts[field, row]
    return found


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.longlong))
def take_kept(records: cython.longlong[:, ::1], first: cython.Py_ssize_t, end: cython.Py_ssize_t,
              keep: cython.const[cython.uchar][::1], out: cython.longlong[:, ::1]):
    """Copy those of the records first … end − 1 for which keep[index − first] is not 0 → (how many, largest timestamp).

    (−1, 0) where they do not fit `out` or `keep`.
    """
    index: cython.Py_ssize_t
    field: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    largest: cython.longlong = -1
    if first < 0 or end > records.shape[1] or end - first > keep.shape[0]: return -1, 0
    if records.shape[0] < fields.R_FIELDS or out.shape[0] < fields.R_FIELDS: return -1, 0
    with cython.nogil:
        for index in range(first, end):
            if keep[index - first] == 0: continue
            if count == out.shape[1]: return -1, 0
            for field in range(fields.R_FIELDS):
                out[field, count] = records[field, index]
            if records[fields.R_TIMESTAMP, index] > largest: largest = records[fields.R_TIMESTAMP, index]
            count += 1
        return count, largest


@cython.ccall
@cython.exceptval(check=False)
def check_order(batches: cython.longlong[:, ::1], records: cython.longlong[:, ::1], first: cython.Py_ssize_t,
                end: cython.Py_ssize_t, last: cython.longlong) -> cython.longlong:
    """The last offset of the records first … end − 1; −1: they are not as producers and brokers write them.

    They are if every record has a key, lies in the range of offsets that its batch names, and offsets grow, from `last` on.
    """
    with cython.nogil:
        return last_in_order(batches, records, first, end, last)


def last_in_order(batches, records, first, end, last):  # typed in cleaning.pxd, so that other kernels call it as C
    """See `check_order`."""
    index: cython.Py_ssize_t
    row: cython.Py_ssize_t
    offset: cython.longlong
    if first < 0 or end > records.shape[1]: return -1
    for index in range(first, end):
        row = records[fields.R_BATCH, index]
        offset = records[fields.R_OFFSET, index]
        if row < 0 or row >= batches.shape[1] or offset <= last or records[fields.R_KEY_SIZE, index] < 0: return -1
        if offset > batches[fields.B_LAST_OFFSET, row]: return -1
        if not is_legacy(batches, row) and offset < batches[fields.B_BASE_OFFSET, row]: return -1
        last = offset
    return last


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
    with cython.nogil:
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


def kind_of(batches, counts, row, ids, offsets, epochs, round_end):  # typed in cleaning.pxd, so that others call it as C
    """What becomes of a batch whose records are counted: DROP, COPY, ALONE or EMPTY.

    counts  see tables.Count        the others  see `stays_empty`
    ALONE is one that loses some records or needs a delete horizon.
    """
    kept: cython.longlong = counts[tables.C_KEPT, row]
    if kept == 0: return tables.EMPTY if is_precious(batches, row, ids, offsets, epochs, round_end) else tables.DROP
    if is_legacy(batches, row) or kept < counts[tables.C_READ, row]: return tables.ALONE
    if counts[tables.C_TOMBSTONES, row] and not has_delete_horizon(batches, row): return tables.ALONE
    return tables.COPY


@cython.ccall
@cython.exceptval(check=False)
def stays_empty(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, ids: cython.const[cython.longlong][::1],
                offsets: cython.const[cython.longlong][::1], epochs: cython.const[cython.short][::1],
                round_end: cython.longlong) -> cython.bint:
    """Does a batch stay, as a header, though it has no records left? Mirrors Cleaner.checkBatchRetention.

    ids, offsets, epochs  of active producers, in order of their ids: last data offset (−1: none is known) and epoch
    round_end             last offset of the round: the batch that ends with it stays
    """
    if row < 0 or row >= batches.shape[1]: return False
    with cython.nogil:
        return is_precious(batches, row, ids, offsets, epochs, round_end)


def is_precious(batches, row, ids, offsets, epochs, round_end):  # typed in cleaning.pxd
    """The same, of a batch that is there."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = min(ids.shape[0], offsets.shape[0], epochs.shape[0])
    end: cython.Py_ssize_t = high
    middle: cython.Py_ssize_t
    wanted: cython.longlong = batches[fields.B_PRODUCER_ID, row]
    if batches[fields.B_LAST_OFFSET, row] == round_end: return True
    if not has_producer(batches, row): return False
    while low < high:
        middle = low + (high - low) // 2
        if ids[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    if low == end or ids[low] != wanted: return False
    if offsets[low] >= 0: return offsets[low] == batches[fields.B_LAST_OFFSET, row]
    return is_control(batches, row) and epochs[low] == batches[fields.B_PRODUCER_EPOCH, row]


@cython.ccall
@cython.exceptval(check=False)
def count_gone(batches: cython.longlong[:, ::1], rows: cython.Py_ssize_t, verdicts: cython.const[cython.uchar][::1],
               ids: cython.const[cython.longlong][::1], offsets: cython.const[cython.longlong][::1],
               epochs: cython.const[cython.short][::1], round_end: cython.longlong) -> cython.longlong:
    """Records of batches of which nothing stays, by their verdict; −1: there are no such rows. See `stays_empty`."""
    row: cython.Py_ssize_t
    count: cython.longlong = 0
    if rows < 0 or rows > batches.shape[1] or rows > verdicts.shape[0]: return -1
    with cython.nogil:
        for row in range(rows):
            if verdicts[row] == tables.KEEP_NONE and not is_precious(batches, row, ids, offsets, epochs, round_end):
                count += batches[fields.B_COUNT, row]
        return count


@cython.ccall
@cython.exceptval(check=False)
def note_offsets(offsets: cython.const[cython.longlong][::1], first: cython.Py_ssize_t, start: cython.longlong,
                 shift: cython.int, places: cython.const[cython.longlong][::1],
                 bits: cython.ulonglong[::1]) -> cython.Py_ssize_t:
    """Set a bit for each of `offsets` from number `first` on → how many are done, fewer where one has no place.

    places  by (offset − start) >> shift: the word of `bits` where the bits of those offsets begin; −1: nowhere yet
    start   not negative
    shift   6 at least: so many low bits of what lies behind `start` are the number of the bit
    """
    index: cython.Py_ssize_t
    part: cython.longlong
    at: cython.longlong
    behind: cython.longlong
    one: cython.ulonglong = 1
    mask: cython.longlong = (one << shift) - 1
    if first < 0 or start < 0 or shift < 6 or shift > 40: return first
    with cython.nogil:
        for index in range(first, offsets.shape[0]):
            if offsets[index] < start: return index
            behind = offsets[index] - start
            part = behind >> shift
            if part >= places.shape[0] or places[part] < 0: return index
            at = places[part] + ((behind & mask) >> 6)
            if at >= bits.shape[0]: return index
            bits[at] |= one << (behind & 63)
        return max(first, offsets.shape[0])
