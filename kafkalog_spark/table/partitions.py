"""The partitions that paths name: of several replicas of one, the copy that a leader would have."""

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
    """A partition and the directory that it is read from."""

    topic: str
    partition: int
    directory: str


def find_places(paths: Iterable[str]) -> list[PartitionPath]:
    """Every partition directory below `paths`, replicas included, in order. Raises LogDirError.

    One that was not named itself, and that a broker has made but not begun to fill, holds nothing yet: it is left out.
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
            place for log_dir in found for place in log_dir.partitions()
            if not (log_dir.is_whole and _is_about_to_begin(files, place.path))
        ]  # fmt: skip
    except KafkalogError as error:
        raise LogDirError(str(error)) from None


def _report_half_commit(files: ReadOnlyFiles, log_dir: str) -> None:
    """It may be under way, and then is over soon: what is there is read."""
    journal = half_commit(files, log_dir)
    if journal is not None:
        _LOG.warning("%s: %s, or is still running: %s", journal, WHAT, undo_advice(log_dir))


def check_utf8(log_dirs: list[LogDir]) -> list[LogDir]:
    """The same. Raises LogDirError if the path of one of them cannot be passed to Spark and back: its strings are UTF-8."""
    for log_dir in log_dirs:
        try:
            log_dir.path.encode()
        except UnicodeEncodeError:
            what = "a path that is not UTF-8: give it a link of another name, and name that"
            raise LogDirError(f"{log_dir.path}: {what}") from None
    return log_dirs


def _is_about_to_begin(files: ReadOnlyFiles, directory: str) -> bool:
    """Is there no file of a segment yet? Indexes without a log are another matter; reading reports missing permission."""
    try:
        parsed = map(parse_file_name, files.list(directory))
    except UnreadableFile:
        return False
    return all(one is None or one.base_offset is None for one in parsed)


def log_size(files: ReadOnlyFiles, directory: str) -> int:
    """Bytes of the logs in `directory`, as far as they can be looked at and are still there: work on them says why not."""
    try:
        found = [look(files, f"{directory}/{name}") for name in files.plain(directory) if name.endswith(".log")]
    except UnreadableFile:
        return 0
    return sum(one.size for one in found if one is not None)


def topic_and_partition(place: PartitionPath) -> tuple[str, int]:
    """Topic and partition as text for Spark; bytes that are not UTF-8 are escaped."""
    return escaped(place.name.topic), place.name.partition


def find_sources(options: ReadOptions) -> list[Source]:
    """The partitions to read, one directory each. Raises LogDirError."""
    files, replicas = ReadOnlyFiles(), dict[tuple[str, int], list[str]]()
    for place in find_places(options.paths):
        if options.wants(*(key := topic_and_partition(place))):
            replicas.setdefault(key, []).append(place.path)
    return [Source(topic, partition, best_replica(files, paths)) for (topic, partition), paths in sorted(replicas.items())]


def open_view(directory: str, **known: Any) -> PartitionView:
    """The partition for reading. Raises LogDirError."""
    try:
        return PartitionView(ReadOnlyFiles(), directory, _unsaid, **known)
    except KafkalogError as error:
        raise LogDirError(str(error)) from None


def _unsaid(_finding: Finding) -> None:
    """What follows the last batch is reported where the end is read; see planning."""


class Around:
    """The log dirs in and around `paths`, and what they say: read when something is asked.

    settings  of topics, over those of the metadata logs
    """

    def __init__(self, paths: Iterable[str], settings: Settings | None = None) -> None:
        self._paths, self._settings, self._files = tuple(paths), settings or Settings(), ReadOnlyFiles()
        self._states: dict[tuple[str, ...], TransactionStates] = {}

    @cached_property
    def _log_dirs(self) -> list[LogDir]:
        return find_log_dirs(self._files, [one for path in self._paths for one in expand(self._files, path)])

    @cached_property
    def topics(self) -> Topics:
        """What is known of topics. Raises KafkalogError."""
        return Topics(self._files, survey_all(self._files, self._log_dirs), self._settings)

    def transaction_states(self, directory: str) -> TransactionStates:
        """Those in all log dirs of the cluster of the partition in `directory`, see meta.properties. Raises KafkalogError."""
        own = parent_of(self._files.absolute(directory))
        log_dirs = (own, *in_same_cluster(self._files, own, [one.path for one in self._log_dirs if one.path != own]))
        key = tuple(sorted(log_dirs))
        return self._states.setdefault(key, TransactionStates(self._files, key, report_finding))

    def report_remote(self, view: PartitionView) -> None:
        """Log it if older records than the first one here are in remote storage. Raises KafkalogError."""
        found = self._remote(view)
        if found is not None:
            report_finding(found)

    def said_of_remote(self, view: PartitionView) -> str:
        """The same, to be put after a sentence."""
        found = self._remote(view)
        return "" if found is None else f"; {found.what}"

    def _remote(self, view: PartitionView) -> Finding | None:
        first = view.log_start_offset
        start = remote_log_start(self._files, view.directory, lambda: self.topics) if first else None
        return None if start is None or start >= first else not_read(view.directory, start, first)
