"""What all index files share: equal entries in a row, read whole and searched where they lie."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

from engine.findings import Finding, Where

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import ReadOnlyFiles

MAX_INDEX_SIZE = 64 * 1024 * 1024  # bytes; log.index.size.max.bytes is 10 MiB by default
WARM_BYTES = 8192  # at the end of an index, searched first

_BLOCK = 65536
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1


class IndexFile:
    """The bytes of an index file of `path`, whose segment begins at `base_offset`.

    `len(index)` counts the whole entries in the file, as Kafka does when it opens one. A rest behind them is no entry.
    """

    entry_size: ClassVar[int]

    def __init__(self, data: bytes, base_offset: int, path: str) -> None:
        self.data = data
        self.base_offset = base_offset
        self.path = path

    @classmethod
    def read(cls, files: ReadOnlyFiles, path: str, base_offset: int) -> Self:
        """Read the file at `path`. Raises UnreadableFile, also for more than MAX_INDEX_SIZE bytes."""
        return cls(files.read(path, MAX_INDEX_SIZE), base_offset, path)

    def __len__(self) -> int:
        return len(self.data) // self.entry_size

    @property
    def whole(self) -> memoryview:
        """The bytes of the whole entries."""
        return memoryview(self.data)[: len(self) * self.entry_size]

    def odd_size(self) -> list[Finding]:
        """A finding where the file ends inside an entry."""
        rest = len(self.data) % self.entry_size
        if not rest:
            return []
        where = Where(self.path, len(self.data) - rest)
        return [Finding("index-size-invalid", where, f"{rest} bytes at the end, an entry has {self.entry_size}")]


class SparseIndex(IndexFile):
    """An index that the broker allocates in full and fills from the front. Mirrors AbstractIndex."""

    @cached_property
    def used_entries(self) -> int:
        """Entries in front of the zeros that end the file, which are space that was never used.

        An entry may consist of zeros only where it is the single one of the file.
        """
        whole, end = self.whole, len(self.whole)
        while end:
            block = bytes(whole[max(0, end - _BLOCK) : end]).rstrip(b"\0")
            if block:
                end = max(0, end - _BLOCK) + len(block)
                break
            end = max(0, end - _BLOCK)
        return -(-end // self.entry_size) or int(len(self) == 1)

    @property
    def used(self) -> memoryview:
        """The bytes of the used entries."""
        return self.whole[: self.used_entries * self.entry_size]

    def zero_tail(self) -> list[Finding]:
        """A finding where unused space follows the entries."""
        unused = len(self) - self.used_entries
        if not unused:
            return []
        where = Where(self.path, self.used_entries * self.entry_size)
        return [Finding("index-zero-tail", where, f"room for {unused} more entries")]

    def absolute(self, relative_offset: int) -> int:
        """Base offset plus `relative_offset`, in 64 bits as the broker adds."""
        offset = self.base_offset + relative_offset
        return offset if _LONG_MIN <= offset <= _LONG_MAX else (offset + 2**63) % 2**64 - 2**63

    def lower_bound(self, key_at: Callable[[int], int], target: int, count: int) -> int:
        """Number of the last entry whose key is not above `target`, -1 if there is none; `count` entries are searched.

        Where keys are out of order the answer is the broker's: it looks at the same entries in the same turn.
        Mirrors AbstractIndex.largestLowerBoundSlotFor.
        """
        if count == 0:
            return -1
        warm = max(0, count - 1 - WARM_BYTES // self.entry_size)
        if key_at(warm) < target:
            return _search(key_at, target, warm, count - 1)[0]
        if key_at(0) > target:
            return -1
        return _search(key_at, target, 0, warm)[0]

    def upper_bound(self, key_at: Callable[[int], int], target: int, count: int) -> int:
        """Number of the first entry whose key is not below `target`, -1 if there is none; `count` entries are searched.

        As in the broker it may be the one behind an equal key: the last step of the search does not compare.
        Mirrors AbstractIndex.smallestUpperBoundSlotFor.
        """
        if count == 0:
            return -1
        warm = max(0, count - 1 - WARM_BYTES // self.entry_size)
        if key_at(warm) < target:
            at, exact = _search(key_at, target, warm, count - 1)
        elif key_at(0) > target:
            return 0
        else:
            at, exact = _search(key_at, target, 0, warm)
        if exact:
            return at
        return -1 if at == count - 1 else at + 1


def _search(key_at: Callable[[int], int], target: int, low: int, high: int) -> tuple[int, bool]:
    """(entry, is its key equal to `target`) between `low` and `high`, both included."""
    while low < high:
        middle = (low + high + 1) // 2
        key = key_at(middle)
        if key == target:
            return middle, True
        if key > target:
            high = middle - 1
        else:
            low = middle
    return low, False
