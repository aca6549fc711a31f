# cython: language_level=3, boundscheck=False, wraparound=False
"""The producers of a partition as a table without an object per producer: apply batches and markers, load and write snapshots.

An entry has the same 46 bytes as in a snapshot (formats.ProducerSnapshotEntry); entries are in the order in which producers
were added. They are found by hash chains: `heads` has the first entry of each chain, `links` the next entry of each entry, both
as number + 1, 0: none. Open transactions are two columns, ascending first offsets and producers; `bounds` is the range in use.
Mirrors ProducerStateEntry and ProducerStateManager, and java.util.HashMap for the order of snapshots.
"""

import cython
from cython.cimports.engine.kernels import fields, tables, walk
from cython.cimports.engine.kernels.numbers import copy_bytes, i16, i32, i64, put_int, wrapped_difference, wrapped_sum
from cython.cimports.engine.kernels.predicates import has_producer, is_control, is_transactional
from cython.cimports.engine.kernels.words import advance

_ALL = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_LOW = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_INTS = cython.declare(cython.longlong, 2**32)
_SPREAD = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)  # multiplier that spreads consecutive ids
_SMALLEST_WITH_TREES = cython.declare(cython.longlong, 64)
_LONGEST_CHAIN = cython.declare(cython.longlong, 8)


@cython.final
@cython.cclass
class Producers:
    """A table of producers, see the module. `state`: see tables.TableState."""

    entries: cython.uchar[::1]
    heads: cython.int[::1]
    links: cython.int[::1]
    state: cython.longlong[::1]

    def __init__(self, entries: cython.uchar[::1], heads: cython.int[::1], links: cython.int[::1],
                  state: cython.longlong[::1]):
        self.entries, self.heads, self.links, self.state = entries, heads, links, state


