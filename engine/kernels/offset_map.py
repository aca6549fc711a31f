# cython: language_level=3, boundscheck=False, wraparound=False
"""Key → last offset in fixed memory, for the cleaner: 24 bytes a key, a keyed digest of 128 bits instead of the key.

Open addressing over a plain buffer, by the two halves of the digest. Mirrors SkimpyOffsetMap.
"""

import cython

from engine.formats import DELETE_HORIZON_FLAG, BatchField, RecordField, Status
from engine.kernels.digest import SLOT_WORDS

if cython.compiled:
    from cython.cimports.engine.kernels.digest import digest, digest_ahead
else:
    from engine.kernels.digest import digest, digest_ahead

_WORDS = cython.declare(cython.Py_ssize_t, SLOT_WORDS)
_END = cython.declare(cython.int, Status.END)
_FULL = cython.declare(cython.int, Status.FULL)
_BAD_START = cython.declare(cython.int, Status.BAD_START)

_MAGIC = cython.declare(cython.int, BatchField.MAGIC)
_ATTRIBUTES = cython.declare(cython.int, BatchField.ATTRIBUTES)
_BASE_TIMESTAMP = cython.declare(cython.int, BatchField.BASE_TIMESTAMP)

_BATCH = cython.declare(cython.int, RecordField.BATCH)
_OFFSET = cython.declare(cython.int, RecordField.OFFSET)
_KEY_SIZE = cython.declare(cython.int, RecordField.KEY_SIZE)
_VALUE_SIZE = cython.declare(cython.int, RecordField.VALUE_SIZE)

_HORIZON_FLAG = cython.declare(cython.longlong, DELETE_HORIZON_FLAG)

# verdicts on the records of a batch: ask the map · all stay · none stays · ask the survivors · none is a key's last
ASK, KEEP_ALL, KEEP_NONE, ASK_SURVIVORS, SUPERSEDED = range(5)
_KEEP_ALL = cython.declare(cython.int, KEEP_ALL)
_KEEP_NONE = cython.declare(cython.int, KEEP_NONE)
_ASK_SURVIVORS = cython.declare(cython.int, ASK_SURVIVORS)

# what `mark_retained` counts for each batch
READ, KEPT, TOMBSTONES, WITHOUT_KEY, EXPIRED = range(5)
COUNTS = 5
_READ = cython.declare(cython.int, READ)
_KEPT = cython.declare(cython.int, KEPT)
_TOMBSTONES = cython.declare(cython.int, TOMBSTONES)
_WITHOUT_KEY = cython.declare(cython.int, WITHOUT_KEY)
_EXPIRED = cython.declare(cython.int, EXPIRED)
_COUNTS = cython.declare(cython.Py_ssize_t, COUNTS)

# where `put_keys` keeps what it must know from call to call
ENTRIES, CAPACITY, LATEST = range(3)
_ENTRIES = cython.declare(cython.int, ENTRIES)
_CAPACITY = cython.declare(cython.int, CAPACITY)
_LATEST = cython.declare(cython.int, LATEST)

