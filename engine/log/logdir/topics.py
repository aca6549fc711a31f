"""Settings of the topics of partitions: from the metadata log of their broker, and from the user."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from engine.amounts import offsets_text
from engine.discovery.names import file_name, parent_of, parse_partition_dir
from engine.findings import Finding, Where
from engine.log.tiering import Tiering, TopicPolicy, read_starts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.config.server import Settings
    from engine.config.topic import LogConfig
    from engine.discovery.names import PartitionDir
    from engine.files import ReadOnlyFiles
    from engine.log.logdir.log_manager import LogManager
    from engine.log.logdir.startup import Cluster


class Topics:
    """The topics of the partitions in the log dirs of `clusters`. Nothing is known of other partitions.

    settings  override those of the metadata logs
    May be used by several threads.
    """

    def __init__(self, files: ReadOnlyFiles, clusters: Iterable[Cluster], settings: Settings) -> None:
        self._files, self._settings = files, settings
        self._clusters = {files.resolve(log_dir.path): cluster for cluster in clusters for log_dir in cluster.log_dirs
                          if log_dir.directories}  # one of a configuration may be missing: its disk is not mounted
        self._managers: dict[int, LogManager] = {}  # by the id() of their clusters
        self._lock = Lock()

    def config(self, directory: str) -> LogConfig:
        """The settings of the partition in `directory`. Raises UsageError for settings that exclude each other."""
        manager, name = self._find(directory)
        return self._settings.config if manager is None or name is None else manager.config(name.topic)

    def policy(self, directory: str) -> TopicPolicy:
        """What is known of the retention of its old records."""
        manager, name = self._find(directory)
        return TopicPolicy() if manager is None or name is None else manager.policy(name.topic)

    def tiering(self, directory: str) -> Tiering:
        """Are its older records in remote storage, as far as its settings are known?"""
        return self.policy(directory).tiering

    def _find(self, directory: str) -> tuple[LogManager | None, PartitionDir | None]:
        absolute = self._files.absolute(directory)
        cluster = self._clusters.get(self._files.resolve(parent_of(absolute)))
        return None if cluster is None else self._manager(cluster), parse_partition_dir(file_name(absolute))

    def _manager(self, cluster: Cluster) -> LogManager:
        """Created on first use: nothing is asked about most partitions."""
        from engine.log.logdir.log_manager import LogManager
        from engine.overlay import OverlayFiles

        with self._lock:
            if id(cluster) not in self._managers:
                files = OverlayFiles(self._files, 0)
                self._managers[id(cluster)] = LogManager(lambda _log_dir: files, cluster, self._settings, 0)
            return self._managers[id(cluster)]


def remote_log_start(files: ReadOnlyFiles, directory: str, topics: Callable[[], Topics] | None = None) -> int | None:
    """The log start offset of the tiered partition in `directory`, if its first local segment begins later; else None.

    topics  called only if the files do not decide; None: then the metadata log beside the partition is read.
    Raises UnreadableFile.
    """
    starts = read_starts(files, directory)
    if not starts.differ:
        return None
    tiering = policy_beside(files, directory).tiering if topics is None else topics().tiering(directory)
    return starts.line or 0 if starts.are_of_tiered(tiering) else None


def policy_beside(files: ReadOnlyFiles, directory: str) -> TopicPolicy:
    """What the metadata log beside the partition in `directory` says of its topic. Raises UnreadableFile."""
    from engine.config.server import Settings  # the settings of topics are slow to import, and few readers need them
    from engine.log.logdir.log_dirs import find_log_dirs
    from engine.log.logdir.startup import survey

    if parse_partition_dir(file_name(files.absolute(directory))) is None:
        return TopicPolicy()
    return Topics(files, [survey(files, find_log_dirs(files, [directory]))], Settings()).policy(directory)


def not_read(directory: str, remote: int, first: int) -> Finding:
    """The finding about records before offset `first` that a reader requested."""
    what = f"{offsets_text(remote, first)}: in remote storage, not read"
    return Finding("records-in-remote-storage", Where(directory, None, remote), what)