@cython.final
@cython.cclass
class OpenTransactions:
    """Open transactions, see the module. `bounds`: see tables.Bound."""

    offsets: cython.longlong[::1]
    producers: cython.longlong[::1]
    bounds: cython.longlong[::1]

    def __init__(self, offsets: cython.longlong[::1], producers: cython.longlong[::1], bounds: cython.longlong[::1]):
        self.offsets, self.producers, self.bounds = offsets, producers, bounds


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _id_of(entries: cython.const[cython.uchar][::1], number: cython.Py_ssize_t) -> cython.longlong:
    """Return the producer id of an entry."""
    return i64(entries, number * fields.E_SIZE + fields.E_PRODUCER_ID_AT)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _chain(producer: cython.longlong, count: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the chain of a producer; `count`: number of chains, a power of two."""
    mixed: cython.ulonglong = producer & _ALL
    mixed = (mixed * _SPREAD) & _ALL
    return (mixed >> 32) & (count - 1)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _bucket(producer: cython.longlong, capacity: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the bucket of a producer in a HashMap<Long, …> with `capacity` buckets (Long.hashCode, then HashMap.hash)."""
    folded: cython.ulonglong = producer & _ALL
    folded = (folded ^ (folded >> 32)) & _LOW
    folded = folded ^ (folded >> 16)
    return folded & (capacity - 1)


@cython.ccall
@cython.nogil
@cython.exceptval(check=False)
def find_producer(entries: cython.uchar[::1], heads: cython.int[::1], links: cython.int[::1],
                  producer: cython.longlong) -> cython.Py_ssize_t:
    """Return the number of the producer's entry, −1: none."""
    at: cython.Py_ssize_t = heads[_chain(producer, heads.shape[0])]
    while at > 0:
        if _id_of(entries, at - 1) == producer: return at - 1
        at = links[at - 1]
    return -1


@cython.ccall
@cython.nogil
@cython.exceptval(check=False)
def add_producer(entries: cython.uchar[::1], heads: cython.int[::1], links: cython.int[::1], state: cython.longlong[::1],
                 producer: cython.longlong) -> cython.Py_ssize_t:
    """Add an empty entry for a new producer → its number, −1: no room."""
    number: cython.Py_ssize_t = state[tables.TABLE_COUNT]
    at: cython.Py_ssize_t = number * fields.E_SIZE
    chain: cython.Py_ssize_t = _chain(producer, heads.shape[0])
    other: cython.Py_ssize_t
    bucket: cython.Py_ssize_t
    in_bucket: cython.longlong = 1
    if number >= links.shape[0]: return -1
    put_int(entries, at + fields.E_PRODUCER_ID_AT, producer, 8)
    put_int(entries, at + fields.E_PRODUCER_EPOCH_AT, -1, 2)
    _forget_batches(entries, at)
    put_int(entries, at + fields.E_TIMESTAMP_AT, -1, 8)
    put_int(entries, at + fields.E_COORDINATOR_EPOCH_AT, -1, 4)
    put_int(entries, at + fields.E_CURRENT_TXN_FIRST_OFFSET_AT, -1, 8)
    links[number] = heads[chain]
    heads[chain] = number + 1
    state[tables.TABLE_COUNT] = number + 1
    if state[tables.TABLE_CAPACITY] < _SMALLEST_WITH_TREES:
        bucket = _bucket(producer, state[tables.TABLE_CAPACITY])
        for other in range(number):
            if _bucket(_id_of(entries, other), state[tables.TABLE_CAPACITY]) == bucket: in_bucket += 1
        if in_bucket > _LONGEST_CHAIN: state[tables.TABLE_CAPACITY] *= 2
    if state[tables.TABLE_COUNT] > state[tables.TABLE_CAPACITY] // 4 * 3: state[tables.TABLE_CAPACITY] *= 2
    return number


@cython.ccall
@cython.nogil
@cython.exceptval(check=False)
def link_chains(entries: cython.const[cython.uchar][::1], count: cython.Py_ssize_t, heads: cython.int[::1],
                links: cython.int[::1]) -> cython.void:
    """Link the first `count` entries into the chains of the empty `heads`; `links` has room for all of them."""
    number: cython.Py_ssize_t
    chain: cython.Py_ssize_t
    for number in range(count):
        chain = _chain(_id_of(entries, number), heads.shape[0])
        links[number] = heads[chain]
        heads[chain] = number + 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _forget_batches(entries: cython.uchar[::1], at: cython.Py_ssize_t) -> cython.void:
    """Clear the batch fields of the entry at byte `at`."""
    put_int(entries, at + fields.E_LAST_SEQUENCE_AT, -1, 4)
    put_int(entries, at + fields.E_LAST_OFFSET_AT, -1, 8)
    put_int(entries, at + fields.E_OFFSET_DELTA_AT, 0, 4)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _low_int(value: cython.longlong) -> cython.longlong:
    """Cast `value` to 32 bits, as Java does."""
    low: cython.longlong = value & _LOW
    return low - _INTS if low >= _INTS // 2 else low


# ---- open transactions


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _find_open(offsets: cython.longlong[::1], bounds: cython.longlong[::1], first: cython.longlong) -> cython.Py_ssize_t:
    """Return the index of the first transaction that begins at `first` or later."""
    low: cython.Py_ssize_t = bounds[tables.BOUND_FROM]
    high: cython.Py_ssize_t = bounds[tables.BOUND_TO]
    middle: cython.Py_ssize_t
    if low == high or offsets[high - 1] < first: return high
    if offsets[low] >= first: return low
    while low < high:
        middle = low + (high - low) // 2
        if offsets[middle] < first: low = middle + 1
        else: high = middle
    return low


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _move_to_front(offsets: cython.longlong[::1], producers: cython.longlong[::1],
                   bounds: cython.longlong[::1]) -> cython.void:
    """Move the open transactions to the first rows, if they occupy the last row and less than half of all rows."""
    count: cython.Py_ssize_t = bounds[tables.BOUND_TO] - bounds[tables.BOUND_FROM]
    start: cython.Py_ssize_t = bounds[tables.BOUND_FROM]
    at: cython.Py_ssize_t
    if bounds[tables.BOUND_TO] < offsets.shape[0] or count >= offsets.shape[0] // 2: return
    for at in range(count):
        offsets[at] = offsets[start + at]
        producers[at] = producers[start + at]
    bounds[tables.BOUND_FROM] = 0
    bounds[tables.BOUND_TO] = count


@cython.ccall
@cython.nogil
@cython.exceptval(check=False)
def open_transaction(offsets: cython.longlong[::1], producers: cython.longlong[::1], bounds: cython.longlong[::1],
                     first: cython.longlong, producer: cython.longlong) -> cython.int:
    """Add the transaction of `producer` at offset `first`, replacing one with the same offset → DONE, or NO_ROOM."""
    at: cython.Py_ssize_t = _find_open(offsets, bounds, first)
    index: cython.Py_ssize_t = bounds[tables.BOUND_TO]
    if index >= offsets.shape[0]: return tables.APPLIED_NO_ROOM
    if at == index or offsets[at] != first:
        while index > at:
            offsets[index] = offsets[index - 1]
            producers[index] = producers[index - 1]
            index -= 1
        offsets[at] = first
        bounds[tables.BOUND_TO] += 1
    producers[at] = producer
    return tables.APPLIED_DONE


@cython.ccall
@cython.nogil
@cython.exceptval(check=False)
def close_transaction(offsets: cython.longlong[::1], producers: cython.longlong[::1], bounds: cython.longlong[::1],
                      first: cython.longlong) -> cython.int:
    """Remove the transaction that begins at offset `first` → DONE, or REFUSED: not found."""
    at: cython.Py_ssize_t = _find_open(offsets, bounds, first)
    if at == bounds[tables.BOUND_TO] or offsets[at] != first: return tables.APPLIED_REFUSED
    if at - bounds[tables.BOUND_FROM] < bounds[tables.BOUND_TO] - at:  # move the shorter side; mostly the oldest ends first
        while at > bounds[tables.BOUND_FROM]:
            offsets[at] = offsets[at - 1]
            producers[at] = producers[at - 1]
            at -= 1
        bounds[tables.BOUND_FROM] += 1
    else:
        while at + 1 < bounds[tables.BOUND_TO]:
            offsets[at] = offsets[at + 1]
            producers[at] = producers[at + 1]
            at += 1
        bounds[tables.BOUND_TO] -= 1
    return tables.APPLIED_DONE


@cython.ccall
@cython.nogil
@cython.exceptval(check=False)
def first_of_others(producers: cython.longlong[::1], bounds: cython.longlong[::1],
                    producer: cython.longlong) -> cython.Py_ssize_t:
    """Return the index of the oldest transaction of another producer than `producer`, −1: none."""
    at: cython.Py_ssize_t = bounds[tables.BOUND_FROM]
    while at < bounds[tables.BOUND_TO]:
        if producers[at] != producer: return at
        at += 1
    return -1


# ---- batches


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _take_data(entries: cython.uchar[::1], at: cython.Py_ssize_t, first: cython.longlong, last: cython.longlong,
               epoch: cython.longlong, sequence: cython.longlong, timestamp: cython.longlong) -> cython.void:
    """Store a data batch as the last batch of the entry at byte `at`."""
    delta: cython.longlong = _low_int(wrapped_difference(last, first))
    if sequence != -1: sequence = advance(sequence, delta)
    put_int(entries, at + fields.E_PRODUCER_EPOCH_AT, epoch, 2)
    put_int(entries, at + fields.E_LAST_SEQUENCE_AT, sequence, 4)
    put_int(entries, at + fields.E_LAST_OFFSET_AT, last, 8)
    put_int(entries, at + fields.E_OFFSET_DELTA_AT, delta, 4)
    put_int(entries, at + fields.E_TIMESTAMP_AT, timestamp, 8)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _take_marker(seen: cython.const[cython.longlong][:, ::1], row: cython.Py_ssize_t, entries: cython.uchar[::1],
                 at: cython.Py_ssize_t) -> cython.void:
    """End the transaction of the entry at byte `at` with a marker."""
    if i16(entries, at + fields.E_PRODUCER_EPOCH_AT) != seen[walk.P_PRODUCER_EPOCH, row]:
        put_int(entries, at + fields.E_PRODUCER_EPOCH_AT, seen[walk.P_PRODUCER_EPOCH, row], 2)
        _forget_batches(entries, at)
    put_int(entries, at + fields.E_TIMESTAMP_AT, seen[walk.P_MARKER_TIMESTAMP, row], 8)
    put_int(entries, at + fields.E_COORDINATOR_EPOCH_AT, seen[walk.P_COORDINATOR_EPOCH, row], 4)
    put_int(entries, at + fields.E_CURRENT_TXN_FIRST_OFFSET_AT, -1, 8)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_ended(out: cython.uchar[::1], at: cython.Py_ssize_t, producer: cython.longlong, first: cython.longlong,
                last: cython.longlong, stable: cython.longlong) -> cython.Py_ssize_t:
    """Write an entry of a transaction index, version 0 → position after it."""
    at = put_int(out, at, 0, 2)
    at = put_int(out, at, producer, 8)
    at = put_int(out, at, first, 8)
    at = put_int(out, at, last, 8)
    return put_int(out, at, stable, 8)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_full(links: cython.int[::1], state: cython.longlong[::1], offsets: cython.longlong[::1],
             bounds: cython.longlong[::1]) -> cython.bint:
    """Is there no room for another producer or another open transaction?"""
    return state[tables.TABLE_COUNT] >= links.shape[0] or bounds[tables.BOUND_TO] >= offsets.shape[0]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _bad_arguments(table: Producers, ongoing: OpenTransactions) -> cython.bint:
    """Do the columns of a table and of open transactions have inconsistent shapes or counts?"""
    entries: cython.uchar[::1] = table.entries
    heads: cython.int[::1] = table.heads
    links: cython.int[::1] = table.links
    state: cython.longlong[::1] = table.state
    offsets: cython.longlong[::1] = ongoing.offsets
    producers: cython.longlong[::1] = ongoing.producers
    bounds: cython.longlong[::1] = ongoing.bounds
    if entries.shape[0] // fields.E_SIZE < links.shape[0] or state.shape[0] < 2 or bounds.shape[0] < 2: return True
    if heads.shape[0] < 1 or heads.shape[0] & (heads.shape[0] - 1) != 0: return True
    if not 0 <= state[tables.TABLE_COUNT] <= links.shape[0] or offsets.shape[0] != producers.shape[0]: return True
    return not 0 <= bounds[tables.BOUND_FROM] <= bounds[tables.BOUND_TO] <= offsets.shape[0]


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.int, cython.Py_ssize_t))
def apply_batches(seen: cython.const[cython.longlong][:, ::1], row: cython.Py_ssize_t, table: Producers,
                  ongoing: OpenTransactions, ended: cython.uchar[::1], reports_all: cython.bint):
    """Apply batches of the log, in order, without the checks of a leader → (first row not applied, status, bytes of `ended`).

    seen     as kernels.recovery reports them, from `row` on
    ended    out: entries of a transaction index for aborted transactions, or with `reports_all` for all that ended
    status   see tables.Applied. NO_ROOM: the table, the open transactions or `ended` are full · REFUSED: a non-transactional
             batch in a transaction, or the end of one that is not open; the batch changed nothing
    Mirrors LogSegment.updateProducerState.
    """
    entries: cython.uchar[::1] = table.entries
    heads: cython.int[::1] = table.heads
    links: cython.int[::1] = table.links
    state: cython.longlong[::1] = table.state
    offsets: cython.longlong[::1] = ongoing.offsets
    producers: cython.longlong[::1] = ongoing.producers
    bounds: cython.longlong[::1] = ongoing.bounds
    size: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t
    other: cython.Py_ssize_t
    producer: cython.longlong
    kind: cython.longlong
    first: cython.longlong
    stable: cython.longlong
    if row < 0 or seen.shape[0] < walk.PRODUCER_FIELDS: return row, tables.APPLIED_BAD_START, 0
    if _bad_arguments(table, ongoing): return row, tables.APPLIED_BAD_START, 0
    with cython.nogil:
        while row < seen.shape[1]:
            _move_to_front(offsets, producers, bounds)
            if _is_full(links, state, offsets, bounds): return row, tables.APPLIED_NO_ROOM, size
            if ended.shape[0] - size < fields.ABORTED_TXN_SIZE: return row, tables.APPLIED_NO_ROOM, size
            producer = seen[walk.P_PRODUCER_ID, row]
            kind = seen[walk.P_KIND, row]
            at = find_producer(entries, heads, links, producer)
            if at < 0: at = add_producer(entries, heads, links, state, producer)
            at *= fields.E_SIZE
            first = i64(entries, at + fields.E_CURRENT_TXN_FIRST_OFFSET_AT)
            if not kind & walk.K_CONTROL:
                if first != -1 and not kind & walk.K_TRANSACTIONAL: return row, tables.APPLIED_REFUSED, size
                _take_data(entries, at, seen[walk.P_BASE_OFFSET, row], seen[walk.P_LAST_OFFSET, row],
                           seen[walk.P_PRODUCER_EPOCH, row], seen[walk.P_BASE_SEQUENCE, row], seen[walk.P_MAX_TIMESTAMP, row])
                if first == -1 and kind & walk.K_TRANSACTIONAL:
                    put_int(entries, at + fields.E_CURRENT_TXN_FIRST_OFFSET_AT, seen[walk.P_BASE_OFFSET, row], 8)
                    open_transaction(offsets, producers, bounds, seen[walk.P_BASE_OFFSET, row], producer)
            elif kind & walk.K_HAS_MARKER:
                if first != -1:
                    other = first_of_others(producers, bounds, producer)
                    stable = wrapped_sum(seen[walk.P_BASE_OFFSET, row], 1)
                    if other >= 0: stable = offsets[other]
                    if close_transaction(offsets, producers, bounds, first) != tables.APPLIED_DONE:
                        return row, tables.APPLIED_REFUSED, size
                    if reports_all or seen[walk.P_MARKER, row] == fields.ABORT:
                        size = _put_ended(ended, size, producer, first, seen[walk.P_BASE_OFFSET, row], stable)
                _take_marker(seen, row, entries, at)
            row += 1
        return row, tables.APPLIED_DONE, size


