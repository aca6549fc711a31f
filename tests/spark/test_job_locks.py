"""Jobs that work in place let go of a log dir when none of their tasks works there any more; tasks stop with their job."""

from __future__ import annotations

import logging
import shutil
import time
from types import SimpleNamespace

import pytest

from engine.discovery.names import TASK_LOCK
from engine.errors import UnwritableFile
from engine.files import Files, Lock
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.startup import survey
from engine.log.report import Report
from engine.log.session import OpenOptions
from kafkalog_spark.errors import LogDirError
from kafkalog_spark.jobs import job_locks, upkeep
from kafkalog_spark.jobs.job_locks import JobEnded, JobLock
from kafkalog_spark.jobs.recover import recover
from kafkalog_spark.jobs.upkeep import Assignment
from tests.spark.logs_left import NOW, done
from tests.support.other_process import lock_held

FILES = Files()
MARKER = ".kafka_cleanshutdown"
THEIRS = ("another process", 1)


def job_on(log_dir):
    return upkeep.opened([str(log_dir)], OpenOptions(now=NOW))


def run_on(log_dir):
    with job_on(log_dir):
        pass


def ours(log_dir):
    """Files of ours in a log dir."""
    return sorted(path.name for path in log_dir.glob(".kafkalog-*"))


def test_a_job_waits_for_its_tasks_before_a_broker_may_start(torn, monkeypatch):
    (torn / ".kafkalog-task-b-0").touch()
    released, seen = [], []
    release = Lock.release
    monkeypatch.setattr(Lock, "release", lambda lock: released.append(lock.path.rpartition("/")[2]) or release(lock))
    held = lock_held(torn / ".kafkalog-task-a-0")

    def end_the_other(_seconds):
        seen.append(([name.partition("-job-")[0] for name in released], ours(torn)))
        if len(seen) == 2:
            held.__exit__(None, None, None)

    monkeypatch.setattr(job_locks, "time", SimpleNamespace(sleep=end_the_other, monotonic=time.monotonic))
    with job_on(torn):
        held.__enter__()
        assert len(ours(torn)) == 3
    assert [left for _, left in seen] == [[".kafkalog-task-a-0"]] * 2  # the job's own went first, and one that was free
    assert ".lock" not in seen[-1][0]
    assert released[-1] == ".lock"
    assert ours(torn) == []


@pytest.mark.usefixtures("no_session")
def test_a_task_that_goes_on_and_on_is_named_with_what_to_do(torn, monkeypatch):
    monkeypatch.setattr(job_locks, "_LEAVING", 0)
    (torn / MARKER).write_bytes(b"{}")
    with lock_held(torn / ".kafkalog-task-a-0"), pytest.raises(LogDirError) as caught:
        run_on(torn)
    assert f"kafkalog: {torn}/a-0: a task attempt that Spark gave up is still running there. Do not start a broker" in str(caught.value)
    assert not (torn / MARKER).exists()
    run_on(torn)
    assert ours(torn) == []


def test_what_failed_before_is_told_and_not_that_a_task_goes_on(torn, monkeypatch, caplog):
    monkeypatch.setattr(job_locks, "_LEAVING", 0)

    def fail():
        with job_on(torn):
            raise ValueError("a job that fails")

    with lock_held(torn / ".kafkalog-task-a-0"), caplog.at_level(logging.WARNING), pytest.raises(ValueError, match="that fails"):
        fail()
    assert f"{torn}/a-0: a task attempt that Spark gave up is still running" in caplog.text
    assert ours(torn) == [".kafkalog-task-a-0"]


def test_tasks_see_the_end_of_a_job_that_may_not_remove_its_file(torn, tmp_path, monkeypatch):
    other = tmp_path / "other"
    shutil.copytree(torn, other)
    remove = Files.remove

    def refuse(files, path):
        if path.startswith(f"{other}/.kafkalog-job-"):
            raise UnwritableFile(f"{path}: Permission denied")
        remove(files, path)

    def run_on_both():
        with upkeep.opened([str(torn), str(other)], OpenOptions(now=NOW)):
            monkeypatch.setattr(Files, "remove", refuse)

    released = []
    release = Lock.release
    monkeypatch.setattr(Lock, "release", lambda lock: released.append(lock.path.partition("-job-")[0]) or release(lock))
    with pytest.raises(LogDirError, match="Permission denied"):
        run_on_both()
    assert sorted(released) == sorted(f"{path}/{name}" for path in (torn, other) for name in (".kafkalog", ".lock"))
    assert (ours(torn), len(ours(other))) == ([], 1)


