# cython: language_level=3, boundscheck=False, wraparound=False
"""A hash map from keys to last offsets, and which records compaction keeps by it: the last ones of their keys, tombstones.

The map takes 24 bytes per key, with a keyed digest of 128 bits instead of the key.

Open addressing in one buffer, by the two halves of the digest. The digest is SipHash-1-3: collisions do not occur in practice,
and cannot be constructed without the secret. When the map is complete, a bitmap of the surviving offsets tells which batches
need not be read again. Mirrors SkimpyOffsetMap.
"""

import cython
from cython.cimports.engine.kernels import fields, tables
from cython.cimports.engine.kernels.decoded import Decoded
from cython.cimports.engine.kernels.predicates import has_delete_horizon, is_legacy, is_transactional_or_control

LONGEST = 1 << 16  # most offsets of a batch that are searched for a survivor, so that the work is bounded by the input

_LONGEST = cython.declare(cython.longlong, LONGEST)
_LOW = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_BLOCK = cython.declare(cython.Py_ssize_t, 32)  # records whose slots are prefetched together
_PROBES = cython.declare(cython.Py_ssize_t, 4)  # probes at slots from the digest; then the following slots are probed
_INIT_0 = cython.declare(cython.ulonglong, 0x736F6D6570736575)
_INIT_1 = cython.declare(cython.ulonglong, 0x646F72616E646F6D)
_INIT_2 = cython.declare(cython.ulonglong, 0x6C7967656E657261)
_INIT_3 = cython.declare(cython.ulonglong, 0x7465646279746573)


@cython.final
@cython.cclass
class OffsetMap:  # declared in offset_map.pxd
    """A map.

    slots   SLOT_WORDS words per slot, initially zeros        secret_0, secret_1  the random key of the digest
    state   see tables.MapState; CAPACITY is at most the number of slots
    """

    def __init__(self, slots: cython.ulonglong[::1], secret_0: cython.ulonglong, secret_1: cython.ulonglong,
                  state: cython.longlong[::1]):
        self.slots, self.secret_0, self.secret_1, self.state = slots, secret_0, secret_1, state


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _slot_count(slots: cython.const[cython.ulonglong][::1]) -> cython.Py_ssize_t:
    """Return the number of slots; 0: none, or more than 32 bits of a digest can address."""
    count: cython.Py_ssize_t = slots.shape[0] // tables.SLOT_WORDS
    return 0 if count >> 32 else count


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _slot(slots: cython.ulonglong[::1], count: cython.Py_ssize_t, one: cython.ulonglong,
          other: cython.ulonglong) -> cython.Py_ssize_t:
    """Return the position in `slots` of the slot with the digest, else of an empty slot for it; −1: every slot is taken."""
    probe: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t = 0
    part: cython.ulonglong
    slot_count: cython.ulonglong = count
    while probe < count + _PROBES:
        if probe < _PROBES:
            part = one if probe < 2 else other
            part = part & _LOW if probe & 1 == 0 else part >> 32
            at = (part * slot_count) >> 32
        else:
            at = at + 1 if at + 1 < count else 0
        if slots[at * tables.SLOT_WORDS] == one and slots[at * tables.SLOT_WORDS + 1] == other: return at * tables.SLOT_WORDS
        if slots[at * tables.SLOT_WORDS] == 0 and slots[at * tables.SLOT_WORDS + 1] == 0: return at * tables.SLOT_WORDS
        probe += 1
    return -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.ulonglong, cython.ulonglong, cython.ulonglong, cython.ulonglong))
def _round(v0: cython.ulonglong, v1: cython.ulonglong, v2: cython.ulonglong, v3: cython.ulonglong):
    """One SipRound."""
    v0 += v1
    v1 = (v1 << 13) | (v1 >> 51)
    v1 ^= v0
    v0 = (v0 << 32) | (v0 >> 32)
    v2 += v3
    v3 = (v3 << 16) | (v3 >> 48)
    v3 ^= v2
    v0 += v3
    v3 = (v3 << 21) | (v3 >> 43)
    v3 ^= v0
    v2 += v1
    v1 = (v1 << 17) | (v1 >> 47)
    v1 ^= v2
    v2 = (v2 << 32) | (v2 >> 32)
    return v0, v1, v2, v3


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _word(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.ulonglong:
    """Read up to 8 bytes, little-endian."""
    value: cython.ulonglong = 0
    while size > 0:
        size -= 1
        value = (value << 8) | data[at + size]
    return value


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _eight(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.ulonglong:
    """Read 8 bytes, little-endian."""
    value: cython.ulonglong = data[at + 7]
    value = (value << 8) | data[at + 6]
    value = (value << 8) | data[at + 5]
    value = (value << 8) | data[at + 4]
    value = (value << 8) | data[at + 3]
    value = (value << 8) | data[at + 2]
    value = (value << 8) | data[at + 1]
    return (value << 8) | data[at]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.ulonglong, cython.ulonglong))
