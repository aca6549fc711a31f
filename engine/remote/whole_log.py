"""Read partitions with their remote segments as one log, without writing what `remote download` would write.

This is a separate module because several commands use it: it implements the file system interface.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
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
from engine.remote.segment_slice import SegmentSlice
from engine.remote.verify import DeepCheck

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import OpenFile, ReadOnlyFiles
    from engine.remote.access import RemoteAccess
    from engine.remote.layouts import SegmentParts
    from engine.remote.metadata import PartitionMetadata, RemoteSegment

_KEPT = 64 << 20  # bytes of indexes and snapshots kept in memory: readers ask for the size first, then for the content


class _Part(NamedTuple):
    """A file of a remote segment. `kind`: None for the log."""

    parts: SegmentParts
    segment: RemoteSegment
    kind: IndexKind | None


class _Beside(NamedTuple):
    """Parts of a remote segment that are not files of its directory: `kinds`."""

    parts: SegmentParts
    segment: RemoteSegment
    kinds: list[IndexKind]


class _UnreadInfo(FileInfo):
    """A FileInfo whose size is known only after reading the object. `read` returns it."""

    read: Callable[[], int]

    @property
    def size(self) -> int:
        """See FileInfo. Raises UnreadableFile."""
        return self.read()


class WholeLogFiles(ReadOnlyFilesAbove):
    """The files of `below`; directories of partitions also have the files of the remote segments. Safe for several threads.

    report  receives a directory, and a finding from reading its remote segments
    failed  receives the reason why the remote segments of a partition are left out
    The first segment of a directory is the remote one with the log start offset. The local segments follow the remote ones.
    """

    def __init__(
        self, below: ReadOnlyFiles, access: RemoteAccess, report: Callable[[str, Finding], object],
        failed: Callable[[KafkalogError], object],
    ) -> None:  # fmt: skip
        super().__init__(below)
        self._access, self._report, self._failed = access, report, failed
        self._partitions: dict[str, dict[str, _Part]] = {}  # by directory: remote files by name
        self._beside: dict[str, tuple[PartitionMetadata, list[_Beside]]] = {}  # by directory
        self._indexes = Pieces(_KEPT, _KEPT)
        self._mutex = Lock()

    # ---- remote files

    def remote_segments(self, directory: str) -> int:
        """Return the number of remote segments of a partition."""
        return sum(part.kind is None for part in self._remote(directory.rstrip("/")).values())

    def check_beside(self, directory: str) -> None:
        """Check the parts of remote segments that are not files of the directory. Raises UnreadableFile.

        A follower without a log begins with them. `report` receives problems.
        """
        directory = directory.rstrip("/")

        def report(finding: Finding) -> None:
            self._report(directory, finding)

        if self._remote(directory):
            partition, segments = self._beside[directory]
            check = DeepCheck(report)
            for one in segments:
                check.check_beside_log(one.parts, one.segment, partition, one.kinds)
            check.finish()

    def shown(self, path: str) -> str:
        """Return the path for messages: of a remote file, the path of its object."""
        part = self._part(path)
        return path if part is None else part.parts.path(part.kind)

    def named(self, finding: Finding) -> Finding:
        """Return a finding whose path is that of the object. See `shown`."""
        part, where = self._part(finding.where.file), finding.where
        if part is None:
            return finding
        if isinstance(part.parts, SegmentSlice) and part.kind is None and where.position is not None:
            where = where._replace(position=where.position + part.parts.extent[0])
        return finding._replace(where=where._replace(file=part.parts.path(part.kind)))

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
            return {}  # not a partition, or the reader of its local files reports the problem
        found: dict[str, _Part] = {}
        local = set(self._below.list(directory))
        try:
            log = self._access.log(view)
            if log is not None and log.remote is not None:
                self._beside[directory] = log.remote, []
            following, first_local = 0, min(view.segments.base_offsets, default=0)  # following: after the last offset so far
            for whole in () if log is None else remote_chain(log, self._failed):
                assert log is not None
                assert log.remote is not None  # it has this segment
                own = self._access.layout.parts(log.remote, whole)
                segment, parts = whole, own
                first, last = max(whole.start_offset, following), min(whole.end_offset, first_local - 1)
                if (first, last) != (whole.start_offset, whole.end_offset):
                    parts, segment = SegmentSlice(parts, whole, first, last), whole._replace(start_offset=first)
                following = whole.end_offset + 1
                kinds = [IndexKind.LEADER_EPOCH]
                if last < whole.end_offset or producer_snapshot_file_name(last + 1) in local:
                    kinds.append(IndexKind.PRODUCER_SNAPSHOT)
                self._beside[directory][1].append(_Beside(own, whole, kinds))
                found[log_file_name(segment.start_offset)] = _Part(parts, segment, None)
                for kind, name_of in INDEX_FILE_NAMES.items():
                    if kind is not IndexKind.TRANSACTION or not segment.txn_index_empty:
                        found[name_of(segment.start_offset)] = _Part(parts, segment, kind)
                if last == whole.end_offset:  # the snapshot is that of its end
                    found[producer_snapshot_file_name(last + 1)] = _Part(parts, segment, IndexKind.PRODUCER_SNAPSHOT)
        except KafkalogError as error:
            self._failed(error)
            return {}
        finally:
            view.close()
        for name in local:
            found.pop(name, None)  # local files take precedence: the snapshot at the first local offset
        return found

    def _bytes(self, path: str, part: _Part) -> bytes:
        """Read a file that is not a log. Raises UnreadableFile; a missing object is removed from its directory."""
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

    # ---- the file system interface

    def needs_requests(self, path: str) -> bool:
        """See ReadOnlyFiles."""
        return self._part(path) is not None or self._below.needs_requests(path)

    def info(self, path: str) -> FileInfo:
        """See ReadOnlyFiles. The time of a remote file is that of the copy."""
        part = self._part(path)
        if part is None:
            return self._below.info(path)
        info = _UnreadInfo(True, False, 0, part.segment.event_timestamp_ms * 1_000_000)
        info.read = part.parts.log_size if part.kind is None else lambda: len(self._bytes(path, part))
        return info

    def exists(self, path: str) -> bool:
        """See ReadOnlyFiles. A remote file exists until a read finds that its object is missing."""
        return self._part(path) is not None or self._below.exists(path)

    def plain(self, directory: str) -> list[str]:
        """See ReadOnlyFiles. Returns local and remote files."""
        return sorted([*self._below.plain(directory), *self._remote(directory.rstrip("/"))])

    def list(self, directory: str) -> list[str]:
        """See ReadOnlyFiles. Returns local and remote files."""
        return sorted([*self._below.list(directory), *self._remote(directory.rstrip("/"))])

    def read(self, path: str, limit: int) -> bytes:
        """See ReadOnlyFiles."""
        return super(ReadOnlyFilesAbove, self).read(path, limit)

    def open(self, path: str) -> OpenFile:
        """See ReadOnlyFiles. A remote log is read by ranges, other remote files as a whole."""
        part = self._part(path)
        if part is None:
            return self._below.open(path)
        if part.kind is not None:
            data = self._bytes(path, part)
            return RangedFile(path, len(data), lambda start, end: data[start:end])
        actual = (part.parts.whole if isinstance(part.parts, SegmentSlice) else part.parts).log_size()
        if actual != part.segment.size:
            what = f"{count_of(actual, 'byte')}, but {part.segment.size} by its metadata: consumers skip the missing records"
            where = Where(part.parts.path(None), None, part.segment.start_offset)
            self._report(path.rpartition("/")[0], Finding("remote-object-size", where, what))
        return RangedFile(path, part.parts.log_size(), part.parts.read_log)
