"""Who may read a file stays what it was: in what commands rewrite, in what they keep, and after `restore`; so do its times."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.support.run import kafkalog

NOW = "1700003600000"
POLICY = ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0")
TIME = 1_600_000_000_123_456_789  # ns


@pytest.fixture
def log_dir(tmp_path):
    """A log dir of several segments whose files only their owner may read, changed at a time with nanoseconds."""
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "in").write_text("".join(f"k{number % 3}:v{number}\n" for number in range(24)))
    made = kafkalog("append", "--create", "--now", NOW, "--input-format", "text", "--batch-size", "120",
                    "--input", str(tmp_path / "in"), "--config", "segment.bytes=400", str(data / "t-0"))  # fmt: skip
    assert made.status == 0, made.err
    (data / "meta.properties").write_text("version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\nnode.id=1\n")
    (data / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')
    return data


def seal(data):
    for number, path in enumerate(sorted(path for path in data.rglob("*") if path.is_file() and path.name != ".lock")):
        path.chmod(0o600)
        os.utime(path, ns=(TIME + number, TIME + number))


def stamps(data):
    """By path, mode and time of all files but the lock."""
    found = {str(path.relative_to(data)): path.stat() for path in data.rglob("*") if path.is_file() and path.name != ".lock"}
    return {name: (stat.S_IMODE(status.st_mode), status.st_mtime_ns) for name, status in found.items()}


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def damaged_end(data):
    flip(max((data / "t-0").glob("*.log")), 80)


def damaged_middle(data):
    flip(sorted((data / "t-0").glob("*.log"))[1], 80)


def damaged_indexes(data):
    for path in (data / "t-0").glob("*.timeindex"):
        path.write_bytes(b"x" * 13)


COMMANDS = {
    "recover": (damaged_end, ("recover", "--full")),
    "salvage": (damaged_middle, ("recover", "--full", "--salvage")),
    "rebuild": (damaged_indexes, ("verify", "--rebuild")),
    "truncate": (None, ("truncate", "--to", "9")),
    "compact": (None, ("compact", "--force", *POLICY)),
    "delete-records": (None, ("delete-records", "--before", "15")),
    "retain": (None, ("retain", "--config", "retention.bytes=300", "--config", "retention.ms=-1")),
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("is_kept", [True, False])
def test_modes_and_times_stay_what_they_were(log_dir, tmp_path, name, is_kept):
    prepare, words = COMMANDS[name]
    if prepare is not None:
        prepare(log_dir)
    seal(log_dir)
    before = stamps(log_dir)
    options = ("--quarantine", str(tmp_path / "kept")) if is_kept else () if name in ("retain", "compact") else ("--no-quarantine",)
    done = kafkalog(*words, "--now", NOW, *options, str(log_dir / "t-0"))
    assert done.status in (0, 1, 4), done.err
    after = stamps(log_dir)
    assert after != before
    assert {file: after[file][0] for file in before.keys() & after.keys()} == dict.fromkeys(before.keys() & after.keys(), 0o600)
    if is_kept:
        stored = list((tmp_path / "kept/files").iterdir())
        assert {stat.S_IMODE(path.stat().st_mode) for path in stored} <= {0o600}
        restored = kafkalog("restore", str(tmp_path / "kept"))
        assert (restored.status, restored.err) == (0, ""), restored.out
        assert stamps(log_dir) == before


def test_modes_come_back_from_a_quarantine_that_was_copied_without_them(log_dir, tmp_path):
    seal(log_dir)
    before = stamps(log_dir)
    assert kafkalog("truncate", "--to", "9", "--now", NOW, "--quarantine", str(tmp_path / "kept"), str(log_dir / "t-0")).status == 0
    for path in (tmp_path / "kept/files").iterdir():
        path.chmod(0o644)
        os.utime(path)
    restored = kafkalog("restore", str(tmp_path / "kept"))
    assert (restored.status, restored.err) == (0, "")
    assert stamps(log_dir) == before


def test_a_mode_that_was_changed_since_is_no_change_of_bytes(log_dir, tmp_path):
    seal(log_dir)
    before = stamps(log_dir)
    assert kafkalog("truncate", "--to", "9", "--now", NOW, "--quarantine", str(tmp_path / "kept"), str(log_dir / "t-0")).status == 0
    changed = min((log_dir / "t-0").glob("*.index"))
    changed.chmod(0o640)
    restored = kafkalog("restore", str(tmp_path / "kept"))
    assert restored.status == 4
    assert f"differs: {changed} - mode 640 instead of 600" in restored.out.decode()
    changed.chmod(0o600)
    assert stamps(log_dir) == before


def test_what_append_create_made_goes_with_its_directory(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "in").write_text("a\n")
    words = ("append", "--create", "--now", NOW, "--input-format", "text", "--input", str(tmp_path / "in"))
    assert kafkalog(*words, "--quarantine", str(tmp_path / "kept"), str(data / "t-0")).status == 0
    (data / "t-0/00000000000000000009.log").write_bytes(b"of a broker")
    later = kafkalog("restore", str(tmp_path / "kept"))
    assert (later.status, "error[changed-since]" in later.err) == (8, True), "what came later is not lost"
    (data / "t-0/00000000000000000009.log").unlink()
    assert kafkalog("restore", str(tmp_path / "kept")).status == 0
    assert [path.name for path in data.iterdir()] == [".lock"]
    (data / "t-0").mkdir()  # empty, but there before
    assert kafkalog(*words, "--quarantine", str(tmp_path / "kept2"), str(data / "t-0")).status == 0
    assert kafkalog("restore", str(tmp_path / "kept2")).status == 0
    assert list((data / "t-0").iterdir()) == []


def test_a_hard_link_is_not_moved_into_the_quarantine_nor_out_of_it(log_dir, tmp_path):
    """As `cp -al` makes them for a backup: what the other name leads to may change."""
    backup = tmp_path / "backup"
    backup.mkdir()
    for path in sorted((log_dir / "t-0").glob("*.log")):
        (backup / path.name).hardlink_to(path)
    before = {path.name: path.read_bytes() for path in (log_dir / "t-0").iterdir()}
    kept = tmp_path / "kept"
    assert kafkalog("truncate", "--to", "9", "--now", NOW, "--quarantine", str(kept), str(log_dir / "t-0")).status == 0
    assert {path.stat().st_nlink for path in (kept / "files").iterdir()} == {1}
    stored = max((kept / "files").glob("*.log*"), key=lambda path: path.stat().st_size)
    Path(tmp_path / "other").hardlink_to(stored)
    refused = kafkalog("restore", str(kept))
    assert (refused.status, "error[quarantine-damaged]" in refused.err) == (8, True)
    assert f"{stored}: a hard link" in refused.err
    assert stored.stat().st_nlink == 2
    os.system(f"cp -p {stored} {stored}.own && mv {stored}.own {stored}")  # what the error says
    assert f"cp -p {stored} {stored}.own && mv {stored}.own {stored}" in refused.err
    assert kafkalog("restore", str(kept)).status == 0
    assert {path.name: path.read_bytes() for path in (log_dir / "t-0").iterdir()} == before
