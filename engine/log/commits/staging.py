"""The staging directories, journals and manifest of jobs that write to a directory.

`<path>/.kafkalog-staging/<job>/` holds all files of a job until it commits. The journal in it lists the changes of the commit.
The commit is complete when the manifest `<path>/.kafkalog-sink.json` is replaced. A journal whose commit is not in the manifest
is undone. A job of which nothing was written for a day is dead: its files are removed. If it lives after all, it fails at its
commit, because its files are missing, and changes nothing.
"""

from __future__ import annotations

import base64
import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.checkpoint.checkpoints import MAX_CHECKPOINT_SIZE
from engine.config.topic import LogConfig
from engine.discovery.names import FileKind, log_file_name, parse_file_name, parse_partition_dir
from engine.discovery.paths import JOURNAL, MANIFEST, STAGING
from engine.errors import KafkalogError
from engine.files import look, remove_tree, replace
from engine.log.commits.state_files import Journal, Manifest, read_kept, write_kept
from engine.log.loading.loader import open_log
from engine.log.loading.shared import LoadOptions
from engine.log.logdir.log_dirs import locked
from engine.log.logdir.log_manager import CHECKPOINTS

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from engine.files import Files, ReadOnlyFiles

NEW, OLD = "new", "old"  # directories of the partitions to add, and of the replaced ones
_OWN = (*CHECKPOINTS, FileKind.CLEAN_SHUTDOWN)  # files of a log dir that a commit changes
_LOG = logging.getLogger("kafkalog")
_DEAD = 24 * 3600 * 1000  # ms without a write after which a job counts as dead


@dataclass(frozen=True)
class StagedJob:
    """A job that writes to the directory `root`."""

    root: str
    name: str

    @property
    def directory(self) -> str:
        """The staging directory of the job."""
        return f"{self.root}/{STAGING}/{self.name}"


@dataclass(frozen=True, slots=True)
class StagedPiece:
    """The segments that a task wrote for one Kafka partition.

    directory  relative to the directory that contains all staging directories
    segments   (base offset, offset after the last record) of each
    size       bytes of their logs
    """

    topic: str
    partition: int
    directory: str
    segments: tuple[tuple[int, int], ...]
    size: int

    @property
    def first_offset(self) -> int:
        """The first offset."""
        return self.segments[0][0]

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        return self.segments[-1][1]


def begin(files: Files, job: StagedJob) -> None:
    """Make the job's staging directory and its missing parents. Raises KafkalogError."""
    try:
        make_directories(files, job.directory)
    except KafkalogError:  # another job may have removed the parent while it was empty
        make_directories(files, job.directory)


def partitions(files: ReadOnlyFiles, root: str) -> list[str]:
    """Return the paths of the partition directories in `root`."""
    names = files.list(root) if files.exists(root) else []
    return [f"{root}/{name}" for name in names if parse_partition_dir(name) is not None]


@contextmanager
def holding(files: Files, root: str) -> Iterator[None]:
    """Lock the log dir, so that no broker starts there. Raises LogDirLocked."""
    with locked(files, [root], partitions(files, root), undoes_commits=True):
        yield


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


def clear_leftovers(files: Files, root: str, now: int, keep: Container[str] = (), *, of_all: bool = False) -> int:
    """Undo incomplete commits, and remove the staging directories of dead jobs. Returns the number of these jobs.

    The caller holds the lock. A running commit holds it too, so any journal here is from a commit that was interrupted.

    keep    names of jobs that are known to be alive
    of_all  remove the staging directories of all other jobs, dead or not
    Raises KafkalogError.
    """
    staging, count = f"{root}/{STAGING}", 0
    if not files.exists(staging):
        return 0
    for name in files.list(staging):
        job = StagedJob(root, name)
        undo(files, job, now)
        if name not in keep and (of_all or now - _last_write(files, job.directory) >= _DEAD):
            clean_up(files, job)
            count += 1
    _remove_empty(files, root)
    return count


def _last_write(files: ReadOnlyFiles, path: str) -> int:
    """Return the last modification in a tree (ms since 1970); 0: it was removed meanwhile."""
    info = look(files, path)
    if info is None:
        return 0
    names = files.list(path) if info.is_directory else ()
    return max([info.modified_ms, *(_last_write(files, f"{path}/{name}") for name in names)])


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
        if files.exists(f"{job.directory}/{JOURNAL}"):  # first: it must not reappear after the commit of another job
            files.remove(f"{job.directory}/{JOURNAL}")
            files.sync_directory(job.directory)
        remove_tree(files, job.directory)
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
