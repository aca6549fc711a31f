"""Undo the last complete commit of a log dir, if its partitions did not change afterwards.

Appended records are truncated, new partitions are removed. A commit that replaced partitions deleted the old ones: it cannot
be undone.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from engine.amounts import count_of
from engine.config.server import Settings
from engine.discovery.names import file_name, parse_partition_dir
from engine.discovery.paths import MANIFEST
from engine.errors import KafkalogError, argument
from engine.files import remove_tree
from engine.log.commits.staging import read_manifest, write_manifest
from engine.log.fetch.view import PartitionView
from engine.log.logdir.log_dirs import LogDir, PartitionPath, list_log_dir
from engine.log.logdir.log_manager import LogManager
from engine.log.logdir.startup import survey
from engine.log.operations.at_offset import Truncate
from engine.log.operations.operation import Operation, operate
from engine.log.segment.batch_search import last_head
from engine.log.session import OpenOptions

if TYPE_CHECKING:
    from engine.files import Files, ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.commits.state_files import Manifest
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.segment.log_segment import LogSegment

_BATCH_HEADER = 61  # bytes
_NUMBERS = 3  # of a partition, see Manifest.written
_MAX_NAME = 255  # bytes of a file name


class NotUndoable(KafkalogError):
    """A commit that cannot be undone without losing records that it did not write."""

    code = "not-undoable"


class Step(NamedTuple):
    """One step of undoing: truncate a partition.

    name     of the partition directory
    end      log end offset afterwards; −1: the commit created the partition, which is removed
    offsets  number of offsets that are removed
    """

    name: str
    end: int
    offsets: int


class LastCommit(NamedTuple):
    """The last commit, and the remaining steps to undo it."""

    manifest: Manifest
    steps: list[Step]


def log_end(files: ReadOnlyFiles, directory: str, *, is_sound: bool = True) -> tuple[int, int]:
    """Return (log end offset, CRC-32 of the header of the last batch). Raises UnreadableFile.

    is_sound  raise NotUndoable for a damaged end
    """
    found: list[Finding] = []
    view = PartitionView(files, directory, found.append)
    try:
        if is_sound and view.tail is not None:
            raise NotUndoable(f"{directory}: its end is damaged: {view.tail.what}", path=directory)
        mark = 0
        for segment in view.segments:
            head = segment.translate_offset(segment.offset_index.last_offset)
            last = None if head is None else last_head(segment.log_file, head.position, segment.size)
            if last is not None:
                mark = crc32(segment.log_file.read_exactly(last.position, min(_BATCH_HEADER, last.size)))
            segment.release_log()
        return view.log_end_offset, mark
    finally:
        view.close()


def last_commit(files: ReadOnlyFiles, root: str) -> LastCommit | None:
    """Return the commit to undo in the log dir `root`, whose lock the caller holds; None: nothing to undo.

    Raises NotUndoable if undoing would lose other records; KafkalogError.
    """
    manifest = read_manifest(files, root)
    if manifest.replaced:
        first, *others = manifest.replaced
        what = f"the last commit deleted the previous records of {first}{', …' if others else ''}: nothing can be restored"
        raise NotUndoable(f"{root}/{MANIFEST}: {what}")
    if not manifest.written:
        return None
    steps = []
    for name, numbers in sorted(manifest.written.items()):
        if "/" in name or parse_partition_dir(name) is None or len(numbers) != _NUMBERS:
            raise NotUndoable(f"{root}/{MANIFEST}: the entry {name!r} is invalid")
        before, after, mark = numbers
        end = _end_to_undo(files, f"{root}/{name}", before, after, None if manifest.undoing else mark)
        if end is not None:
            steps.append(Step(name, before, end - max(before, 0)))
    return LastCommit(manifest, steps)


def _end_to_undo(files: ReadOnlyFiles, directory: str, before: int, after: int, mark: int | None) -> int | None:
    """Return the log end offset, if the log is as the commit left it; None: nothing to undo.

    before, after  log end offset before and after the commit
    mark           CRC-32 of the header of the last batch; None: undoing has begun, and the log may end anywhere in between
    """
    if not files.exists(directory):
        if before < 0:
            return None
        raise NotUndoable(f"{directory}: the commit appended to it, and it no longer exists", path=directory)
    end, found = log_end(files, directory, is_sound=mark is not None)
    if end == before and mark is not None:
        return None
    first = f"{directory}: the commit left its end at offset {after}"
    look = f"kafkalog fetch --offset {max(before, 0)} {argument(directory)}    # what the commit and others wrote"
    if end > after:
        what = f"{first}, and {count_of(end - after, 'offset')} appended after it would be lost"
        raise NotUndoable(what, do=look, path=directory)
    if end < after and (mark is not None or end < before):
        raise NotUndoable(f"{first}, and it ends at offset {end} now: it was truncated since", do=look, path=directory)
    if found != mark and mark is not None:
        raise NotUndoable(f"{first}, and its last batch is another one: it was rewritten since", do=look, path=directory)
    start = _start(files, directory)
    if start > max(before, 0):
        what = f"{first}, and records before offset {start} were deleted since: a log cannot end at offset {before} then"
        raise NotUndoable(what, path=directory)
    return end


def _start(files: ReadOnlyFiles, directory: str) -> int:
    view = PartitionView(files, directory, lambda _finding: None)
    try:
        return view.log_start_offset
    finally:
        view.close()


def undo_last_commit(files: Files, root: str, commit: LastCommit, now: int) -> None:
    """Do the steps of `last_commit`. The caller holds the lock of the log dir. After a KafkalogError another call continues.

    files  a file system that keeps copies of what is removed
    """
    partitions = {step.name: _partition_path(root, step.name) for step in commit.steps}
    ends = {step.name: step.end for step in commit.steps if step.end >= 0}
    cluster = survey(files, [list_log_dir(files, root)])
    log_dir = LogDir(root, False, tuple(partitions[name] for name in ends), (), ())
    manager = LogManager(lambda _path: files, replace(cluster, log_dirs=(log_dir,)), Settings(), now)
    write_manifest(files, root, replace(commit.manifest, undoing=True))
    errors = [report.failure for report in operate(manager, OpenOptions(now=now), _TruncateEach(ends)) if report.failure]
    if errors:
        raise errors[0]
    new = [partition for name, partition in partitions.items() if name not in ends]
    LogManager(lambda _path: files, cluster, Settings(), now).forget(log_dir, {partition.key for partition in new})
    deleted = [f"{root}/{_deleted_name(partition)}" for partition in new]
    for partition, name in zip(new, deleted, strict=True):
        files.rename(partition.path, name)
    write_manifest(files, root, replace(commit.manifest, written={}, undoing=False))
    for name in deleted:  # writing the manifest synced the renames; after a stop here, a broker deletes the directories
        remove_tree(files, name)


class _TruncateEach(Operation):
    """Truncates each partition to its offset in `ends`, which is keyed by directory name."""

    name = "restore"

    def __init__(self, ends: dict[str, int]) -> None:
        self._ends = ends

    def truncates_to(self, partition: PartitionPath) -> int:
        return self._ends[file_name(partition.path)]

    def work(self, log: UnifiedLog) -> None:
        self._of(log).work(log)

    def deletes(self, log: UnifiedLog) -> list[LogSegment]:
        return self._of(log).deletes(log)

    def _of(self, log: UnifiedLog) -> Truncate:
        return Truncate(self._ends[file_name(log.directory)], fully=False)


def _partition_path(root: str, name: str) -> PartitionPath:
    parsed = parse_partition_dir(name)
    assert parsed is not None  # `last_commit` checked it
    return PartitionPath(f"{root}/{name}", root, parsed)


def _deleted_name(partition: PartitionPath) -> str:
    """Return a directory name that a broker deletes when it starts. Mirrors LocalLog.logDeleteDirName."""
    suffix = f"-{partition.name.partition}.{uuid.uuid4().hex}-delete"
    return partition.name.topic[: _MAX_NAME - len(suffix)] + suffix
