"""The log dirs of each broker, and what they contain together. See `start_problems` for what a start does with them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.identity import MetaProperties, decode_meta_properties, read_identity
from engine.discovery.names import FileKind
from engine.discovery.paths import is_brokers_log_dir
from engine.errors import UnreadableFile, UsageError
from engine.log.logdir.cluster_metadata import METADATA_DIR, ClusterMetadata, prove_metadata_log, read_cluster_metadata
from engine.log.logdir.log_dirs import LogDir

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.config.server import ServerConfig
    from engine.files import ReadOnlyFiles
    from engine.log.logdir.cluster_metadata import MetadataProof
    from engine.log.logdir.log_dirs import PartitionPath

_KRAFT = 1  # version of meta.properties; brokers with ZooKeeper write 0


@dataclass(frozen=True, slots=True)
class Cluster:
    """What several log dirs contain together.

    identities  by log dir: valid meta.properties
    metadata    None if no log dir contains the metadata log, whose directory is `metadata_dir`
    metadata_partition, proof   None if the metadata log was not named, alone or with its log dir
    is_kraft    False: all was written by a broker with ZooKeeper
    """

    log_dirs: tuple[LogDir, ...]
    identities: dict[str, MetaProperties]
    metadata: ClusterMetadata | None
    metadata_dir: str | None
    metadata_partition: PartitionPath | None
    proof: MetadataProof | None
    is_kraft: bool

    @property
    def node_id(self) -> int | None:
        """The id of the broker of these log dirs."""
        return next((one.node_id for one in self.identities.values() if one.node_id is not None), None)

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id: from the log dir with the metadata log, else from the first one that names a cluster."""
        first = None if self.metadata_partition is None else self.identities.get(self.metadata_partition.log_dir)
        named = (one.cluster_id for one in (first, *self.identities.values()) if one is not None)
        return next((one for one in named if one is not None), None)


def survey(files: ReadOnlyFiles, log_dirs: list[LogDir], metadata_log_dir: str | None = None) -> Cluster:
    """Read the identities and the metadata log of `log_dirs`. Raises UnreadableFile.

    metadata_log_dir  the log dir with the metadata log; None: the first that has one
    """
    identities: dict[str, MetaProperties] = {}
    for log_dir in log_dirs:
        path = f"{log_dir.path}/{FileKind.META_PROPERTIES.value}"
        if files.exists(path):
            decoded = read_identity(files, path, decode_meta_properties)
            if decoded.value is not None and not decoded.findings:
                identities[log_dir.path] = decoded.value
    metadata, directory, partition, proof = None, None, None, None
    for log_dir in log_dirs:
        path = f"{log_dir.path}/{METADATA_DIR}"
        if directory is None and metadata_log_dir in (None, log_dir.path) and files.exists(path):
            directory = path
            partition = next((one for one in log_dir.partitions() if one.path == path), None)
            metadata = read_cluster_metadata(files, path)
            proof = None if partition is None else prove_metadata_log(files, path)
    is_kraft = directory is not None or not _are_of_zookeeper(files, log_dirs, identities)
    return Cluster(tuple(log_dirs), identities, metadata, directory, partition, proof, is_kraft)


def newest_metadata(files: ReadOnlyFiles, log_dirs: Iterable[LogDir]) -> ClusterMetadata | None:
    """The state of the cluster from that metadata log of several brokers which has the most records; None: there is none.

    A broker that was stopped long ago does not know newer topics. Raises UnreadableFile.
    """
    paths = [f"{log_dir.path}/{METADATA_DIR}" for log_dir in log_dirs]
    found = [read_cluster_metadata(files, path) for path in paths if files.exists(path)]
    return max(found, key=lambda one: one.end_offset, default=None)


def _are_of_zookeeper(files: ReadOnlyFiles, log_dirs: list[LogDir], identities: dict[str, MetaProperties]) -> bool:
    """Were log dirs without a metadata log written by a broker with ZooKeeper? It needs no meta.properties or topic ids."""
    if identities:
        return all(identity.version != _KRAFT for identity in identities.values())
    partitions = [partition for log_dir in log_dirs for partition in log_dir.directories]
    of_others = [f"{log_dir.path}/{FileKind.META_PROPERTIES.value}" for log_dir in log_dirs]  # unreadable
    of_others += [f"{partition.path}/{FileKind.PARTITION_METADATA.value}" for partition in partitions]
    try:
        return bool(partitions) and not any(map(files.exists, of_others))
    except UnreadableFile:  # it is reported with its partition
        return False


