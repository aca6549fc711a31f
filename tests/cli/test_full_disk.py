"""Commands on a file system that has no room left, a real one: what the last line of a failed command says to run works then."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from engine.files import ReadOnlyFiles
from tests.support.file_work import tree
from tests.support.needs import lacking
from tests.support.run import kafkalog

NOW = "1700003600000"
PAGE = 4096


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0 or subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(place)], stderr=subprocess.DEVNULL, check=False
    ).returncode:
        lacking("a file system can only be mounted by root who may")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def log_dir(small_disk, tmp_path):
    """A log dir on it with a log of several segments, damaged in the middle."""
    source = tmp_path / "in"
    source.write_text("".join(f"{number}:{'v' * 300}\n" for number in range(900)))
    data = small_disk / "data"
    data.mkdir()
    made = kafkalog("append", "--create", "--now", NOW, "--input-format", "text", "--batch-size", "4000", "--input", str(source),
                    "--config", "segment.bytes=60000", "--config", "segment.index.bytes=8000", str(data / "t-0"))  # fmt: skip
    assert made.status == 0, made.err
    middle = sorted((data / "t-0").glob("*.log"))[2]
    damaged = bytearray(middle.read_bytes())
    damaged[30_000] ^= 1
    middle.write_bytes(damaged)
    return data


def files_of(directory):
    return {name: data for name, data in tree(ReadOnlyFiles(), str(directory)).items() if name != ".lock"}


def fill(place, room):
    """Leave `room` bytes of the file system."""
    ballast = place / "ballast"
    free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
    with ballast.open("ab") as file:
        file.write(bytes(max(0, free - room)))


@pytest.mark.parametrize("command", ["recover", "truncate"])
@pytest.mark.parametrize("pages", [0, 1, 2, 3, 4, 6, 8])
def test_what_the_hint_says_works_on_the_full_disk(small_disk, log_dir, command, pages):
    before = files_of(log_dir)
    fill(small_disk, pages * PAGE)
    words = ("recover", "--recovery-point", "0") if command == "recover" else ("truncate", "--to", "100", "--clean-start")
    done = kafkalog(*words, "--config", "segment.index.bytes=8000", "--now", NOW, str(log_dir / "t-0"))
    assert done.status == 8
    fill(small_disk, 0)
    said = done.out.decode() + done.err
    hint = re.search(r"undo with: kafkalog (restore .*)", said)
    if hint is None:
        assert files_of(log_dir) == before
        return
    restored = kafkalog(*hint[1].split())
    assert restored.status in ((0, 4) if "--salvage" in hint[1] else (0,)), (said, restored.out, restored.err)
    assert files_of(log_dir) == before
    if command == "recover" and pages > 3:
        assert "--salvage" not in hint[1], "half a copy leaves no room for the last line"


def test_a_full_disk_is_one_sentence_with_advice_however_many_partitions_it_stops(small_disk, log_dir):
    for number in range(1, 4):
        shutil.copytree(log_dir / "t-0", log_dir / f"t-{number}")
    fill(small_disk, 0)
    done = kafkalog("recover", "--full", "--config", "segment.index.bytes=8000", "--now", NOW, str(log_dir))
    assert done.status == 8
    assert done.out.decode().count(": not finished\n") == 4
    [error] = [line for line in done.err.splitlines() if line.startswith("error[")]
    assert error.endswith(": No space left on device")
    assert "  do   free some space there, or keep the quarantine on another disk: --quarantine DIR" in done.err
    rolled = kafkalog("append", "--input", "/dev/null", "--create", str(log_dir / "u-0"))
    assert rolled.status in (0, 8)
    assert not rolled.status or f"  do   df -h {log_dir}" in rolled.err


def test_restoring_that_needs_room_goes_on_when_there_is_some(small_disk, log_dir):
    before = files_of(log_dir)
    done = kafkalog("recover", "--recovery-point", "0", "--now", NOW, str(log_dir / "t-0"))
    assert done.status == 1, done.err
    [kept] = small_disk.glob("data.quarantine-*")
    fill(small_disk, 0)
    stopped = kafkalog("restore", str(kept))
    if stopped.status:
        assert stopped.status == 8
        assert f"free some disk space, then run it again: kafkalog restore {kept}" in stopped.err
        lost = [name for name in before if name.endswith(".log") and not (log_dir / name).exists()]
        assert not lost, "files are moved back before bytes are copied"
        (small_disk / "ballast").unlink()
        again = kafkalog("restore", str(kept))
        assert again.status == 0, again.err
    assert files_of(log_dir) == before