_LOW = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_BLOCK = cython.declare(cython.Py_ssize_t, 32)  # records whose slots are fetched from memory side by side
_PROBES = cython.declare(cython.Py_ssize_t, 4)  # places that the digest itself names; behind them the next slots


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
        if slots[at * _WORDS] == one and slots[at * _WORDS + 1] == other: return at * _WORDS
        if slots[at * _WORDS] == 0 and slots[at * _WORDS + 1] == 0: return at * _WORDS
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
    state         ENTRIES in the map · CAPACITY of it, at most the slots · LATEST offset that was put, untouched if none is
    status        END · FULL: the map holds CAPACITY entries and there is one more record to put · BAD_START (arguments
                  that do not fit each other)
    """
    count: cython.Py_ssize_t = slots.shape[0] // _WORDS
    index: cython.Py_ssize_t
    at: cython.Py_ssize_t
    one: cython.ulonglong
    other: cython.ulonglong
    ones: cython.ulonglong[32]
    others: cython.ulonglong[32]
    if first < 0 or end > records.shape[1] or state.shape[0] < 3 or state[_CAPACITY] > count: return first, _BAD_START
    if count > 0xFFFFFFFF or start_offset < 0: return first, _BAD_START
    if not cython.compiled:
        ones, others = [0] * _BLOCK, [0] * _BLOCK
    with cython.nogil:
        for index in range(first, end):
            if (index - first) % _BLOCK == 0 and not digest_ahead(
                    data, records, index, min(end, index + _BLOCK), skipped, secret_0, secret_1, slots, count, ones,
                    others):
                return index, _BAD_START
            if records[_KEY_SIZE, index] < 0 or records[_OFFSET, index] < start_offset: continue
            if skipped[records[_BATCH, index]]: continue
            if state[_ENTRIES] >= state[_CAPACITY]: return index, _FULL
            one = ones[(index - first) % _BLOCK]
            other = others[(index - first) % _BLOCK]
            at = _slot(slots, count, one, other)
            if at < 0: return index, _FULL
            if slots[at] == 0 and slots[at + 1] == 0:
                slots[at] = one
                slots[at + 1] = other
                state[_ENTRIES] += 1
            slots[at + 2] = records[_OFFSET, index]
            state[_LATEST] = records[_OFFSET, index]
        return end, _END


@cython.ccall
@cython.exceptval(check=False)
def move_entries(old: cython.const[cython.ulonglong][::1], slots: cython.ulonglong[::1]) -> cython.Py_ssize_t:
    """Put every entry of the map `old` into the larger, empty map `slots` → how many there are; −1: they do not fit."""
    count: cython.Py_ssize_t = slots.shape[0] // _WORDS
    number: cython.Py_ssize_t
    index: cython.Py_ssize_t
    at: cython.Py_ssize_t
    moved: cython.Py_ssize_t = 0
    if count > 0xFFFFFFFF: return -1
    with cython.nogil:
        for number in range(old.shape[0] // _WORDS):
            index = number * _WORDS
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
    one, other = digest(data, secret_0, secret_1)
    at = _slot(slots, slots.shape[0] // _WORDS, one, other)
    if at < 0 or (slots[at] == 0 and slots[at + 1] == 0): return -1
    return slots[at + 2]


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

    verdicts    by batch: ASK the map, KEEP_ALL, KEEP_NONE, or ASK_SURVIVORS, `survivors`; what is SUPERSEDED is not read
    latest_offset  records above it stay     now  ms; a tombstone goes when the delete horizon of its batch is reached
    retain_legacy_deletes  whether tombstones of formats 0 and 1 stay
    survivors   a bit for each offset from `survivors_start` on (see cleaning.note_survivors)
    counts      by field (READ, KEPT, TOMBSTONES kept, WITHOUT_KEY dropped, tombstones EXPIRED) and batch: added to
    status      END · BAD_START (arguments that do not fit each other)
    Mirrors Cleaner.shouldRetainRecord.
    """
    count: cython.Py_ssize_t = slots.shape[0] // _WORDS
    index: cython.Py_ssize_t
    at: cython.Py_ssize_t
    row: cython.Py_ssize_t
    stays: cython.bint
    one: cython.ulonglong
    other: cython.ulonglong
    ones: cython.ulonglong[32]
    others: cython.ulonglong[32]
    if first < 0 or end > records.shape[1] or end - first > keep.shape[0] or counts.shape[0] < _COUNTS: return _BAD_START
    if count == 0 or count > 0xFFFFFFFF: return _BAD_START
    if not cython.compiled:
        ones, others = [0] * _BLOCK, [0] * _BLOCK
    with cython.nogil:
        for index in range(first, end):
            if (index - first) % _BLOCK == 0 and not digest_ahead(
                    data, records, index, min(end, index + _BLOCK), verdicts, secret_0, secret_1, slots, count, ones,
                    others):
                return _BAD_START
            row = records[_BATCH, index]
            if row < 0 or row >= verdicts.shape[0] or row >= counts.shape[1] or row >= batches.shape[1]: return _BAD_START
            counts[_READ, row] += 1
            if verdicts[row] == _KEEP_NONE:
                stays = False
            elif verdicts[row] == _KEEP_ALL or records[_OFFSET, index] > latest_offset:
                stays = True
            elif records[_KEY_SIZE, index] < 0:
                stays = False
                counts[_WITHOUT_KEY, row] += 1
            else:
                if verdicts[row] == _ASK_SURVIVORS:
                    at = records[_OFFSET, index] - survivors_start
                    if at < 0 or at >> 6 >= survivors.shape[0]: return _BAD_START
                    stays = (survivors[at >> 6] >> (at & 63)) & 1
                else:
                    at = _slot(slots, count, ones[(index - first) % _BLOCK], others[(index - first) % _BLOCK])
                    stays = at < 0 or (slots[at] == 0 and slots[at + 1] == 0)
                    if not stays: stays = records[_OFFSET, index] >= _signed(slots[at + 2])
                if stays and records[_VALUE_SIZE, index] < 0:
                    if batches[_MAGIC, row] < 2:
                        stays = retain_legacy_deletes
                    elif batches[_ATTRIBUTES, row] & _HORIZON_FLAG:
                        stays = now < batches[_BASE_TIMESTAMP, row]
                    if not stays: counts[_EXPIRED, row] += 1
            keep[index - first] = stays
            if stays:
                counts[_KEPT, row] += 1
                if records[_VALUE_SIZE, index] < 0: counts[_TOMBSTONES, row] += 1
        return _END


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _signed(value: cython.ulonglong) -> cython.longlong:
    """An offset as it was put. Offsets are not negative."""
    return value


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t))
def take_entries(slots: cython.const[cython.ulonglong][::1], first: cython.Py_ssize_t, ones: cython.ulonglong[::1],
                 others: cython.ulonglong[::1], offsets: cython.ulonglong[::1]):
    """Write the entries of the map from slot `first` on into columns, as far as they fit → (next slot, how many)."""
    end: cython.Py_ssize_t = slots.shape[0] // _WORDS
    room: cython.Py_ssize_t = min(ones.shape[0], others.shape[0], offsets.shape[0])
    count: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t
    if first < 0: return end, 0
    with cython.nogil:
        while first < end and count < room:
            at = first * _WORDS
            first += 1
            if slots[at] == 0 and slots[at + 1] == 0: continue
            ones[count] = slots[at]
            others[count] = slots[at + 1]
            offsets[count] = slots[at + 2]
            count += 1
        return first, count
