"""kafkalog requests: captured messages as text and JSON, selected, with findings and an exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.protocol.frames import RequestHeader, encode_request
from tests.support.corpus import wire_directory
from tests.support.json_output import objects_of
from tests.support.protocol_values import produce_request
from tests.support.run import kafkalog
from tests.support.wire_frames import captured

SESSIONS = wire_directory() / "consume/sessions"
FRANZ = str(wire_directory() / "produce/franz-none/frames.bin")
REFUSED = str(wire_directory() / "refused/frames.bin")


def objects(*words, status=0):
    done = kafkalog("requests", "--format", "jsonl", *words)
    assert (done.status, done.err) == (status, "")
    return objects_of(done.out)


def messages(*words):
    return [one for one in objects(*words) if one["type"] in {"request", "response"}]


def test_text_has_a_line_for_each_message_and_batch():
    done = kafkalog("requests", FRANZ)
    lines = done.out.decode().splitlines()
    assert done.status == 0
    assert lines[0] == "0 request: ApiVersions 5, correlation id 0, client wire-franz, 39 bytes"
    assert lines[1] == "43 response to 0: ApiVersions 0, correlation id 0, client wire-franz, 16 bytes"
    assert "  franz-none-0: offsets 0 to 2, 248 bytes, none, producer 12 epoch 0, sequences 0 to 2" in lines
    assert len([line for line in lines if not line.startswith(" ")]) == 20
    assert "info[frame-undecoded]" in done.err


@pytest.mark.parametrize("session", ["franz-group", "java-assign", "tool-quorum", "raw-fetch"])
def test_json_has_what_kafka_read(session):
    found = {one["position"]: one for one in messages(str(SESSIONS / session / "frames.bin"))}
    frames = list(captured(SESSIONS / session))
    assert list(found) == [one.facts["at"] for one in frames]
    for one in frames:
        shown = found[one.facts["at"]]
        assert shown["type"] == one.facts["direction"]
        assert (shown["api"], shown["correlation_id"]) == (one.facts["api"], one.facts["correlation_id"])
        if "body" in one.facts:
            assert shown["body"] == one.facts["body"]


def test_a_document_has_the_same_objects():
    assert objects_of(kafkalog("requests", "--format", "json", FRANZ).out) == objects(FRANZ)


@pytest.mark.parametrize(("words", "count"), [
    (["--api", "produce"], 6),
    (["--api", "Produce", "--api", "Metadata"], 8),
    (["--client", "wire-*"], 20),
    (["--client", "other"], 0),
    (["--producer-id", "12"], 3),
    (["--producer-id", "13"], 0),
    (["--topic", "franz-none"], 8),
    (["--topic", "3YQJJIuvR8yUZmax9Cf74Q"], 7),  # all but the first request, which has only the name
    (["--topic", "franz-*", "--api", "Produce", "--producer-id", "12"], 3),
])  # fmt: skip
def test_selection(words, count):
    assert len(messages(*words, FRANZ)) == count


def test_findings_decide_the_exit_status():
    done = kafkalog("requests", REFUSED)
    assert done.status == 4
    assert "error[sent-batch-invalid]" in done.err
    assert "warning[sequence-gap]" in done.err
    sound = kafkalog("requests", "--api", "Produce", "--topic", "no-such", REFUSED)
    assert (sound.status, sound.out, sound.err) == (0, b"", "")
    large = kafkalog("requests", "--max-message-bytes", "1000", FRANZ)
    assert large.status == 4
    assert "a batch of 3170 bytes; max.message.bytes is 1000" in large.err


def test_what_cannot_be_read(tmp_path):
    done = kafkalog("requests", str(tmp_path / "missing"))
    assert (done.status, done.out) == (8, b"")
    assert "No such file" in done.err
    assert kafkalog("requests", str(tmp_path)).status == 8


def test_wrong_words():
    done = kafkalog("requests", "--api", "Products", FRANZ)
    assert done.status == 2
    assert "'Products' is not the name of an API, such as Produce, Fetch or Metadata" in done.err
    assert kafkalog("requests").status == 2


def test_names_from_the_network_do_not_control_the_terminal(tmp_path):
    evil = "\x1b[31mred\u202e"
    request = encode_request(RequestHeader(3, 12, 1, evil), {"topics": [{"name": evil}]})
    (tmp_path / "frames").write_bytes(b"".join(request) + produce_request(b"?", 9, "x"))
    done = kafkalog("requests", str(tmp_path / "frames"))
    assert b"\x1b" not in done.out
    assert "\u202e".encode() not in done.out
    assert "\x1b" not in done.err
    [first, _] = messages_of(tmp_path / "frames")
    assert first["client_id"] == evil


def messages_of(path):
    done = kafkalog("requests", "--format", "jsonl", str(path))
    return [one for one in map(json.loads, done.out.splitlines()) if one["type"] == "request"]


def piped(*words):
    return subprocess.Popen([sys.executable, "-m", "kafkalog_cli.main", "requests", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.parametrize("path", [FRANZ, *map(str, sorted((wire_directory() / "captures").glob("*.pcap*"))[:2])])
def test_a_pipe_is_read_as_the_file(path):
    with piped("-") as process:
        out, _ = process.communicate(Path(path).read_bytes(), timeout=60)
    assert out == kafkalog("requests", path).out
    assert out


def test_messages_of_a_pipe_are_printed_as_they_arrive():
    data = Path(FRANZ).read_bytes()
    with piped("-") as process:
        process.stdin.write(data[:100])
        process.stdin.flush()
        first = process.stdout.readline()
        assert first.startswith(b"0 request: ApiVersions 5")
        process.stdin.write(data[100:])
        process.stdin.close()
        assert first + process.stdout.read() == kafkalog("requests", FRANZ).out


def test_a_named_pipe_is_read(tmp_path):
    os.mkfifo(tmp_path / "frames")
    with subprocess.Popen(["cp", FRANZ, str(tmp_path / "frames")]):
        assert kafkalog("requests", str(tmp_path / "frames")).out == kafkalog("requests", FRANZ).out
