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


@given(data=st.binary(min_size=6, max_size=6), at=st.integers(0, 2))
def test_words_of_compressed_formats_are_little_endian(data, at):
    assert numbers.u32_le(memoryview(data), at) == struct.unpack_from("<I", data, at)[0]


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


@given(edges(0, 2**64 - 1), st.integers(0, 3))
def test_varints_have_seven_bits_a_byte_and_a_mark_on_all_but_the_last(value, at):
    size = numbers.raw_varint_size(value)
    out = bytearray(at + size)
    assert numbers.put_raw_varint(memoryview(out), at, value) == at + size
    assert [byte >> 7 for byte in out[at:]] == [1] * (size - 1) + [0]
    assert sum((byte & 127) << 7 * place for place, byte in enumerate(out[at:])) == value
    assert size == 1 or out[-1] != 0


@given(LONG)
def test_varlongs_come_back(value):
    raw = value << 1 if value >= 0 else (-value << 1) - 1
    stored = memoryview(bytearray(numbers.raw_varint_size(raw)))
    numbers.put_raw_varint(stored, 0, raw)
    assert numbers.varlong(stored, 0, len(stored)) == (value, len(stored))
    assert numbers.varlong(stored, 0, len(stored) - 1) == (0, -1)
