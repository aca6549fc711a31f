"""Logs of Kafka 0.7 under the commands: what 0.7.2 itself did in the same cases, and what is refused."""

from __future__ import annotations

import base64
import json
import os
import shutil

import pytest

from engine.kafka07.entries import Stopped, iterate_deep, iterate_set
from tests.support.corpus import corpus_directory, own_corpus_directory
from tests.support.json_output import all_objects
from tests.support.run import kafkalog

ROOT = corpus_directory() / "old" / "0.7.2"
CASES = ROOT / "cases"
OWN_LOGS = own_corpus_directory() / "old" / "0.7.2" / "logs"  # for tests that name one
NONSENSE = "UnknownMagicByteException"  # at which 0.7.2 throws, and we cut
SETTINGS = {"log.file.size": "segment.bytes", "retentionMs": "retention.ms", "log.retention.size": "retention.bytes",
            "rollIntervalMs": "segment.ms", "max.message.size": "max.message.bytes", "log.flush.interval": "flush.messages"}  # fmt: skip


def cases(operation):
    found = [json.loads(path.read_text()) | {"name": path.parent.name} for path in sorted(CASES.glob("*/case.json"))]
    wanted = [case for case in found if case["operation"] == operation]
    return pytest.mark.parametrize("case", wanted, ids=[case["name"] for case in wanted])


def files_in(directory):
    found = sorted(path for path in directory.rglob("*") if path.is_file() and path.name != ".lock")
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}


def expected(case):
    return files_in(CASES / case["name"] / case["expected"]) if isinstance(case["expected"], str) else {}


def begin(case, log_dir):
    """Put the files of a case into `log_dir`."""
    if isinstance(case["before"], str):
        shutil.copytree(CASES / case["name"] / case["before"], log_dir, dirs_exist_ok=True)
    for name, time in case.get("mtimes", {}).items():
        os.utime(log_dir / name, ns=(time * 1_000_000, time * 1_000_000))


def settings(case):
    given = [(SETTINGS[name], value) for name, value in case.get("config", {}).items() if name in SETTINGS]
    return [word for name, value in given for word in ("--config", f"{name}={value}")]


@pytest.fixture
def log_of(tmp_path):
    def copied(name):
        shutil.copytree(OWN_LOGS / name, tmp_path / "d" / name)
        return tmp_path / "d" / name

    return copied


@cases("recover")
def test_recovery_cuts_what_0_7_cuts_and_keeps_it(case, tmp_path):
    first = case["steps"][0]
    if [step["do"] for step in case["steps"]] not in (["open"], ["open", "close"]) or not first["needRecovery"]:
        pytest.skip("more than a recovery")  # the engine's own tests do these
    log_dir = tmp_path / "d"
    begin(case, log_dir)
    before = files_in(log_dir)
    if not before:
        pytest.skip("nothing that says it is of 0.7")
    wanted = expected(case)
    error = first["result"].get("error", "")
    dry = kafkalog("recover", "--dry-run", str(log_dir))
    assert files_in(log_dir) == before
    done = kafkalog("recover", "--quarantine", str(tmp_path / "q"), str(log_dir))
    assert dry.status == done.status
    if error and not error.endswith(NONSENSE):
        assert (done.status, files_in(log_dir)) == (8, before)
        assert "don't validate" in done.err
        return
    if error:
        assert "0.7.2 would not open the log" in done.out.decode()
        assert len(files_in(log_dir)[next(iter(before))]) < len(before[next(iter(before))])
    else:
        assert files_in(log_dir) == wanted
    assert done.status == (1 if files_in(log_dir) != before else 0)
    assert kafkalog("recover", str(log_dir)).status == 0
    if done.status:
        assert kafkalog("restore", str(tmp_path / "q")).status == 0
        assert files_in(log_dir) == before


@cases("retain")
def test_retention_removes_what_0_7_removes(case, tmp_path):
    if set(case["config"]) - set(SETTINGS):
        pytest.skip("settings of 0.7 alone")
    begin(case, tmp_path / "d")
    done = kafkalog("retain", "--now", str(case["now"]), *settings(case), str(tmp_path / "d"))
    assert done.status == 0
    assert files_in(tmp_path / "d") == expected(case)
    assert done.out.count(b"  removed ") == len(case["deleted"])
    assert done.out.count(b"  created ") == len(case["created"])


def test_settings_of_0_7_come_from_its_server_properties(log_of, tmp_path):
    directory = log_of("plain-0")
    for path in directory.iterdir():
        os.utime(path)
    (tmp_path / "server.properties").write_text("log.retention.size=700\nlog.retention.hours=1\ntopic.log.retention.hours=plain:2\n")
    words = ("retain", "--dry-run", "--config-file", str(tmp_path / "server.properties"))
    assert b"would remove 00000000000000000000.kafka (offsets 0 to 642, 643 bytes)" in kafkalog(*words, str(directory)).out
    explained = kafkalog("retain", "--explain", *words[2:], str(directory)).out
    assert b"deletable by time 2 hours (7200000 ms) after" in explained
    assert b"deletable by size when 700 bytes remain without it" in explained


