"""Text on its way out: reusable buffers that kernels write into, handed to a sink in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import KafkalogError

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 1 << 20
_LARGEST = 1 << 30


class TextBuffer:
    """Kernels fill `data` from `at` on and leave `at` behind their text.

    write  takes the text; it must be done with a view when its next call returns (there are two buffers)
    """

    def __init__(self, write: Callable[[memoryview], object], size: int = SIZE) -> None:
        self._write = write
        self.data = memoryview(bytearray(size))
        self._other = memoryview(bytearray(size))
        self.at = 0

    def flush(self) -> None:
        """Hand everything to the sink."""
        if self.at:
            at, self.at = self.at, 0
            self._write(self.data[:at])
            self.data, self._other = self._other, self.data

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
        """A kernel had no room: flush, or grow where the buffer was empty already. Raises KafkalogError beyond 1 GiB."""
        if self.at:
            self.flush()
        elif len(self.data) >= _LARGEST:
            what = "the headers of one record need more than 1 GiB of text"
            raise KafkalogError(what, do="a lower --max-decompressed-bytes skips its batch")
        else:
            self.data = memoryview(bytearray(max(2 * len(self.data), len(self._other))))
