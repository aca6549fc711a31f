# cython: language_level=3, boundscheck=False, wraparound=False
"""Key → last offset in fixed memory, for the cleaner: 24 bytes a key, a keyed digest of 128 bits instead of the key.

Open addressing over a plain buffer, by the two halves of the digest. Mirrors SkimpyOffsetMap.
"""

import cython
from cython.cimports.engine.kernels import fields, tables
from cython.cimports.engine.kernels.digest import digest, digest_ahead
from cython.cimports.engine.kernels.predicates import has_delete_horizon, is_legacy

_LOW = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_BLOCK = cython.declare(cython.Py_ssize_t, 32)  # records whose slots are fetched from memory side by side
_PROBES = cython.declare(cython.Py_ssize_t, 4)  # places that the digest itself names; behind them the next slots


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _slot_count(slots: cython.const[cython.ulonglong][::1]) -> cython.Py_ssize_t:
    """How many slots the map has; 0: none, or more than 32 bits of a digest can tell apart."""
    count: cython.Py_ssize_t = slots.shape[0] // tables.SLOT_WORDS
    return 0 if count >> 32 else count


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _slot(slots: cython.ulonglong[::1], count: cython.Py_ssize_t, one: cython.ulonglong,
          other: cython.ulonglong) -> cython.Py_ssize_t:
    """Where the digest is, or the empty slot where it may go: a place in `slots`; −1: neither, every slot is taken."""
    probe: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t = 0
    place: cython.ulonglong
    slot_count: cython.ulonglong = count
    while probe < count + _PROBES:
        if probe < _PROBES:
            place = one if probe < 2 else other
            place = place & _LOW if probe & 1 == 0 else place >> 32
            at = (place * slot_count) >> 32
        else:
            at = at + 1 if at + 1 < count else 0
        if slots[at * tables.SLOT_WORDS] == one and slots[at * tables.SLOT_WORDS + 1] == other: return at * tables.SLOT_WORDS
        if slots[at * tables.SLOT_WORDS] == 0 and slots[at * tables.SLOT_WORDS + 1] == 0: return at * tables.SLOT_WORDS
        probe += 1
    return -1


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.int))
def put_keys(data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1], first: cython.Py_ssize_t,
             end: cython.Py_ssize_t, start_offset: cython.longlong, skipped: cython.const[cython.uchar][::1],
             slots: cython.ulonglong[::1], secret_0: cython.ulonglong, secret_1: cython.ulonglong,
             state: cython.longlong[::1]):
    """Remember the offset of every key of the records first … end − 1 → (record where it stopped, status).

    data          the bytes that key positions count in
    start_offset  not negative; records below it are passed over, and so are those without a key
    skipped       by batch: not 0 passes over all its records
    slots         the map, SLOT_WORDS words a slot, zeros at first
    state         see tables.MapState; CAPACITY is at most the slots
    status        END · FULL: the map holds CAPACITY entries and there is one more record to put · BAD_START (arguments
                  that do not fit each other)
    """
    with cython.nogil:
        return put_rows(data, records, first, end, start_offset, skipped, slots, secret_0, secret_1, state)


def put_rows(data, records, first, end, start_offset, skipped, slots, secret_0, secret_1, state):  # typed in offset_map.pxd
    """See `put_keys`."""
    count: cython.Py_ssize_t = _slot_count(slots)
    index: cython.Py_ssize_t
    at: cython.Py_ssize_t
    one: cython.ulonglong
    other: cython.ulonglong
    ones: cython.ulonglong[32]
    others: cython.ulonglong[32]
    if first < 0 or end > records.shape[1] or state.shape[0] < tables.MAP_FIELDS: return first, fields.BAD_START
    if records.shape[0] < fields.R_FIELDS or state[tables.MAP_CAPACITY] > count: return first, fields.BAD_START
    if count == 0 or start_offset < 0: return first, fields.BAD_START
    for index in range(first, end):
        if (index - first) % _BLOCK == 0 and not digest_ahead(
                data, records, index, min(end, index + _BLOCK), skipped, secret_0, secret_1, slots, count, ones,
                others):
            return index, fields.BAD_START
        if records[fields.R_KEY_SIZE, index] < 0 or records[fields.R_OFFSET, index] < start_offset: continue
        if skipped[records[fields.R_BATCH, index]]: continue
        if state[tables.MAP_ENTRIES] >= state[tables.MAP_CAPACITY]: return index, fields.FULL
        one = ones[(index - first) % _BLOCK]
        other = others[(index - first) % _BLOCK]
        at = _slot(slots, count, one, other)
        if at < 0: return index, fields.FULL
        if slots[at] == 0 and slots[at + 1] == 0:
            slots[at] = one
            slots[at + 1] = other
            state[tables.MAP_ENTRIES] += 1
        slots[at + 2] = records[fields.R_OFFSET, index]
        state[tables.MAP_LATEST] = records[fields.R_OFFSET, index]
    return end, fields.END


