"""Stores of objects: folders; see `object_store` for S3, Google Cloud Storage, Azure and HTTP.

A RemoteStorageManager keeps its objects in a store. All code reads objects through `Store`; tests replace it by a faulty store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.discovery.names import parent_of
from engine.errors import FileChangedWhileReading, OversizedFile, UnreadableFile, UnwritableFile
from engine.files import look

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.files import FileInfo, Files, ReadOnlyFiles

_DEEPEST = 16  # nested folders in a store that is a folder
_MISSING = "check that this is the store of the cluster; an older version of the bucket may have the object"


class Object(NamedTuple):
    """An object of a store: key, size in bytes, entity tag (changes with the content), time of the last change (ms).

    The tag is without quotes. The time may be that of the second.
    """

    key: str
    size: int
    etag: str | None
    modified_ms: int


class Store(Protocol):
    """A store for reading. Raises UnreadableFile, FileChangedWhileReading.

    name  path or URL in the spelling of the user, without a slash at the end
    """

    name: str

    def path(self, key: str) -> str:
        """Return the name of an object for errors and findings."""
        ...

    def list(self, prefix: str = "") -> Iterator[Object]:
        """Return the objects whose keys begin with `prefix`, in the order of keys."""
        ...

    def find(self, key: str) -> Object | None:
        """Return the object with that key; None: it does not exist."""
        ...

    def read(self, found: Object, start: int, end: int) -> bytes | memoryview:
        """Read bytes [start, end) of an object, which must not have changed since it was found."""
        ...

    def find_and_read(self, key: str, start: int, end: int) -> tuple[Object, bytes | memoryview] | None:
        """Find an object and read its bytes [start, end) in one request, fewer if it ends before; None: it does not exist."""
        ...

    def read_whole(self, key: str, limit: int) -> bytes | None:
        """Read a small object in one request; None: it does not exist. Raises OversizedFile for more than `limit` bytes."""
        ...


class Bucket(Store, Protocol):
    """A store whose keys are used as paths."""

    def children(self, folder: str) -> tuple[Sequence[str], Sequence[Object]]:
        """Return (subfolders, objects) directly below the prefix `folder`; "": below the root."""
        ...


class WritableStore(Store, Protocol):
    """A store for reading and writing. Also raises UnwritableFile. Each call is atomic."""

    def put(self, key: str, size: int, parts: Iterable[bytes]) -> None:
        """Create an object of `size` bytes. Raises UnwritableFile if an object with that key exists."""
        ...

    def delete(self, found: Object) -> None:
        """Delete an object, which must not have changed since it was found. A missing object is not an error."""
        ...


class FolderStore:
    """A folder whose files are objects: the store of LocalTieredStorage, a mounted bucket, a copy of a bucket. See Store."""

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

    def read(self, found: Object, start: int, end: int) -> memoryview:
        """See Store."""
        path, data = self.path(found.key), memoryview(bytearray(end - start))
        with self._files.open(path) as file:
            is_same = file.size() == found.size and self.find(found.key) == found
            if not is_same or file.read_into(data, start) < len(data):
                raise changed(path)
        return data

    def find_and_read(self, key: str, start: int, end: int) -> tuple[Object, memoryview] | None:
        """See Store."""
        found = self.find(key)
        return None if found is None else (found, self.read(found, min(start, found.size), min(end, found.size)))

    def read_whole(self, key: str, limit: int) -> bytes | None:
        """See Store."""
        found = self.find(key)
        if found is None:
            return None
        if found.size > limit:
            raise OversizedFile(self.path(key), found.size, limit)
        return bytes(self.read(found, 0, found.size))


class WritableFolderStore(FolderStore):
    """A folder for reading and writing. See WritableStore."""

    def __init__(self, files: Files, folder: str) -> None:
        super().__init__(files, folder)
        self._changing = files

    def put(self, key: str, size: int, parts: Iterable[bytes]) -> None:
        """See WritableStore. Writes KEY.tmp and renames it."""
        files, path = self._changing, self.path(key)
        folders = [key[:at] for at, character in enumerate(key) if character == "/"]
        for folder in folders:
            files.make_directory(self.path(folder))
        with files.open_writable(f"{path}.tmp", create=True) as file:
            file.truncate(0)
            at = 0
            for part in of_size(parts, size, path):
                file.write_at(at, part)
                at += len(part)
            file.sync()
        files.rename(f"{path}.tmp", path)
        for folder in (*(self.path(one) for one in reversed(folders)), self.name):
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


def of_size(parts: Iterable[bytes], size: int, path: str) -> Iterator[bytes]:
    """Yield the parts of a new object. Raises UnwritableFile, instead of ending, if they do not have `size` bytes."""
    done = 0
    for part in parts:
        done += len(part)
        yield part
    if done != size:
        raise UnwritableFile(f"{path}: {done} bytes were read, not {size}")


def changed(path: str) -> FileChangedWhileReading:
    """Return the error for an object that changed after it was found."""
    return FileChangedWhileReading(f"{path}: it was replaced while it was read", do="run the command again", path=path)


def missing(path: str) -> UnreadableFile:
    """Return the error for an object that does not exist."""
    return UnreadableFile(f"{path}: the object does not exist", do=_MISSING, path=path)
