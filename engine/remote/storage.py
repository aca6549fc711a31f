"""Stores of objects, read only: a folder, or what obstore reaches (S3, Google Cloud Storage, Azure, HTTP).

What a RemoteStorageManager keeps its objects in. Everything reads objects through `Store`, tests put faulty ones in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.errors import FileChangedWhileReading, UnreadableFile
from engine.files import look

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.files import ReadOnlyFiles

_DEEPEST = 16  # folders within one another in a store that is a folder
_MISSING = "check that this is the store of the cluster; an older version of the bucket may have the object"


class Object(NamedTuple):
    """An object of a store: its key, its size in bytes, and what changes when its content does."""

    key: str
    size: int
    etag: str | None


class Store(Protocol):
    """What is asked of a store. Raises UnreadableFile, FileChangedWhileReading.

    name  as the user named it, without what follows the bucket's prefix
    """

    name: str

    def path(self, key: str) -> str:
        """The object as errors and findings name it."""
        ...

    def list(self, prefix: str = "") -> Iterator[Object]:
        """The objects whose keys begin with `prefix`, in the order of keys."""
        ...

    def find(self, key: str) -> Object | None:
        """The object of that key; None: there is none."""
        ...

    def read(self, found: Object, start: int, end: int) -> bytes:
        """Bytes [start, end) of an object, which must be what it was when it was found."""
        ...


class FolderStore:
    """A folder, each file in it an object: the store of LocalTieredStorage, a mounted bucket, a copy of one. See Store."""

    def __init__(self, files: ReadOnlyFiles, folder: str) -> None:
        self._files, self.name = files, folder.rstrip("/") or "/"

    def path(self, key: str) -> str:
        """See Store."""
        return f"{self.name}/{key}"

    def list(self, prefix: str = "") -> Iterator[Object]:
        """See Store."""
        below, _, start = prefix.rpartition("/")
        if not below:
            yield from self._below("", start, 0)
            return
        info = look(self._files, self.path(below))
        if info is not None and info.is_directory:
            yield from self._below(f"{below}/", start, 0)

    def _below(self, folder: str, start: str, depth: int) -> Iterator[Object]:
        if depth == _DEEPEST:
            raise UnreadableFile(f"{self.path(folder)}: more than {_DEEPEST} nested folders", path=self.path(folder))
        found = []
        for name in self._files.list(self.path(folder).rstrip("/")):
            if name.startswith(start):
                info = look(self._files, self.path(folder + name))
                if info is not None and (info.is_directory or info.is_file):
                    found.append((name + "/" * info.is_directory, info))
        for name, info in sorted(found, key=lambda one: one[0]):
            if info.is_directory:
                yield from self._below(folder + name, "", depth + 1)
            else:
                yield Object(folder + name, info.size, str(info.modified_ns))

    def find(self, key: str) -> Object | None:
        """See Store."""
        info = look(self._files, self.path(key))
        return None if info is None or not info.is_file else Object(key, info.size, str(info.modified_ns))

    def read(self, found: Object, start: int, end: int) -> bytes:
        """See Store."""
        path = self.path(found.key)
        with self._files.open(path) as file:
            if file.size() != found.size or self.find(found.key) != found:
                raise changed(path)
            return file.read_exactly(start, end - start)


def changed(path: str) -> FileChangedWhileReading:
    """The error for an object that is not what it was when it was found."""
    return FileChangedWhileReading(f"{path}: it was replaced while it was read", do="run the command again", path=path)


def missing(path: str) -> UnreadableFile:
    """The error for an object that does not exist."""
    return UnreadableFile(f"{path}: the object does not exist", do=_MISSING, path=path)
