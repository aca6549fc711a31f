"""A quarantine leads to nothing but what its log dirs hold, whatever its manifest says."""

from __future__ import annotations

import json
import os
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from engine.files import Files
from engine.files.owner import rights_of
from engine.log.quarantine.manifest import MANIFEST
from engine.log.quarantine.quarantining_files import QuarantiningFiles
from engine.log.quarantine.restore import restore
from engine.log.quarantine.trusted_files import ForeignPath
from tests.support.run import kafkalog
from tests.support.users import GROUP, USER, public_directory
from tests.support.users import give as give_tree

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
    refused(data, {"do": "time", "path": f"{data}/a-0/link", "modified_ns": 1})


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
    give(OTHER, data, data / "a-0", data / "a-0/new", kept, kept / MANIFEST, kept / "files")
    assert kafkalog("restore", str(kept)).status == 0
    assert not (data / "a-0/new").exists()


@as_root
@pytest.mark.parametrize("given", [("kept",), ("kept/manifest.jsonl",), ("kept", "data")])
def test_root_is_not_led_to_what_belongs_to_others(data, given):
    kept = kept_with(data, {"do": "create", "path": f"{data}/a-0/new"})
    give(OTHER, *(data.parent / name for name in given))
    done = kafkalog("restore", "--force", str(kept))
    assert (done.status, done.out) == (8, b"")
    assert f"{kept}: belongs to user {OTHER}, but {data}/a-0/new to user 0" in done.err
    assert "do   if you trust its manifest.jsonl: as user 0, copy the quarantine, and restore the copy" in done.err
    assert "chown" not in done.err
    assert (data / "a-0/new").exists()
    assert not (data / ".lock").exists()
    give(0, *(Path(data.parent, name) for name in given))
    assert kafkalog("restore", str(kept)).status == 0


@as_root
def test_a_directory_of_roots_around_the_owners_partition_is_no_obstacle(data):
    kept = kept_with(data, {"do": "create", "path": f"{data}/a-0/new"})
    give(OTHER, data / "a-0", data / "a-0/new", kept, kept / MANIFEST, kept / "files")
    assert kafkalog("restore", str(kept)).status == 0
    assert not (data / "a-0/new").exists()
    assert (data / ".lock").stat().st_uid == 0


@as_root
def test_a_directory_of_roots_with_nothing_of_the_owners_is_not_even_locked(data):
    kept = kept_with(data)
    give(OTHER, data / "a-0", kept, kept / MANIFEST, kept / "files")
    assert f"{kept}: belongs to user {OTHER}, but {data} to user 0" in kafkalog("restore", str(kept)).err
    assert not (data / ".lock").exists()


@pytest.mark.parametrize("name", [".lock", "a-0/.lock"])
def test_locks_are_never_restored(data, name):
    error = refused(data, {"do": "create", "path": f"{data}/{name}"})
    assert "is a lock" in error


@pytest.mark.parametrize("entry", [
    {"do": "grow", "size": 1 << 62, "modified_ns": 1},
    {"do": "grow", "size": 5, "modified_ns": 1},
    {"do": "cut", "position": 1 << 62, "size": 0, "stored": "000001-x", "sha256": sha256(b"").hexdigest(), "modified_ns": 1, "mode": 0o600},
    {"do": "cut", "position": 4, "size": 1, "stored": "000002-x", "sha256": sha256(b"x").hexdigest(), "modified_ns": 1, "mode": 0o600},
    {"do": "remove", "size": 5, "stored": "000003-x", "sha256": sha256(b"12345").hexdigest(), "modified_ns": 1, "mode": 0o600},
    {"do": "remove", "size": 1 << 62, "stored": "000004-x", "sha256": "0" * 64, "modified_ns": 1, "mode": 0o600},
    {"do": "remove", "size": 1, "stored": "000004-x", "sha256": "0" * 64, "modified_ns": 1, "mode": 0o600},
])  # fmt: skip
@pytest.mark.parametrize("is_listed", [True, False])
def test_a_file_gets_no_more_bytes_than_it_had(data, entry, is_listed):
    kept = kept_with(data, *[{"do": "list", "path": f"{data}/a-0", "files": {"old": [4, 1, 0o644]}}][: is_listed],
                     {**entry, "path": f"{data}/a-0/old"})  # fmt: skip
    for name, content in {"000001-x": b"", "000002-x": b"x", "000003-x": b"12345"}.items():
        (kept / "files" / name).write_bytes(content)
    with (kept / "files/000004-x").open("wb") as file:
        file.truncate(1 << 40)  # a hole: to read it takes minutes
    (data / "a-0/old").write_bytes(b"1234")
    done = kafkalog("restore", "--force", str(kept))
    sizes = entry["size"] + entry.get("position", 0)
    if not is_listed and sizes == 5:  # nobody can tell how large it was
        return
    assert (done.status, done.out) == (8, b"")
    assert "error[quarantine-damaged]" in done.err
    assert (data / "a-0/old").read_bytes() == b"1234"
    assert "\x1b" not in done.err


