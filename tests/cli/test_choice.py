"""--topic and --partition mean the same in every command: as if the partitions had been named one by one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.json_output import all_objects
from tests.support.run import kafkalog


@pytest.fixture
def node(own_cluster_corpus, tmp_path) -> Path:
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1", tmp_path / "n1")
    return tmp_path / "n1"


def dirs(node: Path) -> tuple[str, str]:
    return str(node / "d0"), str(node / "d1")


def reported(*words: str) -> list[str]:
    """The names of the partitions that a command reports."""
    done = kafkalog(*words, "--format", "jsonl")
    assert done.status in (0, 1, 4), done.err  # 4: compact refuses topics that are not compacted, as if they had been named
    kinds = {"report": "partition", "verification": "path"}
    return [Path(one[kinds[one["type"]]]).name for one in all_objects(done.out) if one["type"] in kinds]


def files_of(node: Path) -> dict[Path, bytes]:
    return {path.relative_to(node): path.read_bytes() for path in node.rglob("*") if path.is_file() and path.name != ".lock"}


@pytest.mark.parametrize("command", [
    ("verify",), ("recover", "--dry-run"), ("retain", "--dry-run"), ("roll", "--dry-run"), ("compact", "--dry-run", "--force"),
], ids=lambda words: words[0])  # fmt: skip
def test_only_the_chosen_partitions(node, command):
    assert reported(*command, "--topic", "orders", *dirs(node)) == ["orders-1", "orders-2", "orders-0"]
    assert reported(*command, "-t", "order*", "-p", "0", "-p", "1", *dirs(node)) == ["orders-1", "orders-0"]


@pytest.mark.parametrize("command", [("recover", "--full"), ("retain", "--config", "retention.ms=1"), ("roll",)], ids=lambda words: words[0])
def test_the_files_are_as_if_the_partitions_had_been_named(node, command, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(node, other)
    options = ("--clean-start",) if command[0] != "recover" else ()
    kafkalog(*command, *options, "--now", "2026-11-28T00:00Z", "--topic", "stream-in", "--topic", "work", *dirs(node))
    kafkalog(*command, *options, "--now", "2026-11-28T00:00Z", str(other / "d1/stream-in-1"), str(other / "d1/work-0"))
    assert files_of(node) == files_of(other)


def test_settings_come_from_the_log_dir_with_the_metadata_log(node):
    """ledger has retention.ms=-1 there; of the partition alone nothing is known."""
    before = files_of(node)
    assert kafkalog("retain", "--clean-start", "-t", "ledger", *dirs(node)).status == 0
    after = files_of(node)
    assert {path for path in before if path.suffix == ".log"} == {path for path in after if path.suffix == ".log"}


@pytest.mark.parametrize("command", ["truncate", "delete-records"])
def test_an_offset_needs_one_partition(node, command):
    option = {"truncate": "--to", "delete-records": "--before"}[command]
    for choice in (("-t", "orders"), ("-p", "1"), ("-t", "order*", "-p", "1"), ("-t", "orders", "-p", "1", "-p", "2")):
        done = kafkalog(command, option, "5", *choice, *dirs(node))
        assert done.status == 2
        assert "--partition N" in done.err
    assert reported(command, option, "5", "-t", "orders", "-p", "1", *dirs(node)) == ["orders-1"]


def test_dump_log_prints_only_files_of_the_chosen_partitions(node):
    def dumped(*words: str) -> set[str]:
        return {Path(one["path"]).parent.name for one in all_objects(kafkalog("dump-log", "--format", "jsonl", *words).out) if one["type"] == "file"}

    assert dumped("-t", "orders", *dirs(node)) == {"orders-0", "orders-1", "orders-2"}
    assert dumped("-t", "moving", str(node / "d0")) == {next((node / "d0").glob("moving-0.*-delete")).name}
    assert dumped("-t", "__cluster_metadata", *dirs(node)) == {"__cluster_metadata-0"}
    assert "__cluster_metadata-0" not in dumped("-p", "0", *dirs(node))
    assert dumped("-t", "orders", str(node / "d0/orders-1"), str(node / "d0/again-0")) == {"orders-1"}
    log = next((node / "d0/again-0").glob("*.log"))
    assert dumped("-t", "orders", str(log)) == set()


def test_grep_searches_the_chosen_partitions(node):
    found = kafkalog("grep", "-l", "-t", "orders", "-p", "0", "-p", "2", "k", *dirs(node)).out.decode().splitlines()
    assert [Path(path).parent.name for path in found] == ["orders-2", "orders-0"]


def test_fetch_reads_by_number_alone(node):
    rows = [one for one in all_objects(kafkalog("fetch", "-p", "2", "--format", "jsonl", *dirs(node)).out) if one["type"] == "fetched-record"]
    assert {(one["topic"], one["partition"]) for one in rows} == {("orders", 2), ("ledger", 2)}


@pytest.mark.parametrize("command", ["verify", "recover", "retain", "roll", "compact", "fetch", "ls", "du"])
def test_no_such_partition_is_wrong_usage(node, command):
    before = files_of(node)
    done = kafkalog(command, "-t", "order", *dirs(node))
    assert done.status == 2
    assert "no partition of topic order was found" in done.err
    assert "name one of the topics found: " in done.err
    assert files_of(node) == before


def test_a_pattern_does_not_mean_the_metadata_log(node):
    assert "__cluster_metadata-0" not in reported("recover", "--dry-run", "-t", "*", *dirs(node))
    assert reported("recover", "--dry-run", "-t", "__cluster_metadata", *dirs(node)) == ["__cluster_metadata-0"]


def test_a_part_is_not_marked_as_clean(node):
    done = kafkalog("recover", "--mark-clean", "-t", "orders", *dirs(node))
    assert done.status == 2
    assert "--mark-clean marks a whole log dir" in done.err
