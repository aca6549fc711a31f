"""A file system that keeps what it changes, so that a repair can be undone byte for byte (see `restore`).

Other modules use it like any file system. Before old bytes of a file are removed, overwritten or replaced, they are copied to
the quarantine; a removed file is moved there. New files are not kept, only recorded.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager, suppress
from hashlib import sha256
from threading import RLock
from typing import TYPE_CHECKING, Any

from engine.discovery.names import is_at_or_below, parent_of
from engine.errors import UnwritableFile, UsageError, argument
from engine.files import FileInfo, Files, OpenFile, WritableFile, is_full, look, remove_tree
from engine.files.layered import FilesAbove
from engine.log.quarantine.manifest import MANIFEST, MAX_KEPT_SIZE, STORED, Do, Entry, ManifestWriter
from engine.log.quarantine.stamps import Stamp, list_files, stamp_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.files import Buffer

_CHUNK = 256 * 1024  # bytes copied at a time
_ZEROS = bytes(_CHUNK)
_NEEDED = (Do.CUT, Do.TIME, Do.MAKE_DIRECTORY, Do.REMOVE_DIRECTORY)  # changes that sizes and names do not show
_ROOM = "free some space there, or keep the quarantine on another disk: --quarantine DIR"
_FEW = 64 * 1024  # kept bytes that are compared with the final files


class _State:
    """The state of a file that was opened for writing.

    path     its current path
    intact   number of old bytes at its start that are unchanged; None until it is changed
    is_new   nothing of it needs to be kept: the command has created it, or it is kept already
    is_kept  it is in the quarantine: later writes to it are ignored
    """

    __slots__ = ("intact", "is_kept", "is_new", "path")

    def __init__(self, path: str, *, is_new: bool) -> None:
        self.path, self.is_new = path, is_new
        self.intact: int | None = None
        self.is_kept = False


class QuarantinedFile(WritableFile):
    """A file open for reading and writing. Its old bytes are kept before they change."""

    __slots__ = ("_files", "_state", "below")

    def __init__(self, files: QuarantiningFiles, below: WritableFile, state: _State) -> None:
        super().__init__(below.path, -1)
        self._files, self.below, self._state = files, below, state

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        self.below.close()

    def size(self) -> int:
        """The current size in bytes."""
        return self.below.size()

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from byte `position`. Returns the number of bytes read."""
        return self.below.read_into(buffer, position)

    def next_data(self, position: int, end: int) -> int:
        """The first byte from `position` on that is not in a hole of the file; `end`: there is none before it."""
        return self.below.next_data(position, end)

    def write_at(self, position: int, *parts: Buffer) -> None:
        """Write all of `parts`, one after the other, from byte `position` on. Raises UnwritableFile."""
        if self.prepare(position):
            self.below.write_at(position, *parts)

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes, or lengthen it with zeros. Raises UnwritableFile."""
        if size != self.below.size() and self.prepare(size):
            self.below.truncate(size)

    def sync(self) -> None:
        """Wait until the file's bytes and size are on the disk. Raises UnwritableFile."""
        self.below.sync()

    def prepare(self, position: int) -> bool:
        """Keep the old bytes from `position` on before they change. False: the change must not be made, see `is_kept`."""
        state = self._state
        if not state.is_new and position >= 0:
            self._files.keep(self.below, state, position)
        return not state.is_kept


