"""append --input-format produce-request: what a producer is told, and what is said about input that is none."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.support.corpus import wire_corpus
from tests.support.json_output import objects_of
from tests.support.run import kafkalog

REFUSED = wire_corpus() / "refused"


def requests(*wanted):
    """The requests of these cases that a broker refused or accepted."""
    data = (REFUSED / "frames.bin").read_bytes()
    lines = {one["n"]: one for one in map(json.loads, (REFUSED / "frames.jsonl").read_text().splitlines()) if "n" in one}
    cases = {case["case"]: lines[case["request"]] for case in json.loads((REFUSED / "cases.json").read_text()) if case["request"] in lines}
    return [data[cases[name]["at"] : cases[name]["at"] + cases[name]["size"]] for name in wanted]


def partition(tmp_path):
    made = tmp_path / "refused-0"
    made.mkdir()
    shutil.copy(REFUSED / "logs/refused-0/partition.metadata", made)
    return made


def test_each_request_is_answered(tmp_path):
    made = partition(tmp_path)
    (tmp_path / "in").write_bytes(b"".join(requests("accepted-v9", "bad-crc", "accepted-v13", "unknown-topic", "future-second-record")))
    words = ["append", "--input-format", "produce-request", "--input", str(tmp_path / "in"), str(made)]
    done = kafkalog(*words, "--format", "jsonl", "--now", "1795426000000")
    answers = [one for one in objects_of(done.out) if one["type"] == "answer"]
    assert [(one["request"], one["error"], one["base_offset"]) for one in answers] == [
        (0, "NONE", 0), (1, "CORRUPT_MESSAGE", -1), (2, "NONE", 2), (3, "UNKNOWN_TOPIC_OR_PARTITION", -1), (4, "INVALID_TIMESTAMP", -1),
    ]  # fmt: skip
    assert answers[4]["error_message"] == "One or more records have been rejected due to invalid timestamp"
    assert [one["record"] for one in answers[4]["record_errors"]] == [1]
    assert done.status == 4
    assert kafkalog("dump-log", "--count", str(made)).status == 0


def test_the_text_of_an_answer(tmp_path):
    made = partition(tmp_path)
    (tmp_path / "in").write_bytes(b"".join(requests("accepted-v9", "bad-crc")))
    done = kafkalog("append", "--input-format", "produce-request", "--input", str(tmp_path / "in"), str(made))
    lines = done.out.decode().splitlines()
    assert f"{made}: request 0, partition refused-0: accepted from offset 0 on" in lines
    assert f"{made}: request 1, partition refused-0: refused with CORRUPT_MESSAGE (2)" in lines


@pytest.mark.parametrize(("form", "options", "what"), [
    ("produce-request", ["--producer-id", "7", "--transaction", "commit"], "excludes --producer-id, --transaction"),
    ("produce-request", ["--compression", "none", "--batch-size", "16384"], "excludes --compression, --batch-size"),
    ("produce-request", ["--separator", ":"], "use --input-format text"),
    ("produce-request", ["--null", "-", "--follower"], "excludes --null, --follower"),
    ("json", ["--separator", "="], "excludes --separator"),
    ("raw", ["--compression", "lz4", "--timestamp", "0"], "excludes --timestamp, --compression"),
    ("text", ["--follower"], "use --input-format raw"),
])  # fmt: skip
def test_options_that_an_input_format_would_ignore_are_refused(tmp_path, form, options, what):
    done = kafkalog("append", "--input", "/dev/null", "--input-format", form, *options, str(partition(tmp_path)))
    assert done.status == 2
    assert what in done.err


def test_what_is_no_request(tmp_path):
    made = partition(tmp_path)
    for name, data in {"cut": requests("accepted-v9")[0][:-3], "text": b"key:value\n" * 9, "null": requests("null-records")[0]}.items():
        (tmp_path / name).write_bytes(data)
        done = kafkalog("append", "--input-format", "produce-request", "--input", str(tmp_path / name), str(made))
        assert done.status == 8, name
        assert "error[requests-invalid]" in done.err, name
        assert "request 0: " in done.err, name


def test_a_repeated_request_of_an_idempotent_producer(tmp_path):
    folder = wire_corpus() / "produce/confluent-idempotent-lz4"
    data = (folder / "frames.bin").read_bytes()
    lines = [one for one in map(json.loads, (folder / "frames.jsonl").read_text().splitlines()) if one.get("direction") == "request"]
    frames = b"".join(data[one["at"] : one["at"] + one["size"]] for one in lines)
    made = tmp_path / "confluent-idempotent-lz4-0"
    (tmp_path / "in").write_bytes(frames * 2)
    words = ["append", "--create", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ", "--input-format", "produce-request", "--input", str(tmp_path / "in")]
    done = kafkalog(*words, "--format", "jsonl", str(made))
    runs = [one for one in objects_of(done.out) if one["type"] == "appended"]
    assert [(one["first_offset"], one["last_offset"], one["records"], one["is_duplicate"]) for one in runs] == [
        (0, 14, 15, False), (0, 2, 3, True), (3, 8, 6, True), (9, 14, 6, True),
    ]  # fmt: skip
    assert done.status == 0
