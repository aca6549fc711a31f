"""kafkalog retain: --free plans an emergency and spares what must not go, deleted directories go."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import ExitStack

import pytest

from engine.amounts import exact_size
from engine.files import DiskSpace, ReadOnlyFiles
from tests.support.file_work import tree
from tests.support.full_disk import full_disk
from tests.support.permissions import without_permission
from tests.support.run import as_planned, kafkalog

NOW = 1_764_000_000_000
DAY = 86_400_000
ROOM = 100_000  # bytes that are free


@pytest.fixture(autouse=True)
def _exact_sizes(monkeypatch):
    for command in ("RETAIN", "RECOVER"):
        monkeypatch.setenv(f"KAFKALOG_{command}_BYTES", "1")


DELETE = ("--config", "cleanup.policy=delete")


@pytest.fixture
def log_dir(tmp_path):
    (tmp_path / "d0").mkdir()
    return tmp_path / "d0"


@pytest.fixture
def disk(log_dir):
    """Call it when everything is there: from then on the disk has ROOM bytes more, and tells so."""
    with ExitStack() as stack:
        yield lambda room=ROOM: stack.enter_context(full_disk(log_dir.parent, room))


def append(log_dir, partition, stamps, *, size=1000):
    """A segment for each of `stamps`, one record each."""
    records = log_dir.parent / "records.jsonl"
    records.write_text("".join(json.dumps({"value": "x" * size, "timestamp": stamp}) + "\n" for stamp in stamps))
    done = kafkalog("append", "--create", "--clean-start", "--now", str(NOW), "--input", str(records), "--batch-size", "1",
                    "--config", f"segment.bytes={size + 100}", "--config", "message.timestamp.after.max.ms=9223372036854775807",
                    str(log_dir / partition))
    assert done.status == 0, done.err


def test_free_takes_left_overs_first_then_the_oldest_segments_of_all(log_dir, disk):
    append(log_dir, "a-0", [NOW - 9 * DAY, NOW - 3 * DAY, NOW])
    append(log_dir, "b-0", [NOW - 5 * DAY, NOW - 4 * DAY, NOW])
    append(log_dir, "__internal-0", [NOW - 20 * DAY, NOW])
    append(log_dir, "metadata-0", [NOW - 20 * DAY, NOW])
    (log_dir / "metadata-0").rename(log_dir / "__cluster_metadata-0")
    (log_dir / f"gone-0.{'1' * 32}-delete").mkdir()
    (log_dir / f"gone-0.{'1' * 32}-delete" / "00000000000000000000.log").write_bytes(bytes(700))
    (log_dir / "a-0/00000000000000000099.log.deleted").write_bytes(bytes(300))
    (log_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    before = tree(ReadOnlyFiles(), str(log_dir))
    arguments = ("retain", "--clean-start", "--now", str(NOW), *DELETE, "--free", str(ROOM + 4000), str(log_dir))
    disk()
    assert kafkalog(*arguments, "--dry-run").status == 1
    assert tree(ReadOnlyFiles(), str(log_dir)) == before
    done = kafkalog(*arguments)
    assert done.status == 1
    left = {name for name in tree(ReadOnlyFiles(), str(log_dir)) if name.endswith((".log", ".deleted"))}
    assert left == {
        "a-0/00000000000000000001.log", "a-0/00000000000000000002.log", "b-0/00000000000000000002.log",
        "__internal-0/00000000000000000000.log", "__internal-0/00000000000000000001.log",
        "__cluster_metadata-0/00000000000000000000.log", "__cluster_metadata-0/00000000000000000001.log",
    }  # fmt: skip
    short = kafkalog(*arguments[:-2], "1000000", "--as-much-as-possible", str(log_dir))
    assert short.status == 4
    assert f"{exact_size(1000000)} were requested, " in short.out.decode()


def summary(wanted, freed, before=ROOM):
    amounts = f"{exact_size(wanted)} were requested, {exact_size(before + freed)} are free: {exact_size(before)} before and "
    return f"{amounts}{exact_size(freed)} freed now; "


def held(log_dir):
    return sum(path.stat().st_size for path in log_dir.rglob("*") if path.is_file() and not path.name.startswith("."))


def test_what_became_free_is_said_as_it_is(log_dir, disk):
    append(log_dir, "a-0", [NOW - 9 * DAY, NOW - 3 * DAY, NOW])
    before = held(log_dir)
    arguments = ("retain", "--clean-start", "--now", str(NOW), *DELETE, "--free", "1000000", "--as-much-as-possible", str(log_dir))
    disk()
    planned = kafkalog(*arguments, "--dry-run")
    assert held(log_dir) == before
    done = kafkalog(*arguments)
    assert (done.status, planned.status) == (4, 4)
    freed = before - held(log_dir)
    assert freed > 2000
    lines = done.out.decode().splitlines()
    assert summary(1000000, freed) in lines[-2]
    assert " freed now; 2 segments of 1 partition and " in lines[-2]
    assert "nothing else can be deleted" in lines[-2]
    assert lines[-1].endswith("done in part")
    assert planned.out.decode().splitlines()[-3:-1] == as_planned("\n".join(lines[-2:]))


@pytest.mark.parametrize("also", [(), ("--dry-run",)])
@pytest.mark.parametrize("hindrance", ["too much", "high watermark", "compacted", "one of two disks"])
def test_what_can_not_be_reached_is_refused_before_anything_is_deleted(hindrance, also, log_dir, disk, monkeypatch):
    append(log_dir, "a-0", [NOW - 9 * DAY, NOW - 3 * DAY, NOW])
    (log_dir / "a-0/00000000000000000099.log.deleted").write_bytes(bytes(300))
    (log_dir / f"gone-0.{'1' * 32}-delete").mkdir()
    (log_dir / f"gone-0.{'1' * 32}-delete" / "00000000000000000000.log").write_bytes(bytes(700))
    wanted, words, named = ROOM + 3000, [], [str(log_dir)]
    if hindrance == "too much":
        wanted = 1 << 40
    elif hindrance == "high watermark":
        words = ["--high-watermark", "1"]
    elif hindrance == "compacted":
        words = ["--config", "cleanup.policy=compact"]
    else:
        (log_dir.parent / "d1").mkdir()
        append(log_dir.parent / "d1", "b-0", [NOW])
        named.append(str(log_dir.parent / "d1"))
        monkeypatch.setattr(ReadOnlyFiles, "space", lambda _self, path: DiskSpace(*((1, ROOM) if path == named[0] else (2, ROOM))))
    if len(named) == 1:
        disk()
    before = tree(ReadOnlyFiles(), str(log_dir))
    call = ("retain", "--clean-start", "--now", str(NOW), *DELETE, "--free", str(wanted), *words, *named)
    done = kafkalog(*call, *also)
    assert done.status == 4
    assert f"{exact_size(wanted)} were requested: {exact_size(ROOM)} are free, and at most " in done.out.decode()
    assert "Nothing was deleted; --as-much-as-possible deletes as much as allowed" in done.out.decode()
    assert tree(ReadOnlyFiles(), str(log_dir)) == before
    done = kafkalog(*call, "--as-much-as-possible")
    assert done.status == 4
    assert not (log_dir / "a-0/00000000000000000099.log.deleted").exists()


def test_what_is_promised_becomes_free(log_dir, disk):
    """To the byte: with one more it is refused."""
    append(log_dir, "a-0", [NOW - 9 * DAY, NOW - 3 * DAY, NOW])
    before = held(log_dir)
    disk()
    words = ("retain", "--clean-start", "--now", str(NOW), *DELETE, "--free")
    refused = kafkalog(*words, str(1 << 40), str(log_dir)).out.decode()
    possible = int(refused.split(" bytes) more can be freed;")[0].rpartition("(")[2])
    assert kafkalog(*words, str(ROOM + possible + 1), str(log_dir)).status == 4
    assert held(log_dir) == before
    done = kafkalog(*words, str(ROOM + possible), str(log_dir))
    assert done.status in (0, 1), done.out
    assert before - held(log_dir) >= possible


def test_what_stays_as_deleted_is_not_free(log_dir, disk):
    append(log_dir, "a-0", [NOW - 9 * DAY, NOW - 3 * DAY, NOW])
    disk()
    arguments = ("retain", "--clean-start", "--now", str(NOW), *DELETE, "--free", str(ROOM + 1500), str(log_dir))
    before = tree(ReadOnlyFiles(), str(log_dir))
    done = kafkalog(*arguments, "--keep-deleted")
    assert done.status == 4
    assert "--keep-deleted keeps what is deleted" in done.out.decode()
    assert tree(ReadOnlyFiles(), str(log_dir)) == before
    done = kafkalog(*arguments, "--keep-deleted", "--as-much-as-possible")
    assert done.status == 4
    assert summary(ROOM + 1500, 0) in done.out.decode()
    done = kafkalog(*arguments)
    assert done.status in (0, 1)
    assert f"{exact_size(ROOM + 1500)} were requested, " in done.out.decode()
    assert "; 0 segments of 0 partitions and " in done.out.decode()


def test_directories_of_deleted_topics_go_unless_they_are_kept(own_corpus, tmp_path):
    top = tmp_path / "d0"
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d0", top)
    doomed = next(top.glob("doomed-0.*-delete"))
    assert kafkalog("retain", "--keep-deleted", "--now", str(NOW), str(top)).status in (0, 1)
    assert doomed.exists()
    kafkalog("retain", "--now", str(NOW), str(top))
    assert not doomed.exists()


@pytest.mark.parametrize("free", [(), (*DELETE, "--free", str(ROOM + 3000), "--as-much-as-possible")])
def test_whatever_lies_in_a_deleted_directory_goes_and_nothing_outside(log_dir, disk, free):
    append(log_dir, "a-0", [NOW - 9 * DAY, NOW])
    gone = log_dir / f"gone-0.{'1' * 32}-delete"
    (gone / ".kafkalog-other/deep").mkdir(parents=True)
    (gone / ".kafkalog-other/deep/00000000000000000000.log").write_bytes(bytes(700))
    (log_dir.parent / "outside").mkdir()
    (log_dir.parent / "outside/kept").write_bytes(b"kept")
    (gone / "link").symlink_to(log_dir.parent / "outside")
    (gone / "nowhere").symlink_to("nowhere")
    os.mkfifo(gone / "pipe")
    disk()
    arguments = ("retain", "--clean-start", "--now", str(NOW), "--config", f"retention.ms={DAY}", *free, str(log_dir))
    planned, done = kafkalog(*arguments, "--dry-run"), kafkalog(*arguments)
    assert planned.status == done.status == (4 if free else 0), done.err
    for shown, verb in ((planned, "would remove"), (done, "removed")):
        assert f"  {verb} {gone.name} (700 bytes) - its topic or replica was deleted" in shown.out.decode()
        assert "a-0: offset 1 in" in shown.out.decode()
    assert not gone.exists()
    assert (log_dir.parent / "outside/kept").read_bytes() == b"kept"


@pytest.mark.parametrize("special", ["link", "dangling", "pipe", "directory"])
def test_a_quarantine_keeps_all_of_a_deleted_directory_or_the_directory_stays(log_dir, special):
    append(log_dir, "a-0", [NOW - 9 * DAY, NOW])
    gone, stays = (log_dir / f"{name}-0.{'1' * 32}-delete" for name in ("gone", "stays"))
    for directory in (gone, stays):
        (directory / "below").mkdir(parents=True)
        (directory / "00000000000000000000.log").write_bytes(bytes(700))
    (log_dir.parent / "target").mkdir()
    if special == "link":
        (stays / "below/link").symlink_to("../00000000000000000000.log")
    elif special == "dangling":
        (stays / "00000000000000000000.index").symlink_to("nowhere")
    elif special == "pipe":
        os.mkfifo(stays / "below/pipe")
    else:
        shutil.rmtree(stays)
        stays.symlink_to(log_dir.parent / "target")
    def looks():
        names = sorted(log_dir.rglob("*"))
        return {one: os.readlink(one) if one.is_symlink() else one.read_bytes() if one.is_file() else one.stat().st_mode
                for one in names}  # fmt: skip

    before = looks()
    kept = str(log_dir.parent / "kept")
    words = ("--clean-start", "--now", str(NOW), "--config", f"retention.ms={DAY}", "--quarantine", kept, str(log_dir))
    planned, done = kafkalog("retain", "--dry-run", *words), kafkalog("retain", *words)
    assert planned.status == done.status == 8
    assert f"removed {gone.name} (700 bytes)" in done.out.decode()
    assert "which a quarantine cannot keep: nothing was removed" in done.err
    assert stays.exists()
    assert kafkalog("restore", kept).status in (0, 1)
    assert looks() == before


@pytest.mark.parametrize("free", [(), (*DELETE, "--free", str(ROOM + 3000), "--as-much-as-possible")])
def test_a_deleted_directory_that_stays_does_not_end_it(log_dir, disk, free):
    append(log_dir, "a-0", [NOW - 9 * DAY, NOW])
    stays, goes = (log_dir / f"{name}-0.{'1' * 32}-delete" for name in ("first", "second"))
    for directory in (stays, goes):
        directory.mkdir()
        (directory / "00000000000000000000.log").write_bytes(bytes(700))
    disk()
    with without_permission(stays):
        done = kafkalog("retain", "--clean-start", "--now", str(NOW), "--config", f"retention.ms={DAY}", *free, str(log_dir))
    assert done.status == 8
    assert f"{stays}: Permission denied" in done.err
    assert f"removed {goes.name} (700 bytes)" in done.out.decode()
    assert "a-0: offset 1 in" in done.out.decode()
    assert (stays.exists(), goes.exists()) == (True, False)
    assert not free or f"{exact_size(ROOM + 3000)} were requested, " in done.out.decode()


def test_free_goes_on_behind_a_partition_that_can_not_be_read(log_dir, disk):
    append(log_dir, "a-0", [NOW - 9 * DAY, NOW])
    append(log_dir, "b-0", [NOW - 9 * DAY, NOW])
    disk()
    with without_permission(log_dir / "a-0"):  # its bytes are none to this disk
        done = kafkalog("retain", "--clean-start", "--now", str(NOW), *DELETE, "--free", str(ROOM + 9000), "--as-much-as-possible",
                        str(log_dir))
    assert done.status == 8
    assert f"{log_dir / 'a-0'}: Permission denied" in done.err
    assert "b-0: offset 1 in" in done.out.decode()
    assert "; a partition failed" in done.out.decode()


def test_where_enough_is_free_nothing_live_goes(log_dir, disk):
    append(log_dir, "a-0", [NOW - 9 * DAY, NOW - 3 * DAY, NOW])
    (log_dir / "a-0/00000000000000000099.log.deleted").write_bytes(bytes(300))
    logs = sorted(log_dir.rglob("*.log"))
    disk()
    arguments = ("retain", "--clean-start", "--now", str(NOW), *DELETE, "--free", str(ROOM + 1200), str(log_dir))
    assert kafkalog(*arguments).status in (0, 1)
    left = sorted(log_dir.rglob("*.log"))
    assert len(left) == len(logs) - 1
    for _ in range(2):
        done = kafkalog(*arguments)
        assert (done.status, sorted(log_dir.rglob("*.log"))) == (0, left)
    assert f"{exact_size(ROOM + 1200)} were requested, " in done.out.decode()


def test_left_overs_of_internal_and_compacted_topics_count(log_dir, disk):
    append(log_dir, "a-0", [NOW - 9 * DAY, NOW])
    append(log_dir, "__internal-0", [NOW - 9 * DAY, NOW])
    (log_dir / "__internal-0/00000000000000000099.log.deleted").write_bytes(bytes(2000))
    disk()
    done = kafkalog("retain", "--clean-start", "--now", str(NOW), *DELETE, "--free", str(ROOM + 2000), str(log_dir))
    assert done.status in (0, 1)
    assert len(list((log_dir / "a-0").glob("*.log"))) == len(list((log_dir / "__internal-0").glob("*.log"))) == 2
    assert "; 0 segments of 0 partitions and 2.0 KiB (2000 bytes) of leftover files were planned" in done.out.decode()


def test_each_disk_has_a_plan_of_its_own(log_dir, monkeypatch):
    other = log_dir.parent / "d1"
    for top in (log_dir, other):
        top.mkdir(exist_ok=True)
        append(top, "a-0" if top is log_dir else "b-0", [NOW - 9 * DAY, NOW - 8 * DAY, NOW])
    full = str(other)
    monkeypatch.setattr(ReadOnlyFiles, "space", lambda _self, path: DiskSpace(*((1, 0) if path == full else (2, 5000))))
    done = kafkalog("retain", "--clean-start", "--now", str(NOW), *DELETE, "--free", "1200", str(log_dir), str(other))
    out = done.out.decode()
    assert done.status in (0, 1), out
    assert [len(list(top.rglob("*.log"))) for top in (log_dir, other)] == [3, 1]
    assert summary(1200, 0, before=5000) in out
    assert f"{exact_size(1200)} were requested, " in out.replace(summary(1200, 0, before=5000), "")


@pytest.mark.parametrize("named", ["log dirs", "partitions", "a link"])
def test_log_dirs_on_one_disk_are_freed_together_and_once(log_dir, disk, named):
    """The oldest segments of all of them go, until so much is free: not so much in each."""
    other = log_dir.parent / "d1"
    other.mkdir()
    append(log_dir, "a-0", [NOW - 9 * DAY, NOW - 3 * DAY, NOW])
    append(other, "b-0", [NOW - 8 * DAY, NOW - 7 * DAY, NOW])
    append(other, "c-0", [NOW - 2 * DAY, NOW])
    (other / "c-0/00000000000000000077.log.deleted").write_bytes(bytes(300))
    paths = [log_dir, other]
    if named == "partitions":
        paths = [other / "b-0", log_dir / "a-0", other / "c-0", other / "b-0"]
    elif named == "a link":
        (log_dir.parent / "link").symlink_to(other)
        paths = [log_dir, log_dir.parent / "link", other]
    before = held(log_dir) + held(other)
    disk()
    words = ("retain", "--clean-start", "--now", str(NOW), *DELETE, "--free", str(ROOM + 2500), *map(str, paths))
    planned = kafkalog(*words, "--dry-run")
    done = kafkalog(*words)
    out = done.out.decode()
    assert done.status in (0, 1), out
    left = [path.name[18:20] + path.parent.name for top in (log_dir, other) for path in sorted(top.rglob("*.log*"))]
    assert left == ["01a-0", "02a-0", "02b-0", "00c-0", "01c-0"]
    freed = before - held(log_dir) - held(other)
    said = summary(ROOM + 2500, freed)
    assert [text.count(said + "3 segments of 2 partitions and 300 bytes of leftover files") for text in (out, planned.out.decode())] == [1, 1]


@pytest.mark.parametrize("start", [("--clean-start",), ()])
def test_a_disk_without_any_room_is_freed(log_dir, disk, start):
    """Opening the logs wants to write producer snapshots, which are gone; the first one has nothing to give."""
    append(log_dir, "a-0", [NOW])
    append(log_dir, "b-0", [NOW - 9 * DAY, NOW - 3 * DAY, NOW])
    (log_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    for name, topic_id in (("a-0", "Ssx5VgobQZyBz3LWRQ0uyQ"), ("b-0", "Ssx5VgobQZyBz3LWRQ0uyA")):
        (log_dir / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    for path in log_dir.rglob("*.snapshot"):
        path.unlink()
    disk(0)
    arguments = ("retain", *start, "--now", str(NOW), "--jobs", "1", *DELETE, "--free", "1200", str(log_dir))
    done = kafkalog(*arguments)
    assert done.status in (0, 1), done.out.decode() + done.err
    assert "before the log was opened, because the disk was full" in done.out.decode()
    assert not [path for path in log_dir.rglob("*.snapshot") if not path.stat().st_size]
    assert (log_dir / "a-0/00000000000000000000.log").exists()
    assert sorted(path.name[:20] for path in log_dir.glob("b-0/*.log")) == [f"{2:020}"]
    assert b"/b-0: sound (1 segment, 1 batch" in kafkalog("verify", str(log_dir)).out
    assert kafkalog("recover", "--dry-run", "--now", str(NOW), str(log_dir)).status == 0


def test_no_empty_snapshot_stays_on_a_full_disk(log_dir, disk):
    append(log_dir, "a-0", [NOW - 9 * DAY, NOW])
    for path in log_dir.rglob("*.snapshot"):
        path.unlink()
    disk(0)
    done = kafkalog("recover", "--no-quarantine", "--now", str(NOW), str(log_dir))
    assert (done.status, "No space left on device" in done.err) == (8, True)
    assert not list(log_dir.rglob("*.snapshot"))


def test_explain_changes_nothing(own_corpus, tmp_path):
    log_dir = tmp_path / "d1"
    shutil.copytree(own_corpus / "kafka-4.3.1" / "logs" / "clean" / "d1", log_dir)
    before = tree(ReadOnlyFiles(), str(log_dir))
    done = kafkalog("retain", "--explain", "--config", "retention.ms=1", str(log_dir))
    assert "would remove 00000000000000000000.log" in done.out.decode()
    assert tree(ReadOnlyFiles(), str(log_dir)) == before
