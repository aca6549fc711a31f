"""Kill a repair at each step of its quarantine: `restore` and the next repair report what exists, and what to run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.run import kafkalog

NOW = "1764000000000"
KILLED = """
import os, signal, sys
from engine.log.quarantine import manifest, quarantining_files

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def dying(after, count, function):
    calls = []
    def call(*words, **options):
        calls.append(1)
        if not after and len(calls) == count:
            die()
        done = function(*words, **options)
        if len(calls) == count:
            die()
        return done
    return call

step, count = sys.argv[1], int(sys.argv[2])
writer, files = manifest.ManifestWriter, quarantining_files.QuarantiningFiles
if step == "directory":
    files.make = dying(True, 1, files.make)
elif step == "files":
    quarantining_files.ManifestWriter = dying(False, 1, writer)
elif step == "manifest":
    writer._line = dying(False, 1, writer._line)
else:
    writer.append = dying(True, count, writer.append)
sys.argv = ["kafkalog", *sys.argv[3:]]
from kafkalog_cli.start import main
main()
"""
BEFORE = ["directory", "files", "manifest"]
LINES = [2, 3, 8, 21]  # more would take too long


@pytest.fixture
def top(own_corpus, tmp_path):
    """A log dir with damage in the middle of a log, and leftovers of a deletion."""
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d0", tmp_path / "d0")
    rolls = tmp_path / "d0/u-rolls-0"
    path = rolls / f"{173:020}.log"
    data = bytearray(path.read_bytes())
    data[3000] ^= 1
    path.write_bytes(data)
    shutil.copy(rolls / f"{79:020}.log", rolls / f"{79:020}.log.deleted")
    (tmp_path / "d0/.lock").touch()
    return tmp_path


def killed(top, step, count):
    words = ("recover", "--full", "--jobs", "1", "--now", NOW, "--quarantine", "q", "d0")
    done = subprocess.run([sys.executable, "-c", KILLED, step, str(count), *words], cwd=top, check=False, capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])})  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr


def content(directory):
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def run(top, *words):
    return kafkalog(*words, cwd=top)


@pytest.mark.parametrize("step", BEFORE)
def test_before_the_first_line_nothing_was_changed(top, step):
    before = content(top / "d0")
    killed(top, step, 1)
    assert content(top / "d0") == before
    listed = run(top, "restore", "--list", ".").out.decode()
    assert ("keeps nothing" in listed) == (step == "manifest")
    for words in (("restore", "q"), ("restore", "--salvage", "q")):
        done = run(top, *words)
        assert (done.status, "stopped before it changed anything" in done.err) == (8, True), done
        assert ("rm -r q" in done.err) == (step != "directory")
    again = run(top, "recover", "--full", "--now", NOW, "--quarantine", "q", "d0")
    assert (again.status, "restore --list" in again.err) == (2, True)
    assert content(top / "d0") == before
    assert run(top, "recover", "--full", "--now", NOW, "--quarantine", "q2", "d0").status == 1
    assert "was stopped" not in again.err
    assert run(top, "restore", "q2").status == 0
    assert content(top / "d0") == before


@pytest.mark.parametrize("count", LINES)
def test_a_repair_after_a_killed_one_says_how_both_are_undone(top, count):
    before = content(top / "d0")
    killed(top, "line", count)
    refused = run(top, "restore", "q")
    assert (refused.status, "kafkalog restore --salvage q" in refused.err) == (8, True), refused
    again = run(top, "recover", "--full", "--now", NOW, "--quarantine", "q2", "d0")
    assert again.status in (0, 1)
    after = content(top / "d0")
    mixed = run(top, "restore", "--salvage", "q")
    assert (mixed.status, "both states would be mixed" in mixed.err) == (8, True), mixed
    assert content(top / "d0") == after
    [said] = re.findall("undo everything with: kafkalog (.*)", again.err)
    [advised] = re.findall("do   kafkalog ([^#]*)", mixed.err)
    assert shlex.split(said)[2:] == [str(top / "q2"), str(top / "q")]
    done = run(top, *shlex.split(advised), "--yes")
    assert done.status == 0, done
    assert content(top / "d0") == before


def test_a_killed_repair_alone_is_undone(top):
    before = content(top / "d0")
    killed(top, "line", 13)
    assert content(top / "d0") != before
    assert run(top, "restore", "--salvage", "q").status == 0
    assert content(top / "d0") == before


def test_a_quarantine_whose_manifest_is_lost_is_no_rubbish(top):
    killed(top, "line", 21)
    (top / "q/manifest.jsonl").unlink()
    kept = len(list((top / "q/files").iterdir()))
    assert kept
    done = run(top, "restore", "--salvage", "q")
    assert (done.status, f"it keeps {kept} files" in done.err, "ls -l q/files" in done.err) == (8, True, True), done
    assert "manifest is lost" in run(top, "restore", "--list", ".").out.decode()
    run(top, "restore", "--prune", "--older-than", "0d", "--yes", ".")
    assert len(list((top / "q/files").iterdir())) == kept
