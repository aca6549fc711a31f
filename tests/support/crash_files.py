"""A file system interface in memory that records every operation, can stop before or fail any one, or omit a sync.

    disk = Disk.load(directory, "data")
    for number in range(run(work, disk).changes + 1):      # before each change, and after the last
        for what, after in cut(work, disk, number):        # as a kill and as power losses
            ...reopen `after` over CrashFiles(after)

`PowerCut` is a BaseException, and every later call raises it again, so that no clean-up can run. See `disk_model` for what a
power cut may leave.
"""

from __future__ import annotations

import errno as errors
import os
import sys
import threading
from contextlib import contextmanager, nullcontext
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import LogDirLocked, UnreadableFile, UnwritableFile
from engine.files import DiskSpace, FileInfo, Files, Lock, OpenFile, WritableFile, taken, unreadable, unwritable
from tests.support.disk_model import DirectoryNode, Disk, Drawn, FileNode, Keep, change_together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

WORKING_DIRECTORY = "/here"
FAR = "far"  # a top directory on another device: no file can be renamed from or to it
ROOT = Path(__file__).parents[2]
LOSSES = (  # a kill keeps everything
    Keep(data=False, names=False, sizes=False),
    Keep(data=False, names=True, sizes=False),
    Keep(data=False, names=True, sizes=True),
    Keep(data=True, names=False, sizes=True),
)
DRAWN = 5  # random power losses for each change

Node = FileNode | DirectoryNode


class PowerCut(BaseException):
    """The process has ended. Not an Exception: nothing in the engine may catch it."""


class Operation(NamedTuple):
    """One call of the interface. `site`: (file in the project, line) that calls a sync, None for other calls."""

    kind: str
    path: str
    changes: bool  # can it change the disk
    site: tuple[str, int] | None = None


class StartProblem(NamedTuple):
    """A failure of operation `number` (of all, from 0).

    error  of the operating system      part  share of its bytes that a write stores before it fails
    """

    number: int
    error: int = errors.EIO
    part: float = 0


class CrashFile(OpenFile):
    """Conforms to engine.files.OpenFile."""

    __slots__ = ("_files", "_node", "_open")

    def __init__(self, files: CrashFiles, path: str, node: FileNode) -> None:
        super().__init__(path, -1)
        self._files, self._node, self._open = files, node, True

    def close(self) -> None:
        self._open = False

    def duplicate(self) -> None:
        """It represents a file in memory."""

    def size(self) -> int:
        self._checked()
        return len(self._node.data)

    def read_into(self, buffer: memoryview, position: int) -> int:
        self._checked()
        self._files.passes("read", self.path)
        if position < 0:
            raise unreadable(self.path, _os_error(errors.EINVAL))
        part = self._node.data[position : position + len(buffer)]
        buffer[: len(part)] = part
        return len(part)

    def _checked(self) -> None:
        self._files.alive()
        assert self._open, f"{self.path}: used after it was closed"


class WritableCrashFile(CrashFile, WritableFile):
    """Conforms to engine.files.WritableFile."""

    __slots__ = ()

    def write_at(self, position: int, *parts: bytes | bytearray | memoryview) -> None:
        data = b"".join(bytes(memoryview(part).cast("B")) for part in parts if len(part))
        self._checked()
        if position < 0:
            raise unwritable(self.path, _os_error(errors.EINVAL))
        if data:
            self._files.passes("write", self.path, lambda share: self._part(position, data, share), self._node)
            self._node.write(position, data)

    def _part(self, position: int, data: bytes, share: float) -> None:
        if count := int(len(data) * share):
            self._node.write(position, data[:count])

    def truncate(self, size: int) -> None:
        self._checked()
        if size < 0:
            raise unwritable(self.path, _os_error(errors.EINVAL))
        self._files.passes("truncate", self.path)
        self._node.truncate(size)

    def sync(self) -> None:
        self._checked()
        self._files.passes("sync", self.path, self._fail_sync)
        if not self._files.leaves_out(_site()):
            self._node.sync()

    def _fail_sync(self, _share: float) -> None:
        self._node.sync_failed = True


class CrashLock(Lock):
    def __init__(self, files: CrashFiles, path: str, node: Node) -> None:
        super().__init__(path, -1)
        self._files, self._node = files, node

    def release(self) -> None:
        self._files.locked = [node for node in self._files.locked if node is not self._node]


