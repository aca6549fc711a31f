"""Names over a disk that does not change: what stands where after renames, removals and new files.

Names and files are apart, as an operating system keeps them: an open file stays the same file while it is renamed or removed.
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
