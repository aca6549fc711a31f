"""The file of an open index: read when it is needed, written in runs of entries, and open only during a call.

Kafka maps index files into memory. Here entries are kept in memory, and `write` puts them into the file, so a partition of
thousands of segments needs no descriptor for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from engine.discovery.names import ASIDE, FileKind, file_name, parent_of
from engine.errors import UnwritableFile
from engine.files import is_full, look

if TYPE_CHECKING:
    from engine.files import Files, ReadOnlyFiles


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