@cython.ccall
@cython.exceptval(check=False)
def move_entries(old: cython.const[cython.ulonglong][::1], slots: cython.ulonglong[::1]) -> cython.Py_ssize_t:
    """Put every entry of the map `old` into the larger, empty map `slots` → how many there are; −1: they do not fit."""
    count: cython.Py_ssize_t = _slot_count(slots)
    number: cython.Py_ssize_t
    index: cython.Py_ssize_t
    at: cython.Py_ssize_t
    moved: cython.Py_ssize_t = 0
    if count == 0: return -1
    with cython.nogil:
        for number in range(old.shape[0] // tables.SLOT_WORDS):
            index = number * tables.SLOT_WORDS
            if old[index] == 0 and old[index + 1] == 0: continue
            at = _slot(slots, count, old[index], old[index + 1])
            if at < 0: return -1
            slots[at] = old[index]
            slots[at + 1] = old[index + 1]
            slots[at + 2] = old[index + 2]
            moved += 1
        return moved


@cython.ccall
@cython.exceptval(check=False)
def find_key(data: cython.const[cython.uchar][::1], slots: cython.ulonglong[::1], secret_0: cython.ulonglong,
             secret_1: cython.ulonglong) -> cython.longlong:
    """The offset that was put last for the key `data`; −1: none was."""
    one: cython.ulonglong
    other: cython.ulonglong
    at: cython.Py_ssize_t
    count: cython.Py_ssize_t = _slot_count(slots)
    if count == 0: return -1
    one, other = digest(data, secret_0, secret_1)
    at = _slot(slots, count, one, other)
    if at < 0 or (slots[at] == 0 and slots[at + 1] == 0): return -1
    return slots[at + 2]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _signed(value: cython.ulonglong) -> cython.longlong:
    """An offset as it was put. Offsets are not negative."""
    return value


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_superseded(slots: cython.ulonglong[::1], count: cython.Py_ssize_t, one: cython.ulonglong, other: cython.ulonglong,
                   offset: cython.longlong) -> cython.bint:
    """Does the map know a later record of the key with this digest?"""
    at: cython.Py_ssize_t = _slot(slots, count, one, other)
    return at >= 0 and (slots[at] != 0 or slots[at + 1] != 0) and offset < _signed(slots[at + 2])


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _tombstone_stays(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, now: cython.longlong,
                     retain_legacy_deletes: cython.bint) -> cython.bint:
    """May a tombstone of this batch, the last record of its key, not go yet?"""
    if is_legacy(batches, row): return retain_legacy_deletes
    return not has_delete_horizon(batches, row) or now < batches[fields.B_BASE_TIMESTAMP, row]


@cython.ccall
@cython.exceptval(check=False)
def mark_retained(data: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1],
                  records: cython.longlong[:, ::1], first: cython.Py_ssize_t, end: cython.Py_ssize_t,
                  verdicts: cython.const[cython.uchar][::1], slots: cython.ulonglong[::1],
                  secret_0: cython.ulonglong, secret_1: cython.ulonglong, latest_offset: cython.longlong,
                  now: cython.longlong, retain_legacy_deletes: cython.bint, survivors: cython.const[cython.ulonglong][::1],
                  survivors_start: cython.longlong, keep: cython.uchar[::1],
                  counts: cython.longlong[:, ::1]) -> cython.int:
    """Write 1 into keep[index − first] for each of the records first … end − 1 that compaction keeps, else 0 → status.

    verdicts    by batch, see tables.Verdict; ASK_SURVIVORS: `survivors`. What is SUPERSEDED is not read
    latest_offset  records above it stay     now  ms; a tombstone goes when the delete horizon of its batch is reached
    retain_legacy_deletes  whether tombstones of formats 0 and 1 stay
    survivors   a bit for each offset from `survivors_start` on (see survivors.note_survivors)
    counts      by batch, see tables.Count: added to
    status      END · BAD_START (arguments that do not fit each other)
    Mirrors Cleaner.shouldRetainRecord.
    """
    count: cython.Py_ssize_t = _slot_count(slots)
    index: cython.Py_ssize_t
    at: cython.Py_ssize_t
    row: cython.Py_ssize_t
    stays: cython.bint
    ones: cython.ulonglong[32]
    others: cython.ulonglong[32]
    if first < 0 or end > records.shape[1] or end - first > keep.shape[0]: return fields.BAD_START
    if records.shape[0] < fields.R_FIELDS or counts.shape[0] < tables.COUNTS: return fields.BAD_START
    if count == 0: return fields.BAD_START
    with cython.nogil:
        for index in range(first, end):
            if (index - first) % _BLOCK == 0 and not digest_ahead(
                    data, records, index, min(end, index + _BLOCK), verdicts, secret_0, secret_1, slots, count, ones,
                    others):
                return fields.BAD_START
            row = records[fields.R_BATCH, index]
            if row < 0 or row >= verdicts.shape[0] or row >= counts.shape[1] or row >= batches.shape[1]: return fields.BAD_START
            counts[tables.C_READ, row] += 1
            if verdicts[row] == tables.KEEP_NONE:
                stays = False
            elif verdicts[row] == tables.KEEP_ALL or records[fields.R_OFFSET, index] > latest_offset:
                stays = True
            elif records[fields.R_KEY_SIZE, index] < 0:
                stays = False
                counts[tables.C_WITHOUT_KEY, row] += 1
            else:
                if verdicts[row] == tables.ASK_SURVIVORS:
                    at = records[fields.R_OFFSET, index] - survivors_start
                    if at < 0 or at >> 6 >= survivors.shape[0]: return fields.BAD_START
                    stays = (survivors[at >> 6] >> (at & 63)) & 1
                else:
                    stays = not _is_superseded(slots, count, ones[(index - first) % _BLOCK], others[(index - first) % _BLOCK],
                                               records[fields.R_OFFSET, index])
                if stays and records[fields.R_VALUE_SIZE, index] < 0:
                    stays = _tombstone_stays(batches, row, now, retain_legacy_deletes)
                    if not stays: counts[tables.C_EXPIRED, row] += 1
            keep[index - first] = stays
            if stays:
                counts[tables.C_KEPT, row] += 1
                if records[fields.R_VALUE_SIZE, index] < 0: counts[tables.C_TOMBSTONES, row] += 1
        return fields.END
