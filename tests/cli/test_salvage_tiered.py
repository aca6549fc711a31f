"""A log whose older records may be in remote storage, with a leader-epoch-checkpoint that cannot be rebuilt: nothing half done."""

from __future__ import annotations

import shutil
import struct

import pytest

from engine.files import ReadOnlyFiles
from tests.support.corpus import tiered_directory
from tests.support.file_work import tree
from tests.support.json_output import objects_of
from tests.support.run import kafkalog

CHECKPOINT = "leader-epoch-checkpoint"


@pytest.fixture
def partition(tmp_path):
    """One segment from offset 1837 on, epochs 0@0 and 2@878. Whether the topic has remote storage is not known."""
    shutil.copytree(tiered_directory() / "resumed/d1/writing-0", tmp_path / "d/writing-0")
    (tmp_path / "d/log-start-offset-checkpoint").write_text("0\n1\nwriting 0 0\n")
    return tmp_path / "d/writing-0"


def move(partition, offset):
    """Give the second batch of the segment another base offset, which no checksum covers."""
    [log] = partition.glob("*.log")
    data = bytearray(log.read_bytes())
    struct.pack_into(">q", data, 12 + struct.unpack_from(">i", data, 8)[0], offset)
    log.write_bytes(data)


def lost_epochs(partition, content):
    path = partition / CHECKPOINT
    path.write_text(content) if content else path.unlink()


@pytest.mark.parametrize("content", ["", "0\n0\n", "nonsense\n"])
@pytest.mark.parametrize("words", [("--salvage",), ()])
def test_epochs_that_cannot_be_rebuilt_are_told_before_anything_changes(partition, content, words):
    move(partition, 1840)
    lost_epochs(partition, content)
    before = tree(ReadOnlyFiles(), str(partition))
    done = kafkalog("recover", *words, str(partition))
    assert done.status in (4, 8)
    assert f"copy {CHECKPOINT} from another replica of the partition" in done.err
    assert tree(ReadOnlyFiles(), str(partition)) == before
    assert "not finished" not in done.out.decode()
    assert [path.name for path in partition.parent.parent.iterdir()] == ["d"]


def test_what_was_repaired_before_is_finished_and_undone_as_a_whole(partition):
    """The epochs in the file contradict the batches: found out only when the log is open."""
    move(partition, 2**62)
    lost_epochs(partition, "0\n1\n3 0\n")
    before = tree(ReadOnlyFiles(), str(partition))
    done = kafkalog("recover", "--salvage", "--format", "jsonl", str(partition))
    assert done.status == 4
    [report] = [one for one in objects_of(done.out) if one["type"] == "report"]
    assert any(event["action"] == "kept" and "not rebuilt: no epochs of offsets 0 to 1836" in event["reason"] for event in report["events"])
    assert [path.name for path in partition.iterdir() if path.name.endswith(".deleted")] == []
    [kept] = partition.parent.parent.glob("d.quarantine-*")
    assert kafkalog("restore", str(kept)).status == 0
    assert tree(ReadOnlyFiles(), str(partition)) == before


def test_rebuilding_refuses_before_it_replaces_other_files(partition):
    lost_epochs(partition, "nonsense\n")
    [index] = partition.glob("*.timeindex")
    index.unlink()
    before = tree(ReadOnlyFiles(), str(partition))
    done = kafkalog("verify", "--rebuild", str(partition))
    assert done.status in (4, 8)
    assert f"copy {CHECKPOINT} from another replica of the partition" in done.err
    assert tree(ReadOnlyFiles(), str(partition)) == before
