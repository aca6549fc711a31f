"""Common code of all index files: entries of one size, read as a whole and searched in place.

An index is a view of bytes (`read`, or the constructor), which checks them, or open (`open`): an open one trusts the file as
the broker does, accepts entries, and writes them back.

`Backing` is the file of an open index. Kafka maps index files into memory. Here entries are kept in memory and written with
`write`, so that a partition with thousands of segments needs no open file for any of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self, cast

from engine.amounts import count_of
from engine.discovery.names import ASIDE, FileKind, file_name, parent_of
from engine.errors import KafkalogError, UnreadableFile, UnwritableFile, argument
from engine.files import is_full, look, zeros
from engine.findings import Finding, Where
from engine.formats import INT_MAX
from engine.record.windows import is_zero

if TYPE_CHECKING:
    from engine.files import Buffer, Files, OpenFile, ReadOnlyFiles

class Backing:
    """A file at `path`, of `length` bytes. Without `writable`, or if it does not exist, nothing is made on the disk.

    Zeros that lengthen it are written only before a rename: until then no reader needs them, and most files are trimmed before.
    exists  whether the file exists; None: ask the disk
    is_replaced  another file replaced it, which is on the disk after the next sync of its directory
    """

    def __init__(self, files: ReadOnlyFiles, path: str, *, writable: bool, exists: bool | None = None) -> None:
        self.files = files
        self.path = path
        self.writable = writable
        self.exists = files.exists(path) if exists is None else exists
        self.length = files.info(path).size if self.exists else 0
        self._on_disk = self.length  # current size of the file
        self._changed = False  # since the last sync
        self._is_rewritten = False  # will another file replace this one once it is written?
        self.is_replaced = False

    @property
    def _files(self) -> Files:
        if not self.writable:
            raise PermissionError(f"{self.path} was opened for reading only")  # an error of the caller, not of the disk
        return cast("Files", self.files)

    def _new_mode(self) -> int | None:
        """Return the mode of a new file: that of its segment's .log; None: of the existing file, see Files.open_writable."""
        base, _, rest = file_name(self.path).partition(".")
        suffix = "".join(rest.partition(".")[1:])
        log = None if self.exists else look(self.files, f"{parent_of(self.path)}/{base}{FileKind.LOG.value}{suffix}")
        return None if log is None else log.mode

    def create(self, length: int) -> None:
        """Make the file with `length` zeros that take no space; an existing one gets that size."""
        with self._files.open_writable(self.path, create=True, mode=self._new_mode()) as file:
            file.truncate(length)
        self.exists, self.length, self._on_disk, self._changed = True, length, length, True

    @property
    def is_rewritten(self) -> bool:
        """Return whether the rewrite of the file is not complete yet."""
        return self._is_rewritten

    def begin_rewrite(self, length: int) -> None:
        """Let the next `write`, from byte 0 on, rewrite the whole file; readers see `length` bytes of it.

        Until then the old file remains; the file is never a mix of both, even if the process is killed.
        """
        self._is_rewritten, self.length = True, length

    def _replace(self, data: memoryview | bytes) -> None:
        """Write `data` to a temporary file, sync and rename it. An equal file is kept.

        On a disk without room for both, the old file is overwritten, as a broker does it: the operation must be able to
        complete.
        """
        if self.exists and self._on_disk == len(data) and self.read(0, len(data)) == data:
            self._is_rewritten, self._changed = False, True  # its writer may not have synced it
            return
        aside = self.path + ASIDE
        try:
            with self._files.open_writable(aside, create=True, mode=self._new_mode()) as file:
                file.truncate(0)
                file.write_at(0, data)
                file.sync()
        except UnwritableFile as error:
            if not is_full(error) or not self.exists:
                raise
            self._files.remove(aside)
            self._overwrite(data)
            return
        self._files.rename(aside, self.path, replaces=True)
        self.is_replaced |= self.exists
        self._is_rewritten, self.exists, self._on_disk, self._changed = False, True, len(data), False

    def _overwrite(self, data: memoryview | bytes) -> None:
        with self._files.open_writable(self.path) as file:
            file.write_at(0, data)
            file.truncate(len(data))
        self._is_rewritten, self._on_disk, self._changed = False, len(data), True

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from byte `position`. Raises UnreadableFile, and FileChangedWhileReading if there are fewer."""
        if not size:
            return b""
        with self.files.open(self.path) as file:
            return file.read_exactly(position, size)

    def write(self, position: int, data: memoryview) -> None:
        """Write all of `data` from byte `position` on."""
        if self._is_rewritten:
            self._replace(data)
            self.length = max(self.length, self._on_disk)
            return
        with self._files.open_writable(self.path, create=True, mode=self._new_mode()) as file:
            self.exists = True  # also if the disk has no room for the data
            file.write_at(position, data)
        self._on_disk = max(self._on_disk, position + len(data))
        self.length, self._changed = max(self.length, self._on_disk), True

    def set_length(self, length: int) -> None:
        """Truncate the file, or lengthen it with zeros."""
        if self._is_rewritten and not length:
            self._replace(b"")
        elif length < self._on_disk and not self._is_rewritten:
            self._truncate(length)
        self.length = length

    def _truncate(self, length: int) -> None:
        with self._files.open_writable(self.path) as file:
            file.truncate(length)
        self._on_disk, self._changed = length, True

    def sync(self) -> None:
        """Wait until the file is on the disk; it may be missing."""
        if self._is_rewritten:
            self._replace(b"")
        if self.exists:
            with self._files.open_writable(self.path) as file:
                file.sync()
            self._changed = False

    def sync_changes(self) -> None:
        """As `sync`, if anything changed since the last one."""
        if self._changed or self._is_rewritten:
            self.sync()

    def rename(self, path: str) -> None:
        """Rename the file if it exists; an index of that name is replaced, since it can be rebuilt from its log."""
        if self._is_rewritten:
            self._replace(b"")
        if self.exists:
            if self._on_disk < self.length:
                self._truncate(self.length)
            self._files.rename(self.path, path, replaces=True)
        self.path = path

    def remove(self) -> None:
        """Remove the file if it exists."""
        if self.exists:
            self._files.remove(self.path)
        self.exists, self.length, self._on_disk, self._changed, self._is_rewritten = False, 0, 0, False, False


class IndexTooLarge(UnreadableFile):
    """An index larger than the limit; it was not read."""

    code = "index-too-large"


class CorruptIndex(KafkalogError):
    """An index that the broker would not use: it recovers the segment (CorruptIndexException)."""

    code = "index-corrupt"


class IndexFull(KafkalogError):
    """An index without room for another entry (IllegalArgumentException). Appending rolls before that happens."""

    code = "index-full"


class InvalidOffset(KafkalogError):
    """An entry whose offset is not above the last one (InvalidOffsetException)."""

    code = "index-offset-order"


class InvalidTimestamp(KafkalogError):
    """An entry whose timestamp is below that of the last one (IllegalStateException)."""

    code = "index-timestamp-order"


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