@cython.ccall
@cython.nogil
@cython.exceptval(check=False)
def keep_batches(seen: cython.const[cython.longlong][:, ::1], entries: cython.uchar[::1], heads: cython.int[::1],
                 links: cython.int[::1], kept: cython.longlong[::1]) -> cython.void:
    """Keep the last batches of each producer with an entry, for its last epoch, which is updated in `entries`.

    seen  as in `apply_batches` · kept  in and out, KEPT_FIELDS numbers for each entry, see tables.Kept
    Mirrors ProducerStateEntry.addBatch.
    """
    row: cython.Py_ssize_t
    number: cython.Py_ssize_t
    at: cython.Py_ssize_t
    field: cython.Py_ssize_t
    delta: cython.longlong
    sequence: cython.longlong
    if seen.shape[0] < walk.PRODUCER_FIELDS or heads.shape[0] < 1: return
    for row in range(seen.shape[1]):
        number = find_producer(entries, heads, links, seen[walk.P_PRODUCER_ID, row])
        if number < 0 or kept.shape[0] // tables.KEPT_FIELDS <= number: continue
        if seen[walk.P_KIND, row] & walk.K_CONTROL and not seen[walk.P_KIND, row] & walk.K_HAS_MARKER: continue
        at = number * tables.KEPT_FIELDS
        if i16(entries, number * fields.E_SIZE + fields.E_PRODUCER_EPOCH_AT) != seen[walk.P_PRODUCER_EPOCH, row]:
            put_int(entries, number * fields.E_SIZE + fields.E_PRODUCER_EPOCH_AT, seen[walk.P_PRODUCER_EPOCH, row], 2)
            kept[at + tables.KEPT_COUNT] = 0
        if seen[walk.P_KIND, row] & walk.K_CONTROL: continue
        if not 0 <= kept[at + tables.KEPT_COUNT] <= tables.KEPT_BATCHES: return
        if kept[at + tables.KEPT_COUNT] == tables.KEPT_BATCHES:
            for field in range(at + 1, at + tables.KEPT_FIELDS - tables.KEPT_BATCH_FIELDS):
                kept[field] = kept[field + tables.KEPT_BATCH_FIELDS]
            kept[at + tables.KEPT_COUNT] -= 1
        delta = _low_int(wrapped_difference(seen[walk.P_LAST_OFFSET, row], seen[walk.P_BASE_OFFSET, row]))
        sequence = seen[walk.P_BASE_SEQUENCE, row]
        if sequence != -1: sequence = advance(sequence, delta)
        field = at + kept[at + tables.KEPT_COUNT] * tables.KEPT_BATCH_FIELDS
        kept[field + tables.KEPT_LAST_SEQ] = sequence
        kept[field + tables.KEPT_LAST_OFFSET] = seen[walk.P_LAST_OFFSET, row]
        kept[field + tables.KEPT_OFFSET_DELTA] = delta
        kept[field + tables.KEPT_TIMESTAMP] = seen[walk.P_MAX_TIMESTAMP, row]
        kept[at + tables.KEPT_COUNT] += 1


