"""Which quarantines there are, what each of them can undo, how large it is; and deleting those that nobody needs any more."""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from engine.advice import argument
from engine.discovery import FOREIGN_DIRECTORIES
from engine.errors import KafkalogError, LogDirLocked, UnreadableFile
from engine.files import look, remove_tree
from engine.half_commits import STAGING, half_commit
from engine.layout import FileKind, file_name, parent_of, parse_partition_dir
from engine.log.quarantine.manifest import MANIFEST, PROGRESS, STORED, QuarantineDamaged, read_manifest
from engine.log.quarantine.steps import read_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.files import Files, ReadOnlyFiles

SINK = "a write of Spark's sink"  # the command whose commit a staging directory keeps
_LOCK = "lock"  # file in a quarantine: held by who restores from it or deletes it
_OURS = frozenset((MANIFEST, PROGRESS, STORED, _LOCK))
_STORED_NAME = re.compile(r"[0-9]{6,}-.+", re.DOTALL)
_DEPTH = 4  # directories between one that was named and the quarantines in it


class State(Enum):
    """What a quarantine is good for."""

    WHOLE = "can be undone"
    UNFINISHED = "its command was stopped, or still runs: what it did can be undone with --salvage"
    HALF_RESTORED = "restoring was begun: call it again"
    RESTORED = "was put back"
    INCOMPLETE = "was not put back whole: what it still keeps may be the only copy"
    DAMAGED = "damaged"
    HALF_COMMITTED = "the commit was stopped, or still runs: restore undoes it"


class Kept(NamedTuple):
    """Something that `restore` undoes.

    path        of the quarantine; of a commit of Spark's sink the log dir
    created_ms  None where nobody can tell
    size        bytes of its files
    """

    path: str
    command: str
    created_ms: int | None
    log_dirs: tuple[str, ...]
    size: int
    state: State


class NotPruned(KafkalogError):
    """A quarantine that is not deleted."""

    code = "not-pruned"


def is_quarantine(files: ReadOnlyFiles, directory: str) -> bool:
    """Does it hold a manifest?"""
    return files.exists(f"{directory}/{MANIFEST}")


def find_kept(files: ReadOnlyFiles, directories: Iterable[str], missed: Callable[[UnreadableFile], object]) -> list[Kept]:
    """Quarantines in and below `directories` and beside log dirs among them, and commits of Spark's sink that were stopped.

    In the order of their paths, each once. Links are not followed. missed() is told of each place that can not be looked into;
    raises UnreadableFile where that is one of `directories` itself.
    """
    found: dict[str, Kept] = {}
    for directory in directories:
        real = files.resolve(directory)
        places = [real]
        if _is_log_dir(files, real):
            beside = parent_of(real)
            prefix = f"{file_name(real)}."
            places += [path for path in _directories(files, beside, missed) if file_name(path).startswith(prefix)]
        for place in places:
            for kept in _below(files, place, _DEPTH, missed):
                found[kept.path] = kept
    return [found[path] for path in sorted(found)]


def _is_log_dir(files: ReadOnlyFiles, path: str) -> bool:
    names = files.list(path)
    return FileKind.META_PROPERTIES.value in names or any(parse_partition_dir(name) is not None for name in names)


def _directories(files: ReadOnlyFiles, directory: str, missed: Callable[[UnreadableFile], object]) -> list[str]:
    """The directories in it, without links."""
    try:
        special = files.special(directory)
        paths = [f"{directory.rstrip('/')}/{name}" for name in files.list(directory) if name not in special]
        return [path for path in paths if (info := look(files, path)) is not None and info.is_directory]
    except UnreadableFile as error:
        missed(error)
        return []


def _below(files: ReadOnlyFiles, directory: str, depth: int, missed: Callable[[UnreadableFile], object]) -> Iterator[Kept]:
    try:
        is_one, kept = is_quarantine(files, directory), None
        if is_one:
            kept = describe(files, directory)
        elif half_commit(files, directory) is not None:
            size = _size(files, f"{directory}/{STAGING}")
            kept = Kept(directory, SINK, None, (directory,), size, State.HALF_COMMITTED)
    except UnreadableFile as error:  # of one directory, which hides no other
        missed(error)
        return
    if kept is not None:
        yield kept
    if not is_one and depth and parse_partition_dir(file_name(directory)) is None:
        for path in _directories(files, directory, missed):
            if file_name(path) not in (STAGING, *FOREIGN_DIRECTORIES):
                yield from _below(files, path, depth - 1, missed)


