"""Names over an unchanged disk: which path leads to which file after renames, removals and new files.

Names and files are separate, as in an operating system: an open file remains the same file when it is renamed or removed.
"""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.errors import UnreadableFile, UnwritableFile
from engine.overlay.content import Content

if TYPE_CHECKING:

    from engine.files import DiskSpace, FileInfo, OpenFile
    from engine.overlay.content import Spill

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
