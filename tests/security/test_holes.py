"""Files of holes: they claim exbibytes, take no room, and must take no time either."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from engine.files import Files
from engine.log.quarantine.manifest import MAX_KEPT_SIZE
from engine.log.scan.sound_runs import sound_batches

BASE = "00000000000000000079"
SIZES = (7 << 60, 15 << 40)  # what tmpfs takes; what ext4 does
COMMANDS = {
    "dump-log": ("dump-log", "{file}"),
    "dump-log --continue-on-corruption": ("dump-log", "--continue-on-corruption", "--deep-iteration", "{file}"),
    "dump-log --count": ("dump-log", "--count", "{file}"),
    "verify-index": ("verify-index", "{partition}"),
    "verify-index --rebuild": ("verify-index", "--rebuild", "{partition}"),
    "recover": ("recover", "{partition}"),
    "recover --salvage": ("recover", "--salvage", "--recovery-point", "0", "{partition}"),
    "retain": ("retain", "--config", "retention.ms=1", "{partition}"),
    "compact": ("compact", "--config", "cleanup.policy=compact", "--force", "{partition}"),
    "fetch": ("fetch", "{partition}"),
}


@pytest.fixture
def partition(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d0/u-rolls-0", tmp_path / "u-rolls-0")
    return tmp_path / "u-rolls-0"


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
    done = subprocess.run([sys.executable, "-m", "kafkalog_cli", *words], capture_output=True, check=False, timeout=60)
    assert b"Traceback" not in done.stderr
    if command.startswith(("dump-log", "verify-index")) or suffix == ".log":
        assert done.returncode in (1, 4, 8)
        assert str(size).encode() in done.stderr
    if suffix == ".log" and "--rebuild" not in command:
        assert b"error[segment-too-large]" in done.stderr
    assert done.returncode in (0, 1, 4, 8)


def test_a_hole_is_reported_as_one(partition):
    file = partition / f"{BASE}.log"
    before = file.stat().st_size
    with file.open("ab") as log:
        log.truncate(1 << 30)
    done = subprocess.run([sys.executable, "-m", "kafkalog_cli", "dump-log", file], capture_output=True, check=False, timeout=60)
    text = f"{(1 << 30) - before} zero bytes behind the last batch, in a hole of the file"
    assert text in done.stderr.decode()


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


def test_what_takes_hours_to_keep_is_not_begun(partition, tmp_path):
    size = stretch(partition / f"{BASE}.index")
    assert size > MAX_KEPT_SIZE
    before = sorted(path.name for path in tmp_path.iterdir())
    for words in (("--dry-run",), ()):
        done = subprocess.run([sys.executable, "-m", "kafkalog_cli", "recover", *words, partition], capture_output=True, check=False,
                              timeout=60)  # fmt: skip
        assert done.returncode == 8
        assert f"{size} bytes would have to be kept in the quarantine" in done.stderr.decode()
    assert [name for name in sorted(path.name for path in tmp_path.iterdir()) if name != ".lock"] == before


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