# ---- snapshots


@cython.ccall
@cython.exceptval(check=False)
@cython.returns((cython.Py_ssize_t, cython.int))
def load_entries(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, now: cython.longlong,
                 expiration: cython.longlong, table: Producers, ongoing: OpenTransactions):
    """Load the entries of a snapshot in data[at:], except expired ones → (position of the first not loaded, status).

    now, expiration  ms: a producer without an open transaction expires `expiration` after its last batch
    status           DONE: less than an entry is left · NO_ROOM: the table or the open transactions are full · BAD_START
    Mirrors ProducerStateManager.loadFromSnapshot.
    """
    entries: cython.uchar[::1] = table.entries
    heads: cython.int[::1] = table.heads
    links: cython.int[::1] = table.links
    state: cython.longlong[::1] = table.state
    offsets: cython.longlong[::1] = ongoing.offsets
    producers: cython.longlong[::1] = ongoing.producers
    bounds: cython.longlong[::1] = ongoing.bounds
    number: cython.Py_ssize_t
    producer: cython.longlong
    first: cython.longlong
    if at < 0 or _bad_arguments(table, ongoing): return at, tables.APPLIED_BAD_START
    with cython.nogil:
        while data.shape[0] - at >= fields.E_SIZE:
            if _is_full(links, state, offsets, bounds): return at, tables.APPLIED_NO_ROOM
            producer = i64(data, at + fields.E_PRODUCER_ID_AT)
            first = i64(data, at + fields.E_CURRENT_TXN_FIRST_OFFSET_AT)
            if first >= 0 or wrapped_difference(now, i64(data, at + fields.E_TIMESTAMP_AT)) < expiration:
                number = find_producer(entries, heads, links, producer)
                if number < 0: number = add_producer(entries, heads, links, state, producer)
                copy_bytes(entries, number * fields.E_SIZE, data, at, fields.E_SIZE)
                if i64(data, at + fields.E_LAST_OFFSET_AT) < 0: _forget_batches(entries, number * fields.E_SIZE)
                if first >= 0: open_transaction(offsets, producers, bounds, first, producer)
                else: put_int(entries, number * fields.E_SIZE + fields.E_CURRENT_TXN_FIRST_OFFSET_AT, -1, 8)
            at += fields.E_SIZE
        return at, tables.APPLIED_DONE