def describe(files: ReadOnlyFiles, directory: str) -> Kept | None:
    """The quarantine in `directory`; None: its manifest is none of ours. Raises UnreadableFile."""
    size = _size(files, directory)
    try:
        manifest = read_manifest(files, directory, salvage=True)
    except QuarantineDamaged:
        is_ours = set(files.list(directory)) <= _OURS and files.exists(f"{directory}/{STORED}")
        return Kept(directory, "", None, (), size, State.DAMAGED) if is_ours else None
    progress = read_progress(files, directory)
    if progress.steps > len(manifest.entries):
        state = State.RESTORED if progress.is_as_before else State.INCOMPLETE
    elif progress.is_begun:
        state = State.HALF_RESTORED
    elif manifest.left is None:
        state = State.UNFINISHED
    else:
        state = State.DAMAGED if manifest.faults else State.WHOLE
    return Kept(directory, manifest.command, manifest.created_ms, manifest.log_dirs, size, state)


def _size(files: ReadOnlyFiles, directory: str) -> int:
    """Bytes of the plain files in `directory` and below, links left out."""
    total, directories = 0, [directory]
    for one in directories:  # which grows meanwhile
        special = files.special(one)
        for name in files.list(one):
            info = None if name in special else look(files, f"{one}/{name}")
            if info is not None and info.is_directory:
                directories.append(f"{one}/{name}")
            elif info is not None:
                total += info.size
    return total


@contextmanager
def in_use(files: Files, directory: str) -> Iterator[None]:
    """Keep others from restoring from the quarantine and from deleting it. Raises LogDirLocked, UnwritableFile."""
    try:
        lock = files.lock(f"{directory}/{_LOCK}")
    except LogDirLocked as error:
        what = f"{directory}: another kafkalog restores from it, or deletes it"
        raise LogDirLocked(what, do="wait until that is done") from error
    try:
        yield
    finally:
        lock.release()


def can_go(kept: Kept, before_ms: int) -> bool:
    """Is it a quarantine that was begun before that time, and that nobody needs for what is not put back yet?"""
    is_needed = kept.state in (State.HALF_RESTORED, State.INCOMPLETE, State.HALF_COMMITTED)
    return kept.created_ms is not None and kept.created_ms < before_ms and not is_needed


def prune(files: Files, directory: str, before_ms: int) -> int:
    """Delete the quarantine in `directory`, its manifest last → bytes. One that lets anything doubt is left as it is.

    Raises NotPruned, LogDirLocked, UnreadableFile, UnwritableFile; after the last two another call goes on.
    """
    _refuse_foreign(files, directory)
    with ExitStack() as held:
        held.enter_context(files.held_open(directory))  # also where others may exchange it for a link
        held.enter_context(in_use(files, directory))
        kept = describe(files, directory)
        if kept is None or not can_go(kept, before_ms):
            raise NotPruned(f"{directory}: it changed meanwhile", do=f"kafkalog restore --list {argument(directory)}")
        if kept.state is State.UNFINISHED:
            for log_dir in kept.log_dirs:
                if files.exists(log_dir):
                    held.enter_context(_not_at_work(files, directory, log_dir))
        remove_tree(files, f"{directory}/{STORED}")
        remove_tree(files, directory, but=MANIFEST)
        files.sync_directory(directory)
    remove_tree(files, directory)
    return kept.size


@contextmanager
def _not_at_work(files: Files, directory: str, log_dir: str) -> Iterator[None]:
    """Raise NotPruned where the command that fills a quarantine may still run: it holds the lock of its log dir."""
    try:
        lock = files.lock(f"{log_dir}/{FileKind.LOCK.value}")
    except LogDirLocked as error:
        what = f"{directory}: the command that fills it may still run: {error}"
        raise NotPruned(what, do="when the log dir is free: call it again") from error
    try:
        yield
    finally:
        lock.release()


def _refuse_foreign(files: ReadOnlyFiles, directory: str) -> None:
    """Raise NotPruned where anything lies in a quarantine that kafkalog does not put there."""
    foreign = [*files.special(directory), *(name for name in files.list(directory) if name not in _OURS)]
    stored = f"{directory}/{STORED}"
    if not foreign and files.exists(stored):
        special = files.special(stored)
        for name in files.list(stored):
            info = None if name in special else look(files, f"{stored}/{name}")
            if info is None or not info.is_file or _STORED_NAME.fullmatch(name) is None:
                foreign.append(f"{STORED}/{name}")
    if foreign:
        what = f"{directory}: kafkalog did not put {foreign[0]} there, and {len(foreign) - 1} more files"
        raise NotPruned(what, do="look at it, and remove it yourself")
