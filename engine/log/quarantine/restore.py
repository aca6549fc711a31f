"""Putting back what a command kept in a quarantine, byte for byte; files that it made are removed."""

from __future__ import annotations

import errno
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import KafkalogError, UnwritableFile
from engine.layout import parent_of
from engine.log.quarantine.manifest import STORED, Do, Entry, Manifest, QuarantineDamaged, read_manifest

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import Files, WritableFile

PROGRESS = "restored"  # file in the quarantine: a line for each entry that is undone, from the last to the first
_CHUNK = 1 << 20  # bytes at a time
_MAX_PROGRESS_SIZE = 1 << 26  # bytes


class ChangedSince(KafkalogError):
    """Somebody wrote to the files after the command that is to be undone."""

    code = "changed-since"


class Undone(NamedTuple):
    """A step back. `size`: bytes that were put back."""

    what: str
    path: str
    size: int


class Restored(NamedTuple):
    """What `restore` did, in order. `complete_before`: there was nothing left to do."""

    manifest: Manifest
    steps: list[Undone]
    complete_before: bool


def restore(
    files: Files, directory: str, *, force: bool = False, progress: Callable[[int, int], object] | None = None
) -> Restored:
    """Undo everything that the quarantine `directory` tells of, from the last change to the first.

    Everything stored is checked first. After a crash, the next call goes on where the last one stopped. The quarantine
    stays. progress(done, all) is called for each step. `force`: even over what was changed meanwhile.
    Raises QuarantineDamaged, ChangedSince before anything is changed; UnreadableFile, UnwritableFile.
    """
    manifest = read_manifest(files, directory)
    entries = manifest.entries
    undone = _undone(files, directory)
    if undone > len(entries):
        return Restored(manifest, [], True)
    steps: list[Undone] = []
    if undone == 0:
        _check_stored(files, directory, entries)
        if not force:
            _check_left(files, manifest)
    with files.open_writable(f"{directory}/{PROGRESS}", create=True) as done:
        files.sync_directory(directory)
        for number in range(undone, len(entries)):
            entry = entries[-1 - number]
            step = None if entry is None else _undo(files, directory, entry)
            if step is not None:
                steps.append(step)
            _note(done, number)
            if progress is not None:
                progress(number + 1, len(entries))
        _note(done, len(entries))
    return Restored(manifest, steps, False)


def _undone(files: Files, directory: str) -> int:
    """How many entries are undone; one more than there are, when the work is complete."""
    path = f"{directory}/{PROGRESS}"
    return files.read(path, _MAX_PROGRESS_SIZE).count(b"\n") if files.exists(path) else 0


def _note(done: WritableFile, number: int) -> None:
    done.write_at(2 * number, b".\n")
    done.sync()


def _check_stored(files: Files, directory: str, entries: tuple[Entry | None, ...]) -> None:
    for number, entry in enumerate(entries):
        if entry is None or entry.stored is None:
            continue
        path = f"{directory}/{STORED}/{entry.stored}"
        if not files.exists(path):
            if entry.do is Do.REMOVE and any(files.exists(name) for name in _earlier_names(entries[:number], entry.path)):
                continue  # it was about to be moved there, and never was; or a power cut undid that
            raise QuarantineDamaged(f"{path}: missing, but the manifest needs it")
        if _sha256(files, path) != entry.sha256:
            raise QuarantineDamaged(f"{path}: its SHA-256 is not the manifest's {entry.sha256}")


def _earlier_names(entries: tuple[Entry | None, ...], path: str) -> list[str]:
    """`path`, and what it was called before `entries` were done."""
    names = [path]
    for entry in reversed(entries):
        if entry is not None and entry.do is Do.RENAME and entry.to == names[-1]:
            names.append(entry.path)
    return names


def _sha256(files: Files, path: str) -> str:
    digest = sha256()
    with files.open(path) as file:
        at = 0
        while data := file.read(at, _CHUNK):
            digest.update(data)
            at += len(data)
    return digest.hexdigest()


