"""Restore what a command kept in a quarantine, byte for byte, and remove the files that the command created."""

from __future__ import annotations

import errno
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.discovery.names import file_name, is_at_or_below, parent_of
from engine.errors import KafkalogError, UnwritableFile, argument
from engine.files import acting_as_root, is_full, look
from engine.formats import LONG_MAX
from engine.log.quarantine.kept import made_after
from engine.log.quarantine.manifest import MANIFEST, MAX_KEPT_SIZE, PROGRESS, STORED, Do, Entry, Manifest, QuarantineDamaged
from engine.log.quarantine.quarantining_files import QuarantiningFiles
from engine.log.quarantine.stamps import Difference, changed_since, differences
from engine.log.quarantine.steps import Progress, ProgressNotes, read_progress, undo_order
from engine.log.quarantine.trusted_files import FORCED, read_trusted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import Files


def too_large(manifest: Manifest) -> dict[int, int]:
    """The entries that would make a file larger than it was: number → bytes.

    The old size is in the listing of the directory, until the command has made the file longer.
    """
    had = {directory: {name: stamp.size for name, stamp in files.items()} for directory, files in manifest.before.items()}
    found: dict[int, int] = {}
    for number, entry in enumerate(manifest.entries):
        if entry is None:
            continue
        path = entry.to if entry.do is Do.RENAME and entry.to is not None else entry.path  # the file whose bytes are stored
        size = (entry.size or 0) + (entry.position or 0)
        known = had.get(parent_of(path), {})
        # the listing may be wrong too; a removed file is renamed back, so it cannot get more bytes than it has
        limit = LONG_MAX if entry.do is Do.REMOVE else MAX_KEPT_SIZE
        if size > min(known.get(file_name(path), limit), limit):
            found[number] = size
        if entry.do is Do.RENAME:
            _rename(had, entry.path, path)
        elif entry.do is not Do.TIME:
            known.pop(file_name(path), None)  # later bytes in it are the command's own
    return found


def _rename(had: dict[str, dict[str, int]], path: str, to: str) -> None:
    for directory in [one for one in had if is_at_or_below(one, path)] if path in had else ():
        had[to + directory[len(path) :]] = had.pop(directory)
    had.get(parent_of(to), {}).pop(file_name(to), None)
    size = had.get(parent_of(path), {}).pop(file_name(path), None)
    if size is not None and parent_of(to) in had:
        had[parent_of(to)][file_name(to)] = size


_CHUNK = 1 << 20  # bytes at a time
_ASIDE = ".tmp"  # suffix of a file that is not complete yet
_MOST_LISTED = 10  # files that an error lists
_SALVAGE = "kafkalog restore --salvage {}    # undoes as much as possible and reports the rest"
_ROOM = "free some disk space, then run it again: kafkalog restore {}    # it continues where it stopped"
_FORCE = "kafkalog restore --force {}    # restores the old state anyway, and keeps the present files in a new quarantine"


class ChangedSince(KafkalogError):
    """The files were changed by others after the command that is to be undone."""

    code = "changed-since"


class Undone(NamedTuple):
    """One step of undoing.

    size   bytes that were restored
    other  the old name of a renamed file, or the name that a replaced file has again; None: neither
    """

    what: str
    path: str
    size: int
    other: str | None = None


class Restored(NamedTuple):
    """What `restore` did, in order.

    complete_before  everything was restored before already
    is_as_before     every file is as before the command, or was when everything had been restored
    skipped          changes that were not undone, and why: the quarantine itself is damaged
    differences      from the state before the command, in the directories that it changed
    aside            the quarantine that keeps files which were replaced or removed now; None: there were none
    """

    manifest: Manifest
    steps: list[Undone]
    complete_before: bool
    is_as_before: bool
    skipped: list[str]
    differences: list[Difference]
    aside: QuarantiningFiles | None = None


