"""grep: what is printed, in which order, and with which exit status."""

from __future__ import annotations

import re

import pytest

from engine.record.builder import NewRecord, build_batch
from tests.support.corpus import own_corpus_directory
from tests.support.json_output import all_objects
from tests.support.run import kafkalog
from tests.support.small_logs import batch, with_wrong_checksum

TX = own_corpus_directory() / "kafka-4.3.1" / "logs" / "clean" / "d0"


def log(directory, data, name="00000000000000000000.log"):
    directory.mkdir(exist_ok=True)
    (directory / name).write_bytes(data)
    return directory


@pytest.fixture
def data(tmp_path):
    """Two partitions: orders-0 with two segments and a deleted one, a-1 with one."""
    log(tmp_path / "orders-0", batch(0, 5) + batch(5, 5, b"needle"))
    log(tmp_path / "orders-0", batch(10, 5, b"Needle in \xff"), "00000000000000000010.log")
    log(tmp_path / "orders-0", batch(0, 1, b"needle"), "00000000000000000000.log.deleted")
    log(tmp_path / f"gone-0.{'a' * 32}-delete", batch(0, 1, b"needle"))
    log(tmp_path / "a-1", build_batch([NewRecord(0, 7, None, b"x", [(b"h", b"needle"), (b"g", None)])]))
    return tmp_path


def lines(*words, cwd, status=0):
    done = kafkalog("grep", *words, cwd=cwd)
    assert done.status == status, done.err
    return done.out.decode("utf-8", "backslashreplace").splitlines()


def test_records(data):
    assert lines("needle", ".", cwd=data)[:2] == ["a-1:0:: x", "orders-0:5:k5: needle"]
    assert lines("-k", "^k[37]$", ".", cwd=data) == ["orders-0:3:k3: v", "orders-0:7:k7: needle"]
    assert lines("-s", "-i", "NEEDLE", "--limit", "7", "-f", "%o ", ".", cwd=data) == ["5 6 7 8 9 10 11 "]
    assert lines("-F", "-m", "1", "-i", "needle", "-f", "%t %o\\n", ".", cwd=data) == ["a 0", "orders 5", "orders 10"]
    assert lines("-H", "h", "needle", ".", cwd=data) == ["a-1:0:: x"]
    assert lines("-H", "g", "needle", ".", cwd=data, status=1) == []
    assert lines("--tail", "2", "-i", "needle", "-f", "%o\\n", ".", cwd=data) == ["13", "14"]
    assert lines("needle", "--key", "k6", ".", cwd=data) == ["orders-0:6:k6: needle"]
    assert lines("-f", "%F %b %P %E %q %L %X|\\n", "-k", "^k5$", "orders-0", cwd=data) == [
        f"orders-0/00000000000000000000.log {len(batch(0, 5))} -1 -1 -1 -1 |"]


def test_counts_and_names(data):
    assert lines("-c", "-i", "needle", ".", cwd=data) == [
        "./a-1/00000000000000000000.log:1", "./orders-0/00000000000000000000.log:5", "./orders-0/00000000000000000010.log:5",
        "total:11"]
    assert lines("-l", "Needle", ".", cwd=data) == ["./orders-0/00000000000000000010.log"]
    assert lines("-c", "none", "a-1", cwd=data, status=1) == ["a-1/00000000000000000000.log:0"]
    assert lines("-c", "needle", "--include-deleted", ".", cwd=data)[-1] == "total:8"
    assert lines("-c", "needle", "orders-0/00000000000000000000.log.deleted", cwd=data) == [
        "orders-0/00000000000000000000.log.deleted:1"]
    assert lines("-o", "[a-m]+e", "orders-0", "--limit", "1", cwd=data) == ["orders-0:5:eedle"]


