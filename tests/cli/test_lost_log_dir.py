"""A broker with one dead disk: commands that change nothing show the rest, say which log dir is missing, and end with status 8."""

from __future__ import annotations

import shutil

import pytest

from tests.support.json_output import objects_of
from tests.support.permissions import without_permission
from tests.support.run import kafkalog

WAYS = ("missing", "empty", "a file", "closed")
COMMANDS = {
    "ls": ("ls",), "du": ("du",), "du by codec": ("du", "--by", "codec"), "du reclaimable": ("du", "--reclaimable"),
    "groups": ("groups",), "txn list": ("txn", "list"), "txn hanging": ("txn", "hanging"), "txn producers": ("txn", "producers"),
    "metadata cat": ("metadata", "cat"), "metadata tree": ("metadata", "tree"), "metadata verify": ("metadata", "verify"),
}  # fmt: skip


@pytest.fixture
def broker(own_corpus, tmp_path):
    """The log dirs of a broker with three of them, d0, d1 and lost, and its server.properties."""
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean", tmp_path / "disks")
    names = ",".join(str(tmp_path / "disks" / name) for name in ("d0", "lost", "d1"))
    (tmp_path / "server.properties").write_text(f"log.dirs={names}\n")
    (tmp_path / "others.properties").write_text(f"log.dirs={names}\n".replace(f"{tmp_path}/disks/lost,", ""))
    return tmp_path / "disks"


def lose(broker, way):
    lost = broker / "lost"
    if way == "a file":
        lost.write_text("")
    elif way != "missing":
        lost.mkdir()
    return lost


def run(broker, way, *words):
    lost = lose(broker, way)
    if way != "closed":
        return kafkalog(*words)
    with without_permission(lost):
        return kafkalog(*words)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_the_others_are_shown_and_the_missing_one_is_named(broker, words, way):
    rest = kafkalog(*words, "--config-file", str(broker.parent / "others.properties"))
    assert rest.out
    done = run(broker, way, *words, "--config-file", str(broker.parent / "server.properties"))
    assert done.status == 8
    assert done.out == rest.out
    [told] = [line for line in done.err.splitlines() if "[path-unreadable]" in line]
    assert told.startswith(f"error[path-unreadable] {broker}/lost: ")


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_the_same_in_json_and_for_named_paths(broker, words, by_name):
    named = [str(broker / name) for name in ("d0", "lost", "d1")]
    if words[0] == "metadata" and words[1] != "verify":
        by_name = False  # one PATH only
    done = kafkalog(*words, "--format", "jsonl", *(named if by_name else ("--config-file", str(broker.parent / "server.properties"))))
    assert done.status == 8
    [told] = [one for one in objects_of(done.out) if one.get("code") == "path-unreadable"]
    assert (told["type"], told["severity"], told["file"]) == ("finding", "error", f"{broker}/lost")


@pytest.mark.parametrize(("way", "by_name"), [*((way, False) for way in WAYS), ("missing", True), ("empty", True)])
def test_a_page_is_written_about_the_others(broker, tmp_path, way, by_name):
    named = [str(broker / name) for name in ("d0", "lost", "d1")] if by_name else ["--config-file", str(tmp_path / "server.properties")]
    done = run(broker, way, "report", "-o", str(tmp_path / "page.html"), *named)
    assert done.status in (4, 8), done.err
    page = (tmp_path / "page.html").read_text()
    assert "small_segments" in page
    assert str(broker / "lost") in page


@pytest.mark.parametrize("way", WAYS)
def test_two_sides_of_three_are_compared(own_cluster_corpus, tmp_path, way):
    sides = [shutil.copytree(own_cluster_corpus / "forks/1-forked" / name, tmp_path / name) for name in ("n1", "n2")]
    whole = kafkalog("diff", *map(str, sides))
    done = run(tmp_path, way, "diff", str(sides[0]), str(tmp_path / "lost"), str(sides[1]))
    assert (done.status, f"error[path-unreadable] {tmp_path}/lost: " in done.err) == (8, True)
    assert whole.out
    assert kafkalog("diff", str(sides[0]), str(tmp_path / "lost")).status in (2, 8), "nothing to compare with"


@pytest.mark.parametrize("way", WAYS)
def test_without_any_log_dir_the_first_error_is_the_answer(broker, way):
    shutil.rmtree(broker / "d0")
    shutil.rmtree(broker / "d1")
    done = run(broker, way, "ls", "--config-file", str(broker.parent / "server.properties"))
    assert (done.status, done.out) == (8, b"")
    assert f"{broker}/d0: No such file or directory" in done.err


def test_a_closed_log_dir_in_a_tree_does_not_hide_the_others(broker):
    (broker / "lost").mkdir()
    with without_permission(broker / "lost"):
        done = kafkalog("ls", str(broker))
    assert (done.status, b"2 log dirs" in done.out) == (8, True)
    assert f"error[path-unreadable] {broker}/lost: Permission denied" in done.err


@pytest.mark.parametrize("words", [("recover",), ("verify",), ("retain",)])
def test_commands_that_change_or_prove_something_still_refuse(broker, words):
    """A broker with a log dir less is not what was asked for."""
    done = kafkalog(*words, "--config-file", str(broker.parent / "server.properties"))
    assert done.status == 8
