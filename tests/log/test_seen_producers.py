"""What verify remembers of producers: as an object for each would, in a table."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from engine.formats import CONTROL_FLAG, INT_MAX, TRANSACTIONAL_FLAG, BatchField, ProducerSnapshotEntry
from engine.kernels.producers import Producers, follow_batches
from engine.log.producers.check import SeenProducers
from engine.record.columns import BatchColumns
from tests.support.strategies import examples

small = st.integers(-1, 5)
batches = st.tuples(st.just("data"), small, small, small, st.integers(0, 9), st.integers(-1, 9), st.booleans())
markers = st.tuples(st.just("marker"), small, small, small, st.integers(0, 9))


class Plain:
    """One producer, its fields one by one."""

    def __init__(self) -> None:
        self.epoch = self.sequence = self.last = self.timestamp = self.coordinator = self.first = self.marker = -1
        self.delta, self.has_data = 0, False

    def enter(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch, self.sequence, self.last, self.delta = epoch, -1, -1, 0


@given(st.lists(batches | markers))
def test_batches_and_markers_change_what_they_should(steps):
    seen, plain = SeenProducers(), {}
    for offset, (kind, producer, epoch, stamp, *more) in enumerate(steps):
        one, number = plain.setdefault(producer, Plain()), seen.number_of(producer)
        one.enter(epoch)
        if kind == "data":
            delta, sequence, in_transaction = more
            seen.append(number, epoch, offset, offset + delta, sequence, stamp)
            one.last, one.delta, one.timestamp = offset + delta, delta, stamp
            one.sequence = sequence + delta if sequence >= 0 else -1
            if in_transaction:
                if seen.txn_first_offset(number) < 0:
                    seen.begin(number, offset)
                    one.first = offset
                seen.has_data[number] = one.has_data = True
        else:
            seen.end(number, epoch, more[0], stamp, offset)
            one.marker, one.coordinator, one.timestamp, one.first, one.has_data = offset, more[0], stamp, -1, False
    for producer, one in plain.items():
        entry = ProducerSnapshotEntry(producer, one.epoch, one.sequence, one.last, one.delta, one.timestamp, one.coordinator,
                                      one.first)  # fmt: skip
        assert seen.find(producer) == (entry, one.marker)
        assert seen.has_data[seen.number_of(producer)] == one.has_data
    assert seen.find(77) is None
    assert list(seen.differing(seen.pieces())) == []


def test_a_producer_takes_a_few_bytes():
    seen = SeenProducers()
    tracemalloc.start()
    for producer in range(50_000):
        seen.append(seen.number_of(producer), 0, producer, producer, 0, 1)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 50_000 * 80


def window(steps):
    """Columns of batches: (producer, epoch, sequence, records, flags)."""
    columns, offset = BatchColumns(max(1, len(steps))), 0
    for row, (producer, epoch, sequence, records, flags) in enumerate(steps):
        values = {
            BatchField.PRODUCER_ID: producer, BatchField.PRODUCER_EPOCH: epoch, BatchField.BASE_SEQUENCE: sequence, BatchField.MAGIC: 2,
            BatchField.BASE_OFFSET: offset, BatchField.LAST_OFFSET: offset + records - 1, BatchField.ATTRIBUTES: flags,
            BatchField.COUNT: records, BatchField.MAX_TIMESTAMP: 1000 + row,
        }  # fmt: skip
        for field, value in values.items():
            columns.table[field, row] = value
        offset += records
    return columns.table


STEPS = st.lists(st.tuples(st.integers(-1, 3), st.sampled_from([0, 0, 1]), st.integers(-1, 4) | st.sampled_from([INT_MAX, INT_MAX - 1]),
                           st.integers(1, 3), st.sampled_from([0, 0, 0, TRANSACTIONAL_FLAG, TRANSACTIONAL_FLAG | CONTROL_FLAG])))  # fmt: skip


@given(STEPS, st.sets(st.integers(0, 3)), st.sets(st.integers(0, 3)))
@examples(400)
def test_the_kernel_follows_what_needs_no_more(steps, known, open_ones):
    """Batch by batch as in Python: what is left to Python, and the state after the others."""
    quick, slow = SeenProducers(), SeenProducers()
    for seen in (quick, slow):
        for producer in sorted(known):
            number = seen.number_of(producer)
            if producer in open_ones:
                seen.begin(number, 5)
    table, row, end = window(steps), 0, 0
    for producer, epoch, sequence, records, flags in steps:
        is_known = producer in known and not flags & CONTROL_FLAG and (not flags or producer in open_ones)
        if producer >= 0 and not (is_known and slow.sequence_before(slow.number_of(producer), epoch, sequence) is None):
            break
        if producer >= 0:
            slow.append(slow.number_of(producer), epoch, end, end + records - 1, sequence, 1000 + row)
            slow.has_data[slow.number_of(producer)] |= flags != 0
        row, end = row + 1, end + records
    assert quick.follow(table, 0, len(steps)) == row
    assert (list(map(bytes, quick.pieces())), quick.has_data) == (list(map(bytes, slow.pieces())), slow.has_data)


def test_arguments_outside_their_buffers_are_refused():
    seen, table = SeenProducers(), window([(1, 0, 0, 1, 0)])
    seen.number_of(1)
    assert (seen.follow(table, -1, 1), seen.follow(table, 0, 2), seen.follow(table, 0, 1)) == (-1, 0, 1)
    entries, heads, links, state = seen._views
    for odd in (Producers(entries[:-1], heads, links, state), Producers(entries, heads[:3], links, state)):
        assert follow_batches(table, 0, 1, odd, memoryview(seen.has_data)) == 0
    assert follow_batches(table, 0, 1, Producers(entries, heads, links, state), memoryview(bytearray())) == 0
