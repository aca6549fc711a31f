"""Jobs that write to a directory: where they stage, what they were about to do, what the last one did.

`<path>/.kafkalog-staging/<job>/` holds everything of a job until it is committed. A journal there says what a commit
changes; the manifest `<path>/.kafkalog-sink.json`, replaced last, makes it hold. A journal without that: it is undone.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import socket
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.checkpoint.text import MAX_CHECKPOINT_SIZE
from engine.config import LogConfig
from engine.errors import KafkalogError, LogDirLocked
from engine.files import remove_tree, replace
from engine.layout import FileKind, log_file_name, parse_file_name
from engine.log.loading.loader import open_log
from engine.log.logdir.locking import locked
from engine.log.logdir.log_manager import CHECKPOINTS

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from engine.files import Files

STAGING = ".kafkalog-staging"
MANIFEST = ".kafkalog-sink.json"
JOURNAL, OWNER = "commit.json", "job.json"
NEW, OLD = "new", "old"  # partitions that are about to come, and that had to go
_OWN = (*CHECKPOINTS, FileKind.CLEAN_SHUTDOWN)  # files of a log dir that a commit changes
_LIMIT = 256 << 20  # bytes of such a file
_ABANDONED = 24 * 3600 * 1000  # ms after which a job of another machine counts as dead
PATIENCE = 60  # seconds that a commit waits for another one
_LOG = logging.getLogger("kafkalog")


@dataclass(frozen=True)
class Job:
    """A job that writes to the directory `root`.

    owner  the process that it ends with: machine, id, when it began; None where the system does not say
    """

    root: str
    name: str
    owner: tuple[str, int, int] | None

    @property
    def directory(self) -> str:
        """Where it stages."""
        return f"{self.root}/{STAGING}/{self.name}"


@dataclass
class Manifest:
    """What was committed last, and of every stream the last batch."""

    last: str = ""
    streams: dict[str, int] = field(default_factory=dict)


@dataclass
class Journal:
    """What a commit changes: partition directories by name.

    ends      of those that records are appended to: where they ended
    new       that come, those that come in the place of others included        replaced  that go
    own       files of the log dir itself: what they held, in base64; None of those that were not there
    settings  of topics, as the job had them
    """

    commit: str
    ends: dict[str, int]
    new: list[str]
    replaced: list[str]
    own: dict[str, str | None]
    settings: dict[str, str] = field(default_factory=dict)


def this_owner() -> tuple[str, int, int] | None:
    """The process that started this one: Spark's driver, or its daemon, which ends with it."""
    parent = os.getppid()
    began = _began(parent)
    return None if began is None or parent == 1 else (socket.gethostname(), parent, began)


def _began(process: int) -> int | None:
    """When a process of this machine began, in ticks since the system did; None: it is not there, or nobody can tell."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def begin(files: Files, job: Job) -> None:
    """Make the job's staging directory, the path to it included. Raises KafkalogError."""
    path = f"{job.directory}/{OWNER}"
    for is_last in (False, True):
        try:
            make_directories(files, job.directory)
            if not files.exists(path):
                replace(files, path, [json.dumps({"owner": job.owner}).encode()])
        except KafkalogError:
            if is_last:
                raise
        else:
            return  # otherwise another job has removed the directory, which was empty still


@contextmanager
def holding(files: Files, root: str, *, patience: float = 0) -> Iterator[None]:
    """Hold the lock of the log dir, so that no broker starts there. Raises LogDirLocked after `patience` seconds."""
    until = time.monotonic() + patience
    while True:
        try:
            lock = locked(files, [root])
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


def read_manifest(files: Files, root: str) -> Manifest:
    """What was committed. Raises KafkalogError."""
    found = _read(files, f"{root}/{MANIFEST}")
    return Manifest() if found is None else Manifest(str(found.get("last", "")), dict(found.get("streams", {})))


