from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.index.sparse import TimeIndex, TimestampOffset

longs = st.integers(-(2**63), 2**63 - 1)


def index(*pairs, base=0, tail=b""):
    return TimeIndex(b"".join(struct.pack(">qi", *pair) for pair in pairs) + tail, base, "x.timeindex")


def codes(found):
    return [(finding.code, finding.where.position) for finding in found]


def test_entries_and_lookup():
    it = index((5000, 4), (7000, 9), base=1000, tail=bytes(24))
    assert (len(it), it.used_entries) == (4, 2)
    assert it.entry(1) == TimestampOffset(7000, 1009)
    assert it.last_entry() == (7000, 1009)
    assert it.lookup(4999) == (-1, 1000)
    assert it.lookup(5000) == (5000, 1004)
    assert it.lookup(8000) == (7000, 1009)
    assert list(it)[: it.dumped_entries] == [(5000, 1004), (7000, 1009)]
    with pytest.raises(IndexError):
        it.entry(4)


def test_unused_space_is_harmless_to_us_and_refused_by_the_broker():
    it = index((5000, 4), tail=bytes(12))
    assert codes(it.sanity()) == [("index-zero-tail", 12)]
    assert it.broker_error("/x.timeindex") == (
        "Corrupt time index found, time index file (/x.timeindex) has non-zero size but the last timestamp is 0 "
        "which is less than the first timestamp 5000"
    )


def test_an_entry_of_zeros_alone_is_an_entry():
    assert index((0, 0)).used_entries == 1  # a first record of 1970
    assert index((0, 0)).sanity() == []
    assert index((0, 0), (0, 0)).used_entries == 0


def test_nothing_is_sound():
    it = index()
    assert it.sanity() == []
    assert it.broker_error("x") is None
    assert it.last_entry() == it.lookup(3) == (-1, 0)


def test_damage():
    it = index((5000, 4), (5000, 3), (4000, -2), base=10, tail=b"x")
    assert codes(it.sanity()) == [
        ("index-size-invalid", 36), ("timeindex-out-of-order", 12), ("index-out-of-order", 12), ("index-corrupt", 24),
    ]
    assert codes(index((-1, 4)).sanity()) == [("timeindex-out-of-order", 0)]
    assert index((5, 4), (6, -2), base=10).broker_error("/x") == (
        "Corrupt time index found, time index file (/x) has non-zero size but the last offset is 8 which is less than "
        "the first offset 10"
    )
    assert index((5, 4), tail=b"x").broker_error("/x") == (
        "Time index file /x is corrupt, found 13 bytes which is neither positive nor a multiple of 12"
    )


@given(st.binary(max_size=200), longs, longs)
def test_any_bytes_are_an_index(data, base, target):
    it = TimeIndex(data, base, "x")
    assert it.used_entries <= len(it) == len(list(it))
    it.lookup(target)
    it.lookup(target, zero_tail=True)
    it.last_entry()
    assert it.dumped_entries <= len(it)
    it.sanity()
    it.broker_error("x")
