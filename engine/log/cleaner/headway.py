"""How much of the work on a log is done, though nobody knows beforehand how many rounds its keys take."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Headway:
    """The share of a log's compaction that is done, 0 … 1: it never goes back, and only the last round ends at 1.

    A round has for its own what share of the rest its keys have of the dirty bytes; each of its two passes takes half of that.
    Where the offset map is full before the dirty part ends, the rest is left to further rounds.

    on_share  is told it, as it grows
    """

    def __init__(self, on_share: Callable[[float], object]) -> None:
        self._tell = on_share
        self._share = self._before = self._middle = 0.0
        self._dirty = self._mapped = self._whole = self._filtered = 0

    def begin_round(self, dirty_bytes: int) -> None:
        """A first pass begins; bytes that are dirty still."""
        self._before, self._dirty, self._mapped = self._share, dirty_bytes, 0

    def mapped(self, size: int) -> None:
        """The first pass has read so many bytes more."""
        self._mapped = min(self._dirty, self._mapped + size)
        self._set(self._before + (1 - self._before) * self._mapped / max(self._dirty, 1) / 2)

    def begin_filtering(self, whole_bytes: int) -> None:
        """The second pass begins; bytes that it will read."""
        self._middle, self._whole, self._filtered = self._share, whole_bytes, 0

    def filtered(self, size: int) -> None:
        """The second pass has read so many bytes more."""
        self._filtered = min(self._whole, self._filtered + size)
        self._set(self._middle + (self._middle - self._before) * self._filtered / max(self._whole, 1))

    def _set(self, share: float) -> None:
        self._share = max(self._share, min(share, 1.0))
        self._tell(self._share)
