"""What offset and time index share: entries whose keys grow, allocated ahead by the broker, and searched as it searches."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, Self, TypeVar

from engine.amounts import count_of
from engine.findings import Finding, Where
from engine.formats import INT_MAX, LONG_MAX, LONG_MIN, to_long
from engine.index.entries import Backing, IndexFile, IndexFull, InvalidIndexSize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import Buffer, ReadOnlyFiles

WARM_BYTES = 8192  # at the end of an index, searched first

_BLOCK = 65536


class _Entry(Protocol):
    """What an entry of either index has."""

    @property
    def offset(self) -> int: ...


_E = TypeVar("_E", bound=_Entry)


class SparseIndex(IndexFile, Generic[_E]):
    """An index that the broker allocates in full and fills from the front. Mirrors AbstractIndex.

    `entry`, iteration and `len` see all whole entries, also unused ones after `used_entries`.
    """

    kept_entries: ClassVar[int] = 0  # at the end of the file, for what only the closing of the segment adds
    max_index_size: int = -1
    max_entries: int = 0  # that fit into the file of an open index
    _used: int | None = None  # of a view; computed once

    @classmethod
    def open(
        cls, files: ReadOnlyFiles, path: str, base_offset: int, max_index_size: int = -1, *, writable: bool = True,
        rewrite: bool = False,
    ) -> Self:
        """Open the file at `path`, believing that it is full of entries; where there is none, make one of zeros.

        max_index_size  bytes of a new file, rounded down to whole entries
        writable        without it nothing is made: a missing file is an index without entries
        anew            an index without entries as well, but the old file stays until the new one is written completely
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
        """How many entries the index has."""
        return len(self)

    @property
    def length(self) -> int:
        """Bytes of the file of an open index."""
        return self._file.length

    @property
    def room(self) -> int:
        """How many entries may be added; below 0 where the last one took a kept place."""
        return self.max_entries - self.kept_entries - len(self)

    @property
    def is_full(self) -> bool:
        """Is there no room for another entry?"""
        return len(self) >= self.max_entries - self.kept_entries

    def entry(self, number: int) -> _E:
        """Entry `number`, from 0. Raises IndexError outside the file."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[_E]:
        raise NotImplementedError

    def dumped(self) -> Iterator[_E]:
        """The entries that kafka-dump-log walks: up to the first one, but never the first of all, that has the base
        offset. It takes a zero in the middle for the unused end, and the first entry of an unused index for an entry.
        """
        return islice(self, self.dumped_entries)

    @property
    def dumped_entries(self) -> int:
        """How many these are."""
        base_offset = self.base_offset
        return next((number for number, entry in enumerate(self) if number and entry.offset == base_offset), len(self))

    def extend(self, entries: Buffer) -> None:
        """Add whole entries in their bytes, whose keys grow.

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
        """Raise InvalidOffset or InvalidTimestamp where the first of `entries` does not go after the last one."""
        raise NotImplementedError

    def can_append_offset(self, offset: int) -> bool:
        """Does `offset` fit after the base offset in 31 bits?"""
        return 0 <= offset - self.base_offset <= INT_MAX

    def resize(self, size: int) -> bool:
        """Make the file `size` bytes long, rounded down to whole entries, but never shorter than the entries that it has.

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
        """Cut the file after its last entry."""
        self.resize(len(self) * self.entry_size)

    def truncate(self) -> None:
        """Remove all entries; the file keeps its length."""
        self.truncate_to_entries(0)

    def truncate_to_entries(self, count: int) -> None:
        """Keep the first `count` entries; the file keeps its length."""
        self._cut(count * self.entry_size)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries with `offset` and larger ones, which are searched. Mirrors truncateTo of both indexes."""
        number = self.lower_bound(self._offset_at, offset, len(self))
        keep = number + 1 if number >= 0 and self._offset_at(number) != offset else max(0, number)
        self.truncate_to_entries(keep)

    def _offset_at(self, number: int) -> int:
        """The log offset of entry `number`."""
        raise NotImplementedError

    def close(self) -> None:
        """Write back and trim, and wait until what changed is on the disk. The index may be used again.

        A broker believes what it finds after a clean stop, and below its recovery point.
        """
        if self._file.writable:
            self.trim_to_valid_size()
            self.sync_changes()

    @property
    def used_entries(self) -> int:
        """Entries in front of the zeros that end the file, which are space that was never used. Of an open index: all.

        An entry may consist of zeros only where it is the single one of the file.
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
        """The bytes of the used entries."""
        return self.whole[: self.used_entries * self.entry_size]

    def zero_tail(self) -> list[Finding]:
        """A finding where unused space follows the entries."""
        unused = len(self) - self.used_entries
        if not unused:
            return []
        where = Where(self.path, self.used_entries * self.entry_size)
        return [Finding("index-zero-tail", where, f"room for {count_of(unused, 'more entry')}")]

    def _out_of_order(
        self, number: int, name: str, value: int, before: int, code: str = "index-out-of-order"
    ) -> Finding:
        """A finding: the field `name` of entry `number` is too small after that of the entry before."""
        return Finding(code, self._where(number), f"entry {number}: {name} {value}" + (f" after {before}" if number else ""))

    def _where(self, number: int) -> Where:
        return Where(self.path, number * self.entry_size, self._offset_at(number))

    def _odd_size_error(self, name: str) -> str | None:
        """The message of Kafka's CorruptIndexException about an index, `name` in it, that ends inside an entry."""
        if not len(self.data) % self.entry_size:
            return None
        return (
            f"{name} is corrupt, found {len(self.data)} bytes which is neither positive nor a multiple of {self.entry_size}"
        )

    def absolute(self, relative_offset: int) -> int:
        """Base offset plus `relative_offset`, in 64 bits as the broker adds."""
        offset = self.base_offset + relative_offset
        return offset if LONG_MIN <= offset <= LONG_MAX else to_long(offset)

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
