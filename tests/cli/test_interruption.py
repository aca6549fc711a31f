"""Ctrl-C and SIGTERM in the middle of every command that changes files: one line, 130 or 143, and nothing is broken."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.checkpoint.checkpoints import decode_offset_checkpoint
from engine.files import ReadOnlyFiles
from tests.support.file_work import tree
from tests.support.run import kafkalog
from tests.support.terminal import all_said

ROOT = Path(__file__).parents[2]
NOW = "1700681300000"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}

# some of the places at which a signal may be heeded, the first and one behind the last among them: a child for each, with a
# copy of the directory of its own
SIGNAL_AT_EACH_PLACE = """
import json, os, shutil, signal, sys
from kafkalog_cli import start
from kafkalog_cli.interruption import INTERRUPTION
import kafkalog_cli.main

words, source, copies, number, count = json.loads(sys.argv[1])
signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)  # nohup may have ignored it
check, place, seen = INTERRUPTION.check, 0, 0

def counted():
    global seen
    seen += 1
    if seen == place:
        os.kill(os.getpid(), number)
    check()

INTERRUPTION.check = counted
shutil.copytree(source, f"{copies}/whole")
os.chdir(f"{copies}/whole")
try:
    kafkalog_cli.main.main(words)  # imports what the children need
except SystemExit:
    pass
