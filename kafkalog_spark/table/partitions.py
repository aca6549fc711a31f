"""Find the partitions below paths, and the best of several replicas."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from engine.config.server import Settings
from engine.discovery.names import parent_of, parse_file_name
from engine.discovery.paths import WHAT, half_commit, undo_advice
from engine.discovery.patterns import expand
from engine.errors import KafkalogError, UnreadableFile
from engine.files import ReadOnlyFiles, look
from engine.log.fetch.open_transactions import TransactionStates
from engine.log.fetch.replicas import best_replica
from engine.log.fetch.view import PartitionView
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.startup import in_same_cluster, survey_all
from engine.log.logdir.topics import Topics, not_read, remote_log_start
from kafkalog_spark.errors import LogDirError, escaped, report_finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.findings import Finding
    from engine.log.logdir.log_dirs import LogDir, PartitionPath
    from kafkalog_spark.table.options import ReadOptions

_LOG = logging.getLogger("kafkalog")


@dataclass(frozen=True, slots=True)
class Source:
    """A partition and the directory from which it is read."""

    topic: str
    partition: int
    directory: str


def find_partition_dirs(paths: Iterable[str]) -> list[PartitionPath]:
    """Return every partition directory below `paths`, including replicas, in order. Raises LogDirError.

    A directory without segments in a log dir is skipped: a broker has just made it.
    """
    files = ReadOnlyFiles()
    try:
        named = [path for pattern in paths for path in expand(files, pattern)]
        for path in named:
            if files.exists(path) and not files.info(path).is_directory:
                raise LogDirError(f"{path}: a file; name the partition directory around it, or a log dir")
        found = check_utf8(find_log_dirs(files, named))
        for log_dir in found:
            _report_half_commit(files, log_dir.path)
        return [
            partition for log_dir in found for partition in log_dir.partitions()
            if not (log_dir.is_whole and _has_no_segment(files, partition.path))
        ]  # fmt: skip
    except KafkalogError as error:
        raise LogDirError(str(error)) from None


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


def find_sources(options: ReadOptions) -> list[Source]:
    """Return the partitions to read, with one directory each. Raises LogDirError."""
    files, replicas = ReadOnlyFiles(), dict[tuple[str, int], list[str]]()
    for partition in find_partition_dirs(options.paths):
        if options.wants(*(key := topic_and_partition(partition))):
            replicas.setdefault(key, []).append(partition.path)
    return [Source(topic, partition, best_replica(files, paths)) for (topic, partition), paths in sorted(replicas.items())]


def open_view(directory: str, **known: Any) -> PartitionView:
    """Open a partition for reading. Raises LogDirError."""
    try:
        return PartitionView(ReadOnlyFiles(), directory, _ignore, **known)
    except KafkalogError as error:
        raise LogDirError(str(error)) from None


def _ignore(_finding: Finding) -> None:
    """Ignore a finding about the end of a log: see planning.report_tail."""


class LogDirContext:
    """Topic settings, transaction states and remote log starts from the log dirs of `paths`, read on demand.

    settings  topic settings that override those of the metadata logs
    """

    def __init__(self, paths: Iterable[str], settings: Settings | None = None) -> None:
        self._paths, self._settings, self._files = tuple(paths), settings or Settings(), ReadOnlyFiles()
        self._states: dict[tuple[str, ...], TransactionStates] = {}

    @cached_property
    def _log_dirs(self) -> list[LogDir]:
        return find_log_dirs(self._files, [one for path in self._paths for one in expand(self._files, path)])

    @cached_property
    def topics(self) -> Topics:
        """The topics of the metadata logs. Raises KafkalogError."""
        return Topics(self._files, survey_all(self._files, self._log_dirs), self._settings)

    def transaction_states(self, directory: str) -> TransactionStates:
        """Return the states in all log dirs of the cluster of `directory` (by meta.properties). Raises KafkalogError."""
        own = parent_of(self._files.absolute(directory))
        log_dirs = (own, *in_same_cluster(self._files, own, [one.path for one in self._log_dirs if one.path != own]))
        key = tuple(sorted(log_dirs))
        return self._states.setdefault(key, TransactionStates(self._files, key, report_finding))

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
        start = remote_log_start(self._files, view.directory, lambda: self.topics) if first else None
        return None if start is None or start >= first else not_read(view.directory, start, first)
