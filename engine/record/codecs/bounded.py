"""Where codecs put what they inflate: never more than a limit."""

from __future__ import annotations

MAX_DECOMPRESSED_BYTES = 256 << 20  # of a batch, or of all sets within an entry of 0.7, unless a caller says otherwise


class OverLimitError(Exception):
    """More than the limit would come out."""


class Output:
    """Inflated parts up to a limit: the first as it came, a growing buffer as soon as there is another."""

    __slots__ = ("data", "left")

    def __init__(self, limit: int) -> None:
        self.left = limit
        self.data: bytes | bytearray = b""

    def add(self, part: bytes | bytearray) -> None:
        """Take a part; raises OverLimitError after taking what still fits."""
        whole = len(part) <= self.left
        if not whole:
            part = part[: self.left]
        if not self.data:
            self.data = part
        elif isinstance(self.data, bytearray):
            self.data += part
        else:
            self.data = bytearray(self.data) + part
        self.left -= len(part)
        if not whole:
            raise OverLimitError

    def cut(self, size: int) -> None:
        """Take back what came after the first `size` bytes."""
        self.left += len(self.data) - size
        if isinstance(self.data, bytearray):
            del self.data[size:]
        else:
            self.data = self.data[:size]
