"""A model of a disk after a power cut: files and directories in memory that record unsynced changes.

A file records its unsynced writes and truncations, a directory its unsynced names. A power cut keeps some of them, as `Choice`
decides. Writes are torn at sectors. Changes of different names in one directory, and changes in different directories, are
independent: any subset of them may be kept, in any order. A rename, also across directories, is kept completely or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from random import Random

    Names = dict[str, "FileNode | DirectoryNode | None"]

SECTOR = 512  # bytes that reach the disk together or not at all
CLOCK_MS = 1_700_000_000_000
CLOCK_NS = CLOCK_MS * 1_000_000  # modification time of everything written


class Choice(Protocol):
    """Decides what a power cut keeps; called once for each unsynced change."""

    def keeps_data(self) -> bool:
        """Keep this sector of a write, or this truncation?"""

    def keeps_names(self) -> bool:
        """Keep this change of names?"""

    def keeps_size(self) -> bool:
        """Keep the size of this file, even if bytes are lost? These are zeros then."""


class Keep(NamedTuple):
    """Keeps all or nothing of each kind."""

    data: bool
    names: bool
    sizes: bool

    def keeps_data(self) -> bool:
        return self.data

    def keeps_names(self) -> bool:
        return self.names

    def keeps_size(self) -> bool:
        return self.sizes


class Drawn(NamedTuple):
    """Decides each at random."""

    random: Random

    def toss(self) -> bool:
        return self.random.random() < 0.5

    keeps_data = keeps_names = keeps_size = toss


class Write(NamedTuple):
    position: int
    data: bytes


class Truncate(NamedTuple):
    size: int


@dataclass(eq=False)
class FileNode:
    """A plain file. `data`: content for processes, `durable`: synced content, `changes`: unsynced changes."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    changes: list[Write | Truncate] = field(default_factory=list)
    modified_ns: int = CLOCK_NS
    sync_failed: bool = False  # after a failed sync, later syncs prove nothing

    def write(self, position: int, data: bytes) -> None:
        self.changes.append(Write(position, data))
        put(self.data, position, data)
        self.modified_ns = CLOCK_NS

    def truncate(self, size: int) -> None:
        self.changes.append(Truncate(size))
        resize(self.data, size)
        self.modified_ns = CLOCK_NS

    def sync(self) -> None:
        if not self.sync_failed:
            self.durable = bytes(self.data)
            self.changes.clear()

    def survives(self, choice: Choice) -> bytes:
        """Return the bytes after a power cut."""
        kept = bytearray(self.durable)
        for change in self.changes:
            if isinstance(change, Truncate):
                if choice.keeps_data():
                    resize(kept, change.size)
                continue
            for start, end in sectors(change):
                if choice.keeps_data():
                    put(kept, change.position + start, change.data[start:end])
        if len(kept) < len(self.data) and self.changes and choice.keeps_size():
            resize(kept, len(self.data))
        return bytes(kept)


@dataclass(eq=False)
class Change:
    """Names that directories get in one operation; None: a name that is removed."""

    parts: list[tuple[DirectoryNode, Names]]

    def names_in(self, directory: DirectoryNode) -> Names:
        return {name: node for one, names in self.parts if one is directory for name, node in names.items()}

    def is_kept(self, choice: Choice, drawn: dict[Change, bool]) -> bool:
        """Does a power cut keep it? If a change of a name is lost, later changes of this name are lost too."""
        if self not in drawn:
            before = [
                earlier
                for directory, names in self.parts
                for earlier in directory.changes[: directory.changes.index(self)]
                if not earlier.names_in(directory).keys().isdisjoint(names)
            ]
            drawn[self] = all(earlier.is_kept(choice, drawn) for earlier in before) and choice.keeps_names()
        return drawn[self]


@dataclass(eq=False)
class DirectoryNode:
    """A directory. `entries`: content for processes, `durable`: synced content, `changes`: unsynced changes."""

    entries: dict[str, FileNode | DirectoryNode] = field(default_factory=dict)
    durable: dict[str, FileNode | DirectoryNode] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def change(self, names: Names) -> None:
        change_together([(self, names)])

    def sync(self) -> None:
        changes, self.changes = self.changes, []
        self.durable = dict(self.entries)
        for directory in {part[0] for change in changes for part in change.parts if part[0] is not self}:
            directory.sync()

    def survives(self, choice: Choice, drawn: dict[Change, bool]) -> dict[str, FileNode | DirectoryNode]:
        """Return the names after a power cut."""
        kept = dict(self.durable)
        for change in self.changes:
            if change.is_kept(choice, drawn):
                apply(kept, change.names_in(self))
        return kept


