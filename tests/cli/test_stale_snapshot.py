"""A log whose newest producer snapshot is old: what does not append keeps no batches of producers. There may be a million."""

from __future__ import annotations

import pytest

from engine.log.producers import state_manager
from tests.support.run import kafkalog

NOW = "1700000000000"


@pytest.fixture
def partition(tmp_path):
    """Two segments of one producer, the second behind the newest snapshot."""
    (tmp_path / "in").write_text("one\ntwo\n")
    partition = tmp_path / "t-0"
    for _ in range(2):
        done = kafkalog("append", "--create", "--now", NOW, "--input-format", "text", "--input", str(tmp_path / "in"),
                        "--producer-id", "7", str(partition))  # fmt: skip
        assert done.status == 0, done.err
        assert kafkalog("roll", "--clean-start", "--now", NOW, str(partition)).status == 0
    for snapshot in sorted(partition.glob("*.snapshot"))[1:]:
        snapshot.unlink()
    return partition


@pytest.mark.parametrize(
    "words", [("retain",), ("roll",), ("truncate", "--to", "3"), ("delete-records", "--before", "1")], ids=lambda words: words[0]
)
def test_producers_are_taken_from_the_batches_as_rows(partition, monkeypatch, words):
    monkeypatch.setattr(state_manager, "ProducerAppendInfo", None)
    done = kafkalog(*words, "--clean-start", "--now", NOW, str(partition))
    assert done.status == 0, done.err
    assert max(partition.glob("*.snapshot")).stat().st_size == 56, "with its producer"