class QuarantiningFiles(FilesAbove):
    """`below` with a quarantine.

    directory  the quarantine; created with its manifest before the first change. Raises UsageError if it exists
    log_dirs   whose files will be changed: they are locked when the changes are undone
    is_rehearsal  `below` is an overlay that is discarded: kept bytes need no checksum
    Methods are those of Files. May be used by several threads that work on different partitions.
    """

    def __init__(
        self, below: Files, directory: str, *, command: str, now: int, log_dirs: tuple[str, ...] = (),
        is_rehearsal: bool = False,
    ) -> None:  # fmt: skip
        if below.exists(directory):
            do = f"choose another name; kafkalog restore --list {argument(directory)} shows whether it keeps anything"
            raise UsageError(f"{directory}: already exists; a quarantine needs a new directory", do=do)
        super().__init__(below)
        self.directory = below.absolute(directory)
        self._about = (command, now, tuple(below.absolute(path) for path in log_dirs))
        self._is_rehearsal = is_rehearsal
        self._lock = RLock()
        self._manifest: ManifestWriter | None = None
        self._is_begun = False  # may the directory exist?
        self._is_placed = False  # is its name on the disk?
        self._states: dict[str, _State] = {}
        self._listed: dict[str, dict[str, Stamp]] = {}  # by directory: the state of its files before the first change
        self._kept_whole: dict[str, tuple[int, str]] = {}  # (size, SHA-256) of files that are kept completely
        self._is_needed = False  # was anything changed that only this quarantine can undo?
        self._made: list[str] = []  # directories that are new or were renamed
        self._moved: set[str] = set()  # files whose move into the quarantine may not be synced yet
        self._stored = 0
        self.stored_size = 0
        self.is_whole = False  # was the last line of the manifest written?

    @property
    def keeps(self) -> bool:
        """As Files does: yes."""
        return True

    def note_made(self, directory: str) -> None:
        """Record a directory that the command created before the first change: undoing removes it. Raises UnwritableFile."""
        full = self._full_path(directory)
        self._note(Entry(Do.MAKE_DIRECTORY, full))
        self._made.append(full)

    def make(self) -> None:
        """Create the directory before anything is changed; `finish` removes it if nothing was. Raises UnwritableFile.

        Only root may be able to create it for the owner of a log dir, and only before the work begins.
        """
        self._is_begun = True
        self._is_placed = self._below.make_own_directory(self.directory)

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """The log dirs whose files are changed."""
        return self._about[2]

    @property
    def is_used(self) -> bool:
        """Was anything changed?"""
        return self._manifest is not None

    def finish(self) -> None:
        """Record the final state, so that `restore` can detect later changes. Call it last.

        If every file has its old bytes again (for example a marker that was removed and restored), the old modification times
        are set too, and the quarantine is removed.
        """
        if self._manifest is None:
            if self._is_begun:  # the command stopped before its first change
                remove_tree(self._below, self.directory)
            return
        before: dict[str, Stamp] = {}
        left: dict[str, Stamp] = {}
        for directory, files in self._listed.items():
            before |= {f"{directory}/{name}": stamp for name, stamp in files.items()}
            left |= {f"{directory}/{name}": stamp for name, stamp in list_files(self._below, directory).items()}
        if self._is_as_before(before, left):
            self._drop({path: stamp.modified_ns for path, stamp in before.items() if left[path] != stamp})
            return
        for path in self._states.keys() - left.keys():
            if self._below.exists(path):
                left[path] = stamp_of(self._below.info(path))
        self._manifest.close(left)
        self.is_whole = True

    def _is_as_before(self, before: dict[str, Stamp], left: dict[str, Stamp]) -> bool:
        """Has every file its old bytes? `before` and `left`: all files of the directories in which something was changed."""
        if self._is_needed or self.stored_size > _FEW or before.keys() != left.keys():
            return False
        if any((left[path].size, left[path].mode) != (stamp.size, stamp.mode) for path, stamp in before.items()):
            return False
        for path, (size, digest) in self._kept_whole.items():
            if path not in left or left[path].size != size:
                return False
            with self._below.open(path) as file:
                if _hash(file, 0, size) != digest:
                    return False
        return True

    def _drop(self, modified: dict[str, int]) -> None:
        """Restore times and remove the quarantine; first the entries of its manifest, which refer to its files."""
        assert self._manifest is not None
        for path, modified_ns in modified.items():
            self._below.set_modified(path, modified_ns)
        self._manifest.forget()
        self._manifest = None
        for name in self._below.list(f"{self.directory}/{STORED}"):
            self._below.remove(f"{self.directory}/{STORED}/{name}")
        self._below.remove(f"{self.directory}/{MANIFEST}")
        remove_tree(self._below, self.directory)
        self.stored_size = 0

    # ---- changes

    def open_writable(self, path: str, *, create: bool = False, mode: int | None = None) -> WritableFile:
        """See Files; a new file is recorded."""
        full = self._full_path(path)
        is_new = create and not self._below.exists(path)
        entry = Entry(Do.CREATE, full) if is_new else None
        if is_new:
            self._sync_moves(full)
        with self._noted(entry):
            file = self._below.open_writable(path, create=create, mode=mode)
        with self._lock:
            if is_new or full not in self._states:
                self._states[full] = _State(full, is_new=is_new)
            return QuarantinedFile(self, file, self._states[full])

    def rename(self, path: str, to: str, *, replaces: bool = False) -> None:
        """See Files; a replaced file is kept."""
        full, target = self._full_path(path), self._full_path(to)
        if full == target or not self._below.exists(path) or not (replaces or self._is_free(to)):
            self._below.rename(path, to, replaces=replaces)
            return
        there = self._below.info(to) if self._below.exists(to) else None
        old = self._states.get(target)
        if there is not None and there.size > MAX_KEPT_SIZE and (old is None or not old.is_new):
            self._move_aside(to, target, old)
            there = None
        self._sync_moves(target)
        replaced: dict[str, Any] = {}
        is_directory = self._below.info(path).is_directory
        if there is not None and not there.is_directory and (old is None or not old.is_new):
            replaced = self._copy(to, target, 0, there)
            self._kept_whole.setdefault(target, (there.size, replaced["sha256"]))
        ours = self._states.get(full)
        if is_directory or ours is None or not ours.is_new:
            self._is_needed = True
        empty = Entry(Do.REMOVE_DIRECTORY, target) if there is not None and there.is_directory else None
        with self._noted(empty), self._noted(Entry(Do.RENAME, full, target, **replaced)):
            self._below.rename(path, to, replaces=replaces)
        with self._lock:
            if old is not None:
                old.is_new = True
                del self._states[target]
            if is_directory:
                self._made.append(target)
            moved = [known for known in self._states if known.startswith(full + "/")] if is_directory else [full]
            for known in moved:
                if known not in self._states:
                    continue
                state = self._states.pop(known)
                state.path = target + known[len(full) :]
                self._states[state.path] = state

    def _is_free(self, path: str) -> bool:
        """Is there no file at `path` that a rename would replace?"""
        return not self._below.exists(path) or self._below.info(path).is_directory

    def remove(self, path: str) -> None:
        """See Files; an old file is moved into the quarantine."""
        full = self._full_path(path)
        state = self._states.get(full)
        if self._below.exists(path) and not self._below.info(path).is_directory and (state is None or not state.is_new):
            self._move_aside(path, full, state)
        else:
            self._below.remove(path)
        with self._lock:
            self._states.pop(full, None)

    def make_directory(self, path: str) -> None:
        """See Files; a new directory is recorded."""
        entry = None if self._below.exists(path) else Entry(Do.MAKE_DIRECTORY, self._full_path(path))
        with self._noted(entry):
            self._below.make_directory(path)
        if entry is not None:
            self._made.append(entry.path)

    def remove_directory(self, path: str) -> None:
        """See Files; the removal is recorded."""
        with self._noted(Entry(Do.REMOVE_DIRECTORY, self._full_path(path)) if self._below.exists(path) else None):
            self._below.remove_directory(path)

    def set_modified(self, path: str, modified_ns: int) -> None:
        """See Files; the old time is recorded."""
        full = self._full_path(path)
        state, entry = self._states.get(full), None
        if (state is None or not state.is_new) and self._below.exists(path):
            entry = Entry(Do.TIME, full, modified_ns=self._below.info(path).modified_ns)
        with self._noted(entry):
            self._below.set_modified(path, modified_ns)

    def copy(self, file: OpenFile, start: int, end: int, to: WritableFile, position: int) -> None:
        """See Files."""
        if not isinstance(to, QuarantinedFile):
            self._below.copy(file, start, end, to, position)
        elif start < end and to.prepare(position):
            self._below.copy(file, start, end, to.below, position)

    # ---- keeping

    def keep(self, file: WritableFile, state: _State, position: int) -> None:
        """Keep the old bytes of `file` from `position` on, or record that the file will be longer."""
        is_first = state.intact is None
        intact = file.size() if state.intact is None else state.intact
        if position < intact:
            info = self._below.info(state.path)
            kept = self._copy(state.path, state.path, position, info._replace(size=intact))
            self._note(Entry(Do.CUT, state.path, position=position, **kept))
            intact = position
        elif is_first:
            modified_ns = self._below.info(state.path).modified_ns
            self._note(Entry(Do.GROW, state.path, size=intact, modified_ns=modified_ns))
        state.intact = intact

    def _move_aside(self, path: str, full: str, state: _State | None) -> None:
        info = self._below.info(path)
        name = self._new_name(full)
        stored = f"{self.directory}/{STORED}/{name}"
        digest = ""
        self._is_needed |= info.size > MAX_KEPT_SIZE
        if info.size <= MAX_KEPT_SIZE and (not self._is_rehearsal or info.size <= _FEW):
            with self._below.open(path) as file:
                digest = _hash(file, 0, info.size)
        self._kept_whole.setdefault(full, (info.size, digest))
        with self._noted(Entry(Do.REMOVE, full, None, None, info.size, name, digest, info.modified_ns, info.mode)):
            if info.links == 1 and self._is_moved(path, stored):
                with self._lock:
                    self._moved.add(full)
            else:  # on another file system, or a hard link, through which it could change
                aside = stored + ".tmp"  # renamed when it is complete
                self._store(path, aside, info)
                self._below.set_modified(aside, info.modified_ns)
                self._below.rename(aside, stored)
                self._below.sync_directory(f"{self.directory}/{STORED}")
                self._below.remove(path)
        self.stored_size += info.size
        if state is not None:
            state.is_new = state.is_kept = True

    def _is_moved(self, path: str, stored: str) -> bool:
        """Rename the file at `path` to `stored`. Returns False if that is on another file system."""
        try:
            self._below.rename(path, stored)
        except UnwritableFile as error:
            if getattr(error.__cause__, "errno", None) != errno.EXDEV:
                raise
            return False
        return True

    def _sync_moves(self, full: str) -> None:
        """Sync the move of a file to the quarantine before another file gets its name.

        Otherwise a power cut could undo the move, and the old file would be taken for the new one and removed.
        """
        with self._lock:
            if full in self._moved:
                self._below.sync_directory(f"{self.directory}/{STORED}")
                self._moved.clear()  # the sync covers all of them

    def _copy(self, path: str, full: str, position: int, info: FileInfo) -> dict[str, Any]:
        """Copy the bytes of `path` from `position` up to `info.size`. Returns the fields of an entry that describe the copy."""
        self._begin()
        name = self._new_name(full)
        digest = self._store(path, f"{self.directory}/{STORED}/{name}", info, position)
        self._below.sync_directory(f"{self.directory}/{STORED}")
        size = info.size - position
        self.stored_size += size
        return {"size": size, "stored": name, "sha256": digest, "modified_ns": info.modified_ns, "mode": info.mode}

    def _store(self, path: str, stored: str, info: FileInfo, start: int = 0) -> str:
        """Copy the bytes of `path`, whose state is `info`, from `start` on to the new file `stored`. Returns the SHA-256.

        Zeros become holes. An incomplete copy is removed: a full disk needs the space to record where the command stopped.
        """
        _refuse_too_large(path, info.size - start)
        try:
            return self._written(path, stored, info, start)
        except UnwritableFile as error:
            with suppress(UnwritableFile):
                self._below.remove(stored)
            if is_full(error):
                error.do = _ROOM
            raise

    def _written(self, path: str, stored: str, info: FileInfo, start: int) -> str:
        digest, end = sha256(), info.size
        with self._below.open(path) as file, self._below.open_writable(stored, create=True, mode=info.mode) as copy:
            copy.truncate(end - start)
            if self._is_rehearsal and end - start > _FEW:
                return ""
            for at in range(start, end, _CHUNK):
                data = file.read_exactly(at, min(_CHUNK, end - at))
                digest.update(data)
                if data != _ZEROS[: len(data)]:
                    copy.write_at(at - start, data)
            copy.sync()
        return digest.hexdigest()

    def _new_name(self, full: str) -> str:
        """A name in the quarantine that contains the old partition and file name."""
        with self._lock:
            self._stored += 1
            number = self._stored
        words = [word for word in full.split("/") if word]
        return f"{number:06d}-{'-'.join(words[-2:])[-200:]}"

    @contextmanager
    def _noted(self, entry: Entry | None) -> Iterator[None]:
        """Record an intended change, and if it is refused, record that too."""
        number = None if entry is None else self._note(entry)
        try:
            yield
        except UnwritableFile:
            if entry is not None:
                self._note(Entry(Do.REFUSED, entry.path, position=number))
            raise

    def _note(self, entry: Entry) -> int:
        with self._lock:
            manifest = self._begin()
            self._is_needed |= entry.do in _NEEDED
            if entry.do is not Do.REFUSED:
                for path in (entry.path, entry.to):
                    if path is not None:
                        self._list(manifest, parent_of(path))
                if entry.do is Do.MAKE_DIRECTORY or (entry.do is Do.RENAME and self._is_directory(entry.path)):
                    self._list(manifest, entry.path)
            return manifest.append(entry)

    def _is_directory(self, path: str) -> bool:
        info = look(self._below, path)
        return info is not None and info.is_directory

    def _list(self, manifest: ManifestWriter, directory: str) -> None:
        """Record the state of the files in `directory` before the first change there."""
        if directory in self._listed or any(is_at_or_below(directory, made) for made in self._made):
            return
        files = list_files(self._below, directory)
        self._refuse_to_copy_holes(directory, files)
        manifest.append(Entry(Do.LIST, directory, files=files))
        self._listed[directory] = files

    def _refuse_to_copy_holes(self, directory: str, files: dict[str, Stamp]) -> None:
        """Raise UnwritableFile if a sparse file is too large to be copied to a quarantine on another file system."""
        large = next((name for name, stamp in files.items() if stamp[0] > MAX_KEPT_SIZE), None)
        if large is None or self._below.space(directory).disk == self._below.space(parent_of(self.directory)).disk:
            return
        path = f"{directory}/{large}"
        what = f"{path}: {files[large][0]} bytes, too many to copy into a quarantine on another file system: {self.directory}"
        do = f"mv {argument(path)} {argument(path)}.set-aside    # a broker ignores such a name; then run the command again"
        raise UnwritableFile(what, do=do)

    def _begin(self) -> ManifestWriter:
        with self._lock:
            if self._manifest is None:
                try:
                    if not self._is_begun:
                        self.make()
                    self._below.make_directory(f"{self.directory}/{STORED}")
                    self._manifest = ManifestWriter(self._below, self.directory, *self._about)
                except UnwritableFile as error:
                    if is_full(error):
                        error.do = _ROOM
                    raise
                self._below.sync_directory(self.directory)
                if not self._is_placed:
                    self._below.sync_directory(self.directory.rpartition("/")[0] or "/")
            return self._manifest

    def _full_path(self, path: str) -> str:
        """`path` made absolute and normalized."""
        return "/" + "/".join(word for word in self._below.absolute(path).split("/") if word not in ("", "."))


def _refuse_too_large(path: str, size: int) -> None:
    """Raise UnwritableFile for a file that would take hours to copy, such as a large sparse file."""
    if size > MAX_KEPT_SIZE:
        what = f"{path}: {size} bytes would have to be copied into the quarantine, more than the limit of {MAX_KEPT_SIZE}"
        do = f"du -h {argument(path)}    # its size on the disk; files of Kafka have less than 2 GiB: move it away"
        raise UnwritableFile(what, do=do)


def _hash(file: OpenFile, start: int, end: int) -> str:
    digest = sha256()
    for at in range(start, end, _CHUNK):
        digest.update(file.read_exactly(at, min(_CHUNK, end - at)))
    return digest.hexdigest()
