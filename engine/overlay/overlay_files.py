"""The file system interface of an overlay: unchanged files are read from the disk, changes stay in memory."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.discovery.names import file_name
from engine.errors import UnreadableFile, UnwritableFile
from engine.files import LINK, DiskSpace, FileInfo, Files, Lock, OpenFile, WritableFile, look, taken
from engine.overlay.tree import NO_ENTRY, Changes, Directory, File, Operation, OverlayFile, Tree, WritableOverlayFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from engine.overlay.tree import Disk, Spill


class OverlayFiles(Files):
    """`disk` with changes that never reach it.

    Use one spelling of each path: two paths to one directory through symbolic links are two directories here. No lock is taken,
    since other processes see no change.
    """

    def __init__(self, disk: Disk, now: int, spill: Spill | None = None) -> None:
        self.disk = disk
        self._changes = Changes(now, spill)
        self._tree = Tree(disk, self._changes.lock)
        self._special: dict[str, dict[str, str]] = {}  # result of `special` for directories on the disk

    @property
    def now(self) -> int:
        """The current time in ms since the epoch, used as the time of changes."""
        return self._changes.now

    @property
    def operations(self) -> list[Operation]:
        """The requested operations so far, in order."""
        return self._changes.operations

    # ---- reading

    def info(self, path: str) -> FileInfo:
        """Return the attributes of `path`. Raises UnreadableFile."""
        source = self._tree.unchanged(path)
        if source is not None:
            try:
                return self.disk.info(source)
            except UnreadableFile as error:  # keep the disk's message: a second call may fail in another way
                raise UnreadableFile(path + str(error).removeprefix(source), path=path) from error
        node = self._tree.find(path)
        if node is None:
            raise self._missing(path)
        if isinstance(node, Directory):
            if node.source is None:
                return FileInfo(False, True, 0, self._changes.now * 1_000_000)
            return self.disk.info(node.source or "/")
        below = None if node.source is None else self.disk.info(node.source)
        if below is None:
            below = FileInfo(True, False, 0, self._changes.now * 1_000_000, mode=node.mode)
        size = below.size if node.content is None else node.content.size
        used = below.used if node.content is None else size
        modified_ns = below.modified_ns if node.modified_ns is None else node.modified_ns
        return below._replace(size=size, used=used, modified_ns=modified_ns)

    def space(self, path: str) -> DiskSpace:
        """Return the free space of the disk at `path`, which changes here do not affect. Raises UnreadableFile."""
        return self.disk.space(path)

    def exists(self, path: str) -> bool:
        """Return whether `path` exists and can be reached."""
        source = self._tree.unchanged(path)
        return self._tree.find(path) is not None if source is None else self.disk.exists(source)

    def plain(self, directory: str) -> list[str]:
        """Return the names of the plain files in `directory`, sorted. Raises UnreadableFile."""
        node = self._directory(directory)
        names = set() if node.source is None else set(self.disk.plain(node.source or "/"))
        with self._changes.lock:
            changed = dict(node.changed)
        files = (name for name, child in changed.items() if isinstance(child, File))
        return sorted(names.difference(changed).union(name for name in files if self.info(f"{directory}/{name}").is_file))

    def list(self, directory: str) -> list[str]:
        """Return the names in `directory`, sorted. Raises UnreadableFile."""
        node = self._directory(directory)
        names = set() if node.source is None else set(self.disk.list(node.source or "/"))
        with self._changes.lock:
            changed = dict(node.changed)
        return sorted(names.difference(changed).union(name for name, child in changed.items() if child is not None))

    def special(self, directory: str) -> dict[str, str]:
        """Return names in `directory` of neither plain files nor directories, and what they are. Raises UnreadableFile."""
        node = self._directory(directory)
        found = {} if node.source is None else self._special_on_disk(node.source)
        with self._changes.lock:
            changed = dict(node.changed)
        kept = {name for name, child in changed.items() if child is not None and child.source == f"{node.source}/{name}"}
        return {name: what for name, what in found.items() if name not in changed or name in kept}

    def _directory(self, path: str) -> Directory:
        """Return the directory at `path`. Raises UnreadableFile."""
        node = self._tree.find(path)
        if not isinstance(node, Directory):
            raise self._missing(path) if node is None else UnreadableFile(f"{path}: Not a directory", path=path)
        return node

    def resolve(self, path: str) -> str:
        """Return `path` absolute, with every symbolic link followed. Raises UnreadableFile."""
        node = self._tree.find(path)
        if node is None:
            raise self._missing(path)
        full = "/" + "/".join(self._tree.words(path))
        if node.source is not None and (node.source or "/") == full:
            return self.disk.resolve(full)
        parent, _, name = full.rpartition("/")
        return self.resolve(parent or "/").rstrip("/") + "/" + name

    def open(self, path: str) -> OpenFile:
        """Open a plain file for reading. Raises UnreadableFile."""
        node = self._tree.find(path, keep=True)
        if node is None:
            raise self._missing(path)
        if isinstance(node, Directory):
            raise UnreadableFile(f"{path}: a directory, not a file", path=path)
        return OverlayFile(path, node, self.disk, self._changes, writable=False)

    def held(self, directories: Iterable[str]) -> AbstractContextManager[None]:
        """As Files does, for those that are on the disk."""
        return self.disk.held([directory for directory in directories if self.disk.exists(directory)])

    def root(self, path: str) -> str:
        """Return the start of `path` that is not a name in a directory."""
        return self.disk.root(path)

    def absolute(self, path: str) -> str:
        """Return `path` after the working directory, not normalised."""
        return self.disk.absolute(path)

    # ---- changing

    def open_writable(self, path: str, *, create: bool = False, mode: int | None = None) -> WritableFile:
        """As Files does, except that the umask does not affect the mode of new files."""
        with self._changes.lock:
            node = self._tree.find(path, keep=True)
            if node is None and create:
                parent, name = self._tree.parent(path)
                node = parent.changed[name] = File(None, self._new_mode(path) if mode is None else mode)
                self._changes.note(Operation("create", path), node)
        if node is None:
            raise UnwritableFile(f"{path}: {NO_ENTRY}")
        if isinstance(node, Directory):
            raise UnwritableFile(f"{path}: Is a directory")
        if node.source is not None and node.content is None:
            self._must_be_plain(path, node.source)
        return WritableOverlayFile(path, node, self.disk, self._changes, writable=True)

    def _new_mode(self, path: str) -> int:
        stem = path.rpartition(".")[0]
        namesake = look(self, stem) if file_name(stem) else None
        return namesake.mode if namesake is not None and namesake.is_file else 0o644

    def rename(self, path: str, to: str, *, replaces: bool = False) -> None:
        """As Files does."""
        what = f"{path} -> {to}"
        with self._changes.lock:
            node = self._tree.find(path, keep=True)
            if node is None:
                raise UnwritableFile(f"{what}: {NO_ENTRY}")
            parent, name = self._tree.parent(path, what)
            target, target_name = self._tree.parent(to, what)
            there = self._tree.find(to, keep=True)
            ours, theirs = self._tree.words(path), self._tree.words(to)
            if len(theirs) > len(ours) and theirs[: len(ours)] == ours:
                raise UnwritableFile(f"{what}: Invalid argument")
            if isinstance(there, Directory):
                if isinstance(node, File) and ours[: len(theirs)] != theirs:
                    raise UnwritableFile(f"{what}: Is a directory")
                if there is not node and (isinstance(node, File) or self.list(to)):
                    raise UnwritableFile(f"{what}: Directory not empty")
            elif there is not None and isinstance(node, Directory):
                raise UnwritableFile(f"{what}: Not a directory")
            elif there is not None and there is not node and not replaces:
                raise taken(what)
            if isinstance(node, Directory):
                self._tree.directories_moved()
            if (parent, name) != (target, target_name):
                parent.changed[name] = None
                target.changed[target_name] = node
            self._changes.note(Operation("rename", path, to), node if isinstance(node, File) else None, modifies=False)

    def remove(self, path: str) -> None:
        """Remove the file at `path`; it may be missing."""
        with self._changes.lock:
            node = self._tree.find(path)
            if node is None and not self._leads_nowhere(path):
                return
            parent, name = self._tree.parent(path)
            if isinstance(node, Directory) and not self._is_link(node, parent, name):
                raise UnwritableFile(f"{path}: Is a directory")
            parent.changed[name] = None
            self._changes.note(Operation("remove", path))

    def make_directory(self, path: str) -> None:
        """Make the directory at `path`; it may exist already."""
        with self._changes.lock:
            node = self._tree.find(path)
            if isinstance(node, Directory):
                return
            if node is not None:
                raise UnwritableFile(f"{path}: File exists")
            parent, name = self._tree.parent(path)
            parent.changed[name] = Directory(None)
            self._changes.note(Operation("make_directory", path))

    def make_own_directory(self, path: str) -> bool:
        """Make the directory at `path`; every user has the right to."""
        self.make_directory(path)
        return False

    @contextmanager
    def held_open(self, directory: str) -> Iterator[None]:  # noqa: ARG002  # no other process changes names here
        """Do nothing: no other process changes names here."""
        yield

    held_for_deletion = held_open

    def remove_directory(self, path: str) -> None:
        """Remove the empty directory at `path`."""
        with self._changes.lock:
            node = self._tree.find(path)
            if node is None:
                raise UnwritableFile(f"{path}: {NO_ENTRY}")
            if isinstance(node, File):
                raise UnwritableFile(f"{path}: Not a directory")
            if self.list(path):
                raise UnwritableFile(f"{path}: Directory not empty")
            parent, name = self._tree.parent(path)
            parent.changed[name] = None
            self._tree.directories_moved()
            self._changes.note(Operation("remove_directory", path))

    def sync_directory(self, path: str) -> None:
        """Record the call. Raises UnwritableFile if there is no directory."""
        if not isinstance(self._tree.find(path), Directory):
            raise UnwritableFile(f"{path}: {'Not a directory' if self.exists(path) else NO_ENTRY}")
        self._changes.note(Operation("sync_directory", path))

    def set_modified(self, path: str, modified_ns: int) -> None:
        """Set the time of the last change of the file at `path`, ns since the epoch."""
        with self._changes.lock:
            node = self._tree.find(path, keep=True)
            if node is None:
                raise UnwritableFile(f"{path}: {NO_ENTRY}")
            self._changes.note(Operation("set_modified", path))
            if isinstance(node, File):
                node.modified_ns = modified_ns

    def copy(self, file: OpenFile, start: int, end: int, to: WritableFile, position: int) -> None:
        """Copy the bytes [start, end) of `file` to byte `position` of `to`; between files of the overlay, nothing is read."""
        if isinstance(file, OverlayFile) and isinstance(to, OverlayFile) and start < end:
            to.copy_from(file, start, end, position)
        else:
            super().copy(file, start, end, to, position)

    def lock(self, path: str) -> Lock:
        """Return a lock without effect: nothing is changed."""
        return Lock(path, -1)

    def _missing(self, path: str) -> UnreadableFile:
        """Return the error for a missing file: the operating system's own if the disk has no such file either."""
        try:
            self.disk.info(path)
        except UnreadableFile as error:
            return error
        return UnreadableFile(f"{path}: {NO_ENTRY}", path=path)

    def _is_link(self, node: Directory, parent: Directory, name: str) -> bool:
        """Return whether `node` is the target directory of a link of that name on the disk. Such a link can be removed."""
        if node.source is None or parent.source is None:
            return False
        return self._special_on_disk(parent.source).get(name) == LINK

    def _leads_nowhere(self, path: str) -> bool:
        """Return whether the disk has a dangling link at `path`. Such a link can be removed, too."""
        around, _, name = path.rpartition("/")
        parent = self._tree.find(around)
        if not isinstance(parent, Directory) or parent.source is None or name in parent.changed:
            return False
        return self._special_on_disk(parent.source).get(name) == LINK

    def _special_on_disk(self, directory: str) -> dict[str, str]:
        """Return the result of `special` for a directory on the disk; the disk is read once."""
        found = self._special.get(directory)
        if found is None:
            found = self._special[directory] = self.disk.special(directory or "/")
        return found

    def _must_be_plain(self, path: str, source: str) -> None:
        """Refuse what the operating system refuses to open for writing: links, devices, unreadable files."""
        parent, _, name = source.rpartition("/")
        if self._special_on_disk(parent).get(name) == LINK:
            raise UnwritableFile(f"{path}: Too many levels of symbolic links")
        try:
            self.disk.open(source).close()
        except UnreadableFile as error:
            raise UnwritableFile(str(error)) from error
