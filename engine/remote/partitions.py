"""The partitions of log dirs with the metadata of their remote segments, for commands that process all partitions."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.discovery.choice import is_chosen_topic
from engine.log.fetch.replicas import best_replica
from engine.log.fetch.view import PartitionView
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.startup import survey_all
from engine.log.logdir.topics import Topics
from engine.log.tiering import is_never_tiered
from engine.remote.metadata_log import MetadataLogs
from engine.remote.tiered_log import TieredLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from engine.config.server import Settings
    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.remote.metadata import RemoteLogMetadata

    Report = Callable[[Finding], None]


class TieredPartitions:
    """The partitions in the log dirs that `paths` name, except those of internal topics.

    topics       names or patterns; empty: all
    metadata     of all remote segments; None: it is read from the log dirs
    directories  by (topic, partition), sorted: the directory of the copy that a leader would have
    Raises UnreadableFile, UsageError as `MetadataLogs` does.
    """

    def __init__(
        self, files: ReadOnlyFiles, paths: Iterable[str], settings: Settings, topics: Sequence[str], report: Report,
        metadata: RemoteLogMetadata | None = None,
    ) -> None:  # fmt: skip
        self._files, self._report = files, report
        named = list(paths)
        log_dirs = find_log_dirs(files, named)
        self.metadata = MetadataLogs(files, named, report).read() if metadata is None else metadata
        copies: dict[tuple[str, int], list[str]] = {}
        for log_dir in log_dirs:
            for replica in log_dir.partitions():
                if is_chosen_topic(replica.name.topic, topics) and not is_never_tiered(replica.name.topic):
                    copies.setdefault(replica.key, []).append(replica.path)
        self.directories = {key: best_replica(files, copies[key]) for key in sorted(copies)}
        self._topics = Topics(files, survey_all(files, log_dirs), settings)

    @contextmanager
    def open(self, directory: str) -> Iterator[TieredLog]:
        """Open the log in one of the directories. Raises UnreadableFile, CorruptRecord."""
        config, tiering = self._topics.config(directory), self._topics.tiering(directory)
        view = PartitionView(self._files, directory, self._report, config=config)
        try:
            yield TieredLog(self._files, view, config, tiering, self.metadata)
        finally:
            view.close()
