"""A seam that keeps every change in memory: what a dry run works on, with the same engine as the real run.

Reading goes through to the disk until something is changed. Names and contents are kept apart, as an operating system
does: an open file stays the same file while it is renamed or removed. Bytes that were not changed are never copied,
however much is cut, lengthened by zeros, moved or copied from file to file; only written bytes take memory, and many of
them go to a `Spill` where there is one.
"""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.errors import UnreadableFile, UnwritableFile
from engine.files import FileInfo, Files, Lock, OpenFile, WritableFile
from engine.pieces import Content

if TYPE_CHECKING:
    from engine.files import Buffer
    from engine.spill import Spill

Words = list[str]
_NONE = "No such file or directory"
_NO_NAMES = ("", ".", "..")


class Disk(Protocol):
    """What an overlay needs of the seam below it: ReadOnlyFiles, or a test's double."""

    def info(self, path: str, /) -> FileInfo:
        """What stands at `path`."""

    def exists(self, path: str, /) -> bool:
        """Is there anything?"""

    def list(self, directory: str, /) -> list[str]:
        """Names in a directory."""

    def special(self, directory: str, /) -> dict[str, str]:
        """Those of them that are neither plain files nor directories."""

    def resolve(self, path: str, /) -> str:
        """`path` without symbolic links."""

    def open(self, path: str, /) -> OpenFile:
        """Open for reading."""

    def absolute(self, path: str, /) -> str:
        """`path` with the working directory in front."""


class Operation(NamedTuple):
    """One change that was asked for, in the words of `Files`. Writes that follow each other in a file are one."""

    name: str
    path: str
    to: str | None = None
    position: int | None = None
    size: int | None = None


class _File:
    """A file: on the disk at `source` (None: a new one), changed where `content` is there."""

    __slots__ = ("content", "last_write", "modified_ms", "source")

    def __init__(self, source: str | None) -> None:
        self.source = source
        self.content = Content(None, 0) if source is None else None
        self.modified_ms: int | None = None
        self.last_write: int | None = None  # number of the operation, while nothing else happened to the file


class _Directory:
    """A directory: what the disk has at `source` (None: nothing), but for `changed`, where None is a removed name."""

    __slots__ = ("changed", "source")

    def __init__(self, source: str | None) -> None:
        self.source = source
        self.changed: dict[str, _File | _Directory | None] = {}


class OverlayFile(OpenFile):
    """A file of an overlay, open for reading or for both."""

    __slots__ = ("_files", "_node", "_opened", "_writable")

    def __init__(self, files: OverlayFiles, path: str, node: _File, *, writable: bool) -> None:
        super().__init__(path, -1)
        self._files, self._node, self._writable = files, node, writable
        self._opened: dict[str, OpenFile] = {}
        if node.source is not None and node.content is None:
            self._source(node.source)

    def close(self) -> None:
        """Release what is open on the disk. A second call does nothing."""
        while self._opened:
            self._opened.popitem()[1].close()

    def size(self) -> int:
        """Bytes in the file at this moment."""
        content, source = self._node.content, self._node.source
        if content is not None:
            return content.size
        assert source is not None  # a new file has content
        return self._source(source).size()

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from byte `position`; returns how many bytes came, fewer only at the end of the file."""
        content, source = self._node.content, self._node.source
        if content is None:
            assert source is not None  # a new file has content
            return self._source(source).read_into(buffer, position)
        if position < 0:
            raise UnreadableFile(f"{self.path}: Invalid argument")
        with self._files.lock_of_changes:
            parts = content.parts(position, max(position, min(content.size, position + len(buffer))))
        done = 0
        for part in parts:
            view = buffer[done : done + part.size]
            if part.data is not None:
                view[:] = part.data
            elif part.path is None:
                view[:] = bytes(part.size)
            else:
                count = self._source(part.path).read_into(view, part.position)
                if count < part.size:  # another process cut it meanwhile
                    return done + count
            done += part.size
        return done

    def write_at(self, position: int, *parts: Buffer) -> None:
        """Write all of `parts`, one behind the other, from byte `position` on. Raises UnwritableFile."""
        content = self._changed()
        if position < 0:
            raise UnwritableFile(f"{self.path}: Invalid argument")
        start = position
        with self._files.lock_of_changes:
            for part in parts:
                view = memoryview(part).cast("B")
                spilled = None if self._files.spill is None else self._files.spill.take(view)
                if spilled is None:
                    content.write(position, view)
                else:
                    content.put_parts(position, [spilled])
                position += len(view)
        if position > start:
            self._files.note_write(self._node, self.path, start, position - start)

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, or lengthen it with zeros. Raises UnwritableFile."""
        content = self._changed()
        if size < 0:
            raise UnwritableFile(f"{self.path}: Invalid argument")
        with self._files.lock_of_changes:
            content.truncate(size)
        self._files.note(Operation("truncate", self.path, size=size), self._node)

    def sync(self) -> None:
        """Note that it was asked for."""
        self._files.note(Operation("sync", self.path), self._node, modifies=False)

    def copy_from(self, other: OverlayFile, start: int, end: int, position: int) -> None:
        """Take the bytes [start, end) of `other`, without reading them. Raises UnreadableFile where it has fewer."""
        size = other.size()
        if end > size:
            raise UnreadableFile(f"{other.path}: became shorter than {end} bytes while it was read")
        content, node = self._changed(), other._node  # a file of the same class
        with self._files.lock_of_changes:
            theirs = Content(node.source, size) if node.content is None else node.content
            content.put_parts(position, theirs.parts(start, end))
        self._files.note_write(self._node, self.path, position, end - start)

    def _changed(self) -> Content:
        """The content, kept in memory from now on."""
        if not self._writable:
            raise UnwritableFile(f"{self.path}: Bad file descriptor")
        node = self._node
        with self._files.lock_of_changes:
            if node.content is None:
                node.content = Content(node.source, self.size())
            return node.content

    def _source(self, path: str) -> OpenFile:
        file = self._opened.get(path)
        if file is None:
            file = self._opened[path] = self._files.disk.open(path)
        return file


