"""Every sync of stores and of restored files: without any one of them, a power cut must break the work."""

from __future__ import annotations

import errno
import os
from struct import pack

import pytest

from engine.checkpoint.checkpoints import encode_leader_epochs, parse_leader_epochs
from engine.config.server import Settings
from engine.discovery.names import file_name
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.report import Report
from engine.log.session import OpenOptions, session
from engine.record.builder import NewRecord, build_batch
from engine.remote.download import Download
from engine.remote.layouts import IndexKind
from engine.remote.local_layout import SUFFIXES, LocalLayout
from engine.remote.metadata_log import MetadataLogs
from engine.remote.orphans import KeptObjects, Orphan, Why, delete, put_back, read_kept
from engine.remote.partitions import TieredPartitions
from engine.remote.records import State
from engine.remote.restore import Placement, Restore, RestoreOptions
from engine.remote.storage import WritableFolderStore
from engine.remote.upload import Upload
from engine.schema.wire import encode_compact
from tests.crash.cases_manager import log_dir
from tests.crash.partitions import NOW, closed, name, plain, segments
from tests.crash.sweep import ELSEWHERE, ERRORS, Case, cuts, passes, problems, sync_sites
from tests.support.crash_files import CrashFiles
from tests.support.disk_model import Disk

FULL = os.environ.get("KAFKALOG_CRASH") == "full"
pytestmark = pytest.mark.crash
STORE, KEPT, DOWNLOADED = "/s/store", "/k/kept", "/o/whole"
PREFIX, TOPIC_ID = "p/", "Ssx5VgobQZyBz3LWRQ0uyQ"
METADATA = "d/__remote_log_metadata-0"
META_PROPERTIES = b"node.id=1\ndirectory.id=GwU-VCmqfoM16VN-PhPllg\nversion=1\ncluster.id=kafkalogCorpusSeed42AA\n"
COPIED = ((0, 12), (12, 23))  # offsets of segments in the store
OBJECTS = {"loose": b"f" * 700, "a/b/one": b"a" * 1300, "a/b/two": b"b" * 900, "a/c/three": b"c" * 40}

# which case notices a missing sync
NOTICES = {
    "engine/remote/download.py:_copy_file:0": "download",
    "engine/remote/download.py:run:0": "download",
    "engine/remote/download.py:run:1": "download",
    "engine/remote/orphans.py:_put:0": "delete",
    "engine/remote/orphans.py:begin:0": "delete",
    "engine/remote/orphans.py:keep:0": "delete",
    "engine/remote/orphans.py:keep:1": "delete",
    "engine/remote/restore.py:_write:0": "restore-again",
    "engine/remote/restore.py:metadata_log:0": "metadata-log",
    "engine/remote/restored_log.py:write_segment:0": "restore-full",
    "engine/remote/storage.py:delete:0": "delete",
    "engine/remote/storage.py:put:0": "upload",
    "engine/remote/storage.py:put:1": "upload",
}


@pytest.fixture(autouse=True)
def same_ids(monkeypatch):
    """Give new topics the same ids in every run, since the disks of runs are compared."""
    monkeypatch.setattr("engine.remote.restore.random_id", lambda: b"k" * 16)


def reported(finding):
    """Ignore damage in a log of the records: its reader truncates it."""
    del finding


def raised(reports):
    for one in reports:
        if one.failure is not None:
            raise one.failure


# ---- stores


def disk_of(objects, **more):
    return Disk({f"s/store/{key}": data for key, data in objects.items()} | more, frozenset({"s/store", "k", "o", "d"}))


def deleting():
    """Copy two orphans to a backup, then delete them."""
    disk = disk_of(OBJECTS)
    wanted = ("a/b/one", "a/b/two", "loose")

    def work(files, _):
        store, kept = WritableFolderStore(files, STORE), KeptObjects(files, KEPT)
        orphans = [Orphan(Why.DELETED, None, None, None, (store.find(key),)) for key in wanted]
        kept.begin(store, NOW)
        list(delete(store, orphans, kept))

    def check(disk, _, done):
        files = CrashFiles(disk)
        gone = OBJECTS.keys() - disk.below(STORE).keys()
        assert not done or gone == set(wanted)
        for one in read_kept(files, KEPT)[1] if gone else ():
            put_back(files, WritableFolderStore(files, STORE), one, dry_run=False)
        assert files.disk().below(STORE) == OBJECTS

    return Case("delete", disk, work, check)


def putting():
    """Put objects into existing folders, into new ones, and at the top."""

    def work(files, acknowledge):
        store = WritableFolderStore(files, STORE)
        for number, (key, data) in enumerate(OBJECTS.items(), 1):
            store.put(key, len(data), (data[:100], data[100:]))
            acknowledge(number)

    def check(disk, acknowledged, _done):
        found = {key: data for key, data in disk.below(STORE).items() if not key.endswith(".tmp")}
        assert found.items() <= OBJECTS.items()
        assert set(list(OBJECTS)[: acknowledged or 0]) <= found.keys()

    return Case("put", disk_of({}), work, check)


