"""A file that takes what is too much for memory while changes are only tried out. It has no name: nothing is left of it."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from engine.overlay.content import Extent

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import Buffer, WritableFile

WORTH_IT = 64 << 10  # bytes of one write: less stays in memory
IN_MEMORY = 2 << 20  # bytes of such writes that stay in memory too


class Spill:
    """Takes written bytes to the file that `make` makes, once there are many of them. `close` lets go of it."""

    def __init__(self, make: Callable[[], WritableFile]) -> None:
        self._make = make
        self._file: WritableFile | None = None
        self._size, self._in_memory = 0, 0
        self._lock = Lock()

    def take(self, data: Buffer) -> Extent | None:
        """The extent that stands for `data` from now on; None: keep it in memory. Raises UnwritableFile."""
        size = len(data)
        if size < WORTH_IT:
            return None
        with self._lock:
            if self._in_memory + size <= IN_MEMORY:
                self._in_memory += size
                return None
            if self._file is None:
                self._file = self._make()
            at = self._size
            self._file.write_at(at, data)
            self._size += size
        return Extent(size, None, self._file.path, at)

    def file_of(self, path: str) -> WritableFile | None:
        """The file that an extent with this path lies in, if it is here."""
        return self._file if self._file is not None and self._file.path == path else None

    def close(self) -> None:
        """Close the file, if there is one: with that it is gone."""
        if self._file is not None:
            self._file.close()
            self._file = None
