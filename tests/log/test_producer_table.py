"""The table of producers: a dict of entries in the order of a Java HashMap, in little memory."""

from __future__ import annotations

import re
import tracemalloc
from itertools import count, islice

from hypothesis import given
from hypothesis import strategies as st

from engine.checkpoint.producer_snapshot import ProducerSnapshot
from engine.files import ReadOnlyFiles
from engine.formats import LONG_MAX, PRODUCER_SNAPSHOT_ENTRY, PRODUCER_SNAPSHOT_HEADER, ProducerSnapshotEntry
from engine.log.producers.entry import BatchMetadata, ProducerStateEntry
from engine.log.producers.table import ProducerTable, Transactions
from tests.support.floors import saw_enough

NOW = 1_700_000_000_000
FOREVER = LONG_MAX


def entry(producer_id, *, epoch=0, timestamp=NOW, sequence=0, batches=1, first_offset=None):
    made = ProducerStateEntry(producer_id, epoch, -1, timestamp, first_offset)
    for number in range(batches):
        made.add_batch(epoch, BatchMetadata(sequence + number, number, 0, timestamp))
    return made


def table(*producer_ids):
    producers = ProducerTable()
    for producer_id in producer_ids:
        producers.put(entry(producer_id))
    return producers


def keys(*producer_ids):
    return list(table(*producer_ids))


def test_small_ids_ascend_modulo_the_capacity():
    assert keys(17, 3, 1, 16) == [16, 17, 1, 3]  # 17 came before 1, and both fall into the second of 16 buckets


def test_both_halves_of_a_key_count():
    assert keys(5 << 32, 4, -1) == [-1, 4, 5 << 32]


def test_the_table_doubles_beyond_three_quarters():
    twelve = [16, *range(1, 12)]
    assert keys(*twelve)[0] == 16
    assert keys(*twelve, 12) == [*range(1, 13), 16]


def test_the_table_doubles_when_a_bucket_overflows():
    chain = [16 * n for n in range(9)]
    assert keys(*chain[:8]) == chain[:8]
    assert keys(*chain) == [*chain[::2], *chain[1::2]]


def test_a_table_never_shrinks():
    producers = table(*range(13))
    producers.clear()
    producers.put(entry(16))
    producers.put(entry(1))
    assert list(producers) == [1, 16]


def test_a_new_value_keeps_its_place():
    producers = table(16, 0)
    producers.put(entry(16, sequence=7))
    assert [(one.producer_id, one.last_seq) for one in producers.values()] == [(16, 7), (0, 0)]
    assert (producers.get(5), 16 in producers, 5 in producers, len(producers)) == (None, True, False, 2)


def test_what_is_changed_is_put_back():
    producers = table(7)
    one = producers.get(7)
    one.add_batch(0, BatchMetadata(1, 9, 0, NOW))
    assert producers.get(7).last_data_offset == 0
    producers.put(one)
    assert (producers.get(7).last_data_offset, len(producers.get(7).batches)) == (9, 2)


def test_the_expired_are_not_loaded():
    before = ProducerTable()
    for number in range(200):
        before.put(entry(number, timestamp=NOW - number % 2, first_offset=5 if number == 33 else None))
    producers = ProducerTable()
    for piece in before.pieces():
        producers.load(piece, NOW + 9, 10, Transactions())
    assert sorted(producers) == [number for number in range(200) if number % 2 == 0 or number == 33]
    assert producers.get(33).current_txn_first_offset == 5


states = st.builds(
    entry, st.integers(-(2**63), 2**63 - 1) | st.integers(0, 30), epoch=st.integers(-1, 2**15 - 1),
    timestamp=st.integers(-(2**62), 2**62), sequence=st.integers(0, 100), batches=st.integers(0, 6),
    first_offset=st.none() | st.integers(0, 2**63 - 1),
)  # fmt: skip