# ---- segments


def stored():
    """Return the objects of two segments."""
    files = closed(segments()).contents
    epochs = parse_leader_epochs(files[name(0)[: -len(file_name(name(0)))] + "leader-epoch-checkpoint"], "")
    names = {None: ".log", IndexKind.OFFSET: ".index", IndexKind.TIMESTAMP: ".timeindex", IndexKind.TRANSACTION: ".txnindex"}
    objects = {}
    for number, (base, following) in enumerate(COPIED):
        stem = f"{PREFIX}t-0-{TOPIC_ID}/{base:020}-AAAAAAAAAAAAAAAAAAAA{number}A"
        parts = {kind: files[name(base, suffix)] for kind, suffix in names.items() if name(base, suffix) in files}
        parts[IndexKind.PRODUCER_SNAPSHOT] = files[name(following, ".snapshot")]
        parts[IndexKind.LEADER_EPOCH] = encode_leader_epochs([one for one in epochs if one.start_offset < following])
        objects |= {f"{stem}.{SUFFIXES[kind]}": data for kind, data in parts.items()}
    return objects


def formatted():
    """Return a store, and the log dir of a cluster that has not started yet."""
    level = b"\1\x0c\0" + encode_compact(b"metadata.version") + pack(">h", 27) + b"\0"
    more = {"d/meta.properties": META_PROPERTIES, "d/bootstrap.checkpoint": build_batch([NewRecord(0, NOW, None, level)])}
    return disk_of(stored(), **more)


EMPTY_METADATA = {
    **{f"{METADATA}/{0:020}{suffix}": b"" for suffix in (".log", ".index", ".timeindex")},
    f"{METADATA}/partition.metadata": b"version: 0\ntopic_id: a2tra2tra2tra2tra2traw",
}


def in_log_dir(files, work, **settings):
    """Do the work in a session, as a command does."""
    options = OpenOptions(now=NOW, settings=Settings(overrides=tuple(settings.items())))
    with session(files, find_log_dirs(files, ["/d"]), options) as opened:
        raised(list(opened.run(work)))


def restore_into(files, *, whole=False):
    layout = LocalLayout(WritableFolderStore(files, STORE), PREFIX)
    in_log_dir(files, Restore(RestoreOptions(topics=("t",), metadata_count=1, whole=whole), layout, reported).work)


def after(disk, work):
    files = CrashFiles(disk)
    work(files)
    return files.disk()


def of_a_lost_partition():
    """Return the same log dir with checkpoint entries of a lost partition, and with a log for its records."""
    disk, checkpoints = formatted(), {}
    for path, data in after(disk, restore_into).contents.items():
        line = next((line for line in data.splitlines() if line.startswith(b"t 0 ")), None)
        if line is not None and path.endswith("-checkpoint"):
            checkpoints[path] = b"0\n1\n%s\n" % line
    assert len(checkpoints) == 3
    return disk._replace(contents=disk.contents | checkpoints | EMPTY_METADATA)


def known_in(files):
    """Return the segments in the records."""
    partition = MetadataLogs(files, ["/d"], reported, is_needed=False).read().find(TOPIC_ID, 0)
    return list(partition.segments()) if partition else []


def finished(files):
    """Return (first offset, segment) of those that brokers consider as copied."""
    return [(one.start_offset, one) for one in known_in(files) if one.state is State.COPY_SEGMENT_FINISHED]


def restoring(case_name, before, *, whole=False):
    """The partition must be on disk before its records, and these before its topic; a second run completes the work."""
    wanted = after(before, lambda files: restore_into(files, whole=whole))

    def work(files, _):
        restore_into(files, whole=whole)

    def check(disk, _, done):
        contents = disk.contents
        if "d/t-0/partition.metadata" in contents:
            assert {one: data for one, data in disk.below("d/t-0").items() if not one.endswith(".tmp")} == wanted.below("d/t-0")
        for one, data in disk.below("d/t-0").items():
            assert not one.endswith(".log") or data == wanted.below("d/t-0")[one]
        has_topic = contents["d/bootstrap.checkpoint"] == wanted.contents["d/bootstrap.checkpoint"]
        assert not done or has_topic
        files = CrashFiles(disk)
        known = [first for first, _ in finished(files)]
        if known:
            assert "d/t-0/partition.metadata" in contents
        if has_topic:
            assert known == [0, 12]
            assert f"{METADATA}/partition.metadata" in contents
        restore_into(files, whole=whole)
        again = files.disk().contents
        assert [first for first, _ in finished(files)] == [0, 12]
        for path in ("d/t-0/partition.metadata", f"{METADATA}/partition.metadata", "d/bootstrap.checkpoint"):
            assert again[path] == wanted.contents[path]

    return Case(case_name, before, work, check)


