"""Names and files over an unchanged disk: paths after renames, removals and new files, and the bytes of files.

Names and files are separate, as in an operating system: an open file remains the same file when it is renamed or removed.

The bytes of a changed file are extents: of files on the disk, of written bytes, of zeros. `Spill` stores what does not fit into
memory. Truncating, lengthening by zeros and copying bytes from other files need no memory.
"""

from __future__ import annotations

from bisect import bisect_right
from threading import Lock, RLock
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.errors import UnreadableFile, UnwritableFile
from engine.files import OpenFile, WritableFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from engine.files import Buffer, DiskSpace, FileInfo

WORTH_IT = 64 << 10  # bytes: a smaller write stays in memory
IN_MEMORY = 2 << 20  # bytes of larger writes that stay in memory, too


class Extent:
    """A run of bytes: `data`, or bytes of a file on the disk from `position` on, or, without both, zeros."""

    __slots__ = ("data", "path", "position", "size")

    def __init__(self, size: int, data: bytearray | None = None, path: str | None = None, position: int = 0) -> None:
        self.size, self.data, self.path, self.position = size, data, path, position

    def part(self, start: int, end: int) -> Extent:
        """Return the part [start, end) of the extent."""
        data = None if self.data is None else self.data[start:end]
        return Extent(end - start, data, self.path, self.position + start)


class Content:
    """The bytes of a file: initially `size` bytes of the file at `path`, or none."""

    def __init__(self, path: str | None, size: int) -> None:
        self.size = size
        self._extents: list[Extent] = [Extent(size, None, path)] if size else []
        self._starts: list[int] = [0] if size else []

    def truncate(self, size: int) -> None:
        """Truncate to `size` bytes, or lengthen with zeros."""
        if size < self.size:
            at = self._boundary(size)
            del self._extents[at:], self._starts[at:]
        elif size > self.size:
            self._extents.append(Extent(size - self.size))
            self._starts.append(self.size)
        self.size = size

    def write(self, position: int, data: Buffer) -> None:
        """Write `data` at `position`; a gap after the current end becomes zeros."""
        self._put(position, Extent(len(data), bytearray(data)))

    def put_parts(self, position: int, parts: list[Extent]) -> None:
        """Write extents of this or another file in order, starting at `position`."""
        for part in parts:
            self._put(position, part)
            position += part.size

    def parts(self, start: int, end: int) -> list[Extent]:
        """Return the extents of the bytes [start, end), which must be within the file."""
        found: list[Extent] = []
        at = bisect_right(self._starts, start) - 1
        while start < end:
            extent, first = self._extents[at], self._starts[at]
            stop = min(end, first + extent.size)
            found.append(extent.part(start - first, stop - first))
            start, at = stop, at + 1
        return found

    def _put(self, position: int, extent: Extent) -> None:
        if not extent.size:
            return
        if position > self.size:
            self.truncate(position)
        end = position + extent.size
        first, after = self._boundary(position), self._boundary(min(end, self.size))
        before = self._extents[first - 1] if first else None
        if before is not None and before.data is not None and extent.data is not None:
            before.data += extent.data
            before.size += extent.size
            del self._extents[first:after], self._starts[first:after]
        else:
            self._extents[first:after], self._starts[first:after] = [extent], [position]
        self.size = max(self.size, end)

    def _boundary(self, position: int) -> int:
        """Split the extent at `position`, unless one begins there, and return the number of the extent that begins there."""
        at = bisect_right(self._starts, position) - 1
        if at < 0:
            return 0
        extent, start = self._extents[at], self._starts[at]
        if start == position:
            return at
        if position < start + extent.size:
            self._extents[at : at + 1] = [extent.part(0, position - start), extent.part(position - start, extent.size)]
            self._starts.insert(at + 1, position)
        return at + 1


class Spill:
    """Moves written bytes, once there are many, to the file that `make` opens. `close` deletes the file."""

    def __init__(self, make: Callable[[], WritableFile]) -> None:
        self._make = make
        self._file: WritableFile | None = None
        self._size, self._in_memory = 0, 0
        self._lock = Lock()

    def take(self, data: Buffer) -> Extent | None:
        """Return an extent that replaces `data`; None: keep `data` in memory. Raises UnwritableFile."""
        size = len(data)
        if size < WORTH_IT:
            return None
        with self._lock:
            if self._in_memory + size <= IN_MEMORY:
                self._in_memory += size
                return None
            if self._file is None:
                self._file = self._make()
            at = self._size
            self._file.write_at(at, data)
            self._size += size
        return Extent(size, None, self._file.path, at)

    def file_of(self, path: str) -> WritableFile | None:
        """Return the spill file if `path`, of an extent, is its path; else None."""
        return self._file if self._file is not None and self._file.path == path else None

    def close(self) -> None:
        """Close the file, if there is one, which deletes it."""
        if self._file is not None:
            self._file.close()
            self._file = None


Words = list[str]
NO_ENTRY = "No such file or directory"
NO_NAMES = ("", ".", "..")


