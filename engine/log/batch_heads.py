"""Heads of batches at positions that an index names."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.errors import became_shorter
from engine.formats import BATCH_HEADER, HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MAGIC_V2, MIN_RECORD_SIZE

if TYPE_CHECKING:
    from engine.files import OpenFile

_BLOCK = 256 << 10


class BatchAt(NamedTuple):
    """What the head of a batch at a file position says."""

    position: int
    size: int
    base_offset: int
    last_offset: int


class BatchHeads:
    """Heads of batches at any position of a log, read in blocks since indexes ask in growing order."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self.size = file.size()
        self._block = b""
        self._start = 0

    def at(self, position: int, limit: int | None = None) -> BatchAt | str:
        """The batch that begins at `position` and lies within `limit` bytes from there; else why there is none.

        Raises UnreadableFile, and FileChangedWhileReading where the log became shorter meanwhile.
        """
        if not 0 <= position <= self.size:
            return f"byte {position} lies outside the log, which has {self.size} bytes"
        end = self.size if limit is None else min(self.size, position + limit)
        if end - position <= HEADER_SIZE_UP_TO_MAGIC:
            return f"no batch begins at byte {position}: the log ends there"
        at = self._load(position)
        head = memoryview(self._block)[at : at + BATCH_HEADER.size]
        if len(head) < min(BATCH_HEADER.size, self.size - position):
            raise became_shorter(self._file.path, self.size)
        length = int.from_bytes(head[8:12], "big", signed=True)
        if length < MIN_RECORD_SIZE:
            return f"no batch begins at byte {position}: its size field would be {length}"
        if length > end - position - LOG_OVERHEAD:
            return f"no batch begins at byte {position}: it would need {length + LOG_OVERHEAD} bytes"
        base_offset = int.from_bytes(head[:8], "big", signed=True)
        last_offset = base_offset
        if MAGIC_V2 <= head[16] < 128:
            if len(head) < BATCH_HEADER.size:
                return f"no batch begins at byte {position}: its header is cut off"
            delta = BATCH_HEADER.read(head).last_offset_delta
            last_offset = (base_offset + delta + 2**63) % 2**64 - 2**63
        return BatchAt(position, length + LOG_OVERHEAD, base_offset, last_offset)

    def _load(self, position: int) -> int:
        """Make the head at `position` present → where it begins in the block."""
        if not self._start <= position <= self._start + len(self._block) - BATCH_HEADER.size:
            self._block = self._file.read(position, _BLOCK)
            self._start = position
        return position - self._start
