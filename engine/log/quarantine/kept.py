"""Find quarantines, describe what each can undo and its size, and delete those that are no longer needed."""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.discovery.names import FileKind, file_name, parent_of, parse_partition_dir
from engine.discovery.paths import FOREIGN_DIRECTORIES, STAGING, half_commit, is_log_dir, undoable_since
from engine.discovery.paths import MANIFEST as SINK_MANIFEST
from engine.errors import KafkalogError, LogDirLocked, UnreadableFile, argument
from engine.files import ROOT, acting_as, is_root, look, owner_of
from engine.formats import LONG_MAX
from engine.log.quarantine.manifest import (
    LOCK,
    MANIFEST,
    PROGRESS,
    STORED,
    STORED_NAME,
    QuarantineDamaged,
    keeps_nothing,
    kept_names,
    read_summary,
)
from engine.log.quarantine.steps import read_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.files import Files, ReadOnlyFiles

SINK = "a write of Spark's sink"  # the command of a commit, whose files are in a staging directory
OBJECTS = "objects.jsonl"  # a file in a directory with objects of a store: see engine.remote.orphans
OBJECTS_VERSION = 1  # of that file
_OURS = frozenset((MANIFEST, PROGRESS, STORED, LOCK))
_CHUNK = 1 << 20  # bytes at a time
_DEPTH = 4  # levels of directories to search below a named one


class State(Enum):
    """The state of a quarantine."""

    WHOLE = "can be undone"
    UNFINISHED = "its command was stopped or is still running: its changes can be undone with --salvage"
    HALF_RESTORED = "restore was started but did not finish: run it again"
    RESTORED = "restored"
    INCOMPLETE = "restored in part: the files that it still keeps may be the only copy"
    DAMAGED = "damaged"
    HEADLESS = "its manifest is lost: restore cannot undo it, but the files that it keeps may be the only copy"
    EMPTY = "keeps nothing: its command was stopped before it changed anything"
    COMMITTED = "can be undone, as long as nothing is written to its partitions"
    OBJECTS = "objects of a store: restore puts them back"
    HALF_COMMITTED = "the commit was stopped or is still running: restore undoes it"


class Kept(NamedTuple):
    """An operation that `restore` can undo.

    path        of the quarantine; of an interrupted commit of Spark's sink the log dir, of a completed one its manifest
    created_ms  None: not known
    size        bytes of its files on the disk
    """

    path: str
    command: str
    created_ms: int | None
    log_dirs: tuple[str, ...]
    size: int
    state: State

    @property
    def is_undone(self) -> bool:
        """Is there nothing left to undo?"""
        return self.state in (State.RESTORED, State.EMPTY)


class NotPruned(KafkalogError):
    """A quarantine that was not deleted."""

    code = "not-pruned"


def is_quarantine(files: ReadOnlyFiles, directory: str) -> bool:
    """Does the directory contain a manifest?"""
    return files.exists(f"{directory}/{MANIFEST}")


def find_kept(files: ReadOnlyFiles, directories: Iterable[str], missed: Callable[[UnreadableFile], object]) -> list[Kept]:
    """Find quarantines in and below `directories`, and beside log dirs among them, and interrupted commits of Spark's sink.

    For a partition: quarantines beside its log dir that keep something of it.
    Sorted by path, without duplicates. Links are not followed. missed() is called for each unreadable directory; raises
    UnreadableFile if it is one of `directories` itself.
    """
    found: dict[str, Kept] = {}
    for directory in directories:
        partition = as_partition(files, directory)
        if partition is None or files.exists(directory):
            real = files.resolve(directory)
            siblings = _siblings(files, real, missed) if is_log_dir(files, real) or partition is not None else []
            for one in (real, *siblings):
                found |= {kept.path: kept for kept in _below(files, one, _DEPTH, missed)}
        if partition is not None:
            log_dir = files.resolve(parent_of(partition))
            for one in (log_dir, *_siblings(files, log_dir, missed)):
                found |= {kept.path: kept for kept in _below(files, one, 0, missed)
                          if _concerns(files, kept, log_dir, file_name(partition))}
    return [found[path] for path in sorted(found)]


