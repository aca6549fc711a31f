"""Inflation is bounded, complete and as strict as Kafka's."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
import threading
import tracemalloc
import zlib
from pathlib import Path

import lz4.block
import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import UsageError
from engine.formats import BATCH_HEADER, CODEC_MASK, CODEC_NAMES, LOG_OVERHEAD, BatchHeader, Codec
from engine.record.codecs import codecs
from engine.record.codecs import lz4 as lz4_frames
from engine.record.codecs.codecs import LEVELS, InflateStatus, deflate, inflate
from engine.record.reader import ChunkReader
from engine.record.windows import LogWalk
from tests.fuzz.mutate import repaired
from tests.support import zstd_bytes
from tests.support.memory_files import MemoryFiles

DATA = Path(__file__).parents[1] / "data"
LIMIT = 1 << 20
CODECS = list(Codec)
COMPRESSING = CODECS[1:]
TEXT = b"".join(b"record %d of %d;" % (i, i * 7919 % 1000) for i in range(9000))  # more than two LZ4 blocks
NOISE = random.Random(42).randbytes(70_000)


def batches(path):
    """(codec, compressed records, header) of every batch of a segment."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        header = BATCH_HEADER.read(data, at)
        end = at + LOG_OVERHEAD + header.batch_length
        yield header.attributes & CODEC_MASK, memoryview(data)[at + BATCH_HEADER.size : end], header
        at = end


@given(data=st.binary(max_size=5000) | st.sampled_from([b"", TEXT, NOISE, TEXT[:65536], TEXT[:65537], TEXT[:32768]]),
       codec=st.sampled_from(CODECS), magic=st.sampled_from([0, 1, 2]))
def test_roundtrip(data, codec, magic):
    result = inflate(codec, deflate(codec, data, magic=magic), max(len(data), 1), magic=magic)
    assert (bytes(result.data), result.status, result.problem) == (data, InflateStatus.OK, None)


