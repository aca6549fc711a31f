"""Damage so thick with what only looks like batches that the search behind it gives up: whoever searches says so."""

from __future__ import annotations

import pytest

from engine.formats import BATCH_HEADER
from engine.record.builder import NewRecord, build_batch
from tests.support.run import kafkalog

NOW = "1764000000000"
SIZE = 1 << 19
SOUND = build_batch([NewRecord(0, 5, None, b"v")])
CLAIM = BATCH_HEADER.pack(BATCH_HEADER.read(SOUND)._replace(batch_length=SIZE, crc=1)) + SOUND[BATCH_HEADER.size :]
CLAIM_07 = SIZE.to_bytes(4, "big") + bytes([1, 0]) + b"\0\0\0\1"


def thick(claim):
    return b"\xff" * 12 + bytes(18) + claim * (2 * SIZE // len(claim))


@pytest.fixture
def partition(tmp_path):
    """A sound batch, bytes through which the search does not come, and another one; then a segment that is sound."""
    directory = tmp_path / "data/t-0"
    directory.mkdir(parents=True)
    behind = build_batch([NewRecord(9, 5, None, b"v")])
    (directory / "00000000000000000000.log").write_bytes(SOUND + thick(CLAIM) + behind)
    (directory / "00000000000000000010.log").write_bytes(build_batch([NewRecord(10, 5, None, b"v")]))
    return directory


@pytest.mark.parametrize(("words", "status"), [([], 4), (["--salvage"], 1)])  # the segment behind stays: a hole is left
def test_recover_does_not_say_that_it_knows_what_is_lost(partition, words, status):
    done = kafkalog("recover", "--now", NOW, *words, str(partition))
    assert done.status == status
    action = "salvaged" if words else "truncated"
    [line] = [line for line in done.out.decode().splitlines() if line.startswith(f"  {action} ")]
    assert "the search for sound batches stopped at its work limit at byte " in line


def test_a_search_that_comes_to_its_end_says_nothing(partition):
    (partition / "00000000000000000000.log").write_bytes(SOUND + b"\xff" * 100)
    assert b"stopped at its work limit" not in kafkalog("recover", "--now", NOW, str(partition)).out


def test_recovery_of_a_log_of_0_7(tmp_path):
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0/00000000000000000000.kafka").write_bytes(thick(CLAIM_07))
    done = kafkalog("recover", "--now", NOW, str(tmp_path / "t-0"))
    assert "the search for sound batches stopped at its work limit at byte " in done.out.decode()
