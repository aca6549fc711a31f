"""Chunks of records: the same ones, however batches are compressed, mixed and inflated together."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.formats import BATCH_HEADER, CODEC_NAMES, LOG_OVERHEAD, Codec, RecordField
from engine.record.builder import NewRecord, build_batch
from engine.record.reader import _ARENA, ChunkReader
from engine.record.windows import LogWalk
from tests.fuzz.mutate import repaired
from tests.support.memory_files import MemoryFiles

NOISE = random.Random(7).randbytes(600_000)  # bytes that no codec makes smaller
TEXT = b"a record among many; " * 30_000
SIZES = (0, 10, 3000, 70_000, 200_000, _ARENA - 100, 600_000)
BATCH = st.tuples(st.sampled_from(list(Codec)), st.lists(st.sampled_from(SIZES), min_size=1, max_size=3), st.booleans())


def records_of(log, limit):
    """((offset, value), …) of a log, and (code, offset) of what is found wrong."""
    files, findings = MemoryFiles({"x.log": log}), []
    reader = ChunkReader("x.log", lambda finding: findings.append((finding.code, finding.where.offset)), limit)
    shown = [
        (chunk.records.table[RecordField.OFFSET, record], chunk.value(record))
        for window in LogWalk(files.open("x.log"), 0, len(log))
        for chunk in reader.chunks(window)
        for record in range(chunk.first, chunk.end)
    ]
    return shown, findings


def written(batches):
    """A log of (codec, sizes of values, do they compress), and for each batch (base offset, inflated bytes, records)."""
    log, offset, told = [], 0, []
    for codec, sizes, compresses in batches:
        values = [(TEXT if compresses else NOISE)[:size] for size in sizes]
        records = [NewRecord(offset + index, 1000, None, value) for index, value in enumerate(values)]
        size = 0 if codec == Codec.NONE else len(build_batch(records)) - BATCH_HEADER.size
        log.append(build_batch(records, codec=codec))
        told.append((offset, size, [(record.offset, record.value) for record in records]))
        offset += len(records)
    return b"".join(log), told


@given(batches=st.lists(BATCH, max_size=12), limit=st.sampled_from([100, 150_000, _ARENA, 500_000, 1 << 24]))
@example(batches=[(Codec.ZSTD, [70_000], True)] * 8, limit=1 << 24)  # more than there is room for at a time
@example(batches=[(Codec.ZSTD, [70_000], True)] * 8, limit=60_000)
@example(batches=[(Codec.ZSTD, [10], False), (Codec.ZSTD, [600_000], True), (Codec.ZSTD, [10], True)], limit=500_000)
@example(batches=[(Codec.ZSTD, [600_000], False), (Codec.ZSTD, [10], True), (Codec.LZ4, [10], True)] * 2, limit=1 << 24)
def test_any_mixture(batches, limit):
    log, told = written(batches)
    shown, findings = records_of(log, limit)
    assert shown == [record for _, size, records in told if size <= limit for record in records]
    assert findings == [("over-limit", offset) for offset, size, _ in told if size > limit]


@pytest.mark.parametrize("codec", list(Codec)[1:], ids=CODEC_NAMES[1:])
def test_damage_between_sound_batches_costs_that_batch(codec):
    good = [build_batch([NewRecord(offset, 1000, None, TEXT[:3000])], codec=codec) for offset in range(5)]
    bad = bytearray(good[2])
    bad[BATCH_HEADER.size : BATCH_HEADER.size + 4] = b"\xee" * 4  # where the codec's own bytes begin
    good[2] = bytes(repaired(bad))
    assert len(good[2]) == LOG_OVERHEAD + BATCH_HEADER.read(good[2]).batch_length
    shown, findings = records_of(b"".join(good), 1 << 24)
    assert [offset for offset, _ in shown] == [0, 1, 3, 4]
    assert findings == [("decompression-failed", 2)]