class CrashFiles(Files):
    """Conforms to engine.files.Files, in memory. Relative paths are below WORKING_DIRECTORY.

    stop_at     raise PowerCut before this change (number among the changes, from 0)
    part        share of its bytes that a write stores if it is the change that is stopped
    trouble     one operation fails
    left_out    a site (see Operation) whose syncs do nothing: an injected bug
    held        paths that another process has locked
    watch       called before each change with its number; see also `interrupted`
    """

    def __init__(
        self,
        disk: Disk | None = None,
        *,
        stop_at: int | None = None,
        part: float = 0,
        problem: StartProblem | None = None,
        left_out: tuple[str, range] | None = None,
        held: tuple[str, ...] = (),
        watch: Callable[[int], None] | None = None,
    ) -> None:
        self.root = (disk or Disk({})).tree()
        self.operations: list[Operation] = []
        self.locked: list[Node] = []
        self.stopped = self.troubled = False
        self._changes = 0
        self._stop_at, self._part, self._trouble, self._left_out, self._held = stop_at, part, problem, left_out, held
        self._guard = threading.RLock()
        self._watch = watch
        self._interruptible: tuple[FileNode, Callable[[float], None]] | None = None

    # results for tests

    @property
    def changes(self) -> int:
        """The number of operations so far that may have changed something."""
        return self._changes

    def disk(self) -> Disk:
        """The disk after a kill: everything written so far."""
        return Disk.of(self.root)

    def interrupted(self, part: float = 0.5) -> Disk | None:
        """Return the disk after a kill in the middle of the next change, if that is a write; for `watch`."""
        if self._interruptible is None:
            return None
        node, partly = self._interruptible
        before = bytearray(node.data), list(node.changes), node.modified_ns
        partly(part)
        disk = self.disk()
        node.data, node.changes, node.modified_ns = before
        return disk

    def power_losses(self, seed: int = 0, drawn: int = DRAWN) -> Iterator[Disk]:
        """Yield disks that a power cut may leave: without unsynced changes, and with a random part of them."""
        seen = [self.disk()]
        for choice in [*LOSSES, *(Drawn(Random(seed * 1000 + number)) for number in range(drawn))]:
            disk = Disk.of(self.root, choice)
            if disk not in seen:
                seen.append(disk)
                yield disk

    # shared code of the operations

    def alive(self) -> None:
        if self.stopped:
            raise PowerCut

    def passes(self, kind: str, path: str, partly: Callable[[float], None] | None = None, node: FileNode | None = None) -> None:
        """Record an operation; stop before it or fail it if the test asks for that, after doing it `partly` if possible."""
        with self._guard:
            self.alive()
            changes = kind in CHANGES
            if changes and self._watch:
                self._interruptible = (node, partly) if node is not None and partly is not None else None
                self._watch(self._changes)
            if changes and self._changes == self._stop_at:
                if partly and self._part and kind == "write":
                    partly(self._part)
                self.stopped = True
                raise PowerCut
            number = len(self.operations)
            self.operations.append(Operation(kind, path, changes, _site() if kind in SYNCS else None))
            self._changes += changes
            if self._trouble and number == self._trouble.number:
                self.troubled = True
                if partly:
                    partly(self._trouble.part)
                raise (unwritable if kind in WRITING else unreadable)(path, _os_error(self._trouble.error))

    def leaves_out(self, site: tuple[str, int]) -> bool:
        return self._left_out is not None and site[0] == self._left_out[0] and site[1] in self._left_out[1]

    # ReadOnlyFiles

    def info(self, path: str) -> FileInfo:
        self.passes("info", path)
        node = self._node(path, unreadable)
        if isinstance(node, DirectoryNode):
            return FileInfo(False, True, 4096, 0)
        return FileInfo(True, False, len(node.data), node.modified_ns)

    def space(self, path: str) -> DiskSpace:
        self.passes("space", path)
        self._node(path, unreadable)
        return DiskSpace(0, 1 << 40)

    def exists(self, path: str) -> bool:
        self.passes("exists", path)
        try:
            self._node(path, unreadable)
        except UnreadableFile:
            return False
        return True

    def plain(self, directory: str) -> list[str]:
        self.passes("list", directory)
        node = self._node(directory, unreadable)
        if isinstance(node, FileNode):
            raise unreadable(directory, _os_error(errors.ENOTDIR))
        return sorted(name for name, child in node.entries.items() if isinstance(child, FileNode))

    def list(self, directory: str) -> list[str]:
        self.passes("list", directory)
        node = self._node(directory, unreadable)
        if isinstance(node, FileNode):
            raise unreadable(directory, _os_error(errors.ENOTDIR))
        return sorted(node.entries)

    def special(self, directory: str) -> dict[str, str]:
        self.passes("list", directory)
        if isinstance(self._node(directory, unreadable), FileNode):
            raise unreadable(directory, _os_error(errors.ENOTDIR))
        return {}  # only files and directories exist here

    def held(self, directories: Iterable[str]) -> AbstractContextManager[None]:  # noqa: ARG002  # there are no links
        return nullcontext()

    def resolve(self, path: str) -> str:
        self.passes("resolve", path)
        self._node(path, unreadable)
        return "/" + "/".join(_parts(self.absolute(path)))

    def open(self, path: str) -> CrashFile:
        self.passes("open", path)
        node = self._node(path, unreadable)
        if isinstance(node, DirectoryNode):
            raise UnreadableFile(f"{path}: a directory, not a file")
        return CrashFile(self, path, node)

    def absolute(self, path: str) -> str:
        return path if path.startswith("/") else f"{WORKING_DIRECTORY}/{path}"

    # Files

    def open_writable(self, path: str, *, create: bool = False, mode: int | None = None) -> WritableCrashFile:  # noqa: ARG002  # it has no users
        parent, name = self._place(path)
        node = parent.entries.get(name)
        self.passes("create" if create and node is None else "open-writable", path)
        if node is None and create:
            node = FileNode()
            parent.change({name: node})
        if node is None:
            raise unwritable(path, _os_error(errors.ENOENT))
        if isinstance(node, DirectoryNode):
            raise unwritable(path, _os_error(errors.EISDIR))
        return WritableCrashFile(self, path, node)

    def rename(self, path: str, to: str, *, replaces: bool = False) -> None:
        what = f"{path} -> {to}"
        (parent, name), (target, new) = self._place(path, what), self._place(to, what)
        node, old = parent.entries.get(name), target.entries.get(new)
        self.passes("rename", what)
        if node is None:
            raise unwritable(what, _os_error(errors.ENOENT))
        if _device(self.absolute(path)) != _device(self.absolute(to)):
            error = _os_error(errors.EXDEV)
            raise unwritable(what, error) from error
        if isinstance(old, DirectoryNode):
            if isinstance(node, FileNode):
                raise unwritable(what, _os_error(errors.EISDIR))
            if old.entries and old is not node:
                raise unwritable(what, _os_error(errors.ENOTEMPTY))
        elif old is not None and isinstance(node, DirectoryNode):
            raise unwritable(what, _os_error(errors.ENOTDIR))
        if node is old:
            return
        if isinstance(old, FileNode) and not replaces:
            raise taken(what)
        if parent is target:
            parent.change({name: None, new: node})
        else:
            change_together([(target, {new: node}), (parent, {name: None})])

    def remove(self, path: str) -> None:
        try:
            parent, name = self._place(path)
        except UnwritableFile as error:
            if "No such file" in str(error):
                return
            raise
        node = parent.entries.get(name)
        self.passes("remove", path)
        if isinstance(node, DirectoryNode):
            raise unwritable(path, _os_error(errors.EISDIR))
        if node is not None:
            parent.change({name: None})

    def make_directory(self, path: str) -> None:
        parent, name = self._place(path)
        node = parent.entries.get(name)
        self.passes("make-directory", path)
        if isinstance(node, FileNode):
            raise unwritable(path, _os_error(errors.EEXIST))
        if node is None:
            parent.change({name: DirectoryNode()})

    def make_own_directory(self, path: str) -> bool:
        self.make_directory(path)
        return False

    @contextmanager
    def held_open(self, directory: str) -> Iterator[None]:
        self._node(directory, unwritable)
        yield

    held_for_deletion = held_open

    def remove_directory(self, path: str) -> None:
        parent, name = self._place(path)
        node = parent.entries.get(name)
        self.passes("remove-directory", path)
        if node is None:
            raise unwritable(path, _os_error(errors.ENOENT))
        if isinstance(node, FileNode):
            raise unwritable(path, _os_error(errors.ENOTDIR))
        if node.entries:
            raise unwritable(path, _os_error(errors.ENOTEMPTY))
        parent.change({name: None})

    def sync_directory(self, path: str) -> None:
        node = self._node(path, unwritable)
        self.passes("sync-directory", path)
        if isinstance(node, FileNode):
            raise unwritable(path, _os_error(errors.ENOTDIR))
        if not self.leaves_out(_site()):
            node.sync()

    def set_modified(self, path: str, modified_ns: int) -> None:
        node = self._node(path, unwritable)
        self.passes("set-modified", path)
        if isinstance(node, FileNode):
            node.modified_ns = modified_ns

    def lock(self, path: str) -> CrashLock:
        parent, name = self._place(path)
        node = parent.entries.get(name)
        self.passes("create" if node is None else "lock", path)
        if node is None:
            node = FileNode()
            parent.change({name: node})
        if path in self._held:
            raise LogDirLocked(f"{path}: another process holds this lock, most likely a running broker")
        assert all(other is not node for other in self.locked), f"{path}: locked twice by one process"
        self.locked.append(node)
        return CrashLock(self, path, node)

    def _node(self, path: str, error: Callable[[str, OSError], Exception], what: str | None = None) -> Node:
        self.alive()
        if "\0" in path:
            raise error(what or path, ValueError("embedded null byte"))
        if not path:
            raise error(what or path, _os_error(errors.ENOENT))
        node: Node = self.root
        for part in _parts(self.absolute(path)):
            if isinstance(node, FileNode):
                raise error(what or path, _os_error(errors.ENOTDIR))
            if part not in node.entries:
                raise error(what or path, _os_error(errors.ENOENT))
            node = node.entries[part]
        if isinstance(node, FileNode) and path.endswith("/"):
            raise error(what or path, _os_error(errors.ENOTDIR))
        return node

    def _place(self, path: str, what: str | None = None) -> tuple[DirectoryNode, str]:
        """Return the directory of `path`, and the name in it."""
        parts = _parts(self.absolute(path))
        if "\0" in path or not path or not parts:
            self._node(path, unwritable, what)
            raise AssertionError(path)
        parent = self._node("/" + "/".join(parts[:-1]), unwritable, what or path)
        if isinstance(parent, FileNode):
            raise unwritable(what or path, _os_error(errors.ENOTDIR))
        return parent, parts[-1]


