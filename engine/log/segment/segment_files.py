"""The files of a segment that changes: the .log is created at once, the indexes on first use. Mirrors LazyIndex."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import DELETED
from engine.files import WritableFile
from engine.index.offset import OffsetIndex
from engine.index.time import TimeIndex
from engine.index.transaction import TransactionIndex
from engine.log.segment.reading import ReadableSegment

if TYPE_CHECKING:

    from engine.config.topic import LogConfig
    from engine.files import Files


class Partition(NamedTuple):
    """A partition whose files change: file system, directory, settings of its topic, and the clock, ms since 1970."""

    files: Files
    directory: str
    config: LogConfig
    now: int


class SegmentFiles(ReadableSegment):
    """Opens, renames and removes the files of the segment that begins at `base_offset`. See LogSegment for the arguments.

    size  bytes of batches in the .log; a preallocated .log is larger
    """

    files: Files

    def __init__(
        self, partition: Partition, base_offset: int, suffix: str, *, file_already_exists: bool, writable: bool,
        has_txn_index: bool | None = None,
    ) -> None:
        self.config = partition.config
        self.writable = writable
        super().__init__(partition.files, partition.directory, base_offset, suffix, has_txn_index=has_txn_index)
        self.size = self._make_log(file_already_exists=file_already_exists)
        self._is_dirty = False  # has the .log changes that are not synced?

    def _make_log(self, *, file_already_exists: bool) -> int:
        """Create the .log if it does not exist. Returns the bytes of batches in it."""
        size = self._size_on_disk()
        preallocated = self.config.preallocate and not file_already_exists
        if self.writable and (preallocated or size is None):
            with self.files.open_writable(self.log_path, create=True) as file:
                if preallocated:
                    file.truncate(self.config.segment_size)
        return 0 if preallocated or size is None else size

    def _writable_log(self) -> WritableFile:
        if not isinstance(self._file, WritableFile):
            self.release_log()
            self._file = self.files.open_writable(self.log_path)
        return self._file

    def _open_offset_index(self, *, rewrite: bool = False) -> OffsetIndex:
        size, writable = self.config.max_index_size, self.writable
        return OffsetIndex.open(self.files, self.offset_index_path, self.base_offset, size, writable=writable, rewrite=rewrite)

    def _open_time_index(self, *, rewrite: bool = False) -> TimeIndex:
        size, writable = self.config.max_index_size, self.writable
        return TimeIndex.open(self.files, self.time_index_path, self.base_offset, size, writable=writable, rewrite=rewrite)

    @property
    def is_replaced(self) -> bool:
        """Were indexes replaced by new files? Their names are on the disk after the next sync of the directory."""
        return any(index is not None and index.is_replaced for index in (self._offset_index, self._time_index, self.txn_index))

    def _open_txn_index(self, *, exists: bool | None = None) -> TransactionIndex:
        return TransactionIndex.open(self.files, self.txn_index_path, self.base_offset, writable=self.writable, exists=exists)

    def set_last_modified(self, modified_ms: int) -> None:
        """Set the modification time of log, offset index and time index, if they exist."""
        for path in self.paths[:3]:
            if self.files.exists(path):
                self.files.set_modified(path, modified_ms * 1_000_000)

    def flush(self) -> None:
        """Wait until log and indexes are on the disk. Raises UnwritableFile."""
        self._writable_log().sync()
        self._is_dirty = False
        self.offset_index.flush()
        self.time_index.flush()
        self.txn_index.flush()

    def _trim_log(self) -> None:
        """Remove preallocated bytes after the last batch."""
        if self.config.preallocate and self.files.info(self.log_path).size > self.size:
            self._writable_log().truncate(self.size)
            self._is_dirty = True

    def close_handlers(self) -> None:
        """Close the .log. Entries that were appended to indexes are written; nothing is trimmed.

        An index rewrite that did not finish leaves the old file.
        """
        for index in (self._offset_index, self._time_index, self.txn_index):
            if index is not None and not index.is_rewritten:
                index.write_back()
        self.release_log()

    def change_file_suffixes(self, old: str, new: str) -> None:
        """Rename log, offset, time and transaction index, if they exist, in this order."""
        if self.suffix != old:
            raise ValueError(f"the segment's files end with {self.suffix!r}, not {old!r}")
        before = self.paths
        self.suffix = new
        after = self.paths
        self.release_log()
        is_deleted = new == DELETED  # replaces an older file that was marked for deletion
        self.files.rename(before[0], after[0], replaces=is_deleted)
        for index, path, to in zip((self._offset_index, self._time_index), before[1:3], after[1:3], strict=True):
            if index is not None:
                index.rename_to(to)
            elif self.files.exists(path):
                self.files.rename(path, to, replaces=is_deleted)
        self.txn_index.rename_to(after[3])

    def delete_if_exists(self) -> None:
        """Remove log, offset, time and transaction index, if they exist."""
        self.release_log()
        for path in self.paths[:3]:
            self.files.remove(path)
        self.txn_index.delete_if_exists()
        self._offset_index = self._time_index = None
        self._is_dirty = False
        self.size = 0
