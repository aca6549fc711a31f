"""kafkalog fetch of several partitions, and of the records that a selection chooses."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from base64 import b64decode
from pathlib import Path

import pytest

from tests.support.json_output import all_objects
from tests.support.run import kafkalog

ROOT = Path(__file__).parents[2]
SEVERAL = ("clean/d0/tx-0", "clean/d1/small_segments-0", "clean/d0/codec.zstd-0", "clean/d1/edge-keys_and.headers-0",
           "clean/d0/idempotent-0")  # fmt: skip


@pytest.fixture(scope="module")
def logs(own_corpus):
    return own_corpus / "kafka-4.3.1/logs"


def fetch(logs, *words):
    done = kafkalog("fetch", "--format", "jsonl", *words, cwd=logs)
    found = all_objects(done.out)[1:]
    return [one for one in found if one["type"] == "fetched-record"], [one for one in found if one["type"] == "finding"], done


def records(logs, *words):
    found, findings, done = fetch(logs, *words)
    assert (done.status, findings) == (0, []), done.err
    return found


def data(record, name):
    return b64decode(record[f"{name}_b64"]) if f"{name}_b64" in record else (record[name] or "").encode()


def in_time(logs_in_order):
    """A model of --merge: a record counts with the largest timestamp of its partition up to there."""
    keyed = []
    for number, partition in enumerate(logs_in_order):
        largest = -(2**63)
        for at, record in enumerate(partition):
            largest = max(largest, record["timestamp"])
            keyed.append((largest, number, at, record))
    return [record for *_, record in sorted(keyed, key=lambda one: one[:3])]


@pytest.fixture(scope="module")
def each(logs):
    return [records(logs, path) for path in SEVERAL]


def test_one_after_the_other_and_merged(logs, tmp_path, each):
    assert records(logs, *SEVERAL) == [record for partition in each for record in partition]
    assert records(logs, "--merge", *SEVERAL) == in_time(each)
    copy = shutil.copytree(logs / SEVERAL[1], tmp_path / "small_segments-0")  # lies in the other's time
    assert records(logs, "--merge", SEVERAL[1], SEVERAL[0], str(copy)) == in_time([each[1], each[0], each[1]])


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("count", [0, 1, 7, 100, 10**6])
def test_the_first_and_the_last_ones(logs, each, count, merge):
    everything = in_time(each) if merge else [record for partition in each for record in partition]
    words = (["--merge"] if merge else []) + list(SEVERAL)
    assert records(logs, "--limit", str(count), *words) == everything[:count]
    assert records(logs, "--tail", str(count), *words) == everything[len(everything) - min(count, len(everything)) :]


def test_what_a_selection_chooses_is_what_a_filter_keeps(logs, each):
    everything = [record for partition in each for record in partition]
    times = sorted(record["timestamp"] for record in everything)
    early, late = times[len(times) // 3], times[2 * len(times) // 3]
    key = next(data(record, "key") for record in everything if record["key"]).decode()
    name = next(header["key"] for record in everything for header in record["headers"] if header.get("key"))
    cases = {
        ("--time", f"{early}:{late}"): lambda one: early <= one["timestamp"] < late,
        ("--time", str(early)): lambda one: one["timestamp"] >= early,
        ("--until", "2023-11-22T19:20Z"): lambda one: one["timestamp"] < 1700680800000,
        ("--key", key): lambda one: data(one, "key") == key.encode() and one.get("key", "") is not None,
        ("--key-regex", "^k.*1"): lambda one: re.search(b"^k.*1", data(one, "key")) is not None,
        ("--header", name): lambda one: any(header.get("key") == name for header in one["headers"]),
        ("--offset", "20:30"): lambda one: 20 <= one["offset"] < 30,
        ("--until", "9"): lambda one: one["offset"] < 9,
    }
    long = [path for path, found in zip(SEVERAL, each, strict=True) if found[-1]["offset"] >= 20]
    of_long = [one for path, found in zip(SEVERAL, each, strict=True) if path in long for one in found]
    for words, fits in cases.items():
        paths, there = (long, of_long) if words[0] == "--offset" else (SEVERAL, everything)
        wanted = [one for one in there if fits(one)]
        assert 0 < len(wanted) < len(there), words
        assert records(logs, *words, *paths) == wanted, words
        assert records(logs, *words, "--tail", "3", *paths) == wanted[-3:], words


def test_the_last_matches_of_a_long_log(logs, each):
    wanted = [one for one in each[1] if one["offset"] % 10 == 3]
    odd = "|".join(re.escape(one["value"]) for one in wanted if "value" in one)
    assert odd  # the values are text: the log has no keys
    last = [one for one in each[1] if one["timestamp"] <= sorted(record["timestamp"] for record in each[1])[5]]
    until = str(max(one["timestamp"] for one in last) + 1)
    assert records(logs, "--time", f":{until}", "--tail", "2", SEVERAL[1]) == last[-2:]


def test_topics_and_partitions(logs):
    by_name = records(logs, "-t", "tx-v1", "clean")
    paths = sorted(logs.glob("clean/*/tx-v1-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    assert len(paths) > 1
    assert by_name == records(logs, *map(str, paths))
    assert records(logs, "-t", "tx-*", "-p", "1", "clean") == [one for one in by_name if one["partition"] == 1]
    for words, why in ((["-t", "nope", "clean"], "topics found: __cluster_metadata"), (["-t", "tx-v1", "-p", "77", "clean"], "partition 77")):
        done = kafkalog("fetch", *words, cwd=logs)
        assert (done.status, why in done.err) == (2, True)


def test_of_several_copies_the_longest_is_read(logs, tmp_path):
    shutil.copytree(logs / SEVERAL[1], tmp_path / "a/small_segments-0")
    shutil.copytree(logs / SEVERAL[1], tmp_path / "b/small_segments-0")
    for name in ("a", "b"):
        (tmp_path / name / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    last = max((tmp_path / "a/small_segments-0").glob("*.log"))
    last.write_bytes(b"")
    found, findings, done = fetch(tmp_path, "-t", "small_segments", "a", "b")
    assert found == records(logs, SEVERAL[1])
    assert [(one["code"], one["file"]) for one in findings] == [("replica-chosen", "b/small_segments-0")]
    assert done.status == 0


def test_one_that_cannot_be_read_keeps_no_other_back(logs, tmp_path, each):
    (tmp_path / "empty-0").mkdir()
    for words in ([], ["--merge"], ["--tail", "1000000"]):
        found, _, done = fetch(logs, *words, str(tmp_path / "empty-0"), SEVERAL[0])
        assert (found, done.status) == (each[0], 8)


def test_following_a_topic_until_an_offset(logs, tmp_path):
    shutil.copytree(logs / SEVERAL[1], tmp_path / "small_segments-0")
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    last = max((tmp_path / "small_segments-0").glob("*.log"))
    whole = last.read_bytes()
    first = 12 + int.from_bytes(whole[8:12], "big")
    last.write_bytes(whole[:first])
    end = records(logs, SEVERAL[1])[-1]["offset"] + 1
    words = [sys.executable, "-m", "kafkalog_cli.main", "fetch", "--follow", "--until", str(end), "-f", "%o\\n", "-t",
             "small_segments", str(tmp_path)]  # fmt: skip
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=ROOT) as running:
        assert running.stdout is not None
        seen = [int(running.stdout.readline())]
        last.write_bytes(whole)
        seen += [int(line) for line in running.stdout]
    assert seen == [one["offset"] for one in records(logs, SEVERAL[1])]
    assert running.returncode == 0
