"""`kafkalog du` adds up every byte once, and finds what can be removed by the rules of `retain`."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from engine.files import ReadOnlyFiles
from engine.formats import CODEC_NAMES, Codec
from engine.overview.recompression import estimate
from engine.overview.usage import LOG, UsedFile
from tests.support.cluster import log_dir_sizes, told_states
from tests.support.json_output import SCHEMA, all_objects
from tests.support.run import kafkalog


def used(*words: str, cwd: Path | None = None) -> list[dict]:
    done = kafkalog("du", "--format", "jsonl", *words, cwd=cwd)
    assert done.status == 0, done.err
    return [one for one in all_objects(done.out) if one["type"] not in ("begin", "end")]


def names(rows: list[dict]) -> dict[str, dict]:
    return {one["name"]: one for one in rows}


@pytest.fixture
def node(own_cluster_corpus, tmp_path) -> Path:
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1", tmp_path / "n1")
    return tmp_path / "n1"


@pytest.mark.parametrize("by", ["topic", "partition", "segment", "kind"])
def test_every_byte_counts_once(own_cluster_corpus, by):
    node = own_cluster_corpus / "ops/1-stopped/n1"
    size = sum(path.stat().st_size for log_dir in ("d0", "d1") for path in (node / log_dir).rglob("*") if path.is_file())
    rows = used("--by", by, str(node))
    total = rows.pop()
    assert total["by"] == "total"
    for name in ("log_bytes", "beside_bytes", "left_over_bytes", "allocated_bytes", "segments"):
        assert sum(one[name] for one in rows) == total[name]
    assert total["log_bytes"] + total["beside_bytes"] + total["left_over_bytes"] == size


def test_logs_are_what_kafka_log_dirs_counts(cluster_corpus):
    for state, truth in told_states(cluster_corpus):
        for node in sorted(path.name for path in state.glob("n*")):
            theirs = {}
            for (log_dir, partition, _), size in log_dir_sizes(truth).items():
                if log_dir.startswith(f"{node}/"):
                    topic = partition.rpartition("-")[0]
                    theirs[topic] = theirs.get(topic, 0) + size
            found = {name: one["log_bytes"] for name, one in names(used("--by", "topic", node, cwd=state)).items()}
            assert {topic: found[topic] for topic in theirs} == theirs


@pytest.mark.parametrize("by", ["codec", "hour", "producer", "key-prefix:3"])
def test_groups_of_batches_add_up_to_the_logs(own_cluster_corpus, by):
    node = str(own_cluster_corpus / "ops/1-stopped/n1")
    rows = used("--by", by, node)
    total = rows.pop()
    assert total["log_bytes"] == names(used("--by", "kind", node))["log"]["log_bytes"]
    for name in ("log_bytes", "records"):
        assert sum(one[name] for one in rows) == total[name]
    assert total["records"] == records_of_live_logs(node)


def records_of_live_logs(node: str) -> int:
    """As dump-log shows the headers of their batches."""
    records, counts = 0, False
    for one in all_objects(kafkalog("dump-log", "--format", "jsonl", node).out):
        if one["type"] == "file":
            counts = one["kind"] == "log" and not one["suffix"] and "-delete/" not in one["path"]
        elif one["type"] == "batch" and counts and not one["is_control"]:
            records += one["count"]
    return records


def test_kinds_of_left_over_files(node):
    (node / "d0/orders-1/00000000000000000000.log.deleted").write_bytes(b"x" * 7)
    (node / "d0/orders-1/00000000000000000000.index.cleaned").write_bytes(b"x" * 5)
    (node / "d0/orders-1/core.123").write_bytes(b"x" * 11)
    (node / "d0/lost+found").mkdir()
    (node / "d0/lost+found/#1").write_bytes(b"x" * 13)
    (node / "d0/moved-0").rename(node / f"d0/moved-0.{'a' * 32}-stray")
    before = names(used("--by", "kind", str(node)))
    assert before["unfinished"]["left_over_bytes"] == 5
    assert before["foreign"]["left_over_bytes"] == 24
    assert before["stray-dir"]["left_over_bytes"] == sum(path.stat().st_size for path in next((node / "d0").glob("*-stray")).iterdir())
    assert before["deleted"]["left_over_bytes"] >= 7


def test_preallocated_indexes_take_less_on_the_disk(node):
    index = next((node / "d0/orders-1").glob("*.index"))
    os.truncate(index, 10 << 20)
    row = names(used("--by", "partition", "-t", "orders", "-p", "1", str(node)))[str(node / "d0/orders-1")]
    assert row["beside_bytes"] > 10 << 20
    assert row["allocated_bytes"] < 1 << 20


def test_a_range_of_times_selects_batches(own_cluster_corpus):
    node = str(own_cluster_corpus / "ops/1-stopped/n1")
    every = names(used("--by", "hour", node))
    middle = used("--by", "hour", "--time", "2025-01-01..", node)
    assert names(middle)["total"]["log_bytes"] == sum(one["log_bytes"] for name, one in every.items() if name > "2025" and name != "total")
    assert kafkalog("du", "--time", "2025-01-01..", node).status == 2


def test_the_top_and_the_others(own_cluster_corpus):
    node = str(own_cluster_corpus / "ops/1-stopped/n1")
    *rows, others, total = used("--top", "2", node)
    assert [one["by"] for one in rows] == ["topic", "topic"]
    assert others["by"] == "others"
    for name in ("log_bytes", "beside_bytes", "left_over_bytes"):
        assert sum(one[name] for one in (*rows, others)) == total[name]


@pytest.mark.parametrize("by", ["size", "key-prefix:0", "key-prefix:2000", "topic:3", "key-prefix:x"])
def test_other_groups_are_refused(tmp_path, by):
    done = kafkalog("du", "--by", by, str(tmp_path))
    assert done.status == 2
    assert "is not one of topic" in done.err


# ---- what can be removed


def test_retention_is_that_of_retain(node):
    settings = ("--config", "retention.ms=1000", "--now", "2026-11-28T00:00Z")
    found = [one for one in used("--reclaimable", *settings, str(node)) if one["when"] == "next-check"]
    plan = kafkalog("retain", "--dry-run", "--clean-start", "--format", "jsonl", *settings, str(node / "d0"), str(node / "d1"))
    expected = {}
    for one in all_objects(plan.out):
        if one["type"] == "report" and one["operation"] == "retain":
            removed = [event["bytes"] for event in one["events"] if event["action"] == "removed" and event["file"].endswith(".log")]
            if removed:
                expected[one["partition"]] = sum(removed)
    assert {one["path"]: one["bytes"] for one in found} == expected
    assert len(expected) > 10


def test_the_proposed_command_removes_as_much(node):
    settings = ("--config", "retention.ms=1000")
    for one in used("--reclaimable", *settings, str(node / "d0"), str(node / "d1")):
        if one["when"] == "next-check":
            before = sum(path.stat().st_size for path in Path(one["path"]).glob("*.log"))
            words = one["do"].split()
            assert kafkalog(*words[1:]).status in (0, 1)
            assert before - sum(path.stat().st_size for path in Path(one["path"]).glob("*.log")) == one["bytes"]


def test_the_proposed_command_removes_the_files_of_deleted_segments_and_no_segment(node):
    def logs():
        return sorted(node.rglob("*.log"))

    found, before = [one for one in used("--reclaimable", str(node)) if one["when"] == "next-start"], logs()
    for one in found:
        waiting = [path.stat().st_size for path in Path(one["path"]).glob("*.deleted")]
        assert (sum(waiting) > 0, kafkalog(*one["do"].split()[1:]).status) == (True, 1)
    assert (len(found), list(node.rglob("*.deleted")), logs()) == (2, [], before)


def test_without_the_settings_of_topics_nothing_is_said_of_retention(node):
    rows = used("--reclaimable", str(node / "d1"))
    assert "next-check" not in {one["when"] for one in rows}
    [unknown] = [one for one in rows if one["when"] == "unknown"]
    assert unknown["bytes"] == 0
    assert "retention" in unknown["why"]


def test_the_metadata_log_is_found_in_the_other_log_dirs_of_server_properties(node, tmp_path):
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={node}/d0,{node}/d1\n")
    now = ("--now", "2030-01-01T00:00Z")
    both = used("--reclaimable", *now, str(node / "d0"), str(node / "d1"))
    one = used("--reclaimable", *now, "--config-file", str(config), str(node / "d1"))
    assert {(each["path"], each["bytes"], each["when"]) for each in one} == {
        (each["path"], each["bytes"], each["when"]) for each in both if each["path"].startswith(f"{node}/d1")}  # fmt: skip
    assert "unknown" not in {each["when"] for each in one}


def test_nothing_is_changed(node):
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in node.rglob("*")}
    for words in ((), ("--by", "codec"), ("--by", "key-prefix"), ("--reclaimable", "--config", "retention.ms=1"), ("--recompress", "all")):
        used(*words, str(node))
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in node.rglob("*")} == before


# ---- other codecs


def test_the_estimate_of_what_is_read_whole_is_exact(own_cluster_corpus, tmp_path):
    """Compared with the same records sent again: the batches of a log that is compressed already do not change."""
    node = str(own_cluster_corpus / "ops/1-stopped/n1")
    [none] = used("--recompress", "none", "-t", "orders", node)
    assert (none["estimated_bytes"], none["margin_bytes"]) == (none["log_bytes"], 0)
    assert none["sampled_bytes"] == none["log_bytes"]


def test_a_sample_is_near_the_whole(corpus, tmp_path):
    logs = [path for path in corpus.rglob("*.log") if path.name[:20].isdigit() and path.stat().st_size > 2000][:40]
    files = ReadOnlyFiles()
    every = [UsedFile(str(path), path.name, LOG, files.info(str(path)), None) for path in logs]
    codecs = [Codec.ZSTD, Codec.LZ4]
    whole, part = estimate(files, every, codecs), estimate(files, every, codecs, sum(one.info.size for one in every) // 3)
    assert part[0].sampled < whole[0].sampled
    for exact, guess in zip(whole, part, strict=True):
        assert guess.margin > 0
        assert abs(guess.size - exact.size) <= 3 * guess.margin


def test_the_output_fits_the_schema(node):
    whole = Draft202012Validator(SCHEMA)
    for words in ((), ("--by", "hour"), ("--by", "key-prefix:2"), ("--top", "1"), ("--reclaimable",), ("--recompress", "all")):
        rows = used(*words, str(node))
        assert rows
        for one in rows:
            whole.validate(one)
    assert {one["codec"] for one in used("--recompress", "all", str(node))} == set(CODEC_NAMES)
    document = json.loads(kafkalog("du", "--format", "json", str(node)).out)
    whole.validate(document)


@pytest.mark.parametrize("words", [
    ("--reclaimable", "--recompress", "zstd"), ("--reclaimable", "--by", "topic"), ("--recompress", "zstd", "--top", "3"), ("--now", "0"),
    ("--recompress", "brotli"),
])  # fmt: skip
def test_options_that_exclude_each_other(own_cluster_corpus, words):
    assert kafkalog("du", *words, str(own_cluster_corpus / "ops/1-stopped/n1")).status == 2
