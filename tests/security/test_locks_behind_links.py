"""A partition that is reached through a symbolic link: the broker whose log dir it really lies in keeps everybody out."""

from __future__ import annotations

import os
import shutil

import pytest

from engine.files import ReadOnlyFiles
from tests.support.file_work import tree
from tests.support.other_process import is_held, lock_held
from tests.support.run import kafkalog

NOW = "1764000000000"
COMMANDS = {
    "append": ("append", "--input-format", "text", "--input", os.devnull),
    "compact": ("compact", "--config", "cleanup.policy=compact", "--force"),
    "delete-records": ("delete-records", "--before", "5"),
    "recover": ("recover",),
    "retain": ("retain", "--config", "retention.ms=1"),
    "roll": ("roll",),
    "truncate": ("truncate", "--to", "5"),
    "verify": ("verify", "--rebuild"),
}


@pytest.fixture
def broker(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d0", tmp_path / "broker/d0")
    (tmp_path / "broker/d0/u-rolls-0/00000000000000000000.index").write_bytes(b"")
    (tmp_path / "broker/d0/.lock").touch()
    return tmp_path / "broker/d0"


@pytest.fixture
def view(broker, tmp_path):
    (tmp_path / "view").mkdir()
    (tmp_path / "view/u-rolls-0").symlink_to(broker / "u-rolls-0")
    return tmp_path / "view"


ONE_PARTITION = ("append", "delete-records", "truncate")


@pytest.mark.parametrize(("command", "named"), [
    (command, named) for command in COMMANDS for named in ("view/u-rolls-0", "view")
    if command not in ONE_PARTITION or named != "view"
])  # fmt: skip
def test_a_running_broker_keeps_everybody_out_behind_a_link(command, named, broker, view, tmp_path):
    before = tree(ReadOnlyFiles(), str(broker))
    with lock_held(broker / ".lock"):
        done = kafkalog(*COMMANDS[command], str(tmp_path / named))
    assert (done.status, "error[log-dir-locked]" in done.err) == (8, True), done.err
    assert f"{broker}/.lock" in done.err
    assert tree(ReadOnlyFiles(), str(broker)) == before
    assert kafkalog(*COMMANDS[command], str(tmp_path / named)).status in (0, 1, 4)  # the broker has stopped


def test_a_dry_run_says_that_the_broker_runs(broker, view):
    with lock_held(broker / ".lock"):
        done = kafkalog("truncate", "--dry-run", "--to", "5", str(view / "u-rolls-0"))
    assert f"{broker}: " in done.out.decode()
    assert "another process holds this lock" in done.out.decode()


def test_what_is_restored_behind_a_link_is_locked_too(broker, view, tmp_path):
    kept = str(tmp_path / "kept")
    assert kafkalog("truncate", "--to", "5", "--quarantine", kept, str(view / "u-rolls-0")).status == 0
    before = tree(ReadOnlyFiles(), str(broker))
    with lock_held(broker / ".lock"):
        done = kafkalog("restore", kept)
    assert (done.status, "error[log-dir-locked]" in done.err) == (8, True)
    assert tree(ReadOnlyFiles(), str(broker)) == before
    assert kafkalog("restore", kept).status == 0


def test_both_log_dirs_are_let_go(broker, view):
    assert kafkalog("roll", str(view / "u-rolls-0")).status in (0, 1)
    assert not is_held(broker / ".lock")
    assert not is_held(view / ".lock")


def test_partitions_of_other_brokers_in_the_same_directory_do_not_matter(broker, view, own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d1", tmp_path / "other/d1")
    (view / "u-plain-0").symlink_to(tmp_path / "other/d1/u-plain-0")
    with lock_held(tmp_path / "other/d1/.lock"):
        assert kafkalog("roll", str(view / "u-rolls-0")).status in (0, 1)
        assert kafkalog("roll", str(view / "u-plain-0")).status == 8
