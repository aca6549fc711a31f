"""Stores of objects: a folder, or what obstore reaches (S3, Google Cloud Storage, Azure, HTTP).

What a RemoteStorageManager keeps its objects in. Everything reads objects through `Store`, tests put faulty ones in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.discovery.names import parent_of
from engine.errors import FileChangedWhileReading, OversizedFile, UnreadableFile, UnwritableFile
from engine.files import look

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.files import FileInfo, Files, ReadOnlyFiles

_DEEPEST = 16  # folders within one another in a store that is a folder
_MISSING = "check that this is the store of the cluster; an older version of the bucket may have the object"


class Object(NamedTuple):
    """An object of a store: its key, its size in bytes, what changes when its content does, and when it did (ms)."""

    key: str
    size: int
    etag: str | None
    modified_ms: int


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

    def read(self, found: Object, start: int, end: int) -> bytes | memoryview:
        """Bytes [start, end) of an object, which must be what it was when it was found."""
        ...

    def read_whole(self, key: str, limit: int) -> bytes | None:
        """A small object, in one request; None: there is none. Raises OversizedFile for more than `limit` bytes."""
        ...


class Bucket(Store, Protocol):
    """A store whose keys are looked at as paths."""

    def children(self, folder: str) -> tuple[Sequence[str], Sequence[Object]]:
        """What is directly below the prefix `folder`, "" for all: (what there is more below, objects)."""
        ...


class WritableStore(Store, Protocol):
    """A store that is changed. Raises UnwritableFile besides. Each call is done whole or not at all."""

    def put(self, key: str, size: int, parts: Iterable[bytes]) -> None:
        """Make an object of `size` bytes. Raises UnwritableFile where there is one of that key."""
        ...

    def delete(self, found: Object) -> None:
        """Delete an object, which must be what it was when it was found; that it is gone is no error."""
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
                yield _object(folder + name, info)

    def find(self, key: str) -> Object | None:
        """See Store."""
        info = look(self._files, self.path(key))
        return None if info is None or not info.is_file else _object(key, info)

    def read(self, found: Object, start: int, end: int) -> bytes:
        """See Store."""
        path = self.path(found.key)
        with self._files.open(path) as file:
            if file.size() != found.size or self.find(found.key) != found:
                raise changed(path)
            return file.read_exactly(start, end - start)

    def read_whole(self, key: str, limit: int) -> bytes | None:
        """See Store."""
        found = self.find(key)
        if found is None:
            return None
        if found.size > limit:
            raise OversizedFile(self.path(key), found.size, limit)
        return self.read(found, 0, found.size)


class WritableFolderStore(FolderStore):
    """The same, to be changed. See WritableStore."""

    def __init__(self, files: Files, folder: str) -> None:
        super().__init__(files, folder)
        self._changing = files

    def put(self, key: str, size: int, parts: Iterable[bytes]) -> None:
        """See WritableStore. Written aside and renamed."""
        files, path = self._changing, self.path(key)
        made = [key[:at] for at, character in enumerate(key) if character == "/"]
        for folder in made:
            files.make_directory(self.path(folder))
        with files.open_writable(f"{path}.tmp", create=True) as file:
            file.truncate(0)
            at = 0
            for part in parts:
                file.write_at(at, part)
                at += len(part)
            file.sync()
        if at != size:
            raise UnwritableFile(f"{path}: {at} bytes came of {size}")
        files.rename(f"{path}.tmp", path)
        for folder in (*(self.path(one) for one in reversed(made)), self.name):
            files.sync_directory(folder)

    def delete(self, found: Object) -> None:
        """See WritableStore."""
        there, path = self.find(found.key), self.path(found.key)
        if there is None:
            return
        if there != found:
            raise changed(path)
        self._changing.remove(path)
        self._changing.sync_directory(parent_of(path))


def _object(key: str, info: FileInfo) -> Object:
    return Object(key, info.size, str(info.modified_ns), info.modified_ms)


def changed(path: str) -> FileChangedWhileReading:
    """The error for an object that is not what it was when it was found."""
    return FileChangedWhileReading(f"{path}: it was replaced while it was read", do="run the command again", path=path)


def missing(path: str) -> UnreadableFile:
    """The error for an object that does not exist."""
    return UnreadableFile(f"{path}: the object does not exist", do=_MISSING, path=path)
