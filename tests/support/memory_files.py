"""The file system interface (engine/files) in memory, with files that change while they are read."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Self

from engine.errors import OversizedFile, UnreadableFile, became_shorter
from engine.files import DiskSpace, FileInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager

WORKING_DIRECTORY = "/work"


class MemoryFile:
    """Conforms to engine.files.OpenFile.

    shrink  (reads, size): after this number of reads the file has only `size` bytes
    """

    needs_requests = False

    def __init__(self, path: str, data: bytes, shrink: tuple[int, int] | None = None) -> None:
        self.path = path
        self._data = data
        self._shrink = shrink
        self._reads = 0

    def next_data(self, position: int, _end: int) -> int:
        return position

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        pass

    def size(self) -> int:
        return len(self._data)

    def read_into(self, buffer: memoryview, position: int) -> int:
        part = self._part(position, len(buffer))
        buffer[: len(part)] = part
        return len(part)

    def read(self, position: int, size: int) -> bytes:
        return self._part(position, size)

    def read_exactly(self, position: int, size: int) -> bytes:
        data = self.read(position, size)
        if len(data) < size:
            raise became_shorter(self.path, position + size)
        return data

    def _part(self, position: int, size: int) -> bytes:
        if position < 0 or size < 0:
            raise UnreadableFile(f"{self.path}: Invalid argument")
        if self._shrink is not None and self._reads >= self._shrink[0]:
            self._data = self._data[: self._shrink[1]]
        self._reads += 1
        return self._data[position : position + size]


class MemoryFiles:
    """Conforms to engine.files.ReadOnlyFiles: `contents` by path; directories are what the paths imply.

    shrink  see MemoryFile; holds for every file
    """

    def __init__(self, contents: Mapping[str, bytes], shrink: tuple[int, int] | None = None) -> None:
        self._contents = contents
        self._shrink = shrink

    def needs_requests(self, _path: str) -> bool:
        return False

    def info(self, path: str) -> FileInfo:
        if path in self._contents:
            return FileInfo(True, False, len(self._contents[path]), 0)
        if self._is_directory(path):
            return FileInfo(False, True, 4096, 0)
        raise UnreadableFile(f"{path}: No such file or directory")

    def space(self, path: str) -> DiskSpace:
        self.info(path)
        return DiskSpace(0, 0)

    def exists(self, path: str) -> bool:
        return path in self._contents or self._is_directory(path)

    def list(self, directory: str) -> list[str]:
        if not self._is_directory(directory):
            raise UnreadableFile(f"{directory}: No such file or directory")
        prefix = _prefix(directory)
        return sorted({path[len(prefix) :].partition("/")[0] for path in self._contents if path.startswith(prefix)})

    def special(self, directory: str) -> dict[str, str]:
        self.list(directory)
        return {}

    def held(self, directories: Iterable[str]) -> AbstractContextManager[None]:  # noqa: ARG002  # there are no links
        return nullcontext()

    def resolve(self, path: str) -> str:
        self.info(path)
        return self.absolute(path).rstrip("/")

    def open(self, path: str) -> MemoryFile:
        if self.info(path).is_directory:
            raise UnreadableFile(f"{path}: a directory, not a file")
        return MemoryFile(path, self._contents[path], self._shrink)

    def read(self, path: str, limit: int) -> bytes:
        with self.open(path) as file:
            size = file.size()
            if size > limit:
                raise OversizedFile(path, size, limit)
            return file.read(0, size)

    def absolute(self, path: str) -> str:
        return path if path.startswith("/") else f"{WORKING_DIRECTORY}/{path}"

    def _is_directory(self, path: str) -> bool:
        return path != "" and any(other.startswith(_prefix(path)) for other in self._contents)


def _prefix(directory: str) -> str:
    return "" if directory == "." else directory.rstrip("/") + "/"