def write_manifest(files: Files, root: str, manifest: Manifest) -> None:
    """The moment from which a commit holds."""
    text = json.dumps({"version": 1, "last": manifest.last, "streams": manifest.streams})
    replace(files, f"{root}/{MANIFEST}", [text.encode()])


def own_files(files: Files, root: str) -> dict[str, str | None]:
    """What the files of the log dir itself hold, for a journal. Raises KafkalogError, also for one that is too large."""
    paths = {kind.value: f"{root}/{kind.value}" for kind in _OWN}
    return {
        name: base64.b64encode(files.read(path, MAX_CHECKPOINT_SIZE)).decode() if files.exists(path) else None
        for name, path in paths.items()
    }  # fmt: skip


def write_journal(files: Files, job: Job, journal: Journal) -> None:
    """From here on a commit has to be finished or undone."""
    replace(files, f"{job.directory}/{JOURNAL}", [json.dumps(vars(journal)).encode()])


def _read(files: Files, path: str) -> dict[str, Any] | None:
    if not files.exists(path):
        return None
    try:
        found = json.loads(files.read(path, _LIMIT))
    except ValueError:
        raise KafkalogError(f"{path}: no JSON, though the sink writes nothing else there") from None
    if not isinstance(found, dict):
        raise KafkalogError(f"{path}: no object of JSON, though the sink writes nothing else there")
    return found


def clear_leftovers(files: Files, root: str, now: int, keep: Container[str] = ()) -> None:
    """Undo commits that were left half done, and remove what dead jobs staged. The lock must be held. Raises KafkalogError.

    A commit holds the lock: a journal that we find is of one that has ended, or never will, whether its job is alive or not.
    keep  jobs that are alive because they ask
    """
    staging = f"{root}/{STAGING}"
    if not files.exists(staging):
        return
    for name in files.list(staging):
        undo(files, Job(root, name, None), now)
        if name not in keep and not _is_alive(files, f"{staging}/{name}", now):
            clean_up(files, Job(root, name, None))
    _remove_empty(files, root)


def _is_alive(files: Files, directory: str, now: int) -> bool:
    if not files.list(directory):
        return False
    try:
        found = _read(files, f"{directory}/{OWNER}") or {}
    except KafkalogError:
        found = {}
    owner = found.get("owner")
    if isinstance(owner, list) and len(owner) == 3 and owner[0] == socket.gethostname():
        return bool(_began(owner[1]) == owner[2])
    return now - files.info(directory).modified_ms < _ABANDONED


def drop(files: Files, job: Job, now: int) -> None:
    """Remove what a job staged; a commit that did not come to its end is undone first, one that did is left alone."""
    undo(files, job, now)
    clean_up(files, job)


def undo(files: Files, job: Job, now: int) -> None:
    """Undo a commit that did not come to its end, if there is one."""
    found = _read(files, f"{job.directory}/{JOURNAL}")
    if found is not None:
        journal = Journal(**found)
        if read_manifest(files, job.root).last != journal.commit:
            roll_back(files, job, journal, now)
        files.remove(f"{job.directory}/{JOURNAL}")
        files.sync_directory(job.directory)


def clean_up(files: Files, job: Job) -> None:
    """Remove what a job staged, and the directory around it if no other job is there."""
    if files.exists(job.directory):
        remove_tree(files, job.directory, but=OWNER)  # which goes last: without it nobody knows whether the job is alive
        files.sync_directory(job.directory)
        remove_tree(files, job.directory)
    _remove_empty(files, job.root)


def _remove_empty(files: Files, root: str) -> None:
    staging = f"{root}/{STAGING}"
    if files.exists(staging) and not files.list(staging):
        files.remove_directory(staging)
        files.sync_directory(root)


def roll_back(files: Files, job: Job, journal: Journal, now: int) -> None:
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
    """Let the file at `path` hold again what a journal kept of it. That a file is gone again the caller brings to the disk."""
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
    log = open_log(files, directory, config, now=now, clean_shutdown=False, recovery_point=end)
    try:
        log.truncate_to(end, "a commit that did not come to its end")
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