def when_made(files: ReadOnlyFiles, path: str) -> tuple[int, int]:
    """When the operation that `path` undoes began (ms), and when its manifest was last written (ns); only for comparisons.

    path  as in `Kept`. An interrupted commit is later than everything else. Raises UnreadableFile.
    """
    if not is_quarantine(files, path):
        is_complete = file_name(path) == SINK_MANIFEST and files.exists(path)
        since = undoable_since(files, parent_of(files.absolute(path))) if is_complete else None
        return (LONG_MAX if since is None else since), 0
    modified_ns = files.info(f"{path}/{MANIFEST}").modified_ns
    try:
        return read_summary(files, path).created_ms, modified_ns
    except QuarantineDamaged:
        return modified_ns // 1_000_000, modified_ns


def log_dirs_of(files: ReadOnlyFiles, path: str) -> set[str]:
    """The log dirs of the operation that `path` undoes; links of existing ones are resolved."""
    if not files.exists(path):
        return set()
    if not is_quarantine(files, path):
        return {files.resolve(parent_of(files.absolute(path)) if file_name(path) == SINK_MANIFEST else path)}
    try:
        log_dirs = read_summary(files, path).log_dirs
    except QuarantineDamaged:
        return set()
    return {files.resolve(one) if files.exists(one) else one for one in log_dirs}


def made_after(files: ReadOnlyFiles, directory: str) -> list[Kept]:
    """Later operations in the log dirs of the quarantine `directory` that are not undone, the newest first."""
    def skip(_error: UnreadableFile) -> None:
        """Ignore an unreadable directory."""

    log_dirs, when = log_dirs_of(files, directory), when_made(files, directory)
    around = _directories(files, parent_of(files.resolve(directory)), skip)
    found = find_kept(files, [one for one in sorted(log_dirs) if files.exists(one)], skip)
    found += [kept for near in around for kept in _below(files, near, 0, skip)]
    later = {kept.path: kept for kept in found if when_made(files, kept.path) > when and not kept.is_undone
             and kept.state not in (State.DAMAGED, State.HEADLESS) and log_dirs & log_dirs_of(files, kept.path)}
    return sorted(later.values(), key=lambda kept: when_made(files, kept.path), reverse=True)


def left_unfinished(files: ReadOnlyFiles, log_dir: str, directory: str) -> list[Kept]:
    """The quarantines of interrupted commands beside `log_dir` and beside `directory`, the newest first."""
    def skip(_error: UnreadableFile) -> None:
        """Ignore an unreadable directory."""

    real = files.resolve(log_dir)
    directories = {*_siblings(files, real, skip), *_directories(files, parent_of(files.absolute(directory)), skip)}
    found = [kept for one in sorted(directories) if is_quarantine(files, one) for kept in _below(files, one, 0, skip)
             if kept.path != directory and kept.state is State.UNFINISHED and real in log_dirs_of(files, kept.path)]
    return sorted(found, key=lambda kept: when_made(files, kept.path), reverse=True)


def _siblings(files: ReadOnlyFiles, log_dir: str, missed: Callable[[UnreadableFile], object]) -> list[str]:
    """The directories beside a log dir whose names begin with the name of the log dir."""
    prefix = f"{file_name(log_dir)}."
    return [path for path in _directories(files, parent_of(log_dir), missed) if file_name(path).startswith(prefix)]


def as_partition(files: ReadOnlyFiles, path: str) -> str | None:
    """`path` made absolute if its name is a partition's, even if it no longer exists; else None."""
    absolute = files.absolute(path).rstrip("/")
    if parse_partition_dir(file_name(absolute)) is None or is_quarantine(files, absolute):
        return None
    return None if files.exists(absolute) and is_log_dir(files, absolute) else absolute


