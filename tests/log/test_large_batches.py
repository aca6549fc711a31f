"""Batches beyond what readers take by default are cleaned as others are, where they are sound and there is memory for them."""

from __future__ import annotations

import pytest

from engine.config.topic import LogConfig
from engine.files import Files
from engine.formats import Codec
from engine.log.cleaner import walk
from engine.log.cleaner.compaction import CompactionOptions, compact
from engine.log.cleaner.outcome import Uncleanable
from engine.log.loading.loader import open_log
from engine.record.builder import NewRecord, build_batch
from tests.support.live_keys import last_records, lost_keys

NOW = 1_700_000_100_000
LARGE = 3 << 20


@pytest.fixture(autouse=True)
def _lower(monkeypatch):
    """Limits that tests reach in no time."""
    monkeypatch.setattr(walk, "MAX_BATCH_BYTES", 2 << 20)
    monkeypatch.setattr(walk, "MAX_DECOMPRESSED_BYTES", 2 << 20)


def logs(directory):
    return {path.name: path.read_bytes() for path in directory.glob("*.log")}


def write(directory, codec):
    """A large batch between small ones; the first of its records is superseded."""
    directory.mkdir()
    def small(base, key):
        return build_batch([NewRecord(base, NOW, key, b"v")])

    third = bytes(LARGE // 3)
    large = build_batch([NewRecord(1 + n, NOW, key, third) for n, key in enumerate((b"a", b"b", b"c"))], codec=codec)
    (directory / f"{0:020}.log").write_bytes(small(0, b"b") + large + small(4, b"a"))
    (directory / f"{5:020}.log").write_bytes(small(5, b"d"))
    return logs(directory)


def cleaned(directory, **settings):
    log = open_log(Files(), str(directory), LogConfig.of({"cleanup.policy": "compact", **settings}), now=NOW, clean_shutdown=False)
    try:
        log.update_high_watermark(log.log_end_offset)
        return compact(log, CompactionOptions(force=True), lambda _: None, lambda _: None)
    finally:
        log.close()


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD, Codec.GZIP])
def test_a_large_batch_is_cleaned(tmp_path, codec):
    before = write(tmp_path / "t-0", codec)
    if codec == Codec.NONE:
        assert max(map(len, before.values())) > LARGE
        done = cleaned(tmp_path / "t-0")
    else:
        done = cleaned(tmp_path / "t-0", **{"max.message.bytes": str(LARGE + 1000)})
    assert done.clean_until == 5
    assert [stats.messages_written for stats in done.rounds] == [3]
    assert lost_keys(before, logs(tmp_path / "t-0")) == []
    assert {key: last.offset for key, last in last_records(logs(tmp_path / "t-0")).items()} == {b"a": 4, b"b": 2, b"c": 3, b"d": 5}


def test_one_that_inflates_too_far_is_no_damage(tmp_path):
    before = write(tmp_path / "t-0", Codec.ZSTD)
    with pytest.raises(Uncleanable) as refused:
        cleaned(tmp_path / "t-0")
    assert refused.value.finding.code == "inflates-too-far"
    assert "--config max.message.bytes=N" in refused.value.do
    assert "recover" not in str(refused.value.do)
    assert logs(tmp_path / "t-0") == before


def test_a_size_field_that_lies_takes_no_memory(tmp_path, monkeypatch):
    """What stands there has a wrong checksum: only its header is in memory when that is known."""
    sizes, directory = [], tmp_path / "t-0"
    data = bytearray(write(directory, Codec.NONE)[f"{0:020}.log"])

    class Measured(walk.LogWalk):
        def __init__(self, *arguments, **options):
            sizes.append(options["max_batch_bytes"])
            super().__init__(*arguments, **options)

    log = open_log(Files(), str(directory), LogConfig.of({"cleanup.policy": "compact"}), now=NOW, clean_shutdown=False)
    log.update_high_watermark(log.log_end_offset)
    data[len(data) // 2] ^= 1  # behind the opening, in the large one
    (directory / f"{0:020}.log").write_bytes(data)
    monkeypatch.setattr(walk, "LogWalk", Measured)
    with pytest.raises(Uncleanable) as refused:
        compact(log, CompactionOptions(force=True), lambda _: None, lambda _: None)
    log.close_handlers()
    assert refused.value.finding.code == "crc-mismatch"
    assert sizes == [walk.MAX_BATCH_BYTES]
