"""The output of codecs, limited in size."""

from __future__ import annotations

MAX_DECOMPRESSED_BYTES = 256 << 20  # default for a batch, or for all sets inside an entry of 0.7


class OverLimitError(Exception):
    """The output exceeds the limit."""


class Output:
    """Decompressed parts up to a limit: the first part itself, a growing buffer if more follow."""

    __slots__ = ("data", "left")

    def __init__(self, limit: int) -> None:
        self.left = limit
        self.data: bytes | bytearray = b""

    def add(self, part: bytes | bytearray) -> None:
        """Add a part. Raises OverLimitError after adding what fits."""
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
        """Remove all but the first `size` bytes."""
        self.left += len(self.data) - size
        if isinstance(self.data, bytearray):
            del self.data[size:]
        else:
            self.data = self.data[:size]
