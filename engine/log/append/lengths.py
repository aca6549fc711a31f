"""Where a line or batch of an input is whole, and how long it may be: what can not be appended is not read to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.formats import BATCH_HEADER, LOG_OVERHEAD
from engine.log.append.frames import check_beginning
from engine.record.bounded import MAX_DECOMPRESSED_BYTES
from engine.record.json_record import LineInvalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.record.lines import LineReader

_JSON = 16  # bytes for one of a record: an escape has 6, a header without key and value up to 32 for its 2
_REST = 1 << 20  # for blanks, and members that mean nothing


class LineEnds:
    """Tells whether lines of an input are whole.

    reader  knows the number of the line        max_message_size  bytes that a batch may have
    is_compressed  batches get smaller than their lines: then as long a line is read as readers inflate
    """

    def __init__(self, reader: LineReader, max_message_size: int, *, is_compressed: bool) -> None:
        self._reader, self._max_message_size = reader, max_message_size
        self.longest = max(_JSON * max_message_size, MAX_DECOMPRESSED_BYTES if is_compressed else 0) + _REST

    def is_whole(self, data: bytearray, seen: int, filled: int) -> bool:
        """Does a line end in data[seen:filled]? None does before. Raises LineInvalid for one that is too long already."""
        if data.find(b"\n", seen, filled) >= 0:
            return True
        if filled > self.longest:
            what = (f"line {self._reader.line}: {filled} bytes came and it has not ended; with max.message.bytes at "
                    f"{self._max_message_size} lines of up to {self.longest} bytes are read")
            raise LineInvalid(what)
        return False


def is_whole_batch(data: bytearray, filled: int, check_size: Callable[[int], None]) -> bool:
    """Is the batch at the start of data[:filled] whole?

    check_size  raises what is to be raised for a batch of so many bytes, before they are read
    Raises CorruptRecord for bytes that no batch begins with.
    """
    if filled < LOG_OVERHEAD:
        return False
    check_beginning(data, 0, filled)
    size = LOG_OVERHEAD + BATCH_HEADER.field("batch_length", data)
    if size > filled:
        check_size(size)
    return size <= filled