def test_text_of_a_manifest_is_escaped(data):
    evil = "\x1b]0;owned\x07"
    kept = kept_with(data, {"do": "create", "path": f"{data}/a-0/new{evil}"})
    (data / f"a-0/new{evil}").write_bytes(b"")
    lines = (kept / MANIFEST).read_text().splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), "command": f"recover{evil}"})
    lines[-1] = json.dumps({"left": {f"{data}/a-0/new{evil}": [0, (data / f"a-0/new{evil}").stat().st_mtime_ns, 0o644]}})
    (kept / MANIFEST).write_text("".join(f"{line}\n" for line in lines))
    for words in (("--list",), ("--dry-run",), ("--dry-run", "--format", "json"), ()):
        done = kafkalog("restore", *words, str(kept))
        assert done.status == 0, done.err
        assert b"\x1b" not in done.out
        assert b"\x07" not in done.out
        assert "\x1b" not in done.err


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


def test_a_manifest_does_not_choose_its_log_dirs(data):
    for log_dir in ("/", str(data.parent)):
        kept = kept_with(data, {"do": "create", "path": f"{data.parent}/victim"})
        lines = (kept / MANIFEST).read_text().splitlines()
        lines[0] = json.dumps({**json.loads(lines[0]), "log_dirs": [log_dir]})
        (kept / MANIFEST).write_text("".join(f"{line}\n" for line in lines))
        done = kafkalog("restore", "--force", str(kept))
        assert (done.status, "error[quarantine-foreign-path]" in done.err) == (8, True)
        assert f"{log_dir} is not a log dir" in done.err
        assert (data.parent / "victim").exists()
        assert not (data.parent / ".lock").exists()
        assert not Path("/.lock").exists()
        shutil.rmtree(kept)


def test_a_listing_may_not_claim_what_no_file_has(data):
    kept = kept_with(data, {"do": "list", "path": f"{data}/a-0", "files": {"old": [1 << 62, 1, 0o644]}},
                     {"do": "grow", "path": f"{data}/a-0/old", "size": 1 << 62, "modified_ns": 1})
    (data / "a-0/old").write_bytes(b"1234")
    done = kafkalog("restore", "--force", str(kept))
    assert (done.status, "error[quarantine-damaged]" in done.err) == (8, True)
    assert (data / "a-0/old").read_bytes() == b"1234"


def test_a_link_is_nothing_that_was_stored(data):
    content = (data.parent / "victim").read_bytes()
    kept = kept_with(data, {"do": "remove", "path": f"{data}/a-0/old", "size": len(content), "stored": "000001-a",
                            "sha256": sha256(content).hexdigest(), "modified_ns": 1, "mode": 0o600})
    (kept / "files/000001-a").symlink_to(data.parent / "victim")
    done = kafkalog("restore", "--force", str(kept))
    assert (done.status, "error[quarantine-damaged]" in done.err, "a link to" in done.err) == (8, True, True)
    assert not os.path.lexists(data / "a-0/old")


def kept(content=b"* * * * * root id"):
    return {"size": len(content), "stored": "000001-x", "sha256": sha256(content).hexdigest(), "modified_ns": 1, "mode": 0o755}


