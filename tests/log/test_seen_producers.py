"""What verify remembers of producers: as an object for each would, in a table."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from engine.formats import ProducerSnapshotEntry
from engine.log.producers.check import SeenProducers

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