places = sorted({1 + seen * number // count for number in range(count)})
for place in [*places, seen + 1]:
    seen = 0
    copy = f"{copies}/{place}"
    shutil.copytree(source, copy)
    child = os.fork()
    if not child:
        os.chdir(copy)
        os.dup2(os.open("out", os.O_CREAT | os.O_WRONLY), 1)
        os.dup2(os.open("err", os.O_CREAT | os.O_WRONLY), 2)
        sys.argv = ["kafkalog", *words]
        start.main()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print("status", place, status, flush=True)
"""


def stopped_at_each_place(tmp_path, source, words, number=signal.SIGTERM, count=9):
    """The copies that were stopped in the middle, and the last one, which was not."""
    copies = tmp_path / "copies"
    copies.mkdir()
    argument = json.dumps([words, str(source), str(copies), number, count])
    done = subprocess.run([sys.executable, "-c", SIGNAL_AT_EACH_PLACE, argument], env=ENVIRONMENT, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stderr.splitlines() if not line.startswith("kept in quarantine: ")]
    *stopped, last = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("status ")]
    assert last[1] in ("0", "1"), (copies / last[0] / "err").read_text()
    assert {status for _place, status in stopped} == {str(128 + number)}
    assert len(stopped) > 3
    return [copies / place for place, _status in stopped], copies / last[0]


def told(copy, name):
    """The one line about the signal; only what is kept in a quarantine is said after it."""
    err = (copy / "err").read_text()
    assert err.startswith(f"interrupted by {name}: "), err
    assert [line for line in err.splitlines()[1:] if not line.startswith("kept in quarantine: ")] == [], err
    return err


def files_of(top):
    return {name: data for name, data in tree(ReadOnlyFiles(), str(top)).items() if not name.endswith(".lock")}


def partitions_of(top):
    return {name: data for name, data in files_of(top).items() if "/" in name}


def checkpoints_of(copy):
    """By name of a checkpoint, what it says of each partition; nothing where there is none."""
    found = {}
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        path = copy / "data" / name
        entries = decode_offset_checkpoint(path.read_bytes(), str(path)).entries if path.exists() else ()
        found[name] = {f"{entry.topic}-{entry.partition}": entry.offset for entry in entries}
    return found


@pytest.fixture
def source(own_corpus, tmp_path):
    """A log dir of a killed broker with damage in one partition."""
    top = tmp_path / "source"
    (top / "data").mkdir(parents=True)
    for name in ("d1/u-plain-0", "d0/u-rolls-0"):
        shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean" / name, top / "data" / name[3:])
    shutil.copy(own_corpus / "kafka-4.3.1/logs/unclean/d1/meta.properties", top / "data")
    log = top / "data/u-plain-0/00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    return top


@pytest.fixture
def sound(source):
    """The same, recovered."""
    assert kafkalog("recover", "--no-quarantine", "--now", NOW, str(source / "data")).status == 1
    return source


@pytest.mark.parametrize(("number", "jobs"), [(signal.SIGINT, "1"), (signal.SIGTERM, "2"), (signal.SIGHUP, "1")])
def test_recover(tmp_path, source, number, jobs):
    words = ["recover", "--jobs", jobs, "--quarantine", "../kept", "--now", NOW, "."]
    (tmp_path / "in").mkdir()
    shutil.move(source / "data", tmp_path / "in/data")
    before = files_of(tmp_path / "in/data")
    words[4], words[-1] = "kept", "data"
    stopped, last = stopped_at_each_place(tmp_path, tmp_path / "in", words, number)
    kept = 0
    for copy in stopped:
        line = told(copy, number.name)
        assert "of 2 partitions done" in line or "nothing was started" in line
        if (copy / "kept/manifest.jsonl").exists():
            kept += 1
            done = kafkalog("restore", str(copy / "kept"))
            assert done.status == 0, done.err
            assert b"as before `recover`" in done.out
        assert files_of(copy / "data") == before
        assert kafkalog("recover", "--no-quarantine", "--now", NOW, str(copy / "data")).status == 1
        assert partitions_of(copy / "data") == partitions_of(last / "data")
    assert kept > 2


COMMANDS = {
    "roll": ["roll"],
    "truncate": ["truncate", "--to", "100"],
    "retain": ["retain", "--config", "retention.bytes=1"],
    "delete-records": ["delete-records", "--before", "90"],
    "compact": ["compact", "--force", "--config", "cleanup.policy=compact"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_writer(tmp_path, sound, name):
    words = [*COMMANDS[name], "--jobs", "1", "--now", NOW, "data/u-rolls-0"]
    stopped, last = stopped_at_each_place(tmp_path, sound, words, signal.SIGINT)
    for copy in stopped:
        line = told(copy, "SIGINT")
        assert any(what in line for what in ("nothing was started", "; not done: u-rolls-0", "1 of 1 partition done")), line
        if "1 of 1 partition done" in line:
            assert checkpoints_of(copy) == checkpoints_of(last)
        again = kafkalog("recover", "--no-quarantine", "--now", NOW, str(copy / "data"))
        # an index that a truncation had not come to still tells of the records, as one does after a loss
        assert again.status in ((0, 1, 4) if name == "truncate" else (0, 1)), again.err
        assert b"with loss" not in again.out
        found = [line for line in kafkalog("verify", str(copy / "data")).err.splitlines() if "[" in line]
        # the epochs of records that were about to go are dropped before the log start offset is noted, in a broker too
        assert all("leader-epoch-checkpoint, offset " in line and "no entry for offset" in line for line in found), found
        done = kafkalog(*words[:-1], str(copy / "data/u-rolls-0"))
        assert done.status in (0, 1), (done.out, done.err)
        wanted = {path: data for path, data in files_of(last / "data").items() if path.endswith(".log") and data}
        assert {path: data for path, data in files_of(copy / "data").items() if path.endswith(".log") and data} == wanted


def test_what_is_done_is_in_the_checkpoints(tmp_path, sound):
    """Which records are deleted stands in the checkpoint of the log dir only: it must say so of what is reported as done."""
    names = ("u-plain-0", "u-rolls-0")
    words = ["delete-records", "--no-quarantine", "--before", "20", "--jobs", "1", "--now", NOW, *(f"data/{name}" for name in names)]
    stopped, last = stopped_at_each_place(tmp_path, sound, words, signal.SIGINT, count=60)
    assert checkpoints_of(last)["log-start-offset-checkpoint"] == dict.fromkeys(names, 20)
    tallied = set()
    for copy in stopped:
        line = told(copy, "SIGINT")
        if "nothing was started" in line:
            continue
        tallied.add(line.partition(" partitions")[0])
        missing = line.partition("; not done: ")[2].partition(";")[0].strip().split(", ")
        noted = checkpoints_of(copy)["log-start-offset-checkpoint"]
        assert {name for name in names if name not in missing} <= noted.keys() <= set(names), line
    assert {one.rpartition(": ")[2] for one in tallied} >= {"0 of 2", "1 of 2", "2 of 2"}


@pytest.mark.parametrize(("number", "jobs"), [(signal.SIGINT, "1"), (signal.SIGTERM, "2")])
def test_what_is_recovered_is_in_the_checkpoints(tmp_path, source, number, jobs):
    """Of a log dir that is recovered as a whole; with --log-start-offset the one checkpoint tells something, too."""
    names = {"u-plain-0", "u-rolls-0"}
    words = ["recover", "--no-quarantine", "--log-start-offset", "20", "--jobs", jobs, "--now", NOW, "data"]
    stopped, last = stopped_at_each_place(tmp_path, source, words, number, count=40)
    wanted = checkpoints_of(last)
    assert wanted["log-start-offset-checkpoint"] == dict.fromkeys(names, 20)
    tallied = set()
    for copy in stopped:
        line = told(copy, number.name)
        if "nothing was started" in line:
            continue
        tallied.add(line.partition(" partitions")[0].rpartition(": ")[2])
        done = names.difference(line.partition("; not done: ")[2].partition(";")[0].strip().split(", "))
        for name, noted in checkpoints_of(copy).items():
            assert done <= noted.keys() <= names, (line, name)
            assert noted.items() <= wanted[name].items(), (line, name)
    assert tallied >= {"0 of 2", "1 of 2"}


@pytest.mark.parametrize(("number", "jobs"), [(signal.SIGINT, "1"), (signal.SIGTERM, "2")])
def test_verify_index_rebuild(tmp_path, sound, number, jobs):
    """Logs are not touched; what was not rebuilt yet is still named, and the next run does it."""
    logs = {path: data for path, data in files_of(sound / "data").items() if path.endswith(".log")}
    for path in sorted((sound / "data").glob("*/*index"))[::2]:
        path.write_bytes(path.read_bytes()[:-1] + b"x" * 7)
    words = ["verify", "--rebuild", "--format", "json", "--jobs", jobs, "--now", NOW, "data"]
    stopped, last = stopped_at_each_place(tmp_path, sound, words, number, count=24)
    begun = 0
    for copy in stopped:
        line = told(copy, number.name)
        assert "of 2 partitions done" in line or "nothing was started" in line
        end = json.loads((copy / "out").read_text())["objects"][-1]  # the document is whole
        assert (end["type"], end["exit_status"]) == ("end", 128 + number)
        begun += files_of(copy / "data") != files_of(sound / "data")
        left = files_of(copy / "data")
        assert {path: data for path, data in left.items() if path.endswith(".log")} == logs
        assert kafkalog("verify", "--rebuild", "--now", NOW, str(copy / "data")).status in (0, 1)
        assert kafkalog("verify", str(copy / "data")).status == 0
        assert files_of(copy / "data") == files_of(last / "data")
    assert begun > 1


def test_restore_goes_on_where_it_was_stopped(tmp_path, source):
    before = files_of(source / "data")
    assert kafkalog("recover", "--quarantine", str(source / "kept"), "--now", NOW, str(source / "data")).status == 1
    moved = (source / "kept/manifest.jsonl").read_text()
    moved = re.sub(r', "sha256": "[0-9a-f]{64}"}$', "}", moved.replace(str(source), "/proc/self/cwd"))
    (source / "kept/manifest.jsonl").write_text(moved)
    # paths of a manifest are absolute: of whichever copy the process stands in
    stopped, last = stopped_at_each_place(tmp_path, source, ["restore", "kept"], signal.SIGTERM)
    for copy in stopped:
        told(copy, "SIGTERM")
        done = kafkalog("restore", "kept", cwd=copy)
        assert done.status == 0, done.err
        assert files_of(copy / "data") == before
    assert files_of(last / "data") == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_append_says_how_far_it_came(tmp_path, number):
    """It waits for input: what came is appended, on the disk, and named."""
    words = ["append", "--create", "--now", NOW, "--input-format", "text", "--flush-messages", "2", "--batch-size", "1", "t-0"]
    with subprocess.Popen([sys.executable, "-m", "kafkalog_cli", *words], cwd=tmp_path, env=ENVIRONMENT, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # fmt: skip
        process.stdin.write("a\nb\nc\nhalf a line")
        process.stdin.flush()
        assert process.stdout.readline() == "t-0: offsets 0 to 1 (2 records)\n"
        process.send_signal(number)
        out, err = process.communicate()
    assert process.returncode == 128 + number
    assert err == ""
    third, refused, end = [line for line in out.splitlines() if not any(one in line for one in ("created", "note:", "brought up to date"))]
    assert third == "t-0: offset 2 (1 record)"
    assert refused.endswith(f"interrupted by {number.name}; 3 records of the input appended and flushed to disk")
    assert end.startswith("t-0: offsets 0 to 2 in 1 segment, ")
    assert end.endswith("done in part")
    assert kafkalog("recover", "--dry-run", str(tmp_path / "t-0")).status == 0


def test_half_a_transaction_is_aborted(tmp_path):
    words = ["append", "--create", "--now", NOW, "--input-format", "text", "--flush-messages", "1", "--batch-size", "1",
             "--producer-id", "7", "--transaction", "commit", "t-0"]  # fmt: skip
    with subprocess.Popen([sys.executable, "-m", "kafkalog_cli", *words], cwd=tmp_path, env=ENVIRONMENT, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # fmt: skip
        process.stdin.write("a\n")
        process.stdin.flush()
        assert process.stdout.readline() == "t-0: offset 0 (1 record)\n"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate()
    assert process.returncode == 130
    assert "abort marker at offset 1" in out


def test_a_second_signal_ends_it_at_once(tmp_path):
    code = """
import os, signal, sys
from kafkalog_cli.interruption import INTERRUPTION
with INTERRUPTION:
    os.kill(os.getpid(), signal.SIGINT)
    print("goes on", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    print("never")
"""
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (143, "goes on\n")
    assert done.stderr == "interrupted again: left at once, as a crash would leave it\n"


def test_a_second_signal_leaves_a_terminal_as_it_was():
    code = """
import os, signal
from rich.console import Console
from rich.progress import Progress
from kafkalog_cli.interruption import INTERRUPTION
with INTERRUPTION, Progress(console=Console(stderr=True), auto_refresh=False) as bar:
    bar.add_task("work")
    bar.refresh()
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)
"""
    master, slave = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", code], env={**ENVIRONMENT, "TERM": "xterm"}, stderr=slave) as process:
        os.close(slave)
        said = all_said(master).decode()
    assert process.returncode == 130
    assert "\x1b[?25l" in said, "the bar hides the cursor"
    assert said.endswith("\r\x1b[K\x1b[?25hinterrupted again: left at once, as a crash would leave it\r\n")


def test_a_signal_that_is_ignored_stays_ignored():
    code = """
import os, signal
from kafkalog_cli.interruption import INTERRUPTION
signal.signal(signal.SIGHUP, signal.SIG_IGN)
with INTERRUPTION:
    os.kill(os.getpid(), signal.SIGHUP)
    INTERRUPTION.check()
print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)
"""
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
