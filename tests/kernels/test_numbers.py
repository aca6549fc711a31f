"""Numbers in bytes: those of the interpreted build against struct, and varints against the compiled kernels' own."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kernels import numbers
from tests.support.load_kernel import load_kernel
from tests.support.strategies import edges

LONG = edges(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(("name", "code"), [("i16", "h"), ("u32", "I"), ("i32", "i"), ("i64", "q")])
@given(data=st.binary(min_size=10, max_size=10), at=st.integers(0, 2))
def test_integers_are_big_endian(name, code, data, at):
    assert getattr(numbers, name)(memoryview(data), at) == struct.unpack_from(">" + code, data, at)[0]


@given(LONG, LONG)
def test_sums_go_around(one, other):
    for made, exact in ((numbers.wrapped_sum(one, other), one + other), (numbers.wrapped_difference(one, other), one - other)):
        assert -(2**63) <= made < 2**63
        assert (made - exact) % 2**64 == 0


@given(st.binary(max_size=12) | st.binary(max_size=6).map(lambda tail: b"\xff\xff\xff\xff" + tail), st.integers(-1, 6), st.integers(0, 12))
def test_varints_are_the_same_in_both_builds(data, at, end):
    end = min(end, len(data))
    compiled = load_kernel("decode", "compiled")
    assert compiled.read_varint(memoryview(data), at, end) == numbers.varint(memoryview(data), at, end)


@given(LONG)
def test_varlongs_come_back(value):
    raw = value << 1 if value >= 0 else (-value << 1) - 1
    stored = bytearray()
    while raw >= 128:
        stored.append(raw & 127 | 128)
        raw >>= 7
    stored.append(raw)
    assert numbers.varlong(memoryview(stored), 0, len(stored)) == (value, len(stored))
    assert numbers.varlong(memoryview(stored), 0, len(stored) - 1) == (0, -1)
