"""kafkalog restore: what a command changed under a quarantine is put back."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.files import Files, ReadOnlyFiles
from engine.log.quarantine.quarantining_files import QuarantiningFiles
from tests.support.file_work import make_tree, tree
from tests.support.json_output import objects_of
from tests.support.other_process import lock_held
from tests.support.run import kafkalog


@pytest.fixture(autouse=True)
def _exact_sizes(monkeypatch):
    for command in ("RESTORE", "RECOVER"):
        monkeypatch.setenv(f"KAFKALOG_{command}_BYTES", "1")


@pytest.fixture
def changed(tmp_path):
    """(directory, quarantine, what was there before)."""
    data, kept = tmp_path / "data-0", tmp_path / "kept"
    data.mkdir()
    make_tree(data)
    before = tree(ReadOnlyFiles(), str(data))
    files = QuarantiningFiles(Files(), str(kept), command="recover", now=1, log_dirs=(str(tmp_path),))
    with files.open_writable(f"{data}/d/a") as file:
        file.truncate(100)
    files.remove(f"{data}/b")
    files.open_writable(f"{data}/new", create=True).close()
    files.finish()
    return data, kept, before


def test_everything_is_put_back_once(changed):
    data, kept, before = changed
    done = kafkalog("restore", str(kept) + "/")
    assert done.status == 0
    assert done.out.decode().splitlines()[-1] == "3 changes undone, 4900 bytes put back: as before `recover`"
    left = tree(ReadOnlyFiles(), str(data))
    assert (data.parent / ".lock").read_bytes() == b""  # as Kafka leaves it
    assert left == before
    again = kafkalog("restore", str(kept))
    assert (again.status, again.out) == (0, b"everything has already been restored: nothing to do\n")


def test_files_that_were_written_aside_are_named_once(tmp_path):
    data, kept = tmp_path / "data-0", tmp_path / "kept"
    data.mkdir()
    (data / "old").write_bytes(b"before")
    files = QuarantiningFiles(Files(), str(kept), command="recover", now=1, log_dirs=(str(tmp_path),))
    for name in ("old", "new"):
        with files.open_writable(f"{data}/{name}.kafkalog", create=True) as file:
            file.write_at(0, b"after")
        files.rename(f"{data}/{name}.kafkalog", f"{data}/{name}", replaces=name == "old")
    files.finish()
    done = kafkalog("restore", str(kept))
    assert done.out.decode().splitlines() == [
        f"  removed {data}/new",
        f"  put back {data}/old (6 bytes)",
        "2 changes undone, 6 bytes put back: as before `recover`",
    ]
    assert [name for name in tree(ReadOnlyFiles(), str(data)) if name != ".lock"] == ["old"]


def test_a_dry_run_changes_nothing(changed):
    data, kept, _before = changed
    after = tree(ReadOnlyFiles(), str(data))
    done = kafkalog("restore", "--dry-run", "--format", "json", str(kept))
    assert done.status == 0
    lines = objects_of(done.out)
    assert lines[0] == {"type": "undone", "action": "removed", "path": f"{data}/new", "bytes": 0}
    assert lines[-1] == {"type": "restored", "path": str(kept), "command": "recover", "dry_run": True, "steps": 3, "bytes": 4900, "was_complete": False,
                         "as_before": True, "quarantine": None}
    assert tree(ReadOnlyFiles(), str(data)) == after


def test_a_dry_run_speaks_in_the_future(changed):
    data, kept, _before = changed
    planned = kafkalog("restore", "-n", str(kept)).out.decode().splitlines()
    assert all(line.startswith("  would ") for line in planned[:-1])
    assert f"  would remove {data}/new" in planned
    assert planned[-1] == "3 changes would be undone, 4900 bytes would be put back: as before `recover`"


def test_quiet_prints_problems_only_and_verbose_every_step(changed):
    _data, kept, _before = changed
    assert kafkalog("restore", "-n", "-q", str(kept)).out == b""
    steps = kafkalog("restore", "-n", "-v", str(kept)).out.decode().splitlines()[:-1]
    assert len(steps) == 3
    manifest = kept / "manifest.jsonl"
    manifest.write_bytes(manifest.read_bytes()[:-20])
    done = kafkalog("restore", "-q", "--salvage", str(kept))
    assert (done.status, done.out) == (4, b"  not put back: line 7 is cut off\n3 changes undone, 4900 bytes put back: all of `recover` that can be undone\n")


def test_a_running_broker_keeps_it_out(changed):
    data, kept, _before = changed
    after = tree(ReadOnlyFiles(), str(data))
    with lock_held(data.parent / ".lock"):
        done = kafkalog("restore", str(kept))
    assert done.status == 8
    assert "error[log-dir-locked]" in done.err
    Path(data.parent / ".lock").unlink()
    assert tree(ReadOnlyFiles(), str(data)) == after


def test_what_is_no_quarantine(tmp_path):
    done = kafkalog("restore", str(tmp_path))
    assert done.status == 8
    assert f"error[unreadable-file] {tmp_path}: not a quarantine: it contains no manifest.jsonl\n  do   " in done.err
    assert kafkalog("restore", str(tmp_path / "nothing")).status == 8


def test_a_manifest_that_is_cut_off_is_an_error_with_a_way_out(changed):
    data, kept, before = changed
    after = tree(ReadOnlyFiles(), str(data))
    manifest = kept / "manifest.jsonl"
    manifest.write_bytes(manifest.read_bytes()[:-20])
    done = kafkalog("restore", str(kept))
    assert (done.status, done.out) == (8, b"")
    assert "its last line is missing: recover was killed, or the file is cut off; 3 changes can be undone" in done.err
    assert f"do   kafkalog restore --salvage {kept}" in done.err
    left = tree(ReadOnlyFiles(), str(data))
    assert left == after
    done = kafkalog("restore", "--salvage", str(kept))
    assert done.status == 4, "the manifest is not whole: nobody knows what is missing"
    assert b"3 changes undone, 4900 bytes put back: all of `recover` that can be undone" in done.out
    assert {name: data for name, data in tree(ReadOnlyFiles(), str(data)).items() if name != ".lock"} == before


def test_force_says_as_before_only_when_it_is_so(changed):
    data, kept, before = changed
    (data / "d/later").write_bytes(b"of later")
    assert kafkalog("restore", str(kept)).status == 8
    planned = kafkalog("restore", "--force", "--dry-run", str(kept))
    assert "set aside" in planned.out.decode()
    done = kafkalog("restore", "--force", str(kept))
    assert done.status == 0
    assert "as before `recover`" in done.out.decode()
    assert f"undo with: kafkalog restore {kept}.forced" in done.out.decode()
    left = tree(ReadOnlyFiles(), str(data))
    assert left == before
    assert kafkalog("restore", f"{kept}.forced").status == 0
    (data / "d/b").unlink()
    done = kafkalog("restore", "--force", str(kept))
    assert done.status == 4
    assert f"differs: {data}/d/b - gone" in done.out.decode()
    assert "not as before `recover`: 1 file differ" in done.out.decode()


def test_the_advice_is_a_command_and_the_words_fit(changed):
    data, kept, _before = changed
    with (data / "d/a").open("r+b") as file:
        file.write(b"x")
    done = kafkalog("restore", str(kept))
    assert done.status == 8
    assert f"{data}/d/a: written to after recover ended: this would be lost" in done.err
    assert f"\n  do   kafkalog restore --force {kept}    # " in done.err
