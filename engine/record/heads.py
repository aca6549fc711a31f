"""Walk the headers of a log's batches without reading their bodies: to count batches or add up sizes.

Headers of large batches are read one by one; small batches are read many at once, because a read call costs as much as some
kilobytes. Checksums are not checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import became_shorter
from engine.formats import BATCH_HEADER, LOG_OVERHEAD, MIN_RECORD_SIZE, Status
from engine.kernels.scan import scan_heads
from engine.record.columns import BatchColumns
from engine.record.windows import MAX_LOG_SIZE, LogWalk, Stop, Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.files import OpenFile

_WINDOW = 256 << 10
_SPARSE = 8 << 10  # bytes of a batch above which reading only its header is faster
_SPARSE_REQUESTS = 4 << 20  # the same if each read is a request to a store
_SIZE = BATCH_HEADER.size
_LENGTH_AT = BATCH_HEADER.positions["batch_length"]
_length = BATCH_HEADER.fields["batch_length"].unpack_from
_NOTHING = memoryview(b"")


class HeadWalk:
    """The batches of one log file as in `LogWalk`, without bytes, with positions in the file, and VALID −1.

    batches  columns to reuse

    Iterate, and again after each `resynchronise`. Then `stop` is why the walk ended, and `position` where. Raises
    UnreadableFile, and FileChangedWhileReading if the file became shorter meanwhile.
    """

    def __init__(
        self, file: OpenFile, start: int = 0, end: int | None = None, *, batches: BatchColumns | None = None
    ) -> None:  # fmt: skip
        self.file = file
        self.position = self._start = start
        self.end = min(file.size(), MAX_LOG_SIZE) if end is None else end
        self.stop = Stop.END
        self.gave_up: int | None = None  # see LogWalk
        self._batches = BatchColumns() if batches is None else batches
        self._buffer = memoryview(bytearray(min(_WINDOW, max(_SIZE, self.end - start))))

    def __iter__(self) -> Iterator[Window]:
        is_sparse, sparse = False, _SPARSE_REQUESTS if self.file.needs_requests else _SPARSE
        while self.position < self.end:
            start = self.position
            data = self._hop() if is_sparse else self._read()
            rows, self.position, status = scan_heads(data, _SIZE if is_sparse else 0, start, self.end, self._batches.table)
            if rows:
                yield Window(_NOTHING, 0, self._batches, rows)
                is_sparse = self.position - start >= sparse * rows
            if status in (Status.TORN, Status.BAD_SIZE):
                self.stop = Stop.TORN if status == Status.TORN else Stop.BAD_SIZE
                return

    def resynchronise(self, first_offset: int | None = None) -> int | None:
        """As LogWalk.resynchronise, which reads the batches of this walk again, with checksums."""
        walk = LogWalk(self.file, self._start, self.end)
        for _ in walk:
            pass
        found = walk.resynchronise(first_offset)
        self.gave_up = walk.gave_up
        if found is not None:
            self.position = self._start = found
            self.stop = Stop.END
        return found

    def _read(self) -> memoryview:
        """Return the next bytes of the file, as many as fit into the window."""
        data = self._buffer[: self.end - self.position]
        if self.file.read_into(data, self.position) < len(data):
            raise became_shorter(self.file.path, self.end)
        return data

    def _hop(self) -> memoryview:
        """Return the next headers, one after the other, as many as fit into the buffer; the last one may be invalid."""
        buffer, read_into, position, end = self._buffer, self.file.read_into, self.position, self.end
        after, room = 0, min(len(buffer) // _SIZE, self._batches.capacity) * _SIZE
        while after < room and position < end:
            slot = buffer[after : after + _SIZE]
            if read_into(slot, position) < _SIZE and position + _SIZE <= end:
                raise became_shorter(self.file.path, end)
            (length,) = _length(slot, _LENGTH_AT)
            after += _SIZE
            if length < MIN_RECORD_SIZE:
                break
            position += LOG_OVERHEAD + length
        return buffer[:after]
