"""A seam that stores every byte + 1: whatever reads or writes files past the seam sees or leaves nonsense."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.files import Files, OpenFile, WritableFile

if TYPE_CHECKING:
    from pathlib import Path

UP = bytes((byte + 1) % 256 for byte in range(256))
DOWN = bytes((byte - 1) % 256 for byte in range(256))


class ShiftedFile(OpenFile):
    """Conforms to engine.files.OpenFile."""

    __slots__ = ("_file",)

    def __init__(self, file: OpenFile) -> None:
        super().__init__(file.path, -1)
        self._file = file

    def close(self) -> None:
        self._file.close()

    def size(self) -> int:
        return self._file.size()

    def read_into(self, buffer: memoryview, position: int) -> int:
        count = self._file.read_into(buffer, position)
        view = buffer.cast("B")
        view[:count] = bytes(view[:count]).translate(DOWN)
        return count


class WritableShiftedFile(ShiftedFile, WritableFile):
    """Conforms to engine.files.WritableFile."""

    __slots__ = ()

    def write_at(self, position: int, *parts: bytes | bytearray | memoryview) -> None:
        assert isinstance(self._file, WritableFile)
        if any(len(part) for part in parts):
            self._zeros_up_to(position)
        self._file.write_at(position, *(bytes(part).translate(UP) for part in parts))

    def truncate(self, size: int) -> None:
        assert isinstance(self._file, WritableFile)
        self._zeros_up_to(size)
        self._file.truncate(size)

    def _zeros_up_to(self, size: int) -> None:
        assert isinstance(self._file, WritableFile)
        if size > (old := self._file.size()):
            self._file.write_at(old, UP[:1] * (size - old))

    def sync(self) -> None:
        assert isinstance(self._file, WritableFile)
        self._file.sync()


class ShiftedFiles(Files):
    """Conforms to engine.files.Files."""

    def open(self, path: str) -> ShiftedFile:
        return ShiftedFile(super().open(path))

    def open_writable(self, path: str, *, create: bool = False, mode: int | None = None) -> WritableShiftedFile:
        return WritableShiftedFile(super().open_writable(path, create=create, mode=mode))


def shift(top: Path, table: bytes = UP) -> None:
    """Store every file below `top` as ShiftedFiles would, or with DOWN back again. Times of last change stay."""
    import os

    for path in sorted(top.rglob("*")):
        if path.is_file():
            times = path.stat()
            path.write_bytes(path.read_bytes().translate(table))
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
