"""The bytes of a changed file, as extents: of files on the disk, of written bytes, of zeros.

Large content moves to a `Spill`. Truncation, lengthening by zeros and sharing bytes of other files need no memory.
"""

from __future__ import annotations

from bisect import bisect_right
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import Buffer, WritableFile

WORTH_IT = 64 << 10  # bytes: a smaller write stays in memory
IN_MEMORY = 2 << 20  # bytes of larger writes that stay in memory, too


class Extent:
    """A run of bytes: `data`, or bytes of a file on the disk from `position` on, or, without both, zeros."""

    __slots__ = ("data", "path", "position", "size")

    def __init__(self, size: int, data: bytearray | None = None, path: str | None = None, position: int = 0) -> None:
        self.size, self.data, self.path, self.position = size, data, path, position

    def part(self, start: int, end: int) -> Extent:
        """Return the part [start, end) of the extent."""
        data = None if self.data is None else self.data[start:end]
        return Extent(end - start, data, self.path, self.position + start)


class Content:
    """The bytes of a file: initially `size` bytes of the file at `path`, or none."""

    def __init__(self, path: str | None, size: int) -> None:
        self.size = size
        self._extents: list[Extent] = [Extent(size, None, path)] if size else []
        self._starts: list[int] = [0] if size else []

    def truncate(self, size: int) -> None:
        """Truncate to `size` bytes, or lengthen with zeros."""
        if size < self.size:
            at = self._boundary(size)
            del self._extents[at:], self._starts[at:]
        elif size > self.size:
            self._extents.append(Extent(size - self.size))
            self._starts.append(self.size)
        self.size = size

    def write(self, position: int, data: Buffer) -> None:
        """Write `data` at `position`; a gap after the current end becomes zeros."""
        self._put(position, Extent(len(data), bytearray(data)))

    def put_parts(self, position: int, parts: list[Extent]) -> None:
        """Write extents of this or another file in order, starting at `position`."""
        for part in parts:
            self._put(position, part)
            position += part.size

    def parts(self, start: int, end: int) -> list[Extent]:
        """Return the extents of the bytes [start, end), which must be within the file."""
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
        """Split the extent at `position`, unless one begins there, and return the number of the extent that begins there."""
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
    """Moves written bytes, once there are many, to the file that `make` opens. `close` deletes the file."""

    def __init__(self, make: Callable[[], WritableFile]) -> None:
        self._make = make
        self._file: WritableFile | None = None
        self._size, self._in_memory = 0, 0
        self._lock = Lock()

    def take(self, data: Buffer) -> Extent | None:
        """Return an extent that replaces `data`; None: keep `data` in memory. Raises UnwritableFile."""
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
        """Return the spill file if `path`, of an extent, is its path; else None."""
        return self._file if self._file is not None and self._file.path == path else None

    def close(self) -> None:
        """Close the file, if there is one, which deletes it."""
        if self._file is not None:
            self._file.close()
            self._file = None
