"""What saw several partitions ends with their number by verdict, and with the next command."""

from __future__ import annotations

import re
import shlex
import shutil

import pytest

from kafkalog_cli.app import size_text
from tests.support.run import kafkalog

END = r"; \d+(\.\d)? (bytes|kB|MB) in \d+\.\d s"


@pytest.fixture
def logs(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d0", tmp_path / "d0")
    return tmp_path / "d0"


def damage(logs):
    """One byte of the first batch of the longest log, the partition."""
    log = max(logs.glob("[a-z]*-*/*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    return log.parent


def total(done):
    return [line for line in done.out.decode().splitlines() if re.match(r"\d+ partitions: ", line)]


def next_command(done):
    [line] = [line for line in done.out.decode().splitlines() if line.startswith("next: ")]
    return shlex.split(line.removeprefix("next: "))[1:]


def test_verify_counts_partitions_by_verdict(logs):
    done = kafkalog("verify", str(logs))
    count = len([line for line in done.out.splitlines() if b": sound (" in line])
    [line] = total(done)
    assert count > 1
    assert re.fullmatch(rf"{count} partitions: {count} sound{END}", line)
    assert b"next: " not in done.out
    partition = damage(logs)
    done = kafkalog("verify", str(logs))
    [line] = total(done)
    assert re.fullmatch(rf"{count} partitions: {count - 1} sound, 1 log damaged{END}", line)
    assert next_command(done) == ["recover", "--full", "--dry-run", str(partition)]
    assert total(kafkalog("verify", "-q", str(logs))) != []


def test_the_next_command_after_verify_rebuilds_the_indexes(logs):
    index = max(logs.glob("[a-z]*-*/*.index"), key=lambda path: path.stat().st_size)
    index.write_bytes(b"\xff" * index.stat().st_size)
    words = next_command(kafkalog("verify", str(logs)))
    assert words == ["verify", "--rebuild", str(index.parent)]
    assert kafkalog(*words).status == 1
    assert b"next: " not in kafkalog("verify", str(logs)).out


@pytest.mark.parametrize("words", [("recover", "--full"), ("retain", "--config", "retention.ms=-1"),
                                   ("compact", "--force", "--config", "cleanup.policy=compact")])  # fmt: skip
def test_a_total_of_reports(words, logs):
    partitions = [str(path) for path in sorted(logs.glob("[a-z]*-*")) if path.is_dir()]
    done = kafkalog(*words, *partitions)
    [line] = total(done)
    assert line.startswith(f"{len(partitions)} partitions: ")
    assert sum(map(int, re.findall(r"(?<=[:,] )(\d+) (?=[a-z])", line))) == len(partitions)
    assert re.search(END + "$", line)
    assert ("with problems left" in line) is (done.status == 4)


def test_a_dry_run_ends_with_the_command_that_does_it(logs):
    damage(logs)
    done = kafkalog("recover", "--full", "-n", str(logs))
    assert "1 repaired with loss" in total(done)[0]
    words = next_command(done)
    assert words == ["recover", "--full", str(logs)]
    assert "1 repaired with loss" in total(kafkalog(*words))[0]


def test_one_partition_and_json_have_no_total(logs):
    partition = next(path for path in sorted(logs.iterdir()) if path.is_dir())
    assert total(kafkalog("verify", str(partition))) == []
    assert total(kafkalog("recover", "-n", str(partition))) == []
    assert b" partitions: " not in kafkalog("recover", "-n", "--format", "json", str(logs)).out
    assert b" partitions: " not in kafkalog("verify", "--format", "jsonl", str(logs)).out


def test_a_quiet_command_with_nothing_wrong_has_no_total(logs):
    assert kafkalog("verify", "-q", str(logs)).out == b""


@pytest.mark.parametrize(("size", "text"), [(0, "0 bytes"), (999, "999 bytes"), (12_345_678, "12.3 MB"), (10**9, "1.0 GB")])
def test_sizes(size, text):
    assert size_text(size) == text
