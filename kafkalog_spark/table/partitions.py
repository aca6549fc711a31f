"""The paths of a query, opened on one machine: partitions below them, the best of several replicas, settings of topics."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from engine.background import side_by_side
from engine.config.server import Settings
from engine.discovery.names import is_url, parent_of, parse_file_name
from engine.discovery.paths import WHAT, half_commit, undo_advice
from engine.discovery.patterns import expand
from engine.errors import KafkalogError, UnreadableFile, UsageError
from engine.files import ReadOnlyFiles, look
from engine.files.layered import ReadableFiles
from engine.formats import LONG_MAX
from engine.log.fetch.open_transactions import TransactionStates
from engine.log.fetch.replicas import best_replica
from engine.log.fetch.view import PartitionView
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.startup import in_same_cluster, survey_all
from engine.log.logdir.topics import Topics, not_read, remote_log_start
from engine.log.tiering import TopicPolicy
from engine.remote.url_files import UrlFiles
from kafkalog_spark.errors import LogDirError, escaped, failed, on_corruption, report_finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from engine.findings import Finding
    from engine.log.fetch.view import KnownEnd
    from engine.log.logdir.log_dirs import LogDir, PartitionPath
    from engine.log.segment.log_segments import LogOffsetMetadata
    from engine.remote.url_files import Listing
    from engine.remote.whole_log import WholeLogFiles
    from kafkalog_spark.table.options import ReadOptions

    Item = TypeVar("Item")
    Result = TypeVar("Result")

_DEPTH = 4  # levels of directories that are searched for readable log dirs
_SHARED = 60  # seconds
_AT_ONCE = 32  # partitions that wait for a store
_LOG = logging.getLogger("kafkalog")


@dataclass(frozen=True, slots=True)
class Replicas:
    """A partition and all directories with a copy of it."""

    topic: str
    partition: int
    directories: tuple[str, ...]


class Piece(NamedTuple):
    """Offsets start … end − 1 of one partition, about `size` bytes of its logs.

    left_out  (producer id, first offset) of open transactions whose records are skipped
    policy    of the topic; used by level findings
    log_end   as planning found it; None: not known
    """

    directory: str
    topic: str
    partition: int
    start: int = 0
    end: int = LONG_MAX
    size: int = 0
    left_out: tuple[tuple[int, int], ...] = ()
    policy: TopicPolicy = TopicPolicy()
    log_end: LogOffsetMetadata | None = None


class OpenPaths:
    """The paths of a query, on the driver or in a task. What log dirs contain is read on demand.

    settings  topic settings that override those of the metadata logs
    files     the file system, object stores, and with a store also the remote segments of tiered partitions
    Raises LogDirError for a store that cannot be opened.
    """

    def __init__(self, options: ReadOptions, settings: Settings | None = None) -> None:
        self.options, self._settings = options, settings or Settings()
        self._local = files_for((*options.paths, *options.log_dirs))
        self._waits = options.store is not None or type(self._local) is not ReadOnlyFiles
        self.files: ReadOnlyFiles = self._local if options.store is None else self._whole()
        self._readable = ReadableFiles(self.files) if options.skips_unreadable else None
        self.skipped: list[str] = []  # paths of log dirs and directories of them that cannot be read
        self._states: dict[tuple[str, ...], TransactionStates] = {}

    def _whole(self) -> WholeLogFiles:
        from engine.remote.access import RemoteAccess
        from engine.remote.restored_log import WithoutEpoch
        from engine.remote.whole_log import WholeLogFiles

        options = self.options
        assert options.store is not None  # else there is nothing to add
        store, (report, goes_on) = options.store, on_corruption(options.on_corruption)
        access = RemoteAccess(self._local, lambda: store, self._around, report)

        def left_out(error: KafkalogError) -> None:
            if options.fail_on_data_loss and not goes_on and not isinstance(error, WithoutEpoch):
                raise failed(error)
            _LOG.warning("%s: remote segments are left out", error)

        return WholeLogFiles(self._local, access, lambda _directory, finding: report(finding), left_out)

    # ---- partitions

    def partition_dirs(self) -> list[PartitionPath]:
        """Return every partition directory below the paths, including replicas, in order. Raises LogDirError.

        A directory without segments in a log dir is skipped: a broker has just made it.
        """
        files = self._local
        unless_skipped = partial(suppress, *(UnreadableFile,) * self.options.skips_unreadable)
        try:
            for path in self._expanded:
                with unless_skipped():
                    if files.exists(path) and not files.info(path).is_directory:
                        raise LogDirError(f"{path}: a file; name the partition directory around it, or a log dir")
            found = check_utf8(self._log_dirs)
            for log_dir in found:
                with unless_skipped():
                    _report_half_commit(files, log_dir.path)
            there = [(log_dir.is_whole, partition) for log_dir in found for partition in log_dir.partitions()]
            empty = self.together(lambda one: one[0] and _has_no_segment(files, one[1].path), there)
            return [partition for (_, partition), is_empty in zip(there, empty, strict=True) if not is_empty]
        except KafkalogError as error:
            raise failed(error) from None

    def replicas(self) -> list[Replicas]:
        """Return the partitions to read, in order. Raises LogDirError."""
        found = dict[tuple[str, int], list[str]]()
        for partition in self.partition_dirs():
            if self.options.wants(*(key := topic_and_partition(partition))):
                found.setdefault(key, []).append(partition.path)
        return [Replicas(*key, tuple(paths)) for key, paths in sorted(found.items())]

    def best(self, replicas: Replicas) -> Piece:
        """Return the whole partition, in the best of its directories."""
        return Piece(best_replica(self._local, list(replicas.directories)), replicas.topic, replicas.partition)

    def sources(self) -> list[Piece]:
        """Return the partitions to read, with the best directory of each. Raises LogDirError."""
        return list(self.together(self.best, self.replicas()))

    def together(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the result of `work` for each item, in order; several at a time if they wait for a store."""
        yield from side_by_side(work, items, _AT_ONCE if self._waits else 1)

    def view(self, directory: str, known: KnownEnd | None = None) -> PartitionView:
        """Open a partition for reading, without files that cannot be read if the query skips them. Raises LogDirError."""
        while True:
            try:
                # findings about the end of the log: see planning.report_tail
                return PartitionView(self._readable or self.files, directory, lambda _finding: None, known=known)
            except UnreadableFile as error:
                if not (error.path and parent_of(error.path) == directory and self.skip(error.path, error)):
                    raise failed(error) from None
            except KafkalogError as error:
                raise failed(error) from None

    def skip(self, path: str, error: KafkalogError) -> bool:
        """Go on without the file at `path`, and log that. Returns False if the query does not, or there is no such file."""
        if self._readable is None or not self._readable.hide(path):
            return False
        _LOG.warning("%s: left out", error)
        return True

    def skip_in(self, view: PartitionView, error: KafkalogError) -> bool:
        """Do the same for the file of an error, or of a segment whose object the error names."""
        shown = getattr(self.files, "shown", str)  # of WholeLogFiles
        paths = (path for segment in view.segments for path in segment.paths)
        return any(error.path in (path, shown(path)) and self.skip(path, error) for path in paths)

    def listings(self, replicas: Sequence[Replicas]) -> dict[str, Listing]:
        """Return the listings of directories in stores that were read, for `add_listings` in tasks."""
        if not isinstance(self._local, UrlFiles):
            return {}
        return self._local.listings(path for one in replicas for path in one.directories if is_url(path))

    def add_listings(self, listings: Mapping[str, Listing]) -> None:
        """Take over the listings of the driver."""
        if isinstance(self._local, UrlFiles):
            self._local.add_listings(listings)

    # ---- log dirs

    @cached_property
    def _expanded(self) -> list[str]:
        return [one for path in self.options.paths for one in expand(self._local, path)]

    @cached_property
    def _log_dirs(self) -> list[LogDir]:
        for path in filter(is_url, self._expanded):
            assert isinstance(self._local, UrlFiles)  # it reads them
            self._local.list_ahead(path)
        if not self.options.skips_unreadable:
            return find_log_dirs(self._local, self._expanded)
        readable = [one for path in self._expanded for one in self._readable_below(path, _DEPTH)]
        return find_log_dirs(self._local, readable or self._expanded)

    def _readable_below(self, path: str, depth: int) -> list[str]:
        """Return `path`, or if it cannot be searched the paths in it that can. Logs what is skipped."""
        try:
            find_log_dirs(self._local, [path])
        except UsageError as error:  # nothing is there
            if depth == _DEPTH:
                _LOG.warning("%s: left out", error)
            return []
        except KafkalogError as error:
            try:
                names = self._local.list(path) if depth and error.path != path else []
            except UnreadableFile:
                names = []
            below = [f"{path.rstrip('/')}/{name}" for name in names]
            found = [one for each in below if self._is_directory(each) for one in self._readable_below(each, depth - 1)]
            if not found:
                self.skipped.append(path)
                _LOG.warning("%s: left out", error)
            return found
        return [path]

    def _is_directory(self, path: str) -> bool:
        try:
            return self._local.info(path).is_directory
        except UnreadableFile:
            return False

    @cached_property
    def topics(self) -> Topics:
        """The topics of the metadata logs. Raises KafkalogError."""
        return Topics(self._local, survey_all(self._local, self._log_dirs), self._settings)

    def _around(self, own: str) -> tuple[str, ...]:
        """Return `own` and the other log dirs of its cluster (by meta.properties). Raises KafkalogError."""
        others = dict.fromkeys((*(one.path for one in self._log_dirs), *self.options.log_dirs))
        return (own, *in_same_cluster(self._local, own, [path for path in others if path != own]))

    def transaction_states(self, directory: str) -> TransactionStates:
        """Return the states in all log dirs of the cluster of `directory`. Raises KafkalogError."""
        key = tuple(sorted(self._around(parent_of(self._local.absolute(directory)))))
        return self._states.setdefault(key, TransactionStates(self._local, key, report_finding))

    def report_remote(self, view: PartitionView) -> None:
        """Log a warning if remote storage has records before the log start offset. Raises KafkalogError."""
        found = self._remote(view)
        if found is not None:
            report_finding(found)

    def remote_suffix(self, view: PartitionView) -> str:
        """Return the same as an addition to an error message; "" if there are none."""
        found = self._remote(view)
        return "" if found is None else f"; {found.what}"

    def _remote(self, view: PartitionView) -> Finding | None:
        first = view.log_start_offset
        start = remote_log_start(self._local, view.directory, lambda: self.topics) if first else None
        return None if start is None or start >= first else not_read(view.directory, start, first)


