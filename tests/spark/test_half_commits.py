"""A commit of the sink that was stopped in the middle: who changes such a log dir refuses, who reads it is told."""

from __future__ import annotations

import logging
import shutil

import pytest

from engine.discovery.paths import STAGING, HalfCommitted, discover, half_commit
from engine.errors import UnwritableFile
from engine.files import Files
from engine.log.commits import staging
from engine.log.commits.commit import NotUndone, _Commit
from engine.log.logdir.log_dirs import locked
from kafkalog_spark.table.options import read_options
from kafkalog_spark.table.partitions import OpenPaths
from tests.support.run import kafkalog
from tests.support.sink_runs import SinkRun, batch, read

FILES = Files()
BEFORE = {"t-0": [(0, b"a")], "u-0": [(0, b"b")]}


def write(root, name, topics, **how):
    SinkRun(FILES, root, name=name).write([batch(value=[topic.encode() for topic in topics], topic=topics, partition=[0] * len(topics))], **how)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A log dir with all of a commit published that did not hold, nor was undone."""
    path = str(tmp_path / "logs")
    SinkRun(FILES, path, name="first").write([batch(value=[b"a", b"b"], topic=["t", "u"], partition=[0, 0])])
    publish = _Commit._publish

    def published(*arguments, **values):
        publish(*arguments, **values)
        raise ValueError("stopped")

    def fail(*_):
        raise UnwritableFile("stopped again")

    with monkeypatch.context() as patch, pytest.raises(NotUndone):
        patch.setattr(_Commit, "_publish", published)
        patch.setattr(staging, "roll_back", fail)
        write(path, "failing", ["t", "n"])
    assert len(read(FILES, path)) == 3
    return path


def test_who_changes_the_log_dir_refuses(root):
    with pytest.raises(HalfCommitted, match="did not finish its commit") as refused, locked(FILES, [root]):
        pytest.fail("it was given the lock")
    assert refused.value.do.startswith(f"kafkalog restore {root}")
    for words in (["roll", f"{root}/t-0"], ["recover", root], ["retain", root], ["compact", root]):
        done = kafkalog(*words)
        assert done.status == 8, words
        assert "half-committed" in done.err
        assert "kafkalog restore" in done.err
    assert len(read(FILES, root)) == 3


def test_who_reads_it_is_told(root, caplog):
    assert "half-committed" in {finding.code for finding in discover(FILES, root).findings}
    with caplog.at_level(logging.WARNING, logger="kafkalog"):
        assert len(OpenPaths(read_options({"path": str(root)})).partition_dirs()) == 3
    assert "did not finish its commit" in caplog.text
    said = kafkalog("verify", root)
    assert said.status == 4
    assert b"half-committed" in said.out + said.err.encode()


def test_nobody_is_told_to_move_it_away(root):
    said = kafkalog("recover", "--dry-run", root)
    assert "somewhere outside" not in said.out.decode() + said.err


@pytest.mark.parametrize("command", [("restore",), ("spark", "undo")])
def test_it_is_undone_without_spark(root, command):
    done = kafkalog(*command, root)
    assert (done.status, b": undone: " in done.out) == (1, True)
    assert read(FILES, root) == BEFORE
    again = kafkalog("restore", root)
    assert (again.status, "not a quarantine" in again.err) == (8, True)
    with locked(FILES, [root]):
        pass


def test_a_path_that_is_not_there_is_named(tmp_path):
    done = kafkalog("restore", str(tmp_path / "no"))
    assert done.status == 8
    assert str(tmp_path / "no") in done.err


def test_a_partition_that_somebody_removed_keeps_nobody_from_undoing_the_rest(root):
    shutil.rmtree(f"{root}/t-0")
    write(root, "next", ["u"])
    assert read(FILES, root) == {"u-0": [(0, b"b"), (1, b"u")]}


def test_a_commit_that_failed_and_was_undone_is_not_undone_once_more(tmp_path, monkeypatch):
    root = str(tmp_path / "logs")
    write(root, "first", ["t"])

    def fail(*_arguments, **_values):
        raise ValueError("stopped")

    with monkeypatch.context() as patch, pytest.raises(ValueError, match="stopped"):
        patch.setattr(_Commit, "_publish", fail)
        write(root, "failing", ["t"])
    assert half_commit(FILES, root) is None
    assert not [name for name in FILES.list(f"{root}/{STAGING}/failing") if name == "commit.json"]
    with locked(FILES, [root]):
        pass
