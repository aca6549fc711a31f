"""The bytes of a changed file, as pieces: of files on the disk, of what was written, of zeros.

Cutting, lengthening by zeros and taking over bytes of other files cost no memory.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.files import Buffer


class Piece:
    """A run of bytes: `data`, or bytes of a file on the disk from `position` on, or (neither) zeros."""

    __slots__ = ("data", "path", "position", "size")

    def __init__(self, size: int, data: bytearray | None = None, path: str | None = None, position: int = 0) -> None:
        self.size, self.data, self.path, self.position = size, data, path, position

    def part(self, start: int, end: int) -> Piece:
        """The bytes [start, end) of it."""
        data = None if self.data is None else self.data[start:end]
        return Piece(end - start, data, self.path, self.position + start)


class Content:
    """The bytes of a file: `size` bytes of the file at `path` to begin with, or none."""

    def __init__(self, path: str | None, size: int) -> None:
        self.size = size
        self._pieces: list[Piece] = [Piece(size, None, path)] if size else []
        self._starts: list[int] = [0] if size else []

    def truncate(self, size: int) -> None:
        """Cut to `size` bytes, or lengthen with zeros."""
        if size < self.size:
            at = self._boundary(size)
            del self._pieces[at:], self._starts[at:]
        elif size > self.size:
            self._pieces.append(Piece(size - self.size))
            self._starts.append(self.size)
        self.size = size

    def write(self, position: int, data: Buffer) -> None:
        """Put `data` at `position`; bytes between the end and there become zeros."""
        self._put(position, Piece(len(data), bytearray(data)))

    def put_parts(self, position: int, parts: list[Piece]) -> None:
        """Put pieces of this or another file one behind the other, from `position` on."""
        for part in parts:
            self._put(position, part)
            position += part.size

    def parts(self, start: int, end: int) -> list[Piece]:
        """The pieces of the bytes [start, end), which must lie within the file."""
        found: list[Piece] = []
        at = bisect_right(self._starts, start) - 1
        while start < end:
            piece, first = self._pieces[at], self._starts[at]
            stop = min(end, first + piece.size)
            found.append(piece.part(start - first, stop - first))
            start, at = stop, at + 1
        return found

    def _put(self, position: int, piece: Piece) -> None:
        if not piece.size:
            return
        if position > self.size:
            self.truncate(position)
        end = position + piece.size
        first, behind = self._boundary(position), self._boundary(min(end, self.size))
        before = self._pieces[first - 1] if first else None
        if before is not None and before.data is not None and piece.data is not None:
            before.data += piece.data
            before.size += piece.size
            del self._pieces[first:behind], self._starts[first:behind]
        else:
            self._pieces[first:behind], self._starts[first:behind] = [piece], [position]
        self.size = max(self.size, end)

    def _boundary(self, position: int) -> int:
        """Number of the piece that begins at `position`, which is made so by cutting the one that holds it."""
        at = bisect_right(self._starts, position) - 1
        if at < 0:
            return 0
        piece, start = self._pieces[at], self._starts[at]
        if start == position:
            return at
        if position < start + piece.size:
            self._pieces[at : at + 1] = [piece.part(0, position - start), piece.part(position - start, piece.size)]
            self._starts.insert(at + 1, position)
        return at + 1