def files_for(paths: Iterable[str]) -> ReadOnlyFiles:
    """Return the file system, with object stores if one of the paths is a URL."""
    return UrlFiles() if any(map(is_url, paths)) else ReadOnlyFiles()


def paths_in_task(options: ReadOptions) -> OpenPaths:
    """Return the paths of a query for the tasks of a process: for a minute they share listings of stores and metadata.

    Not longer: a data frame may be used again after a broker has deleted or copied segments.
    """
    since, known = _OPENED.get(options.query, (0.0, None))
    if known is None or time.monotonic() - since > _SHARED:
        _OPENED.clear()
        known = OpenPaths(options)
        _OPENED[options.query] = time.monotonic(), known
    return known


_OPENED: dict[str, tuple[float, OpenPaths]] = {}  # of the last query of this process: when they were opened, in seconds


def forget_paths() -> None:
    """Forget what the last query of this process read about its paths: after an error, the next attempt reads it again."""
    _OPENED.clear()


def _report_half_commit(files: ReadOnlyFiles, log_dir: str) -> None:
    """Log a warning for an incomplete commit. It may still be running, so reading continues."""
    journal = half_commit(files, log_dir)
    if journal is not None:
        _LOG.warning("%s: %s, or is still running: %s", journal, WHAT, undo_advice(log_dir))


