from __future__ import annotations

import pytest

from engine.checkpoint.checkpoints import EpochEntry, MalformedCheckpoint
from engine.files import Files
from engine.log.append_errors import IllegalArgument
from engine.log.epochs.leader_epoch_cache import LeaderEpochFileCache


@pytest.fixture
def path(tmp_path):
    return tmp_path / "leader-epoch-checkpoint"


def cache(path, *entries):
    opened = LeaderEpochFileCache(Files(), str(path.parent))
    for epoch, offset in entries:
        opened.assign(epoch, offset)
    return opened


def test_opening_leaves_an_empty_file(path):
    opened = cache(path)
    assert path.read_bytes() == b""
    assert (opened.is_empty, opened.latest_epoch) == (True, None)


def test_what_is_assigned_is_written(path):
    cache(path, (0, 0), (2, 10), (2, 12))
    assert path.read_text() == "0\n2\n0 0\n2 10\n"
    assert cache(path).entries == [EpochEntry(0, 0), EpochEntry(2, 10)]


@pytest.mark.parametrize(
    ("entry", "left"),
    [
        ((3, 30), [(0, 0), (2, 10), (3, 30)]),
        ((1, 30), [(0, 0), (1, 30)]),
        ((3, 10), [(0, 0), (3, 10)]),
        ((2, 9), [(0, 0), (2, 9)]),
        ((5, 0), [(5, 0)]),
    ],
)
def test_entries_that_do_not_lie_before_a_new_one_go(path, entry, left):
    assert cache(path, (0, 0), (2, 10), entry).entries == [EpochEntry(*each) for each in left]


@pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
def test_negative_entries(path, entry):
    with pytest.raises(IllegalArgument, match="Received invalid partition leader epoch entry EpochEntry"):
        cache(path, entry)


def test_truncate(path):
    opened = cache(path, (0, 0), (2, 10), (5, 20))
    opened.truncate_from_end(21)
    assert len(opened.entries) == 3
    opened.truncate_from_end(20)
    assert path.read_text() == "0\n2\n0 0\n2 10\n"
    opened.truncate_from_start(9)
    assert path.read_text() == "0\n2\n0 9\n2 10\n"
    opened.truncate_from_start(10)
    assert path.read_text() == "0\n1\n2 10\n"
    opened.truncate_from_start(15)
    assert path.read_text() == "0\n1\n2 15\n"
    opened.clear_and_flush()
    assert path.read_text() == "0\n0\n"


@pytest.mark.parametrize("text", ["", "0\n", "0\n0\n", "0\n1\n1 2"])
def test_files_that_kafka_reads(path, text):
    path.write_text(text)
    assert len(cache(path).entries) == ("1 2" in text)


@pytest.mark.parametrize("text", ["1\n0\n", "0\nx\n", "0\n2\n0 0\n", "0\n1\n0 0 0\n", "0\n1\n0 0\n1 1\n", "x", "0\n1\n0\n", "0\n\n"])
def test_files_that_kafka_can_not_read(path, text):
    path.write_text(text)
    with pytest.raises(MalformedCheckpoint):
        cache(path)
    assert path.read_text() == text


def test_entries_out_of_order_are_assigned_one_by_one(path):
    path.write_text("0\n3\n4 0\n2 10\n3 20\n")
    assert cache(path).entries == [EpochEntry(2, 10), EpochEntry(3, 20)]
