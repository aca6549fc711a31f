"""Partitions with their remote segments, as `remote download` would write them, but in no place: commands read them as one log.

It stands by itself because it belongs to no command: whatever reads a partition's files through the seam reads remote ones too.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import (
    file_name,
    log_file_name,
    parent_of,
    partition_of,
    producer_snapshot_file_name,
)
from engine.errors import KafkalogError, UnreadableFile
from engine.files import FileInfo
from engine.files.layered import ReadOnlyFilesAbove
from engine.findings import Finding, Where
from engine.log.fetch.view import PartitionView
from engine.remote.download import remote_chain
from engine.remote.layouts import INDEX_FILE_NAMES, IndexKind
from engine.remote.ranged_file import Pieces, RangedFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import OpenFile, ReadOnlyFiles
    from engine.remote.access import RemoteAccess
    from engine.remote.layouts import SegmentParts
    from engine.remote.metadata import RemoteSegment

_KEPT = 64 << 20  # bytes of indexes and snapshots: each is asked for its size, and then read


class _Part(NamedTuple):
    """A file of a remote segment. `kind`: None for the log."""

    parts: SegmentParts
    segment: RemoteSegment
    kind: IndexKind | None


class _UnreadInfo(FileInfo):
    """Of what must be read to know its size: `read` does. Few ask for it."""

    read: Callable[[], int]

    @property
    def size(self) -> int:
        """See FileInfo. Raises UnreadableFile."""
        return self.read()


class WholeLogFiles(ReadOnlyFilesAbove):
    """`below`, where the directory of a partition has the files of its remote segments as well. Several threads may ask.

    report   takes a directory, and what is found out about its remote segments while they are read
    failed   takes why the remote segments of a partition are left out
    A directory begins with the remote segment that has the log start, and ends with what is local.
    """

    def __init__(
        self, below: ReadOnlyFiles, access: RemoteAccess, report: Callable[[str, Finding], object],
        failed: Callable[[KafkalogError], object],
    ) -> None:  # fmt: skip
        super().__init__(below)
        self._access, self._report, self._failed = access, report, failed
        self._partitions: dict[str, dict[str, _Part]] = {}  # by directory: remote files by name
        self._indexes = Pieces(_KEPT, _KEPT)
        self._mutex = Lock()

    # ---- what is remote

    def remote_segments(self, directory: str) -> int:
        """How many segments of the partition are remote."""
        return sum(part.kind is None for part in self._remote(directory.rstrip("/")).values())

    def shown(self, path: str) -> str:
        """`path`; of a remote file its object."""
        part = self._part(path)
        return path if part is None else part.parts.path(part.kind)

    def named(self, finding: Finding) -> Finding:
        """A finding that names the object it is about."""
        path = self.shown(finding.where.file)
        return finding if path == finding.where.file else finding._replace(where=finding.where._replace(file=path))

    def _part(self, path: str) -> _Part | None:
        return self._remote(path.rstrip("/").rpartition("/")[0] or parent_of(self.absolute(path))).get(file_name(path))

    def _remote(self, directory: str) -> dict[str, _Part]:
        with self._mutex:
            if directory not in self._partitions:
                self._partitions[directory] = {}
                if partition_of(f"{self._below.absolute(directory)}/x") is not None:
                    self._partitions[directory] = self._found(directory)
            return self._partitions[directory]

    def _found(self, directory: str) -> dict[str, _Part]:
        try:
            view = PartitionView(self._below, directory, lambda _finding: None)
        except KafkalogError:
            return {}  # no partition, or its reader says what is wrong with it
        found: dict[str, _Part] = {}
        try:
            log = self._access.log(view)
            for segment in () if log is None else remote_chain(log):
                assert log is not None
                assert log.remote is not None  # it has this segment
                parts = self._access.layout.parts(log.remote, segment)
                found[log_file_name(segment.start_offset)] = _Part(parts, segment, None)
                for kind, name_of in INDEX_FILE_NAMES.items():
                    if kind is not IndexKind.TRANSACTION or not segment.txn_index_empty:
                        found[name_of(segment.start_offset)] = _Part(parts, segment, kind)
                found[producer_snapshot_file_name(segment.end_offset + 1)] = _Part(parts, segment, IndexKind.PRODUCER_SNAPSHOT)
        except KafkalogError as error:
            self._failed(error)
            return {}
        finally:
            view.close()
        for name in self._below.list(directory):
            found.pop(name, None)  # the snapshot between the two
        return found

    def _bytes(self, path: str, part: _Part) -> bytes:
        """All of what is no log. Raises UnreadableFile; where there is no object, the directory lacks it from then on."""
        kind = part.kind
        assert kind is not None  # a log is read by ranges

        def fetch() -> bytes:
            data = part.parts.index(kind)
            if data is None:
                with self._mutex:
                    self._partitions[path.rpartition("/")[0]].pop(file_name(path), None)
                where, what = Where(part.parts.path(kind), None, part.segment.start_offset), f"{file_name(path)} is missing"
                self._report(path.rpartition("/")[0], Finding("remote-object-missing", where, what))
                raise UnreadableFile(f"{path}: the object {where.file} does not exist", path=path)
            return data

        return bytes(self._indexes.get(path, 0, -1, fetch))

    # ---- as Files

    def info(self, path: str) -> FileInfo:
        """Of a remote file: its size, and when the segment was copied."""
        part = self._part(path)
        if part is None:
            return self._below.info(path)
        info = _UnreadInfo(True, False, 0, part.segment.event_timestamp_ms * 1_000_000)
        info.read = part.parts.log_size if part.kind is None else lambda: len(self._bytes(path, part))
        return info

    def exists(self, path: str) -> bool:
        """Remote files do, until it is found out that the store lacks one."""
        return self._part(path) is not None or self._below.exists(path)

    def plain(self, directory: str) -> list[str]:
        """Local and remote ones."""
        return sorted([*self._below.plain(directory), *self._remote(directory.rstrip("/"))])

    def list(self, directory: str) -> list[str]:
        """Local and remote ones."""
        return sorted([*self._below.list(directory), *self._remote(directory.rstrip("/"))])

    def read(self, path: str, limit: int) -> bytes:
        """See ReadOnlyFiles."""
        return super(ReadOnlyFilesAbove, self).read(path, limit)

    def open(self, path: str) -> OpenFile:
        """A remote log is read by ranges, what is beside it whole."""
        part = self._part(path)
        if part is None:
            return self._below.open(path)
        if part.kind is not None:
            data = self._bytes(path, part)
            return RangedFile(path, len(data), lambda start, end: data[start:end])
        size = part.parts.log_size()
        if size != part.segment.size:
            what = f"{size} bytes, but {part.segment.size} by its metadata: consumers pass over what is missing"
            where = Where(part.parts.path(None), None, part.segment.start_offset)
            self._report(path.rpartition("/")[0], Finding("remote-object-size", where, what))
        return RangedFile(path, size, part.parts.read_log)
