"""A file that is read by ranges from a store: sequential reads need few large requests."""

from __future__ import annotations

from collections import OrderedDict, deque
from threading import Lock
from typing import TYPE_CHECKING

from engine.background import Request
from engine.errors import UnreadableFile, became_shorter
from engine.files import OpenFile, hand_over

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_PIECE = 64 << 10  # bytes of the smallest request, except at the end of the file
LARGEST_PIECE = 7 << 20  # bytes of the largest piece, unless one read needs more
_GROWTH = 16  # factor from one piece to the next in a sequential read
_GAP = 256 << 10  # bytes after a piece that are read too if a read begins after them: headers are read without the batches
_AHEAD = 2  # largest number of pieces that are fetched in advance


class _Fetch(Request["bytes | memoryview"]):
    """A request for bytes [start, end) that runs in advance."""

    def __init__(self, start: int, end: int, fetch: Callable[[int, int], bytes | memoryview]) -> None:
        self.start_at, self.end_at = start, end
        super().__init__(lambda: fetch(start, end))


class Pieces:
    """A cache of the last pieces that were read.

    largest  bytes of the largest piece that is kept
    size     bytes of all kept pieces together; the last one is kept even if it is larger
    """

    def __init__(self, largest: int, size: int) -> None:
        self._largest, self._most = largest, size
        self._pieces: OrderedDict[tuple[str, int, int], bytes] = OrderedDict()
        self._size = 0
        self._mutex = Lock()

    def get(self, path: str, start: int, end: int, fetch: Callable[[], bytes | memoryview]) -> bytes | memoryview:
        """Return bytes [start, end) of the file at `path`, from the cache or by `fetch`."""
        key = (path, start, end)
        with self._mutex:
            if key in self._pieces:
                self._pieces.move_to_end(key)
                return self._pieces[key]
        data = fetch()
        if len(data) <= self._largest:
            data = bytes(data)  # a view would keep a larger buffer alive
            with self._mutex:
                self._size += len(data) - len(self._pieces.get(key, b""))
                self._pieces[key] = data
                while self._size > self._most and len(self._pieces) > 1:
                    self._size -= len(self._pieces.popitem(last=False)[1])
        return data


class RangedFile(OpenFile):
    """A file of `size` bytes. `fetch(start, end)` returns a range of it, and is also called in up to two other threads.

    Keeps one piece in memory, and during sequential reads the next two. A piece has at most 7 MiB, or the size of the read.
    """

    __slots__ = ("_ahead", "_at", "_fetch", "_fetches", "_limit", "_piece", "_send_end", "_size")

    needs_requests = True

    def __init__(self, path: str, size: int, fetch: Callable[[int, int], bytes | memoryview]) -> None:
        super().__init__(path, -1)
        self._size, self._fetch = size, fetch
        self._at, self._piece, self._ahead = 0, memoryview(b""), FIRST_PIECE
        self._fetches: deque[_Fetch] = deque()  # of the next pieces, in order
        self._limit = 1  # on the number of fetches; higher after the first one was used
        self._send_end = 0  # everything before this byte is going to be read in order; 0: not known

    def close(self) -> None:
        """Free the memory of what was read."""
        self._piece, self._limit = memoryview(b""), 1
        self._fetches.clear()

    def size(self) -> int:
        """Return the size in bytes."""
        return self._size

    def send(self, descriptor: int, position: int, size: int) -> None:
        """See OpenFile. Reads nothing after the range, and neither keeps nor copies the data."""
        end = position + size
        if end > self._size:
            raise became_shorter(self.path, end)
        self._send_end = end
        try:
            while position < end:
                at = position - self._at
                if not 0 <= at < len(self._piece):
                    self._load(position, 1)
                    continue
                part = self._piece[at : at + end - position]
                position += len(part)
                hand_over(descriptor, part)
                del part  # it would keep the piece in memory while the next one is loaded
        finally:
            self._send_end = 0
            self.close()

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from byte `position`. Returns the number of bytes, which is smaller only at the end of the file."""
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
            del part
        return done

    def _load(self, position: int, size: int) -> None:
        """Read the piece that begins at `position`, with at least `size` bytes."""
        gap = position - self._at - len(self._piece)
        if len(self._piece) and 0 < gap <= _GAP:
            position, size = position - gap, size + gap
        is_next = len(self._piece) > 0 and position == self._at + len(self._piece)
        start = self._piece if is_next and len(self._piece) <= FIRST_PIECE else b""
        self._piece = memoryview(b"")
        if self._send_end:
            self._ahead = LARGEST_PIECE
        else:
            self._ahead = min(_GROWTH * self._ahead, LARGEST_PIECE) if is_next else FIRST_PIECE
        if self._size <= FIRST_PIECE:
            position, size = 0, self._size
        limit = self._send_end or self._size
        if self._fetches and self._fetches[0].start_at == position:
            ready, self._limit = self._fetches.popleft(), _AHEAD
            end = ready.end_at
        else:
            self._fetches.clear()
            ready, self._limit = None, _AHEAD if self._send_end else 1
            end = min(self._size, position + max(size, min(self._ahead, limit - position)))
        if self._ahead == LARGEST_PIECE:
            self._fetch_ahead(end, limit)
        data = self._fetch(position, end) if ready is None else ready.result()
        if len(data) != end - position:
            raise UnreadableFile(f"{self.path}: {len(data)} bytes received of {end - position}", path=self.path)
        if len(start) and len(data) <= _GROWTH * FIRST_PIECE:  # a header is read again with its batch
            position, data = position - len(start), b"".join((start, data))
        self._at, self._piece = position, memoryview(data)

    def _fetch_ahead(self, position: int, limit: int) -> None:
        """Start to fetch the next pieces, up to byte `limit`. Without running fetches the first one begins at `position`."""
        if self._fetches:
            position = self._fetches[-1].end_at
        while len(self._fetches) < self._limit and position < limit:
            self._fetches.append(_Fetch(position, min(limit, position + LARGEST_PIECE), self._fetch))
            position = self._fetches[-1].end_at
