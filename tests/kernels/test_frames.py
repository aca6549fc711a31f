"""Frames of compressed batches: the kernel inflates what libraries write, and leaves everything else to the readers."""

from __future__ import annotations

from array import array

import lz4.block
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import BatchField, Codec
from engine.kernels import frames as kernel
from engine.record.codecs.codecs import InflateStatus, deflate, inflate
from engine.record.codecs.libzstd import calls
from engine.record.codecs.lz4 import MAGIC, header_checksum, written_checksums
from engine.record.columns import BatchColumns
from tests.support import zstd_bytes
from tests.support.strategies import examples

NO_LIBRARY = memoryview(array("Q"))
WORDS = [b"kafka", b"log", b"\0", b"a" * 70, b"0123456789" * 30, b"ab" * 40]
contents = st.one_of(st.binary(min_size=1, max_size=400),
                     st.lists(st.sampled_from(WORDS) | st.binary(max_size=9), min_size=1, max_size=300).map(b"".join).filter(bool))  # fmt: skip


def frame(*blocks, flags=0x60, descriptor=0x40, checksum=None, end=b"\0\0\0\0"):
    """A frame of (block, is it stored)."""
    head = bytes((flags, descriptor))
    parts = [(len(block) | is_stored << 31).to_bytes(4, "little") + block for block, is_stored in blocks]
    return MAGIC + head + bytes((header_checksum(head) if checksum is None else checksum,)) + b"".join(parts) + end


def inflated(kernel, frames, room, codec=Codec.LZ4, at=0, library=NO_LIBRARY):
    """Inflate batches that consist of frames → (batches done, what came out of each)."""
    batches, data = BatchColumns(len(frames) + 8).table, b"".join(frames)
    start = 0
    for row, one in enumerate(frames):
        batches[BatchField.MAGIC, row], batches[BatchField.ATTRIBUTES, row], batches[BatchField.COUNT, row] = 2, codec, 1
        batches[BatchField.BODY, row], batches[BatchField.BODY_END, row] = start, start + len(one)
        start += len(one)
    out = memoryview(bytearray(room))
    stop, end = kernel.inflate_frames(memoryview(data), batches, 0, len(frames), written_checksums(), library, out, at)
    spans = [(batches[BatchField.BODY, row], batches[BatchField.BODY_END, row]) for row in range(stop)]
    assert [span[0] for span in spans] == [at, *(span[1] for span in spans)][: len(spans)]
    assert end == (spans[-1][1] if spans else at)
    return stop, [bytes(out[first:after]) for first, after in spans]


@given(st.lists(contents, max_size=5), st.integers(0, 40))
@examples(80)
def test_what_kafka_writes_is_inflated(parts, at):
    frames = [deflate(Codec.LZ4, part) for part in parts]
    assert inflated(kernel, frames, at + sum(map(len, parts)), at=at) == (len(parts), parts), "no byte of room is wasted"


@given(contents)
@examples(60)
def test_what_the_library_writes_is_inflated(data):
    blocks = [(lz4.block.compress(data, store_size=False), False), (data, True)]
    assert inflated(kernel, [frame(*blocks, descriptor=0x70)], 2 * len(data)) == (1, [data + data])


@given(contents, st.integers(1, 50))
@examples(40)
def test_without_room_it_stops_in_front_of_the_batch(data, missing):
    frames = [deflate(Codec.LZ4, b"first"), deflate(Codec.LZ4, data)]
    room = max(5, 5 + len(data) - missing)
    assert inflated(kernel, frames, room) == (1, [b"first"])


@given(contents, st.data())
@examples(300)
def test_damaged_frames_are_what_the_reader_makes_of_them(data, draw):
    whole = bytearray(deflate(Codec.LZ4, data))
    for _ in range(draw.draw(st.integers(1, 3))):
        whole[draw.draw(st.integers(0, len(whole) - 1))] = draw.draw(st.integers(0, 255))
    cut = bytes(whole[: draw.draw(st.integers(0, len(whole)))]) if draw.draw(st.booleans()) else bytes(whole)
    stop, found = inflated(kernel, [cut], 1 << 17)
    if stop:
        expected = inflate(Codec.LZ4, cut, 1 << 20)
        assert expected.status == InflateStatus.OK
        assert found == [bytes(expected.data)]


@pytest.mark.parametrize("what", [
    frame((b"abc", True), checksum=0), frame((b"abc", True), flags=0x40), frame((b"abc", True), flags=0x64),
    frame((b"abc", True), flags=0x70), frame((b"abc", True), descriptor=0x30), frame((b"abc", True), end=b""),
    frame((b"abc", True))[:-6], b"\x04\x22\x4d\x18", b"",
    frame((b"\x10a\0\0\x50abcde", False)), frame((b"\x10a\x02\0\x50abcde", False)), frame((b"\xf0" + b"\xff" * 9, False)),
])  # fmt: skip
def test_the_unusual_is_left_to_the_reader(what):
    assert inflated(kernel, [what], 1 << 17) == (0, [])