@cython.ccall
@cython.exceptval(check=False)
def differing_entry(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, entries: cython.uchar[::1],
                    heads: cython.int[::1], links: cython.int[::1]) -> cython.Py_ssize_t:
    """Return the position of the first entry of a snapshot in data[at:] that differs from the table, or is not in it.

    If there is none, the position has less than an entry after it.
    """
    number: cython.Py_ssize_t
    byte: cython.Py_ssize_t
    if at < 0: return data.shape[0]
    with cython.nogil:
        while data.shape[0] - at >= fields.E_SIZE:
            number = find_producer(entries, heads, links, i64(data, at + fields.E_PRODUCER_ID_AT))
            if number < 0: return at
            for byte in range(fields.E_SIZE):
                if data[at + byte] != entries[number * fields.E_SIZE + byte]: return at
            at += fields.E_SIZE
        return at


@cython.ccall
@cython.exceptval(check=False)
def follow_batches(batches: cython.longlong[:, ::1], row: cython.Py_ssize_t, last_row: cython.Py_ssize_t,
                   table: Producers, has_data: cython.uchar[::1]) -> cython.Py_ssize_t:
    """Store the batches from `row` on as the last ones of their producers → first batch that needs more; `last_row`: none.

    More is needed for control batches, batches that begin a transaction, those of producers that are not in the table, and
    those with a lower sequence number than the last batch of the producer; 0 is not compared.
    has_data  out, by number: does the open transaction have records?
    """
    entries: cython.uchar[::1] = table.entries
    heads: cython.int[::1] = table.heads
    links: cython.int[::1] = table.links
    number: cython.Py_ssize_t
    at: cython.Py_ssize_t
    sequence: cython.longlong
    before: cython.longlong
    if row < 0 or last_row > batches.shape[1] or heads.shape[0] < 1 or heads.shape[0] & (heads.shape[0] - 1) != 0: return row
    if entries.shape[0] // fields.E_SIZE < links.shape[0]: return row
    with cython.nogil:
        while row < last_row:
            if not has_producer(batches, row):
                row += 1
                continue
            number = find_producer(entries, heads, links, batches[fields.B_PRODUCER_ID, row])
            if is_control(batches, row) or not 0 <= number < has_data.shape[0]: return row
            at = number * fields.E_SIZE
            if is_transactional(batches, row) and i64(entries, at + fields.E_CURRENT_TXN_FIRST_OFFSET_AT) < 0: return row
            sequence = batches[fields.B_BASE_SEQUENCE, row]
            before = i32(entries, at + fields.E_LAST_SEQUENCE_AT)
            if sequence > 0 and before >= 0 and (sequence - before - 1) & fields.INT_MAX > fields.INT_MAX // 2:
                if i16(entries, at + fields.E_PRODUCER_EPOCH_AT) == batches[fields.B_PRODUCER_EPOCH, row]: return row
            _take_data(entries, at, batches[fields.B_BASE_OFFSET, row], batches[fields.B_LAST_OFFSET, row],
                       batches[fields.B_PRODUCER_EPOCH, row], max(sequence, -1), batches[fields.B_MAX_TIMESTAMP, row])
            if is_transactional(batches, row) and batches[fields.B_COUNT, row] > 0: has_data[number] = 1
            row += 1
        return row

