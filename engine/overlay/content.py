"""The bytes of a changed file, as extents: of files on the disk, of what was written, of zeros.

`Spill` takes what is too much for memory. Cutting, lengthening by zeros and taking over bytes of other files cost no memory.
"""

from __future__ import annotations

from bisect import bisect_right
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import Buffer, WritableFile

WORTH_IT = 64 << 10  # bytes of one write: less stays in memory
IN_MEMORY = 2 << 20  # bytes of such writes that stay in memory too


class Extent:
    """A run of bytes: `data`, or bytes of a file on the disk from `position` on, or (neither) zeros."""

    __slots__ = ("data", "path", "position", "size")

    def __init__(self, size: int, data: bytearray | None = None, path: str | None = None, position: int = 0) -> None:
        self.size, self.data, self.path, self.position = size, data, path, position

    def part(self, start: int, end: int) -> Extent:
        """The bytes [start, end) of it."""
        data = None if self.data is None else self.data[start:end]
        return Extent(end - start, data, self.path, self.position + start)


class Content:
    """The bytes of a file: `size` bytes of the file at `path` to begin with, or none."""

    def __init__(self, path: str | None, size: int) -> None:
        self.size = size
        self._extents: list[Extent] = [Extent(size, None, path)] if size else []
        self._starts: list[int] = [0] if size else []

    def truncate(self, size: int) -> None:
        """Cut to `size` bytes, or lengthen with zeros."""
        if size < self.size:
            at = self._boundary(size)
            del self._extents[at:], self._starts[at:]
        elif size > self.size:
            self._extents.append(Extent(size - self.size))
            self._starts.append(self.size)
        self.size = size

    def write(self, position: int, data: Buffer) -> None:
        """Put `data` at `position`; bytes between the end and there become zeros."""
        self._put(position, Extent(len(data), bytearray(data)))

    def put_parts(self, position: int, parts: list[Extent]) -> None:
        """Put extents of this or another file one after the other, from `position` on."""
        for part in parts:
            self._put(position, part)
            position += part.size

    def parts(self, start: int, end: int) -> list[Extent]:
        """The extents of the bytes [start, end), which must lie within the file."""
        found: list[Extent] = []
        at = bisect_right(self._starts, start) - 1
        while start < end:
            extent, first = self._extents[at], self._starts[at]
            stop = min(end, first + extent.size)
            found.append(extent.part(start - first, stop - first))
            start, at = stop, at + 1
        return found

    def _put(self, position: int, extent: Extent) -> None:
        if not extent.size:
            return
        if position > self.size:
            self.truncate(position)
        end = position + extent.size
        first, after = self._boundary(position), self._boundary(min(end, self.size))
        before = self._extents[first - 1] if first else None
        if before is not None and before.data is not None and extent.data is not None:
            before.data += extent.data
            before.size += extent.size
            del self._extents[first:after], self._starts[first:after]
        else:
            self._extents[first:after], self._starts[first:after] = [extent], [position]
        self.size = max(self.size, end)

    def _boundary(self, position: int) -> int:
        """Number of the extent that begins at `position`, which is made so by cutting the one that holds it."""
        at = bisect_right(self._starts, position) - 1
        if at < 0:
            return 0
        extent, start = self._extents[at], self._starts[at]
        if start == position:
            return at
        if position < start + extent.size:
            self._extents[at : at + 1] = [extent.part(0, position - start), extent.part(position - start, extent.size)]
            self._starts.insert(at + 1, position)
        return at + 1


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
        """Close the file, if there is one; that deletes it."""
        if self._file is not None:
            self._file.close()
            self._file = None