def test_nothing_is_deleted_by_a_default(log_of, tmp_path):
    directory = log_of("plain-0")
    for path in directory.iterdir():
        os.utime(path, (0, 0))
    before = files_in(directory)
    refused = kafkalog("retain", str(directory))
    assert (refused.status, files_in(directory)) == (4, before)
    assert f"error[retention-unknown] {directory}: retention.ms of the topic is not known" in refused.err
    (tmp_path / "server.properties").write_text("log.retention.hours=1\n")
    for settings in (("--config", "retention.ms=1"), ("--config-file", str(tmp_path / "server.properties"))):
        assert b"  would remove 0" in kafkalog("retain", "--dry-run", *settings, str(directory)).out


@cases("append")
def test_raw_sets_are_stored_as_0_7_stores_them(case, tmp_path):
    steps = case["steps"]
    appends = [step for step in steps if step["do"] == "append" and "error" not in (step.get("result") or {})]
    if case["before"] is not None or "now" in str(steps) or not appends:
        pytest.skip("time goes on between two sets")  # the engine's own tests do these
    directory = tmp_path / "d" / case["topicPartition"]
    directory.mkdir(parents=True)
    (directory / f"{0:020d}.kafka").touch()
    for step in appends:
        (tmp_path / "set").write_bytes(base64.b64decode(step["set"]))
        done = kafkalog("append", "--input-format", "raw", "--input", str(tmp_path / "set"), "--batch-size", "1000000",
                        "--now", str(case["now"]), *settings(case), str(directory))  # fmt: skip
        assert (done.status, done.err) == (0, "")
    assert files_in(tmp_path / "d") == expected(case)


@pytest.mark.parametrize("magic", ["0", "1"])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy"])
def test_what_is_appended_can_be_fetched(log_of, tmp_path, magic, codec):
    directory = log_of("plain-0")
    end = 1408
    (tmp_path / "in").write_bytes(b"".join(b'{"value":"message %d"}\n' % number for number in range(200)))
    done = kafkalog("append", "--input", str(tmp_path / "in"), "--magic", magic, "--compression", codec, "--batch-size", "400",
                    "--config", "segment.bytes=2000", str(directory))  # fmt: skip
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(f"{directory}: offsets {end} to ".encode())
    fetched = kafkalog("fetch", "--offset", str(end), str(directory))
    assert fetched.out.splitlines() == [b"message %d" % number for number in range(200)]
    assert len(list(directory.iterdir())) > 3
    for words in (["--offset", "-2"], ["--tail", "2"], ["--tail", "2", "--offset", str(end)]):
        assert kafkalog("fetch", *words, str(directory)).out == b"message 198\nmessage 199\n"
    assert kafkalog("fetch", "--tail", "3", "--limit", "0", str(directory)).status == 2
    assert kafkalog("fetch", "--tail", "0", str(directory)).out == b""
    entries = kafkalog("dump-log", str(directory), "--offset", f"{end}:").out
    named = {"none": b"No", "gzip": b"GZIP", "snappy": b"Snappy"}[codec]
    assert entries.count(b" compresscodec: %bCompressionCodec" % named) == entries.count(b"offset: ") - entries.count(b"tail of")\
        - entries.count(b"Starting")
    assert (b"magic: 0" in entries) == (magic == "0" and codec == "none")


@pytest.mark.parametrize(("line", "why"), [
    (b'{"key":"k","value":"v"}', "has a key"), (b'{"value":"v","headers":[{"key":"h","value":"x"}]}', "has a key or headers"),
    (b'{"value":null}', "has no value"),
])  # fmt: skip
def test_what_messages_of_0_7_do_not_have_is_refused(log_of, tmp_path, line, why):
    directory = log_of("plain-0")
    before = files_in(directory)
    (tmp_path / "in").write_bytes(b'{"value":"good"}\n' * 3 + line + b"\n")
    done = kafkalog("append", "--input", str(tmp_path / "in"), str(directory))
    assert done.status == 4
    assert f"record 4 of the input {why}" in done.out.decode()
    [grown] = [path for path, data in files_in(directory).items() if data != before[path]]
    added = files_in(directory)[grown].removeprefix(before[grown])
    assert added.count(b"good") == 3, "the lines before it, as in later logs"
    assert f"; {len(added)} bytes before it appended" in done.out.decode()


@pytest.mark.parametrize("data", [b"\0\0\0", b"\0\0\0\x20\x01\0", b"\xff\xff\xff\xff\x01", b"\0\0\0\x07\x01\0\0\0\0\0x", b"\0\0\0\x02ab"])
def test_a_broken_raw_set_stores_nothing(log_of, tmp_path, data):
    directory = log_of("plain-0")
    before = files_in(directory)
    (tmp_path / "in").write_bytes(data)
    done = kafkalog("append", "--input-format", "raw", "--input", str(tmp_path / "in"), str(directory))
    assert done.status == 4
    assert "; 0 bytes before it appended" in done.out.decode()
    assert files_in(directory) == before