class Disk(Protocol):
    """The file system below an overlay: ReadOnlyFiles, or a test double."""

    def info(self, path: str, /) -> FileInfo:
        """Return the attributes of `path`."""

    def space(self, path: str, /) -> DiskSpace:
        """Return the free space at `path`."""

    def exists(self, path: str, /) -> bool:
        """Return whether `path` exists."""

    def plain(self, directory: str, /) -> list[str]:
        """Return the names of the plain files in a directory."""

    def list(self, directory: str, /) -> list[str]:
        """Return the names in a directory."""

    def special(self, directory: str, /) -> dict[str, str]:
        """Return the names in a directory of neither plain files nor directories."""

    def resolve(self, path: str, /) -> str:
        """Return `path` without symbolic links."""

    def open(self, path: str, /) -> OpenFile:
        """Open a file for reading."""

    def held(self, directories: Iterable[str], /) -> AbstractContextManager[None]:
        """See ReadOnlyFiles."""

    def root(self, path: str, /) -> str:
        """Return the start of `path` that is not a name in a directory."""

    def absolute(self, path: str, /) -> str:
        """Return `path` after the working directory."""


class File:
    """A file: on the disk at `source` (None: a new one), and changed if it has `content`. `mode`: of a new one."""

    __slots__ = ("content", "last_write", "mode", "modified_ns", "source")

    def __init__(self, source: str | None, mode: int = 0o644) -> None:
        self.source, self.mode = source, mode
        self.content = Content(None, 0) if source is None else None
        self.modified_ns: int | None = None
        self.last_write: int | None = None  # number of the operation, until another one changes the file


class Directory:
    """A directory: the content of `source` on the disk (None: empty), with `changed`, in which None is a removed name."""

    __slots__ = ("changed", "source")

    def __init__(self, source: str | None) -> None:
        self.source = source
        self.changed: dict[str, File | Directory | None] = {}


class Tree:
    """The directory tree of `disk` with changes. Hold `lock` to change a `Directory`."""

    __slots__ = ("_directories", "_root", "disk", "lock")

    def __init__(self, disk: Disk, lock: RLock) -> None:
        self.disk, self.lock = disk, lock
        self._root = Directory("")
        self._directories: dict[str, Directory] = {}  # by path as spelled by the caller, until directories move

    def directories_moved(self) -> None:
        """Clear the cache of directories by path."""
        self._directories.clear()

    def words(self, path: str) -> Words:
        """Return the names on the way from the root to `path`, without dots."""
        words: Words = []
        for word in self.disk.absolute(path).split("/"):
            if word == "..":
                del words[-1:]
            elif word not in NO_NAMES:
                words.append(word)
        return words

    def _known(self, path: str) -> tuple[Directory, str] | None:
        """Return (directory, name) of `path`, if its directory is cached."""
        above, slash, name = path.rpartition("/")
        directory = self._directories.get(above) if slash and name not in NO_NAMES and "\0" not in name else None
        return None if directory is None else (directory, name)

    def unchanged(self, path: str) -> str | None:
        """Return where `path` would be on the disk; None if that is unknown, or something was changed."""
        above, slash, name = path.rpartition("/")  # no lock needed: nothing is read twice
        directory = self._directories.get(above)
        if directory is None or directory.source is None or name in directory.changed or not slash or name in NO_NAMES:
            return None
        return f"{directory.source}/{name}"

    def find(self, path: str, *, keep: bool = False) -> File | Directory | None:
        """Return the file or directory at `path`. `keep`: keep it, so that all callers get the same object."""
        if not path or "\0" in path:
            return None
        with self.lock:
            known = self._known(path)
            if known is not None:
                return self._child(*known, keep=keep)
            node: File | Directory | None = self._root
            above: Directory | None = None
            for word in self.words(path):
                if not isinstance(node, Directory):
                    return None
                above, node = node, self._child(node, word, keep=keep)
            directory, slash, name = path.rpartition("/")
            if above is not None and slash and name not in NO_NAMES:
                self._directories[directory] = above
            return node

    def _child(self, directory: Directory, name: str, *, keep: bool) -> File | Directory | None:
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
        node = Directory(source) if is_directory else File(source)
        if keep or is_directory:
            directory.changed[name] = node
        return node

    def parent(self, path: str, what: str | None = None) -> tuple[Directory, str]:
        """Return (directory, last name) of `path`. Raises UnwritableFile if it is not in a directory."""
        words = self.words(path)
        parent = self.find("/" + "/".join(words[:-1]), keep=True)
        if not words or not isinstance(parent, Directory):
            raise UnwritableFile(f"{what or path}: {NO_ENTRY if parent is None else 'Not a directory'}")
        return parent, words[-1]


class Operation(NamedTuple):
    """A requested change, with the names of `Files`. Consecutive writes to a file are one."""

    name: str
    path: str
    to: str | None = None
    position: int | None = None
    size: int | None = None


