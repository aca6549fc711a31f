"""Commands that change logs: output that cannot be written, errors as JSON, partitions that fail among others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from engine.record.builder import NewRecord, build_batch
from tests.support.console import ROOT
from tests.support.json_output import objects_of
from tests.support.other_process import lock_held
from tests.support.permissions import without_permission
from tests.support.run import kafkalog

NOW = "1764000000000"


@pytest.fixture
def log_dir(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d1", tmp_path / "d1")
    return tmp_path / "d1"


def process(*words, **streams):
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.run([sys.executable, "-m", "kafkalog_cli", *map(str, words)], check=False, cwd=ROOT, **streams)


def objects(*words):
    done = kafkalog(*map(str, words), "--format", "json")
    found = objects_of(done.out)
    return found, done


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_full_disk_behind_stdout_ends_the_output_and_not_the_work(log_dir, tmp_path, form):
    other = tmp_path / "other/d1"
    shutil.copytree(log_dir, other)
    with open("/dev/full", "w") as full:
        done = process("recover", "--now", NOW, "--mark-clean", "--format", form, log_dir, stdout=full)
    assert done.returncode == 8
    assert b"error[output-failed]" in done.stderr
    assert f"kafkalog restore {log_dir}.quarantine-".encode() in done.stderr
    assert process("recover", "--now", NOW, "--mark-clean", other).returncode == 1
    for path in other.rglob("*"):
        if path.is_file():
            assert (log_dir / path.relative_to(other)).read_bytes() == path.read_bytes(), path
    assert kafkalog("restore", *map(str, tmp_path.glob("d1.quarantine-*"))).status == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_a_full_disk_behind_stderr_ends_nothing(log_dir):
    with open("/dev/full", "w") as full:
        done = process("recover", "--format", "json", "--no-quarantine", log_dir / "u-plain-0", log_dir / "u-tx-0", stderr=full)
    assert done.returncode == 0
    assert len(objects_of(done.stdout)) == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_rebuilding_goes_on_without_an_output(log_dir):
    for name in ("u-plain-0", "u-tx-0"):
        with (log_dir / name / "00000000000000000000.timeindex").open("ab") as index:
            index.write(b"xxx")
    with open("/dev/full", "w") as full:
        done = process("verify", "--rebuild", log_dir / "u-plain-0", log_dir / "u-tx-0", stdout=full)
    assert done.returncode == 8
    assert process("verify", log_dir / "u-plain-0", log_dir / "u-tx-0").returncode == 0


def test_errors_that_belong_to_no_partition_are_objects(log_dir, tmp_path):
    for words, code, status in (
        (("recover", tmp_path / "nowhere"), "unreadable-file", 8), (("recover",), "usage", 2),
        (("roll", "--config", "nonsense=1", log_dir / "u-plain-0"), "usage", 2),
    ):  # fmt: skip
        [error], done = objects(*words)
        assert (error["type"], error["code"], done.status) == ("error", code, status)
    with lock_held(log_dir / ".lock"):
        [locked], done = objects("truncate", "--to", "3", log_dir / "u-plain-0")
    assert (locked["code"], done.status) == ("log-dir-locked", 8)
    assert "error[log-dir-locked]" in done.err


def test_a_dry_run_says_that_a_broker_holds_the_lock(log_dir):
    before = sorted(os.listdir(log_dir))
    assert "another process" not in kafkalog("recover", "--dry-run", str(log_dir)).out.decode()
    assert sorted(os.listdir(log_dir)) == before, "asking makes no lock file"
    (log_dir / ".lock").touch()
    with lock_held(log_dir / ".lock"):
        done = kafkalog("recover", "--dry-run", str(log_dir / "u-plain-0"))
        assert done.status == 4
        assert "another process holds this lock, most likely a running broker" in done.out.decode()
        [told, report], _ = objects("roll", "--dry-run", log_dir / "u-plain-0")
    assert (told["events"][0]["file"], report["segments"]) == (".lock", 2)


def test_a_partition_that_fails_half_way_tells_what_was_done_before(log_dir, monkeypatch):
    """And the others are worked on."""
    import engine.files
    from engine.errors import UnwritableFile

    remove = engine.files.Files.remove

    def failing(self, path):
        if "u-plain-0/" in path and path.endswith(".snapshot"):
            raise UnwritableFile(f"{path}: Input/output error")
        remove(self, path)

    monkeypatch.setattr(engine.files.Files, "remove", failing)
    (log_dir / "u-plain-0/00000000000000000500.log.deleted").touch()
    found, done = objects("recover", "--no-quarantine", "--recovery-point", "0", "--mark-clean", log_dir)
    *found, error = found
    failed = next(one for one in found if one["partition"].endswith("u-plain-0"))
    assert failed["error"]["message"].endswith("Input/output error")
    assert error == {"type": "error", **failed["error"]}
    assert [(event["action"], event["file"]) for event in failed["events"]] == [
        ("removed", "00000000000000000500.log.deleted"), ("recovered", "00000000000000000000.log"),
    ]  # fmt: skip  # snapshots go once their segment is recovered
    assert (failed["exit_status"], failed["segments"], done.status) == (8, None, 8)
    others = [one for one in found if one["log_end_offset"] is not None]
    assert len(others) == len([path for path in log_dir.iterdir() if path.is_dir()]) - 1
    assert not (log_dir / ".kafka_cleanshutdown").exists()
    text = kafkalog("recover", "--no-quarantine", "--recovery-point", "0", str(log_dir / "u-plain-0"))
    assert "u-plain-0: not finished" in text.out.decode()


@pytest.mark.parametrize("words", [
    "dump-log", "dump-log --format jsonl", "verify", "recover --no-quarantine", "retain", "fetch", "restore",
])
def test_what_may_not_be_read_is_no_wrong_usage(log_dir, monkeypatch, words):
    """click asks access(2), which for root looks at the rights that a process might take; a user's answer is no."""
    monkeypatch.setattr("os.access", lambda path, *_, **__: "u-plain-0" not in os.fspath(path))
    with without_permission(log_dir / "u-plain-0"):
        done = kafkalog(*words.split(), str(log_dir / "u-plain-0"))
    assert done.status == 8
    assert "error[unreadable-file]" in done.err