def _digest(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.Py_ssize_t,
             secret_0: cython.ulonglong, secret_1: cython.ulonglong):
    """Return the 128-bit digest of `size` bytes from `at` on, in two words; never both 0, which marks an empty slot."""
    v0: cython.ulonglong = _INIT_0 ^ secret_0
    v1: cython.ulonglong = _INIT_1 ^ secret_1 ^ 0xEE
    v2: cython.ulonglong = _INIT_2 ^ secret_0
    v3: cython.ulonglong = _INIT_3 ^ secret_1
    word: cython.ulonglong
    one: cython.ulonglong
    left: cython.Py_ssize_t = size
    step: cython.int
    while left >= 8:
        word = _eight(data, at)
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        at += 8
        left -= 8
    word = size & 255
    word = (word << 56) | _word(data, at, left)
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= 0xEE
    for step in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    one = v0 ^ v1 ^ v2 ^ v3
    v1 ^= 0xDD
    for step in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    word = v0 ^ v1 ^ v2 ^ v3
    return one | (one == 0 and word == 0), word


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _prefetch_slot(slots: cython.ulonglong[::1], count: cython.Py_ssize_t, one: cython.ulonglong) -> cython.void:
    """Prefetch the most likely slot of a digest, since the map is larger than the processor's caches."""
    slot_count: cython.ulonglong = count
    at: cython.ulonglong = ((one & _LOW) * slot_count >> 32) * tables.SLOT_WORDS
    prefetch(cython.address(slots[at]))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _digest_keys(known: OffsetMap, data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1],
                 first: cython.Py_ssize_t, end: cython.Py_ssize_t, answered: cython.const[cython.uchar][::1],
                 ones: cython.p_ulonglong, others: cython.p_ulonglong) -> cython.bint:
    """Compute the digests of the keys of the records first … end − 1 into ones[0:] and others[0:], which have room.

    answered      by batch: if not 0, the digests of its records are not needed (all verdicts except ASK)
    False: a key lies outside `data`, or a batch does not exist.
    """
    count: cython.Py_ssize_t = _slot_count(known.slots)
    index: cython.Py_ssize_t
    row: cython.Py_ssize_t
    key: cython.longlong
    size: cython.longlong
    for index in range(first, end):
        size = records[fields.R_KEY_SIZE, index]
        if size < 0: continue
        row = records[fields.R_BATCH, index]
        if row < 0 or row >= answered.shape[0]: return False
        if answered[row]: continue
        key = records[fields.R_KEY_POSITION, index]
        if key < 0 or size > data.shape[0] - key: return False
        ones[index - first], others[index - first] = _digest(data, key, size, known.secret_0, known.secret_1)
        _prefetch_slot(known.slots, count, ones[index - first])
    return True


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.int))
def put_keys(known: OffsetMap, data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1],
             first: cython.Py_ssize_t, end: cython.Py_ssize_t, start_offset: cython.longlong,
             skipped: cython.const[cython.uchar][::1]):
    """Put the keys of the records first … end − 1 with their offsets into the map → (record where it stopped, status).

    data          the bytes at the key positions
    start_offset  not negative; records below it are skipped, and records without a key
    skipped       by batch: if not 0, all its records are skipped
    status        END · FULL (the map has CAPACITY entries, and another record is left) · BAD_START (bad arguments)
    """
    with cython.nogil:
        return put_rows(known, data, records, first, end, start_offset, skipped)


def put_rows(known, data, records, first, end, start_offset, skipped):  # typed in offset_map.pxd
    """See `put_keys`."""
    slots: cython.ulonglong[::1] = known.slots
    state: cython.longlong[::1] = known.state
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
        if (index - first) % _BLOCK == 0 and not _digest_keys(
                known, data, records, index, min(end, index + _BLOCK), skipped, ones, others):
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
    """Copy all entries of the map `old` into the larger, empty map `slots` → their number; −1: they do not fit."""
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
def find_key(known: OffsetMap, data: cython.const[cython.uchar][::1]) -> cython.longlong:
    """Return the last offset that was put for the key `data`; −1: none."""
    slots: cython.ulonglong[::1] = known.slots
    one: cython.ulonglong
    other: cython.ulonglong
    at: cython.Py_ssize_t
    count: cython.Py_ssize_t = _slot_count(slots)
    if count == 0: return -1
    one, other = _digest(data, 0, data.shape[0], known.secret_0, known.secret_1)
    at = _slot(slots, count, one, other)
    if at < 0 or (slots[at] == 0 and slots[at + 1] == 0): return -1
    return slots[at + 2]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _signed(value: cython.ulonglong) -> cython.longlong:
    """Convert a stored offset, which is not negative, to a signed number."""
    return value


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_superseded(slots: cython.ulonglong[::1], count: cython.Py_ssize_t, one: cython.ulonglong, other: cython.ulonglong,
                   offset: cython.longlong) -> cython.bint:
    """Does the map have a later offset for the key with this digest?"""
    at: cython.Py_ssize_t = _slot(slots, count, one, other)
    return at >= 0 and (slots[at] != 0 or slots[at + 1] != 0) and offset < _signed(slots[at + 2])


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _tombstone_stays(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, now: cython.longlong,
                     retain_legacy_deletes: cython.bint) -> cython.bint:
    """Must a tombstone of this batch, the last record of its key, be kept for now?"""
    if is_legacy(batches, row): return retain_legacy_deletes
    return not has_delete_horizon(batches, row) or now < batches[fields.B_BASE_TIMESTAMP, row]


