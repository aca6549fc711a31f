"""Names and files over a disk that does not change: paths after renames, removals and new files, and the bytes of files.

Names and files are apart, as an operating system keeps them: an open file stays the same file while it is renamed or removed.

The bytes of a changed file are extents: of files on the disk, of what was written, of zeros. `Spill` takes what is too much
for memory. Cutting, lengthening by zeros and taking over bytes of other files cost no memory.
"""

from __future__ import annotations

from bisect import bisect_right
from threading import Lock, RLock
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.errors import UnreadableFile, UnwritableFile
from engine.files import OpenFile, WritableFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import Buffer, DiskSpace, FileInfo

WORTH_IT = 64 << 10  # bytes of one write: less stays in memory
IN_MEMORY = 2 << 20  # bytes of such writes that stay in memory too


class Extent:
    """A run of bytes: `data`, or bytes of a file on the disk from `position` on, or (neither) zeros."""

    __slots__ = ("data", "path", "position", "size")

    def __init__(self, size: int, data: bytearray | None = None, path: str | None = None, position: int = 0) -> None:
        self.size, self.data, self.path, self.position = size, data, path, position

    def part(self, start: int, end: int) -> Extent:
        """The bytes [start, end) of it."""
        data = None if self.data is None else self.data[start:end]
        return Extent(end - start, data, self.path, self.position + start)


class Content:
    """The bytes of a file: `size` bytes of the file at `path` to begin with, or none."""

    def __init__(self, path: str | None, size: int) -> None:
        self.size = size
        self._extents: list[Extent] = [Extent(size, None, path)] if size else []
        self._starts: list[int] = [0] if size else []

    def truncate(self, size: int) -> None:
        """Cut to `size` bytes, or lengthen with zeros."""
        if size < self.size:
            at = self._boundary(size)
            del self._extents[at:], self._starts[at:]
        elif size > self.size:
            self._extents.append(Extent(size - self.size))
            self._starts.append(self.size)
        self.size = size

    def write(self, position: int, data: Buffer) -> None:
        """Put `data` at `position`; bytes between the end and there become zeros."""
        self._put(position, Extent(len(data), bytearray(data)))

    def put_parts(self, position: int, parts: list[Extent]) -> None:
        """Put extents of this or another file one after the other, from `position` on."""
        for part in parts:
            self._put(position, part)
            position += part.size

    def parts(self, start: int, end: int) -> list[Extent]:
        """The extents of the bytes [start, end), which must lie within the file."""
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
        """Number of the extent that begins at `position`, which is made so by cutting the one that holds it."""
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
    """Takes written bytes to the file that `make` makes, once there are many of them. `close` lets go of it."""

    def __init__(self, make: Callable[[], WritableFile]) -> None:
        self._make = make
        self._file: WritableFile | None = None
        self._size, self._in_memory = 0, 0
        self._lock = Lock()

    def take(self, data: Buffer) -> Extent | None:
        """The extent that stands for `data` from now on; None: keep it in memory. Raises UnwritableFile."""
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
        """The file that an extent with this path lies in, if it is here."""
        return self._file if self._file is not None and self._file.path == path else None

    def close(self) -> None:
        """Close the file, if there is one; that deletes it."""
        if self._file is not None:
            self._file.close()
            self._file = None


Words = list[str]
NO_ENTRY = "No such file or directory"
NO_NAMES = ("", ".", "..")


class Disk(Protocol):
    """What an overlay needs of the seam below it: ReadOnlyFiles, or a test's double."""

    def info(self, path: str, /) -> FileInfo:
        """What stands at `path`."""

    def space(self, path: str, /) -> DiskSpace:
        """The room where `path` lies."""

    def exists(self, path: str, /) -> bool:
        """Is there anything?"""

    def plain(self, directory: str, /) -> list[str]:
        """Names of the plain files in a directory."""

    def list(self, directory: str, /) -> list[str]:
        """Names in a directory."""

    def special(self, directory: str, /) -> dict[str, str]:
        """Those of them that are neither plain files nor directories."""

    def resolve(self, path: str, /) -> str:
        """`path` without symbolic links."""

    def open(self, path: str, /) -> OpenFile:
        """Open for reading."""

    def root(self, path: str, /) -> str:
        """What `path` begins with and is no name."""

    def absolute(self, path: str, /) -> str:
        """`path` with the working directory in front."""


class File:
    """A file: on the disk at `source` (None: a new one), changed where `content` is there. `mode`: of a new one."""

    __slots__ = ("content", "last_write", "mode", "modified_ns", "source")

    def __init__(self, source: str | None, mode: int = 0o644) -> None:
        self.source, self.mode = source, mode
        self.content = Content(None, 0) if source is None else None
        self.modified_ns: int | None = None
        self.last_write: int | None = None  # number of the operation, while nothing else happened to the file