def test_the_paths_beside_one_that_may_not_be_read_are_dumped(log_dir, monkeypatch):
    names = [str(log_dir / f"u-{name}-0" / "00000000000000000000.log") for name in ("plain", "tx")]
    monkeypatch.setattr("os.access", lambda path, *_, **__: os.fspath(path) != names[0])
    with without_permission(log_dir / "u-plain-0/00000000000000000000.log"):
        done = kafkalog("dump-log", *names)
    step = f"  do   chmod u+rX {names[0]}    # its mode excludes its owner\n"
    assert (done.status, done.err) == (8, f"error[unreadable-file] {names[0]}: Permission denied\n{step}")
    assert b"Dumping " + names[1].encode() in done.out


def test_gaps_beyond_those_that_are_listed_are_counted(tmp_path):
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / "00000000000000000000.log").write_bytes(b"".join(build_batch([NewRecord(offset, offset, None, b"v")], base_offset=offset) for offset in range(0, 3004, 2)))
    done = kafkalog("dump-log", str(directory))
    assert done.status == 4
    assert done.err.count("is followed by") == 1000
    assert done.err.splitlines()[-1] == "  501 more"


@pytest.mark.parametrize("words", [
    ("dump-log", ""), ("verify", ""), ("fetch", ""), ("recover", ""), ("recover", "--mark-clean", "", "/dev/null"), ("restore", ""),
    ("retain", ""), ("roll", ""), ("truncate", "--to", "0", ""), ("delete-records", "--before", "0", ""), ("append", ""),
    ("compact", ""), ("spark", "verify", ""), ("recover", "--quarantine", "", "data"), ("roll", "--metrics-textfile", "", "data"),
], ids=" ".join)  # fmt: skip
def test_an_empty_path_is_wrong_usage(words, tmp_path):
    """A variable of the shell that is not set: that was never meant to be "/", nor where one stands."""
    done = kafkalog(*words, cwd=tmp_path)
    assert done.status == 2, done.err
    assert "an empty path" in done.err
    assert not list(tmp_path.iterdir())
