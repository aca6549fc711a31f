"""`kafkalog undelete` brings back every record that a consumer read before the deletion, or says why not and changes nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.support.json_output import all_objects, reports_of
from tests.support.other_process import lock_held
from tests.support.permissions import without_permission
from tests.support.run import kafkalog
from tests.support.users import as_root, give, public_directory, state

PARTITIONS = {"wrongly-0": "d0", "wrongly-1": "d1"}
HEX = "0123456789abcdef0123456789abcdef"


def writable(source, to):
    shutil.copytree(source, to)
    for path in (to, *to.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    return to


@pytest.fixture
def deletion(own_cluster_corpus):
    return own_cluster_corpus / "deletion"


@pytest.fixture
def node(deletion, tmp_path):
    """The topic was deleted and created again, and the broker was stopped."""
    return writable(deletion / "2-created-again/n1", tmp_path / "node")


def gone(node, partition):
    [found] = node.glob(f"*/{partition}.*-delete")
    return found


def consumed(deletion, *names, moment="before"):
    """(offset, timestamp, key, value) by partition, as a consumer read them."""
    found = {}
    for line in (deletion / f"truth/consumed-{moment}.jsonl").read_text().splitlines():
        one = json.loads(line)
        if one["partition"] in names:
            found.setdefault(one["partition"], []).append((one["offset"], one["timestamp"], one["key"], one["value"]))
    return found


def read(directory, *findings):
    done = kafkalog("fetch", "--format", "jsonl", str(directory))
    assert [one["code"] for one in all_objects(done.out) if one["type"] == "finding"] == list(findings)
    return [(one["offset"], one["timestamp"], one["key"], one["value"]) for one in all_objects(done.out) if one["type"] == "fetched-record"]


def files_of(top):
    """Everything but locks and quarantines."""
    return {name: held for name, held in state(top).items() if "quarantine" not in name and not name.endswith(".lock") and name != "."}


def undelete(*words, status=1):
    done = kafkalog("undelete", *map(str, words))
    assert done.status == status, done.out.decode() + done.err
    return done


def refused(node, *words, code="not-undeleted", log_dirs=None, status=4):
    """It is refused with a next command, and nothing is changed → what it says."""
    before = files_of(node)
    done = undelete(*words, *(log_dirs or [node / "d0", node / "d1"]), status=status)
    assert f"error[{code}]" in done.err
    assert "\n  do   " in done.err
    assert files_of(node) == before
    return done.err


# ---- a deleted topic


def test_every_record_is_back_under_the_new_id(node, deletion):
    expected = consumed(deletion, *PARTITIONS)
    assert sum(map(len, expected.values())) == 113
    sources = {name: state(gone(node, name)) for name in PARTITIONS}
    undelete("--as-new-topic", node)
    new_id = json.loads((deletion / "story.json").read_text())["story"][-1]["topic_id"]
    for name, log_dir in PARTITIONS.items():
        directory = node / log_dir / name
        assert read(directory) == expected[name]
        assert new_id in (directory / "partition.metadata").read_text()
        assert (directory / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
        assert state(gone_source(node, name)) == sources[name]
    assert kafkalog("verify", *(str(node / log_dir / name) for name, log_dir in PARTITIONS.items())).status == 0
    checked = kafkalog("check", "--level", "full", str(node))
    assert (checked.status, "no problems" in checked.out.decode()) == (0, True)


def gone_source(node, partition):
    [found] = [path for path in node.glob(f"*/{partition}.*-delete") if not path.name.split(".")[1].startswith("000000")]
    return found


def test_restore_undoes_it_byte_for_byte(node):
    before = files_of(node)
    undelete("--as-new-topic", node)
    assert files_of(node) != before
    for quarantine in sorted(node.glob("*.quarantine-*")):
        assert kafkalog("restore", str(quarantine)).status == 0
    assert files_of(node) == before


def test_a_second_run_has_nothing_to_do(node):
    undelete("--as-new-topic", node)
    before = files_of(node)
    assert b"has the same segments" in undelete("--as-new-topic", node, status=0).out
    assert files_of(node) == before


def test_a_dry_run_says_the_same_and_changes_nothing(node):
    before = files_of(node)
    planned = reports_of(undelete("--as-new-topic", "--dry-run", "--format", "jsonl", node).out)
    assert files_of(node) == before
    done = reports_of(undelete("--as-new-topic", "--format", "jsonl", node).out)
    for one in (*planned, *done):
        one.pop("dry_run"), one.pop("recovery_point")
    assert planned == done


def test_one_partition(node):
    undelete("--as-new-topic", "--topic", "wr*", "--partition", "1", node)
    assert (len(read(node / "d1/wrongly-1")), read(node / "d0/wrongly-0")) == (59, [])


def test_a_single_directory_may_be_named(node):
    undelete("--as-new-topic", gone(node, "wrongly-0"))
    assert len(read(node / "d0/wrongly-0")) == 54


@pytest.mark.parametrize("stage", ["partial", "empty target gone"])
def test_a_run_that_was_stopped_is_completed(node, stage):
    staging = node / "d0/wrongly-0.6b61666b616c6f676b61666b616c6f67-stray"
    if stage == "partial":
        staging.mkdir()
        (staging / f"{0:020}.log").write_bytes(b"half of a ba")
    else:
        shutil.rmtree(node / "d0/wrongly-0")
    undelete("--as-new-topic", node)
    assert not staging.exists()
    assert len(read(node / "d0/wrongly-0")) == 54


# ---- refusals


def test_a_topic_that_does_not_exist(deletion, tmp_path):
    node = writable(deletion / "1-deleted-running/n1", tmp_path / "node")
    said = refused(node, "--as-new-topic")
    assert "the metadata log has no topic wrongly" in said
    assert "--partitions 2" in said
    assert "undelete --to DIR" in said


def test_without_the_metadata_log(node):
    said = refused(node, "--as-new-topic", log_dirs=[node / "d1"])
    assert "in none of the given log dirs" in said


def test_a_target_with_records(node):
    shutil.copy(node / f"d0/kept-1/{0:020}.log", node / f"d0/wrongly-0/{0:020}.log")
    assert "not empty" in refused(node, "--as-new-topic", "--partition", "0")


def test_a_target_that_had_records(node):
    for suffix in ("log", "index", "timeindex"):
        (node / f"d0/wrongly-0/{0:020}.{suffix}").rename(node / f"d0/wrongly-0/{7:020}.{suffix}")
    assert "ended at offset 7" in refused(node, "--as-new-topic", "--partition", "0")


def test_another_number_of_partitions(node):
    """The old id is unknown: of three partitions that were found, the new topic has only two."""
    for log_dir, number in (("d0", 0), ("d1", 1)):
        path = gone(node, f"wrongly-{number}")
        (path / "partition.metadata").write_text("version: 0\ntopic_id: Ssx5VgobQZyBz3LWRQ0uyQ")
        assert path.parent.name == log_dir
    shutil.copytree(gone(node, "wrongly-0"), node / f"d0/wrongly-2.{HEX}-delete")
    said = refused(node, "--as-new-topic")
    assert "how many the old one had is not known" in said
    assert "--topic-id" in said


@pytest.mark.parametrize("damage", ["checksum", "torn", "swap"])
def test_damaged_bytes_are_sent_to_salvage(node, damage):
    log = gone(node, "wrongly-1") / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    if damage == "swap":
        (log.parent / f"{0:020}.log.swap").write_bytes(bytes(data))
    else:
        data[300] ^= 1
        log.write_bytes(bytes(data) if damage == "checksum" else bytes(data[:-5]))
    said = refused(node, "--as-new-topic", "--partition", "1", code="log-damaged")
    assert "recover --salvage" in said


def test_the_salvaged_copy_is_put_back(node, tmp_path):
    log = gone(node, "wrongly-1") / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[300] ^= 1
    log.write_bytes(bytes(data))
    safe = tmp_path / "safe"
    undelete("--to", safe, "--partition", "1", node, status=4)
    assert (safe / "wrongly-1" / log.name).read_bytes() == bytes(data)
    assert kafkalog("recover", "--salvage", str(safe / "wrongly-1")).status == 1
    done = undelete("--as-new-topic", "--partition", "1", safe, node / "d0", node / "d1")
    assert b"offsets between its batches are missing" in done.out
    assert 40 < len(read(node / "d1/wrongly-1")) < 59


def damaged_copy(node, tmp_path, position=300):
    copy = writable(gone(node, "wrongly-0"), tmp_path / "copies/wrongly-0")
    log = copy / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[position] ^= 1
    log.write_bytes(bytes(data))
    return copy


def test_a_sound_directory_is_taken_instead_of_a_damaged_copy(node, deletion, tmp_path):
    """Only the partition of the copy that was named is put back, and nothing is said to have no problems."""
    copy = damaged_copy(node, tmp_path)
    done = undelete("--as-new-topic", copy, node / "d0", node / "d1")
    assert read(node / "d0/wrongly-0") == consumed(deletion, "wrongly-0")["wrongly-0"]
    assert read(node / "d1/wrongly-1") == []
    assert f"is used instead of {copy}: ".encode() in done.out
    assert b"no problems" not in done.out
    assert b"nothing was done" in undelete("--as-new-topic", copy, node / "d0", node / "d1", status=0).out


def test_a_damaged_copy_that_may_have_more(node, tmp_path):
    """It has a segment that the sound directory lacks. The command that is advised puts the sound one back."""
    copy = damaged_copy(node, tmp_path)
    for path in gone(node, "wrongly-0").glob(f"{48:020}.*"):
        path.unlink()
    said = refused(node, "--as-new-topic", copy)
    assert "NOT put back; it is intact (offsets 0 to 47, 48 records)" in said
    assert "recover --salvage" in said
    [advice] = [line.split("#")[0].split() for line in said.splitlines() if "without the copy" in line]
    undelete(*advice[advice.index("undelete") + 1 : -1], node)
    assert len(read(node / "d0/wrongly-0")) == 48


def test_of_two_sound_directories_the_one_with_all_records_is_taken(node, tmp_path):
    copy = writable(gone(node, "wrongly-0"), tmp_path / "copies/wrongly-0")
    for path in copy.glob(f"{48:020}.*"):
        path.unlink()
    done = undelete("--as-new-topic", copy, node / "d0", node / "d1")
    assert f"is used instead of {copy}: ".encode() in done.out
    assert b"offsets 0 to 53, 54 records, not offsets 0 to 47, 48 records" in done.out
    assert len(read(node / "d0/wrongly-0")) == 54


def test_a_copy_with_more_than_was_put_back_before(node, tmp_path):
    """That is an error: the records of the copy that was named are not there."""
    path, copy = gone(node, "wrongly-0"), writable(gone(node, "wrongly-0"), tmp_path / "copies/wrongly-0")
    for file in path.glob(f"{48:020}.*"):
        file.unlink()
    undelete("--as-new-topic", "--partition", "0", node)
    assert "records that were written to the new topic are not replaced" in refused(node, "--as-new-topic", copy)


def test_two_sound_directories_with_different_records_are_both_named(node):
    path = gone(node, "wrongly-0")
    other = writable(path, node / f"d0/wrongly-0.{HEX}-delete")
    for one, base in ((path, 0), (other, 48)):
        for file in one.glob(f"{base:020}.*"):
            file.unlink()
    said = refused(node, "--as-new-topic", "--partition", "0")
    assert said.count("NOT put back; it is intact") == 2
    assert f"{path}: NOT put back" in said
    assert f"{other}: NOT put back" in said


@pytest.mark.parametrize("way", [("--list",), ("--as-new-topic",), ("--to", "safe"), ()])
def test_a_topic_that_is_not_there(node, tmp_path, monkeypatch, way):
    monkeypatch.chdir(tmp_path)
    assert "no partition of topic nope was found" in undelete(*way, "--topic", "nope", node, status=2).err
    assert undelete(*way, "--topic", "kept", node, status=0).err == ""
    assert not (tmp_path / "safe").exists()


def test_a_copy_with_damage_is_as_large_as_its_source(node, tmp_path):
    copy = damaged_copy(node, tmp_path, 20)
    done = undelete("--to", tmp_path / "safe", "--format", "jsonl", copy, status=4)
    [report] = reports_of(done.out)
    first, last = [one for one in report["events"] if one["action"] == "created"]
    assert first["bytes"] == (copy / f"{0:020}.log").stat().st_size
    assert "records" not in first
    assert (last["records"], last["first_offset"], last["end_offset"]) == (6, 48, 54)


def test_a_stopped_run_is_to_be_repeated_before_a_broker_starts(node, monkeypatch):
    from engine.log.operations import undelete as module
    from kafkalog_cli.interruption import INTERRUPTION

    def stopped(*_given, **_options):
        INTERRUPTION.number = signal.SIGINT
        INTERRUPTION.check()

    monkeypatch.setattr(module, "copy_segment", stopped)
    said = undelete("--as-new-topic", node, status=130).err
    assert "run the command again before a broker starts" in said
    assert "recover" not in said


def test_a_running_broker(node):
    (node / "d1/.lock").touch()
    with lock_held(node / "d1/.lock"):
        refused(node, "--as-new-topic", code="log-dir-locked", status=8)
        [first, second] = candidates(node)
    assert (first["can"], second["can"]) == (["as-new-topic", "to"], ["to"])
    assert second["goes_at"] > 0
    assert "locked" in second["why_not"]


def test_a_full_disk_is_noticed_before(node, monkeypatch):
    from engine.files import DiskSpace, Files

    monkeypatch.setattr(Files, "space", lambda _self, _path: DiskSpace(1, 1000))
    assert "1000 bytes free" in refused(node, "--as-new-topic")


def test_options_that_exclude_each_other(node):
    assert "exclude each other" in undelete("--list", "--as-new-topic", node, status=2).err
    assert "--pid needs" in undelete("--pid", "7", node, status=2).err


# ---- other targets


def test_a_topic_with_another_name(node):
    """`kept` has the same number of partitions; without its records it could take those of wrongly."""
    for name, log_dir in (("kept-0", "d1"), ("kept-1", "d0")):
        for path in (node / log_dir / name).glob("0*"):
            path.unlink()
    topic_id = (node / "d1/kept-0/partition.metadata").read_text().split()[-1]
    undelete("--topic-id", topic_id, "--topic", "wrongly", node)
    lost = "checkpoint-beyond-log"  # the logs that were there ended later
    assert len(read(node / "d1/kept-0", lost)) == 54
    assert len(read(node / "d0/kept-1", lost)) == 59


def test_the_same_topic_keeps_its_leader_epochs(node):
    """A directory that became a stray, for example with an old copy of the metadata log."""
    before = state(node / "d1/kept-0")
    (node / "d1/kept-0").rename(node / f"d1/kept-0.{HEX}-stray")
    undelete("--topic", "kept", node)
    after = state(node / "d1/kept-0")
    for name in ("partition.metadata", f"{0:020}.log", f"{47:020}.log"):
        assert after[name] == before[name]
    assert (node / "d1/kept-0/leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n2 31\n4 47\n"  # without the epoch of no batch


def test_a_name_that_a_broker_shortened(node):
    """Its topic is known by the id in the metadata log; with another id it is not."""
    long = "w" * 249
    path = gone(node, "wrongly-0")
    end = f"-0.{HEX}-delete"
    short = path.rename(path.with_name(long[: 255 - len(end)] + end))
    undelete("--as-new-topic", "--partition", "0", node)
    assert len(read(node / "d0/wrongly-0")) == 54
    (short / "partition.metadata").write_text("version: 0\ntopic_id: Ssx5VgobQZyBz3LWRQ0uyQ")
    [one] = [one for one in candidates(node) if one["partition"] == 0]
    assert one["topic"] is None
    assert "shortened" in one["why_not"]


# ---- copies


def candidates(*words):
    return [one for one in all_objects(undelete("--list", "--format", "jsonl", *words, status=0).out) if one["type"] == "candidate"]


def test_the_list(deletion):
    found = candidates(deletion / "1-deleted-running/n1")
    facts = json.loads((deletion / "truth/facts.json").read_text())
    assert {f"{one['topic']}-{one['partition']}": (one["end_offset"], one["topic_id"]) for one in found} == {
        name: (facts["partitions_before"]["partitions"][name]["latest"], facts["topic_id"][name]) for name in PARTITIONS
    }  # fmt: skip
    assert {(one["kind"], *one["can"]) for one in found} == {("delete-dir", "to")}
    assert {(one["kind"], *one["can"]) for one in candidates(deletion / "2-created-again/n1")} == {("delete-dir", "as-new-topic", "to")}
    assert b"nothing that can be brought back" in undelete("--list", deletion / "3-put-back/n1", status=0).out


def test_many_partitions_are_a_line_for_each_topic(node):
    model = gone(node, "wrongly-0")
    for number in (*range(2, 40), 50):
        shutil.copytree(model, node / f"d{number % 2}/wrongly-{number}.{HEX}-delete")
    out = undelete("--list", node, status=0).out.decode().splitlines()
    folded = [at for at, line in enumerate(out) if line.startswith("  wrongly-2…39,50 ")]
    assert len(folded) == 1
    assert (out[folded[0]].split()[2:4], len(out) < 20) == (["39", "logs"], True)
    assert "(38 others alike)" in out[folded[0] + 1]  # the note is below
    assert out[-1] == "41 candidates; --verbose lists every partition"
    long = undelete("--list", "-v", node, status=0).out.decode().splitlines()
    rows = [at for at, line in enumerate(long) if line.startswith("  wrongly-")]
    assert len(rows) == 41
    assert all(long[at].split()[0] in long[at + 1] for at in rows)


def test_copies_are_equal_and_sound(deletion, tmp_path):
    node, safe = deletion / "1-deleted-running/n1", tmp_path / "safe"
    undelete("--to", safe, node)
    for name in PARTITIONS:
        for log in gone(node, name).glob("*.log"):
            assert (safe / name / log.name).read_bytes() == log.read_bytes()
    assert kafkalog("verify", *(str(safe / name) for name in PARTITIONS)).status == 0
    before = state(safe)
    assert "already exists" in undelete("--to", safe, node, status=4).err
    assert state(safe) == before


def test_a_copy_does_not_go_into_a_log_dir(node):
    before = files_of(node)
    undelete("--to", node / "d0/safe", node, status=2)
    assert files_of(node) == before


_BROKER = """
import fcntl, pathlib, shutil, sys
log_dir, name = pathlib.Path(sys.argv[1]), sys.argv[2]
lock = open(log_dir / ".lock", "w")
fcntl.lockf(lock, fcntl.LOCK_EX)
held = [open(path, "r+b") for path in sorted((log_dir / name).glob("*.log"))]
shutil.rmtree(log_dir / name)
held[-1].seek(0, 2)
held[-1].write(held[-1].read() + bytes.fromhex(sys.argv[3]))
held[-1].flush()
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def removed_under_a_broker(log_dir, name, tail=b""):
    words = [sys.executable, "-c", _BROKER, str(log_dir), name, tail.hex()]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process.pid
        finally:
            process.stdin.close()