def _check_left(files: Files, manifest: Manifest) -> None:
    for path, (size, modified_ms) in (manifest.left or {}).items():
        now = files.info(path) if files.exists(path) else None
        if now is None or (now.size, now.modified_ms) != (size, modified_ms):
            what = f"{path}: {'gone' if now is None else 'changed'} since {manifest.command} ended: it would be lost"
            raise ChangedSince(what, do="restore --force puts the old state back all the same")


def _undo(files: Files, directory: str, entry: Entry) -> Undone | None:
    """Undo one entry; None where there was nothing to do. Doing it twice in a row changes nothing."""
    path, stored = entry.path, f"{directory}/{STORED}/{entry.stored}"
    parent = parent_of(path)
    match entry.do:
        case Do.CREATE:
            if not files.exists(path):
                return None
            files.remove(path)
            files.sync_directory(parent)
            return Undone("removed", path, 0)
        case Do.GROW:
            assert entry.size is not None  # every such entry has it
            with files.open_writable(path) as file:
                file.truncate(entry.size)
                file.sync()
            _set_time(files, entry)
            return Undone("shortened", path, 0)
        case Do.CUT:
            assert entry.position is not None  # every such entry has it
            size = _put(files, stored, path, entry.position)
            _set_time(files, entry)
            return Undone("put back", path, size)
        case Do.RENAME:
            return _undo_rename(files, entry, stored)
        case Do.REMOVE:
            if files.exists(path) or not files.exists(stored):
                return None
            _move(files, stored, path)
            return Undone("put back", path, entry.size or 0)
        case Do.TIME:
            _set_time(files, entry)
            return None
        case Do.MAKE_DIRECTORY:
            if not files.exists(path):
                return None
            files.remove_directory(path)
            files.sync_directory(parent)
            return Undone("removed", path, 0)
        case Do.REMOVE_DIRECTORY:
            if files.exists(path):
                return None
            files.make_directory(path)
            files.sync_directory(parent)
            return Undone("put back", path, 0)
        case Do.REFUSED:  # none is left by the reading of the manifest
            return None


def _undo_rename(files: Files, entry: Entry, stored: str) -> Undone | None:
    assert entry.to is not None  # every such entry has it
    is_done = not files.exists(entry.path)
    if is_done and files.exists(entry.to):
        files.rename(entry.to, entry.path)
    if entry.stored is not None:
        _put(files, stored, entry.to, 0)
        files.set_modified(entry.to, entry.modified_ms or 0)
    for parent in {parent_of(entry.path), parent_of(entry.to)}:
        if files.exists(parent):
            files.sync_directory(parent)
    return Undone("put back", entry.to, entry.size or 0) if entry.stored else Undone("renamed", entry.path, 0)


def _set_time(files: Files, entry: Entry) -> None:
    if entry.modified_ms is not None:
        files.set_modified(entry.path, entry.modified_ms)


def _put(files: Files, stored: str, path: str, position: int) -> int:
    """Write what is stored into `path` from `position` on, where the file then ends; returns its size."""
    with files.open(stored) as source, files.open_writable(path, create=True) as file:
        size = source.size()
        file.truncate(position)
        files.copy(source, 0, size, file, position)
        file.sync()
    files.sync_directory(parent_of(path))
    return size


def _move(files: Files, stored: str, path: str) -> None:
    try:
        files.rename(stored, path)
    except UnwritableFile as error:
        if getattr(error.__cause__, "errno", None) != errno.EXDEV:
            raise
        aside = path + ".tmp"  # the file has its name only when it is whole
        modified_ms = files.info(stored).modified_ms
        _put(files, stored, aside, 0)
        files.set_modified(aside, modified_ms)
        files.rename(aside, path)
    files.sync_directory(parent_of(path))