def test_around(data):
    assert lines("-k", "-B", "1", "-A", "1", "k[28]$", "orders-0", cwd=data) == [
        "orders-0-1-k1- v", "orders-0:2:k2: v", "orders-0-3-k3- v", "--", "orders-0-7-k7- needle", "orders-0:8:k8: needle",
        "orders-0-9-k9- needle"]
    assert lines("-k", "-A", "2", "--limit", "1", "k2$", "orders-0", cwd=data) == [
        "orders-0:2:k2: v", "orders-0-3-k3- v", "orders-0-4-k4- v"]


def test_json(data):
    found = all_objects(kafkalog("grep", "-k", "-A", "1", "k8$", "--format", "jsonl", "orders-0", cwd=data).out)
    assert [(one["offset"], one["matches"]) for one in found if one["type"] == "match"] == [(8, True), (9, False)]
    found = all_objects(kafkalog("grep", "-c", "needle", "--format", "jsonl", ".", cwd=data).out)
    assert [(one["path"], one["records"]) for one in found if one["type"] == "match-count"][-1] == (None, 6)
    found = all_objects(kafkalog("grep", "-l", "needle", "--format", "jsonl", ".", cwd=data).out)
    assert [one["type"] for one in found].count("matching-file") == 2


def test_decoded(data):
    done = kafkalog("grep", "--decode", "auto", "-k", "-F", '"group"', "--limit", "1", str(TX / "__consumer_offsets-0"))
    assert (done.status, done.out.count(b"\n")) == (0, 1)
    assert b'"offset":' in done.out
    assert kafkalog("grep", "-k", "-F", '"group"', str(TX / "__consumer_offsets-0")).status == 1


def test_transactional_ids():
    """They are in the logs of __transaction_state of all log dirs of the cluster that are searched."""
    names = {}
    for log_dirs in ([TX], [TX, TX.parent / "d1"]):
        done = kafkalog("grep", "-f", "%P=%X\\n", "--topic", "tx*", "", *map(str, log_dirs))
        names[len(log_dirs)] = set(done.out.decode().splitlines())
    assert {"1004=v2-a", "1005="} <= names[1]
    assert {"1004=v2-a", "1005=v2-b", "-1="} <= names[2]
    assert "1005=" not in names[2]


def test_damage(tmp_path):
    path = str(log(tmp_path / "t-0", batch(0, 3) + with_wrong_checksum(batch(3, 3)) + b"\0" * 7 + batch(6, 3)) / "00000000000000000000.log")
    done = kafkalog("grep", "-k", "k[47]$", "-f", "%o ", path)
    assert (done.out, done.status) == (b"4 7 ", 4)
    assert set(re.findall(r"\[([a-z-]+)\]", done.err)) >= {"crc-mismatch", "batch-size-invalid"}
    assert kafkalog("grep", "x", str(tmp_path / "none")).status == 8


@pytest.mark.parametrize("words", [
    ("-F", "-E", "x"), ("-c", "-l", "x"), ("-c", "--limit", "1", "x"), ("-c", "-A", "1", "x"), ("--tail", "1", "-B", "1", "x"), ("(",),
    ("-o", "--format", "json", "x"), ("-f", "%o", "--format", "jsonl", "x"), ("-f", "%Z", "x"), ("-f", "%m", "x"), ("-F", "x", "-E"),
])  # fmt: skip
def test_wrong_usage(data, words):
    done = kafkalog("grep", *words, "a-1", cwd=data)
    assert done.status == 2, done.err


def test_files_that_are_not_logs(data):
    (data / "a-1" / "00000000000000000000.index").write_bytes(b"")
    assert kafkalog("grep", "needle", "a-1", cwd=data).status == 0
    done = kafkalog("grep", "needle", "a-1/00000000000000000000.index", cwd=data)
    assert done.status == 2
    assert "kafkalog dump-log a-1/00000000000000000000.index" in done.err
    (data / "a-1" / "00000000000000000000.kafka").write_bytes(b"")
    assert "Kafka 0.7" in kafkalog("grep", "needle", "a-1", cwd=data).err
