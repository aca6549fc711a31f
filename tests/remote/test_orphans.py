"""`kafkalog remote orphans`: objects that no broker deletes are found and deleted; objects that may be needed never are."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from engine.files import Files
from engine.log.quarantine.kept import in_use
from engine.remote.local_layout import LocalLayout
from engine.remote.metadata import RemoteLogMetadata
from engine.remote.metadata_log import MetadataLogs
from engine.remote.orphans import Why, find_orphans
from engine.remote.records import uuid_text
from engine.remote.storage import FolderStore
from tests.remote.corpus import OWN_ONLY, SETS, TOP, damaged, log_dirs, stores, truth
from tests.support.json_output import objects_of
from tests.support.run import kafkalog

pytestmark = pytest.mark.skipif("clean" not in SETS or "resumed" not in SETS, reason="names segments of these sets")


def orphans(store, dirs, *words):
    done = kafkalog("remote", "orphans", "--format", "jsonl", "--store", store, *words, *dirs)
    rows = list(objects_of(done.out))
    return done, [row for row in rows if row["type"] == "remote-orphan"]


def objects(store):
    return {str(path.relative_to(store)): path.read_bytes() for path in Path(store).rglob("*") if path.is_file()}


def writable(name, tmp_path):
    """Return a writable copy of a set."""
    shutil.copytree(TOP / name, tmp_path / "top")
    for path in [tmp_path / "top", *(tmp_path / "top").rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)
    return tmp_path / "top"


def check_orphans(store, tmp_path):
    """Orphans in the store of the set `resumed` are deleted and put back."""
    top = tmp_path / "top"
    shutil.copytree(TOP / "resumed", top, ignore=lambda _top, names: {"remote"} & set(names))
    words = ("remote", "orphans", "--store", store, str(top / "d0"), str(top / "d1"))
    before = kafkalog(*words).out
    assert b"2 orphans" in before
    done = kafkalog(*words, "--delete", "--older-than", "0s", "--quarantine", str(tmp_path / "kept"))
    assert done.status == 0, done.err
    assert b"no orphans" in kafkalog(*words).out
    assert kafkalog("restore", str(tmp_path / "kept")).status == 0
    assert kafkalog(*words).out == before


@pytest.mark.parametrize("name", [name for name in SETS if name not in ("resumed", "aiven")])
def test_stores_of_healthy_brokers_have_no_orphans(name):
    assert orphans(stores(name), log_dirs(name))[1] == []


EXPECTED = {
    "orphan-junk": [("foreign", None), ("foreign", None)], "orphan-segment": [("copied-again", "plain")],
    "orphan-topic": [("unknown-topic", "tx")],
}  # fmt: skip


@OWN_ONLY
@pytest.mark.parametrize("variant", EXPECTED)
def test_orphans_have_the_right_reason(variant, tmp_path):
    top = damaged(variant, tmp_path / "top")
    _, found = orphans(str(top / "remote"), [str(top / "d0"), str(top / "d1")])
    assert [(row["why"], row["topic"]) for row in found] == EXPECTED[variant]


@pytest.mark.parametrize("variant", ["metadata-behind", "other-cluster", "orphan-junk", "orphan-topic"])
def test_segments_that_may_be_needed_are_never_deleted(variant, tmp_path):
    top = damaged(variant, tmp_path / "top")
    before = objects(top / "remote")
    done, found = orphans(str(top / "remote"), [str(top / "d0"), str(top / "d1")], "--delete", "--older-than", "0s", "--yes")
    assert done.status in (0, 4)
    assert found == []
    assert objects(top / "remote") == before


@OWN_ONLY
def test_deleted_objects_can_be_put_back(tmp_path):
    top = writable("resumed", tmp_path)
    dirs, store, before = [str(top / "d0"), str(top / "d1")], str(top / "remote"), objects(top / "remote")
    words = ("--delete", "--older-than", "0s", "--quarantine", str(tmp_path / "kept"))
    _, planned = orphans(store, dirs, *words, "-n")
    assert objects(top / "remote") == before
    assert [row["is_deleted"] for row in planned] == [False, False]
    _, deleted = orphans(store, dirs, *words)
    keys = {key for row in deleted for key in row["keys"]}
    assert len(keys) == 3
    assert objects(top / "remote") == {key: data for key, data in before.items() if key not in keys}
    assert orphans(store, dirs)[1] == []
    assert kafkalog("restore", str(tmp_path / "kept")).status == 0
    assert objects(top / "remote") == before
    assert "0 objects put back, 3 already in the store" in kafkalog("restore", str(tmp_path / "kept")).out.decode()


class WithoutSegments:
    """The logs of __remote_log_metadata without the records of some segments."""

    def __init__(self, dirs, lost):
        self._logs, self._lost = MetadataLogs(Files(), dirs, pytest.fail), lost

    def events(self, metadata):
        for event in self._logs.events(RemoteLogMetadata()):
            if uuid_text(event.record.segment_id) not in self._lost:
                metadata.of(event.record, event.metadata_partition).apply(event.record)
                yield event


def reasons(store, dirs, lost):
    """Return (segment, reason) of the orphans of a store if the records of some segments are lost."""
    layout = LocalLayout(FolderStore(Files(), store), "kafka-tiered-storage/")
    found = find_orphans(layout, WithoutSegments(dirs, lost), RemoteLogMetadata(), None)
    return {one.segment_id: one.why for one in found.orphans}


@pytest.mark.skipif("pair" not in SETS, reason="names its topics")
def test_offsets_of_another_history_are_other_records():
    """An unclean election left two copies of some offsets. If the records of one are lost, the other does not have its data."""
    [row] = [one for one in truth("pair", "segments.jsonl") if one["partition"].endswith(":lost-0")]
    copied = [one for one in row["segments"] if one["state"] == "COPY_SEGMENT_FINISHED"]
    extents = [(one["start_offset"], one["end_offset"], set(one["leader_epochs"]), one["id"]) for one in copied]
    doubles = {
        one[3] for one in extents for other in extents
        if not one[2] & other[2] and other[0] <= one[0] and one[1] <= other[1]
    }  # fmt: skip
    assert doubles
    for lost in doubles:
        assert reasons(stores("pair"), log_dirs("pair"), {lost}) == {lost: Why.ONLY_COPY}


def test_a_truncated_object_does_not_replace_a_whole_one(tmp_path):
    """The other copy of the same records has a shorter log than its metadata says."""
    top = writable("resumed", tmp_path)
    dirs, store = [str(top / "d0"), str(top / "d1")], str(top / "remote")
    _, before = orphans(store, dirs)
    [one] = [row for row in before if row["why"] == "not-finished" and len(row["keys"]) == 2]
    folder = Path(store, one["keys"][0]).parent
    [log] = [path for path in folder.glob(f"{one['start_offset']:020d}-*.log") if one["id"] not in path.name]
    log.write_bytes(log.read_bytes()[:-1])
    assert [row["id"] for row in orphans(store, dirs)[1]] == [row["id"] for row in before if row["id"] != one["id"]]


@pytest.mark.skipif("pair" not in SETS, reason="has metadata logs of three brokers")
@pytest.mark.parametrize("others", [("n0", "n1"), ()])
def test_topics_that_an_old_metadata_log_does_not_know_are_not_gone(others, tmp_path):
    """The log dir that is named first is of a broker that stopped when only the first tiered topic existed."""
    top = writable("pair", tmp_path)
    old = tmp_path / "old"
    shutil.copytree(top / "n0/d0", old)
    log = old / "__cluster_metadata-0/00000000000000000000.log"
    dump = kafkalog("dump-log", "--format", "jsonl", "--cluster-metadata-decoder", str(log)).out
    batches = [row for row in objects_of(dump) if row["type"] == "batch"]
    records = [row for row in objects_of(dump) if row["type"] == "record"]
    [second] = [row["offset"] for row in records if json.dumps(row).count('"TOPIC_RECORD"') and json.dumps(row).count('"lost"')]
    end = next(row["position"] for row in batches if row["base_offset"] <= second <= row["last_offset"])
    os.truncate(log, end)
    for path in log.parent.iterdir():
        if path.suffix in (".index", ".timeindex", ".snapshot", ".checkpoint"):
            path.unlink()
    dirs = [str(old), *(str(top / name / "d0") for name in others)]
    done, found = orphans(str(top / "remote"), dirs)
    assert (done.status, found) == (0, [])


@pytest.fixture
def kept(tmp_path):
    """Return a quarantine with the objects of two orphans."""
    top = writable("resumed", tmp_path)
    dirs, store = [str(top / "d0"), str(top / "d1")], str(top / "remote")
    (tmp_path / "q").mkdir()
    orphans(store, dirs, "--delete", "--older-than", "0s", "--quarantine", str(tmp_path / "q/kept"))
    return tmp_path / "q/kept"


def prune(path, *words):
    return kafkalog("restore", "--prune", "--older-than", "0s", "--yes", *words, str(path))


def test_deleted_objects_are_listed_and_pruned(kept, tmp_path):
    before, store = objects(kept), str(tmp_path / "top/remote")
    done = kafkalog("restore", "--list", "--format", "jsonl", str(kept.parent))
    [listed] = [row for row in objects_of(done.out) if row["type"] == "quarantine"]
    assert (listed["path"], listed["state"]) == (str(kept), "objects")
    assert (listed["command"], listed["log_dirs"]) == (f"remote orphans --delete --store {store}", [])
    assert listed["created_ms"] > 1_700_000_000_000
    assert listed["bytes"] >= sum(map(len, before.values()))
    assert "objects of a store: restore puts them back" in kafkalog("restore", "--list", str(kept.parent)).out.decode()
    assert kafkalog("restore", "--prune", "--older-than", "1h", "--yes", str(kept.parent)).status == 0
    assert prune(kept.parent, "-n").status == 0
    assert objects(kept) == before
    assert prune(kept.parent).status == 0
    assert list(kept.parent.iterdir()) == []


@pytest.mark.parametrize("name", ["notes.txt", "000000", "000005", "00001", "0000001"])
def test_a_quarantine_with_foreign_files_is_not_deleted(kept, name):
    (kept / name).write_text("mine")  # three objects are kept: 000001 to 000003, and one more may be copied
    before = objects(kept)
    done = prune(kept.parent)
    assert (done.status, "contains files that kafkalog did not write" in done.err) == (8, True)
    assert objects(kept) | {"lock": b""} == before | {"lock": b""}


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/etc"), lambda path: path.mkdir()])
def test_a_quarantine_with_links_or_directories_is_not_deleted(kept, make):
    make(kept / "000004")
    assert prune(kept.parent).status == 8
    assert (kept / "objects.jsonl").exists()


def test_another_version_is_listed_and_not_deleted(kept):
    path = kept / "objects.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"version": 1', b'"version": 2', 1))
    assert prune(kept.parent).status == 0
    assert path.exists()
    assert str(kept) in kafkalog("restore", "--list", str(kept.parent)).out.decode()


def test_a_locked_quarantine_is_not_deleted(kept):
    with in_use(Files(), str(kept)):
        before = objects(kept)
        for done in (prune(kept.parent), kafkalog("restore", str(kept))):
            assert (done.status, "another kafkalog process" in done.err) == (8, True)
        assert objects(kept) == before


def test_an_interrupted_prune_continues(kept):
    (kept / "000002").unlink()
    assert kafkalog("restore", str(kept)).status == 8
    assert prune(kept.parent).status == 0
    assert list(kept.parent.iterdir()) == []


@pytest.mark.parametrize("text", [b"", b"junk\n", b"{}\n", b"[" * 100_000, b'{"store": 5, "created_ms": "x"}\n'])
def test_a_foreign_list_of_objects_is_skipped(tmp_path, text):
    (tmp_path / "q").mkdir()
    (tmp_path / "q/objects.jsonl").write_bytes(text)
    done = kafkalog("restore", "--list", str(tmp_path))
    assert (done.status, done.out) == (0, b"nothing to undo\n")


def test_another_object_with_the_same_key_is_not_replaced(tmp_path):
    top = writable("resumed", tmp_path)
    dirs, store = [str(top / "d0"), str(top / "d1")], str(top / "remote")
    _, deleted = orphans(store, dirs, "--delete", "--older-than", "0s", "--quarantine", str(tmp_path / "kept"))
    path = top / "remote" / deleted[0]["keys"][0]
    path.write_bytes(b"another")
    done = kafkalog("restore", str(tmp_path / "kept"))
    assert (done.status, "another object has this key now" in done.err, path.read_bytes()) == (4, True, b"another")


def test_younger_objects_are_kept(tmp_path):
    top = writable("resumed", tmp_path)
    for path in (top / "remote").rglob("*"):
        path.touch()
    assert orphans(str(top / "remote"), [str(top / "d0"), str(top / "d1")], "--delete", "--older-than", "1h")[1] == []


def test_a_log_dir_that_is_not_named_stops_the_deletion(tmp_path):
    """Without a partition of __remote_log_metadata, segments in its records would count as unknown."""
    top = writable("resumed", tmp_path)
    before = objects(top / "remote")
    done, _ = orphans(str(top / "remote"), [str(top / "d0")], "--delete", "--older-than", "0s")
    assert (done.status, "are in none of the log dirs" in done.out.decode()) == (4, True)
    assert objects(top / "remote") == before


def test_a_damaged_metadata_log_stops_the_deletion(tmp_path):
    top = damaged("metadata-torn", tmp_path / "top")
    before = objects(top / "remote")
    done, _ = orphans(str(top / "remote"), [str(top / "d0"), str(top / "d1")], "--delete", "--older-than", "0s")
    assert done.status == 4
    assert objects(top / "remote") == before


@pytest.mark.parametrize("words", [
    ("--delete",), ("--quarantine", "x"), ("--delete", "--older-than", "1d", "--quarantine", "x", "--no-quarantine"),
])  # fmt: skip
def test_options_that_do_not_go_together(words):
    assert kafkalog("remote", "orphans", "--store", stores("clean"), *words, *log_dirs("clean")).status == 2
