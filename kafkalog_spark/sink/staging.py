"""Jobs that write to a directory: where they stage, what they were about to do, what the last one did.

`<path>/.kafkalog-staging/<job>/` holds everything of a job until it is committed. A journal there says what a commit
changes; the manifest `<path>/.kafkalog-sink.json`, replaced last, makes it hold. A journal without that: it is undone.
"""

from __future__ import annotations

import base64
import logging
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.checkpoint.checkpoints import MAX_CHECKPOINT_SIZE
from engine.config.topic import LogConfig
from engine.discovery.names import FileKind, log_file_name, parse_file_name, parse_partition_dir
from engine.discovery.paths import JOURNAL, MANIFEST, STAGING
from engine.errors import KafkalogError, LogDirLocked
from engine.files import remove_tree, replace
from engine.log.loading.loader import open_log
from engine.log.loading.shared import LoadOptions
from engine.log.logdir.log_dirs import locked
from engine.log.logdir.log_manager import CHECKPOINTS
from kafkalog_spark.sink.kept import Journal, Manifest, read_kept, write_kept
from kafkalog_spark.sink.owners import OWNER, is_alive, put_owner

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from engine.files import Files, ReadOnlyFiles
    from kafkalog_spark.sink.owners import Owner

NEW, OLD = "new", "old"  # partitions that are about to come, and that had to go
_OWN = (*CHECKPOINTS, FileKind.CLEAN_SHUTDOWN)  # files of a log dir that a commit changes
_LOG = logging.getLogger("kafkalog")
PATIENCE = 60  # seconds that a commit waits for another one


@dataclass(frozen=True)
class StagedJob:
    """A job that writes to the directory `root`.

    owner  the process that it ends with; None where the system does not say
    """

    root: str
    name: str
    owner: Owner | None

    @property
    def directory(self) -> str:
        """Where it stages."""
        return f"{self.root}/{STAGING}/{self.name}"


def begin(files: Files, job: StagedJob) -> None:
    """Make the job's staging directory, the path to it included. Raises KafkalogError."""
    for is_last in (False, True):
        try:
            make_directories(files, job.directory)
            if not files.exists(f"{job.directory}/{OWNER}"):
                put_owner(files, job.directory, job.owner)
        except KafkalogError:
            if is_last:
                raise
        else:
            return  # otherwise another job has removed the directory, which was empty still


def partitions(files: ReadOnlyFiles, root: str) -> list[str]:
    """The directories in `root` that have names of partitions."""
    names = files.list(root) if files.exists(root) else []
    return [f"{root}/{name}" for name in names if parse_partition_dir(name) is not None]


@contextmanager
def holding(files: Files, root: str, *, patience: float = 0) -> Iterator[None]:
    """Hold the lock of the log dir, so that no broker starts there. Raises LogDirLocked after `patience` seconds."""
    until = time.monotonic() + patience
    while True:
        try:
            lock = locked(files, [root], partitions(files, root), undoes_commits=True)
            lock.__enter__()
            break
        except LogDirLocked:
            if time.monotonic() >= until:
                raise
            time.sleep(0.1)
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


def read_manifest(files: ReadOnlyFiles, root: str) -> Manifest:
    """What was committed. Raises KafkalogError."""
    return read_kept(files, f"{root}/{MANIFEST}", Manifest) or Manifest()


def write_manifest(files: Files, root: str, manifest: Manifest) -> None:
    """The moment from which a commit holds."""
    write_kept(files, f"{root}/{MANIFEST}", manifest)


def own_files(files: Files, root: str) -> dict[str, str | None]:
    """What the files of the log dir itself hold, for a journal. Raises KafkalogError, also for one that is too large."""
    paths = {kind.value: f"{root}/{kind.value}" for kind in _OWN}
    return {
        name: base64.b64encode(files.read(path, MAX_CHECKPOINT_SIZE)).decode() if files.exists(path) else None
        for name, path in paths.items()
    }  # fmt: skip


def write_journal(files: Files, job: StagedJob, journal: Journal) -> None:
    """From here on a commit has to be finished or undone."""
    write_kept(files, f"{job.directory}/{JOURNAL}", journal)


def clear_leftovers(files: Files, root: str, now: int, keep: Container[str] = ()) -> None:
    """Undo commits that were left half done, and remove what dead jobs staged. The lock must be held. Raises KafkalogError.

    A commit holds the lock: a journal that we find is of one that has ended, or never will, whether its job is alive or not.
    keep  jobs that are alive because they ask
    """
    staging = f"{root}/{STAGING}"
    if not files.exists(staging):
        return
    for name in files.list(staging):
        undo(files, StagedJob(root, name, None), now)
        if name not in keep and not is_alive(files, f"{staging}/{name}", now):
            clean_up(files, StagedJob(root, name, None))
    _remove_empty(files, root)


