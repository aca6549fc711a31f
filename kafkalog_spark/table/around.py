"""What lies around the partitions of a query: log dirs, of which one may say something of logs in another."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from engine.config.server import Settings
from engine.discovery.names import parent_of
from engine.discovery.patterns import expand
from engine.files import ReadOnlyFiles
from engine.log.fetch.open_transactions import TransactionStates
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.startup import in_same_cluster, survey_all
from engine.log.logdir.topics import Topics, not_read, remote_log_start
from kafkalog_spark.errors import report_finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.findings import Finding
    from engine.log.fetch.view import PartitionView
    from engine.log.logdir.log_dirs import LogDir


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
