from __future__ import annotations

import os
import struct
import tracemalloc
from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import UnreadableFile
from engine.files import ReadOnlyFiles
from engine.index import entries
from engine.index.entries import CorruptIndex
from engine.index.sparse import OffsetIndex, OffsetPosition

longs = st.integers(-(2**63), 2**63 - 1)


def index(*pairs, base=0, tail=b""):
    return OffsetIndex(b"".join(struct.pack(">ii", *pair) for pair in pairs) + tail, base, "x.index")


def codes(found):
    return [(finding.code, finding.where.position) for finding in found]


def test_entries_are_relative_to_the_base_offset():
    it = index((4, 100), (9, 250), base=1000)
    assert len(it) == 2
    assert it.entry(1) == OffsetPosition(1009, 250)
    assert list(it) == [(1004, 100), (1009, 250)]
    for number in (-1, 2):
        with pytest.raises(IndexError):
            it.entry(number)


def test_lookup():
    it = index((4, 100), (9, 250), base=1000, tail=bytes(16))
    assert it.lookup(1003) == (1000, 0)
    assert it.lookup(1004) == (1004, 100)
    assert it.lookup(1008) == (1004, 100)
    assert it.lookup(2**63 - 1) == (1009, 250)
    assert it.lookup(1008, zero_tail=True) == (1000, 0)  # zeros are entries of the base offset for Kafka's tools
    assert index().lookup(5) == (0, 0)


def test_fetch_upper_bound():
    it = index((4, 100), (9, 250), base=1000)
    assert it.fetch_upper_bound(OffsetPosition(1000, 0), 1) == (1004, 100)
    assert it.fetch_upper_bound(OffsetPosition(1000, 0), 100) == (1009, 250)  # the broker's search goes one too far
    assert it.fetch_upper_bound(OffsetPosition(1000, 0), 101) == (1009, 250)
    assert it.fetch_upper_bound(OffsetPosition(1004, 100), 151) is None
    assert index().fetch_upper_bound(OffsetPosition(0, 0), 1) is None


def test_unused_space():
    it = index((4, 256), tail=bytes(24))  # position 256 ends with a zero byte
    assert (len(it), it.used_entries) == (4, 1)
    assert codes(it.sanity()) == [("index-zero-tail", 8)]
    assert list(it)[: it.dumped_entries] == [(4, 256)]
    assert it.broker_error("/x") is None


def test_an_index_of_zeros_is_unused_but_kafka_prints_its_first_entry():
    it = index(tail=bytes(10_485_760))
    assert it.used_entries == 0
    assert list(it)[: it.dumped_entries] == [(0, 0)]
    assert it.lookup(7) == (0, 0)


def test_kafka_stops_at_a_zero_in_the_middle():
    it = index((4, 100), (0, 0), (9, 250))
    assert list(it)[: it.dumped_entries] == [(4, 100)]
    assert it.used_entries == 3
    assert codes(it.sanity()) == [("index-out-of-order", 8), ("index-out-of-order", 8)]


def test_damage_is_found_at_its_first_place():
    it = index((-2, -7), (5, 100), (5, 90), base=10, tail=b"abc")
    assert codes(it.sanity()) == [
        ("index-size-invalid", 24), ("index-out-of-order", 0), ("index-out-of-order", 0),
    ]
    assert it.broker_error("/d/x.index") == (
        "Index file /d/x.index is corrupt, found 27 bytes which is neither positive nor a multiple of 8"
    )
    it = index((5, 100), (-3, 200), base=10)
    assert codes(it.sanity()) == [("index-out-of-order", 8), ("index-corrupt", 8)]
    assert it.broker_error("/d/x.index") == (
        "Corrupt index found, index file /d/x.index has non-zero size but the last offset is 7 which is less than "
        "the base offset 10"
    )


def test_offsets_wrap_as_longs_do():
    assert index((1, 1), base=2**63 - 1).entry(0).offset == -(2**63)


def test_more_entries_than_are_read_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(entries, "MAX_INDEX_SIZE", 8)
    path = tmp_path / "x.index"
    path.write_bytes(b"\1" * 9)
    with pytest.raises(UnreadableFile, match="9 bytes, more than the 8") as refused:
        OffsetIndex.read(ReadOnlyFiles(), str(path), 0)
    assert refused.value.do == f"kafkalog verify --rebuild {path}"
    with pytest.raises(CorruptIndex, match="16 bytes, more than the 8"):
        path.write_bytes(b"\1" * 16)
        OffsetIndex.open(ReadOnlyFiles(), str(path), 0, writable=False).entry(0)


def test_space_that_was_allocated_ahead_takes_no_memory(tmp_path):
    path = tmp_path / "x.index"
    path.write_bytes(struct.pack(">iiii", 1, 100, 2, 200))
    os.truncate(path, 100 << 20)
    tracemalloc.start()
    it = OffsetIndex.read(ReadOnlyFiles(), str(path), 0)
    assert (len(it), it.used_entries, it.entry(1)) == ((100 << 20) // 8, 2, (2, 200))
    assert it.lookup(5).offset == 2
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20
    assert [finding.code for finding in it.sanity()] == ["index-zero-tail"]


def test_no_index_has_more_than_2_31_bytes(tmp_path):
    path = tmp_path / "x.index"
    path.touch()
    os.truncate(path, 200 << 30)
    with pytest.raises(UnreadableFile, match="214748364800 bytes, more than"):
        OffsetIndex.read(ReadOnlyFiles(), str(path), 0)
    with pytest.raises(CorruptIndex, match="214748364800 bytes, more than"):
        OffsetIndex.open(ReadOnlyFiles(), str(path), 0, writable=False).entry(0)


@given(
    st.lists(st.integers(1, 2**31 - 1), unique=True, max_size=60).map(sorted), st.integers(0, 2**32), st.integers(0, 4)
)
def test_lookup_finds_the_largest_entry_at_or_below(offsets, target, tail):
    it = index(*((offset, at + 1) for at, offset in enumerate(offsets)), tail=bytes(8 * tail))
    at = bisect_right(offsets, target)
    assert it.lookup(target) == ((offsets[at - 1], at) if at else (0, 0))


def test_lookup_in_and_before_the_warm_section():
    it = index(*((2 * at, at) for at in range(1, 5001)))
    for target in (1, 2, 3, 4000, 7949, 7950, 7951, 7952, 9999, 10_000, 10_001):
        assert it.lookup(target).offset == target // 2 * 2


@given(st.binary(max_size=200), longs, longs)
def test_any_bytes_are_an_index(data, base, target):
    it = OffsetIndex(data, base, "x")
    assert it.used_entries <= len(it) == len(list(it))
    assert it.dumped_entries <= len(it)
    assert -(2**63) <= it.lookup(target).offset < 2**63
    it.lookup(target, zero_tail=True)
    it.fetch_upper_bound(OffsetPosition(0, 0), target)
    it.sanity()
    it.broker_error("x")


def test_preallocated_space_takes_no_memory_in_a_dump(tmp_path):
    path = tmp_path / "00000000000000000000.index"
    path.write_bytes(struct.pack(">iiii", 4, 100, 9, 250))
    os.truncate(path, entries.MAX_INDEX_SIZE + 8)
    tracemalloc.start()
    try:
        it = OffsetIndex.read(ReadOnlyFiles(), str(path), 0)
        assert it.dumped_entries == 2
        assert tracemalloc.get_traced_memory()[1] < entries.MAX_INDEX_SIZE // 8
    finally:
        tracemalloc.stop()