def check_utf8(log_dirs: list[LogDir]) -> list[LogDir]:
    """Return the log dirs. Raises LogDirError for a path that is not UTF-8: Spark's strings cannot hold it."""
    for log_dir in log_dirs:
        try:
            log_dir.path.encode()
        except UnicodeEncodeError:
            what = "a path that is not UTF-8: give it a link of another name, and name that"
            raise LogDirError(f"{log_dir.path}: {what}") from None
    return log_dirs


def _has_no_segment(files: ReadOnlyFiles, directory: str) -> bool:
    """Does a directory have no file of a segment yet? False if it cannot be read: reading reports that."""
    try:
        parsed = map(parse_file_name, files.list(directory))
    except UnreadableFile:
        return False
    return all(one is None or one.base_offset is None for one in parsed)


def log_size(files: ReadOnlyFiles, directory: str) -> int:
    """Return the bytes of the logs in `directory`; 0 if it cannot be read, which later work reports."""
    try:
        found = [look(files, f"{directory}/{name}") for name in files.plain(directory) if name.endswith(".log")]
    except UnreadableFile:
        return 0
    return sum(one.size for one in found if one is not None)


def topic_and_partition(partition: PartitionPath) -> tuple[str, int]:
    """Return topic and partition of a directory; bytes that are not UTF-8 are escaped."""
    return escaped(partition.name.topic), partition.name.partition