def _concerns(files: ReadOnlyFiles, kept: Kept, log_dir: str, partition: str) -> bool:
    """May the quarantine keep files of this partition of `log_dir`? A commit concerns the whole log dir."""
    if kept.state in (State.HALF_COMMITTED, State.DAMAGED, State.HEADLESS):
        return True
    if log_dir not in [files.resolve(one) if files.exists(one) else one for one in kept.log_dirs]:
        return False
    name = json.dumps(partition)[1:-1].encode()
    needles, before = (b"/" + name + b"/", b"/" + name + b'"'), b""
    with files.open(f"{kept.path}/{MANIFEST}") as file:
        at = 0
        while data := file.read(at, _CHUNK):
            if any(needle in before + data for needle in needles):
                return True
            at += len(data)
            before = data[-len(name) - 1 :]
    return False


def _directories(files: ReadOnlyFiles, directory: str, missed: Callable[[UnreadableFile], object]) -> list[str]:
    """The directories in `directory`, without links."""
    try:
        special = files.special(directory)
        paths = [f"{directory.rstrip('/')}/{name}" for name in files.list(directory) if name not in special]
        return [path for path in paths if (info := look(files, path)) is not None and info.is_directory]
    except UnreadableFile as error:
        missed(error)
        return []


def _below(files: ReadOnlyFiles, directory: str, depth: int, missed: Callable[[UnreadableFile], object]) -> Iterator[Kept]:
    try:
        is_one, kept = is_quarantine(files, directory) or _is_headless(files, directory), None
        if is_one:
            kept = describe(files, directory)
        elif files.exists(f"{directory}/{OBJECTS}"):
            is_one, kept = True, _describe_objects(files, directory)
        elif half_commit(files, directory) is not None:
            size = _size(files, f"{directory}/{STAGING}")
            kept = Kept(directory, SINK, None, (directory,), size, State.HALF_COMMITTED)
        elif (since := undoable_since(files, directory)) is not None:
            kept = Kept(f"{directory}/{SINK_MANIFEST}", SINK, since, (directory,), 0, State.COMMITTED)
    except UnreadableFile as error:  # of one directory; the search continues with the others
        missed(error)
        return
    if kept is not None:
        yield kept
    if not is_one and depth and parse_partition_dir(file_name(directory)) is None:
        for path in _directories(files, directory, missed):
            if file_name(path) not in (STAGING, *FOREIGN_DIRECTORIES):
                yield from _below(files, path, depth - 1, missed)


def _is_headless(files: ReadOnlyFiles, directory: str) -> bool:
    """Is it a quarantine without a manifest?"""
    return set(files.list(directory)) <= _OURS and bool(kept_names(files, directory))


def describe(files: ReadOnlyFiles, directory: str) -> Kept | None:
    """Describe the quarantine in `directory`; None: its manifest is not from kafkalog. Raises UnreadableFile."""
    size = _size(files, directory)
    if not is_quarantine(files, directory):
        return Kept(directory, "", None, (), size, State.HEADLESS)
    try:
        summary = read_summary(files, directory)
    except QuarantineDamaged:
        if keeps_nothing(files, directory):
            made_ms = files.info(f"{directory}/{MANIFEST}").modified_ns // 1_000_000
            return Kept(directory, "", made_ms, (), size, State.EMPTY)
        is_ours = set(files.list(directory)) <= _OURS and files.exists(f"{directory}/{STORED}")
        return Kept(directory, "", None, (), size, State.DAMAGED) if is_ours else None
    progress = read_progress(files, directory)
    if progress.steps > summary.entries:
        state = State.RESTORED if progress.is_as_before else State.INCOMPLETE
    elif progress.is_begun:
        state = State.HALF_RESTORED
    elif not summary.is_finished:
        state = State.UNFINISHED
    else:
        state = State.WHOLE if summary.is_whole else State.DAMAGED
    return Kept(directory, summary.command, summary.created_ms, summary.log_dirs, size, state)