@given(st.lists(states, max_size=150))
def test_it_is_a_dict(entries):
    producers, wanted = ProducerTable(), {}
    for one in entries:
        producers.put(one)
        wanted[one.producer_id] = one
        assert _fields(producers.get(one.producer_id)) == _fields(one)
    assert len(producers) == len(wanted)
    assert sorted(producers) == sorted(wanted)
    assert {one.producer_id: _fields(one) for one in producers.values()} == {key: _fields(one) for key, one in wanted.items()}


def _fields(one):
    return (
        one.producer_id, one.producer_epoch, one.coordinator_epoch, one.last_timestamp, one.current_txn_first_offset, one.batches,
    )  # fmt: skip


@given(st.lists(states, max_size=150))
def test_what_is_handed_out_comes_in_again(entries):
    producers, again, ongoing = ProducerTable(), ProducerTable(), Transactions()
    for one in entries:
        producers.put(one)
    for piece in producers.pieces():
        again.load(piece, 0, FOREVER, ongoing)
    assert [one.to_snapshot() for one in again.values()] == [one.to_snapshot() for one in producers.values()]
    assert len(ongoing) == len({one.current_txn_first_offset for one in producers.values()} - {None})


def test_ids_that_share_their_lower_bits_are_found_as_soon_as_others():
    """As many as would take an hour if all of them were asked one by one."""
    producers, many = ProducerTable(), 30_000
    for number in range(many):
        producers.put(entry(number << 32 | number << 16))
    assert all(number << 32 | number << 16 in producers for number in range(many))


def test_many_producers_take_little_memory():
    """Also while they are read from one snapshot and handed out for the next one. An entry as an object takes 500 bytes."""
    many = 100_000
    read = (PRODUCER_SNAPSHOT_ENTRY.struct.pack(number, 0, 0, number, 0, NOW, -1, -1) for number in count(1000))
    pieces = [b"".join(islice(read, 10_000)) for _ in range(many // 10_000)]
    tracemalloc.start()
    try:
        producers = ProducerTable(keeps_batches=False)
        for piece in pieces:
            producers.load(piece, NOW, FOREVER, Transactions())
        handed_out = sum(len(piece) for piece in producers.pieces())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(producers), handed_out) == (many, many * PRODUCER_SNAPSHOT_ENTRY.size)
    assert peak < 100 * many + (1 << 20)


def test_real_snapshots_are_written_in_this_order(corpus):
    """Every sound snapshot of a 4.x broker or engine comes out byte for byte when its entries go through the table."""
    checked = 0
    for path in sorted(corpus.glob("kafka-4*/**/*.snapshot")):
        if not re.fullmatch(r"\d+", path.stem) or "damaged" in path.parts:
            continue
        snapshot = ProducerSnapshot.read(ReadOnlyFiles(), str(path))
        loaded, put = ProducerTable(), ProducerTable()
        for piece in snapshot.pieces():
            loaded.load(piece, 0, FOREVER, Transactions())
        for stored in snapshot:
            put.put(ProducerStateEntry.of_snapshot(stored))
        if snapshot.error() is None:
            wanted = path.read_bytes()[PRODUCER_SNAPSHOT_HEADER.size :]
            assert b"".join(loaded.pieces()) == b"".join(put.pieces()) == wanted, path
            checked += 1
    saw_enough("sound snapshots of 4.x", checked)


def test_a_snapshot_says_a_producer_twice():
    """Kafka puts the later one into the place of the earlier, and waits for both transactions."""
    stored = [ProducerSnapshotEntry(7, 0, 0, 0, 0, NOW, -1, 5), ProducerSnapshotEntry(8, 0, 0, 1, 0, NOW, -1, -1),
              ProducerSnapshotEntry(7, 1, 3, 9, 0, NOW, -1, 6)]  # fmt: skip
    producers, ongoing = ProducerTable(), Transactions()
    producers.load(b"".join(map(PRODUCER_SNAPSHOT_ENTRY.pack, stored)), NOW, FOREVER, ongoing)
    assert [one.to_snapshot() for one in producers.values()] == [stored[2], stored[1]]
    assert (len(ongoing), ongoing.first()) == (2, (7, 5))
