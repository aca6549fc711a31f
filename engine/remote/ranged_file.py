"""A file whose bytes come by ranges from elsewhere: what is read in order comes in few large pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import UnreadableFile
from engine.files import OpenFile

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST = 64 << 10  # bytes that are read at least, as far as there are more
_LARGEST = 8 << 20  # bytes of a piece, unless more are asked for at once


class RangedFile(OpenFile):
    """`size` bytes, of which `fetch(start, end)` gives a range. Holds one piece, at most of 8 MiB or of the largest read."""

    __slots__ = ("_ahead", "_at", "_fetch", "_piece", "_size")

    def __init__(self, path: str, size: int, fetch: Callable[[int, int], bytes]) -> None:
        super().__init__(path, -1)
        self._size, self._fetch = size, fetch
        self._at, self._piece, self._ahead = 0, memoryview(b""), _FIRST

    def close(self) -> None:
        """Let go of what was read."""
        self._piece = memoryview(b"")

    def size(self) -> int:
        """Bytes in the file."""
        return self._size

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from byte `position`; returns how many bytes came, fewer only at the end of the file."""
        if position < 0:
            raise UnreadableFile(f"{self.path}: Invalid argument: position {position}")
        done, wanted = 0, max(0, min(len(buffer), self._size - position))
        while done < wanted:
            at = position + done - self._at
            if not 0 <= at < len(self._piece):
                self._load(position + done, wanted - done)
                continue
            part = self._piece[at : at + wanted - done]
            buffer[done : done + len(part)] = part
            done += len(part)
        return done

    def _load(self, position: int, size: int) -> None:
        """Have the piece from `position` on; one that follows the last is twice as large."""
        is_next = len(self._piece) > 0 and position == self._at + len(self._piece)
        self._ahead = min(2 * self._ahead, _LARGEST) if is_next else _FIRST
        end = min(self._size, position + max(size, self._ahead))
        self._piece = memoryview(self._fetch(position, end))
        self._at = position
        if len(self._piece) != end - position:
            raise UnreadableFile(f"{self.path}: {len(self._piece)} bytes came of {end - position}", path=self.path)
