"""Common code of offset and time index: entries with growing keys, in preallocated files, searched as the broker searches."""

from __future__ import annotations

import sys
from array import array
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

from engine.amounts import count_of
from engine.findings import Finding, Where
from engine.formats import INT_MAX, LONG_MAX, LONG_MIN, to_long
from engine.index.entries import Backing, IndexFile, IndexFull, InvalidIndexSize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import Buffer, OpenFile, ReadOnlyFiles
    from engine.formats import Layout

WARM_BYTES = 8192  # at the end of an index; searched first

_BLOCK = 65536


class _Entry(Protocol):
    """The interface of an entry of either index."""

    @property
    def offset(self) -> int: ...


_E = TypeVar("_E", bound=_Entry)
_L = TypeVar("_L", bound=tuple[Any, ...])


class SparseIndex(IndexFile, Generic[_E]):
    """An index that the broker preallocates and fills from the front. Mirrors AbstractIndex.

    `entry`, iteration and `len` cover all whole entries, including unused ones after `used_entries`.
    """

    relative_offset_at: ClassVar[int]  # position of the field in an entry
    kept_entries: ClassVar[int] = 0  # entries kept free at the end of the file for the closing of the segment
    max_index_size: int = -1
    max_entries: int = 0  # room in the file of an open index
    _used: int | None = None  # of a view, computed once

    @classmethod
    def open(
        cls, files: ReadOnlyFiles, path: str, base_offset: int, max_index_size: int = -1, *, writable: bool = True,
        rewrite: bool = False,
    ) -> Self:
        """Open the file at `path`, trusting that it is full of entries. If there is none, make one of zeros.

        max_index_size  bytes of a new file, rounded down to whole entries
        writable        False: nothing is made; a missing file is an index without entries
        rewrite         start without entries; the old file remains until the new one is written completely
        Raises UnreadableFile, UnwritableFile, InvalidIndexSize.
        """
        index = cls(bytearray(), base_offset, path)
        backing = Backing(files, path, writable=writable)
        index.max_index_size = max_index_size
        size = backing.length - backing.length % cls.entry_size
        if rewrite or (writable and not backing.exists):
            if max_index_size < cls.entry_size:
                raise InvalidIndexSize(f"{path}: Invalid max index size: {max_index_size}", do="set segment.index.bytes")
            (backing.begin_rewrite if rewrite else backing.create)(max_index_size - max_index_size % cls.entry_size)
        index._attach(backing, 0 if rewrite else size)
        index.max_entries = backing.length // cls.entry_size
        return index

    @property
    def entries(self) -> int:
        """Return the number of entries."""
        return len(self)

    @property
    def length(self) -> int:
        """Return the size of an open index's file in bytes."""
        return self._file.length

    @property
    def room(self) -> int:
        """Return how many entries can be added; below 0 if the last one used an entry kept free."""
        return self.max_entries - self.kept_entries - len(self)

    @property
    def is_full(self) -> bool:
        """Return whether there is no room for another entry."""
        return len(self) >= self.max_entries - self.kept_entries

    def entry(self, number: int) -> _E:
        """Return entry `number`, from 0. Raises IndexError outside the file."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[_E]:
        raise NotImplementedError

    @property
    def dumped_entries(self) -> int:
        """Return how many entries kafka-dump-log reads: entry 0, and all up to the next one that has the base offset.

        Kafka takes a zero in the middle for the unused end, and the first entry of an unused index for an entry.
        """
        offsets = self._relative_offsets(self.whole[: max(1, self.used_entries) * self.entry_size])  # the rest are zeros
        try:
            return offsets.index(0, 1)
        except ValueError:
            return len(offsets)

    def _relative_offsets(self, entries: Buffer) -> array[int]:
        """Return the relative offsets of whole entries."""
        numbers = array("i", bytes(entries))
        if sys.byteorder == "little":
            numbers.byteswap()
        return numbers[self.relative_offset_at // numbers.itemsize :: self.entry_size // numbers.itemsize]

    def extend(self, entries: Buffer) -> None:
        """Add whole entries in their bytes, with growing keys.

        Raises IndexFull, InvalidOffset or InvalidTimestamp; then none is added.
        """
        count, rest = divmod(len(entries), self.entry_size)
        if rest:
            raise ValueError(f"{len(entries)} bytes are not whole entries")
        if not count:
            return
        if count > self.room:
            raise IndexFull(f"{self.path}: Attempt to append {count} entries to {len(self)} of {self.max_entries}.")
        self._check_first(entries)
        self._add(entries)

    def _check_first(self, entries: Buffer) -> None:
        """Raise InvalidOffset or InvalidTimestamp if the first of `entries` does not belong after the last one."""
        raise NotImplementedError

    def can_append_offset(self, offset: int) -> bool:
        """Return whether `offset` fits into 31 bits relative to the base offset."""
        return 0 <= offset - self.base_offset <= INT_MAX

    def resize(self, size: int) -> bool:
        """Set the size of the file to `size` bytes, rounded down to whole entries, but never below its entries.

        Returns whether anything changed. Raises UnwritableFile.
        """
        self.write_back()
        rounded = max(size - size % self.entry_size, len(self) * self.entry_size)
        if rounded == self._file.length:
            return False
        self._file.set_length(rounded)
        self.max_entries = rounded // self.entry_size
        return True

    def trim_to_valid_size(self) -> None:
        """Truncate the file after its last entry."""
        self.resize(len(self) * self.entry_size)

    def truncate(self) -> None:
        """Remove all entries; the file keeps its size."""
        self.truncate_to_entries(0)

    def truncate_to_entries(self, count: int) -> None:
        """Keep the first `count` entries; the file keeps its size."""
        self._cut(count * self.entry_size)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries from `offset` on, found by a search. Mirrors truncateTo of both indexes."""
        number = self.lower_bound(self._offset_at, offset, len(self))
        keep = number + 1 if number >= 0 and self._offset_at(number) != offset else max(0, number)
        self.truncate_to_entries(keep)

    def _offset_at(self, number: int) -> int:
        """Return the log offset of entry `number`."""
        raise NotImplementedError

    def close(self) -> None:
        """Write back, trim, and wait until the changes are on the disk. The index may be used again.

        A broker trusts an index after a clean stop, and below its recovery point.
        """
        if self._file.writable:
            self.trim_to_valid_size()
            self.sync_changes()

    @property
    def used_entries(self) -> int:
        """Return the number of entries before the unused zeros at the end of the file. Of an open index: all.

        An entry of zeros counts as used only if it is the only one of the file.
        """
        if self.is_open:
            return len(self)
        if self._used is None:
            self._used = self._count_used()
        return self._used

    def _count_used(self) -> int:
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
        """Return the bytes of the used entries."""
        return self.whole[: self.used_entries * self.entry_size]

    def zero_tail(self) -> list[Finding]:
        """Return a finding if unused space follows the entries."""
        unused = len(self) - self.used_entries
        if not unused:
            return []
        where = Where(self.path, self.used_entries * self.entry_size)
        return [Finding("index-zero-tail", where, f"room for {count_of(unused, 'more entry')}")]

    def _out_of_order(
        self, number: int, name: str, value: int, before: int, code: str = "index-out-of-order"
    ) -> Finding:
        """Return the finding that the field `name` of entry `number` is not above `before`, that of the previous entry."""
        return Finding(code, self._where(number), f"entry {number}: {name} {value}" + (f" after {before}" if number else ""))

    def _where(self, number: int) -> Where:
        return Where(self.path, number * self.entry_size, self._offset_at(number))

    def _odd_size_error(self, name: str) -> str | None:
        """Return the message of Kafka's CorruptIndexException for the index `name`, if it ends inside an entry."""
        if not len(self.data) % self.entry_size:
            return None
        return (
            f"{name} is corrupt, found {len(self.data)} bytes which is neither positive nor a multiple of {self.entry_size}"
        )

    def absolute(self, relative_offset: int) -> int:
        """Return base offset plus `relative_offset`, in 64 bits as the broker adds."""
        offset = self.base_offset + relative_offset
        return offset if LONG_MIN <= offset <= LONG_MAX else to_long(offset)

    def lower_bound(self, key_at: Callable[[int], int], target: int, count: int) -> int:
        """Return the number of the last entry whose key is not above `target`, -1 if there is none; searches `count` entries.

        If keys are out of order, the result is the broker's: the same entries are compared in the same order.
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
        """Return the number of the first entry whose key is not below `target`, -1 if there is none; searches `count` entries.

        As in the broker it may be the one after an equal key: the last step of the search does not compare.
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
    """Return (entry, whether its key equals `target`) of a search from `low` to `high`, both included."""
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


def count_used(file: OpenFile, entry_size: int, count: int) -> int:
    """Return how many of the `count` entries of a file come before the zeros at its end; few reads, whatever its size."""
    if any(file.read(entry_size * (count - 1), entry_size)):
        return count
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if any(file.read(entry_size * middle, entry_size)):
            low = middle + 1
        else:
            high = middle
    return low


def read_last_used(files: ReadOnlyFiles, path: str, layout: Layout[_L], size: int) -> _L | None:
    """Return the last entry of the index of `size` bytes at `path` before unused space; None: it has none.

    Raises UnreadableFile, FileChangedWhileReading.
    """
    count = size // layout.size
    if not count:
        return None
    with files.open(path) as file:
        entry = bytearray(layout.size)  # in a closed index the last one is in use
        if file.read_into(memoryview(entry), layout.size * (count - 1)) == layout.size and any(entry):
            return layout.read(entry)
        used = count_used(file, layout.size, count)
        return layout.read(file.read_exactly(layout.size * (used - 1), layout.size)) if used else None
