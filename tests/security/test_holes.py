"""Files of holes: they claim exbibytes, take no room, and must take no time either."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.files import Files
from engine.log.quarantine.manifest import MAX_KEPT_SIZE
from engine.log.segment.sound_runs import sound_batches
from tests.support.run import Done, kafkalog, kafkalog_apart

BASE = "00000000000000000079"
SIZES = (7 << 60, 15 << 40)  # what tmpfs takes; what ext4 does
COMMANDS = {
    "dump-log": ("dump-log", "{file}"),
    "dump-log --continue-on-corruption": ("dump-log", "--continue-on-corruption", "--deep-iteration", "{file}"),
    "dump-log --count": ("dump-log", "--count", "{file}"),
    "verify": ("verify", "{partition}"),
    "verify --rebuild": ("verify", "--rebuild", "{partition}"),
    "recover": ("recover", "{partition}"),
    "recover --salvage": ("recover", "--salvage", "--recovery-point", "0", "{partition}"),
    "retain": ("retain", "--config", "retention.ms=1", "{partition}"),
    "compact": ("compact", "--config", "cleanup.policy=compact", "--force", "{partition}"),
    "fetch": ("fetch", "{partition}"),
}


@pytest.fixture(scope="module", autouse=True)
def _imported(own_corpus, tmp_path_factory):
    """Every command has run here once: its forks need not import it again."""
    partition = shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d0/u-rolls-0", tmp_path_factory.mktemp("imported") / "u-rolls-0")
    for words in COMMANDS.values():
        assert kafkalog(*(word.format(file=partition / f"{BASE}.log", partition=partition) for word in words)).status in (0, 1, 4)


@pytest.fixture
def partition(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d0/u-rolls-0", tmp_path / "d0" / "u-rolls-0")
    return tmp_path / "d0" / "u-rolls-0"


def stretch(path):
    """Let the file end with a hole of the largest size that the file system takes → its size."""
    for size in SIZES:
        try:
            with path.open("ab") as file:
                file.truncate(size)
        except OSError:
            continue
        return size
    return pytest.skip("a file system without large files")


@pytest.mark.parametrize(("command", "suffix"), [
    (command, suffix) for command in COMMANDS for suffix in (".log", ".snapshot", ".index", ".timeindex", ".txnindex")
    if command != "dump-log --count" or suffix == ".log"
])  # fmt: skip
def test_no_command_reads_a_hole(partition, command, suffix):
    file = partition / f"{BASE}{suffix}"
    size = stretch(file)
    words = [word.format(file=file, partition=partition) for word in COMMANDS[command]]
    done = kafkalog_apart(*words)
    if command.startswith(("dump-log", "verify")) or suffix == ".log":
        assert done.status in (1, 4, 8)
        assert str(size) in done.err
    if suffix == ".log" and "--rebuild" not in command:
        assert "error[segment-too-large]" in done.err
    assert done.status in (0, 1, 4, 8)


def test_a_hole_is_reported_as_one(partition):
    file = partition / f"{BASE}.log"
    before = file.stat().st_size
    with file.open("ab") as log:
        log.truncate(1 << 30)
    done = kafkalog_apart("dump-log", file)
    assert f"{(1 << 30) - before} zero bytes after the last batch, in a hole of the file" in done.err


def test_where_data_begins(tmp_path):
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(1 << 30)
        file.seek(1 << 29)
        file.write(b"data")
    with Files().open(str(path)) as file:
        found = file.next_data(0, 1 << 30)
        assert 0 <= found <= 1 << 29
        assert file.next_data(1 << 29, 1 << 30) == 1 << 29
        assert file.next_data(0, 10) <= 10
        assert file.next_data(1 << 30, 1 << 30) == 1 << 30


def stamps(directory):
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns // 1_000_000) for path in directory.iterdir()
            if path.name != ".lock"}  # fmt: skip


def advised(done):
    """The commands that a run tells people to run."""
    lines = [line.removeprefix("  do   ") for line in done.err.splitlines() if line.startswith("  do   ")]
    objects = [json.loads(line) for line in done.out.splitlines() if line.startswith(b"{")]
    lines += [one["do"] for one in objects if one.get("severity") in ("warning", "error")]
    commands = [line.partition("    # ")[0] for line in lines]
    return [command for command in commands if command.split()[0] in ("kafkalog", "truncate", "mv", "du")]


def pasted(command, tmp_path):
    """Run `command` in a shell."""
    program = tmp_path / "bin" / "kafkalog"
    if not program.exists():
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kafkalog_cli "$@"\n')
        program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    root = Path(__file__).parents[2]
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False, timeout=60, cwd=root,
                          env={**os.environ, "PATH": path})  # fmt: skip
    return Done(done.stdout, done.stderr.decode(), done.returncode)


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot", ".log"])
@pytest.mark.parametrize("first", [("verify", "--format", "jsonl"), ("verify", "--rebuild"), ("recover",),
                                   ("dump-log", "--index-sanity-check", "--format", "jsonl")])
def test_each_advice_is_a_command_that_leads_to_a_sound_partition(partition, suffix, first, tmp_path):
    file = partition / f"{BASE}{suffix}"
    stretch(file)
    done = kafkalog_apart(*first, file if first[0] == "dump-log" else partition)
    seen = set()
    while new := [command for command in advised(done) if command not in seen]:
        seen.update(new)
        done = pasted(new[0], tmp_path)
        if new[0].startswith("kafkalog"):
            assert done.status in (1, 4) or advised(done), (new[0], done)
        else:
            assert done.status == 0, (new[0], done.err)
    if suffix == ".log":
        assert any(command.startswith("truncate") for command in seen) or first[0] != "recover"
        assert file.stat().st_size <= 2**31 or first[0] != "recover"
        kafkalog_apart("recover", partition)
    elif first[0] == "recover":
        assert seen == set()
    if suffix != ".log" or first[0] == "recover":
        done = kafkalog_apart("verify", partition)
        assert done.status == 0, (seen, done.out.decode() + done.err)


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot"])
@pytest.mark.parametrize("words", [("recover",), ("recover", "--salvage"), ("verify", "--rebuild")])
def test_a_file_of_holes_is_moved_into_the_quarantine(partition, tmp_path, suffix, words):
    size = stretch(partition / f"{BASE}{suffix}")
    assert size > MAX_KEPT_SIZE
    before = stamps(partition)
    done = kafkalog_apart(*words, partition)
    assert done.status in (0, 1), done.out.decode() + done.err
    quarantine, = (path for path in tmp_path.iterdir() if ".quarantine-" in path.name)
    kept = {path: path.stat() for path in (quarantine / "files").iterdir()}
    assert [one.st_blocks < 100 for one in kept.values() if one.st_size == size] == [True]
    assert kafkalog_apart("verify", partition).status == 0
    done = kafkalog_apart("restore", quarantine)
    assert done.status == 0, done.err
    assert stamps(partition) == before


def test_a_file_of_holes_is_not_copied_to_another_file_system(partition, tmp_path):
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == partition.stat().st_dev:
        pytest.skip("no other file system")
    stretch(partition / f"{BASE}.index")
    before = stamps(partition)
    done = kafkalog_apart("recover", "--quarantine", other / f"kafkalog-{os.getpid()}", partition)
    assert done.status == 8
    assert stamps(partition) == before
    move, = advised(done)
    assert pasted(move, tmp_path).status == 0
    assert kafkalog_apart("recover", partition).status in (0, 1)
    assert kafkalog_apart("verify", partition).status == 0


def test_a_batch_whose_first_bytes_lie_in_a_hole_is_found(partition):
    """High bytes of a base offset are zeros: a file system may keep them as the end of a hole."""
    log = partition / f"{BASE}.log"
    batches = list(sound_batches(Files().open(str(log)), lambda _: None))
    data = log.read_bytes()
    last = data[batches[-1].start : batches[-1].end]
    zeros = len(last) - len(last.lstrip(b"\0"))
    assert zeros
    with log.open("r+b") as file:
        file.truncate(batches[0].end)
        file.seek(4 << 20)
        file.write(last[zeros:])
    found = list(sound_batches(Files().open(str(log)), lambda _: None))
    assert [batch.first_offset for batch in found] == [batches[0].first_offset, batches[-1].first_offset]


@pytest.fixture
def log_dirs(own_corpus, tmp_path):
    for name in ("d0", "d1"):
        shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean" / name, tmp_path / "logs" / name)
    return tmp_path / "logs"


@pytest.mark.parametrize("path", [
    "d1/recovery-point-offset-checkpoint", "d1/log-start-offset-checkpoint", "d1/replication-offset-checkpoint",
    "d1/cleaner-offset-checkpoint", "d1/meta.properties", "d1/multi-1/leader-epoch-checkpoint",
    "d1/multi-1/partition.metadata", "d0/__cluster_metadata-0/quorum-state",
])  # fmt: skip
def test_a_small_file_of_holes_is_malformed_and_rebuilt(log_dirs, path):
    size = stretch(log_dirs / path)
    done = kafkalog_apart("verify", log_dirs / "d0", log_dirs / "d1")
    assert (done.status, f"{path}: {size} bytes, more than the " in done.err) == (4, True)
    before = {path: path.stat().st_size for path in log_dirs.rglob("*")}
    done = kafkalog_apart("recover", log_dirs / "d0", log_dirs / "d1")
    assert done.status == 1, done.out.decode() + done.err
    assert not (log_dirs / path).exists() or (log_dirs / path).stat().st_size < MAX_KEPT_SIZE
    assert path.partition("/")[2] not in kafkalog_apart("verify", log_dirs / "d0", log_dirs / "d1").err
    for quarantine in log_dirs.glob("*.quarantine-*"):
        assert kafkalog_apart("restore", quarantine).status == 0
    assert {path: path.stat().st_size for path in before if path.is_file()} == {
        path: size for path, size in before.items() if path.is_file()}  # fmt: skip


@pytest.mark.parametrize("words", [("recover",), ("truncate", "--to", 5), ("delete-records", "--before", 5)])
def test_a_partition_is_opened_though_its_epochs_are_a_hole(log_dirs, words):
    stretch(log_dirs / "d1/multi-1/leader-epoch-checkpoint")
    done = kafkalog_apart(*words, log_dirs / "d1/multi-1")
    assert done.status == 1, done.out.decode() + done.err
    assert (log_dirs / "d1/multi-1/leader-epoch-checkpoint").stat().st_size < 100
    assert (log_dirs / "d1/.kafka_cleanshutdown").exists()


@pytest.mark.parametrize("command", ["roll", "retain"])
def test_a_command_without_a_quarantine_refuses_epochs_that_are_a_hole(log_dirs, command):
    size = stretch(log_dirs / "d1/multi-1/leader-epoch-checkpoint")
    done = kafkalog_apart(command, log_dirs / "d1/multi-1")
    assert done.status == 4, done.out.decode() + done.err
    assert f"kafkalog recover {log_dirs}/d1/multi-1" in done.err
    assert (log_dirs / "d1/multi-1/leader-epoch-checkpoint").stat().st_size == size
    assert (log_dirs / "d1/.kafka_cleanshutdown").exists()


def test_a_marker_of_holes_is_left_to_people(log_dirs, tmp_path):
    marker = log_dirs / "d1/.kafka_cleanshutdown"
    size = stretch(marker)
    done = kafkalog_apart("roll", log_dirs / "d1/multi-1")
    assert done.status == 8
    assert marker.stat().st_size == size
    command, = advised(done)
    assert pasted(command, tmp_path).status == 0
    assert kafkalog_apart("roll", log_dirs / "d1/multi-1").status == 0
    assert marker.stat().st_size == 0


@pytest.mark.parametrize("mode", ["--full", "--salvage"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_every_snapshot_that_recovery_rebuilds_is_reported(log_dirs, mode, is_clean):
    partition = log_dirs / "d1/small_segments-0"
    if not is_clean:
        (log_dirs / "d1/.kafka_cleanshutdown").unlink()
    names = [f"{offset:020}.snapshot" for offset in (22, 42, 83, 89)]
    for name in names:
        stretch(partition / name)
    done = kafkalog_apart("verify", partition)
    assert [name in done.err for name in names] == [True] * 4
    done = kafkalog_apart("recover", mode, partition)
    assert done.status == 1, done.out.decode()
    assert [f"rebuilt {name} - " in done.out.decode() for name in names] == [True] * 4
    assert kafkalog_apart("verify", partition).status == 0
