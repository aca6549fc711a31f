"""A file that takes what is too much for memory while changes are only tried out. Nothing else knows of it."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from engine.overlay.pieces import Piece

if TYPE_CHECKING:
    from engine.files import Buffer, Files, WritableFile

WORTH_IT = 64 << 10  # bytes of one write: less stays in memory
IN_MEMORY = 32 << 20  # bytes of such writes that stay in memory too


class Spill:
    """Takes written bytes to the file at `path`, once there are many of them. `close` removes it."""

    def __init__(self, files: Files, path: str) -> None:
        self._files, self._path = files, path
        self._file: WritableFile | None = None
        self._size, self._in_memory = 0, 0
        self._lock = Lock()

    def take(self, data: Buffer) -> Piece | None:
        """The piece that stands for `data` from now on; None: keep it in memory. Raises UnwritableFile."""
        size = len(data)
        if size < WORTH_IT:
            return None
        with self._lock:
            if self._in_memory + size <= IN_MEMORY:
                self._in_memory += size
                return None
            if self._file is None:
                self._file = self._files.open_writable(self._path, create=True)
            at = self._size
            self._file.write_at(at, data)
            self._size += size
        return Piece(size, None, self._path, at)

    def close(self) -> None:
        """Remove the file, if there is one."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._files.remove(self._path)
