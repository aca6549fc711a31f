"""A file whose bytes come by ranges from elsewhere: what is read in order comes in few large pieces."""

from __future__ import annotations

from collections import OrderedDict, deque
from threading import Lock
from typing import TYPE_CHECKING

from engine.errors import UnreadableFile, became_shorter
from engine.files import OpenFile, hand_over
from engine.remote.requests import Request

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST = 64 << 10  # bytes that are read at least, as far as there are more
_LARGEST = 8 << 20  # bytes of a piece, unless more are asked for at once
_GROWTH = 16  # how many times as large as the last piece one is that follows it
_COMING = 2  # pieces under way at most


class _Coming(Request["bytes | memoryview"]):
    """Bytes [start, end), which are fetched while others are processed."""

    def __init__(self, start: int, end: int, fetch: Callable[[int, int], bytes | memoryview]) -> None:
        self.start_at, self.end_at = start, end
        super().__init__(lambda: fetch(start, end))


class Pieces:
    """The pieces that were read last: none larger than `largest`, all together no more than `size` bytes."""

    def __init__(self, largest: int, size: int) -> None:
        self._largest, self._most = largest, size
        self._pieces: OrderedDict[tuple[str, int, int], bytes] = OrderedDict()
        self._size = 0
        self._mutex = Lock()

    def get(self, path: str, start: int, end: int, fetch: Callable[[], bytes | memoryview]) -> bytes | memoryview:
        """Bytes [start, end) of the file at `path`, fetched if they are not there."""
        key = (path, start, end)
        with self._mutex:
            if key in self._pieces:
                self._pieces.move_to_end(key)
                return self._pieces[key]
        data = fetch()
        if len(data) <= self._largest:
            data = bytes(data)  # not part of a buffer that is larger
            with self._mutex:
                self._size += len(data) - len(self._pieces.get(key, b""))
                self._pieces[key] = data
                while self._size > self._most:
                    self._size -= len(self._pieces.popitem(last=False)[1])
        return data


class RangedFile(OpenFile):
    """`size` bytes, of which `fetch(start, end)` gives a range; it is called by two other threads as well.

    Holds one piece, and while all is read in order the next two: each at most 8 MiB, or as long as the largest read.
    """

    __slots__ = ("_ahead", "_at", "_coming", "_fetch", "_most", "_piece", "_sent", "_size")

    def __init__(self, path: str, size: int, fetch: Callable[[int, int], bytes | memoryview]) -> None:
        super().__init__(path, -1)
        self._size, self._fetch = size, fetch
        self._at, self._piece, self._ahead = 0, memoryview(b""), _FIRST
        self._coming: deque[_Coming] = deque()  # the pieces that follow, in order
        self._most = 1  # of them at a time: more only after one was needed
        self._sent = 0  # up to here all is going to be read, in order

    def close(self) -> None:
        """Let go of what was read."""
        self._piece, self._most = memoryview(b""), 1
        self._coming.clear()

    def size(self) -> int:
        """Bytes in the file."""
        return self._size

    def send(self, descriptor: int, position: int, size: int) -> None:
        """See OpenFile. Nothing behind the range is read, and nothing of it is kept or copied."""
        end = position + size
        if end > self._size:
            raise became_shorter(self.path, end)
        self._sent = end
        try:
            while position < end:
                at = position - self._at
                if not 0 <= at < len(self._piece):
                    self._load(position, 1)
                    continue
                part = self._piece[at : at + end - position]
                position += len(part)
                hand_over(descriptor, part)
        finally:
            self._sent = 0
            self.close()

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
        """Have the piece from `position` on."""
        is_next = len(self._piece) > 0 and position == self._at + len(self._piece)
        self._piece = memoryview(b"")
        if self._sent:
            self._ahead = _LARGEST
        else:
            self._ahead = min(_GROWTH * self._ahead, _LARGEST) if is_next else _FIRST
        limit = self._sent or self._size
        if self._coming and self._coming[0].start_at == position:
            coming, self._most = self._coming.popleft(), _COMING
            end = coming.end_at
        else:
            self._coming.clear()
            coming, self._most = None, _COMING if self._sent else 1
            end = min(self._size, position + max(size, min(self._ahead, limit - position)))
        if self._ahead == _LARGEST:
            self._fetch_ahead(end, limit)
        data = self._fetch(position, end) if coming is None else coming.result()
        if len(data) != end - position:
            raise UnreadableFile(f"{self.path}: {len(data)} bytes came of {end - position}", path=self.path)
        self._at, self._piece = position, memoryview(data)

    def _fetch_ahead(self, position: int, limit: int) -> None:
        """Begin to fetch the pieces after those that come already, or from byte `position` on, up to `limit`."""
        if self._coming:
            position = self._coming[-1].end_at
        while len(self._coming) < self._most and position < limit:
            self._coming.append(_Coming(position, min(limit, position + _LARGEST), self._fetch))
            position = self._coming[-1].end_at