def drop(files: Files, job: StagedJob, now: int) -> None:
    """Remove what a job staged; a commit that did not finish is undone first, one that did is left alone."""
    undo(files, job, now)
    clean_up(files, job)


def undo(files: Files, job: StagedJob, now: int) -> None:
    """Undo a commit that did not finish, if there is one."""
    journal = read_kept(files, f"{job.directory}/{JOURNAL}", Journal)
    if journal is not None:
        if read_manifest(files, job.root).last != journal.commit:
            roll_back(files, job, journal, now)
        files.remove(f"{job.directory}/{JOURNAL}")
        files.sync_directory(job.directory)


def clean_up(files: Files, job: StagedJob) -> None:
    """Remove what a job staged, and the directory around it if no other job is there."""
    if files.exists(job.directory):
        remove_tree(files, job.directory, but=OWNER)  # removed last: without it nobody knows whether the job is alive
        files.sync_directory(job.directory)
        files.remove(f"{job.directory}/{OWNER}")
        files.remove_directory(job.directory)
    _remove_empty(files, job.root)


def _remove_empty(files: Files, root: str) -> None:
    staging = f"{root}/{STAGING}"
    if files.exists(staging) and not files.list(staging):
        files.remove_directory(staging)
        files.sync_directory(root)


def roll_back(files: Files, job: StagedJob, journal: Journal, now: int) -> None:
    """Make the directory what it was before the commit. May be done again after it was stopped."""
    marker = f"{job.root}/{FileKind.CLEAN_SHUTDOWN.value}"
    if files.exists(marker):  # it speaks of what was committed
        files.remove(marker)
    for name in journal.new:
        if not files.exists(f"{job.directory}/{NEW}/{name}"):  # it is published
            back = f"{job.directory}/{OLD}/{name}"
            if name not in journal.replaced or files.exists(back):
                remove_tree(files, f"{job.root}/{name}")
    for name in journal.replaced:
        back = f"{job.directory}/{OLD}/{name}"
        if files.exists(back):
            files.rename(back, f"{job.root}/{name}")
    for name, end in journal.ends.items():
        _cut(files, f"{job.root}/{name}", end, LogConfig.of(journal.settings), now)
    for kind in CHECKPOINTS:
        _put_back(files, f"{job.root}/{kind.value}", journal.own[kind.value])
    files.sync_directory(job.root)
    _put_back(files, marker, journal.own[FileKind.CLEAN_SHUTDOWN.value])


def _put_back(files: Files, path: str, kept: str | None) -> None:
    """Let the file at `path` hold again what a journal kept of it. The caller syncs the removal of a file."""
    exists = files.exists(path)
    if kept is None:
        if exists:
            files.remove(path)
        return
    data = base64.b64decode(kept)
    if not exists or files.read(path, MAX_CHECKPOINT_SIZE) != data:
        replace(files, path, [data])


def _cut(files: Files, directory: str, end: int, config: LogConfig, now: int) -> None:
    """Make a log end at `end` again, whatever of the commit came to the disk."""
    if not files.exists(directory):
        _LOG.warning("%s, which a commit that is undone had appended to, was deleted", directory)
        return
    for name in files.list(directory):
        parsed = parse_file_name(name)
        if parsed is None or parsed.base_offset is None or parsed.suffix or parsed.base_offset < end:
            continue
        if name == log_file_name(end):
            with files.open_writable(f"{directory}/{name}") as file:
                file.truncate(0)
                file.sync()
        elif parsed.base_offset > end or parsed.kind is not FileKind.PRODUCER_SNAPSHOT:
            files.remove(f"{directory}/{name}")
    log = open_log(files, directory, config, now=now, clean_shutdown=False, options=LoadOptions(recovery_point=end))
    try:
        log.truncate_to(end, "a commit that did not finish")
    except BaseException:
        log.close_handlers()
        raise
    log.close()


def make_directories(files: Files, path: str) -> None:
    """The directory at `path` and those around it, as far as they are missing."""
    parent = path.rpartition("/")[0]
    if parent and not files.exists(parent):
        make_directories(files, parent)
    if not files.exists(path):
        files.make_directory(path)
        files.sync_directory(parent or ".")
