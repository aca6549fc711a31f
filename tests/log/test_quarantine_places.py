"""A quarantine leads to nothing but what its log dirs hold, whatever its manifest says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from engine.files import Files
from engine.log.quarantine.manifest import MANIFEST
from engine.log.quarantine.places import ForeignPath
from engine.log.quarantine.restore import restore
from engine.log.quarantine.seam import QuarantiningFiles
from tests.support.run import kafkalog

OTHER = 12345  # a user who is not root

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data/a-0").mkdir(parents=True)
    (tmp_path / "victim").write_bytes(b"of somebody else")
    (tmp_path / "data/a-0/new").write_bytes(b"")
    return tmp_path / "data"


def kept_with(data, *entries):
    """A quarantine whose manifest has these lines."""
    kept = data.parent / "kept"
    (kept / "files").mkdir(parents=True)
    lines = [{"quarantine": 1, "command": "recover", "created_ms": 1, "log_dirs": [str(data)]}, *entries, {"left": {}}]
    (kept / MANIFEST).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return kept


def refused(data, *entries, options=()):
    kept = kept_with(data, *entries)
    done = kafkalog("restore", *options, str(kept))
    assert (done.status, done.out) == (8, b"")
    assert "error[quarantine-foreign-path]" in done.err
    assert "\n  do   " in done.err
    assert not (data / ".lock").exists()
    assert not (kept / "restored").exists()
    assert (data.parent / "victim").read_bytes() == b"of somebody else"
    return done.err


@pytest.mark.parametrize("options", [(), ("--force",), ("--salvage",), ("--dry-run",)])
@pytest.mark.parametrize("path", ["{top}/victim", "{top}/data/../victim", "{top}/data/link/victim", "{top}/data/a-0/b-0/victim", "victim",
                                  "{top}/data", "{top}/data/none/../../victim"])  # fmt: skip
def test_paths_outside_the_log_dirs_are_refused(data, path, options):
    top = data.parent
    (data / "link").symlink_to("..")
    (data / "a-0/b-0").symlink_to("../..")
    refused(data, {"do": "create", "path": path.format(top=top)}, options=options)


@pytest.mark.parametrize("entry", [
    {"do": "rename", "path": "{top}/victim", "to": "{top}/data/a-0/new"},
    {"do": "rename", "path": "{top}/data/a-0/old", "to": "{top}/victim"},
    {"do": "list", "path": "{top}", "files": {}},
])  # fmt: skip
def test_all_that_a_manifest_names_is_looked_at(data, entry):
    told = {name: value.format(top=data.parent) if isinstance(value, str) else value for name, value in entry.items()}
    refused(data, told, options=("--force",))


def test_times_of_what_a_link_leads_to_are_not_changed(data):
    (data / "a-0/link").symlink_to("../../victim")
    refused(data, {"do": "time", "path": f"{data}/a-0/link", "modified_ms": 1})


def test_a_link_is_not_moved_to_where_it_leads_elsewhere(data):
    (data / "a-0/b-0").mkdir()
    (data / "a-0/b-0/link").symlink_to("../..")  # the log dir; from the log dir itself, what lies far above
    refused(data, {"do": "create", "path": f"{data}/b-0/victim"},
            {"do": "rename", "path": f"{data}/b-0", "to": f"{data}/a-0/b-0/link"})


def test_a_partition_on_another_disk_is_restored(data):
    other = data.parent / "disk/b-0"
    other.mkdir(parents=True)
    (data / "b-0").symlink_to(other)
    files = QuarantiningFiles(Files(), f"{data.parent}/kept", command="recover", now=1, log_dirs=(str(data),))
    files.open_writable(f"{data}/b-0/made", create=True).close()
    files.finish()
    assert (other / "made").exists()
    restore(Files(), f"{data.parent}/kept")
    assert not (other / "made").exists()


def give(owner, *paths):
    for path in paths:
        os.lchown(path, owner, owner)


@as_root
def test_root_restores_what_belongs_to_the_owner_of_the_quarantine(data):
    kept = kept_with(data, {"do": "create", "path": f"{data}/a-0/new"})
    give(OTHER, data, data / "a-0", kept, kept / MANIFEST)
    assert kafkalog("restore", str(kept)).status == 0
    assert not (data / "a-0/new").exists()


@as_root
@pytest.mark.parametrize("given", [("kept",), ("kept/manifest.jsonl",), ("kept", "data"), ("kept", "data/a-0")])
def test_root_is_not_led_to_what_belongs_to_others(data, given):
    kept = kept_with(data, {"do": "create", "path": f"{data}/a-0/new"})
    give(OTHER, *(data.parent / name for name in given))
    done = kafkalog("restore", "--force", str(kept))
    assert (done.status, done.out) == (8, b"")
    assert f"{kept}: belongs to user {OTHER}, and " in done.err
    assert f"do   chown -R root {kept}    #" in done.err
    assert (data / "a-0/new").exists()
    assert not (data / ".lock").exists()
    give(0, *(Path(data.parent, name) for name in given))
    assert kafkalog("restore", str(kept)).status == 0


@as_root
def test_a_link_to_what_belongs_to_others_is_none_of_the_log_dirs(data):
    other = data.parent / "other"
    other.mkdir()
    (other / "new").write_bytes(b"")
    (data / "b-0").symlink_to(other)
    kept = kept_with(data, {"do": "create", "path": f"{data}/b-0/new"})
    give(OTHER, other)
    with pytest.raises(ForeignPath):
        restore(Files(), str(kept))
    assert (other / "new").exists()