def change_together(parts: list[tuple[DirectoryNode, Names]]) -> None:
    """Change names in several directories at once."""
    change = Change(parts)
    for directory, names in parts:
        directory.changes.append(change)
        apply(directory.entries, names)


class Disk(NamedTuple):
    """A tree without running processes; all of it is durable except `unsynced`: paths from the top, without leading slash."""

    contents: dict[str, bytes]
    directories: frozenset[str] = frozenset()
    modified_ns: dict[str, int] = {}  # noqa: RUF012  # never changed
    unsynced: frozenset[str] = frozenset()  # files that a killed process wrote but did not sync

    @classmethod
    def load(cls, top: Path, under: str = "") -> Disk:
        """Return a copy of the real directory `top`, at `under`."""
        prefix = f"{under}/" if under else ""
        paths = [(prefix + path.relative_to(top).as_posix(), path) for path in sorted(top.rglob("*"))]
        files = {name: path for name, path in paths if path.is_file()}
        return cls(
            {name: path.read_bytes() for name, path in files.items()},
            frozenset([name for name, path in paths if path.is_dir()] + ([under] if under else [])),
            {name: path.stat().st_mtime_ns for name, path in files.items()},
        )

    def save(self, top: Path) -> None:
        """Write a copy of the tree to the real directory `top`."""
        for name in sorted(self.directories):
            (top / name).mkdir(parents=True, exist_ok=True)
        for name, data in self.contents.items():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_bytes(data)

    def below(self, directory: str) -> dict[str, bytes]:
        """Return the files of one directory by their path in it."""
        prefix = directory.strip("/") + "/"
        return {name[len(prefix) :]: data for name, data in self.contents.items() if name.startswith(prefix)}

    def tree(self) -> DirectoryNode:
        """Return the root of nodes with this content."""
        root = DirectoryNode()
        for name in sorted(self.directories):
            _directory(root, name)
        for name, data in self.contents.items():
            parent, _, last = name.rpartition("/")
            node = FileNode(bytearray(data), data, modified_ns=self.modified_ns.get(name, CLOCK_NS))
            if name in self.unsynced:
                node.durable, node.changes = b"", [Write(0, data)]
            _directory(root, parent).entries[last] = node
        _settle(root)
        return root

    @classmethod
    def of(cls, root: DirectoryNode, choice: Choice | None = None) -> Disk:
        """Return the content of `root` for processes, or after a power cut that keeps what `choice` decides."""
        contents, directories, times = {}, set(), {}
        for name, node in _nodes(root, "", choice, {}):
            if isinstance(node, DirectoryNode):
                directories.add(name)
            else:
                contents[name] = bytes(node.data) if choice is None else node.survives(choice)
                times[name] = node.modified_ns
        return cls(contents, frozenset(directories), times)


def apply(entries: dict[str, FileNode | DirectoryNode], names: Names) -> None:
    for name, node in names.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def put(data: bytearray, position: int, new: bytes) -> None:
    """Write into `data`; a gap is filled with zeros."""
    if position > len(data):
        resize(data, position)
    data[position : position + len(new)] = new


def resize(data: bytearray, size: int) -> None:
    if size < len(data):
        del data[size:]
    else:
        data.extend(bytes(size - len(data)))


def sectors(write: Write) -> Iterator[tuple[int, int]]:
    """Yield the parts of a write by sector: [start, end) in its bytes."""
    start = 0
    while start < len(write.data):
        end = min(len(write.data), start + SECTOR - (write.position + start) % SECTOR)
        yield start, end
        start = end


def _directory(root: DirectoryNode, path: str) -> DirectoryNode:
    node = root
    for part in path.split("/") if path else ():
        below = node.entries.setdefault(part, DirectoryNode())
        assert isinstance(below, DirectoryNode), path
        node = below
    return node


def _settle(node: DirectoryNode) -> None:
    node.sync()
    for below in node.entries.values():
        if isinstance(below, DirectoryNode):
            _settle(below)


def _nodes(
    node: DirectoryNode, prefix: str, choice: Choice | None, drawn: dict[Change, bool]
) -> Iterator[tuple[str, FileNode | DirectoryNode]]:
    entries = node.entries if choice is None else node.survives(choice, drawn)
    for name, below in sorted(entries.items()):
        yield prefix + name, below
        if isinstance(below, DirectoryNode):
            yield from _nodes(below, f"{prefix}{name}/", choice, drawn)
