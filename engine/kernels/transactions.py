# cython: language_level=3, boundscheck=False, wraparound=False
"""Decide for each batch of a cleaner's walk whether its data are aborted, or its marker is no longer needed.

Small transactions can be as many as batches, so a call handles a whole window. Mirrors CleanedTransactionMetadata.
"""

import cython
from cython.cimports.engine.kernels import fields, tables
from cython.cimports.engine.kernels.numbers import i16, varint, varlong
from cython.cimports.engine.kernels.predicates import (
    is_compressed,
    is_control,
    is_legacy,
    is_transactional_or_control,
)

_MIX = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)
_ALL_BITS = cython.declare(cython.ulonglong, 2**64 - 1)
_KEY_SIZE = cython.declare(cython.Py_ssize_t, 4)  # version and type of a control record


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _slot(slots: cython.longlong[::1], producer_id: cython.longlong) -> cython.Py_ssize_t:
    """Return the position of the producer in the table, or a free one for it; at least half of the table is free."""
    count: cython.Py_ssize_t = slots.shape[0] // tables.TXN_WORDS
    mixed: cython.ulonglong = producer_id & _ALL_BITS
    at: cython.Py_ssize_t
    mixed = (mixed * _MIX) & _ALL_BITS
    at = (mixed >> 32) % count
    while slots[at * tables.TXN_WORDS + 1] != 0 and slots[at * tables.TXN_WORDS] != producer_id:
        at = at + 1 if at + 1 < count else 0
    return at * tables.TXN_WORDS


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _take(slots: cython.longlong[::1], state: cython.longlong[::1], at: cython.Py_ssize_t,
          producer_id: cython.longlong) -> cython.void:
    if slots[at + 1] == 0:
        slots[at] = producer_id
        slots[at + 1] = tables.TXN_TAKEN
        state[tables.TXN_PRODUCERS] += 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _has_room(slots: cython.longlong[::1], state: cython.longlong[::1]) -> cython.bint:
    return 2 * (state[tables.TXN_PRODUCERS] + 1) <= slots.shape[0] // tables.TXN_WORDS