def _describe_objects(files: ReadOnlyFiles, directory: str) -> Kept | None:
    """Describe the objects of a store in `directory`; None: their list is not from kafkalog. Raises UnreadableFile."""
    with files.open(f"{directory}/{OBJECTS}") as file:
        first, _, _ = file.read(0, _CHUNK).partition(b"\n")
    try:
        fields = json.loads(first)
        store, created_ms = str(fields["store"]), int(fields["created_ms"])
        is_known = fields["version"] == OBJECTS_VERSION
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    command = f"remote orphans --delete --store {argument(store)}"
    return Kept(directory, command, created_ms if is_known else None, (), _size(files, directory), State.OBJECTS)


def _size(files: ReadOnlyFiles, directory: str) -> int:
    """Bytes on the disk of the plain files in and below `directory`, without links."""
    total, directories = 0, [directory]
    for one in directories:  # the loop appends to the list
        special = files.special(one)
        for name in files.list(one):
            info = None if name in special else look(files, f"{one}/{name}")
            if info is not None and info.is_directory:
                directories.append(f"{one}/{name}")
            elif info is not None:
                total += info.used
    return total


@contextmanager
def in_use(files: Files, directory: str) -> Iterator[None]:
    """Lock the quarantine against restoring and deleting by others. Raises LogDirLocked, UnwritableFile."""
    try:
        lock = files.lock(f"{directory}/{LOCK}")
    except LogDirLocked as error:
        what = f"{directory}: another kafkalog process is restoring from it or deleting it"
        raise LogDirLocked(what, do="wait until it has finished") from error
    try:
        yield
    finally:
        lock.release()


def can_go(kept: Kept, before_ms: int) -> bool:
    """Was the quarantine begun before that time, and is it complete or undone, so that it may be deleted?"""
    is_needed = kept.state in (State.HALF_RESTORED, State.INCOMPLETE, State.HALF_COMMITTED, State.COMMITTED)
    return kept.created_ms is not None and kept.created_ms < before_ms and not is_needed


def prune(files: Files, directory: str, before_ms: int) -> int:
    """Delete the quarantine in `directory`, absolute and without links, its manifest last. Returns the bytes.

    Root acts with the rights of the quarantine's owner. If anything is unclear, the quarantine is left unchanged.
    Raises NotPruned, NotAllowed, LogDirLocked, UnreadableFile, UnwritableFile; after the last two a new call continues.
    """
    is_of_store = files.exists(f"{directory}/{OBJECTS}")
    describe_it, foreign_in = (_describe_objects, _foreign_objects) if is_of_store else (describe, _foreign)
    first = describe_it(files, directory)
    log_dirs = _log_dirs_in_use(files, first) if first is not None and first.state is State.UNFINISHED else []
    owner = owner_of(directory) if is_root() and files.info(directory).owner != ROOT else None
    stored = f"{directory}/{STORED}"
    with ExitStack() as held:  # from here on other users may replace any of the directories by a link
        held.enter_context(acting_as(owner, [directory, *log_dirs]))
        held.enter_context(files.held_for_deletion(directory))
        _refuse_foreign(directory, foreign_in(files, directory))
        keeps = files.exists(stored)
        if keeps:
            held.enter_context(files.held_open(stored))
            _refuse_foreign(directory, _foreign_stored(files, stored))
        held.enter_context(in_use(files, directory))
        kept = describe_it(files, directory)
        if kept is None or kept != first or not can_go(kept, before_ms):
            raise NotPruned(f"{directory}: it changed during the operation", do="kafkalog restore --list "
                                                                                f"{argument(directory)}")
        for log_dir in log_dirs:
            held.enter_context(_not_at_work(files, directory, log_dir))
        if keeps:
            for name in files.list(stored):
                files.remove(f"{stored}/{name}")
            files.remove_directory(stored)
        manifest = OBJECTS if is_of_store else MANIFEST
        stays = {manifest} if is_of_store else _OURS - {PROGRESS, LOCK}
        for name in sorted({PROGRESS, LOCK} | set(files.list(directory)) - stays):
            files.remove(f"{directory}/{name}")
        files.sync_directory(directory)
        files.remove(f"{directory}/{manifest}")
        files.remove_directory(directory)
    return kept.size


