"""Output text: reusable buffers that kernels fill and a sink writes in turn; several threads can fill them, in order."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from engine.background import Background
from engine.errors import KafkalogError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

SIZE = 1 << 20
_LARGEST = 1 << 30
_SHARES = 6 << 20  # bytes of text that all threads together produce at a time
WAITING = 2  # views that a sink may still read when `write` returns
_WORTH = 512  # records: for fewer, a thread is not worth its start

Part = TypeVar("Part")


class TextTooLarge(KafkalogError):
    """One record needs more text than a buffer may have."""

    code = "text-too-large"


class TextBuffer:
    """A buffer `data` that kernels fill from `at` on, setting `at` after their text.

    write  writes the text; the last WAITING views, which are in buffers of their own, it may still read after it returns
    jobs   threads that produce text, including the caller's; the further ones need 18 MiB together
    """

    def __init__(self, write: Callable[[memoryview], object], size: int = SIZE, jobs: int = 1) -> None:
        self._write = write
        self.data = memoryview(bytearray(size))
        self._others = [memoryview(bytearray(size)) for _ in range(WAITING)]
        self.at = 0
        self._helpers: list[tuple[Background[Any], TextBuffer]] = [
            (Background("text"), TextBuffer(write, _SHARES // jobs)) for _ in range(jobs - 1)
        ]

    def shares(self, records: int) -> int:
        """Return the number of threads to use for this number of records."""
        return max(1, min(len(self._helpers) + 1, records // _WORTH))

    def put_parts(
        self, parts: Sequence[Part], begin: Callable[[TextBuffer, Part], Part], finish: Callable[[Part], object]
    ) -> None:
        """Write the parts of a run of records in several threads, one part each; their text is in order.

        begin   writes what fits into an empty buffer, and returns the rest of the part; runs in another thread
        finish  writes a part, or the rest of it, in this thread
        """
        first, *others = parts
        busy = self._helpers[: len(others)]
        for (thread, buffer), part in zip(busy, others, strict=True):
            thread.begin(partial(begin, buffer, part))
        try:
            finish(first)
        finally:
            left = [thread.wait() for thread, _ in busy]  # from here on the caller may change what they read
        for (_, buffer), part in zip(busy, left, strict=True):
            self.flush()
            buffer.flush()
            finish(part)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for thread, _ in self._helpers:
            thread.close()

    def flush(self) -> None:
        """Write everything to the sink."""
        if self.at:
            at, self.at = self.at, 0
            self._write(self.data[:at])
            self._others.append(self.data)
            self.data = self._others.pop(0)

    def put(self, text: bytes | str) -> None:
        """Append text. Lone surrogates become `?`, as in Java's output."""
        if isinstance(text, str):
            text = text.encode("utf-8", "replace")
        if len(text) > len(self.data) - self.at:
            self.flush()
            if len(text) > len(self.data):
                self._write(memoryview(text))
                return
        self.data[self.at : self.at + len(text)] = text
        self.at += len(text)

    def make_room(self) -> None:
        """Flush after a kernel had no room, or enlarge an empty buffer. Raises TextTooLarge beyond 1 GiB."""
        if self.at:
            self.flush()
        elif len(self.data) >= _LARGEST:
            what = "the headers of one record need more than 1 GiB of text"
            raise TextTooLarge(what, do="a lower --max-decompressed-bytes skips its batch")
        else:
            self.data = memoryview(bytearray(max(2 * len(self.data), *map(len, self._others))))