def ends_with_an_entry(path):
    """Is a file whole up to its last byte? An iteration ends quietly before a cut entry, and before zeros."""
    end = 0
    for entry in iterate_set(path.read_bytes()):
        if isinstance(entry, Stopped):
            return False
        end = entry.next_offset
    return end == path.stat().st_size


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "logs").iterdir()) if ROOT.is_dir() else [])
def test_fetch_gives_what_a_consumer_gets(name):
    directory = ROOT / "logs" / name
    wanted, is_whole = [], True
    for path in sorted(directory.iterdir()):
        for message in iterate_deep(path.read_bytes(), int(path.stem)):
            if isinstance(message, Stopped) or message.error is not None:
                is_whole = False
                break
            wanted.append((message.offset, message.payload))
        if not is_whole:
            break
    done = kafkalog("fetch", "--format", "jsonl", str(directory))
    objects = all_objects(done.out)[1:]
    fetched = [(each["offset"], base64.b64decode(each["value_b64"]) if "value_b64" in each else each["value"].encode())
               for each in objects if each["type"] == "fetched-record"]
    assert fetched == wanted
    assert (done.status == 0) == (is_whole and all(ends_with_an_entry(path) for path in directory.iterdir()))
    raw = kafkalog("fetch", "--raw", str(directory))
    if done.status == 0:
        assert raw.out == b"".join(path.read_bytes() for path in sorted(directory.iterdir()))
    assert files_in(directory).keys() == {path.name for path in directory.iterdir()}


def test_fetch_begins_where_an_entry_does():
    directory = str(OWN_LOGS / "plain-0")
    assert "the entry that contains it begins at 643" in kafkalog("fetch", "--offset", "650", directory).err
    assert kafkalog("fetch", "--offset", "650", directory).status == 2
    assert kafkalog("fetch", "--offset", "1408", directory).out == b""
    assert kafkalog("fetch", "--offset", "1409", directory).status == 2
    assert kafkalog("fetch", "--max-bytes", "1", "-f", "%o\\n", directory).out == b"0\n"
    whole = kafkalog("fetch", "--raw", directory).out
    part = kafkalog("fetch", "--raw", "--max-bytes", "300", directory).out
    assert 100 < len(part) <= 300
    assert whole.startswith(part)


@pytest.mark.parametrize("words", [
    ["roll"], ["truncate", "--to", "0"], ["compact", "--force"], ["delete-records", "--before", "10"], ["recover", "--salvage"],
    ["recover", "--recovery-point", "5"], ["retain", "--log-start-offset", "5"], ["retain", "--free", "10"],
    ["append", "--input", os.devnull, "--producer-id", "4"], ["append", "--input", os.devnull, "--compression", "zstd"],
])  # fmt: skip
def test_what_a_log_of_0_7_has_nothing_for(log_of, words):
    directory = log_of("plain-0")
    before = files_in(directory)
    done = kafkalog(*words, str(directory))
    assert done.status in (2, 4, 8)
    assert "a log of Kafka 0.7" in done.err
    assert files_in(directory) == before


@pytest.mark.parametrize("words", [["--time", "0"], ["--merge"], ["--follow"], ["--high-watermark", "4"], ["--raw", "--offset", "-3"]])
def test_fetch_refuses_what_0_7_does_not_have(words):
    done = kafkalog("fetch", *words, str(OWN_LOGS / "plain-0"))
    assert done.status == 2
    assert "a log of Kafka 0.7" in done.err


def test_a_log_that_lost_records_is_not_opened_on_the_way(log_of):
    directory = log_of("bad-crc-0")
    before = files_in(directory)
    done = kafkalog("retain", str(directory))
    assert (done.status, files_in(directory)) == (4, before)
    assert "opening it would lose records" in done.err


def test_a_log_dir_of_0_7_stays_one(log_of):
    log_dir = log_of("plain-0").parent
    assert kafkalog("recover", "--mark-clean", str(log_dir)).status == 0
    assert {path.name for path in log_dir.iterdir()} == {"plain-0", ".lock", ".kafka_cleanshutdown"}
    assert kafkalog("retain", "--now", "0", str(log_dir)).status == 0
    assert {path.name for path in log_dir.iterdir()} == {"plain-0", ".lock", ".kafka_cleanshutdown"}


def test_fetched_messages_go_into_another_log(log_of, tmp_path):
    source, target = log_of("gzip-0"), log_of("plain-0")
    fetched = kafkalog("fetch", "--format", "jsonl", str(source)).out
    (tmp_path / "in").write_bytes(fetched)
    done = kafkalog("append", "--input", str(tmp_path / "in"), "--compression", "snappy", str(target))
    assert (done.status, done.err) == (0, "skipped 2 lines of the input: not data records\n")
    values = kafkalog("fetch", str(source)).out
    assert kafkalog("fetch", "--offset", "1408", str(target)).out == values