class Changes:
    """The operations so far.

    now    ms since the epoch, used as the time of changes
    lock   held while names, contents or operations change
    spill  for written bytes that exceed the memory limit; None: all stay in memory
    """

    __slots__ = ("lock", "now", "operations", "spill")

    def __init__(self, now: int, spill: Spill | None) -> None:
        self.now, self.spill = now, spill
        self.operations: list[Operation] = []
        self.lock = RLock()

    def note(self, operation: Operation, node: File | None = None, *, modifies: bool = True) -> None:
        """Add `operation`; `node` is the file that it changed."""
        with self.lock:
            self.operations.append(operation)
            if node is not None:
                node.last_write = None
                if modifies:
                    node.modified_ns = self.now * 1_000_000

    def note_write(self, node: File, path: str, position: int, size: int) -> None:
        """Add a write, or extend the file's last one if the write continues it."""
        with self.lock:
            node.modified_ns = self.now * 1_000_000
            last = None if node.last_write is None else self.operations[node.last_write]
            if node.last_write is not None and last is not None and (last.position or 0) + (last.size or 0) == position:
                self.operations[node.last_write] = last._replace(size=(last.size or 0) + size)
                return
            node.last_write = len(self.operations)
            self.operations.append(Operation("write", path, position=position, size=size))


class OverlayFile(OpenFile):
    """A file of an overlay, open for reading or for both."""

    __slots__ = ("_changes", "_disk", "_node", "_opened", "_writable")

    def __init__(self, path: str, node: File, disk: Disk, changes: Changes, *, writable: bool) -> None:
        super().__init__(path, -1)
        self._node, self._disk, self._changes, self._writable = node, disk, changes, writable
        self._opened: dict[str, OpenFile] = {}
        if node.source is not None and node.content is None:
            self._source(node.source)

    def close(self) -> None:
        """Close the files on the disk. A second call does nothing."""
        while self._opened:
            self._opened.popitem()[1].close()

    def size(self) -> int:
        """The current size in bytes."""
        content, source = self._node.content, self._node.source
        if content is not None:
            return content.size
        assert source is not None  # a new file has content
        return self._source(source).size()

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from byte `position`; returns the number of bytes read, fewer only at the end of the file."""
        content, source = self._node.content, self._node.source
        if content is None:
            assert source is not None  # a new file has content
            return self._source(source).read_into(buffer, position)
        if position < 0:
            raise UnreadableFile(f"{self.path}: Invalid argument")
        with self._changes.lock:
            parts = content.parts(position, max(position, min(content.size, position + len(buffer))))
        done = 0
        for part in parts:
            view = buffer[done : done + part.size]
            if part.data is not None:
                view[:] = part.data
            elif part.path is None:
                view[:] = bytes(part.size)
            else:
                spill = self._changes.spill
                spilled = None if spill is None else spill.file_of(part.path)
                count = (spilled or self._source(part.path)).read_into(view, part.position)
                if count < part.size:  # another process truncated it meanwhile
                    return done + count
            done += part.size
        return done

    def next_data(self, position: int, end: int) -> int:
        """As OpenFile does, if the file is unchanged; else return `position`."""
        content, source = self._node.content, self._node.source
        return position if content is not None or source is None else self._source(source).next_data(position, end)

    def write_at(self, position: int, *parts: Buffer) -> None:
        """Write all `parts` in order, starting at byte `position`. Raises UnwritableFile."""
        content = self._changed()
        if position < 0:
            raise UnwritableFile(f"{self.path}: Invalid argument")
        start = position
        with self._changes.lock:
            for part in parts:
                view = memoryview(part).cast("B")
                spilled = None if self._changes.spill is None else self._changes.spill.take(view)
                if spilled is None:
                    content.write(position, view)
                else:
                    content.put_parts(position, [spilled])
                position += len(view)
        if position > start:
            self._changes.note_write(self._node, self.path, start, position - start)

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes, or lengthen it with zeros. Raises UnwritableFile."""
        content = self._changed()
        if size < 0:
            raise UnwritableFile(f"{self.path}: Invalid argument")
        with self._changes.lock:
            content.truncate(size)
        self._changes.note(Operation("truncate", self.path, size=size), self._node)

    def sync(self) -> None:
        """Record the call."""
        self._changes.note(Operation("sync", self.path), self._node, modifies=False)

    def copy_from(self, other: OverlayFile, start: int, end: int, position: int) -> None:
        """Share the bytes [start, end) of `other`, without reading them. Raises UnreadableFile if it has fewer."""
        size = other.size()
        if end > size:
            raise UnreadableFile(f"{other.path}: became shorter than {end} bytes while it was read")
        content, node = self._changed(), other._node  # a file of the same class
        with self._changes.lock:
            theirs = Content(node.source, size) if node.content is None else node.content
            content.put_parts(position, theirs.parts(start, end))
        self._changes.note_write(self._node, self.path, position, end - start)

    def _changed(self) -> Content:
        """Return the content, kept in memory from now on."""
        if not self._writable:
            raise UnwritableFile(f"{self.path}: Bad file descriptor")
        node = self._node
        with self._changes.lock:
            if node.content is None:
                node.content = Content(node.source, self.size())
            return node.content

    def _source(self, path: str) -> OpenFile:
        file = self._opened.get(path)
        if file is None:
            file = self._opened[path] = self._disk.open(path)
        return file


class WritableOverlayFile(OverlayFile, WritableFile):
    """A file of an overlay, open for reading and writing."""

    __slots__ = ()
