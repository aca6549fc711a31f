"""What append reads: each byte once, and no more of a line or batch than can be appended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from engine.formats import BATCH_HEADER, Codec
from engine.log.append import frames
from engine.log.append.intake import BatchIntake, FollowerIntake, LineIntake
from engine.log.append.intake_07 import LineIntake07, SetIntake07
from engine.record.builder import NewRecord, build_batch
from kafkalog_cli.commands.append import InputReader
from tests.support.run import kafkalog

ROOT = Path(__file__).parents[2]
NOW = 1_700_000_000_000
CLOCK = ("--now", str(NOW))
LINE = b'{"value":"v"}\n'
SMALL = ("--config", "max.message.bytes=1000")
LONGEST = 16 * 1000 + (1 << 20)  # bytes of a line with that


@pytest.fixture
def taken(monkeypatch):
    """How many bytes each intake was given, piece by piece."""
    sizes = []
    for intake in (LineIntake, BatchIntake, FollowerIntake, LineIntake07, SetIntake07):

        def take(self, data, *, is_last, take=intake.take):
            sizes.append(len(data))
            return take(self, data, is_last=is_last)

        monkeypatch.setattr(intake, "take", take)
    return sizes


@pytest.mark.parametrize("line", [b'{"value":"v","headers":[["a","b"]]}', b'{"{}":1}', b'{"value":"v","{0.x}":1}', b"{"])
def test_braces_in_refused_input_are_text(tmp_path, line):
    source = tmp_path / "in"
    source.write_bytes(LINE * 3 + line + b"\n" + LINE)
    done = kafkalog("append", "--create", *CLOCK, "--input", str(source), str(tmp_path / "t-0"))
    assert (done.status, "records before it appended\n" in done.out.decode()) == (4, True), done


@contextmanager
def pipe(tmp_path, data):
    """A pipe that gives `data`; (its path, a list: how many bytes nobody wanted, once all is over)."""
    path, left = tmp_path / "pipe", []
    os.mkfifo(path)

    def write():
        view = memoryview(data)
        with path.open("wb", buffering=0) as file:
            try:
                while view:
                    view = view[file.write(view) :]
            except BrokenPipeError:
                left.append(len(view))

    writer = Thread(target=write)
    writer.start()
    yield str(path), left
    writer.join()


def append_piped(tmp_path, data, *options, directory=None):
    """(text of stdout, exit status, bytes that were not read)."""
    with pipe(tmp_path, data) as (path, left):
        made = ("--create",) if directory is None else ()
        done = kafkalog("append", *made, *CLOCK, "--input", path, *options, str(directory or tmp_path / "t-0"))
    assert done.err == ""
    return done.out.decode(), done.status, sum(left)


def test_a_long_line_from_a_pipe_is_taken_once(tmp_path, taken):
    data = LINE + b'{"value":"%b"}\n' % (b"x" * (6 << 20)) + LINE
    out, status, _ = append_piped(tmp_path, data, "--config", "max.message.bytes=10000000")
    assert (status, "offsets 0 to 2 (3 records)" in out) == (0, True)
    assert len(data) <= sum(taken) < len(data) + (1 << 18)


@pytest.mark.parametrize("options", [(), ("--follower",)])
def test_a_large_batch_from_a_pipe_is_taken_once(tmp_path, taken, options):
    data = bytearray()
    for offset in range(3):
        base = offset if options else 0
        data += build_batch([NewRecord(base, NOW, None, b"x" * (2 << 20))], base_offset=base, partition_leader_epoch=0)
    options = ("--input-format", "raw", "--config", "max.message.bytes=10000000", *options)
    out, status, _ = append_piped(tmp_path, data, *options)
    assert (status, "offsets 0 to 2 (3 records)" in out) == (0, True)
    assert len(data) <= sum(taken) < len(data) + (1 << 19)


@pytest.mark.parametrize("options", [(), ("--input-format", "text"), ("--producer-id", "3", "--transaction", "abort")])
def test_a_line_that_is_too_long_is_not_read_to_its_end(tmp_path, taken, options):
    out, status, left = append_piped(tmp_path, LINE + LINE + b"x" * (8 << 20) + b"\n" + LINE, *SMALL, *options)
    assert status == 4
    assert left > 4 << 20
    assert "line 3: " in out
    assert f"bytes without a line end; with max.message.bytes at 1000 lines of up to {LONGEST} bytes are read" in out
    assert "; 2 records before it appended" in out
    assert sum(taken) < 1 << 18


def test_the_longest_line_is_read(tmp_path):
    line = b'{"value":"%b"}' % (b"\\u0041" * 900)
    out, status, _ = append_piped(tmp_path, line + b" " * (LONGEST - len(line)) + b"\n", *SMALL)
    assert (status, "offset 0 (1 record)" in out) == (0, True)


def test_what_gets_smaller_may_be_a_longer_line(tmp_path):
    data = b"x" * (3 << 20) + b"\n"
    out, status, _ = append_piped(tmp_path, data, "--input-format", "text", "--compression", "zstd", "--config", "max.message.bytes=4000")
    assert (status, "offset 0 (1 record)" in out) == (0, True)


GOOD = build_batch([NewRecord(0, NOW, None, b"v")], partition_leader_epoch=0)


def head(size):
    """The start of a batch of `size` bytes."""
    data = bytearray(GOOD)
    BATCH_HEADER.put("base_offset", data, 0, 1)
    BATCH_HEADER.put("batch_length", data, 0, size - 12)
    return bytes(data)


@pytest.mark.parametrize(("start", "options", "why"), [
    (head(2_000_000_000), (), "The record batch size in the append to t-0 is 2000000000 bytes which exceeds the maximum configured value of 1048588"),
    (head(2_000_000_000), ("--follower",), "Message batch size is 2000000000 bytes in append to partition t-0, which exceeds the maximum"),
    (head(20), (), "Record size 8 is less than the minimum record overhead (14)"),
    (head(20), ("--follower",), "Record size 8 is less than the minimum record overhead (14)"),
], ids=["large", "large, follower", "small", "small, follower"])  # fmt: skip
def test_a_batch_that_can_not_be_appended_is_not_read_to_its_end(tmp_path, start, options, why):
    out, status, left = append_piped(tmp_path, GOOD + start + bytes(8 << 20), "--input-format", "raw", *options)
    assert status == 4
    assert left > 4 << 20
    assert why in out
    assert "; 1 record before it appended" in out


@pytest.mark.parametrize(("data", "options", "why"), [
    (b'{"value":"v"}\n' + b"x" * (24 << 20), (), "line 2: "),
    (b"\0\x7f\0\0\x01\0" + b"x" * (24 << 20), ("--input-format", "raw"), "payload size of 8323066 larger than 1000000"),
], ids=["line", "entry"])  # fmt: skip
def test_nor_what_a_log_of_0_7_does_not_take(own_corpus, tmp_path, data, options, why):
    directory = tmp_path / "plain-0"
    shutil.copytree(own_corpus / "old/0.7.2/logs/plain-0", directory)
    out, status, left = append_piped(tmp_path, data, *options, directory=directory)
    assert status == 4
    assert left > 2 << 20
    assert why in out


def test_many_runs_are_flushed_and_told_before_the_end(tmp_path, monkeypatch):
    """Else memory would grow with them: duplicates between new batches are runs of their own."""
    monkeypatch.setattr(frames, "_MOST", 3)
    flushes, flush = [], InputReader._flush
    monkeypatch.setattr(InputReader, "_flush", lambda reader: (flushes.append(1), flush(reader)))
    value = os.urandom(100_000)
    one = build_batch([NewRecord(0, NOW, None, value)], producer_id=7, producer_epoch=0, base_sequence=0)
    (tmp_path / "in").write_bytes(one * 30)
    words = ("--create", *CLOCK, "--input", str(tmp_path / "in"), "--input-format", "raw", str(tmp_path / "t-0"))
    done = kafkalog("append", *words)
    lines = [line.split(": ")[1] for line in done.out.decode().splitlines() if "record" in line]
    assert lines == ["offset 0 (1 record)"] + ["offset 0 (1 record, already in the log)"] * 29
    assert len(flushes) == 2  # one more than that of the end


def test_compressed_batches_are_remembered_as_one_run(tmp_path, monkeypatch):
    waiting, take = [], BatchIntake.take

    def noted(self, data, *, is_last):
        done = take(self, data, is_last=is_last)
        waiting.append(len(self.appended._waiting))
        return done

    monkeypatch.setattr(BatchIntake, "take", noted)
    batches = bytearray().join(build_batch([NewRecord(0, NOW, None, b"v")], codec=Codec.LZ4) for _ in range(300))
    (tmp_path / "in").write_bytes(batches)
    words = ("--create", *CLOCK, "--input", str(tmp_path / "in"), "--input-format", "raw", str(tmp_path / "t-0"))
    assert b"offsets 0 to 299 (300 records)" in kafkalog("append", *words).out
    assert waiting == [1]


PEAK = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "kafkalog_cli.main", *sys.argv[1:]], capture_output=True)
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def test_a_line_without_end_takes_little_memory(tmp_path):
    (tmp_path / "in").touch()
    os.truncate(tmp_path / "in", 300 << 20)
    words = ("append", "--create", "--input", str(tmp_path / "in"), str(tmp_path / "t-0"))
    run = subprocess.run([sys.executable, "-c", PEAK, *words], cwd=ROOT, capture_output=True, text=True, check=True)
    status, peak = map(int, run.stdout.split())
    assert status == 4
    assert peak < 128 * 1024  # KiB


@pytest.mark.parametrize("paths", [(), ("t-0", "t-1")])
def test_one_path_is_wanted(tmp_path, paths):
    """log.dirs of a broker name no partition."""
    (tmp_path / "server.properties").write_text(f"log.dirs={tmp_path}\n")
    for name in paths:
        (tmp_path / name).mkdir()
    done = kafkalog("append", "--config-file", "server.properties", "--input", os.devnull, *paths, cwd=tmp_path)
    assert (done.out, done.status) == (b"", 2)
    assert "Usage: kafkalog append [OPTIONS] PATH\n" in done.err
    assert ("unexpected extra argument (t-1)" if paths else "Missing argument 'PATH'") in done.err


def test_settings_come_from_a_config_file_all_the_same(tmp_path):
    (tmp_path / "server.properties").write_text("log.dirs=/nowhere\nmessage.max.bytes=90\n")
    (tmp_path / "in").write_bytes(b'{"value":"%b"}\n' % (b"v" * 100))
    words = ("--create", "--config-file", str(tmp_path / "server.properties"), "--input", str(tmp_path / "in"), str(tmp_path / "t-0"))
    done = kafkalog("append", *words)
    assert done.status == 4
    assert b"exceeds the maximum configured value of 90" in done.out