@pytest.mark.parametrize("name", ["cron.d/leader-epoch-checkpoint", "cron.d/cleaner-offset-checkpoint", "cron.d/a-0/file"])
def test_a_directory_without_logs_is_no_log_dir(data, name):
    """However its owner may change it: what a manifest brings there would be read by others than brokers."""
    (data.parent / "cron.d").mkdir()
    path = data.parent / name
    quarantine = kept_with(data, {"do": "remove", "path": str(path), **kept()})
    (quarantine / "files/000001-x").write_bytes(b"* * * * * root id")
    lines = (quarantine / MANIFEST).read_text().splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), "log_dirs": [str(data.parent / "cron.d")]})
    (quarantine / MANIFEST).write_text("".join(f"{line}\n" for line in lines))
    for options in ((), ("--force",), ("--salvage",)):
        done = kafkalog("restore", *options, str(quarantine))
        assert (done.status, "error[quarantine-foreign-path]" in done.err) == (8, True)
        assert "is not a log dir" in done.err
    assert list((data.parent / "cron.d").iterdir()) == []


@pytest.mark.parametrize("name", [".ssh/authorized_keys", ".bashrc", "notes.txt", "a/x", "a-0.d/../.bashrc"])
def test_what_is_not_kafkas_is_left_alone_in_a_log_dir(data, name):
    for directory in (".ssh", "a", "a-0.d"):
        (data / directory).mkdir()
    quarantine = kept_with(data, {"do": "remove", "path": f"{data}/{name}", **kept()})
    (quarantine / "files/000001-x").write_bytes(b"* * * * * root id")
    done = kafkalog("restore", "--force", str(quarantine))
    assert (done.status, "error[quarantine-foreign-path]" in done.err) == (8, True), done.err
    assert not (data / name).exists()


@pytest.mark.parametrize("name", ["cleaner-offset-checkpoint", ".kafka_cleanshutdown", "meta.properties.tmp", "a-0/any",
                                  "a-0.0123456789abcdef0123456789abcdef-delete/below/any", "recovery-point-offset-checkpoint.kafkalog"])  # fmt: skip
def test_kafkas_files_are_put_back(data, name):
    quarantine = kept_with(data, {"do": "remove", "path": f"{data}/{name}", **kept()})
    (quarantine / "files/000001-x").write_bytes(b"* * * * * root id")
    (data / name).parent.mkdir(parents=True, exist_ok=True)
    done = kafkalog("restore", str(quarantine))
    assert done.status == 0, done.err
    assert (data / name).read_bytes() == b"* * * * * root id"
    assert (data / name).stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("mode", [0o4755, 0o1000, -1, "755"])
def test_a_mode_has_no_other_bits(data, mode):
    quarantine = kept_with(data, {"do": "remove", "path": f"{data}/a-0/old", **kept(), "mode": mode})
    (quarantine / "files/000001-x").write_bytes(b"* * * * * root id")
    done = kafkalog("restore", "--force", str(quarantine))
    assert (done.status, "mode cannot be" in done.err) == (8, True)
    assert not (data / "a-0/old").exists()


@as_root
def test_nobody_restores_what_another_user_offers():
    with public_directory() as top:
        data = top / "data"
        (data / "a-0").mkdir(parents=True)
        (data / "a-0/new").write_bytes(b"")
        quarantine = kept_with(data, {"do": "create", "path": f"{data}/a-0/new"})
        give_tree(data)
        quarantine.chmod(0o777)
        for path in (quarantine, quarantine / MANIFEST, quarantine / "files"):
            os.lchown(path, OTHER, OTHER)
        with rights_of(USER, GROUP):
            done = kafkalog("restore", str(quarantine))
        assert (done.status, "error[quarantine-foreign-path]" in done.err) == (8, True)
        assert f"{quarantine}: belongs to user {OTHER}, and you are user {USER}" in done.err
        assert (data / "a-0/new").exists()


def test_holes_of_what_is_stored_stay_holes(data):
    """Or a small quarantine would fill a disk."""
    size = 1 << 28
    content = sha256()
    for _ in range(size >> 20):
        content.update(bytes(1 << 20))
    (data / "a-0/old").write_bytes(b"1234")
    quarantine = kept_with(data, {"do": "cut", "path": f"{data}/a-0/old", "position": 0, "size": size, "stored": "000001-x",
                                  "sha256": content.hexdigest(), "modified_ns": 1, "mode": 0o644})
    with (quarantine / "files/000001-x").open("wb") as file:
        file.truncate(size)
    assert kafkalog("restore", "--force", str(quarantine)).status in (0, 4)
    assert (data / "a-0/old").stat().st_size == size
    assert (data / "a-0/old").stat().st_blocks * 512 < 1 << 20