def test_files_that_only_a_broker_has_open(deletion, tmp_path):
    """Copied byte for byte, without the batch that is being written; then they go back under the same id."""
    node, safe = writable(deletion / "1-deleted-running/n1", tmp_path / "node"), tmp_path / "safe"
    rescued = sorted((deletion / "rescued-by-fd/removed-0").glob("*.log"))
    for log in rescued:
        shutil.copyfile(log, node / "d1/removed-0" / log.name)
    torn = rescued[0].read_bytes()[:100]
    with removed_under_a_broker(node / "d1", "removed-0", torn) as pid:
        [one] = candidates("--topic", "removed", node)
        assert (one["kind"], one["process"], one["start_offset"], one["end_offset"]) == ("open-unlinked", pid, 0, 72)
        [same] = candidates("--pid", pid)
        assert (same["start_offset"], same["end_offset"], same["topic_id"]) == (0, 72, None)
        checked = kafkalog("check", "--level", "start", str(node))
        assert "warning[open-unlinked]" in checked.err + checked.out.decode()
        undelete("--to", safe, "--topic", "removed", node)
    for log in rescued:
        assert (safe / "removed-0" / log.name).read_bytes() == log.read_bytes()
    undelete("--topic", "removed", safe, node / "d0", node / "d1")
    assert read(node / "d1/removed-0") == consumed(deletion, "removed-0")["removed-0"]
    assert (node / "d1/removed-0/leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n2 35\n4 51\n"


def test_a_process_that_does_not_exist():
    assert "no process" in undelete("--list", "--pid", 2**22 + 1, status=8).err


# ---- deleted segments


def with_deleted_segment(node, base=0, partition="d1/kept-0"):
    for path in sorted((node / partition).glob(f"{base:020}.*")):
        if path.suffix != ".snapshot":
            path.rename(f"{path}.deleted")


def test_a_segment_that_retention_deleted_joins_its_log(node, deletion):
    epochs = (node / "d1/kept-0/leader-epoch-checkpoint").read_text()
    with_deleted_segment(node)
    (node / "d1/log-start-offset-checkpoint").write_text("0\n1\nkept 0 47\n")
    (node / "d1/kept-0/leader-epoch-checkpoint").write_text("0\n2\n4 47\n6 65\n")
    before = files_of(node)
    assert [one["can"] for one in candidates("--topic", "kept", node)] == [["in-place", "to"]]
    undelete("--topic", "kept", node)
    assert read(node / "d1/kept-0") == consumed(deletion, "kept-0")["kept-0"]
    assert (node / "d1/kept-0/leader-epoch-checkpoint").read_text() == epochs
    assert (node / "d1/log-start-offset-checkpoint").read_text() == "0\n0\n"
    assert kafkalog("verify", str(node / "d1/kept-0")).status == 0
    [quarantine] = node.glob("*.quarantine-*")
    assert kafkalog("restore", str(quarantine)).status == 0
    assert files_of(node) == before


def test_segments_that_a_broker_deleted_join_their_logs(own_cluster_corpus, tmp_path):
    """Both topics lost their first segment to retention; a third one was compacted."""
    node = writable(own_cluster_corpus / "ops/1-stopped/n1", tmp_path / "node")
    undelete("--topic", "altered", "--topic", "short", node)
    partitions = [node / "d0/altered-0", node / "d1/short-0"]
    assert [read(one)[0][0] for one in partitions] == [0, 0]
    assert kafkalog("verify", *map(str, partitions)).status == 0


def test_a_segment_that_does_not_join_stays(node, tmp_path):
    """The first one is missing between: as if retention had removed it already."""
    with_deleted_segment(node)
    log = node / f"d1/kept-0/{0:020}.log.deleted"
    size = 1 + log.read_bytes().index(b"\0\0\0\0\0\0\0", 60)  # not the whole first batch
    data = log.read_bytes()
    first = 12 + int.from_bytes(data[8:12], "big")
    log.write_bytes(data[:first])
    assert size > 0
    before = files_of(node)
    done = undelete("--topic", "kept", node, status=4)
    assert b"the log begins at 47" in done.out
    assert files_of(node) == before
    undelete("--to", tmp_path / "safe", "--topic", "kept", node)
    assert (tmp_path / f"safe/kept-0/{0:020}.log").read_bytes() == data[:first]


def test_a_segment_of_the_cleaner_is_only_copied(node, tmp_path):
    log = node / f"d1/kept-0/{0:020}.log"
    shutil.copy(log, f"{log}.deleted")
    before = files_of(node)
    [one] = candidates("--topic", "kept", node)
    assert (one["can"], "cleaner" in one["why_not"]) == (["to"], True)
    undelete("--topic", "kept", node, status=4)
    assert files_of(node) == before
    undelete("--to", tmp_path / "safe", "--topic", "kept", node)
    assert (tmp_path / "safe/kept-0" / log.name).read_bytes() == log.read_bytes()


# ---- hostile log dirs


def test_links_are_not_followed(node, tmp_path):
    """A link in place of a deleted directory, of its log, and of the new partition."""
    path = gone(node, "wrongly-0")
    moved = path.rename(tmp_path / path.name)
    path.symlink_to(moved)
    log = gone(node, "wrongly-1") / f"{41:020}.log"
    log.rename(tmp_path / "log")
    log.symlink_to(tmp_path / "log")
    [one] = candidates(node)
    assert (one["partition"], one["segments"], one["end_offset"]) == (1, 1, 41)
    outside = state(tmp_path / "log"), state(moved)
    undelete("--as-new-topic", "--topic", "wrongly", node)
    assert (state(tmp_path / "log"), state(moved)) == outside
    assert len(read(node / "d1/wrongly-1")) == 41
    empty = node / "d0/wrongly-0"
    shutil.rmtree(path if not path.is_symlink() else moved)
    path.unlink()
    writable(gone_source(node, "wrongly-1"), path)
    shutil.rmtree(empty)
    empty.symlink_to(tmp_path)
    refused(node, "--as-new-topic", "--partition", "0")


def test_odd_names_and_kinds_of_files(node):
    """A FIFO does not block, a name with control characters is escaped, garbage is not taken for a partition."""
    path = gone(node, "wrongly-0")
    os.mkfifo(path / f"{99:020}.log")
    (path / "a\nb.log").write_bytes(b"x")
    odd = node / f"d0/evil\n\x1b[31m-0.{HEX}-delete"
    shutil.copytree(path, odd, ignore=lambda _top, names: [name for name in names if name.startswith(f"{99:020}")])
    (odd / "partition.metadata").write_bytes(b"\xff" * 50)
    (node / f"d0/.{HEX}-delete").mkdir()
    done = undelete("--list", node, status=0)
    assert b"\x1b[31m" not in done.out
    undelete("--as-new-topic", "--topic", "wrongly", node)
    assert len(read(node / "d0/wrongly-0")) == 54


def test_a_directory_without_permission(node):
    with without_permission(gone(node, "wrongly-0")):
        assert kafkalog("undelete", "--list", str(node)).status == 8


@as_root
def test_root_works_with_the_rights_of_the_owner(deletion):
    with public_directory() as top:
        node = writable(deletion / "2-created-again/n1", top / "node")
        give(node)
        undelete("--to", top / "safe", node)
        undelete("--as-new-topic", node)
        for path in (*node.rglob("*"), *(top / "safe").rglob("*")):
            assert path.lstat().st_uid == node.stat().st_uid, path
        assert len(read(node / "d0/wrongly-0")) == 54


@as_root
def test_a_hard_link_to_a_file_of_another_user_is_not_copied(deletion):
    """The owner of the log dir cannot read the file, so the copy that root makes does not have it."""
    with public_directory() as top:
        node = writable(deletion / "2-created-again/n1", top / "node")
        secret = top / "secret"
        shutil.copyfile(gone(node, "wrongly-0") / f"{0:020}.log", secret)
        secret.chmod(0o600)
        give(node)
        target = gone(node, "wrongly-0") / f"{0:020}.log"
        target.unlink()
        os.link(secret, target)
        done = kafkalog("undelete", "--to", str(top / "safe"), "--partition", "0", str(node))
        assert done.status == 8, done.err
        assert not (top / "safe/wrongly-0").exists()
