"""Putting back what a command kept in a quarantine, byte for byte; files that it made are removed."""

from __future__ import annotations

import errno
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from engine.advice import argument
from engine.errors import KafkalogError, UnwritableFile
from engine.files import look
from engine.layout import parent_of
from engine.log.quarantine.manifest import MANIFEST, STORED, Do, Entry, Manifest, QuarantineDamaged
from engine.log.quarantine.places import FORCED, read_trusted
from engine.log.quarantine.seam import QuarantiningFiles
from engine.log.quarantine.stamps import Difference, changed_since, differences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import Files, WritableFile

PROGRESS = "restored"  # file in the quarantine: a line for each entry that is undone, from the last to the first
_CHUNK = 1 << 20  # bytes at a time
_MAX_PROGRESS_SIZE = 1 << 26  # bytes
_ASIDE = ".tmp"  # ends the name of a file that is not whole yet
_NAMED = 10  # files that an error names
_SALVAGE = "kafkalog restore --salvage {}    # undoes what can be undone, and says what is not"
_FORCE = "kafkalog restore --force {}    # puts the old state back all the same, and keeps these in a new quarantine"


class ChangedSince(KafkalogError):
    """Somebody wrote to the files after the command that is to be undone."""

    code = "changed-since"


class Undone(NamedTuple):
    """A step back. `size`: bytes that were put back."""

    what: str
    path: str
    size: int


class Restored(NamedTuple):
    """What `restore` did, in order.

    complete_before  there was nothing left to do
    skipped          what was not put back, and why: the quarantine itself is damaged
    differences      what is not as it was before the command, in the directories that it changed
    aside            the quarantine that keeps what stood in the way; None: nothing did
    """

    manifest: Manifest
    steps: list[Undone]
    complete_before: bool
    skipped: list[str]
    differences: list[Difference]
    aside: QuarantiningFiles | None = None