class Directory:
    """A directory: what the disk has at `source` (None: nothing), but for `changed`, where None is a removed name."""

    __slots__ = ("changed", "source")

    def __init__(self, source: str | None) -> None:
        self.source = source
        self.changed: dict[str, File | Directory | None] = {}


class Tree:
    """What stands at a path, with changes over `disk`. Whoever changes a `Directory` holds `lock`."""

    __slots__ = ("_directories", "_root", "disk", "lock")

    def __init__(self, disk: Disk, lock: RLock) -> None:
        self.disk, self.lock = disk, lock
        self._root = Directory("")
        self._directories: dict[str, Directory] = {}  # by path as it was spelled, until directories move

    def directories_moved(self) -> None:
        """Forget which path led to which directory."""
        self._directories.clear()

    def words(self, path: str) -> Words:
        """The names on the way to `path` from the root, without dots."""
        words: Words = []
        for word in self.disk.absolute(path).split("/"):
            if word == "..":
                del words[-1:]
            elif word not in NO_NAMES:
                words.append(word)
        return words

    def _known(self, path: str) -> tuple[Directory, str] | None:
        """(directory, name) of `path`, if somebody asked for a path there before."""
        above, slash, name = path.rpartition("/")
        directory = self._directories.get(above) if slash and name not in NO_NAMES and "\0" not in name else None
        return None if directory is None else (directory, name)

    def unchanged(self, path: str) -> str | None:
        """Where on the disk it is if anything stands at `path`; None where that is not known, or something was changed."""
        above, slash, name = path.rpartition("/")  # no lock: nothing is looked at twice
        directory = self._directories.get(above)
        if directory is None or directory.source is None or name in directory.changed or not slash or name in NO_NAMES:
            return None
        return f"{directory.source}/{name}"

    def find(self, path: str, *, keep: bool = False) -> File | Directory | None:
        """What stands at `path`. `keep`: remember it, so that everyone who asks gets the same file."""
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
        """(directory, last word) of `path`. Raises UnwritableFile where the directory is none."""
        words = self.words(path)
        parent = self.find("/" + "/".join(words[:-1]), keep=True)
        if not words or not isinstance(parent, Directory):
            raise UnwritableFile(f"{what or path}: {NO_ENTRY if parent is None else 'Not a directory'}")
        return parent, words[-1]


class Operation(NamedTuple):
    """One change that was asked for, in the words of `Files`. Writes that follow each other in a file are one."""

    name: str
    path: str
    to: str | None = None
    position: int | None = None
    size: int | None = None


class Changes:
    """The operations so far.

    now    ms since the epoch: the time of change of what is changed here
    lock   held while names, contents or notes change
    spill  takes written bytes that are too many for memory; None: all stay there
    """

    __slots__ = ("lock", "now", "operations", "spill")

    def __init__(self, now: int, spill: Spill | None) -> None:
        self.now, self.spill = now, spill
        self.operations: list[Operation] = []
        self.lock = RLock()

    def note(self, operation: Operation, node: File | None = None, *, modifies: bool = True) -> None:
        """Keep `operation`; `node` is the file that it changed."""
        with self.lock:
            self.operations.append(operation)
            if node is not None:
                node.last_write = None
                if modifies:
                    node.modified_ns = self.now * 1_000_000

    def note_write(self, node: File, path: str, position: int, size: int) -> None:
        """Keep a write, as a part of the file's last one if it continues that."""
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
                if count < part.size:  # another process cut it meanwhile
                    return done + count
            done += part.size
        return done

    def next_data(self, position: int, end: int) -> int:
        """As OpenFile does, while the file is as on the disk."""
        content, source = self._node.content, self._node.source
        return position if content is not None or source is None else self._source(source).next_data(position, end)

    def write_at(self, position: int, *parts: Buffer) -> None:
        """Write all of `parts`, one after the other, from byte `position` on. Raises UnwritableFile."""
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
        """Cut the file to `size` bytes, or lengthen it with zeros. Raises UnwritableFile."""
        content = self._changed()
        if size < 0:
            raise UnwritableFile(f"{self.path}: Invalid argument")
        with self._changes.lock:
            content.truncate(size)
        self._changes.note(Operation("truncate", self.path, size=size), self._node)

    def sync(self) -> None:
        """Note that it was asked for."""
        self._changes.note(Operation("sync", self.path), self._node, modifies=False)

    def copy_from(self, other: OverlayFile, start: int, end: int, position: int) -> None:
        """Take the bytes [start, end) of `other`, without reading them. Raises UnreadableFile where it has fewer."""
        size = other.size()
        if end > size:
            raise UnreadableFile(f"{other.path}: became shorter than {end} bytes while it was read")
        content, node = self._changed(), other._node  # a file of the same class
        with self._changes.lock:
            theirs = Content(node.source, size) if node.content is None else node.content
            content.put_parts(position, theirs.parts(start, end))
        self._changes.note_write(self._node, self.path, position, end - start)

    def _changed(self) -> Content:
        """The content, kept in memory from now on."""
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