@cython.final
@cython.cclass
class Transactions:
    """State of a walk over transactions; in and out.

    slots    TXN_WORDS words per producer, initially zeros; at most half of them are used
    state    see tables.TxnState
    firsts, owners  aborted transactions of the index, in order: first offset, producer id
    kept     out: numbers of aborted transactions whose data are still in the log
    """

    slots: cython.longlong[::1]
    state: cython.longlong[::1]
    firsts: cython.const[cython.longlong][::1]
    owners: cython.const[cython.longlong][::1]
    kept: cython.longlong[::1]

    def __init__(self, slots: cython.longlong[::1], state: cython.longlong[::1],
                  firsts: cython.const[cython.longlong][::1], owners: cython.const[cython.longlong][::1],
                  kept: cython.longlong[::1]):
        self.slots, self.state, self.firsts, self.owners, self.kept = slots, state, firsts, owners, kept


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _decide(known: Transactions, producer_id: cython.longlong, last_offset: cython.longlong,
            kind: cython.longlong) -> cython.int:
    """Do the work of `decide`, with checked arguments."""
    slots: cython.longlong[::1] = known.slots
    state: cython.longlong[::1] = known.state
    firsts: cython.const[cython.longlong][::1] = known.firsts
    owners: cython.const[cython.longlong][::1] = known.owners
    kept: cython.longlong[::1] = known.kept
    at: cython.Py_ssize_t
    number: cython.longlong
    flags: cython.longlong
    while state[tables.TXN_NEXT] < firsts.shape[0] and firsts[state[tables.TXN_NEXT]] <= last_offset:
        if not _has_room(slots, state): return -1
        number = state[tables.TXN_NEXT]
        at = _slot(slots, owners[number])
        _take(slots, state, at, owners[number])
        if not slots[at + 1] & tables.TXN_ABORTED:
            slots[at + 1] |= tables.TXN_ABORTED
            slots[at + 2] = number
        state[tables.TXN_NEXT] += 1
    if not _has_room(slots, state) or state[tables.TXN_KEPT] >= kept.shape[0]: return -1
    if kind == tables.TXN_EMPTY: return 1
    if kind == tables.TXN_OTHER: return 0
    at = _slot(slots, producer_id)
    flags = slots[at + 1]
    if kind == tables.TXN_DATA:
        if flags & tables.TXN_ABORTED:
            slots[at + 1] |= tables.TXN_OBSERVED
            return 1
        _take(slots, state, at, producer_id)
        if last_offset >= state[tables.TXN_FROM]: slots[at + 1] |= tables.TXN_COMMITTED
        return 0
    if kind == tables.TXN_COMMIT:
        if not flags & tables.TXN_COMMITTED: return 1
        slots[at + 1] = flags & ~tables.TXN_COMMITTED
        return 0
    if not flags & tables.TXN_ABORTED:
        if flags & tables.TXN_COMMITTED: state[tables.TXN_UNREPORTED_ABORT] = last_offset + 1
        return 1
    slots[at + 1] = flags & ~(tables.TXN_ABORTED | tables.TXN_OBSERVED)
    if not flags & tables.TXN_OBSERVED: return 1
    kept[state[tables.TXN_KEPT]] = slots[at + 2]
    state[tables.TXN_KEPT] += 1
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_valid(known: Transactions) -> cython.bint:
    """Do the table, the state and the columns have valid shapes and counts?"""
    return (known.slots.shape[0] >= 4 * tables.TXN_WORDS and known.state.shape[0] >= tables.TXN_FIELDS
            and known.firsts.shape[0] == known.owners.shape[0] and known.state[tables.TXN_NEXT] >= 0
            and known.state[tables.TXN_KEPT] >= 0
            and 2 * known.state[tables.TXN_PRODUCERS] <= known.slots.shape[0] // tables.TXN_WORDS)


@cython.ccall
@cython.exceptval(check=False)
def decide(known: Transactions, producer_id: cython.longlong, last_offset: cython.longlong,
           kind: cython.longlong) -> cython.int:
    """Decide whether the next transactional or control batch may be deleted → 1 yes, 0 no, −1 no room (nothing changed),
    −2 bad arguments.

    kind  see tables.TxnBatch
    """
    if not _is_valid(known): return -2
    return _decide(known, producer_id, last_offset, kind)


@cython.ccall
@cython.exceptval(check=False)
def move_producers(old: cython.const[cython.longlong][::1], slots: cython.longlong[::1]) -> cython.longlong:
    """Copy the producers with an open transaction from the table `old` into the empty `slots` → their number; −1: `slots` is
    smaller than `old`.
    """
    number: cython.Py_ssize_t
    at: cython.Py_ssize_t
    moved: cython.longlong = 0
    if slots.shape[0] < old.shape[0] or slots.shape[0] < tables.TXN_WORDS: return -1
    with cython.nogil:
        for number in range(old.shape[0] // tables.TXN_WORDS):
            if old[number * tables.TXN_WORDS + 1] & (tables.TXN_COMMITTED | tables.TXN_ABORTED) == 0: continue
            at = _slot(slots, old[number * tables.TXN_WORDS])
            slots[at] = old[number * tables.TXN_WORDS]
            slots[at + 1] = old[number * tables.TXN_WORDS + 1]
            slots[at + 2] = old[number * tables.TXN_WORDS + 2]
            moved += 1
        return moved


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.Py_ssize_t))
def pack_producers(slots: cython.const[cython.longlong][::1], packed: cython.longlong[::1], numbers: cython.longlong[::1]):
    """Write the producers of a table with an open transaction in sequence → (producers, aborted transactions); (−1, −1): no
    room.

    packed   out: TXN_WORDS words each; their aborted transactions are numbered 0, 1, 2 …
    numbers  out: the previous numbers of these transactions
    """
    number: cython.Py_ssize_t
    at: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    aborted: cython.Py_ssize_t = 0
    with cython.nogil:
        for number in range(slots.shape[0] // tables.TXN_WORDS):
            at = number * tables.TXN_WORDS
            if slots[at + 1] & (tables.TXN_COMMITTED | tables.TXN_ABORTED) == 0: continue
            if packed.shape[0] - count * tables.TXN_WORDS < tables.TXN_WORDS or aborted >= numbers.shape[0]: return -1, -1
            packed[count * tables.TXN_WORDS] = slots[at]
            packed[count * tables.TXN_WORDS + 1] = slots[at + 1]
            packed[count * tables.TXN_WORDS + 2] = aborted
            if slots[at + 1] & tables.TXN_ABORTED:
                numbers[aborted] = slots[at + 2]
                aborted += 1
            count += 1
        return count, aborted


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.int))
def decide_rows(data: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1], row: cython.Py_ssize_t,
                rows: cython.Py_ssize_t, known: Transactions, removable: cython.uchar[::1]):
    """Call `decide` for each transactional or control batch of row … rows − 1 → (where it stopped, status).

    data    the window        removable  out, by batch: 1 if it may be deleted; unchanged for other batches
    status  END · BAD_RECORD (a control batch with an unusual marker: the caller decides it and continues after it) · FULL (no
            room) · BAD_START (bad arguments)
    """
    kind: cython.longlong
    answer: cython.int
    if row < 0 or rows > batches.shape[1] or rows > removable.shape[0] or not _is_valid(known):
        return row, fields.BAD_START
    while row < rows:
        if not is_legacy(batches, row) and is_transactional_or_control(batches, row):
            kind = tables.TXN_DATA
            if is_control(batches, row):
                kind = _marker(data, batches, row)
                if kind < 0: return row, fields.BAD_RECORD
            answer = _decide(known, batches[fields.B_PRODUCER_ID, row], batches[fields.B_LAST_OFFSET, row], kind)
            if answer < 0: return row, fields.FULL
            removable[row] = answer
        row += 1
    return row, fields.END


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _marker(data: cython.const[cython.uchar][::1], batches: cython.longlong[:, ::1],
            row: cython.Py_ssize_t) -> cython.longlong:
    """Return the TxnBatch of a control batch that is a valid marker with one uncompressed record; −1: another one."""
    at: cython.Py_ssize_t = batches[fields.B_POSITION, row]
    end: cython.Py_ssize_t
    size: cython.longlong = batches[fields.B_SIZE, row]
    kind: cython.longlong
    if batches[fields.B_COUNT, row] != 1 or is_compressed(batches, row): return -1
    if at < 0 or size < fields.V2_SIZE or size > data.shape[0] - at: return -1
    end = at + size
    size, at = varint(data, at + fields.V2_SIZE, end)
    if at < 0 or size < 1 or size != end - at: return -1
    size, at = varlong(data, at + 1, end)
    size, at = varint(data, at, end)
    if at < 0: return -1
    size, at = varint(data, at, end)
    if at < 0 or size != _KEY_SIZE or size > end - at or i16(data, at) < 0: return -1
    kind = i16(data, at + 2)
    if kind != fields.ABORT and kind != fields.COMMIT: return -1
    size, at = varint(data, at + _KEY_SIZE, end)
    if at < 0 or size < 0 or size > end - at: return -1
    size, at = varint(data, at + size, end)
    if at != end or size != 0: return -1
    return tables.TXN_COMMIT if kind == fields.COMMIT else tables.TXN_ABORT


@cython.ccall
@cython.exceptval(check=False)
def next_in_transaction(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t,
                        rows: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the first batch from `row` on that is transactional or a control batch; `rows`: none."""
    if row < 0 or rows > batches.shape[1]: return rows
    while row < rows and (is_legacy(batches, row) or not is_transactional_or_control(batches, row)):
        row += 1
    return row
