"""Headers of single batches, at positions from an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.errors import became_shorter
from engine.formats import (
    BATCH_HEADER,
    HEADER_SIZE_UP_TO_MAGIC,
    INT_MAX,
    LOG_OVERHEAD,
    LONG_MAX,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    to_long,
)
from engine.kernels.verify import Entries, sound_offset_entries
from engine.record.windows import Window, scan_range

if TYPE_CHECKING:
    from engine.files import OpenFile
    from engine.index.sparse import OffsetIndex
    from engine.record.columns import BatchColumns

_BLOCK = 256 << 10
_LARGEST_BASE = LONG_MAX - 2 * INT_MAX  # base offset of an index above which offsets may exceed 64 bits


class BatchAt(NamedTuple):
    """The header of a batch at a file position."""

    position: int
    size: int
    base_offset: int
    last_offset: int


class BatchHeads:
    """Headers of batches at any position of a log. Reads blocks, since indexes ask in growing order."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self.size = file.size()
        self._buffer = memoryview(bytearray(min(_BLOCK, max(self.size, 1))))
        self._block = self._buffer[:0].toreadonly()  # the filled part of the buffer
        self._start = 0  # file position of the block's first byte

    def at(self, position: int, limit: int | None = None) -> BatchAt | str:
        """Return the batch that begins at `position` and ends within `limit` bytes, or the reason why there is none.

        Raises UnreadableFile, and FileChangedWhileReading if the log became shorter meanwhile.
        """
        if not 0 <= position <= self.size:
            return f"byte {position} is outside the log, which has {self.size} bytes"
        end = self.size if limit is None else min(self.size, position + limit)
        if end - position <= HEADER_SIZE_UP_TO_MAGIC:
            return f"no batch begins at byte {position}: that is the end of the log"
        at = self._load(position, BATCH_HEADER.size)
        head = self._block[at : at + BATCH_HEADER.size]
        if len(head) < min(BATCH_HEADER.size, self.size - position):
            raise became_shorter(self._file.path, self.size)
        length = BATCH_HEADER.field("batch_length", head)
        if length < MIN_RECORD_SIZE:
            return f"no batch begins at byte {position}: its size field would be {length}"
        if length > end - position - LOG_OVERHEAD:
            return f"no batch begins at byte {position}: the batch would need {length + LOG_OVERHEAD} bytes"
        base_offset = BATCH_HEADER.field("base_offset", head)
        last_offset = base_offset
        if BATCH_HEADER.field("magic", head) >= MAGIC_V2:
            if len(head) < BATCH_HEADER.size:
                return f"no batch begins at byte {position}: its header is cut off"
            delta = BATCH_HEADER.read(head).last_offset_delta
            last_offset = to_long(base_offset + delta)
        return BatchAt(position, length + LOG_OVERHEAD, base_offset, last_offset)

    def sound_entries(self, index: OffsetIndex, number: int, count: int, limit: int) -> tuple[int, bool]:
        """Return how many of the entries number … count − 1 a quick check finds valid (kernels.verify.sound_offset_entries).

        Raises UnreadableFile.
        """
        position = index.entry(number).position
        if position < 0 or position + BATCH_HEADER.size > self.size or index.base_offset > _LARGEST_BASE:
            return 0, False
        self._load(position, BATCH_HEADER.size)
        entries = Entries(index.whole, index.base_offset)
        found, several = sound_offset_entries(entries, number, count, self._block, self._start, self.size, limit)
        return int(found), bool(several)

    def window(self, batch: BatchAt, columns: BatchColumns, rows: int = 1) -> Window | None:
        """Return the whole batch, its header in `columns`; None if it is larger than a block.

        rows  largest number of batches; those after the first are included if they are in memory and fit into `columns`

        Valid until the next call. Raises UnreadableFile, and FileChangedWhileReading.
        """
        if batch.size > len(self._buffer):
            return None
        at = self._load(batch.position, batch.size)
        if len(self._block) - at < batch.size:
            raise became_shorter(self._file.path, self.size)
        found = scan_range(self._block, at, at + batch.size if rows == 1 else len(self._block), columns)
        return Window(self._block, self._start, columns, min(found, rows))

    def _load(self, position: int, size: int) -> int:
        """Load `size` bytes at `position`, or up to the end of the file; returns their position in the block."""
        if not self._start <= position <= self._start + len(self._block) - size:
            count = self._file.read_into(self._buffer[: max(0, min(len(self._buffer), self.size - position))], position)
            self._block = self._buffer[:count].toreadonly()
            self._start = position
        return position - self._start