@cython.ccall
@cython.exceptval(check=False)
def known_entry(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, entries: cython.uchar[::1],
                heads: cython.int[::1], links: cython.int[::1]) -> cython.Py_ssize_t:
    """Return the position of the first entry of a snapshot in data[at:] whose producer is in the table.

    If there is none, the position has less than an entry after it.
    """
    if at < 0: return data.shape[0]
    with cython.nogil:
        while data.shape[0] - at >= fields.E_SIZE:
            if find_producer(entries, heads, links, i64(data, at + fields.E_PRODUCER_ID_AT)) >= 0: return at
            at += fields.E_SIZE
        return at


@cython.ccall
@cython.nogil
@cython.exceptval(check=False)
def link_buckets(entries: cython.const[cython.uchar][::1], count: cython.Py_ssize_t, heads: cython.int[::1],
                 links: cython.int[::1]) -> cython.void:
    """Link the first `count` entries by HashMap's buckets, in the order of entries, for `gather_entries`."""
    number: cython.Py_ssize_t
    bucket: cython.Py_ssize_t
    for number in range(count - 1, -1, -1):
        bucket = _bucket(_id_of(entries, number), heads.shape[0])
        links[number] = heads[bucket]
        heads[bucket] = number + 1


@cython.ccall
@cython.exceptval(check=False)
def gather_entries(entries: cython.const[cython.uchar][::1], heads: cython.const[cython.int][::1],
                   links: cython.const[cython.int][::1], capacity: cython.Py_ssize_t, cursor: cython.longlong[::1],
                   out: cython.uchar[::1]) -> cython.Py_ssize_t:
    """Write entries in the iteration order of HashMap, until `out` is full → bytes written.

    heads, links  by `link_buckets`; `heads` may be smaller than `capacity`, the number of buckets; both are powers of two
    cursor         in and out, initially two zeros: the bucket, and the next entry of its chain as number + 1
    """
    size: cython.Py_ssize_t = 0
    bucket: cython.Py_ssize_t = cursor[0]
    at: cython.Py_ssize_t = cursor[1]
    with cython.nogil:
        while bucket < capacity:
            if at == 0: at = heads[bucket & (heads.shape[0] - 1)]
            while at > 0:
                if _bucket(_id_of(entries, at - 1), capacity) == bucket:
                    if out.shape[0] - size < fields.E_SIZE:
                        cursor[0] = bucket
                        cursor[1] = at
                        return size
                    size = copy_bytes(out, size, entries, (at - 1) * fields.E_SIZE, fields.E_SIZE)
                at = links[at - 1]
            bucket += 1
        cursor[0] = bucket
        cursor[1] = 0
        return size
