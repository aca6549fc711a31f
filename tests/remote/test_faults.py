"""restore, upload and orphans when a call of the store fails, is incomplete, or is the last one before the process stops.

No file that a broker would use is incomplete, no data is lost, and a second run completes the work. The test suite tests some
calls of the store, `make crash` every call.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.remote.corpus import SETS, private_keys, stores
from tests.remote.test_orphans import objects, writable
from tests.remote.test_restore import lost
from tests.remote.test_upload import never_copied
from tests.support.faulty_store import Stopped, faulty_stores
from tests.support.json_output import objects_of
from tests.support.run import kafkalog

pytestmark = [
    pytest.mark.crash, pytest.mark.skipif(not {"clean", "resumed", "aiven"} <= set(SETS), reason="names topics of these sets"),
]  # fmt: skip
STEP = 1 if os.environ.get("KAFKALOG_CRASH") == "full" else 7
KINDS = ("fail", "stop", "tear")


def disturbed(kind, at, *words):
    """Run a command with a fault → (did the faulty call happen, output); output None: the command was stopped."""
    with faulty_stores(kind, at) as faults:
        try:
            done = kafkalog(*words)
        except Stopped:
            return True, None
    return faults.count > at, done


def files(top):
    return {str(path.relative_to(top)): path.read_bytes() for path in Path(top).rglob("*") if path.is_file() and path.name != ".lock"}


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize("more", [(), ("--full",)])
def test_an_interrupted_restore_is_completed_by_the_next_one(kind, more, tmp_path):
    keys = [word for item in private_keys(tmp_path).items() for word in ("--private-key", "=".join(item))]

    def words(left):
        others = [word for path in left[1:] for word in ("--log-dir", path)]
        return ("remote", "restore", "plain", "--into", left[0], *others, "--store", stores("aiven"), "--no-quarantine",
                "--format", "jsonl", *keys, *more)  # fmt: skip

    whole = lost("aiven", tmp_path / "whole")
    assert kafkalog(*words(whole)).status == 0
    expected = {name: data for name, data in files(tmp_path / "whole").items() if "/plain-0/" in name}
    assert expected
    at, is_there = 0, True
    while is_there:
        left = lost("aiven", tmp_path / f"top{at}")
        is_there, done = disturbed(kind, at, *words(left))
        assert not is_there or done is None or done.status in (4, 8)
        directory = Path(left[0]) / "plain-0"
        if (directory / "partition.metadata").exists():  # a broker would load the directory
            found = {name: data for name, data in files(tmp_path / f"top{at}").items() if "/plain-0/" in name}
            assert found == expected, at
        assert kafkalog(*words(left)).status == 0
        found = {name: data for name, data in files(tmp_path / f"top{at}").items() if "/plain-0/" in name}
        assert found == expected, at
        shutil.rmtree(tmp_path / f"top{at}")
        at += STEP
    assert at > 2 * STEP


@pytest.mark.parametrize("kind", KINDS)
def test_segments_of_an_interrupted_upload_are_complete_if_recorded(kind, tmp_path):
    top, _ = never_copied("clean", tmp_path)
    at, is_there = 0, True
    while is_there:
        here, store = tmp_path / f"top{at}", tmp_path / f"store{at}"
        shutil.copytree(top, here)
        store.mkdir()
        dirs = sorted(str(path) for path in here.glob("d?"))
        words = ("remote", "upload", "--topic", "failing", "--layout", "local", "--key-prefix", "kafka-tiered-storage/", "--store",
                 str(store), "--no-quarantine", "--format", "jsonl", *dirs)  # fmt: skip
        is_there, done = disturbed(kind, at, *words)
        assert not is_there or done is None or done.status in (4, 8)
        for path in here.glob("d?"):  # the clean shutdown file is removed while logs are open
            (path / ".kafka_cleanshutdown").touch()
        assert kafkalog("remote", "verify", "--deep", "--store", str(store), "--key-prefix", "kafka-tiered-storage/", "--layout", "local", *dirs).status == 0
        assert kafkalog(*words).status == 0
        checked = kafkalog("remote", "verify", "--deep", "--store", str(store), "--topic", "failing", *dirs)
        assert checked.status == 0, checked.out
        listed = [one for one in objects_of(kafkalog("remote", "list", "--topic", "failing", "--format", "jsonl", *dirs).out)
                  if one["type"] == "remote-segment" and one["state"] == "COPY_SEGMENT_FINISHED"]  # fmt: skip
        assert [(one["start_offset"], one["end_offset"]) for one in listed] == [(0, 27), (28, 52), (53, 60)], at
        shutil.rmtree(here)
        shutil.rmtree(store)
        at += STEP
    assert at > 2 * STEP


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_deletion_keeps_a_copy_of_every_object(kind, tmp_path):
    top = writable("resumed", tmp_path)
    at, is_there = 0, True
    while is_there:
        here = tmp_path / f"top{at}"
        shutil.copytree(top, here)
        before = objects(here / "remote")
        kept = [str(tmp_path / f"kept{at}-{number}") for number in range(2)]

        def words(directory, here=here):
            return ("remote", "orphans", "--delete", "--older-than", "0s", "--quarantine", directory, "--store", str(here / "remote"),
                    "--format", "jsonl", str(here / "d0"), str(here / "d1"))  # fmt: skip

        is_there, done = disturbed(kind, at, *words(kept[0]))
        assert not is_there or done is None or done.status == 8
        assert kafkalog(*words(kept[1])).status == 0
        assert len(before) - len(objects(here / "remote")) == 3
        made = [path for path in kept if Path(path).is_dir()]
        for path in reversed(made):
            assert kafkalog("restore", path).status == 0
        assert objects(here / "remote") == before
        shutil.rmtree(here)
        at += 1
    assert at > 5
