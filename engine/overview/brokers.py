"""The brokers of log dirs: which dirs belong together, how each was stopped, and the states of their partitions."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.checkpoints import known_offsets
from engine.checkpoint.identity import decode_meta_properties, read_identity
from engine.config.server import Settings
from engine.discovery.choice import EVERY_PARTITION, PartitionChoice
from engine.discovery.names import METADATA_TOPIC, FileKind, PartitionKind
from engine.discovery.paths import is_brokers_log_dir
from engine.errors import UsageError
from engine.files import lock_holder
from engine.log.fetch.view import BEING_WRITTEN
from engine.log.logdir.log_dirs import LIVE, choose_partitions
from engine.log.logdir.log_manager import LogManager
from engine.log.logdir.startup import survey, with_metadata_dir
from engine.overlay import OverlayFiles
from engine.overview.partition_state import Flag, Known, StateReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.checkpoint.identity import MetaProperties
    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.logdir.log_dirs import LogDir, PartitionPath
    from engine.log.logdir.startup import Cluster
    from engine.overview.partition_state import PartitionState


class Shutdown(Enum):
    """How the broker of a log dir was stopped."""

    RUNNING = "running"  # it holds the lock
    CLEAN = "clean"  # the marker of a clean shutdown is there
    UNCLEAN = "unclean"  # neither: the next start recovers its logs
    UNKNOWN = "unknown"  # a copy of partitions, without the files of a broker


class LogDirState(NamedTuple):
    """A log dir, its meta.properties if it can be read, and the process that holds its lock."""

    log_dir: LogDir
    identity: MetaProperties | None
    shutdown: Shutdown
    lock_holder: int | None


class Broker:
    """The log dirs of one broker, or one log dir that does not name its broker.

    log_dirs  each with the chosen partitions
    cluster   its survey; the metadata log may be in another log dir that server.properties names
    """

    def __init__(
        self, files: ReadOnlyFiles, log_dirs: list[LogDir], chosen: list[LogDir], settings: Settings, now: int
    ) -> None:
        self._files, overlay = files, OverlayFiles(files, now)
        self.cluster: Cluster = survey(files, with_metadata_dir(files, log_dirs, settings.server))
        self._manager = LogManager(lambda _log_dir: overlay, self.cluster, settings, now)
        self.log_dirs = [self._state(one) for one in chosen]

    @property
    def node_id(self) -> int | None:
        """node.id in meta.properties."""
        return self.cluster.node_id

    @property
    def cluster_id(self) -> str | None:
        """cluster.id in meta.properties."""
        return self.cluster.cluster_id

    def _state(self, log_dir: LogDir) -> LogDirState:
        path = log_dir.path
        holder, shutdown = lock_holder(f"{path}/{FileKind.LOCK.value}"), Shutdown.UNCLEAN
        if holder is not None:
            shutdown = Shutdown.RUNNING
        elif self._files.exists(f"{path}/{FileKind.CLEAN_SHUTDOWN.value}"):
            shutdown = Shutdown.CLEAN
        elif not is_brokers_log_dir(self._files, path):
            shutdown = Shutdown.UNKNOWN
        return LogDirState(log_dir, self.cluster.identities.get(path), shutdown, holder)

    def cleanup_policy(self, topic: str) -> str | None:
        """cleanup.policy of the topic; None: its settings are not on the disk."""
        is_known = topic == METADATA_TOPIC or self._manager.policy(topic).compacted is not None
        return self._manager.config(topic).cleanup_policy if is_known else None

    @property
    def metadata_damage(self) -> list[Finding]:
        """Damage in the metadata log: settings and assignments after it are not known. Without an unfinished end."""
        findings = () if self.cluster.metadata is None else self.cluster.metadata.findings
        return [finding for finding in findings if finding.code not in BEING_WRITTEN]

    def knows_retention(self, topic: str) -> bool:
        """Do the user, server.properties or the metadata log determine the topic's retention?"""
        return self._manager.knows_retention(topic)

    def retention_ms(self, topic: str) -> int | None:
        """retention.ms of the topic; None: not known, without limit, or its records are not deleted by their age."""
        if topic == METADATA_TOPIC or not self.knows_retention(topic):
            return None
        config = self._manager.config(topic)
        return config.retention_ms if config.delete and config.retention_ms >= 0 else None

    def partitions(self, log_dir: LogDir, reader: StateReader) -> Iterator[PartitionState]:
        """Read the states of the chosen partitions of a log dir."""
        path = f"{log_dir.path}/{FileKind.LOG_START_CHECKPOINT.value}"
        starts = known_offsets(self._files, path)[0] if self._files.exists(path) else {}
        for partition in log_dir.directories:
            is_live = partition.name.kind is PartitionKind.PLAIN
            known = Known(starts.get(partition.key) if is_live else None, self._manager.tiering(partition.name.topic))
            state = reader.read(partition, known)
            if state is not None:
                is_known = state.error is None or state.topic_id is not None
                if partition.name.kind in LIVE and is_known and self._is_unassigned(partition, state.topic_id):
                    state.flags.add(Flag.UNASSIGNED)
                yield state

    def _is_unassigned(self, partition: PartitionPath, topic_id: str | None) -> bool:
        """Does valid metadata not assign the partition to this broker? Mirrors LogManager.isStrayReplica."""
        metadata, node_id = self.cluster.metadata, self.node_id
        if metadata is None or metadata.findings or node_id is None or partition.name.topic == METADATA_TOPIC:
            return False
        topic = None if topic_id is None else metadata.topics.get(topic_id)
        return topic is None or node_id not in topic.replicas.get(partition.name.partition, ())


def brokers_of(
    files: ReadOnlyFiles, log_dirs: Iterable[LogDir], settings: Settings, now: int, choice: PartitionChoice = EVERY_PARTITION
) -> list[Broker]:
    """Group log dirs by cluster.id and node.id of their meta.properties, by node; a dir without these is one of its own.

    choice  only these partitions, of every kind of directory. Raises UsageError if there is none, UnreadableFile.
    """
    found: dict[tuple[str, int, str], list[LogDir]] = {}
    for log_dir in log_dirs:
        path = f"{log_dir.path}/{FileKind.META_PROPERTIES.value}"
        identity = read_identity(files, path, decode_meta_properties).value if files.exists(path) else None
        if identity is None or identity.node_id is None:
            found["", -1, log_dir.path] = [log_dir]
        else:
            found.setdefault((identity.cluster_id or "", identity.node_id, ""), []).append(log_dir)
    every = [one for group in found.values() for one in group]
    chosen = {one.path: one for one in choose_partitions(every, choice, tuple(PartitionKind))}
    return [
        Broker(files, group, [chosen[one.path] for one in group if one.path in chosen], settings, now)
        for _, group in sorted(found.items()) if any(one.path in chosen for one in group)
    ]


def with_metadata(files: ReadOnlyFiles, log_dirs: Iterable[LogDir], now: int) -> Broker | None:
    """Return the first broker among `log_dirs` with a metadata log; None: there is none.

    Raises UsageError for log dirs of several clusters, UnreadableFile.
    """
    brokers = brokers_of(files, log_dirs, Settings(), now)
    clusters = {one.cluster_id: one.log_dirs[0].log_dir.path for one in brokers if one.cluster_id is not None}
    if len(clusters) > 1:
        one, other = list(clusters.items())[:2]
        what = f"log dirs of several clusters: {one[1]} belongs to {one[0]}, {other[1]} to {other[0]}"
        raise UsageError(what, "name the log dirs of one cluster")
    return next((one for one in brokers if one.cluster.metadata is not None), None)
