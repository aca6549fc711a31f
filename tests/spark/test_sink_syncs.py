"""Every sync of the sink: work that power cuts break where that one is missing, and none that is missing unnoticed."""

from __future__ import annotations

import os

import pytest

from engine.log.commits import staging as jobs
from tests.crash.sweep import OF_COMMITS, Case, cuts, passes, sync_sites
from tests.support.crash_files import CrashFiles, run
from tests.support.disk_model import Disk
from tests.support.sink_runs import NOW, SinkRun, batch, read

FULL = os.environ.get("KAFKALOG_CRASH") == "full"
pytestmark = pytest.mark.crash
ROOT = "/d/logs"
AT_ROOT = (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint")

# which work notices that a sync is missing
NOTICES = {
    "engine/log/commits/commit.py:_publish:0": "publish",
    "engine/log/commits/staging.py:_truncate:0": "undo",
    "engine/log/commits/staging.py:_remove_empty:0": "undo",
    "engine/log/commits/staging.py:clean_up:0": "commit-beside-another",
    "engine/log/commits/staging.py:make_directories:0": "write",
    "engine/log/commits/staging.py:roll_back:0": "undo-publish",
    "engine/log/commits/staging.py:undo:0": "commit-after-another",
    "engine/arrow/staged.py:finish:0": "stage",
    "engine/arrow/staged.py:write:0": "stage",
}
# and some of the engine's, for what only the sink does with them
ENGINES = {
    "engine/files/interface.py:replace:0": "commit",
    "engine/log/append/log_end.py:move_batches:0": "commit",
}


@pytest.fixture(autouse=True)
def everything_is_moved(monkeypatch):
    """Nothing is small enough to be copied: of what is moved there is only one. No job counts as dead."""
    monkeypatch.setattr("engine.log.commits.commit._MAX_COPIED", 0)
    monkeypatch.setattr("engine.log.commits.staging._DEAD", 1 << 60)


def rows(topics, values, partitions=None):
    return batch(value=[value.encode() for value in values], topic=list(topics), partition=partitions or [0] * len(topics))


BEFORE = {"a-0": [(0, b"a"), (1, b"b")], "b-0": [(0, b"c")]}
WRITTEN = {"a-0": [*BEFORE["a-0"], (2, b"e"), (3, b"f")], "b-0": [(0, b"c"), (1, b"g")], "n-1": [(0, b"h")]}
BESIDE = {**BEFORE, "n-0": [(0, b"x")]}
FIRST = ("first", BEFORE)
TASKS = [[rows("ab", "eg")], [rows("an", "fh", [0, 1])]]
NEW = [[rows("n", "x")]]


def first_written(without=()):
    """A directory with two topics."""
    files = CrashFiles(Disk({}, frozenset({"d"})))
    SinkRun(files, ROOT, name="first").write([rows("aab", "abc")])
    for name in without:
        files.remove(f"{ROOT}/{name}")
    return files.disk()


def staged(disk, tasks, **of_job):
    """The disk with a job that has staged what it will commit, and its pieces."""
    files = CrashFiles(disk)
    pieces = SinkRun(files, ROOT, **of_job).stage(*tasks)
    return files.disk(), pieces


def undo_all(files):
    """What the next writer does first: a commit that did not finish is undone."""
    with jobs.holding(files, ROOT):
        jobs.clear_leftovers(files, ROOT, NOW, of_all=True)


def stopped(disk, pieces, **of_job):
    """A commit that stopped with all its work done but the manifest."""

    def work(files):
        SinkRun(files, ROOT, **of_job).commit(pieces)

    changes = [operation.path for operation in run(work, disk).operations if operation.changes]
    return run(work, disk, stop_at=changes.index(f"{ROOT}/{jobs.MANIFEST}.tmp")).disk()


def shows(*commits, leftovers=False):
    """A check: what is there is the commit that was acknowledged (None: the first), or a later one; at the end the last.

    commits  (job, rows): the manifest must tell what is there, for a stream goes on by it
    """

    def check(disk, acknowledged, done):
        files = CrashFiles(disk)
        assert leftovers or not (done and files.exists(f"{ROOT}/{jobs.STAGING}"))
        undo_all(files)
        allowed = commits[-1:] if done else commits[acknowledged or 0 :]
        assert (jobs.read_manifest(files, ROOT).last, read(files, ROOT)) in allowed

    return check


def write():
    """From rows to partitions, in a directory that is there."""

    def work(files, _):
        SinkRun(files, ROOT).write(*TASKS)

    return Case("write", first_written(), work, shows(FIRST, ("job", WRITTEN)))


def stage():
    """A task is done once: whatever becomes of the storage afterwards, the commit finds all that it wrote."""

    def work(files, acknowledge):
        acknowledge(SinkRun(files, ROOT).stage(*TASKS))

    def check(disk, pieces, _done):
        if pieces is not None:
            files = CrashFiles(disk)
            SinkRun(files, ROOT).commit(pieces)
            assert read(files, ROOT) == WRITTEN

    return Case("stage", first_written(), work, check)


def commit():
    """What was staged goes to partitions that are there, and to a new one."""
    disk, pieces = staged(first_written(), TASKS)

    def work(files, _):
        SinkRun(files, ROOT).commit(pieces)

    return Case("commit", disk, work, shows(FIRST, ("job", WRITTEN)))


def publish():
    """A new partition, in a directory without a broker's files: nothing but the manifest follows the partition."""
    disk, pieces = staged(first_written(without=AT_ROOT), NEW)

    def work(files, _):
        SinkRun(files, ROOT).commit(pieces)

    return Case("publish", disk, work, shows(FIRST, ("job", BESIDE)))


def undo():
    """A commit that stopped late is undone."""
    return Case("undo", stopped(*staged(first_written(), TASKS)), lambda files, _: undo_all(files), shows(FIRST))


def undo_publish():
    """The same where no marker is put back after all else."""
    disk = stopped(*staged(first_written(without=AT_ROOT), NEW))
    assert "d/logs/n-0" in disk.directories
    return Case("undo-publish", disk, lambda files, _: undo_all(files), shows(FIRST))


def commit_after_another():
    """A commit stopped whose job lives on: it is undone once, and never again after another has committed."""
    alive = {"name": "alive"}
    disk = stopped(*staged(first_written(), TASKS, **alive), **alive)

    def work(files, acknowledge):
        SinkRun(files, ROOT, name="next").write(*NEW)
        acknowledge(1)
        SinkRun(files, ROOT, name="last").write([rows("a", "y")])

    rest = {**BESIDE, "a-0": [*BEFORE["a-0"], (2, b"y")]}
    return Case("commit-after-another", disk, work, shows(FIRST, ("next", BESIDE), ("last", rest), leftovers=True))


def commit_beside_another():
    """Two jobs have staged, and commit one after the other."""
    disk, pieces = staged(first_written(), TASKS, name="one")
    disk, others = staged(disk, NEW, name="other")

    def work(files, acknowledge):
        SinkRun(files, ROOT, name="other").commit(others)
        acknowledge(1)
        SinkRun(files, ROOT, name="one").commit(pieces)

    return Case("commit-beside-another", disk, work, shows(FIRST, ("other", BESIDE), ("one", {**BESIDE, **WRITTEN})))


CASES = [write, stage, commit, publish, undo, undo_publish, commit_after_another, commit_beside_another]
BY_NAME = {case.__name__.replace("_", "-"): case for case in CASES}
SITES = {str(site): site for site in sync_sites(["kafkalog_spark", "engine"])}
OURS = {name for name in SITES if name.startswith(("kafkalog_spark/", *OF_COMMITS))}


def test_every_sync_is_known():
    """A name that moved would otherwise go untested, and so would a new one."""
    assert sorted(NOTICES) == sorted(OURS)


@pytest.mark.parametrize("name", BY_NAME)
def test_no_power_cut_loses_anything(name):
    case = BY_NAME[name]()
    assert case.name == name
    assert cuts(case, drawn=20 if FULL else 0, step=1 if FULL else 2) == []


@pytest.mark.parametrize("site", sorted(NOTICES | ENGINES))
def test_a_missing_sync_is_noticed(site):
    case = BY_NAME[(NOTICES | ENGINES)[site]]()
    assert passes(case, SITES[site]), "the work does not come by here"
    assert any(cuts(case, left_out=SITES[site], drawn=drawn, only_first=True) for drawn in (0, 20))