@pytest.mark.parametrize("codec", LEVELS)
def test_every_level(codec):
    least, most, default = LEVELS[codec]
    for level in {max(least, -7), most // 2, most, default}:
        assert inflate(codec, deflate(codec, TEXT, level=level), LIMIT).data == TEXT
    for level in (least - 1, most + 1):
        if level != default:
            with pytest.raises(UsageError, match=str(level)):
                deflate(codec, b"", level=level)
    with pytest.raises(UsageError):
        deflate(Codec.SNAPPY, b"", level=1)
    with pytest.raises(UsageError):
        deflate(5, b"")


@pytest.mark.parametrize("codec", CODECS)
def test_limit_is_exact(codec):
    packed = deflate(codec, TEXT)
    assert inflate(codec, packed, len(TEXT)).status == InflateStatus.OK
    for limit in (len(TEXT) - 1, 65537, 1, 0, -1):
        result = inflate(codec, memoryview(packed), limit)
        assert result.status == InflateStatus.OVER_LIMIT, limit
        assert result.data == TEXT[: len(result.data)]
        assert len(result.data) <= max(limit, 0)
        assert "\n" not in result.problem


@pytest.mark.parametrize("codec", COMPRESSING)
def test_every_prefix_is_corrupt_and_gives_what_it_holds(codec):
    whole = TEXT[:3000] + NOISE[:40_000]
    packed = deflate(codec, whole)
    for size in [*range(400), *range(400, len(packed), 97), *range(len(packed) - 40, len(packed))]:
        result = inflate(codec, packed[:size], LIMIT)
        assert result.data == whole[: len(result.data)]
        if result.status == InflateStatus.OK:  # Kafka too sees an end there
            assert codec == Codec.SNAPPY or (size == 0 and codec == Codec.ZSTD)
    if codec != Codec.SNAPPY:
        assert inflate(codec, packed[: len(packed) - 1], LIMIT).status == InflateStatus.CORRUPT


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_what_comes_before_the_damage_is_kept(codec):
    whole = random.Random(1).randbytes(400_000) + TEXT * 2
    packed = bytearray(deflate(codec, whole))
    packed[-2000:-1500] = b"\xff" * 500
    result = inflate(codec, bytes(packed), LIMIT)
    assert result.status == InflateStatus.CORRUPT
    assert result.data[:260_000] == whole[:260_000]


@given(codec=st.sampled_from(COMPRESSING), at=st.integers(0, 2000), bit=st.integers(0, 7),
       magic=st.sampled_from([0, 2]))
def test_any_flipped_bit_is_a_status(codec, at, bit, magic):
    packed = bytearray(deflate(codec, TEXT[:9000], magic=magic))
    packed[at % len(packed)] ^= 1 << bit
    result = inflate(codec, packed, 20_000, magic=magic)
    assert len(result.data) <= 20_000
    assert (result.problem is None) == (result.status == InflateStatus.OK)


@given(codec=st.integers(-1, 9), data=st.binary(max_size=300), limit=st.integers(0, 500))
@settings(max_examples=300)
def test_noise_is_a_status(codec, data, limit):
    for head in (b"", b"\x1f\x8b\x08\x1e", b"\x82SNAPPY\0\0\0\0\1\0\0\0\1", b"\x04\x22\x4d\x18\x60\x40\x82",
                 b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"):
        result = inflate(codec, head + data, limit)
        assert len(result.data) <= limit
        assert (result.problem is None) == (result.status == InflateStatus.OK)
        assert (result.status == InflateStatus.UNKNOWN_CODEC) == (codec not in CODECS)


# ---- what real Kafka wrote and what it says of damaged batches


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_of_a_broker(name):
    (path,) = (DATA / f"4.3.1/clean/codec.{name}-0").glob("*.log")
    seen = set()
    for codec, body, header in batches(path):
        result = inflate(codec, body, LIMIT)
        assert result.status == InflateStatus.OK
        again = deflate(codec, result.data)
        if codec in (Codec.GZIP, Codec.LZ4):
            assert bytes(body[:7]) == again[:7]
        if codec == Codec.GZIP:
            assert bytes(body[:10]) == again[:10]
        if codec == Codec.SNAPPY:
            assert bytes(body[:16]) == again[:16]
        assert len(result.data) >= header.record_count * 7
        seen.add(codec)
    assert Codec[name.upper()] in seen


DAMAGED = {  # the batch that stops kafka-dump-log, and how (org.apache.kafka.tools.DumpLogSegments 4.3.1)
    "gzip-bytes": "invalid distance too far back", "gzip-cut": "ends inside", "gzip-empty": "ends inside",
    "gzip-magic": "not in gzip format", "snappy-cut": "a chunk of", "snappy-empty": "empty",
    "snappy-magic": "cannot be decompressed|that declares", "lz4-cut": "a block of|ends before", "lz4-empty": "ends",
    "lz4-magic": "not an LZ4 frame", "zstd-cut": "ends inside", "zstd-magic": "unknown frame",
    "codec-lie-1": "gzip format",
    "codec-lie-2": "cannot be decompressed|that declares", "codec-lie-3": "not an LZ4 frame",
    "codec-lie-4": "unknown frame",
}
READABLE = ["snappy-bytes", "lz4-bytes", "zstd-bytes", "zstd-empty"]  # their records are damaged, or Kafka sees nothing


@pytest.mark.parametrize(("name", "problem"), DAMAGED.items())
def test_damage_that_stops_kafka(name, problem):
    (path,) = (DATA / f"4.3.1/damaged/{name}-0").glob("*.log")
    bad = [result for result in (inflate(codec, body, LIMIT) for codec, body, _ in batches(path)) if result.problem]
    assert len(bad) == 1
    assert bad[0].status == InflateStatus.CORRUPT
    assert any(part in bad[0].problem for part in problem.split("|")), bad[0].problem


@pytest.mark.parametrize("name", READABLE)
def test_damage_that_kafka_inflates(name):
    (path,) = (DATA / f"4.3.1/damaged/{name}-0").glob("*.log")
    assert [inflate(codec, body, LIMIT).problem for codec, body, _ in batches(path)].count(None) >= 2
    assert all(inflate(codec, body, LIMIT).status == InflateStatus.OK for codec, body, _ in batches(path))


# ---- gzip


def test_gzip_members_and_what_may_follow():
    one, two = gzip.compress(b"a" * 100), gzip.compress(b"b" * 50)
    assert inflate(1, one + two, LIMIT).data == b"a" * 100 + b"b" * 50
    assert inflate(1, one * 3000, LIMIT).data == b"a" * 300_000
    for tail in (b"x", b"\0" * 18, b"\0" * 19, b"garbage" * 3000, two[:9]):
        assert inflate(1, one + tail, LIMIT)[:2] == (b"a" * 100, InflateStatus.OK)
    empty = deflate(1, b"")[:-8]  # 12 bytes: header and an empty stream
    assert inflate(1, one + empty[:10], LIMIT).status == InflateStatus.OK  # too little left for Java to look
    assert inflate(1, one + two[:20], LIMIT).status == InflateStatus.CORRUPT  # a member that is cut


def test_gzip_trailer_is_checked():
    packed = bytearray(deflate(1, TEXT))
    for at in (-8, -4):
        bad = packed.copy()
        bad[at] ^= 1
        result = inflate(1, bad, LIMIT)
        assert (result.status, result.data) == (InflateStatus.CORRUPT, TEXT)


def test_gzip_headers_with_everything():
    body = deflate(1, b"hello")[10:]
    head = b"\x1f\x8b\x08\x1e" + b"\0" * 6 + b"\x03\0abc" + b"name\0" + b"comment\0" * 1
    check = (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little")
    assert inflate(1, head + check + body, LIMIT).data == b"hello"
    assert inflate(1, head + b"xx" + body, LIMIT).status == InflateStatus.CORRUPT
    for size in range(len(head) + 2):
        assert inflate(1, (head + check)[:size], LIMIT).status == InflateStatus.CORRUPT
    assert inflate(1, b"\x1f\x8b\x08\xe0" + deflate(1, b"x")[4:], LIMIT).data == b"x"  # Java ignores reserved flags


# ---- snappy


def test_snappy_bare_and_framed():
    assert inflate(2, snappy.compress(TEXT), LIMIT).data == TEXT
    framed = deflate(2, TEXT)
    assert framed[:16] == b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
    first = int.from_bytes(framed[16:20], "big")
    assert snappy.uncompress(framed[20 : 20 + first]) == TEXT[:32768]
    assert inflate(2, framed + framed, LIMIT).data == TEXT * 2  # concatenated streams
    assert inflate(2, framed + b"\0\0\0", LIMIT).data == TEXT
    assert inflate(2, framed[:16], LIMIT)[:2] == (b"", InflateStatus.OK)
    assert inflate(2, framed + b"\xff\xff\xff\xff", LIMIT)[:2] == (TEXT, InflateStatus.CORRUPT)
    assert inflate(2, framed + b"\x7f\xff\xff\xff", LIMIT)[:2] == (TEXT, InflateStatus.CORRUPT)
    assert inflate(2, framed + b"\0\0\0\0", LIMIT)[:2] == (TEXT, InflateStatus.CORRUPT)


@pytest.mark.parametrize("block", [
    b"\xff\xff\xff\xff\x0fabc", b"\xff\xff\xff\xff\xff\xff", b"\x80\x80\x80\x80\x01\xf0abc",
], ids=["4 GiB", "endless", "256 MiB"])  # fmt: skip
def test_snappy_sizes_are_not_believed(block):
    assert inflate(2, deflate(2, TEXT), LIMIT).data == TEXT  # imports what it takes
    tracemalloc.start()
    try:
        result = inflate(2, block, 1 << 40)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.status == InflateStatus.CORRUPT
    assert peak < 1 << 20, "memory is taken for what a block can hold, not for what it declares"


def test_a_snappy_block_of_half_a_size_is_corrupt():
    assert inflate(2, b"\x80", LIMIT).status == InflateStatus.CORRUPT


# ---- lz4


def frame(flags, descriptor, parts, size=b"", checksum=None):
    head = bytes((flags, descriptor)) + size
    checksum = lz4_frames.header_checksum(head) if checksum is None else checksum
    return lz4_frames.MAGIC + head + bytes((checksum,)) + b"".join(parts)


def block(data, *, stored=False):
    packed = data if stored else lz4.block.compress(data, store_size=False)
    return (len(packed) | stored << 31).to_bytes(4, "little") + packed


END = b"\0\0\0\0"


def test_lz4_header_checksum_is_xxh32():
    for size in (False, True):
        packed = lz4.frame.compress(b"x" * 10, store_size=size, block_linked=False)
        end = 14 if size else 6
        assert packed[end] == lz4_frames.header_checksum(packed[4:end])
    assert inflate(3, lz4.frame.compress(TEXT, block_linked=False, block_checksum=True, content_checksum=True),
                   LIMIT).data == TEXT


def test_lz4_old_header_checksum():
    old, new = deflate(3, TEXT, magic=0), deflate(3, TEXT, magic=1)
    assert old[6] != new[6]
    assert old[:6] + old[7:] == new[:6] + new[7:]
    assert lz4.frame.decompress(new) == TEXT
    assert inflate(3, old, LIMIT, magic=0).data == TEXT
    assert inflate(3, new, LIMIT, magic=0).data == TEXT
    for magic in (1, 2):
        assert inflate(3, old, LIMIT, magic=magic)[:2] == (b"", InflateStatus.CORRUPT)


def test_lz4_what_kafka_looks_at():
    ok = [block(b"a" * 50), block(b"stored", stored=True), END]
    want = b"a" * 50 + b"stored"
    assert inflate(3, frame(0x60, 0x40, ok), LIMIT).data == want
    assert inflate(3, frame(0x60, 0x70, [*ok, b"trailing"]), LIMIT)[:2] == (want, InflateStatus.OK)
    assert inflate(3, frame(0x68, 0x40, ok, size=b"\xff" * 8), LIMIT).data == want  # content size ignored
    assert inflate(3, frame(0x64, 0x40, [*ok, b"any!"]), LIMIT).status == InflateStatus.OK  # content checksum too
    assert inflate(3, frame(0x64, 0x40, [*ok, b"any"]), LIMIT)[:2] == (want, InflateStatus.CORRUPT)
    assert inflate(3, frame(0x60, 0x40, ok[:2]), LIMIT)[:2] == (want, InflateStatus.CORRUPT)  # no end mark
    for flags, descriptor in ((0x40, 0x40), (0x61, 0x40), (0x62, 0x40), (0xA0, 0x40), (0x60, 0x30), (0x60, 0xC0),
                              (0x60, 0x41)):
        assert inflate(3, frame(flags, descriptor, ok), LIMIT).status == InflateStatus.CORRUPT
    large = block(NOISE[:65537], stored=True)
    assert inflate(3, frame(0x60, 0x40, [large, END]), LIMIT).status == InflateStatus.CORRUPT
    assert inflate(3, frame(0x60, 0x50, [large, END]), LIMIT).status == InflateStatus.OK
    assert inflate(3, frame(0x60, 0x40, [block(b"a" * 65537), END]), LIMIT).status == InflateStatus.CORRUPT


def test_lz4_block_checksums_are_verified():
    packed = bytearray(lz4.frame.compress(NOISE[:100], block_linked=False, block_checksum=True, store_size=False))
    assert inflate(3, packed, LIMIT).data == NOISE[:100]
    packed[-5] ^= 1
    result = inflate(3, packed, LIMIT)
    assert result.status == InflateStatus.CORRUPT
    assert "block checksum" in result.problem


# ---- zstd


def zstd_frame(data, **options):
    return zstandard.ZstdCompressor(**options).compress(data)


def test_zstd_frames():
    sized, unsized, checked = (zstd_frame(TEXT, write_content_size=True), zstd_frame(NOISE, write_content_size=False),
                               zstd_frame(b"c" * 9, write_checksum=True))
    skippable = b"\x5a\x2a\x4d\x18\x03\0\0\0abc"
    assert inflate(4, sized, LIMIT).data == TEXT
    assert inflate(4, skippable + sized + unsized + skippable + checked, LIMIT)[:2] == (
        TEXT + NOISE + b"c" * 9, InflateStatus.OK)
    assert inflate(4, b"", LIMIT)[:2] == (b"", InflateStatus.OK)
    assert inflate(4, checked + b"x", LIMIT)[:2] == (b"c" * 9, InflateStatus.CORRUPT)
    bad = bytearray(checked)
    bad[-1] ^= 1
    assert inflate(4, bad, LIMIT).status == InflateStatus.CORRUPT
    assert inflate(4, checked + checked[:-1], LIMIT).status == InflateStatus.OK  # zstd-jni overlooks it
    assert inflate(4, unsized + unsized[:-1], LIMIT).status == InflateStatus.CORRUPT  # another input buffer


def test_zstd_streams_as_zstd_jni_writes_them():
    compressor = zstandard.ZstdCompressor(level=22).compressobj()
    packed = compressor.compress(TEXT) + compressor.flush()
    assert zstandard.get_frame_parameters(packed).window_size == 1 << 27
    assert inflate(4, packed, LIMIT).data == TEXT
    window = bytearray(packed)
    window[5] += 8  # one power of two more
    assert inflate(4, window, LIMIT).status == InflateStatus.CORRUPT


def test_zstd_content_size_is_not_believed():
    packed = bytearray(zstd_frame(TEXT[:200]))
    assert packed[4] == 0x20
    packed[5] = 100  # says less than there is
    assert inflate(4, packed, LIMIT).status == InflateStatus.CORRUPT
    huge = b"\x28\xb5\x2f\xfd\xe0" + b"\xff\xff\xff\xff\xff\xff\xff\x0f" + packed[6:]
    assert inflate(4, huge, LIMIT).status == InflateStatus.CORRUPT


@pytest.mark.parametrize("name", zstd_bytes.CASES)
def test_zstd_frames_that_no_compressor_writes(name):
    frame, count, whole = zstd_bytes.CASES[name]
    result = inflate(4, frame, 1 << 20)
    assert result.status == (InflateStatus.OK if whole else InflateStatus.CORRUPT)
    assert not whole or result.data == b"a" * count


def test_what_is_said_of_zstd_damage_does_not_depend_on_what_came_before():
    damaged = bytes.fromhex("28b52ffd0000e500000510001800046b310100fe01ffa00102046b32ea0176000100630a98")
    codecs._contexts.decompressor = None
    first = inflate(4, damaged, LIMIT)
    assert inflate(4, deflate(4, NOISE * 3) + damaged, LIMIT).status == InflateStatus.CORRUPT
    assert inflate(4, damaged, LIMIT) == first
    assert first.status == InflateStatus.CORRUPT


def test_a_zstd_frame_of_more_than_it_says_is_damaged_whatever_came_before():
    frame = zstd_bytes.head(zstd_bytes.WINDOW_2_MIB, 300) + zstd_bytes.raw(b"a" * 200) + zstd_bytes.run(b"a", 200)
    frame += zstd_bytes.raw(b"", last=True)  # the library does not count what came out in front of an empty block
    inflate(4, deflate(4, NOISE), LIMIT)
    assert inflate(4, frame, LIMIT)[:2] == (b"a" * 200, InflateStatus.CORRUPT)


# ---- bombs, threads, start-up

BOMB = """
import resource, sys, zlib
sys.path.insert(0, sys.argv[1])
import lz4.block, snappy, zstandard
from engine.record.codecs import codecs
GIB, PIECE = 1 << 30, bytes(1 << 20)
def bomb(codec):
    if codec in (1, 4):
        packer = zlib.compressobj(9, 8, 31) if codec == 1 else zstandard.ZstdCompressor().compressobj()
        return b"".join([packer.compress(PIECE) for _ in range(1024)] + [packer.flush()])
    if codec == 2:
        part = snappy.compress(PIECE)
        return codecs.deflate(2, b"") + (len(part).to_bytes(4, "big") + part) * 1024
    part = lz4.block.compress(bytes(1 << 22), store_size=False)
    head = b"\\x60\\x70"
    from engine.record.codecs.lz4 import header_checksum
    return b"\\x04\\x22\\x4d\\x18" + head + bytes((header_checksum(head),)) + (
        len(part).to_bytes(4, "little") + part) * 256 + bytes(4)
bombs = {codec: bomb(codec) for codec in (1, 2, 3, 4)}
for codec in bombs:
    codecs.inflate(codec, codecs.deflate(codec, PIECE), 1 << 21)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for codec, data in bombs.items():
    result = codecs.inflate(codec, data, 1 << 20)
    assert result.status == codecs.InflateStatus.OVER_LIMIT and len(result.data) <= 1 << 20, codec
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_bombs_stay_small():
    root = str(Path(__file__).parents[2])
    run = subprocess.run([sys.executable, "-c", BOMB, root], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 24 * 1024  # KiB beyond the bombs themselves, 4 GiB would come out


def raw_snappy(data):
    return bytes(snappy.compress(data))


@pytest.mark.parametrize("limit", [24 << 20, 64 << 20], ids=["over the limit", "all of it"])
@pytest.mark.parametrize("packed", [
    *(pytest.param((codec, deflate), id=CODEC_NAMES[codec]) for codec in COMPRESSING), pytest.param((2, raw_snappy), id="raw snappy"),
])
def test_what_comes_out_is_there_once(packed, limit):
    """And not a second time in the library's own buffer, or while the next batch is inflated."""
    codec, pack = packed
    data = bytes(40 << 20)
    body = pack(data) if pack is raw_snappy else pack(codec, data)
    head = BatchHeader(0, 0, 0, 2, 0, codec, 0, 0, 0, -1, -1, -1, 1)
    with MemoryFiles({"x.log": repaired(BATCH_HEADER.pack(head) + body) * 3}).open("x.log") as file:
        tracemalloc.start()
        reader = ChunkReader("x.log", lambda _: None, limit)
        for window in LogWalk(file):
            for _chunk in reader.chunks(window):
                pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < min(limit, len(data)) * 9 // 8 + (12 << 20), "a buffer that grows has some room at its end"


def test_threads_do_not_share_contexts():
    packed = {codec: deflate(codec, TEXT) for codec in COMPRESSING}
    wrong = []

    def work():
        for _ in range(30):
            wrong.extend(codec for codec, data in packed.items() if inflate(codec, data, LIMIT).data != TEXT)
            wrong.extend(codec for codec in COMPRESSING if inflate(codec, deflate(codec, TEXT), LIMIT).data != TEXT)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_libraries_load_at_first_use():
    code = ("import sys; sys.path.insert(0, sys.argv[1]); import engine.record.codecs.codecs; "
            "print([name for name in ('lz4', 'snappy', 'cramjam', 'zstandard') if name in sys.modules])")
    run = subprocess.run([sys.executable, "-c", code, str(Path(__file__).parents[2])], capture_output=True, text=True,
                         check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(("codec", "data", "want"), [
    (1, deflate(1, b"ab") * 5000, b"ab" * 5000),
    (2, deflate(2, b"") + b"\0\0\0\x03\x01\0a" * 5000, b"a" * 5000),
    (3, deflate(3, b"")[:7] + b"\x01\0\0\x80a" * 5000 + bytes(4), b"a" * 5000),
    (4, deflate(4, b"ab") * 5000, b"ab" * 5000),
    (4, b"\x28\xb5\x2f\xfd\0\x58" + b"\x0a\0\0a" * 5000 + b"\x01\0\0", b"a" * 5000),  # runs of one byte
    (4, b"\x50\x2a\x4d\x18\0\0\0\0" * 5000, b""),
])
def test_many_tiny_pieces(codec, data, want):
    assert inflate(codec, data, LIMIT)[:2] == (want, InflateStatus.OK)
    assert inflate(codec, data, 100)[0] == want[:100]
