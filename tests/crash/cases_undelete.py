"""Put deleted partitions and segments back: the deleted files are only read, and a log is complete or as before."""

from __future__ import annotations

import os

from engine.config.server import Settings
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.log_manager import LogManager
from engine.log.logdir.startup import survey
from engine.log.operations.copy_out import copy_out
from engine.log.operations.deleted import find_deleted
from engine.log.operations.undelete import Undelete, UndeleteOptions
from engine.log.session import OpenOptions, session
from tests.crash.cases_manager import MARKER, SETTINGS, STARTS, broker_sees, log_dir
from tests.crash.partitions import NOW, TOPIC, batches_of, closed, name, plain, raw, segments
from tests.crash.sweep import Case
from tests.support.crash_files import CrashFiles
from tests.support.disk_model import Disk

NEW_ID = "kNkHUxdIQpGBDuRaSTBRqg"
GONE = "d/t-0.0123456789abcdef0123456789abcdef-delete"
FULL = os.environ.get("KAFKALOG_CRASH") == "full"
BASES = [base for base, _ in segments()]
DELETED = [(0, [plain(0, epoch=1), plain(3, epoch=1)]), (6, [plain(6, epoch=2)])]


def undelete(files, **options):
    """Run the operation on the log dir; raise what a report says failed."""
    opening = OpenOptions(settings=Settings(overrides=tuple(SETTINGS.items())), now=NOW)
    with session(files, find_log_dirs(files, ["/d"]), opening) as logs:
        for report in logs.run(Undelete(UndeleteOptions(**options)).work):
            if report.failure is not None:
                raise report.failure


def logs_in(disk, directory):
    """Return the .log files that are not empty, by name."""
    return {path: data for path, data in disk.below(directory).items() if path.endswith(".log") and data}


def deleted_topic():
    """Return a broker's log dir in which a topic was deleted and created again: the new partition is empty.

    The checkpoint already has the recovery point of the old log, so it stays as it is.
    """
    old = closed(DELETED)
    contents = {path.replace(TOPIC, GONE, 1): data for path, data in old.contents.items()}
    contents[f"{GONE}/partition.metadata"] = b"version: 0\ntopic_id: Ssx5VgobQZyBz3LWRQ0uyQ"
    new = log_dir(raw([(0, [])]))
    contents |= {path: data for path, data in new.contents.items() if not path.startswith(TOPIC)}
    contents |= {name(0, suffix): b"" for suffix in (".log", ".index", ".timeindex")}
    contents[f"{TOPIC}/partition.metadata"] = f"version: 0\ntopic_id: {NEW_ID}".encode()
    contents[STARTS.replace("log-start", "recovery-point")] = b"0\n1\nt 0 9\n"
    return Disk(contents, frozenset({"d", TOPIC, GONE}))


def new_topic_case():
    """At any time the partition is empty, missing or complete, and a second run completes it.

    Outside of `make crash`, one second run for each set of names that the first has left: it does not read the files.
    """
    disk = deleted_topic()
    tried = set()

    def work(files, _acknowledge):
        undelete(files, topic_id=NEW_ID)

    whole = CrashFiles(disk)
    work(whole, None)
    wanted = broker_sees(whole.disk())
    assert sorted(wanted.batches) == sorted(batches_of(DELETED))
    assert wanted.epochs == [(0, 0)]

    def check(after, _acknowledged, done):
        assert after.below(GONE) == disk.below(GONE)
        assert after.contents[MARKER] == disk.contents[MARKER]
        if done or logs_in(after, TOPIC):
            assert broker_sees(after) == wanted
            return
        names = frozenset(after.contents) | after.directories
        if names in tried and not FULL:
            return
        tried.add(names)
        again = CrashFiles(after)
        work(again, None)
        assert broker_sees(again.disk()) == wanted

    return Case("undelete-topic", disk, work, check)


def deleted_segments_case():
    """At any time the log is complete from one of the base offsets on."""
    disk = log_dir(closed(segments()))
    whole = broker_sees(disk)
    leaving = [path for path in disk.contents if any(path.startswith(f"{TOPIC}/{base:020}.") for base in BASES[:2])
               and path.endswith((".log", "index"))]  # fmt: skip
    contents = {path + ".deleted" if path in leaving else path: data for path, data in disk.contents.items()}
    contents[STARTS] = f"0\n1\nt 0 {BASES[2]}\n".encode()
    contents[f"{TOPIC}/leader-epoch-checkpoint"] = f"0\n2\n1 {BASES[2]}\n3 24\n".encode()
    disk = disk._replace(contents=contents)
    before = broker_sees(disk)

    def work(files, _acknowledge):
        undelete(files)

    def check(after, _acknowledged, done):
        seen = broker_sees(after)
        assert before.batches.items() <= seen.batches.items() <= whole.batches.items()
        assert sorted(seen.batches) == [base for base in sorted(whole.batches) if base >= min(seen.batches)]
        if done:
            assert (seen.batches, seen.start, seen.epochs) == (whole.batches, whole.start, whole.epochs)

    return Case("undelete-segments", disk, work, check)


def copy_case(case_name, *, is_damaged):
    """Copy a deleted partition: the copy gets its name when it is complete."""
    disk = deleted_topic()
    if is_damaged:
        log = f"{GONE}/{6:020}.log"
        contents = disk.contents | {log: disk.contents[log][:-5] + b"never"}
        del contents[f"{GONE}/partition.metadata"]  # writing it would sync the names of the logs
        disk = Disk(contents, disk.directories)
    logs = {path.rpartition("/")[2]: data for path, data in logs_in(disk, GONE).items()}

    def work(files, _acknowledge):
        log_dirs = find_log_dirs(files, ["/d"])
        manager = LogManager(lambda _log_dir: files, survey(files, log_dirs), Settings(overrides=tuple(SETTINGS.items())), NOW)
        found = list(find_deleted(files, manager.cluster, manager.settings.server, _raise))
        for report in copy_out(files, manager, found, "/safe"):
            if report.failure is not None:
                raise report.failure

    def check(after, _acknowledged, done):
        assert after.below("d") == disk.below("d")
        if done or "safe/t-0" in after.directories:
            assert {path.rpartition("/")[2]: data for path, data in logs_in(after, "safe/t-0").items()} == logs
            assert is_damaged or f"safe/t-0/{6:020}.index" in after.contents
            assert is_damaged or "safe/t-0/partition.metadata" in after.contents

    return Case(case_name, disk, work, check)


def _raise(error):
    raise error


CASES_UNDELETE = [
    new_topic_case(),
    deleted_segments_case(),
    copy_case("undelete-copy", is_damaged=False),
    copy_case("undelete-copy-damaged", is_damaged=True),
]
