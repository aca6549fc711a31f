"""Replicas that the metadata log assigns to a broker, compared with the directories in its log dirs.

After a start, a replica without a directory is created empty, a future replica is promoted, a deleted directory is deleted
after a delay. Mirrors ReplicaManager.applyDelta, LogManager.getOrCreateLog and ReplicaAlterLogDirsThread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.checkpoint.checkpoints import known_offsets
from engine.discovery.names import FileKind, PartitionKind, file_name
from engine.errors import argument
from engine.findings import Finding, Severity, Where
from engine.log.starting.outcome import StartAction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.files import ReadOnlyFiles
    from engine.log.logdir.log_dirs import LogDir, PartitionPath
    from engine.log.logdir.startup import Cluster

_LINES = (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT)  # every log has a line after some time


class _Missing(NamedTuple):
    """A replica that is assigned here and has no directory.

    directory_id  of the log dir that it is assigned to; None: none
    log_dir       that log dir; None: it is not one of the broker's
    is_only       the partition has no other replica
    is_new        nothing shows that it ever had a directory
    """

    topic: str
    partition: int
    directory_id: str | None
    log_dir: LogDir | None
    is_only: bool
    is_new: bool

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


class Assignments:
    """The replicas of one broker after its start.

    online    log dirs that it serves          strays  paths of directories that it renames to -stray
    has_all   the log dirs are all that it has          is_running   a broker holds their locks
    """

    def __init__(
        self, files: ReadOnlyFiles, cluster: Cluster, online: list[LogDir], strays: set[str], *, has_all: bool,
        is_running: bool = False,
    ) -> None:  # fmt: skip
        self._files, self._cluster, self._online, self._has_all = files, cluster, online, has_all
        self._is_running = is_running
        self._is_degraded = len(online) < len(cluster.log_dirs)
        self._by_id = {identity.directory_id: log_dir for log_dir in cluster.log_dirs
                       if (identity := cluster.identities.get(log_dir.path)) is not None and identity.directory_id is not None}
        partitions = [partition for log_dir in online for partition in log_dir.directories if partition.path not in strays]
        self._plain = {partition.key: partition for partition in partitions if partition.name.kind is PartitionKind.PLAIN}
        self._future = {partition.key: partition for partition in partitions if partition.name.kind is PartitionKind.FUTURE}
        self._left = [partition for partition in partitions if partition.name.kind is PartitionKind.STRAY]
        self._deleted = [partition for partition in partitions if partition.name.kind is PartitionKind.DELETE]
        self._strays = set(map(file_name, strays))
        self.unnamed = 0  # replicas in log dirs of the broker that were not named
        self.actions: list[StartAction] = []
        self.findings: list[Finding] = []

    def compare(self) -> None:
        """Fill `actions` and `findings`. Raises UnreadableFile."""
        missing = list(self._missing())
        for one in missing:
            self._create(one)
        self._report_missing([one for one in missing if one.name not in self._strays and one.key not in self._future])
        for key, future in self._future.items():
            self._promote(future, self._plain.get(key))
        for partition in self._deleted:
            self._delete(partition)
        self._report_elr()
        for partition in self._left:
            what = f"no broker deletes it; at its start it says: Loaded stray log: {self._files.absolute(partition.path)}"
            self.findings.append(Finding("stray-kept", Where(partition.path), what))

    def _missing(self) -> Iterator[_Missing]:
        metadata, node_id = self._cluster.metadata, self._cluster.node_id
        if metadata is None or metadata.findings or node_id is None:
            return
        for topic in metadata.topics.values():
            for partition, replicas in sorted(topic.replicas.items()):
                if node_id not in replicas or (topic.name, partition) in self._plain:
                    continue
                directory_id = metadata.directory_of(topic.name, partition, node_id)
                log_dir = self._by_id.get(directory_id) if directory_id is not None else None
                if log_dir is None and (self._is_degraded or not self._has_all):
                    self.unnamed += 1  # an offline log dir may hold it: a broker does not create it then
                elif log_dir is None or log_dir in self._online:
                    is_new = log_dir is not None and self._is_new(log_dir, (topic.name, partition))
                    yield _Missing(topic.name, partition, directory_id, log_dir, len(replicas) == 1, is_new)

    def _is_new(self, log_dir: LogDir, key: tuple[str, int]) -> bool:
        """Do the checkpoints of its log dir have lines, but none for this partition?"""
        paths = [f"{log_dir.path}/{kind.value}" for kind in _LINES if kind.value in log_dir.files]
        lines = [known_offsets(self._files, path)[0] for path in paths]
        return any(lines) and not any(key in known for known in lines)

    def _create(self, one: _Missing) -> None:
        log_dir = one.log_dir or min(self._online, key=lambda each: len(each.directories), default=None)
        if log_dir is not None:
            path = f"{log_dir.path}/{one.name}"
            says = f"Created log for partition {one.name} in {self._files.absolute(log_dir.path)}/{one.name}"
            self.actions.append(StartAction("create-empty", path, None, 0, 0, 0, says))

    def _report_missing(self, missing: list[_Missing]) -> None:
        """One finding for each replica, or for a log dir that has lost several."""
        by_dir: dict[str | None, list[_Missing]] = {}
        for one in missing:
            by_dir.setdefault(one.directory_id, []).append(one)
        for directory_id, lost in by_dir.items():
            log_dir = lost[0].log_dir
            if log_dir is None or not log_dir.directories:
                self._report_lost_dir(directory_id, lost)
                continue
            for one in lost:
                fate = "it is the only replica: its records are lost" if one.is_only else "the other replicas have its records"
                what = ("the metadata log assigns this replica to the log dir, and it has no directory: a broker creates it "
                        f"empty; {fate}")
                milder = Severity.INFO if one.is_new else None if one.is_only else Severity.WARNING
                self.findings.append(Finding("replica-missing", Where(f"{log_dir.path}/{one.name}"), what, milder=milder))

    def _report_lost_dir(self, directory_id: str | None, lost: list[_Missing]) -> None:
        only = [one.name for one in lost if one.is_only]
        names = _some([one.name for one in lost])
        fate = f"; {len(only)} of them are the only replica of their partition: their records are lost" if only else ""
        log_dir = lost[0].log_dir
        if log_dir is None:
            where = self._cluster.log_dirs[0].path
            which = f"a log dir (directory.id {directory_id}) that log.dirs does not name"
        else:
            where, which = log_dir.path, "this log dir, which has none of them"
        what = (f"the metadata log assigns {count_of(len(lost), 'replica')} to {which}: a broker creates them empty "
                f"({names}){fate}")
        self.findings.append(Finding("dir-lost-its-logs", Where(where), what, milder=None if only else Severity.WARNING))

    def _report_elr(self) -> None:
        """Report partitions without a replica that certainly has every acknowledged record, before or after this start.

        The controller takes a broker that was not stopped cleanly out of ISR and ELR when it registers. Mirrors
        ReplicationControlManager.handleUncleanBrokerShutdown (KIP-966).
        """
        metadata, node_id, directory = self._cluster.metadata, self._cluster.node_id, self._cluster.metadata_dir
        if metadata is None or metadata.findings or not metadata.has_elr or node_id is None or directory is None:
            return
        is_unclean = not self._is_running and any(
            one.is_whole and FileKind.CLEAN_SHUTDOWN.value not in one.files for one in self._cluster.log_dirs
        )
        none, alone = list[str](), list[str]()
        for topic in metadata.topics.values():
            for partition, eligible in sorted(topic.eligible.items()):
                if node_id in topic.replicas.get(partition, ()) and set(eligible) <= {node_id}:
                    (alone if eligible else none).append(f"{topic.name}-{partition}")
        fate = "the controller elects the last known leader, which may lack acknowledged records"
        if none:
            what = f"no replica is in ISR or ELR: {fate}: {_some(none)}"
            self.findings.append(Finding("elr-lost", Where(directory), what))
        if alone and is_unclean:
            what = ("this broker is the only replica in ISR and ELR, and it was not stopped cleanly: at its start the "
                    f"controller removes it from both, and elects the last known leader: {_some(alone)}")
            self.findings.append(Finding("elr-lost", Where(directory), what, milder=Severity.INFO))

    def _promote(self, future: PartitionPath, current: PartitionPath | None) -> None:
        name = f"{future.key[0]}-{future.key[1]}"
        to = f"{future.log_dir}/{name}"
        says = f"The current replica is successfully replaced with the future replica for {name}"
        if current is None:
            says = f"Truncating future {name} to offset 0 below high watermark"
        self.actions.append(StartAction("promote-future", future.path, to, broker_says=says))
        if current is not None:
            what = f"the copy of {current.path} continues: a broker replaces that directory with this one when it is complete"
            self.findings.append(Finding("future-abandoned", Where(future.path), what, milder=Severity.INFO))
        elif self._has_all and not self._is_degraded:
            what = (f"only this future replica is left of the partition: a broker creates an empty log, truncates this one to "
                    f"offset 0 and keeps it; before a start: mv {argument(future.path)} {argument(to)}")
            self.findings.append(Finding("future-abandoned", Where(future.path), what))

    def _delete(self, partition: PartitionPath) -> None:
        size = sum(self._files.info(f"{partition.path}/{name}").size for name in self._files.plain(partition.path))
        self.actions.append(StartAction("delete", partition.path, size=size))
        what = (f"a deleted partition, {count_of(size, 'byte')}: a broker deletes it log.segment.delete.delay.ms after its "
                "start (60 s)")
        self.findings.append(Finding("delete-due", Where(partition.path), what))


def _some(names: list[str]) -> str:
    return ", ".join(sorted(names)[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


_SHOWN = 5  # names of partitions in a finding
