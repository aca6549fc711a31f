"""Blocks of Snappy and LZ4: Kafka's own bytes, and readable by other libraries."""

from __future__ import annotations

from array import array

import lz4.block
import pytest
import snappy
from hypothesis import given
from hypothesis import strategies as st

from engine.files import Files
from engine.formats import BatchField, Codec
from engine.kernels.blocks import (
    LZ4_BLOCK,
    SNAPPY_BLOCK,
    TABLE,
    lz4_block,
    lz4_bound,
    snappy_block,
    snappy_bound,
)
from engine.record.codecs.codecs import deflate, inflate
from engine.record.windows import LogWalk
from tests.support.floors import saw_enough

EMPTY_TABLE = bytes(2 * TABLE)
WORDS = [b"kafka", b"log", b"\0", b"segment=0000", b"a" * 70, b"0123456789" * 30]


def compress(kernel, bound, data, table=EMPTY_TABLE):
    out = memoryview(bytearray(bound(len(data))))
    size = kernel(memoryview(data), out, memoryview(array("H", table)))
    return bytes(out[:size])


def repetitive():
    return st.one_of(st.binary(max_size=400), st.lists(st.sampled_from(WORDS) | st.binary(max_size=9), max_size=300).map(b"".join))


@given(repetitive())
def test_other_libraries_read_them(data):
    assert snappy.uncompress(compress(snappy_block, snappy_bound, data)) == data
    if data:
        packed = compress(lz4_block, lz4_bound, data)
        assert lz4.block.decompress(packed, uncompressed_size=len(data)) == data


@given(repetitive())
def test_what_is_in_the_table_does_not_matter(data):
    dirty = b"\xff\x7f" * TABLE
    assert compress(snappy_block, snappy_bound, data, dirty) == compress(snappy_block, snappy_bound, data)
    assert compress(lz4_block, lz4_bound, data, dirty) == compress(lz4_block, lz4_bound, data)


@pytest.mark.parametrize(
    ("kernel", "largest", "bound"), [(snappy_block, SNAPPY_BLOCK, snappy_bound), (lz4_block, LZ4_BLOCK, lz4_bound)]
)
def test_arguments_that_do_not_fit(kernel, largest, bound):
    table = memoryview(array("H", EMPTY_TABLE))
    room = memoryview(bytearray(bound(largest)))
    assert kernel(memoryview(bytes(largest)), room, table) > 0
    assert kernel(memoryview(bytes(largest + 1)), memoryview(bytearray(2 * largest)), table) == -1
    assert kernel(memoryview(bytes(largest)), room[:-1], table) == -1
    assert kernel(memoryview(b"abc"), room, table[:-1]) == -1


def blocks(corpus, codec):
    """(batch, its body) of the batches that Kafka 4 itself compressed for the append cases."""
    for path in sorted(corpus.glob("kafka-4.3.1/cases/append-recompress-*/expected/*/*.log")):
        with Files().open(str(path)) as file:
            for window in LogWalk(file):
                table = window.batches.table
                for row in range(window.rows):
                    if table[BatchField.ATTRIBUTES, row] & 7 == codec and "levels" not in str(path):
                        yield bytes(window.data[table[BatchField.BODY, row] : table[BatchField.BODY_END, row]])


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD], ids=lambda codec: codec.name)
def test_bytes_are_kafkas(corpus, codec):
    bodies = list(blocks(corpus, codec))
    for body in bodies:
        assert deflate(codec, inflate(codec, body, 1 << 20).data) == body
    saw_enough(f"batches in {codec.name}", len(bodies))
