"""A batch that cannot be read is refused, though the map is full soon behind it: else it would go as superseded."""

from __future__ import annotations

import pytest
import zstandard

from engine.config.topic import LogConfig
from engine.files import Files
from engine.formats import BATCH_HEADER, Codec
from engine.log.cleaner import key_pass
from engine.log.cleaner.compaction import CompactionOptions, compact
from engine.log.cleaner.offset_map import BYTES_PER_ENTRY
from engine.log.cleaner.outcome import Uncleanable
from engine.log.loading.loader import open_log
from engine.record.builder import NewRecord, build_batch
from tests.fuzz.mutate import repaired

NOW = 1_700_000_100_000


def batch(offset, codec):
    """Of a key of its own, but for offset 1: its key comes again."""
    return build_batch([NewRecord(offset, NOW, b"key %d" % {1: 2}.get(offset, offset), b"value")], codec=codec)


def with_body(data, body):
    return repaired(data[: BATCH_HEADER.size] + body)


def broken_record(offset):
    """Its first length is larger than what there is."""
    data = batch(offset, Codec.NONE)
    return with_body(data, b"\x7e" + data[BATCH_HEADER.size + 1 :])


def cut_frame(offset):
    data = batch(offset, Codec.GZIP)
    return with_body(data, data[BATCH_HEADER.size : -9])


def wrong_content(offset):
    """All records come out, and then the frame's checksum does not match."""
    records = batch(offset, Codec.NONE)[BATCH_HEADER.size :]
    frame = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(records))
    frame[-1] ^= 1
    return with_body(batch(offset, Codec.ZSTD), bytes(frame))


@pytest.mark.parametrize("by_window", [True, False])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
@pytest.mark.parametrize("damaged", [broken_record, cut_frame, wrong_content])
def test_it_is_refused(tmp_path, monkeypatch, damaged, codec, by_window):
    if not by_window:
        monkeypatch.setattr(key_pass._KeyPass, "_ordinary", lambda *_: 0)
    sound = batch(0, codec)
    data = sound + damaged(1) + b"".join(batch(offset, codec) for offset in range(2, 8))
    active = batch(8, Codec.NONE)
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(data)
    (directory / f"{8:020}.log").write_bytes(active)
    log = open_log(Files(), str(directory), LogConfig.of({"cleanup.policy": "compact"}), now=NOW, clean_shutdown=True)
    try:
        log.update_high_watermark(log.log_end_offset)
        options = CompactionOptions(force=True, dedupe_buffer_size=5 * BYTES_PER_ENTRY)
        with pytest.raises(Uncleanable) as refused:
            compact(log, options, lambda _: None, lambda _: None)
    finally:
        log.close()
    assert refused.value.finding.where.position == len(sound)
    assert (directory / f"{0:020}.log").read_bytes() == data
