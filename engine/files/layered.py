"""Layers over another file system interface: they pass on the calls that they do not implement.

Two of them watch for the first change: one refuses it, the other announces it. One hides files.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.errors import UnreadableFile
from engine.files import Files, ReadOnlyFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from engine.files import DiskSpace, FileInfo, Lock, OpenFile, WritableFile


class ReadOnlyFilesAbove(ReadOnlyFiles):
    """All of ReadOnlyFiles, implemented by `below`; a layer overrides methods, which keep the contracts of ReadOnlyFiles."""

    def __init__(self, below: ReadOnlyFiles) -> None:
        self._below = below

    def needs_requests(self, path: str) -> bool:
        """As Files does."""
        return self._below.needs_requests(path)

    def info(self, path: str) -> FileInfo:
        """As Files does."""
        return self._below.info(path)

    def space(self, path: str) -> DiskSpace:
        """As Files does."""
        return self._below.space(path)

    def exists(self, path: str) -> bool:
        """As Files does."""
        return self._below.exists(path)

    def plain(self, directory: str) -> list[str]:
        """As Files does."""
        return self._below.plain(directory)

    def list(self, directory: str) -> list[str]:
        """As Files does."""
        return self._below.list(directory)

    def special(self, directory: str) -> dict[str, str]:
        """As Files does."""
        return self._below.special(directory)

    def resolve(self, path: str) -> str:
        """As Files does."""
        return self._below.resolve(path)

    def open(self, path: str) -> OpenFile:
        """As Files does."""
        return self._below.open(path)

    def read(self, path: str, limit: int) -> bytes:
        """As Files does."""
        return self._below.read(path, limit)

    def absolute(self, path: str) -> str:
        """As Files does."""
        return self._below.absolute(path)

    def root(self, path: str) -> str:
        """As Files does."""
        return self._below.root(path)

    def held(self, directories: Iterable[str]) -> AbstractContextManager[None]:
        """As Files does."""
        return self._below.held(directories)


class ReadableFiles(ReadOnlyFilesAbove):
    """The files of `below` without those that `hide` names. Safe for several threads."""

    def __init__(self, below: ReadOnlyFiles) -> None:
        super().__init__(below)
        self._hidden: dict[str, frozenset[str]] = {}  # by directory: names

    def hide(self, path: str) -> bool:
        """Hide a file, for example because it cannot be read. Returns False if its directory does not list it."""
        directory, _, name = path.rpartition("/")
        if name not in self.list(directory):
            return False
        self._hidden[directory] = self._hidden.get(directory, frozenset()) | {name}
        return True

    def _is_hidden(self, path: str) -> bool:
        directory, _, name = path.rpartition("/")
        return name in self._hidden.get(directory, ())

    def plain(self, directory: str) -> list[str]:
        """As Files does."""
        return [name for name in self._below.plain(directory) if not self._is_hidden(f"{directory.rstrip('/')}/{name}")]

    def list(self, directory: str) -> list[str]:
        """As Files does."""
        return [name for name in self._below.list(directory) if not self._is_hidden(f"{directory.rstrip('/')}/{name}")]

    def exists(self, path: str) -> bool:
        """As Files does."""
        return not self._is_hidden(path) and self._below.exists(path)

    def info(self, path: str) -> FileInfo:
        """As Files does."""
        self._refuse_hidden(path)
        return self._below.info(path)

    def open(self, path: str) -> OpenFile:
        """As Files does."""
        self._refuse_hidden(path)
        return self._below.open(path)

    def _refuse_hidden(self, path: str) -> None:
        if self._is_hidden(path):
            raise UnreadableFile(f"{path}: No such file or directory", path=path)


class FilesAbove(ReadOnlyFilesAbove, Files):
    """All of Files, implemented by `below`; a layer overrides methods, which keep the contracts of Files."""

    _below: Files

    def __init__(self, below: Files) -> None:
        super().__init__(below)

    @property
    def _changing(self) -> Files:
        """The interface that makes changes and takes locks for them."""
        return self._below

    @property
    def keeps(self) -> bool:
        """As Files does."""
        return self._below.keeps

    @contextmanager
    def held_open(self, directory: str) -> Iterator[None]:
        """As Files does."""
        with self._below.held_open(directory):
            yield

    @contextmanager
    def held_for_deletion(self, directory: str) -> Iterator[None]:
        """As Files does."""
        with self._below.held_for_deletion(directory):
            yield

    def open_writable(self, path: str, *, create: bool = False, mode: int | None = None) -> WritableFile:
        """As Files does."""
        return self._changing.open_writable(path, create=create, mode=mode)

    def rename(self, path: str, to: str, *, replaces: bool = False) -> None:
        """As Files does."""
        self._changing.rename(path, to, replaces=replaces)

    def remove(self, path: str) -> None:
        """As Files does."""
        self._changing.remove(path)

    def make_directory(self, path: str) -> None:
        """As Files does."""
        self._changing.make_directory(path)

    def make_own_directory(self, path: str) -> bool:
        """As Files does."""
        return self._changing.make_own_directory(path)

    def remove_directory(self, path: str) -> None:
        """As Files does."""
        self._changing.remove_directory(path)

    def sync_directory(self, path: str) -> None:
        """As Files does."""
        self._changing.sync_directory(path)

    def set_modified(self, path: str, modified_ns: int) -> None:
        """As Files does."""
        self._changing.set_modified(path, modified_ns)

    def copy(self, file: OpenFile, start: int, end: int, to: WritableFile, position: int) -> None:
        """As Files does."""
        self._changing.copy(file, start, end, to, position)

    def lock(self, path: str) -> Lock:
        """As Files does."""
        return self._changing.lock(path)


class WouldChange(Exception):  # an answer, not an error
    """A change was attempted."""


class UnchangedFiles(FilesAbove):
    """`below`, read-only until `release` is called: an attempt to change something raises WouldChange.

    Methods are those of Files.
    """

    def __init__(self, below: Files) -> None:
        super().__init__(below)
        self._is_released = False

    def release(self) -> None:
        """Allow changes from now on."""
        self._is_released = True

    @property
    def _changing(self) -> Files:
        """As FilesAbove has it. Raises WouldChange."""
        if not self._is_released:
            raise WouldChange
        return self._below


class WatchedFiles(FilesAbove):
    """`below`; calls `before` once, before the first change. `is_changed`: a change was made or attempted.

    Methods are those of Files.
    """

    def __init__(self, below: Files, before: Callable[[], object]) -> None:
        super().__init__(below)
        self._before = before
        self.is_changed = False

    @property
    def _changing(self) -> Files:
        """As FilesAbove has it."""
        if not self.is_changed:
            self._before()
            self.is_changed = True
        return self._below
