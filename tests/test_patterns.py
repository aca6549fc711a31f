"""Quoted patterns, against Python's own glob over the same tree."""

import glob
import os

import pytest

from engine.discovery.patterns import expand
from engine.files import ReadOnlyFiles
from tests.support.json_output import all_objects
from tests.support.permissions import without_permission
from tests.support.run import kafkalog

PATTERNS = ["*", "*-0", "t*/*.log", "t-[01]/*", "?-0/0.log", "t-0", "t-0/0.log", "no/*", "t-0/*/x", "*/.hid*", "*/0.log", "./t*"]


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name in ("t-0/0.log", "t-0/10.log", "t-1/0.log", "u-0/0.log", "t-0/.hidden", "a[1]-0/0.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("absolute", [False, True])
def test_like_glob(tree, pattern, absolute):
    pattern = f"{tree}/{pattern.removeprefix('./')}" if absolute else pattern
    found = [os.path.normpath(path) for path in expand(ReadOnlyFiles(), pattern)]
    wanted = [os.path.normpath(path) for path in glob.glob(pattern)] or [os.path.normpath(pattern)]
    assert sorted(found) == sorted(wanted)


def test_what_exists_is_no_pattern(tree):
    assert expand(ReadOnlyFiles(), "a[1]-0") == ["a[1]-0"]


def test_segments_come_in_order(tree):
    assert expand(ReadOnlyFiles(), "t-0/*.log") == ["t-0/0.log", "t-0/10.log"]


def test_closed_directories_come_as_themselves(tree):
    with without_permission(tree / "t-0"):
        assert expand(ReadOnlyFiles(), "t-0/*") == ["t-0"]
        assert expand(ReadOnlyFiles(), "?-[01]/0*.log") == ["t-0", "t-1/0.log", "u-0/0.log"]
        assert expand(ReadOnlyFiles(), "t-?/0.log") == ["t-0/0.log", "t-1/0.log"]


@pytest.mark.parametrize("pattern", ["closed-0/*", "*/*"])
def test_what_is_closed_is_said_and_the_rest_dumped(own_corpus, tmp_path, pattern):
    """Kafka's own tool knows no patterns; a closed directory is an error with a status, whoever expands its name."""
    log = (own_corpus / "kafka-4.3.1/logs/clean/d1/small_segments-0/00000000000000000022.log").read_bytes()
    for name in ("closed-0", "open-0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000022.log").write_bytes(log)
    with without_permission(tmp_path / "closed-0"):
        done = kafkalog("dump-log", "--format", "jsonl", pattern, "open-0", cwd=tmp_path)
    objects = all_objects(done.out)[1:]
    assert done.status == 8
    assert done.err.startswith("error[unreadable-file] closed-0: Permission denied")
    assert {"open-0/00000000000000000022.log"} == {one["path"] for one in objects if one["type"] == "file"}
    assert (objects[-1]["type"], objects[-1]["exit_status"]) == ("end", 8)


def test_on_the_command_line(own_corpus):
    logs = own_corpus / "kafka-4.3.1/logs"
    done = kafkalog("dump-log", "--count", "clean/d1/small_seg*-0/*2.log", cwd=logs)
    assert done.out.startswith(b"clean/d1/small_segments-0/00000000000000000022.log: 20 records")
    assert kafkalog("dump-log", "clean/d9/*", cwd=logs).status == 8