def _log_dirs_in_use(files: ReadOnlyFiles, kept: Kept) -> list[str]:
    """The existing log dirs that the command which writes a quarantine would have locked.

    A manifest may contain any path. Raises NotPruned for a directory of another user than the quarantine's owner.
    """
    user = files.info(kept.path).owner
    found = []
    for log_dir in kept.log_dirs:
        info = look(files, log_dir)
        if info is None:
            continue
        if not (log_dir.startswith("/") and info.is_directory and info.owner == user):
            what = (f"{kept.path}: its command may still be running in {log_dir}, which does not belong to the quarantine's "
                    "owner")
            raise NotPruned(what, do="inspect it and remove it by hand")
        found.append(log_dir)
    return found


@contextmanager
def _not_at_work(files: Files, directory: str, log_dir: str) -> Iterator[None]:
    """Raise NotPruned if the command that writes a quarantine may still run: it holds the lock of its log dir."""
    path = f"{log_dir}/{FileKind.LOCK.value}"
    if not files.exists(path):  # no process holds it
        yield
        return
    try:
        lock = files.lock(path)
    except LogDirLocked as error:
        what = f"{directory}: the command that fills it may still be running: {error}"
        raise NotPruned(what, do="run the command again when the log dir is free") from error
    try:
        yield
    finally:
        lock.release()


def _foreign(files: ReadOnlyFiles, directory: str) -> list[str]:
    """Files in a quarantine that kafkalog does not write, including those among the kept files."""
    special = files.special(directory)
    foreign = [f"{name} is {special.get(name, 'not a file name of a quarantine')}" for name in files.list(directory)
               if name in special or name not in _OURS]
    if not foreign and files.info(f"{directory}/{MANIFEST}").owner != files.info(directory).owner:
        foreign.append(f"{MANIFEST} belongs to another user than the directory")
    return foreign


def _foreign_objects(files: ReadOnlyFiles, directory: str) -> list[str]:
    """The same of objects of a store: one file for each line after the first, and one more if the command was stopped."""
    special, plain = files.special(directory), set(files.plain(directory))
    path = f"{directory}/{OBJECTS}"
    count, at = 0, 0
    with files.open(path) as file:
        while data := file.read(at, _CHUNK):
            count, at = count + data.count(b"\n"), at + len(data)
    foreign = []
    for name in files.list(directory):
        is_object = name.isdecimal() and name == f"{int(name):06d}" and 1 <= int(name) <= count
        if name in special or name not in plain:
            foreign.append(f"{name} is {special.get(name, 'a directory')}")
        elif name not in (OBJECTS, LOCK) and not is_object:
            foreign.append(f"{name} is not a file name of kept objects")
    if not foreign and files.info(path).owner != files.info(directory).owner:
        foreign.append(f"{OBJECTS} belongs to another user than the directory")
    return foreign


def _foreign_stored(files: ReadOnlyFiles, stored: str) -> list[str]:
    """Kept files that kafkalog does not write."""
    special, plain = files.special(stored), set(files.plain(stored))
    found: list[str] = []
    for name in files.list(stored):
        if name in special:
            found.append(f"{STORED}/{name} is {special[name]}")
        elif name not in plain:
            found.append(f"{STORED}/{name} is a directory")
        elif STORED_NAME.fullmatch(name) is None:
            found.append(f"{STORED}/{name} is not a file name of a quarantine")
    return found


def _refuse_foreign(directory: str, foreign: list[str]) -> None:
    """Raise NotPruned if `foreign` is not empty."""
    if foreign:
        more = f"; {count_of(len(foreign) - 1, 'more such file')}" if len(foreign) > 1 else ""
        what = f"{directory}: not deleted, because it contains files that kafkalog did not write: {foreign[0]}{more}"
        raise NotPruned(what, do="inspect these files, and move or remove them by hand; the targets of links are not touched")
