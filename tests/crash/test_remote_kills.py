"""Commands of `remote` that write, killed with SIGKILL at random moments: real processes on real files.

After each kill the command is run again. What was acknowledged is there, nothing is lost, and nothing half-made counts as whole.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

import pytest

from tests.crash.killing import Program
from tests.remote.corpus import SETS, damaged, log_dirs, stores
from tests.remote.test_orphans import objects, writable
from tests.remote.test_repair_metadata import copied, known
from tests.remote.test_restore import lost
from tests.remote.test_upload import local, never_copied
from tests.support.json_output import objects_of
from tests.support.run import kafkalog

pytestmark = [
    pytest.mark.crash, pytest.mark.skipif(not {"clean", "resumed", "aiven"} <= set(SETS), reason="changes these sets"),
]  # fmt: skip
MOMENTS = 40 if os.environ.get("KAFKALOG_CRASH") == "full" else 4
MISSES = 40  # moments in a row at which the process had ended already


@pytest.fixture(scope="module")
def program():
    with Program() as running:
        yield running


def kills(program, work, words, seed):
    """The directory `work` as a kill of the command left it, again and again."""
    before, random = work.with_name("before"), Random(seed)
    shutil.copytree(work, before)
    done = program.run(words, work)
    assert done.status in (0, 1), done.stderr
    seconds, missed = done.seconds, 0
    for _ in range(MOMENTS):
        killed = False
        while not killed:
            shutil.rmtree(work)
            shutil.copytree(before, work)
            done = program.run(words, work, kill_after=random.uniform(0, seconds))
            killed, missed = done.status is None, 0 if done.status is None else missed + 1
            assert missed < MISSES
        yield


def dirs(work):
    return sorted(str(path) for path in work.glob("d?"))


def is_sound(store, where):
    done = kafkalog("remote", "verify", "--deep", "--format", "jsonl", "--store", str(store), "--layout", "local", "--key-prefix",
                    "kafka-tiered-storage/", *where)  # fmt: skip
    return [one for one in objects_of(done.out) if one["type"] == "finding" and one["code"] != "remote-object-unknown"]


def test_upload(program, tmp_path):
    """No record says that a copy is complete before its objects are; what was cut off is copied again under a new id."""
    work, _ = never_copied("clean", tmp_path)
    (work / "store").mkdir()
    where = ("--store", "store", "--layout", "local", "--key-prefix", "kafka-tiered-storage/")
    words = ["remote", "upload", *where, "--no-quarantine", "d0", "d1"]
    expected = None
    for _ in kills(program, work, words, 1):
        assert is_sound(work / "store", dirs(work)) == []
        program.run(["recover", "--no-quarantine", "--mark-clean", "d0", "d1"], work)
        done = program.run(words, work)
        assert done.status in (0, 1), done.stderr
        assert is_sound(work / "store", dirs(work)) == []
        segments = {key: [row[1:] for row in rows] for key, rows in known(dirs(work)).items()}
        parts = {key for key in local(work / "store") if key[2] != ".tmp"}  # what the kill cut off, never taken for an object
        expected = expected or (segments, parts)
        assert (segments, parts) == expected


def test_orphans(program, tmp_path):
    """Each object is in the store or in the quarantine, which brings all of them back."""
    work = writable("resumed", tmp_path)
    before = objects(work / "remote")
    words = ["remote", "orphans", "--delete", "--older-than", "0s", "--store", "remote"]
    for _ in kills(program, work, [*words, "--quarantine", "q", "d0", "d1"], 2):
        left = objects(work / "remote")
        assert before.items() >= left.items()
        done = program.run([*words, "--quarantine", "again", "d0", "d1"], work)
        assert done.status == 0, done.stderr
        for name in ("again", "q"):
            if (work / name / "objects.jsonl").exists() and (work / name / "objects.jsonl").stat().st_size:
                assert program.run(["restore", name], work).status == 0
        assert objects(work / "remote") == before


def test_repair_metadata(program, tmp_path):
    work = damaged("metadata-gone", tmp_path / "top")
    words = ["remote", "repair-metadata", "--store", "remote", "--no-quarantine", "d0", "d1"]
    for _ in kills(program, work, words, 3):
        program.run(["recover", "--no-quarantine", "d0", "d1"], work)
        assert program.run(words, work).status in (0, 1)
        found, expected = known(dirs(work)), copied()
        assert {key: found[key] for key in expected} == expected


def test_restore(program, tmp_path):
    """Run again, it comes to the same segments and epochs."""
    work = tmp_path / "top"
    lost("aiven", work)
    keys = ["--private-key", "k1=k1.pem", "--private-key", "k2=k2.pem"]
    from tests.remote.corpus import private_keys

    private_keys(work)
    words = ["remote", "restore", "*", "--into", "d0", "--log-dir", "d1", "--store", stores("aiven"), "--no-quarantine", *keys]
    expected = None
    for _ in kills(program, work, words, 4):
        done = program.run(words, work)
        assert done.status in (0, 1), done.stderr
        epochs = {path.parent.name: path.read_bytes() for path in work.glob("d0/[a-z]*-*/leader-epoch-checkpoint")}
        found = known(dirs(work)), epochs, sorted(path.name for path in work.glob("d0/[a-z]*-*/*.log"))
        expected = expected or found
        assert found == expected
        assert kafkalog("verify", str(work / "d0")).status in (0, 1)


def test_download(program, tmp_path):
    work = tmp_path / "top"
    work.mkdir()
    words = ["remote", "download", "--into", "whole", "--store", stores("clean"), *log_dirs("clean")]
    expected = None
    for _ in kills(program, work, words, 5):
        assert program.run(words, work).status == 0
        found = {key: data for key, data in objects(work / "whole").items() if not key.endswith((".tmp", ".kafkalog"))}
        expected = expected or found
        assert found == expected
    assert len(expected) > 100
    assert not list(Path(work / "whole").rglob("*.tmp"))