def restore(
    files: Files, directory: str, *, force: bool = False, salvage: bool = False, keep: bool = True, now: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> Restored:
    """Undo every change of the quarantine `directory`, from the last to the first.

    All stored bytes are checked first. After a crash, the next call continues where the last one stopped, unless others wrote
    to the files. The quarantine stays. progress(done, all) is called for each step.

    force    also overwrite what was changed since the command, and remove files that were created since
    salvage  undo as much as possible, although the manifest or stored files are damaged or missing
    keep     keep removed and replaced files in a new quarantine, created at `now` (ms), if more may be lost than what the
             command wrote: with `force`, and if the old state is not restored completely
    Raises QuarantineDamaged, ChangedSince before anything is changed; UnreadableFile, UnwritableFile.
    """
    manifest = read_trusted(files, directory, salvage=salvage)
    entries, order = list(manifest.entries), undo_order(manifest.entries)
    before = read_progress(files, directory)
    if before.steps > len(entries):
        return _complete(files, manifest, before)
    skipped: list[str] = []
    if not salvage:
        _check_finished(files, directory, manifest)
    if not before.is_begun or salvage:
        for number, problem in _stored_faults(files, directory, entries, order[before.steps :], before, too_large(manifest)):
            if not salvage:
                raise QuarantineDamaged(problem, do=_SALVAGE.format(argument(directory)))
            skipped.append(problem)
            entries[number] = None
    since = _changed_since(files, directory, manifest, order, before)
    if since and not force:
        raise _changed(directory, manifest, since)
    if since is None and not force:
        _refuse_later(files, directory, manifest)
    unproven = _unproven(manifest.entries, {one.path for one in since or ()})
    target = files
    if keep and (skipped or (force and (before.is_begun or since != []))):
        with acting_as_root():  # the owner of a log dir may lack the right to create files beside the quarantine
            target = QuarantiningFiles(files, _aside(files, directory), command="restore", now=now, log_dirs=manifest.log_dirs)
            target.make()
    try:
        undoing = _Undoing(target, directory, manifest, before, unproven, progress)
        left = undoing.run(entries, order, forget_new=force)
    except UnwritableFile as error:
        if not is_full(error):
            raise
        raise _without_room(error, directory, manifest) from error
    finally:
        if isinstance(target, QuarantiningFiles):
            target.finish()
    aside = target if isinstance(target, QuarantiningFiles) and target.is_used else None
    return Restored(manifest, undoing.steps, False, undoing.is_as_before, [*manifest.faults, *skipped], left, aside)


def _complete(files: Files, manifest: Manifest, before: Progress) -> Restored:
    """The result if everything was restored before. Changes that were skipped then are still reported."""
    if before.is_as_before:
        return Restored(manifest, [], True, True, [], [])
    skipped = before.skipped - 1  # the last note is not a change
    missing = [f"{count_of(skipped, 'change')}: the quarantine was damaged, or the file was changed before"] if skipped else []
    left = differences(files, manifest.before)
    return Restored(manifest, [], True, not (missing or manifest.faults or left), [*manifest.faults, *missing], left)


def _without_room(error: UnwritableFile, directory: str, manifest: Manifest) -> UnwritableFile:
    whole = manifest.left is not None and not manifest.faults
    return UnwritableFile(str(error), do=_ROOM.format(("" if whole else "--salvage ") + argument(directory)))


def _changed_since(
    files: Files, directory: str, manifest: Manifest, order: list[int], before: Progress
) -> list[Difference] | None:
    """What others changed since the command ended; None: not known, because the manifest has no last line.

    If restoring was begun before, files of undone entries, and of the next one, which may be half done, differ because of
    that: of these only files that are newer than the last step are returned.
    """
    if manifest.left is None:
        return None
    since = changed_since(files, manifest.left, manifest.before)
    if not before.is_begun:
        return since
    last_step = files.info(f"{directory}/{PROGRESS}").modified_ns
    done, following = order[: before.steps], order[before.steps : before.steps + 1]
    ours, half_done = (_paths([manifest.entries[number] for number in numbers]) for numbers in (done, following))
    found = [one for one in since if one.path not in ours | half_done]
    for path in sorted(ours - half_done):
        info = look(files, path)
        if info is not None and info.is_file and info.modified_ns > last_step:
            found.append(Difference(path, "written to", is_new=False))
    return found


def _unproven(entries: tuple[Entry | None, ...], changed: set[str]) -> dict[int, Difference]:
    """Entries that keep only the end of a file that others have changed since: number → difference. Its beginning may differ.

    changed  paths of files that differ from the state in which the command left them
    """
    found: dict[int, Difference] = {}
    kept_end: dict[str, tuple[int, str, int]] = {}  # by current path: its entry, its first path, bytes that are not kept
    for number, entry in enumerate(entries):
        if entry is None:
            continue
        known = kept_end.get(entry.path, (number, entry.path, 0))
        match entry.do:
            case Do.CUT | Do.GROW:
                kept_end[entry.path] = (number, known[1], (entry.position if entry.do is Do.CUT else entry.size) or 0)
            case Do.RENAME if entry.to is not None:
                kept_end.pop(entry.to, None)  # that file was kept completely
                for path in [path for path in kept_end if is_at_or_below(path, entry.path)]:
                    kept_end[entry.to + path[len(entry.path) :]] = kept_end.pop(path)
            case Do.REMOVE | Do.CREATE:
                kept_end.pop(entry.path, None)
            case _:
                pass
    for path, (number, first, size) in kept_end.items():
        if size and path in changed:
            what = f"its start ({count_of(size, 'byte')}) may differ: it was not kept, and the file was changed since"
            found[number] = Difference(first, what)
    return found


def _paths(entries: list[Entry | None]) -> set[str]:
    """The paths of the files of `entries`, before and after each change."""
    paths = {path for entry in entries if entry is not None for path in (entry.path, entry.to) if path is not None}
    return paths | {path + _ASIDE for path in paths}


class _Undoing:
    """One run of undoing. `steps`: what it did; `is_as_before`: at the end every file was as before the command."""

    def __init__(
        self, files: Files, directory: str, manifest: Manifest, before: Progress, unproven: dict[int, Difference],
        progress: Callable[[int, int], object] | None,
    ) -> None:  # fmt: skip
        self._files, self._directory, self._manifest, self._before = files, directory, manifest, before
        self._unproven = unproven
        self._progress = progress
        self.steps: list[Undone] = []
        self.is_as_before = False

    def run(self, entries: list[Entry | None], order: list[int], *, forget_new: bool) -> list[Difference]:
        """Undo the remaining entries, and record each step. Returns the differences from the old state.

        entries     None: damaged and left out        forget_new  also remove files that were created since the command
        """
        files, manifest = self._files, self._manifest
        with files.open_writable(f"{self._directory}/{PROGRESS}", create=True) as file:
            notes = ProgressNotes(file, self._before)
            skipped = self._before.skipped
            for done in range(self._before.steps, len(order)):
                number = order[done]
                entry = entries[number]
                step = None if entry is None else _undo(files, self._directory, entry)
                if step is not None:
                    self.steps.append(step)
                is_skipped = (entry is None and manifest.entries[number] is not None) or number in self._unproven
                skipped += is_skipped
                notes.done(is_undone=not is_skipped)
                if self._progress is not None:
                    self._progress(done + 1, len(order))
            self.steps += _without_new(files, manifest) if forget_new else ()
            left = differences(files, manifest.before)
            named = {one.path for one in left}
            left += [one for one in dict.fromkeys(self._unproven.values()) if one.path not in named]
            self.is_as_before = not (left or skipped or manifest.faults)
            notes.done(is_undone=self.is_as_before)
        return left


def _check_finished(files: Files, directory: str, manifest: Manifest) -> None:
    if manifest.left is not None and not manifest.faults:
        return
    named = {entry.stored for entry in manifest.entries if entry is not None}
    stored = files.list(f"{directory}/{STORED}") if files.exists(f"{directory}/{STORED}") else []
    files_without_offset = sum(name.removesuffix(".tmp") not in named for name in stored)
    whole = sum(entry is not None for entry in manifest.entries)
    why = "".join(f"{fault}; " for fault in manifest.faults)
    if manifest.left is None:
        why += f"its last line is missing: {manifest.command} was killed, or the file is cut off; "
    others = count_of(files_without_offset, "other file")
    what = f"{count_of(whole, 'change')} can be undone; the quarantine keeps {others}"
    raise QuarantineDamaged(f"{directory}/{MANIFEST}: {why}{what}", do=_SALVAGE.format(argument(directory)))


def _changed(directory: str, manifest: Manifest, since: list[Difference]) -> ChangedSince:
    first = since[0]
    more = "" if len(since) == 1 else f"; {len(since) - 1} more: {', '.join(one.path for one in since[1:_MOST_LISTED])}"
    more += ", …" if len(since) > _MOST_LISTED else ""
    what = f"{first.path}: {first.what} after {manifest.command} ended: this would be lost{more}"
    return ChangedSince(what, do=_FORCE.format(argument(directory)))


def _refuse_later(files: Files, directory: str, manifest: Manifest) -> None:
    """Raise ChangedSince if others changed something after a command that has not recorded how it left its files."""
    real = files.resolve(directory)
    later = [kept for kept in made_after(files, directory) if not f"{real}-".startswith(f"{kept.path}{FORCED}-")
             and not f"{kept.path}-".startswith(f"{real}{FORCED}-")]  # those keep files that `restore --force` replaced
    if later and any(entry is not None for entry in manifest.entries):
        path, command = later[0].path, later[0].command
        what = f"{directory}: {manifest.command} was stopped, and {path} keeps what {command} changed after it"
        raise ChangedSince(f"{what}: both states would be mixed", do=_FORCE.format(argument(directory)))


def _aside(files: Files, directory: str) -> str:
    """A free name for the quarantine of files that are replaced or removed now."""
    name = first = f"{directory}{FORCED}"
    number = 1
    while files.exists(name):
        number += 1
        name = f"{first}-{number}"
    return name


def _without_new(files: Files, manifest: Manifest) -> list[Undone]:
    """Remove the files that were created since the command."""
    new = [one.path for one in differences(files, manifest.before) if one.is_new]
    for path in new:
        files.remove(path)
    for parent in dict.fromkeys(map(parent_of, new)):
        files.sync_directory(parent)
    return [Undone("set aside", path, 0) for path in new]


def _stored_faults(
    files: Files, directory: str, entries: list[Entry | None], numbers: list[int], before: Progress,
    larger: dict[int, int],
) -> Iterator[tuple[int, str]]:
    """Yield (number of the entry, problem of its stored file) for the entries `numbers`, which are to be undone."""
    kept = f"{files.resolve(directory)}/{STORED}"
    last_named = _last_named(entries, numbers)
    for number in sorted(numbers):
        entry = entries[number]
        if entry is not None and number in larger:
            yield number, f"{directory}/{MANIFEST}: {entry.path} would get {larger[number]} bytes, more than it ever had"
            continue
        if entry is None or entry.stored is None:
            continue
        is_half_done = before.is_begun and number == numbers[0]
        path = f"{directory}/{STORED}/{entry.stored}"
        if not files.exists(path):
            names = _earlier_names(entries[:number], entry.path) if entry.do is Do.REMOVE else []
            if any(files.exists(name) and last_named.get(name, -1) < number for name in names):
                continue  # the file was never moved to the quarantine, or a power cut has undone that
            if is_half_done and entry.do is Do.RENAME and _is_moved_back(files, entry):
                continue
            yield number, f"{path}: missing, but the manifest needs it for {entry.path}"
        elif files.resolve(path) != f"{kept}/{entry.stored}":
            yield number, f"{path}: a link to {files.resolve(path)}, for {entry.path}"
        elif (info := files.info(path)).links > 1:
            own = f"cp -p {argument(path)} {argument(path)}.own && mv {argument(path)}.own {argument(path)}"
            yield number, (f"{path}: a hard link, which can change under another name, for {entry.path}; replace it with a "
                           f"copy: {own}")
        elif (size := info.size) != entry.size:
            yield number, f"{path}: {count_of(size, 'byte')} instead of {entry.size}, for {entry.path}"
        elif size > MAX_KEPT_SIZE:
            continue  # the file was renamed without being read
        elif _sha256(files, path) != entry.sha256:
            yield number, f"{path}: its SHA-256 is not the manifest's {entry.sha256}, for {entry.path}"


def _last_named(entries: list[Entry | None], numbers: list[int]) -> dict[str, int]:
    """By path: the last of the entries `numbers` that gave a new file this name."""
    last_named: dict[str, int] = {}
    for number in sorted(numbers):
        entry = entries[number]
        if entry is not None and entry.do is Do.CREATE:
            last_named[entry.path] = number
        elif entry is not None and entry.to is not None:
            last_named[entry.to] = number
    return last_named


def _is_moved_back(files: Files, entry: Entry) -> bool:
    """Do both files of a rename exist, the renamed one and the replaced one?"""
    return files.exists(entry.path) and entry.to is not None and files.exists(entry.to)


def _earlier_names(entries: list[Entry | None], path: str) -> list[str]:
    """`path`, and its earlier names before `entries` were done."""
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
    """Undo one entry; None: there was nothing to do. Repeating it changes nothing."""
    path, stored = entry.path, f"{directory}/{STORED}/{entry.stored}"
    parent = parent_of(path)
    match entry.do:
        case Do.CREATE:
            if not files.exists(path):
                return None
            files.remove(path)
            files.sync_directory(parent)
            return Undone("removed", path, 0)
        case Do.GROW | Do.TIME if not files.exists(path):
            return None  # the stored file is damaged, so the file was not restored
        case Do.GROW:
            assert entry.size is not None  # checked by `read_manifest`
            with files.open_writable(path) as file:
                file.truncate(min(entry.size, file.size()))  # never make it longer: the missing bytes are not known
                file.sync()
            _set_time(files, entry)
            return Undone("shortened", path, 0)
        case Do.CUT:
            assert entry.position is not None  # checked by `read_manifest`
            size = _put(files, stored, path, entry, entry.position)
            _set_time(files, entry)
            return Undone("put back", path, size)
        case Do.RENAME:
            return _undo_rename(files, entry, stored)
        case Do.REMOVE:
            if files.exists(path) or not files.exists(stored):
                return None
            _move(files, stored, path, entry)
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
        case Do.REFUSED | Do.LIST:  # `read_manifest` returns None for these
            return None


def _undo_rename(files: Files, entry: Entry, stored: str) -> Undone | None:
    assert entry.to is not None  # checked by `read_manifest`
    if not files.exists(entry.path) and files.exists(entry.to):
        files.rename(entry.to, entry.path)
    parents = [parent for parent in {parent_of(entry.path), parent_of(entry.to)} if files.exists(parent)]
    for parent in parents:  # sync before another file gets the name
        files.sync_directory(parent)
    if entry.stored is None:
        return Undone("renamed", entry.path, 0, entry.to)
    if files.exists(stored):
        _move(files, stored, entry.to, entry)
    elif not files.exists(entry.to):
        raise QuarantineDamaged(f"{stored}: missing, but the manifest needs it for {entry.to}")
    return Undone("put back", entry.to, entry.size or 0, entry.path)


def _set_time(files: Files, entry: Entry) -> None:
    if entry.modified_ns is not None:
        files.set_modified(entry.path, entry.modified_ns)


def _put(files: Files, stored: str, path: str, entry: Entry, position: int = 0) -> int:
    """Write the stored bytes of `entry` to `path` from `position` on, up to the new end of the file. Returns their size.

    A new name is on the disk only after a sync of its directory.
    """
    with files.open(stored) as source, files.open_writable(path, create=True, mode=entry.mode) as file:
        size, at = source.size(), 0
        file.truncate(position)
        file.truncate(position + size)
        while (start := source.next_data(at, size)) < size:  # do not write holes
            at = min(size, start + _CHUNK)
            files.copy(source, start, at, file, position + start)
        file.sync()
    return size


def _move(files: Files, stored: str, path: str, entry: Entry) -> None:
    """Rename `stored`, the file that was kept for `entry`, to `path`. Its modification time is set first, so that after a stop
    a file with the final name is complete.

    The file is copied if a rename would leave it with the quarantine's owner or another mode, or would cross file systems.
    """
    assert entry.modified_ns is not None  # checked by `read_manifest`
    kept = files.info(stored)
    try:
        is_ours = kept.owner == files.info(parent_of(path)).owner and kept.mode == entry.mode
        if is_ours and kept.modified_ns != entry.modified_ns:
            files.set_modified(stored, entry.modified_ns)
        if is_ours:
            files.rename(stored, path, replaces=True)
    except UnwritableFile as error:
        if getattr(error.__cause__, "errno", None) != errno.EXDEV:
            raise
        is_ours = False
    if not is_ours and kept.size > MAX_KEPT_SIZE:
        what = f"{stored}: {kept.size} bytes, too many to copy to {path}, and a rename is not possible"
        raise UnwritableFile(what, do=f"mv {argument(stored)} {argument(path)}    # then run restore again")
    if not is_ours:
        aside = path + _ASIDE  # renamed when it is complete
        _put(files, stored, aside, entry)
        files.set_modified(aside, entry.modified_ns)
        files.rename(aside, path, replaces=True)
    files.sync_directory(parent_of(path))