def by_broker(files: ReadOnlyFiles, log_dirs: list[LogDir]) -> list[list[LogDir]]:
    """The log dirs of each broker. A broker has one metadata log; a dir without one belongs to the broker that it names.

    Two metadata logs of one broker in log dirs with the same directory.id are copies: each is a broker of its own, with the
    log dirs that are nearest to it. A dir that names another broker, or none, belongs to the nearest one: a start with it
    there would show the error. Without any metadata log, all dirs that name one broker belong together.
    """
    anchors = [log_dir for log_dir in log_dirs if files.exists(f"{log_dir.path}/{METADATA_DIR}")]
    if len(anchors) == 1:
        return [log_dirs]
    owners = {log_dir.path: _owner(files, log_dir.path) for log_dir in log_dirs}
    groups: list[list[LogDir]] = []
    for log_dir in sorted(log_dirs, key=lambda one: (one not in anchors, owners[one.path] is None)):
        owner = owners[log_dir.path]
        own = [one for one in groups if owner is not None and owner.is_same_broker(owners[one[0].path])]
        if log_dir in anchors:
            nearest = own if own and owner not in [owners[one.path] for one in own[0]] else []
        elif anchors:
            nearest = own or groups
        else:
            nearest = [one for one in (groups if owner is None else own) if not _are_copies(log_dir, one)]
        if nearest:
            max(nearest, key=partial(_in_common, log_dir.path)).append(log_dir)
        else:
            groups.append([log_dir])
    return groups


def _are_copies(log_dir: LogDir, others: list[LogDir]) -> bool:
    """Do they hold the same partitions? Brokers with ZooKeeper gave log dirs no id by which copies can be recognised."""
    held = {partition.key for other in others for partition in other.partitions()}
    return any(partition.key in held for partition in log_dir.partitions())


def _in_common(path: str, group: list[LogDir]) -> int:
    """Number of directories with which `path` and that of the first of `group` begin."""
    pairs = zip(path.split("/"), group[0].path.split("/"), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class _Owner(NamedTuple):
    """What meta.properties of a log dir says of its broker, and of the log dir itself."""

    cluster_id: str | None
    node_id: int | None
    directory_id: str | None

    def is_same_broker(self, other: _Owner | None) -> bool:
        return other is not None and self[:2] == other[:2]


def survey_all(files: ReadOnlyFiles, log_dirs: list[LogDir]) -> list[Cluster]:
    """Survey the log dirs of each broker; log dirs of which only partitions were named are separate. Raises UnreadableFile."""
    groups = by_broker(files, [one for one in log_dirs if one.is_whole])
    return [survey(files, group) for group in groups + [[one] for one in log_dirs if not one.is_whole]]


def in_same_cluster(files: ReadOnlyFiles, log_dir: str, others: Iterable[str]) -> list[str]:
    """Those of `others` whose meta.properties have the same cluster.id as that of `log_dir`. Raises UnreadableFile."""
    cluster = cluster_id(files, log_dir)
    return [one for one in others if cluster is not None and cluster_id(files, one) == cluster]


def cluster_id(files: ReadOnlyFiles, log_dir: str) -> str | None:
    """cluster.id in meta.properties; None: it has none. Raises UnreadableFile."""
    path = f"{log_dir}/{FileKind.META_PROPERTIES.value}"
    identity = read_identity(files, path, decode_meta_properties).value if files.exists(path) else None
    return None if identity is None else identity.cluster_id


def of_one_cluster(files: ReadOnlyFiles, own: str, log_dirs: Iterable[str]) -> list[str]:
    """`own` and `log_dirs`, each once. Raises UsageError for a log dir of another cluster, UnreadableFile."""
    cluster, found = cluster_id(files, own), list(dict.fromkeys((own, *log_dirs)))
    for log_dir in found:
        other = cluster_id(files, log_dir)
        if None not in (cluster, other) and other != cluster:
            what = f"{log_dir} belongs to cluster {other}, {own} to cluster {cluster}"
            raise UsageError(what, "name log dirs of one cluster")
    return found


def _owner(files: ReadOnlyFiles, log_dir: str) -> _Owner | None:
    """The owner according to meta.properties of `log_dir`; None: it has none."""
    path = f"{log_dir}/{FileKind.META_PROPERTIES.value}"
    identity = read_identity(files, path, decode_meta_properties).value if files.exists(path) else None
    return None if identity is None else _Owner(identity.cluster_id, identity.node_id, identity.directory_id)


def with_metadata_dir(files: ReadOnlyFiles, log_dirs: list[LogDir], server: ServerConfig) -> list[LogDir]:
    """`log_dirs`, to survey. If none has the metadata log: also the log dir of server.properties that has it.

    That one is returned without partitions. `log_dirs` may be a copy from another broker: only a log dir counts whose
    meta.properties names the same cluster and node.
    """
    if any(files.exists(f"{log_dir.path}/{METADATA_DIR}") for log_dir in log_dirs):
        return log_dirs
    for path in server.log_dirs if server.metadata_log_dir is None else (server.metadata_log_dir,):
        with suppress(UnreadableFile):  # those who may not read it work without the settings in it
            owner = _owner(files, path) if files.exists(f"{path}/{METADATA_DIR}") else None
            if owner is not None and any(owner.is_same_broker(_owner(files, log_dir.path)) for log_dir in log_dirs):
                return [*log_dirs, LogDir(path, is_whole=False, directories=(), foreign=(), files=())]
    return log_dirs


def is_a_brokers(files: ReadOnlyFiles, cluster: Cluster) -> bool:
    """Are they log dirs of a broker, not directories to which partitions were copied?"""
    return cluster.metadata_dir is not None or any(is_brokers_log_dir(files, one.path) for one in cluster.log_dirs)
