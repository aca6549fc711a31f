"""The staging directories, journals and manifest of jobs that write to a directory.

`<path>/.kafkalog-staging/<job>/` holds all files of a job until it commits. The journal in it lists the changes of the commit.
The commit is complete when the manifest `<path>/.kafkalog-sink.json` is replaced. A journal whose commit is not in the manifest
is undone.
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
from kafkalog_spark.sink.owners import OWNER, is_alive, write_owner
from kafkalog_spark.sink.state_files import Journal, Manifest, read_kept, write_kept

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from engine.files import Files, ReadOnlyFiles
    from kafkalog_spark.sink.owners import Owner

NEW, OLD = "new", "old"  # directories of the partitions to add, and of the replaced ones
_OWN = (*CHECKPOINTS, FileKind.CLEAN_SHUTDOWN)  # files of a log dir that a commit changes
_LOG = logging.getLogger("kafkalog")
PATIENCE = 60  # seconds that a commit waits for another one


@dataclass(frozen=True)
class StagedJob:
    """A job that writes to the directory `root`.

    owner  see Owner; None: unknown on this system
    """

    root: str
    name: str
    owner: Owner | None

    @property
    def directory(self) -> str:
        """The staging directory of the job."""
        return f"{self.root}/{STAGING}/{self.name}"


def begin(files: Files, job: StagedJob) -> None:
    """Make the job's staging directory and its missing parents. Raises KafkalogError."""
    for is_last in (False, True):
        try:
            make_directories(files, job.directory)
            if not files.exists(f"{job.directory}/{OWNER}"):
                write_owner(files, job.directory, job.owner)
        except KafkalogError:
            if is_last:
                raise
        else:
            return  # on an error try again: another job may have removed the directory while it was empty


def partitions(files: ReadOnlyFiles, root: str) -> list[str]:
    """Return the paths of the partition directories in `root`."""
    names = files.list(root) if files.exists(root) else []
    return [f"{root}/{name}" for name in names if parse_partition_dir(name) is not None]


@contextmanager
def holding(files: Files, root: str, *, patience: float = 0) -> Iterator[None]:
    """Lock the log dir, so that no broker starts there. Raises LogDirLocked after `patience` seconds."""
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
    """Read the manifest; an empty one if there is none. Raises KafkalogError."""
    return read_kept(files, f"{root}/{MANIFEST}", Manifest) or Manifest()


def write_manifest(files: Files, root: str, manifest: Manifest) -> None:
    """Replace the manifest, which completes a commit."""
    write_kept(files, f"{root}/{MANIFEST}", manifest)


def own_files(files: Files, root: str) -> dict[str, str | None]:
    """Return the content of the log dir's own files for a journal. Raises KafkalogError, also for a file that is too large."""
    paths = {kind.value: f"{root}/{kind.value}" for kind in _OWN}
    return {
        name: base64.b64encode(files.read(path, MAX_CHECKPOINT_SIZE)).decode() if files.exists(path) else None
        for name, path in paths.items()
    }  # fmt: skip


def write_journal(files: Files, job: StagedJob, journal: Journal) -> None:
    """Write the journal: from now on the commit must be completed or undone."""
    write_kept(files, f"{job.directory}/{JOURNAL}", journal)


def clear_leftovers(files: Files, root: str, now: int, keep: Container[str] = ()) -> None:
    """Undo incomplete commits, and remove the staging directories of dead jobs. Raises KafkalogError.

    The caller holds the lock. A running commit holds it too, so any journal here is from a commit that was interrupted.

    keep  names of jobs that are known to be alive
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
    """Remove the staging directory of a job, after undoing an incomplete commit."""
    undo(files, job, now)
    clean_up(files, job)


def undo(files: Files, job: StagedJob, now: int) -> None:
    """Undo the job's incomplete commit, if there is one."""
    journal = read_kept(files, f"{job.directory}/{JOURNAL}", Journal)
    if journal is not None:
        if read_manifest(files, job.root).last != journal.commit:
            roll_back(files, job, journal, now)
        files.remove(f"{job.directory}/{JOURNAL}")
        files.sync_directory(job.directory)


def clean_up(files: Files, job: StagedJob) -> None:
    """Remove the staging directory of a job, and its parent if no other job uses it."""
    if files.exists(job.directory):
        remove_tree(files, job.directory, but=OWNER)  # OWNER is removed last: `is_alive` needs it
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
    """Restore the directory to its state before the commit. Can be repeated after an interruption."""
    marker = f"{job.root}/{FileKind.CLEAN_SHUTDOWN.value}"
    if files.exists(marker):  # the marker vouches for the logs as committed
        files.remove(marker)
    for name in journal.new:
        if not files.exists(f"{job.directory}/{NEW}/{name}"):  # it was published
            back = f"{job.directory}/{OLD}/{name}"
            if name not in journal.replaced or files.exists(back):
                remove_tree(files, f"{job.root}/{name}")
    for name in journal.replaced:
        back = f"{job.directory}/{OLD}/{name}"
        if files.exists(back):
            files.rename(back, f"{job.root}/{name}")
    for name, end in journal.ends.items():
        _truncate(files, f"{job.root}/{name}", end, LogConfig.of(journal.settings), now)
    for kind in CHECKPOINTS:
        _restore_file(files, f"{job.root}/{kind.value}", journal.own[kind.value])
    files.sync_directory(job.root)
    _restore_file(files, marker, journal.own[FileKind.CLEAN_SHUTDOWN.value])


def _restore_file(files: Files, path: str, kept: str | None) -> None:
    """Restore the file at `path` from the journal. If this removes the file, the caller syncs the directory."""
    exists = files.exists(path)
    if kept is None:
        if exists:
            files.remove(path)
        return
    data = base64.b64decode(kept)
    if not exists or files.read(path, MAX_CHECKPOINT_SIZE) != data:
        replace(files, path, [data])


def _truncate(files: Files, directory: str, end: int, config: LogConfig, now: int) -> None:
    """Truncate a log to the offset `end`, whatever part of the commit reached the disk."""
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
    """Make the directory at `path` and its missing parents."""
    parent = path.rpartition("/")[0]
    if parent and not files.exists(parent):
        make_directories(files, parent)
    if not files.exists(path):
        files.make_directory(path)
        files.sync_directory(parent or ".")
