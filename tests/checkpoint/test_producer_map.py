from __future__ import annotations

import re

from engine.checkpoint.producer_map import ProducerMap
from engine.checkpoint.producer_snapshot import ProducerSnapshot, encode_producer_snapshot
from engine.files import ReadOnlyFiles


def keys(*producer_ids):
    producers = ProducerMap()
    for producer_id in producer_ids:
        producers[producer_id] = producer_id
    return list(producers)


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
    producers = ProducerMap()
    for producer_id in range(13):
        producers[producer_id] = 0
    producers.clear()
    producers[16] = producers[1] = 0
    assert list(producers) == [1, 16]


def test_a_new_value_keeps_its_place_and_a_removed_key_loses_it():
    producers = ProducerMap()
    producers[16] = producers[0] = 1
    producers[16] = 2
    assert producers.values() == [2, 1]
    del producers[16]
    producers[16] = 3
    assert (list(producers), producers.get(5), 16 in producers, len(producers)) == ([0, 16], None, True, 2)


def test_real_snapshots_are_written_in_this_order(corpus):
    """Every sound snapshot of a 4.x broker or engine comes out byte for byte when its entries go through the map."""
    checked = 0
    for path in sorted(corpus.glob("kafka-4*/**/*.snapshot")):
        if not re.fullmatch(r"\d+", path.stem) or "damaged" in path.parts:
            continue
        snapshot = ProducerSnapshot.read(ReadOnlyFiles(), str(path))
        producers = ProducerMap()
        for entry in snapshot:
            producers[entry.producer_id] = entry
        if snapshot.error() is None:
            assert encode_producer_snapshot(producers.values()) == snapshot.data, path
            checked += 1
    assert checked
