"""Frames that no compressor writes: what Kafka's reader refuses, ours refuses, and takes what Kafka's takes."""

from __future__ import annotations

import pytest

from engine.formats import BATCH_HEADER, BatchHeader, Codec
from engine.record.codecs.codecs import InflateStatus, inflate
from tests.fuzz.mutate import repaired
from tests.support.zstd_bytes import CASES

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("name", CASES)
def test_kafka_takes_the_same(kafka_engine, tmp_path, name):
    frame, _, whole = CASES[name]
    head = BatchHeader(0, 0, 0, 2, 0, Codec.ZSTD, 0, 0, 0, -1, -1, -1, 1)
    (tmp_path / "x.log").write_bytes(repaired(BATCH_HEADER.pack(head) + frame))
    (line,) = kafka_engine("decode", tmp_path / "x.log")["lines"]
    assert ("Failed to decompress" not in line["error"]) == whole, "what comes out is no record, which is said otherwise"
    assert (inflate(Codec.ZSTD, frame, 1 << 20).status == InflateStatus.OK) == whole
