"""kafkalog fetch: records as text, as JSON, as they stand in the log."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from engine.files import ReadOnlyFiles
from engine.record.builder import NewRecord, build_batch
from engine.record.selection import EVERYTHING
from kafkalog_cli import fetched_log
from kafkalog_cli.fetch_output import Wanted
from tests.record.test_legacy import message, wrapper
from tests.support.json_output import all_objects, validator
from tests.support.run import kafkalog
from tests.support.terminal import all_said

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def logs(own_corpus):
    return own_corpus / "kafka-4.3.1/logs"


def fetch(*words, cwd=None):
    return kafkalog("fetch", *words, cwd=cwd)


def offsets(done):
    assert done.status == 0, done.err
    return [int(line) for line in done.out.split()]


def test_values_are_lines(logs):
    done = fetch("clean/d0/tx-0", cwd=logs)
    assert done.status == 0
    assert done.out.count(b"\n") == len(offsets(fetch("-f", "%o\\n", "clean/d0/tx-0", cwd=logs)))


def test_every_letter_of_the_template(logs):
    template = r"%t|%p|%o|%T|%k|%K|%S|%h|%%|\t\x41\n"
    done = fetch("--offset", "2", "--limit", "1", "-f", template, "clean/d1/edge-keys_and.headers-0", cwd=logs)
    fields = done.out.decode().rstrip("\n").split("|")
    assert fields[:3] == ["edge-keys_and.headers", "0", "2"]
    assert fields[-2:] == ["%", "\tA"]
    assert fetch("-f", "%R", "--limit", "1", "clean/d1/edge-keys_and.headers-0", cwd=logs).out == b"\xff\xff\xff\xff"
    more = fetch("--offset", "41", "--limit", "1", "-f", "%P|%E|%q|%L|%b|%X|%F", "clean/d1/small_segments-0", cwd=logs)
    assert more.out == b"1006|0|41|0|2118||clean/d1/small_segments-0/00000000000000000022.log"
    refused = fetch("-f", "%m", "clean/d0/tx-0", cwd=logs)
    assert (refused.status, refused.err.split(":")[0]) == (2, "error[usage] %m")


def test_where_to_begin(logs):
    path = "clean/d1/small_segments-0"
    everything = offsets(fetch("-f", "%o ", path, cwd=logs))
    assert offsets(fetch("-f", "%o ", "--offset", "23", path, cwd=logs)) == [one for one in everything if one >= 23]
    assert offsets(fetch("-f", "%o ", "--offset", "-3", path, cwd=logs)) == everything[-3:]
    assert offsets(fetch("-f", "%o ", "--offset", "earliest", "--limit", "2", path, cwd=logs)) == everything[:2]
    assert offsets(fetch("-f", "%o ", "--offset", "end", path, cwd=logs)) == []
    times = [int(line) for line in fetch("-f", "%T\n", path, cwd=logs).out.split()]
    middle = sorted(times)[len(times) // 2]
    first = offsets(fetch("-f", "%o ", "--time", str(middle), "--limit", "1", path, cwd=logs))
    assert first == [next(one for one, stamp in zip(everything, times, strict=True) if stamp >= middle)]
    assert offsets(fetch("-f", "%o ", "--time", "2999-01-01", path, cwd=logs)) == []
    beyond = fetch("--offset", "999999", path, cwd=logs)
    assert beyond.status == 2
    assert "we only have log segments upto" in beyond.err


def test_isolation(logs):
    path = "clean/d0/tx-0"
    all_of_them, committed = (
        [int(word) for word in fetch("-f", "%o ", "--isolation", name, path, cwd=logs).out.split()]
        for name in ("read_uncommitted", "read_committed")
    )
    assert set(committed) < set(all_of_them)


def test_json_fits_the_schema(logs):
    found = all_objects(fetch("--format", "jsonl", "clean/d1/edge-keys_and.headers-0", cwd=logs).out)
    assert found[-1]["objects"] == {"fetched-record": len(found) - 2}
    for one in found:
        validator(one["type"]).validate(one)
    assert all_objects(fetch("--format", "json", "clean/d1/edge-keys_and.headers-0", cwd=logs).out) == found


def test_raw_is_the_log(logs, tmp_path):
    path = logs / "clean/d1/small_segments-0"
    whole = b"".join(one.read_bytes() for one in sorted(path.glob("*.log")))
    assert fetch("--raw", str(path)).out == whole
    size = 12 + int.from_bytes(whole[8:12], "big")
    assert fetch("--raw", "--max-bytes", str(size), str(path)).out == whole[:size]
    assert fetch("--raw", "--max-bytes", "1", str(path)).out == whole[:size]
    assert fetch("--raw", "--max-bytes", str(size + 1), str(path)).out == whole[:size]
    for flags in ("wb", "ab"):  # the kernel refuses to send to a file opened for appending
        with open(tmp_path / "out", flags) as out:
            words = [sys.executable, "-m", "kafkalog_cli.main", "fetch", "--raw", str(path)]
            assert subprocess.run(words, stdout=out, cwd=ROOT, check=False).returncode == 0
    assert (tmp_path / "out").read_bytes() == whole + whole
    piped = subprocess.run(words, capture_output=True, cwd=ROOT, check=False)
    assert piped.stdout == whole


def test_options_that_exclude_each_other(logs):
    for words in (["--raw", "--limit", "1"], ["--raw", "--merge"], ["--limit", "1", "--tail", "1"], ["--partition", "1"], ["--format", "json", "-f", "%s"]):
        assert fetch(*words, "clean/d0/tx-0", cwd=logs).status == 2
    assert fetch("no-such-partition", cwd=logs).status == 8
    assert fetch("clean", cwd=logs).status == 2


def test_follow_shows_what_is_appended_until_interrupted(own_corpus, tmp_path):
    partition = tmp_path / "topic-0"
    shutil.copytree(own_corpus / "kafka-4.3.1/cases/recover-clean/before/topic-0", partition)
    log = max(partition.glob("*.log"))
    whole = log.read_bytes()
    first = 12 + int.from_bytes(whole[8:12], "big")
    log.write_bytes(whole[:first])
    words = [sys.executable, "-m", "kafkalog_cli.main", "fetch", "--follow", "-f", "%o\\n", str(partition)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as running, ExitStack() as ending:
        ending.callback(running.kill)
        assert running.stdout is not None
        base = int(log.stem)
        before = [int(running.stdout.readline())]
        while before[-1] < base:
            before.append(int(running.stdout.readline()))
        log.write_bytes(whole)
        after = [int(running.stdout.readline())]
        while after[-1] < int.from_bytes(whole[:8], "big") + 5:
            after.append(int(running.stdout.readline()))
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 130
    assert after[0] > before[-1]


def test_nothing_is_changed(logs, tmp_path):
    shutil.copytree(logs / "unclean/d0/u-plain-1", tmp_path / "u-plain-1")
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "u-plain-1").iterdir()}
    os.chmod(tmp_path / "u-plain-1", 0o500)
    assert fetch(str(tmp_path / "u-plain-1")).status == 0
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "u-plain-1").iterdir()} == before
    os.chmod(tmp_path / "u-plain-1", 0o700)


def test_limit_counts_records(logs):
    path = "clean/d1/bulk-0"
    everything = offsets(fetch("-f", "%o ", path, cwd=logs))
    for limit in (0, 1, 39, 41, len(everything), len(everything) + 1):
        count = min(limit, len(everything))
        assert offsets(fetch("-f", "%o ", "--limit", str(limit), path, cwd=logs)) == everything[:count]
        lines = fetch("--format", "jsonl", "--limit", str(limit), path, cwd=logs).out.splitlines()
        assert [json.loads(line)["offset"] for line in lines[1:-1]] == everything[:count]


def test_a_message_cut_off_inside_a_set_is_told(tmp_path):
    """A consumer is handed what stands before it, without a word."""
    inner = b"".join(message(offset, None, b"v%d" % offset, magic=0) for offset in range(3))
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0/00000000000000000000.log").write_bytes(wrapper(2, inner[:-1], magic=0))
    done = fetch(str(tmp_path / "t-0"))
    assert (done.out, done.status) == (b"v0\nv1\n", 4)
    assert "error[record-invalid]" in done.err
    assert "message 2 is cut off" in done.err


@pytest.mark.parametrize("order", [(2, 1, 0), (0, 2, 1), (1, 0, 2)])
@pytest.mark.parametrize("words", [(), ("--max-bytes", "10000")])
def test_batches_as_they_are_come_once_though_their_offsets_run_backwards(tmp_path, order, words):
    (tmp_path / "t-0").mkdir()
    data = b"".join(build_batch([NewRecord(10 * number, 1, None, b"v")]) for number in order)
    (tmp_path / "t-0/00000000000000000000.log").write_bytes(data)
    following = build_batch([NewRecord(30, 1, None, b"v")])
    (tmp_path / "t-0/00000000000000000030.log").write_bytes(following)
    done = subprocess.run([sys.executable, "-m", "kafkalog_cli", "fetch", "--raw", *words, str(tmp_path / "t-0")],
                          cwd=ROOT, stdout=subprocess.PIPE, timeout=60, check=False)  # fmt: skip
    assert (done.stdout, done.returncode) == (data + following, 4), "no segment holds the offsets before 30"


def test_at_least_one_batch_whatever_the_bytes(logs):
    first = fetch("--max-bytes", "1", "clean/d0/tx-0", cwd=logs)
    assert first.out
    assert fetch("--max-bytes", "0", "clean/d0/tx-0", cwd=logs) == first
    first = fetch("--max-bytes", "1", "--raw", "clean/d0/tx-0", cwd=logs)
    assert first.out
    assert fetch("--max-bytes", "0", "--raw", "clean/d0/tx-0", cwd=logs) == first


@pytest.mark.parametrize(("content", "code"), [(b"no batch " * 300, "torn-tail"), (bytes(3000), "zero-tail")])
@pytest.mark.parametrize("words", [("fetch",), ("fetch", "--raw"), ("export", "--to", "-", "--as", "jsonl")], ids=" ".join)
def test_a_log_without_a_sound_batch_is_not_an_empty_log(tmp_path, words, content, code):
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0/00000000000000000000.log").write_bytes(content)
    done = kafkalog(*words, str(tmp_path / "t-0"))
    assert (done.status, done.out, done.err.count(f"[{code}]")) == (4, b"", 1)


def test_an_offset_that_the_log_does_not_have_is_wrong_usage(logs):
    for words in ((), ("--raw",)):
        done = fetch("--offset", "9999999", *words, "clean/d0/tx-0", cwd=logs)
        assert (done.status, done.out) == (2, b"")
        assert "error[offset-out-of-range]" in done.err


def test_a_log_dir_is_no_partition(logs):
    done = fetch("clean/d0", cwd=logs)
    assert done.status == 2
    assert "\n  do   kafkalog fetch --topic NAME clean/d0" in done.err


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_a_path_that_is_not_there_is_told_in_the_form_that_was_asked_for(form, tmp_path):
    done = fetch("--format", form, "orders-7", cwd=tmp_path)
    assert done.status == 8
    found = all_objects(done.out)[1:]
    assert [one["type"] for one in found] == ["error", "end"]


def test_so_many_offsets_before_the_end_are_no_number_of_records(logs):
    """Control records have offsets, too: of the last ten offsets of this log three are markers."""
    shown = fetch("--offset", "-10", "-f", "%o\n", "clean/d0/tx-0", cwd=logs).out.split()
    assert len(shown) == 7
    assert int(shown[0]) >= 78


def following(partition, *words):
    command = [sys.executable, "-m", "kafkalog_cli.main", "fetch", "--follow", *words, str(partition)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)


@pytest.mark.parametrize("words", [("-f", "%o\\n"), ("--raw",), ("--format", "jsonl")])
def test_a_batch_that_is_being_written_is_no_error_while_following(tmp_path, words):
    """A broker's write is seen piece by piece; where it only stood still for a moment, nothing is torn."""
    partition, batches = tmp_path / "t-0", [build_batch([NewRecord(offset, 1, None, b"v" * 3000)]) for offset in range(4)]
    partition.mkdir()
    log = partition / "00000000000000000000.log"
    log.write_bytes(batches[0] + batches[1][:100])
    with following(partition, *words) as running, ExitStack() as ending:
        ending.callback(running.kill)
        assert running.stdout is not None
        assert running.stderr is not None
        shown = os.read(running.stdout.fileno(), 1 << 16)
        for count in range(1, 4):
            with log.open("ab") as file:
                for at in range(100 if count == 1 else 0, len(batches[count]), 1000):
                    file.write(batches[count][at : at + 1000])
                    file.flush()
                    time.sleep(0.3)
        while shown.count(b"v" * 3000 if words[0] != "-f" else b"\n") < 4:
            shown += os.read(running.stdout.fileno(), 1 << 16)
        running.send_signal(signal.SIGINT)
        running.wait(20)
        assert b"torn-tail" not in shown + running.stderr.read()