@cython.final
@cython.cclass
class Retention:
    """Which records are retained, besides the offsets in the map.

    latest_offset  records above it are kept
    now            ms; a tombstone is deleted if the delete horizon of its batch is reached
    retain_legacy_deletes  keep tombstones of formats 0 and 1
    survivors      a bit for each offset from `survivors_start` on (see `note_survivors`)
    """

    latest_offset: cython.longlong
    now: cython.longlong
    retain_legacy_deletes: cython.bint
    survivors: cython.const[cython.ulonglong][::1]
    survivors_start: cython.longlong

    def __init__(self, latest_offset: cython.longlong, now: cython.longlong, retain_legacy_deletes: cython.bint,
                  survivors: cython.const[cython.ulonglong][::1], survivors_start: cython.longlong):
        self.latest_offset, self.now, self.retain_legacy_deletes = latest_offset, now, retain_legacy_deletes
        self.survivors, self.survivors_start = survivors, survivors_start


@cython.ccall
@cython.exceptval(check=False)
def mark_retained(known: OffsetMap, decoded: Decoded, first: cython.Py_ssize_t, end: cython.Py_ssize_t, retention: Retention,
                  verdicts: cython.const[cython.uchar][::1], keep: cython.uchar[::1],
                  counts: cython.longlong[:, ::1]) -> cython.int:
    """Set keep[index − first] to 1 for each of the records first … end − 1 that compaction keeps, else to 0 → status.

    verdicts    by batch, see tables.Verdict; SUPERSEDED batches have no records here
    counts      by batch, see tables.Count: in and out
    status      END · BAD_START (bad arguments)
    Mirrors Cleaner.shouldRetainRecord.
    """
    slots: cython.ulonglong[::1] = known.slots
    batches: cython.longlong[:, ::1] = decoded.batches
    records: cython.longlong[:, ::1] = decoded.records
    survivors: cython.const[cython.ulonglong][::1] = retention.survivors
    latest_offset: cython.longlong = retention.latest_offset
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
            if (index - first) % _BLOCK == 0 and not _digest_keys(
                    known, decoded.data, records, index, min(end, index + _BLOCK), verdicts, ones, others):
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
                    at = records[fields.R_OFFSET, index] - retention.survivors_start
                    if at < 0 or at >> 6 >= survivors.shape[0]: return fields.BAD_START
                    stays = (survivors[at >> 6] >> (at & 63)) & 1
                else:
                    stays = not _is_superseded(slots, count, ones[(index - first) % _BLOCK], others[(index - first) % _BLOCK],
                                               records[fields.R_OFFSET, index])
                if stays and records[fields.R_VALUE_SIZE, index] < 0:
                    stays = _tombstone_stays(batches, row, retention.now, retention.retain_legacy_deletes)
                    if not stays: counts[tables.C_EXPIRED, row] += 1
            keep[index - first] = stays
            if stays:
                counts[tables.C_KEPT, row] += 1
                if records[fields.R_VALUE_SIZE, index] < 0: counts[tables.C_TOMBSTONES, row] += 1
        return fields.END


# ---- survivors


@cython.ccall
@cython.exceptval(check=False)
def note_survivors(slots: cython.const[cython.ulonglong][::1], start: cython.longlong,
                   survivors: cython.ulonglong[::1]) -> cython.bint:
    """Set the bit of every offset in the map `slots`; bit 0 is offset `start`. False: an offset lies outside."""
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
def judge_batches(batches: cython.longlong[:, ::1], rows: cython.Py_ssize_t, verdicts: cython.uchar[::1],
                  survivors: cython.const[cython.ulonglong][::1], start: cython.longlong, latest: cython.longlong,
                  alike: cython.bint) -> cython.bint:
    """Replace verdict ASK by ASK_SURVIVORS or SUPERSEDED for batches whose keys were all put into the map.

    start, latest  offsets: only batches that lie completely between them
    alike          also transactional batches: both passes have the same information about their transactions
    False: bad arguments.
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
