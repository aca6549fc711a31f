"""Common code of all index files: entries of one size, read as a whole and searched in place.

An index is a view of bytes (`read`, or the constructor), which checks them, or open (`open`): an open one trusts the file as
the broker does, accepts entries, and writes them back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from engine.amounts import count_of
from engine.errors import KafkalogError, UnreadableFile, argument
from engine.files import zeros
from engine.findings import Finding, Where
from engine.formats import INT_MAX
from engine.record.windows import is_zero

if TYPE_CHECKING:
    from engine.files import Buffer, OpenFile, ReadOnlyFiles
    from engine.index.backing import Backing


class IndexTooLarge(UnreadableFile):
    """An index larger than the limit; it was not read."""


class CorruptIndex(KafkalogError):
    """An index that the broker would not use: it recovers the segment (CorruptIndexException)."""

    code = "index-corrupt"


class IndexFull(KafkalogError):
    """An index without room for another entry (IllegalArgumentException). Appending rolls before that happens."""

    code = "index-full"


class InvalidOffset(KafkalogError):
    """An entry whose offset is not above the last one (InvalidOffsetException)."""

    code = "invalid-offset"


class InvalidTimestamp(KafkalogError):
    """An entry whose timestamp is below that of the last one (IllegalStateException)."""

    code = "invalid-timestamp"


class IndexOffsetOverflow(KafkalogError):
    """An offset that does not fit into 31 bits relative to the base offset (IndexOffsetOverflowException)."""

    code = "index-offset-overflow"


class InvalidIndexSize(KafkalogError):
    """segment.index.bytes is smaller than one entry (IllegalArgumentException)."""

    code = "invalid-index-size"


class TransactionOrder(KafkalogError):
    """An aborted transaction that ends before the one before it (IllegalArgumentException)."""

    code = "transaction-order"


MAX_INDEX_SIZE = 64 * 1024 * 1024  # bytes of entries; log.index.size.max.bytes is 10 MiB by default

_CHUNK = 1 << 20


class IndexFile:
    """The bytes of an index file of `path`, whose segment begins at `base_offset`.

    `len(index)` counts the whole entries in the file, as Kafka does when it opens one, and ignores a partial one at the end.
    """

    entry_size: ClassVar[int]

    def __init__(self, data: Buffer, base_offset: int, path: str) -> None:
        self.base_offset = base_offset
        self.path = path
        self._data: Buffer | None = data
        self._size = len(data)
        self._backing: Backing | None = None
        self._stored = 0  # bytes of `data` that the file has already

    @classmethod
    def read(cls, files: ReadOnlyFiles, path: str, base_offset: int) -> Self:
        """Read the file at `path`. Raises UnreadableFile, and IndexTooLarge for more than MAX_INDEX_SIZE bytes of entries.

        Zeros that a broker preallocated after them take no memory; no index has more than 2^31 − 1 bytes.
        """
        with files.open(path) as file:
            size = file.size()
            if size <= MAX_INDEX_SIZE:
                return cls(file.read(0, size), base_offset, path)
            used = _used_bytes(file, size) if size <= INT_MAX else size
            if used > MAX_INDEX_SIZE:
                raise IndexTooLarge(_too_large(path, used), do=f"kafkalog verify --rebuild {argument(path)}", path=path)
            data = zeros(size)
            file.read_into(data[:used], 0)
            return cls(data, base_offset, path)

    def _attach(self, backing: Backing, size: int) -> None:
        """Open the index: it consists of the first `size` bytes of the file, which are read when they are needed."""
        self._backing, self._data, self._size, self._stored = backing, None, size, size

    @property
    def is_open(self) -> bool:
        """Return whether the index is open, that is, backed by a file that it trusts and may write."""
        return self._backing is not None

    @property
    def is_rewritten(self) -> bool:
        """Return whether this index is still to replace the file."""
        return self._file.is_rewritten

    @property
    def is_replaced(self) -> bool:
        """Return whether a new file replaced the one that was opened; see Backing."""
        return self._file.is_replaced

    @property
    def _file(self) -> Backing:
        if self._backing is None:
            raise ValueError(f"{self.path} is not open")
        return self._backing

    def open_file(self) -> OpenFile:
        """Open the file of an open index, for callers that need few of its entries. Raises UnreadableFile."""
        return self._file.files.open(self.path)

    @property
    def data(self) -> Buffer:
        """Return the bytes of a view as they were read, or the bytes of an open index's entries.

        Raises UnreadableFile, and CorruptIndex if an open index has more than MAX_INDEX_SIZE bytes.
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
        """Return the bytes of the whole entries."""
        return memoryview(self.data)[: len(self) * self.entry_size]

    def odd_size(self) -> list[Finding]:
        """Return a finding if the file ends inside an entry."""
        rest = self._size % self.entry_size
        if not rest:
            return []
        where = Where(self.path, self._size - rest)
        return [Finding("index-size-invalid", where, f"{count_of(rest, 'byte')} at the end, an entry has {self.entry_size}")]

    def _add(self, entries: Buffer) -> None:
        """Add `entries` in memory."""
        data = self.data
        if not isinstance(data, bytearray):
            raise TypeError(f"{self.path} is not open")
        data += entries
        self._size = len(data)

    def _cut(self, size: int) -> None:
        """Drop all but the first `size` bytes. The file keeps the others until they are overwritten or trimmed."""
        if self._data is not None:
            self._data = bytearray(memoryview(self._data)[:size])
        self._size, self._stored = size, min(self._stored, size)

    def write_back(self) -> None:
        """Write the entries that the file does not have yet. Raises UnwritableFile."""
        if self._stored < self._size:
            self._file.write(self._stored, memoryview(self.data)[self._stored :])
            self._stored = self._size

    def flush(self) -> None:
        """Write back, and wait until the file is on the disk. Raises UnwritableFile."""
        self.write_back()
        self._file.sync()

    def sync_changes(self) -> None:
        """Write back, and wait until all changes since the last sync are on the disk. Raises UnwritableFile."""
        self.write_back()
        self._file.sync_changes()

    def rename_to(self, path: str) -> None:
        """Rename the file."""
        self.write_back()
        self._file.rename(path)
        self.path = path

    def delete_if_exists(self) -> None:
        """Remove the file, and drop entries not written to it."""
        self._file.remove()
        self._data, self._size, self._stored = bytearray(), 0, 0


def _too_large(path: str, size: int) -> str:
    return f"{path}: {size} bytes, more than the {MAX_INDEX_SIZE} allowed for the entries of an index"


def _used_bytes(file: OpenFile, size: int) -> int:
    """Return the length of the first `size` bytes less the zeros at their end, in whole chunks. Raises UnreadableFile."""
    used, chunk = 0, bytearray(_CHUNK)
    for at in range(0, size, _CHUNK):
        if not is_zero(chunk, file.read_into(memoryview(chunk)[: min(_CHUNK, size - at)], at)):
            used = min(size, at + _CHUNK)
    return used
