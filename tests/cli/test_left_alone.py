"""Commands that refuse a log leave all of its log dir as it was: names that batches contradict, starts beyond the end, sizes."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.support.run import kafkalog

NOW = "1764000000000"
SIZE = 8 << 30  # bytes, more than a segment can have


@pytest.fixture
def partition(own_corpus, tmp_path):
    """Segments 0, 22, 42, 63, 83 of a log that ends at 89, in a log dir that was stopped cleanly."""
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d1", tmp_path / "d1")
    marker = tmp_path / "d1/.kafka_cleanshutdown"
    os.utime(marker, ns=(1_600_000_000_123_456_789,) * 2)
    return tmp_path / "d1/small_segments-0"


def log(partition, base):
    return partition / f"{base:020}.log"


def exchange(partition, one, other):
    """Exchange the bytes of two segments."""
    data = log(partition, one).read_bytes()
    log(partition, one).write_bytes(log(partition, other).read_bytes())
    log(partition, other).write_bytes(data)


def state(partition):
    """What is in the log dir; locks are made and stay."""
    found = {}
    for path in sorted(partition.parent.rglob("*")):
        if path.is_file() and path.name != ".lock":
            status = path.stat()
            found[path] = (status.st_mtime_ns, status.st_size, path.read_bytes() if status.st_size < SIZE else b"")
    return found


def refused(status, *words, name):
    """Run a command that must leave the log dir as it is; what it says."""
    partition = words[-1]
    before = state(partition)
    given = ("--input", os.devnull) if words[0] == "append" else ()
    done = kafkalog(*words[:1], "--now", NOW, *given, *map(str, words[1:]))
    assert (done.status, state(partition)) == (status, before), done.err
    assert name in done.err
    return done.err


DELETING = [
    ("delete-records", "--before", "25"), ("delete-records", "--before", "25", "--no-quarantine"), ("truncate", "--to", "62"),
    ("truncate", "--to", "62", "--no-quarantine"), ("truncate", "--fully", "--to", "100"),
    ("retain", "--config", "retention.bytes=7000", "--config", "retention.ms=-1"),
    ("retain", "--config", "retention.ms=1", "--config", "retention.bytes=-1"),
]  # fmt: skip


@pytest.mark.parametrize("marker", [True, False])
@pytest.mark.parametrize("words", DELETING, ids=" ".join)
def test_a_segment_whose_batches_contradict_its_name_is_not_deleted(partition, words, marker):
    exchange(partition, 0, 63)
    if not marker:
        (partition.parent / ".kafka_cleanshutdown").unlink()
    said = refused(4, *words, partition, name="log-damaged")
    assert "its sound batches hold offsets" in said
    assert f"kafkalog recover --full {partition}" in said


def test_a_segment_that_goes_on_beyond_the_next_name_is_not_deleted(partition):
    with log(partition, 0).open("ab") as file:
        file.write(log(partition, 63).read_bytes())
    refused(4, "delete-records", "--before", "25", partition, name="log-damaged")


def test_segments_that_stay_may_contradict_their_names(partition):
    exchange(partition, 42, 63)
    done = kafkalog("delete-records", "--now", NOW, "--before", "25", str(partition))
    assert done.status == 0, done.err
    assert not log(partition, 0).exists()
    assert log(partition, 42).exists()


@pytest.mark.parametrize("quarantine", [True, False])
def test_append_does_not_remove_a_log_that_begins_beyond_its_end(partition, tmp_path, quarantine):
    (partition.parent / "log-start-offset-checkpoint").write_text("0\n1\nsmall_segments 0 90\n")
    words = ("--quarantine", tmp_path / "kept") if quarantine else ()
    said = refused(4, "append", *words, partition, name="log-damaged")
    assert "below its start 90" in said


TOO_LARGE = [
    ("truncate", "--to", "62"), ("delete-records", "--before", "25"), ("retain",), ("roll",), ("compact",), ("append",),
    ("append", "--quarantine", "kept"), ("recover",), ("recover", "--full"),
]  # fmt: skip


@pytest.mark.parametrize("words", TOO_LARGE, ids=" ".join)
def test_a_log_with_too_large_a_segment_is_left_with_its_marker(partition, tmp_path, words):
    os.truncate(log(partition, 83), SIZE)
    words = [str(tmp_path / word) if word == "kept" else word for word in words]
    refused(8, *words, partition, name="segment-too-large")


@pytest.mark.parametrize("words", [(), ("--full",), ("--clean-start",), ("--salvage",)], ids=" ".join)
def test_recover_of_a_log_dir_that_refuses_every_log_changes_nothing(partition, words):
    for other in partition.parent.glob("*-[0-9]"):
        if other != partition:
            shutil.rmtree(other)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"):
        (partition.parent / name).write_text("0\n1\nsmall_segments 0 89\n" if name[:3] != "log" else "0\n0\n")
    aside = log(partition, 22)
    aside.unlink()
    aside.symlink_to("/of/a/disk/that/is/not/mounted")
    refused(8, "recover", *words, partition.parent, name="perhaps a disk is not mounted")


def test_recover_that_refuses_one_log_and_finds_the_others_sound_leaves_the_marker(partition):
    os.truncate(log(partition, 83), SIZE)
    refused(8, "recover", partition.parent, name="segment-too-large")


def test_recover_that_refuses_a_start_beyond_the_end_leaves_the_marker(partition):
    (partition.parent / "log-start-offset-checkpoint").write_text("0\n1\nsmall_segments 0 90\n")
    refused(4, "recover", partition, name="start-beyond-end")


def unreadable_start(partition):
    """A directory in the place of a checkpoint of the log dir."""
    path = partition.parent / "log-start-offset-checkpoint"
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("words", [
    ("truncate", "--to", "62"), ("delete-records", "--before", "25"), ("retain",), ("roll",), ("append",), ("recover",),
    ("compact", "--config", "cleanup.policy=compact", "--force"),
], ids=" ".join)  # fmt: skip
def test_what_fails_before_the_first_change_leaves_the_marker(partition, words):
    unreadable_start(partition)
    refused(8, *words, partition, name="a directory, not a file")


def test_an_append_that_is_refused_leaves_the_marker(partition):
    other = partition.parent / "multi-1"
    (other / "leader-epoch-checkpoint").write_text("0\n1\n5 0\n")
    refused(2, "append", "--leader-epoch", "1", other, name="usage")


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
@pytest.mark.parametrize("words", [*DELETING, ("roll",), ("append",), ("compact", "--force")], ids=" ".join)
def test_a_malformed_checkpoint_is_not_written_again_without_the_lines_of_others(partition, name, words):
    (partition.parent / name).write_bytes(b"0\n2\nsmall_segments 0 80\nother 3 1\xff\n")
    said = refused(4, *words, partition, name=name)
    assert f"kafkalog recover {partition.parent}" in said


REFUSED = [
    (2, "usage", ("append", "--leader-epoch", "1")), (2, "usage", ("append", "--magic", "0")),
    (2, "holds ", ("append", "--topic-id", "Ssx5VgobQZyBz3LWRQ0uyQ")),
    (2, "usage", ("append", "--leader-epoch", "1", "--quarantine", "kept")),
    (4, None, ("truncate", "--to", "-1")), (4, None, ("truncate", "--to", "-1", "--no-quarantine")),
    (4, None, ("delete-records", "--before", "99")), (4, None, ("delete-records", "--before", "99", "--no-quarantine")),
    (4, None, ("compact", "--force", "--config", "cleanup.policy=delete")),
]  # fmt: skip


@pytest.mark.parametrize("opening", ["sound", "with a leftover", "without an index", "after a crash"])
@pytest.mark.parametrize(("status", "name", "words"), REFUSED, ids=[" ".join(words) for *_, words in REFUSED])
def test_what_is_refused_for_its_arguments_leaves_what_opening_the_log_would_change(partition, tmp_path, opening, status, name, words):
    """Opening this log removes an outdated snapshot, at least."""
    if opening == "with a leftover":
        (partition / "00000000000000000000.index.deleted").write_bytes(bytes(8))
    if opening == "without an index":
        (partition / "00000000000000000042.index").unlink()
    if opening == "after a crash":
        (partition.parent / ".kafka_cleanshutdown").unlink()
    words = [str(tmp_path / word) if word == "kept" else word for word in words]
    said = refused(status, *words, partition, name=name or "")
    assert name is not None or not said
    assert not list(tmp_path.glob("*kept*"))
    assert not list(tmp_path.glob("d1.quarantine*"))


UNKEPT = [("roll",), ("retain",), ("compact", "--force", "--config", "cleanup.policy=compact"), ("append",),
          ("truncate", "--to", "80", "--no-quarantine"), ("delete-records", "--before", "70", "--no-quarantine")]


def with_later_start(partition):
    """The first two segments were deleted: producers of them are in snapshots only."""
    for path in [*partition.glob("000*000.*"), *partition.glob("000*022.*")]:
        path.unlink()


@pytest.mark.parametrize("words", UNKEPT, ids=" ".join)
def test_an_epoch_file_that_no_broker_can_read_is_not_replaced_where_nothing_keeps_it(partition, words):
    with (partition / "leader-epoch-checkpoint").open("a") as file:
        file.write("junk\n")
    said = refused(4, *words, partition, name="log-damaged")
    assert f"kafkalog recover {partition}" in said


@pytest.mark.parametrize("words", UNKEPT, ids=" ".join)
def test_producers_that_only_corrupt_snapshots_have_are_not_forgotten(partition, words):
    with_later_start(partition)
    for path in partition.glob("*.snapshot"):
        data = bytearray(path.read_bytes())
        data[7] ^= 1
        path.write_bytes(data)
    said = refused(4, *words, partition, name="log-damaged")
    assert "would delete the only copy: " in said
    assert ".snapshot - " in said


def test_a_corrupt_snapshot_after_a_sound_one_is_a_cache(partition):
    with_later_start(partition)
    newest = max(partition.glob("*.snapshot"))
    newest.write_bytes(newest.read_bytes()[:-1] + b"\x77")
    done = kafkalog("roll", "--now", NOW, str(partition))
    assert done.status in (0, 1), done.err
    assert f"removed {newest.name} - Snapshot " in done.out.decode()


def test_the_quarantine_keeps_what_opening_the_log_replaces(partition):
    path = partition / "leader-epoch-checkpoint"
    path.write_text(path.read_text() + "junk\n")
    before = state(partition)
    done = kafkalog("truncate", "--now", NOW, "--to", "62", str(partition))
    assert done.status in (0, 1), done.err
    [kept] = partition.parent.parent.glob("d1.quarantine*")
    assert kafkalog("restore", str(kept)).status == 0
    assert state(partition) == before


@pytest.mark.parametrize("marker", [True, False])
@pytest.mark.parametrize("options", [(), ("--full",), ("--salvage",)], ids=" ".join)
@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_recover_of_a_partition_reports_a_malformed_checkpoint_and_leaves_the_lines_of_others(partition, name, options, marker):
    path = partition.parent / name
    path.write_bytes(b"0\n3\nsmall_segments 0 80\nmulti 1 1\nother 3 1\xff\n")
    if not marker:
        (partition.parent / ".kafka_cleanshutdown").unlink()
    before = state(partition)
    done = kafkalog("recover", "--now", NOW, *options, str(partition))
    assert done.status == 4
    assert f"kept {name} - line 5: malformed" in done.out.decode()
    assert f"kafkalog recover {partition.parent} repairs it" in done.out.decode()
    of_log_dir = {path: what for path, what in before.items() if path.parent != partition}
    assert of_log_dir == {path: what for path, what in state(partition).items() if path.parent != partition}


def test_recover_of_the_log_dir_keeps_the_lines_that_can_be_read_and_the_old_file(partition):
    path = partition.parent / "log-start-offset-checkpoint"
    path.write_bytes(old := b"0\n3\nsmall_segments 0 45\nmulti 1 1\nother 3 1\xff\n")
    done = kafkalog("recover", "--now", NOW, str(partition.parent))
    assert done.status == 1, done.err
    assert path.read_text() == "0\n2\nsmall_segments 0 45\nmulti 1 1\n"
    [kept] = partition.parent.parent.glob("d1.quarantine*")
    assert old in [one.read_bytes() for one in (kept / "files").iterdir()]
