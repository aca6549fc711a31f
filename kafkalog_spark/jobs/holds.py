"""Locks of jobs that work in place: one attempt at a partition at a time, and none without its job.

Spark may begin a task twice, and may give up one that runs on, on an executor that it has lost. So the driver holds a file of
its job in each log dir, and a task the file of each partition that it works on. A task looks before each log whether its job
goes on. The job takes its files away first, waits for the files of tasks, and only then lets go of `.lock`.
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

_PATIENCE, _AGAIN, _GRACE = 600.0, 0.2, 2.0  # seconds: for another attempt; between two looks; for Spark to end the later one
_LEAVING = 60.0  # seconds for tasks that Spark has ended, or given up, and that still hold a partition when their job ends
_LONGEST = 255  # bytes of a file's name
_PROCESS = uuid4().hex
_LOG = logging.getLogger("kafkalog")


class JobIsOver(KafkalogError):
    """A task whose job does not hold the log dir any more: it leaves everything as it is."""

    code = "job-is-over"


class StillAtWork(KafkalogError):
    """Tasks that work on partitions though their job ends: nobody knows how they will leave them."""

    code = "still-at-work"


class JobLock(NamedTuple):
    """What a task knows of the job: its name, and the process that holds its files."""

    job: str
    process: tuple[str, int]

    def check(self, files: Files, log_dir: str) -> None:
        """Raise JobIsOver where the job does not hold `log_dir` any more: a broker may run there."""
        path = f"{log_dir}/{JOB_LOCK}{self.job}"
        if self.process == _this_process():  # asking for it would let it go
            return
        if not files.exists(path) or (sys.platform == "linux" and not is_locked(path)):
            raise JobIsOver(f"{log_dir}: the job that this task belongs to has ended; the task stops", path=log_dir)


def _this_process() -> tuple[str, int]:
    return _PROCESS, os.getpid()


@contextmanager
def held(files: Files, log_dirs: list[str]) -> Iterator[JobLock]:
    """Hold the log dirs, whose `.lock` is ours, for tasks. In the end tasks that still work are waited for.

    Raises StillAtWork where they go on, unless something was raised before: then it is a warning.
    """
    hold = JobLock(uuid4().hex, _this_process())
    mine = []
    try:
        for log_dir in dict.fromkeys(log_dirs):
            for name in files.list(log_dir):
                if name.startswith(JOB_LOCK) and name != JOB_LOCK + hold.job:  # of a driver that died: `.lock` is ours
                    files.remove(f"{log_dir}/{name}")
            mine.append(files.lock(f"{log_dir}/{JOB_LOCK}{hold.job}"))
        yield hold
    except BaseException:
        try:
            _release(files, log_dirs, mine)
        except StillAtWork as error:
            _LOG.warning("%s", error)
        raise
    else:
        _release(files, log_dirs, mine)


def _release(files: Files, log_dirs: list[str], mine: list[Lock]) -> None:
    with ExitStack() as stack:  # each step is taken, whichever fails
        for lock in mine:
            stack.callback(lock.release)
            stack.callback(files.remove, lock.path)
    until = time.monotonic() + _LEAVING
    while at_work := [path for log_dir in log_dirs for path in _remove_locks(files, log_dir)]:
        if time.monotonic() >= until:
            for log_dir in dict.fromkeys(path.rpartition("/")[0] for path in at_work):  # a broker must not trust it
                files.remove(f"{log_dir}/{FileKind.CLEAN_SHUTDOWN.value}")
            named = ", ".join(path.replace(TASK_LOCK, "") for path in at_work)
            raise StillAtWork(
                f"{named}: a task attempt that Spark gave up is still running there. Do not start a broker on it yet: end the "
                "Python process that holds the lock of that name (.kafkalog-task-…) on its executor, then run the job again"
            )
        time.sleep(_AGAIN)


def _remove_locks(files: Files, log_dir: str) -> list[str]:
    """Remove the locks of tasks that have ended → those of others."""
    held_still = []
    for name in files.list(log_dir):
        if name.startswith(TASK_LOCK):
            path = f"{log_dir}/{name}"
            try:
                lock = files.lock(path)
            except LogDirLocked:
                held_still.append(path)
                continue
            try:
                files.remove(path)
            finally:
                lock.release()
    return held_still


def own_lock(files: Files, log_dir: str, directory: str) -> Lock:
    """The lock of a partition's `directory`. Another attempt may hold it, given up or begun twice: a wait.

    To fail at once would count against the task, four times in a second. Raises LogDirLocked after _PATIENCE.
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
            if has_waited:  # the other one was done, and Spark ends this one; or it died, and the work is ours
                time.sleep(_GRACE)
            return lock
