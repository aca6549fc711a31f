"""`kafkalog remote repair-metadata` rewrites lost records from the store, except those of deleted segments."""

from __future__ import annotations

import shutil

import pytest

from tests.remote.corpus import OWN_ONLY, SETS, TOP, damaged, truth
from tests.support.json_output import objects_of, reports_of
from tests.support.run import kafkalog

pytestmark = pytest.mark.skipif("clean" not in SETS, reason="the variants are of the set clean")
FIELDS = ("id", "start_offset", "end_offset", "size", "max_timestamp", "txn_index_empty", "leader_epochs")


def repair(top, *words):
    dirs = sorted(str(path) for path in top.glob("d?"))
    return kafkalog("remote", "repair-metadata", "--store", str(top / "remote"), "--format", "jsonl", *words, *dirs)


def known(dirs):
    """Return the copied segments of each partition."""
    found = {}
    for one in objects_of(kafkalog("remote", "list", "--format", "jsonl", *dirs).out):
        if one["type"] == "remote-segment" and one["state"] == "COPY_SEGMENT_FINISHED":
            found.setdefault(f"{one['topic_id']}:{one['topic']}-{one['partition']}", []).append([one[field] for field in FIELDS])
    return found


def copied():
    return {row["partition"]: rows for row in truth("clean", "segments.jsonl")
            if (rows := [[one[field] for field in FIELDS] for one in row["segments"] if one["state"] == "COPY_SEGMENT_FINISHED"])}  # fmt: skip


@OWN_ONLY
@pytest.mark.parametrize("variant", ["metadata-behind", "metadata-gone"])
def test_lost_records_are_written_again(variant, tmp_path):
    top = damaged(variant, tmp_path / "top")
    if variant == "metadata-behind":  # its indexes and checkpoints show that the log was longer
        refused = repair(top)
        assert (refused.status, "kafkalog recover" in refused.out.decode()) == (4, True)
        kafkalog("recover", "--no-quarantine", "--yes", *sorted(str(path) for path in top.glob("d?")))
    done = repair(top, "--no-quarantine")
    assert done.status == (4 if variant == "metadata-behind" else 0), done.err  # the high watermark still shows the damage
    dirs = sorted(str(path) for path in top.glob("d?"))
    found, expected = known(dirs), copied()
    assert {key for key in found.keys() - expected.keys() if "detached" not in key} == set()  # the record of its deletion was also lost
    assert {key: found[key] for key in expected} == expected
    checked = kafkalog("remote", "verify", "--deep", "--format", "jsonl", "--store", str(top / "remote"), *dirs)
    assert [one["file"] for one in objects_of(checked.out) if one["type"] == "finding" and "detached-0" not in one["file"]] == []
    again = repair(top, "--no-quarantine")
    assert not [event for one in reports_of(again.out) for event in one["events"] if event["action"] == "created"]


def test_without_a_loss_nothing_is_written(tmp_path):
    shutil.copytree(TOP / "clean", tmp_path / "top")
    for path in [tmp_path / "top", *(tmp_path / "top").rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)
    before = {path: path.read_bytes() for path in (tmp_path / "top").rglob("*") if path.is_file()}
    done = repair(tmp_path / "top")
    assert (done.status, reports_of(done.out)) == (0, [])
    after = {path: path.read_bytes() for path in (tmp_path / "top").rglob("*") if path.is_file() and path.name != ".lock"}
    assert after == before


def test_a_dry_run_changes_nothing(tmp_path):
    top = damaged("metadata-behind", tmp_path / "top")
    before = {path: path.read_bytes() for path in top.rglob("*") if path.is_file()}
    planned = reports_of(repair(top, "-n").out)
    assert [event for one in planned for event in one["events"] if event["action"] == "created"]
    assert {path: path.read_bytes() for path in top.rglob("*") if path.is_file() and path.name != ".lock"} == before


def test_no_records_are_added_for_a_copy_of_a_known_segment(tmp_path):
    """A second copy of the same offsets stays an orphan, and a broker reads the same records as before."""
    top = damaged("orphan-topic", tmp_path / "top")
    done = repair(top)
    assert (done.status, reports_of(done.out)) == (0, [])
