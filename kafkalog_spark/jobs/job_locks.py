"""Locks of jobs that change logs in place: one task attempt works on a partition at a time, and none after its job has ended.

Spark may start a task twice, and may lose an executor on which a task still runs. So the driver locks a file of the job in each
log dir, and a task locks a file for each of its partitions. Before each log, a task checks that its job still runs. At the end
the job removes its own files, waits for the locks of tasks, and releases `.lock` last.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from engine.discovery.names import JOB_LOCK, TASK_LOCK, FileKind, file_name
from engine.errors import KafkalogError, LogDirLocked
from engine.files import is_locked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.files import Files, Lock

_PATIENCE = 600.0  # seconds to wait for another attempt at the same partition
_AGAIN = 0.2  # seconds between two tries
_GRACE = 2.0  # seconds for Spark to kill the later one of two attempts
_LEAVING = 60.0  # seconds to wait at the end of a job for tasks that Spark killed or lost and that still hold a lock
_LONGEST = 255  # bytes of a file name
_PROCESS = uuid4().hex
_LOG = logging.getLogger("kafkalog")


class JobEnded(KafkalogError):
    """The job of this task no longer locks the log dir: the task stops and changes nothing more."""

    code = "job-is-over"


class TasksStillRunning(KafkalogError):
    """Tasks still work on partitions when their job ends: the final state of these partitions is unknown."""

    code = "still-at-work"


class JobLock(NamedTuple):
    """The lock of a job, as tasks check it.

    job      its name
    process  (random id, process id) of the driver, which locks the files
    """

    job: str
    process: tuple[str, int]

    def check(self, files: Files, log_dir: str) -> None:
        """Raise JobEnded if the job no longer locks `log_dir`: a broker may run there."""
        path = f"{log_dir}/{JOB_LOCK}{self.job}"
        if self.process == _this_process():  # opening and closing the file would release the lock
            return
        if not files.exists(path) or (sys.platform == "linux" and not is_locked(path)):
            raise JobEnded(f"{log_dir}: the job that this task belongs to has ended; the task stops", path=log_dir)


def _this_process() -> tuple[str, int]:
    return _PROCESS, os.getpid()


@contextmanager
def hold_log_dirs(files: Files, log_dirs: list[str]) -> Iterator[JobLock]:
    """Lock the log dirs for a job that already holds their `.lock`. At the end wait for tasks that still run.

    Raises TasksStillRunning if tasks do not end in time; only logs a warning if another error was raised before.
    """
    hold = JobLock(uuid4().hex, _this_process())
    locks = []
    try:
        for log_dir in dict.fromkeys(log_dirs):
            for name in files.list(log_dir):
                if name.startswith(JOB_LOCK) and name != JOB_LOCK + hold.job:  # of a dead driver, since `.lock` is ours
                    files.remove(f"{log_dir}/{name}")
            locks.append(files.lock(f"{log_dir}/{JOB_LOCK}{hold.job}"))
        yield hold
    except BaseException:
        try:
            _release(files, log_dirs, locks)
        except TasksStillRunning as error:
            _LOG.warning("%s", error)
        raise
    else:
        _release(files, log_dirs, locks)


def _release(files: Files, log_dirs: list[str], locks: list[Lock]) -> None:
    with ExitStack() as stack:  # does every step, even if some fail
        for lock in locks:
            stack.callback(lock.release)
            stack.callback(files.remove, lock.path)
    until = time.monotonic() + _LEAVING
    while still_locked := [path for log_dir in log_dirs for path in _remove_locks(files, log_dir)]:
        if time.monotonic() >= until:
            for log_dir in dict.fromkeys(path.rpartition("/")[0] for path in still_locked):  # a broker must run recovery
                files.remove(f"{log_dir}/{FileKind.CLEAN_SHUTDOWN.value}")
            named = ", ".join(path.replace(TASK_LOCK, "") for path in still_locked)
            raise TasksStillRunning(
                f"{named}: a task attempt that Spark gave up is still running there. Do not start a broker on it yet: end the "
                "Python process that holds the lock of that name (.kafkalog-task-…) on its executor, then run the job again"
            )
        time.sleep(_AGAIN)


def _remove_locks(files: Files, log_dir: str) -> list[str]:
    """Remove the lock files of tasks that have ended. Returns the paths of those that are still locked."""
    locked = []
    for name in files.list(log_dir):
        if name.startswith(TASK_LOCK):
            path = f"{log_dir}/{name}"
            try:
                lock = files.lock(path)
            except LogDirLocked:
                locked.append(path)
                continue
            try:
                files.remove(path)
            finally:
                lock.release()
    return locked


def lock_partition(files: Files, log_dir: str, directory: str) -> Lock:
    """Lock a partition's `directory`. Waits for another attempt, which Spark may have lost or started twice.

    A failure without waiting would use up the four attempts of the task within a second. Raises LogDirLocked after _PATIENCE.
    """
    until = time.monotonic() + _PATIENCE
    name = TASK_LOCK + file_name(directory)
    if len(name) > _LONGEST:
        name = TASK_LOCK + sha256(name.encode()).hexdigest()
    has_waited = False
    while True:
        try:
            lock = files.lock(f"{log_dir}/{name}")
        except LogDirLocked:
            if time.monotonic() >= until:
                raise
            has_waited = True
            time.sleep(_AGAIN)
        else:
            if has_waited:  # if the other attempt succeeded, Spark kills this one now; if it died, this one does the work
                time.sleep(_GRACE)
            return lock