def restore(
    files: Files, directory: str, *, force: bool = False, salvage: bool = False, keep: bool = True, now: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> Restored:
    """Undo everything that the quarantine `directory` tells of, from the last change to the first.

    Everything stored is checked first. After a crash, the next call goes on where the last one stopped, unless others wrote
    since. The quarantine stays. progress(done, all) is called for each step.

    force    over what was changed meanwhile as well, and without the files that came since: with `keep` all of that goes
             to a quarantine of its own, `now` (ms) is when it was made
    salvage  undo what can be undone, though the manifest or what is stored is damaged or not complete
    Raises QuarantineDamaged, ChangedSince before anything is changed; UnreadableFile, UnwritableFile.
    """
    manifest = read_trusted(files, directory, salvage=salvage)
    entries = list(manifest.entries)
    is_begun = files.exists(f"{directory}/{PROGRESS}")
    undone = _undone(files, directory) if is_begun else 0
    skipped: list[str] = []
    if not salvage:
        _check_finished(files, directory, manifest)
    if not is_begun or salvage:
        for number, problem in _stored_faults(files, directory, entries[: max(0, len(entries) - undone)]):
            if not salvage:
                raise QuarantineDamaged(problem, do=_SALVAGE.format(argument(directory)))
            skipped.append(problem)
            entries[number] = None
    since = None if undone > len(entries) else _changed_since(files, directory, manifest, undone if is_begun else None)
    if since and not force:
        raise _changed(directory, manifest, since)
    seam = files
    if force and keep and (is_begun or since != []):
        seam = QuarantiningFiles(files, _aside(files, directory), command="restore", now=now, log_dirs=manifest.log_dirs)
    try:
        steps = _undo_all(seam, directory, manifest, entries, undone, progress, forget_new=force)
    finally:
        if isinstance(seam, QuarantiningFiles):
            seam.finish()
    left = differences(files, manifest.before)
    aside = seam if isinstance(seam, QuarantiningFiles) and seam.is_used else None
    return Restored(manifest, steps, undone > len(entries), [*manifest.faults, *skipped], left, aside)


def _changed_since(files: Files, directory: str, manifest: Manifest, undone: int | None) -> list[Difference] | None:
    """What others changed since the command ended; None: nobody can tell, for it does not say how it left its files.

    undone  so many entries were undone before; None: the work was not begun. What they changed, and the one behind them,
            which may be half done, is not as the command left it: of that counts what is younger than the last step.
    """
    if manifest.left is None:
        return None
    since = changed_since(files, manifest.left, manifest.before)
    if undone is None:
        return since
    last_step = files.info(f"{directory}/{PROGRESS}").modified_ms
    backwards = manifest.entries[::-1]
    ours, half_done = _paths(backwards[:undone]), _paths(backwards[undone : undone + 1])
    found = [one for one in since if one.path not in ours | half_done]
    for path in sorted(ours - half_done):
        info = look(files, path)
        if info is not None and info.is_file and info.modified_ms > last_step:
            found.append(Difference(path, "written to", is_new=False))
    return found


def _paths(entries: tuple[Entry | None, ...]) -> set[str]:
    """The files that `entries` are about, and where each is on its way back."""
    paths = {path for entry in entries if entry is not None for path in (entry.path, entry.to) if path is not None}
    return paths | {path + _ASIDE for path in paths}


def _undo_all(
    files: Files, directory: str, manifest: Manifest, entries: list[Entry | None], undone: int,
    progress: Callable[[int, int], object] | None, *, forget_new: bool,
) -> list[Undone]:
    """Undo the entries from the last one on, without the first `undone` steps, and note each step that is done.

    entries     None: what is damaged and left out        forget_new  remove the files that came since, too
    """
    steps: list[Undone] = []
    if undone > len(entries):
        return steps
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
        steps += _without_new(files, manifest) if forget_new else ()
        _note(done, len(entries))
    return steps


def _check_finished(files: Files, directory: str, manifest: Manifest) -> None:
    if manifest.left is not None and not manifest.faults:
        return
    named = {entry.stored for entry in manifest.entries if entry is not None}
    stored = files.list(f"{directory}/{STORED}") if files.exists(f"{directory}/{STORED}") else []
    nameless = sum(name.removesuffix(".tmp") not in named for name in stored)
    whole = sum(entry is not None for entry in manifest.entries)
    why = "".join(f"{fault}; " for fault in manifest.faults)
    if manifest.left is None:
        why += f"it lacks its last line: {manifest.command} was killed, or the file is cut off; "
    what = f"{whole} changes can be undone, {nameless} of the files kept belong to none of them"
    raise QuarantineDamaged(f"{directory}/{MANIFEST}: {why}{what}", do=_SALVAGE.format(argument(directory)))


def _changed(directory: str, manifest: Manifest, since: list[Difference]) -> ChangedSince:
    first = since[0]
    more = "" if len(since) == 1 else f"; {len(since) - 1} more: {', '.join(one.path for one in since[1:_NAMED])}"
    more += ", …" if len(since) > _NAMED else ""
    what = f"{first.path}: {first.what} since {manifest.command} ended: it would be lost{more}"
    return ChangedSince(what, do=_FORCE.format(argument(directory)))


def _aside(files: Files, directory: str) -> str:
    """A name for the quarantine of what stands in the way."""
    name = first = f"{directory}{FORCED}"
    number = 1
    while files.exists(name):
        number += 1
        name = f"{first}-{number}"
    return name


def _without_new(files: Files, manifest: Manifest) -> list[Undone]:
    """Take away the files that came into being since."""
    new = [one.path for one in differences(files, manifest.before) if one.is_new]
    for path in new:
        files.remove(path)
    for parent in dict.fromkeys(map(parent_of, new)):
        files.sync_directory(parent)
    return [Undone("set aside", path, 0) for path in new]


def _undone(files: Files, directory: str) -> int:
    """How many entries are undone; one more than there are, when the work is complete."""
    return files.read(f"{directory}/{PROGRESS}", _MAX_PROGRESS_SIZE).count(b"\n")


def _note(done: WritableFile, number: int) -> None:
    done.write_at(2 * number, b".\n")
    done.sync()


def _stored_faults(files: Files, directory: str, entries: list[Entry | None]) -> Iterator[tuple[int, str]]:
    """(number of the entry, what is wrong with the file that it needs)."""
    for number, entry in enumerate(entries):
        if entry is None or entry.stored is None:
            continue
        path = f"{directory}/{STORED}/{entry.stored}"
        if not files.exists(path):
            if entry.do is Do.REMOVE and any(files.exists(name) for name in _earlier_names(entries[:number], entry.path)):
                continue  # it was about to be moved there, and never was; or a power cut undid that
            yield number, f"{path}: missing, but the manifest needs it for {entry.path}"
        elif _sha256(files, path) != entry.sha256:
            yield number, f"{path}: its SHA-256 is not the manifest's {entry.sha256}, for {entry.path}"


def _earlier_names(entries: list[Entry | None], path: str) -> list[str]:
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
            assert entry.size is not None  # `read_manifest` sees to it
            with files.open_writable(path) as file:
                file.truncate(entry.size)
                file.sync()
            _set_time(files, entry)
            return Undone("shortened", path, 0)
        case Do.CUT:
            assert entry.position is not None  # `read_manifest` sees to it
            size = _put(files, stored, path, entry.position)
            _set_time(files, entry)
            return Undone("put back", path, size)
        case Do.RENAME:
            return _undo_rename(files, entry, stored)
        case Do.REMOVE:
            if files.exists(path) or not files.exists(stored):
                return None
            assert entry.modified_ms is not None  # `read_manifest` sees to it
            _move(files, stored, path, entry.modified_ms)
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
        case Do.REFUSED | Do.LIST:  # none is left by the reading of the manifest
            return None


def _undo_rename(files: Files, entry: Entry, stored: str) -> Undone | None:
    assert entry.to is not None  # `read_manifest` sees to it
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
    """Write what is stored into `path` from `position` on, where the file then ends; returns its size.

    A name that is new by this is on the disk only after a sync of its directory.
    """
    with files.open(stored) as source, files.open_writable(path, create=True) as file:
        size = source.size()
        file.truncate(position)
        files.copy(source, 0, size, file, position)
        file.sync()
    return size


def _move(files: Files, stored: str, path: str, modified_ms: int) -> None:
    """Give `stored` the name `path`. It has its time before it has its name: who goes on after a stop finds it done."""
    try:
        if files.info(stored).modified_ms != modified_ms:  # somebody copied the quarantine
            files.set_modified(stored, modified_ms)
        files.rename(stored, path, replaces=True)
    except UnwritableFile as error:
        if getattr(error.__cause__, "errno", None) != errno.EXDEV:
            raise
        aside = path + _ASIDE  # the file has its name only when it is whole
        _put(files, stored, aside, 0)
        files.set_modified(aside, modified_ms)
        files.rename(aside, path, replaces=True)
    files.sync_directory(parent_of(path))
