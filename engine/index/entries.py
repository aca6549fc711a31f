"""What all index files share: equal entries in a row, read whole and searched where they lie.

An index is a view of bytes (`read`, or the constructor), which tells what is wrong with them, or open (`open`): then it
believes the file as the broker does, takes entries, and writes them back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from engine.errors import UnreadableFile
from engine.files import zeros
from engine.findings import Finding, Where
from engine.formats import INT_MAX, LONG_MAX, LONG_MIN, to_long
from engine.index.backing import Backing
from engine.index.errors import CorruptIndex, InvalidIndexSize
from engine.record.windows import is_zero

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import Buffer, OpenFile, ReadOnlyFiles

MAX_INDEX_SIZE = 64 * 1024 * 1024  # bytes of entries; log.index.size.max.bytes is 10 MiB by default
WARM_BYTES = 8192  # at the end of an index, searched first

_BLOCK = 65536
_CHUNK = 1 << 20


class IndexFile:
    """The bytes of an index file of `path`, whose segment begins at `base_offset`.

    `len(index)` counts the whole entries in the file, as Kafka does when it opens one. A rest behind them is no entry.
    """

    entry_size: ClassVar[int]

    def __init__(self, data: Buffer, base_offset: int, path: str) -> None:
        self.base_offset = base_offset
        self.path = path
        self._data: Buffer | None = data
        self._size = len(data)
        self._backing: Backing | None = None
        self._stored = 0  # bytes of `data` that are in the file already

    @classmethod
    def read(cls, files: ReadOnlyFiles, path: str, base_offset: int) -> Self:
        """Read the file at `path`. Raises UnreadableFile, also for more than MAX_INDEX_SIZE bytes of entries.

        Zeros behind them, as a broker allocates them ahead, take no memory; no index has more than 2^31 − 1 bytes.
        """
        with files.open(path) as file:
            size = file.size()
            if size <= MAX_INDEX_SIZE:
                return cls(file.read(0, size), base_offset, path)
            used = _used_bytes(file, size) if size <= INT_MAX else size
            if used > MAX_INDEX_SIZE:
                raise UnreadableFile(_too_large(path, used), do=f"kafkalog verify-index --rebuild {path}", path=path)
            data = zeros(size)
            file.read_into(data[:used], 0)
            return cls(data, base_offset, path)

    def _attach(self, backing: Backing, size: int) -> None:
        """Open: the first `size` bytes of the file are this index; they are read when they are needed."""
        self._backing, self._data, self._size, self._stored = backing, None, size, size

    @property
    def is_open(self) -> bool:
        """Does the index stand for a file, which it believes and may write to?"""
        return self._backing is not None

    @property
    def is_anew(self) -> bool:
        """Is the file still another one, whose place this index is going to take?"""
        return self._file.is_anew

    @property
    def is_replaced(self) -> bool:
        """Did a new file take the place of the one that was opened? See Backing."""
        return self._file.is_replaced

    @property
    def _file(self) -> Backing:
        if self._backing is None:
            raise ValueError(f"{self.path} is not open")
        return self._backing

    def open_file(self) -> OpenFile:
        """The file of an open index, for whoever needs few of its entries. Raises UnreadableFile."""
        return self._file.files.open(self.path)

    @property
    def data(self) -> Buffer:
        """The bytes of a view as they were read; of an open index those of its entries.

        Raises UnreadableFile, and CorruptIndex where an open index has more than MAX_INDEX_SIZE bytes.
        """
        if self._data is None:
            if self._size > MAX_INDEX_SIZE:
                raise CorruptIndex(_too_large(self.path, self._size))
            self._data = bytearray(self._file.read(0, self._size))
        return self._data

    def __len__(self) -> int:
        return self._size // self.entry_size

    @property
    def whole(self) -> memoryview:
        """The bytes of the whole entries."""
        return memoryview(self.data)[: len(self) * self.entry_size]

    def odd_size(self) -> list[Finding]:
        """A finding where the file ends inside an entry."""
        rest = self._size % self.entry_size
        if not rest:
            return []
        where = Where(self.path, self._size - rest)
        return [Finding("index-size-invalid", where, f"{rest} bytes at the end, an entry has {self.entry_size}")]

    def _add(self, entries: Buffer) -> None:
        """Take `entries`, in memory."""
        data = self.data
        if not isinstance(data, bytearray):
            raise TypeError(f"{self.path} is not open")
        data += entries
        self._size = len(data)

    def _cut(self, size: int) -> None:
        """Forget what stands behind the first `size` bytes. In the file it stays until it is overwritten or trimmed."""
        if self._data is not None:
            self._data = bytearray(memoryview(self._data)[:size])
        self._size, self._stored = size, min(self._stored, size)

    def write_back(self) -> None:
        """Write the entries to the file that are not there yet. Raises UnwritableFile."""
        if self._stored < self._size:
            self._file.write(self._stored, memoryview(self.data)[self._stored :])
            self._stored = self._size

    def flush(self) -> None:
        """Write back, and wait until the file is on the disk. Raises UnwritableFile."""
        self.write_back()
        self._file.sync()

    def sync_changes(self) -> None:
        """Write back, and wait until what was changed since the last time is on the disk. Raises UnwritableFile."""
        self.write_back()
        self._file.sync_changes()

    def rename_to(self, path: str) -> None:
        """Give the file another name."""
        self.write_back()
        self._file.rename(path)
        self.path = path

    def delete_if_exists(self) -> None:
        """Remove the file, and what was not written to it."""
        self._file.remove()
        self._data, self._size, self._stored = bytearray(), 0, 0


def _too_large(path: str, size: int) -> str:
    return f"{path}: {size} bytes, more than the {MAX_INDEX_SIZE} that the entries of an index may take"


def _used_bytes(file: OpenFile, size: int) -> int:
    """Bytes in front of the zeros that end the first `size` bytes of a file, in whole chunks. Raises UnreadableFile."""
    used, chunk = 0, bytearray(_CHUNK)
    for at in range(0, size, _CHUNK):
        if not is_zero(chunk, file.read_into(memoryview(chunk)[: min(_CHUNK, size - at)], at)):
            used = min(size, at + _CHUNK)
    return used


class SparseIndex(IndexFile):
    """An index that the broker allocates in full and fills from the front. Mirrors AbstractIndex."""

    _used: int | None = None  # of a view; computed once

    @classmethod
    def open(
        cls, files: ReadOnlyFiles, path: str, base_offset: int, max_index_size: int = -1, *, writable: bool = True,
        anew: bool = False,
    ) -> Self:
        """Open the file at `path`, believing that it is full of entries; where there is none, make one of zeros.

        max_index_size  bytes of a new file, rounded down to whole entries
        writable        without it nothing is made: a missing file is an index without entries
        anew            an index without entries as well, but the file stays as it is until all of it is written
        Raises UnreadableFile, UnwritableFile, InvalidIndexSize.
        """
        index = cls(bytearray(), base_offset, path)
        backing = Backing(files, path, writable=writable)
        index.max_index_size = max_index_size
        size = backing.length - backing.length % cls.entry_size
        if anew or (writable and not backing.exists):
            if max_index_size < cls.entry_size:
                raise InvalidIndexSize(f"{path}: Invalid max index size: {max_index_size}", do="set segment.index.bytes")
            (backing.begin_anew if anew else backing.create)(max_index_size - max_index_size % cls.entry_size)
        index._attach(backing, 0 if anew else size)
        index.max_entries = backing.length // cls.entry_size
        return index

    max_index_size: int = -1
    max_entries: int = 0  # that fit into the file of an open index

    @property
    def entries(self) -> int:
        """How many entries the index has."""
        return len(self)

    @property
    def length(self) -> int:
        """Bytes of the file of an open index."""
        return self._file.length

    @property
    def is_full(self) -> bool:
        """Is there no room for another entry?"""
        return len(self) >= self.max_entries

    def can_append_offset(self, offset: int) -> bool:
        """Does `offset` fit behind the base offset in 31 bits?"""
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
        """Cut the file behind its last entry."""
        self.resize(len(self) * self.entry_size)

    def truncate(self) -> None:
        """Remove all entries; the file keeps its length."""
        self.truncate_to_entries(0)

    def truncate_to_entries(self, count: int) -> None:
        """Keep the first `count` entries; the file keeps its length."""
        self._cut(count * self.entry_size)

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
        return [Finding("index-zero-tail", where, f"room for {unused} more entries")]

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