def test_what_a_driver_that_died_held_is_removed(torn):
    (torn / ".kafkalog-job-dead").touch()
    with job_on(torn) as job:
        assert ours(torn) == [f".kafkalog-job-{job.hold.job}"]
    assert ours(torn) == []


def test_a_task_knows_whether_its_job_goes_on(torn):
    hold = JobLock("one", THEIRS)
    with pytest.raises(JobEnded, match="has ended"):
        hold.check(FILES, str(torn))
    with lock_held(torn / ".kafkalog-job-one"):
        hold.check(FILES, str(torn))
        with lock_held(torn / ".lock"), pytest.raises(JobEnded):  # of a broker, or of another job
            JobLock("two", THEIRS).check(FILES, str(torn))
    with pytest.raises(JobEnded):  # its driver died: the file is there still
        hold.check(FILES, str(torn))


def test_a_task_stops_before_the_next_log_when_its_job_ends(torn):
    """Also where it had to wait for another attempt, and gets the lock only when all is over."""
    for number in (1, 2):
        shutil.copytree(torn / "small_segments-0", torn / f"small_segments-{number}")
    [log_dir] = find_log_dirs(FILES, [str(torn)])
    held = lock_held(torn / ".kafkalog-job-one")
    touched = []

    def operate(manager):
        for place in log_dir.directories:
            touched.append(manager.files_of(place.log_dir) and place.name.partition)
            yield Report(place.path, "recover")
            if len(touched) == 2:
                held.__exit__(None, None, None)

    work = Assignment(OpenOptions(now=NOW), operate)
    held.__enter__()
    with pytest.raises(JobEnded):
        list(upkeep._rows(list(log_dir.directories), work, survey(FILES, [log_dir]), JobLock("one", THEIRS)))
    assert len(touched) == 2
    with pytest.raises(JobEnded):
        list(upkeep._rows(list(log_dir.directories), work, survey(FILES, [log_dir]), JobLock("one", THEIRS)))
    assert len(touched) == 2


@pytest.mark.usefixtures("no_session")
def test_an_attempt_waits_for_another_one_that_still_works(torn, monkeypatch):
    """Spark may run a task twice at once (speculation): one that fails at once fails four times, and with it the job."""
    monkeypatch.setattr(job_locks, "_GRACE", 0)
    held = lock_held(str(torn / ".kafkalog-task-small_segments-0"))
    held.__enter__()
    slept = []

    def end_the_other(seconds):
        slept.append(seconds)
        if len(slept) == 2:
            held.__exit__(None, None, None)

    monkeypatch.setattr(job_locks, "time", SimpleNamespace(sleep=end_the_other, monotonic=time.monotonic))
    assert ("recovered", "small_segments-0") in done(recover(None, str(torn), now=NOW))
    assert len(slept) >= 2
    monkeypatch.setattr(job_locks, "_PATIENCE", 0)
    monkeypatch.setattr(job_locks, "_LEAVING", 0)
    with lock_held(str(torn / ".kafkalog-task-small_segments-0")), pytest.raises(LogDirError, match="kafkalog-task-small_segments-0"):
        recover(None, str(torn), now=NOW)


def test_copies_of_a_partition_in_one_log_dir_do_not_wait_for_each_other(tmp_path, monkeypatch):
    """As of a topic that was deleted and made again, or that moves; and a name may be as long as names are."""
    monkeypatch.setattr(job_locks, "_PATIENCE", 0)
    names = ["t-0", f"t-0.{'a' * 32}-delete", f"t-0.{'a' * 32}-future", f"{'l' * 249}-0", f"{'l' * 249}-1"]
    locks = [job_locks.lock_partition(Files(), str(tmp_path), f"{tmp_path}/{name}") for name in names]
    assert len({lock.path for lock in locks}) == len(names)
    assert all(file.name.startswith(TASK_LOCK) for file in tmp_path.iterdir())
    for lock in locks:
        lock.release()
