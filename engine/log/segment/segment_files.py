"""The files of a segment: the .log, opened when it is used, and the indexes, made when they are used. Mirrors LazyIndex."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.files import WritableFile, look
from engine.formats import INT_MAX
from engine.index.offset import OffsetIndex
from engine.index.time import TimeIndex
from engine.index.transaction import TransactionIndex
from engine.layout import (
    log_file_name,
    offset_index_file_name,
    time_index_file_name,
    transaction_index_file_name,
)
from engine.log.errors import SegmentTooLarge

if TYPE_CHECKING:
    from engine.config import LogConfig
    from engine.files import Files, OpenFile



class SegmentFiles:
    """Names, sizes and life of the files of the segment that begins at `base_offset`: see LogSegment for the arguments.

    size  bytes of batches in the .log; a .log that is allocated in full has more
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        base_offset: int,
        config: LogConfig,
        suffix: str,
        *,
        file_already_exists: bool,
        writable: bool,
        has_txn_index: bool | None = None,
    ) -> None:
        self.files = files
        self.directory = directory
        self.base_offset = base_offset
        self.config = config
        self.suffix = suffix
        self.writable = writable
        self.size = self._make_log(file_already_exists=file_already_exists)
        self._file: OpenFile | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self.txn_index = TransactionIndex.open(
            files, self.txn_index_path, base_offset, writable=writable, exists=has_txn_index
        )
        self._is_dirty = False  # is there anything in the .log that was not synced?

    def __repr__(self) -> str:
        return f"LogSegment(base_offset={self.base_offset}, size={self.size}, suffix={self.suffix!r})"

    def _make_log(self, *, file_already_exists: bool) -> int:
        """Make the .log if there is none → bytes of batches in it."""
        found = look(self.files, self.log_path)
        preallocated = self.config.preallocate and not file_already_exists
        if self.writable and (preallocated or found is None):
            with self.files.open_writable(self.log_path, create=True) as file:
                if preallocated:
                    file.truncate(self.config.segment_size)
        if preallocated or found is None:
            return 0
        size = found.size
        if size > INT_MAX:
            what = f"{self.log_path}: {size} bytes, the largest segment has {INT_MAX}"
            raise SegmentTooLarge(what)
        return size

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    @property
    def log_path(self) -> str:
        """Where the .log is."""
        return self._path(log_file_name(self.base_offset, self.suffix))

    @property
    def offset_index_path(self) -> str:
        """Where the .index is, or would be."""
        return self._path(offset_index_file_name(self.base_offset, self.suffix))

    @property
    def time_index_path(self) -> str:
        """Where the .timeindex is, or would be."""
        return self._path(time_index_file_name(self.base_offset, self.suffix))

    @property
    def txn_index_path(self) -> str:
        """Where the .txnindex is, or would be."""
        return self._path(transaction_index_file_name(self.base_offset, self.suffix))

    @property
    def paths(self) -> tuple[str, str, str, str]:
        """Where log, offset, time and transaction index are, or would be."""
        return self.log_path, self.offset_index_path, self.time_index_path, self.txn_index_path

    @property
    def log_file(self) -> OpenFile:
        """The .log, open for reading; opened when it is first used."""
        if self._file is None:
            self._file = self.files.open(self.log_path)
        return self._file

    def _writable_log(self) -> WritableFile:
        if not isinstance(self._file, WritableFile):
            self._release_log()
            self._file = self.files.open_writable(self.log_path)
        return self._file

    def _release_log(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def offset_index(self) -> OffsetIndex:
        """The .index; made when it is first used."""
        if self._offset_index is None:
            size = self.config.max_index_size
            self._offset_index = OffsetIndex.open(
                self.files, self.offset_index_path, self.base_offset, size, writable=self.writable
            )
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """The .timeindex; made when it is first used."""
        if self._time_index is None:
            size = self.config.max_index_size
            self._time_index = TimeIndex.open(self.files, self.time_index_path, self.base_offset, size, writable=self.writable)
        return self._time_index

    @property
    def last_modified(self) -> int:
        """When the .log was changed last, ms."""
        return self.files.info(self.log_path).modified_ms

    def set_last_modified(self, modified_ms: int) -> None:
        """Set the file times of log, offset and time index, as far as they exist."""
        for path in self.paths[:3]:
            if self.files.exists(path):
                self.files.set_modified(path, modified_ms)

    def flush(self) -> None:
        """Wait until log and indexes are on the disk. Raises UnwritableFile."""
        self._writable_log().sync()
        self._is_dirty = False
        self.offset_index.flush()
        self.time_index.flush()
        self.txn_index.flush()

    def _trim_log(self) -> None:
        """Cut what was allocated behind the last batch."""
        if self.config.preallocate and self.files.info(self.log_path).size > self.size:
            self._writable_log().truncate(self.size)
            self._is_dirty = True

    def close_handlers(self) -> None:
        """Let go of the .log. What was appended to indexes is written back, nothing is trimmed."""
        for index in (self._offset_index, self._time_index, self.txn_index):
            if index is not None:
                index.write_back()
        self._release_log()

    def change_file_suffixes(self, old: str, new: str) -> None:
        """Rename log, offset, time and transaction index, as far as they exist, in this order."""
        if self.suffix != old:
            raise ValueError(f"the segment's files end with {self.suffix!r}, not {old!r}")
        before = self.paths
        self.suffix = new
        after = self.paths
        self._release_log()
        self.files.rename(before[0], after[0])
        for index, path, to in zip((self._offset_index, self._time_index), before[1:3], after[1:3], strict=True):
            if index is not None:
                index.rename_to(to)
            elif self.files.exists(path):
                self.files.rename(path, to)
        self.txn_index.rename_to(after[3])

    def delete_if_exists(self) -> None:
        """Remove log, offset, time and transaction index. What is missing is no error."""
        self._release_log()
        for path in self.paths[:3]:
            self.files.remove(path)
        self.txn_index.delete_if_exists()
        self._offset_index = self._time_index = None
        self._is_dirty = False
        self.size = 0