def making_a_metadata_log():
    """Make a log for the records, whatever state an earlier run left."""
    topic_id = EMPTY_METADATA[f"{METADATA}/partition.metadata"]

    def work(files, acknowledge):
        def make(opened):
            target = opened.log_dirs[0]
            acknowledge(Placement(opened.manager, opened.manager.cluster, target, 1).metadata_log(0))
            yield from ()

        in_log_dir(files, make)

    def check(disk, acknowledged, _done):
        assert acknowledged is None or disk.contents[f"{METADATA}/partition.metadata"] == topic_id
        if acknowledged is None:
            work(CrashFiles(disk), lambda _: None)

    return Case("metadata-log", formatted(), work, check)


def downloading():
    """Download remote segments and local ones. No incomplete log may exist."""
    disk = after(formatted(), restore_into)
    disk = disk._replace(contents=disk.contents | {name(23): plain(23, epoch=1)})

    def work(files, _):
        settings = Settings(overrides=(("remote.storage.enable", "true"),))
        partitions = TieredPartitions(files, ["/d"], settings, (), reported)
        download = Download(files, LocalLayout(WritableFolderStore(files, STORE), PREFIX), DOWNLOADED)
        for directory in partitions.directories.values():
            with partitions.open(directory) as log:
                download.run(log, Report(directory, "remote download"))

    wanted = after(disk, lambda files: work(files, None)).below(DOWNLOADED)
    assert len([one for one in wanted if one.endswith(".log")]) == 3

    def check(disk, _, done):
        there = disk.below(DOWNLOADED)
        for one, data in there.items():
            assert one.endswith(".tmp") or data == wanted[one]
        assert not done or there == wanted
        assert wanted.items() <= after(disk, lambda files: work(files, None)).below(DOWNLOADED).items()

    return Case("download", disk, work, check)


def uploading():
    """Segments that the records report as copied are in the store, and the records have all segments of the store."""
    contents = log_dir(closed(segments())).contents | EMPTY_METADATA
    disk = disk_of({}, **contents)
    logs = {base: b"".join(batches) for base, batches in segments()[:-1]}

    def work(files, _):
        store = WritableFolderStore(files, STORE)
        upload = Upload(store, LocalLayout(store, PREFIX), (), reported, dry_run=False)
        in_log_dir(files, upload.work, **{"remote.storage.enable": "true"})

    def check(disk, _, done):
        found = finished(CrashFiles(disk))
        assert not done or [first for first, _ in found] == list(logs)
        names = [one.name for one in known_in(CrashFiles(disk))]
        for key in disk.below(STORE):
            assert any(one in key for one in names)
        for first, segment in found:
            stem = f"{PREFIX}t-0-{TOPIC_ID}/{first:020}-{segment.name}"
            there = {key: data for key, data in disk.below(STORE).items() if key.startswith(stem)}
            assert there[f"{stem}.log"] == logs[first]
            assert {f"{stem}.{part}" for part in LocalLayout.last_parts} <= there.keys()
            assert there[f"{stem}.snapshot"] == contents[name(segment.end_offset + 1, ".snapshot")]

    return Case("upload", disk, work, check)


MAKERS = {
    "delete": deleting, "put": putting, "upload": uploading, "download": downloading,
    "restore": lambda: restoring("restore", formatted()), "restore-again": lambda: restoring("restore-again", of_a_lost_partition()),
    "restore-full": lambda: restoring("restore-full", formatted(), whole=True), "metadata-log": making_a_metadata_log,
}  # fmt: skip
SITES = {str(site): site for site in sync_sites([ELSEWHERE])}


def test_every_sync_is_known():
    """A renamed or new function with a sync must be added to the table above, otherwise it is not tested."""
    assert sorted(NOTICES) == sorted(SITES)


@pytest.mark.parametrize("case_name", MAKERS)
def test_no_power_cut_loses_anything(case_name):
    case = MAKERS[case_name]()
    assert case.name == case_name
    assert cuts(case, drawn=20 if FULL else 2, step=1 if FULL else 2) == []


@pytest.mark.parametrize("case_name", MAKERS)
@pytest.mark.parametrize("error", ERRORS if FULL else ERRORS[:1], ids=errno.errorcode.get)
def test_every_failure_is_reported_and_loses_nothing(case_name, error):
    assert problems(MAKERS[case_name](), error, step=1 if FULL else 23) == []


@pytest.mark.parametrize("site", sorted(NOTICES))
def test_a_missing_sync_is_noticed(site):
    case = MAKERS[NOTICES[site]]()
    assert passes(case, SITES[site]), "the work does not come by here"
    assert any(cuts(case, left_out=SITES[site], drawn=drawn, only_first=True) for drawn in (0, 20))