class WritableOverlayFile(OverlayFile, WritableFile):
    """A file of an overlay, open for reading and writing."""

    __slots__ = ()


class OverlayFiles(Files):
    """`disk` with changes that never reach it.

    now         ms since the epoch: the time of change of what is changed here
    operations  what was asked for so far, in order
    One spelling of a path must be kept to: two that lead to the same directory by symbolic links are two here.
    No lock is taken: other processes see nothing of the changes.
    """

    def __init__(self, disk: Disk, now: int, spill: Spill | None = None) -> None:
        self.disk, self.now, self.spill = disk, now, spill
        self.operations: list[Operation] = []
        self.lock_of_changes = RLock()
        self._root = _Directory("")
        self._directories: dict[str, _Directory] = {}  # by path as it was spelled, until directories move
        self._real: dict[str, str] = {}  # directories on the disk without symbolic links

    # ---- looking

    def info(self, path: str) -> FileInfo:
        """What stands at `path`. Raises UnreadableFile."""
        source = self._unchanged(path)
        if source is not None:
            try:
                return self.disk.info(source)
            except UnreadableFile as error:
                raise self._missing(path) from error
        node = self._find(path)
        if node is None:
            raise self._missing(path)
        if isinstance(node, _Directory):
            return FileInfo(False, True, 0, self.now) if node.source is None else self.disk.info(node.source or "/")
        below = None if node.source is None else self.disk.info(node.source)
        if below is not None and node.content is None and node.modified_ms is None:
            return below
        size = node.content.size if node.content is not None else below.size if below is not None else 0
        modified = node.modified_ms if node.modified_ms is not None else below.modified_ms if below is not None else self.now
        return FileInfo(below is None or below.is_file, False, size, modified)

    def exists(self, path: str) -> bool:
        """Is there anything that can be reached at `path`?"""
        source = self._unchanged(path)
        return self._find(path) is not None if source is None else self.disk.exists(source)

    def list(self, directory: str) -> list[str]:
        """Names in `directory`, sorted. Raises UnreadableFile."""
        node = self._find(directory)
        if node is None:
            raise self._missing(directory)
        if isinstance(node, _File):
            raise UnreadableFile(f"{directory}: Not a directory")
        names = set() if node.source is None else set(self.disk.list(node.source or "/"))
        with self.lock_of_changes:
            changed = dict(node.changed)
        return sorted(names.difference(changed).union(name for name, child in changed.items() if child is not None))

    def special(self, directory: str) -> dict[str, str]:
        """Names in `directory` that are neither plain files nor directories, and what they are. Raises UnreadableFile."""
        node = self._find(directory)
        if not isinstance(node, _Directory):
            raise self._missing(directory) if node is None else UnreadableFile(f"{directory}: Not a directory")
        found = {} if node.source is None else self.disk.special(node.source or "/")
        with self.lock_of_changes:
            changed = dict(node.changed)
        kept = {name: child for name, child in changed.items() if isinstance(child, _File) and child.source is not None}
        return {name: what for name, what in found.items() if name not in changed or name in kept}

    def resolve(self, path: str) -> str:
        """`path` with every symbolic link followed, absolute. Raises UnreadableFile."""
        node = self._find(path)
        if node is None:
            raise self._missing(path)
        place = "/" + "/".join(self._words(path))
        if node.source is not None and (node.source or "/") == place:
            return self.disk.resolve(place)
        parent, _, name = place.rpartition("/")
        return self.resolve(parent or "/").rstrip("/") + "/" + name

    def open(self, path: str) -> OpenFile:
        """Open a plain file for reading. Raises UnreadableFile."""
        node = self._find(path, keep=True)
        if node is None:
            raise self._missing(path)
        if isinstance(node, _Directory):
            raise UnreadableFile(f"{path}: a directory, not a file")
        return OverlayFile(self, path, node, writable=False)

    def absolute(self, path: str) -> str:
        """`path` with the working directory in front, not normalised."""
        return self.disk.absolute(path)

    # ---- changing

    def open_writable(self, path: str, *, create: bool = False) -> WritableFile:
        """Open a plain file for reading and writing; `create`: an empty one is made where there is none."""
        with self.lock_of_changes:
            node = self._find(path, keep=True)
            if node is None and create:
                parent, name = self._parent(path)
                node = parent.changed[name] = _File(None)
                self.note(Operation("create", path), node)
        if node is None:
            raise UnwritableFile(f"{path}: {_NONE}")
        if isinstance(node, _Directory):
            raise UnwritableFile(f"{path}: Is a directory")
        if node.source is not None and node.content is None:
            self._must_be_plain(path, node.source)
        return WritableOverlayFile(self, path, node, writable=True)

    def rename(self, path: str, to: str) -> None:
        """Give the file or directory at `path` the name `to`; a file of that name is replaced."""
        what = f"{path} -> {to}"
        with self.lock_of_changes:
            node = self._find(path, keep=True)
            if node is None:
                raise UnwritableFile(f"{what}: {_NONE}")
            parent, name = self._parent(path, what)
            target, target_name = self._parent(to, what)
            there = self._find(to, keep=True)
            ours, theirs = self._words(path), self._words(to)
            if len(theirs) > len(ours) and theirs[: len(ours)] == ours:
                raise UnwritableFile(f"{what}: Invalid argument")
            if isinstance(there, _Directory):
                if isinstance(node, _File) and ours[: len(theirs)] != theirs:
                    raise UnwritableFile(f"{what}: Is a directory")
                if there is not node and (isinstance(node, _File) or self.list(to)):
                    raise UnwritableFile(f"{what}: Directory not empty")
            elif there is not None and isinstance(node, _Directory):
                raise UnwritableFile(f"{what}: Not a directory")
            if isinstance(node, _Directory):
                self._directories.clear()
            if (parent, name) != (target, target_name):
                parent.changed[name] = None
                target.changed[target_name] = node
            self.note(Operation("rename", path, to), node if isinstance(node, _File) else None, modifies=False)

    def remove(self, path: str) -> None:
        """Remove the file at `path`; that there is none is no error."""
        with self.lock_of_changes:
            node = self._find(path)
            if node is None:
                return
            if isinstance(node, _Directory):
                raise UnwritableFile(f"{path}: Is a directory")
            parent, name = self._parent(path)
            parent.changed[name] = None
            self.note(Operation("remove", path))

    def make_directory(self, path: str) -> None:
        """Make the directory at `path`; that there is one is no error."""
        with self.lock_of_changes:
            node = self._find(path)
            if isinstance(node, _Directory):
                return
            if node is not None:
                raise UnwritableFile(f"{path}: File exists")
            parent, name = self._parent(path)
            parent.changed[name] = _Directory(None)
            self.note(Operation("make_directory", path))

    def remove_directory(self, path: str) -> None:
        """Remove the empty directory at `path`."""
        with self.lock_of_changes:
            node = self._find(path)
            if node is None:
                raise UnwritableFile(f"{path}: {_NONE}")
            if isinstance(node, _File):
                raise UnwritableFile(f"{path}: Not a directory")
            if self.list(path):
                raise UnwritableFile(f"{path}: Directory not empty")
            parent, name = self._parent(path)
            parent.changed[name] = None
            self._directories.clear()
            self.note(Operation("remove_directory", path))

    def sync_directory(self, path: str) -> None:
        """Note that it was asked for. Raises UnwritableFile where there is no directory."""
        if not isinstance(self._find(path), _Directory):
            raise UnwritableFile(f"{path}: {'Not a directory' if self.exists(path) else _NONE}")
        self.note(Operation("sync_directory", path))

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Set the time of the last change of the file at `path`, ms since the epoch."""
        with self.lock_of_changes:
            node = self._find(path, keep=True)
            if node is None:
                raise UnwritableFile(f"{path}: {_NONE}")
            self.note(Operation("set_modified", path))
            if isinstance(node, _File):
                node.modified_ms = modified_ms

    def copy(self, file: OpenFile, start: int, end: int, to: WritableFile, position: int) -> None:
        """Copy the bytes [start, end) of `file` to `to`, from byte `position` on; between files here, nothing is read."""
        if isinstance(file, OverlayFile) and isinstance(to, OverlayFile) and start < end:
            to.copy_from(file, start, end, position)
        else:
            super().copy(file, start, end, to, position)

    def lock(self, path: str) -> Lock:
        """A lock that keeps nobody out: nothing is changed."""
        return Lock(path, -1)

    # ---- notes

    def note(self, operation: Operation, node: _File | None = None, *, modifies: bool = True) -> None:
        """Keep `operation`; `node` is the file that it changed."""
        with self.lock_of_changes:
            self.operations.append(operation)
            if node is not None:
                node.last_write = None
                if modifies:
                    node.modified_ms = self.now

    def note_write(self, node: _File, path: str, position: int, size: int) -> None:
        """Keep a write, as a part of the file's last one where it goes on there."""
        with self.lock_of_changes:
            node.modified_ms = self.now
            last = None if node.last_write is None else self.operations[node.last_write]
            if node.last_write is not None and last is not None and (last.position or 0) + (last.size or 0) == position:
                self.operations[node.last_write] = last._replace(size=(last.size or 0) + size)
                return
            node.last_write = len(self.operations)
            self.operations.append(Operation("write", path, position=position, size=size))

    # ---- names

    def _words(self, path: str) -> Words:
        words: Words = []
        for word in self.disk.absolute(path).split("/"):
            if word == "..":
                del words[-1:]
            elif word not in _NO_NAMES:
                words.append(word)
        return words

    def _known(self, path: str) -> tuple[_Directory, str] | None:
        """(directory, name) of `path`, if somebody asked for a path there before."""
        above, slash, name = path.rpartition("/")
        directory = self._directories.get(above) if slash and name not in _NO_NAMES and "\0" not in name else None
        return None if directory is None else (directory, name)

    def _unchanged(self, path: str) -> str | None:
        """Where on the disk it is if anything stands at `path`; None where that is not known, or something was changed."""
        above, slash, name = path.rpartition("/")  # no lock: nothing is looked at twice
        directory = self._directories.get(above)
        if directory is None or directory.source is None or name in directory.changed or not slash or name in _NO_NAMES:
            return None
        return f"{directory.source}/{name}"

    def _find(self, path: str, *, keep: bool = False) -> _File | _Directory | None:
        """What stands at `path`. `keep`: remember it, so that everyone who asks gets the same file."""
        if not path or "\0" in path:
            return None
        with self.lock_of_changes:
            known = self._known(path)
            if known is not None:
                return self._child(*known, keep=keep)
            node: _File | _Directory | None = self._root
            above: _Directory | None = None
            for word in self._words(path):
                if not isinstance(node, _Directory):
                    return None
                above, node = node, self._child(node, word, keep=keep)
            directory, slash, name = path.rpartition("/")
            if above is not None and slash and name not in _NO_NAMES:
                self._directories[directory] = above
            return node

    def _child(self, directory: _Directory, name: str, *, keep: bool) -> _File | _Directory | None:
        if name in directory.changed:
            return directory.changed[name]
        if directory.source is None:
            return None
        source = f"{directory.source}/{name}"
        try:
            is_directory = self.disk.info(source).is_directory
        except UnreadableFile:
            if self.disk.exists(source):
                raise
            return None
        node = _Directory(source) if is_directory else _File(source)
        if keep or is_directory:
            directory.changed[name] = node
        return node

    def _parent(self, path: str, what: str | None = None) -> tuple[_Directory, str]:
        """(directory, last word) of `path`. Raises UnwritableFile where the directory is none."""
        words = self._words(path)
        parent = self._find("/" + "/".join(words[:-1]), keep=True)
        if not words or not isinstance(parent, _Directory):
            raise UnwritableFile(f"{what or path}: {_NONE if parent is None else 'Not a directory'}")
        return parent, words[-1]

    def _missing(self, path: str) -> UnreadableFile:
        """The error for what is not there: the operating system's own, where it knows of nothing either."""
        try:
            self.disk.info(path)
        except UnreadableFile as error:
            return error
        return UnreadableFile(f"{path}: {_NONE}")

    def _must_be_plain(self, path: str, source: str) -> None:
        """Refuse what the real seam refuses to open for writing: links, devices, what can not be read."""
        parent, _, name = source.rpartition("/")
        real = self._real.get(parent)
        if real is None:
            real = self._real[parent] = self.disk.resolve(parent or "/").rstrip("/")
        if self.disk.resolve(source) != f"{real}/{name}":
            raise UnwritableFile(f"{path}: Too many levels of symbolic links")
        try:
            self.disk.open(source).close()
        except UnreadableFile as error:
            raise UnwritableFile(str(error)) from error