def test_a_torn_end_that_stands_still_is_reported_once(tmp_path, monkeypatch):
    partition = tmp_path / "t-0"
    partition.mkdir()
    batch = build_batch([NewRecord(0, 1, None, b"v")])
    (partition / "00000000000000000000.log").write_bytes(batch + batch[:20])
    told, looks = [], []
    monkeypatch.setattr(fetched_log, "_PATIENCE", 1)

    def sleep(seconds):
        looks.append(seconds)
        if len(looks) == 20:
            raise KeyboardInterrupt

    monkeypatch.setattr(fetched_log.time, "sleep", sleep)
    wanted = Wanted(
        start="earliest", selection=EVERYTHING, max_bytes=None, isolation="read_uncommitted", open_transactions=None, log_dirs=(),
        follow=True, merge=False, log_start_offset=None, high_watermark=None, template=None, form="text", raw=False, force=False,
        jobs=1,
    )  # fmt: skip
    log = fetched_log.Log(str(partition), wanted, told.append, fetched_log.Source(ReadOnlyFiles(), None))
    assert told == []
    with pytest.raises(KeyboardInterrupt):
        list(fetched_log.rounds([log], wanted))
    assert [finding.code for finding in told] == ["torn-tail"]
    log.close()


def on_terminal(*words):
    """(what the terminal shows, the status, stderr)."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "kafkalog_cli.main", "fetch", *words]
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, cwd=ROOT) as running:
        os.close(theirs)
        shown = all_said(ours)
        assert running.stderr is not None
        err = running.stderr.read()
    return shown, running.returncode, err.decode()


@pytest.mark.parametrize("words", [("--raw",), ("-f", "%R%s"), ("-f", r"\x1b[2J%s\n"), ("-f", "\x1b[2J%s\n"), ("-f", r"\xff"), ("-f", r"%s\0")])
def test_raw_bytes_are_refused_by_a_terminal(words, logs):
    path = str(logs / "clean/d0/tx-0")
    shown, status, err = on_terminal(*words, path)
    assert (shown, status) == (b"", 2)
    assert "writes control characters to the terminal" in err
    assert "--force" in err
    shown, status, err = on_terminal(*words, "--force", path)
    assert status == 0, err
    assert shown


def test_a_template_of_text_is_shown_by_a_terminal(logs):
    shown, status, err = on_terminal("-f", r"é %o\t%k\x41\r\n", "--limit", "1", str(logs / "clean/d0/tx-0"))
    assert status == 0, err
    assert "é 0\t".encode() in shown


def test_the_name_of_a_topic_is_escaped_on_a_terminal(logs, tmp_path):
    shutil.copytree(logs / "clean/d0/tx-0", tmp_path / "a\x1b[2Jb-0")
    shown, status, err = on_terminal("-f", "%t\\n", "--limit", "1", str(tmp_path / "a\x1b[2Jb-0"))
    assert status == 0, err
    assert rb"a\x1b[2Jb" in shown
    assert b"\x1b" not in shown


def _socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


@pytest.mark.parametrize("number", [0, 1, -1], ids=["first", "middle", "last"])
@pytest.mark.parametrize(("kind", "said"), [
    (os.mkfifo, "a FIFO, not a file"), (os.mkdir, "a directory, not a file"), (_socket, "a socket or an absent device"),
    (lambda path: os.symlink("/of/a/disk/that/is/not/mounted", path), "a symbolic link to a target that does not exist"),
], ids=["fifo", "directory", "socket", "link"])  # fmt: skip
def test_a_segment_that_is_not_a_file_is_not_passed_over(logs, tmp_path, monkeypatch, number, kind, said):
    partition = tmp_path / "small_segments-0"
    shutil.copytree(logs / "clean/d1/small_segments-0", partition)
    segment = sorted(partition.glob("*.log"))[number]
    segment.unlink()
    monkeypatch.chdir(partition)  # the name of a socket is short
    kind(segment.name)
    done = fetch(str(partition))
    assert done.status == 8
    assert f"error[unreadable-file] {segment}: " in done.err
    assert said in done.err


def test_a_segment_with_two_names_is_read(logs, tmp_path):
    partition = tmp_path / "small_segments-0"
    shutil.copytree(logs / "clean/d1/small_segments-0", partition)
    whole = fetch(str(partition))
    os.link(sorted(partition.glob("*.log"))[1], tmp_path / "other")
    again = fetch(str(partition))
    assert (again.status, again.out, again.err) == (0, whole.out, "")