def test_other_codecs_and_empty_batches():
    assert inflated(kernel, [deflate(Codec.ZSTD, b"abc")], 100, Codec.ZSTD) == (0, [])
    batches = BatchColumns(8).table
    batches[BatchField.MAGIC, 0], batches[BatchField.ATTRIBUTES, 0] = 2, Codec.LZ4
    out = memoryview(bytearray(8))
    checksums = written_checksums()
    assert kernel.inflate_frames(memoryview(b"abc"), batches, 0, 1, checksums, NO_LIBRARY, out, 3) == (1, 3)
    batches[BatchField.BODY, 0], batches[BatchField.BODY_END, 0] = 2, 9
    assert kernel.inflate_frames(memoryview(b"abc"), batches, 0, 1, checksums, NO_LIBRARY, out, 3) == (0, 3), "it ends after the data"
    assert kernel.inflate_frames(memoryview(b"abc"), batches, 0, 99, checksums, NO_LIBRARY, out, 3) == (0, 3)


@given(contents, st.booleans(), st.booleans(), st.sampled_from([1, 3, -5]))
@examples(60)
def test_plain_zstd_frames(data, with_size, with_checksum, level):
    writer = zstandard.ZstdCompressor(level=level, write_content_size=with_size, write_checksum=with_checksum)
    whole = writer.compress(data)
    assert kernel.plain_zstd_size(memoryview(whole)) == (len(data) if with_size else kernel.UNKNOWN_SIZE)
    for other in (whole[:-1], whole + b"\0", whole + whole, b"\x50" + whole[1:], whole[:5], b""):
        assert kernel.plain_zstd_size(memoryview(other)) == kernel.NOT_PLAIN


def test_large_and_empty_zstd_frames():
    for size in (255, 256, 65_791, 65_792, 131_072):
        whole = zstandard.ZstdCompressor().compress(bytes(size))
        assert kernel.plain_zstd_size(memoryview(whole)) == size
    for size in (131_073, 300_000):  # a stream sees whether each block is as large as it may be
        assert kernel.plain_zstd_size(memoryview(zstandard.ZstdCompressor().compress(bytes(size)))) == kernel.NOT_PLAIN
    assert kernel.plain_zstd_size(memoryview(zstandard.ZstdCompressor().compress(b""))) == kernel.NOT_PLAIN
    assert kernel.plain_zstd_size(memoryview(deflate(Codec.ZSTD, b"abc"))) == kernel.UNKNOWN_SIZE


def with_library(frames, room, at=0):
    """Inflate batches of zstd frames by libzstd's functions → as `inflated`."""
    return inflated(kernel, frames, room, Codec.ZSTD, at, calls())


@given(st.lists(contents, max_size=5), st.integers(0, 40))
@examples(80)
def test_what_kafka_writes_with_zstd_is_inflated(parts, at):
    frames = [deflate(Codec.ZSTD, part) for part in parts]
    done, found = with_library(frames, at + max(map(len, parts), default=0) + sum(map(len, parts)), at)
    assert (done, found) == (len(parts), parts)


@pytest.mark.parametrize("options", [{}, {"write_content_size": False}, {"write_checksum": True}, {"level": 19}])
@pytest.mark.parametrize("size", [1, 300, 131_072, 131_073, 2_000_000])
def test_what_the_zstd_library_writes_is_inflated(options, size):
    """But for what is larger than a block, which is left to the reader."""
    data = b"".join(b"%d words " % (number * number) for number in range(size // 8 + 1))[:size]
    done, found = with_library([zstandard.ZstdCompressor(**options).compress(data)], size)
    assert (done, found) == ((1, [data]) if size <= 131_072 else (0, []))


@pytest.mark.parametrize("name", zstd_bytes.CASES)
def test_zstd_frames_that_no_compressor_writes(name):
    frame, count, whole = zstd_bytes.CASES[name]
    done, found = with_library([frame], 1 << 18)
    assert not done or (whole and found == [b"a" * count]), "damage to Kafka's reader is none here"


@given(contents, st.data())
@examples(300)
def test_damaged_zstd_frames_are_what_the_reader_makes_of_them(data, draw):
    options = {"write_content_size": draw.draw(st.booleans()), "write_checksum": draw.draw(st.booleans())}
    whole = bytearray(draw.draw(st.sampled_from([deflate(Codec.ZSTD, data), zstandard.ZstdCompressor(**options).compress(data)])))
    for _ in range(draw.draw(st.integers(1, 3))):
        whole[draw.draw(st.integers(0, len(whole) - 1))] = draw.draw(st.integers(0, 255))
    cut = bytes(whole[: draw.draw(st.integers(0, len(whole)))]) if draw.draw(st.booleans()) else bytes(whole)
    stop, found = with_library([cut], 1 << 17)
    if stop:
        expected = inflate(Codec.ZSTD, cut, 1 << 20)
        assert expected.status == InflateStatus.OK
        assert found == [bytes(expected.data)]


def test_zstd_without_room_or_without_the_library():
    frames = [deflate(Codec.ZSTD, b"first"), deflate(Codec.ZSTD, b"second" * 9)]
    done, found = with_library(frames, 5 + 53)
    assert (done, found) == (1, [b"first"])
    assert with_library(frames, 5, 5) == (0, [])
    assert inflated(kernel, frames, 999, Codec.ZSTD) == (0, [])


def test_a_frame_that_becomes_larger_than_its_window_is_left_to_the_reader():
    parameters = zstandard.ZstdCompressionParameters(window_log=10, write_content_size=False)
    frames = [zstandard.ZstdCompressor(compression_params=parameters).compress(bytes(size)) for size in (1024, 1025)]
    done, _ = with_library(frames, 9999)
    assert done == 1