CHANGES = frozenset({
    "write", "truncate", "sync", "create", "rename", "remove", "make-directory", "remove-directory", "sync-directory",
    "set-modified",
})  # fmt: skip
WRITING = CHANGES | {"open-writable", "lock"}
SYNCS = frozenset({"sync", "sync-directory"})


class KeptFiles(CrashFiles):
    """Files whose changes could be undone, as with a quarantine."""

    keeps = True


def _parts(path: str) -> list[str]:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return parts


def _device(path: str) -> bool:
    """Is the path on the other device?"""
    return _parts(path)[:1] == [FAR]


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _site() -> tuple[str, int]:
    """Return where the sync was called: not in this file, nor in a file system interface that only forwards it."""
    frame = sys._getframe(1)
    while frame and (frame.f_code.co_filename == __file__ or frame.f_code.co_name in ("sync", "sync_directory")):
        frame = frame.f_back
    assert frame
    path = Path(frame.f_code.co_filename)
    return (path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)), frame.f_lineno


def run(work: Callable[[CrashFiles], object], disk: Disk, **settings: object) -> CrashFiles:
    """Do `work` over `disk` until it ends or the power is cut → the files at that moment."""
    files = CrashFiles(disk, **settings)
    try:
        work(files)
    except PowerCut:
        assert files.stopped
    return files


def cut(
    work: Callable[[CrashFiles], object], disk: Disk, number: int, *, left_out: tuple[str, range] | None = None
) -> Iterator[tuple[str, Disk]]:
    """Yield (event, disk) for every way in which `work` may end before change `number`."""
    files = run(work, disk, stop_at=number, left_out=left_out)
    where = f"before change {number}"
    yield f"killed {where}", files.disk()
    for count, after in enumerate(files.power_losses(seed=number)):
        yield f"power lost {where} ({count})", after
    torn = run(work, disk, stop_at=number, part=0.5, left_out=left_out).disk()
    if torn != files.disk():
        yield f"killed in the middle of change {number}", torn
