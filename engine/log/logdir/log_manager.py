"""The logs of one broker in their log dirs: settings, checkpoints and loading. For locks see `log_dirs.locked`.

Mirrors LogManager. The tasks of a broker's background threads (flush, checkpoint, retention, deletion) are functions here.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from dataclasses import replace as replace_in
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, Self

from engine.checkpoint.checkpoints import PartitionOffset, encode_offset_checkpoint, known_offsets
from engine.config.server import SYNONYMS
from engine.config.topic import is_known
from engine.discovery.names import (
    INTERNAL_TOPICS,
    METADATA_TOPIC,
    FileKind,
    PartitionKind,
    file_name,
    is_topic_name,
    log_file_name,
    offset_of,
    parse_file_name,
)
from engine.discovery.paths import are_of_07, is_log_07, names_07
from engine.errors import KafkalogError, OversizedFile, argument
from engine.files import remove_tree, replace
from engine.log.errors import LogDamaged
from engine.log.loading.loader import open_log
from engine.log.report import Action
from engine.log.tiering import Tiering, TopicPolicy, read_starts, tiering_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping

    from engine.config.server import Settings
    from engine.config.topic import LogConfig
    from engine.files import Files, ReadOnlyFiles
    from engine.log.loading.shared import LoadOptions
    from engine.log.logdir.cluster_metadata import ClusterMetadata
    from engine.log.logdir.log_dirs import LogDir, PartitionPath
    from engine.log.logdir.logs_07 import ReportedLog07
    from engine.log.logdir.startup import Cluster
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.report import Report

    Offsets = Mapping[tuple[str, int], int]

CHECKPOINTS = (
    FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.LOG_START_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT,
    FileKind.CLEANER_CHECKPOINT,
)  # fmt: skip

_OF_LOGS = (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.LOG_START_CHECKPOINT)  # written after each change of a log
_LOG, _INDEX = FileKind.LOG.value, FileKind.OFFSET_INDEX.value
_MARKER_SIZE = 1 << 16  # bytes
_REMOTE_STORAGE, _CLEANUP_POLICY, _RETENTION = "remote.storage.enable", "cleanup.policy", "retention.ms"


class NoLogOfBrokers(KafkalogError):
    """A directory that looks like a partition, but that no current broker opens. Nothing was changed in it."""

    code = "no-log-of-brokers"


class MetadataLogRefused(KafkalogError):
    """A change of the cluster's metadata log that only controllers may make. The log was left unchanged."""

    code = "metadata-log-refused"
    exit_status = 4


def refuse_metadata_log(path: str, topic: str) -> None:
    """Raise MetadataLogRefused if the partition directory at `path` is the cluster's metadata log."""
    if topic == METADATA_TOPIC:
        what = f"{path}: the cluster's metadata log: after a change a broker may fail to start, or forget partitions"
        raise MetadataLogRefused(what, do="only controllers change it; `kafkalog recover` repairs it", path=path)


def refuse_topic_name(path: str, topic: str) -> None:
    """Raise NoLogOfBrokers if the name of the partition directory at `path` contains no valid topic name."""
    if not is_topic_name(topic):
        what = f"{path}: not a valid topic name: Kafka allows letters, digits, '.', '_' and '-'"
        raise NoLogOfBrokers(what, do="rename the directory, or move it out of the log dir", path=path)


class Listing(NamedTuple):
    """The content of a log's directory.

    plain    names of the plain files, sorted
    special  names of what is neither a file nor a directory, and of directories with the name of a log's file; with the kind
             in words
    """

    plain: list[str]
    special: dict[str, str]

    @classmethod
    def read(cls, files: ReadOnlyFiles, partition: PartitionPath) -> Self:
        """List the directory of the log at `partition`. Raises UnreadableFile."""
        plain, special = files.plain(partition.path), files.special(partition.path)
        known = {*plain, *special}
        for name in files.list(partition.path):
            path = f"{partition.path}/{name}"
            if name not in known and parse_file_name(name) is not None and files.exists(path) and files.info(path).is_directory:
                special[name] = "a directory"
        return cls(plain, special)

    @property
    def is_07(self) -> bool:
        """Is it a log of Kafka 0.7?"""
        return are_of_07([*self.plain, *self.special])

    @property
    def lacks_index(self) -> bool:
        """Is there a segment without an offset index? Opening the log then reads it and rebuilds the index."""
        names = set(self.plain)
        return any(name.removesuffix(_LOG) + _INDEX not in names for name in self.plain if name.endswith(_LOG))


def refuse_foreign_log(
    files: ReadOnlyFiles, partition: PartitionPath, listing: Listing, *, allows_misnamed: bool = False
) -> None:
    """Raise NoLogOfBrokers if no current broker opens the log at `partition`, or if a file of it is not a plain file.

    allows_misnamed  also a .log whose name does not have 20 digits: a broker does not read it, and begins an empty segment at
                     its offset (LogLoader.loadSegmentFiles)
    """
    refuse_topic_name(partition.path, partition.name.topic)
    if are_of_07(listing.plain):
        what = f"{partition.path}: a log of Kafka 0.7, whose offsets are byte positions"
        raise NoLogOfBrokers(what, do="use recover, retain, append, fetch or dump-log for such logs")
    for name, kind in sorted(listing.special.items()):
        if parse_file_name(name) is not None:
            raise no_plain_file(files, f"{partition.path}/{name}", kind)
    for name, base in () if allows_misnamed else misnamed_logs(listing.plain):
        path = f"{partition.path}/{name}"
        what = (f"{path}: not the name of a segment: a broker begins an empty segment at offset {base}, and does not read the "
                "file; the partition is left unchanged")
        do = (f"mv {argument(path)} {argument(path)}.set-aside    # or give it the name {log_file_name(base)}, if its records "
              "belong to the log")
        raise NoLogOfBrokers(what, do=do, path=path)


def no_plain_file(files: ReadOnlyFiles, path: str, kind: str) -> NoLogOfBrokers:
    """Return the error for `path`, the name of a log's file that is of `kind`, see ReadOnlyFiles.special."""
    where = "" if files.exists(path) else " to a target that does not exist: perhaps a disk is not mounted"
    what = f"{path}: {kind}{where or ', not a file: the content of the file is missing'}; the partition is left unchanged"
    do = f"ls -ld {argument(path)}    # shows what is there; put the file itself in its place"
    return NoLogOfBrokers(what, do=do, path=path)


def misnamed_logs(names: Collection[str]) -> list[tuple[str, int]]:
    """The .log files whose names do not have 20 digits, with the base offset that a broker takes from each."""
    found = [(name, offset_of(name)) for name in names if name.endswith(_LOG)]
    others = [(name, base) for name, base in found if base is not None and name != log_file_name(base)]
    return [(name, base) for name, base in others if log_file_name(base) not in names]


class LogManager:
    """Opens the logs of `cluster` with their settings and checkpoints.

    files_of  returns the file system for the path of a log dir: each may have its own quarantine
    now       ms since 1970
    """

    def __init__(self, files_of: Callable[[str], Files], cluster: Cluster, settings: Settings, now: int) -> None:
        self.files_of, self.cluster, self.settings, self.now = files_of, cluster, settings, now
        self._configs: dict[str, LogConfig] = {}
        self._checkpoints: dict[tuple[str, FileKind], Offsets] = {}
        self.lost_starts: set[str] = set()  # log dirs whose log-start-offset-checkpoint was damaged

    def over(self, files_of: Callable[[str], Files]) -> LogManager:
        """A manager for the same logs with other file systems. Settings and checkpoints that were read are shared."""
        other = copy(self)
        other.files_of = files_of
        return other

    def of(self, log_dir: LogDir) -> LogManager:
        """The manager of one of the log dirs."""
        manager = copy(self)
        manager.cluster = replace_in(self.cluster, log_dirs=(log_dir,))
        return manager

    def config(self, topic: str) -> LogConfig:
        """The settings of a topic. Later ones override: broker's, dynamic broker settings, the topic's own, the user's.

        Raises UsageError for settings that exclude each other.
        """
        if topic not in self._configs:
            server, metadata = self.settings.server, self.cluster.metadata
            if topic == METADATA_TOPIC:
                config = server.metadata_log
            else:
                given = dict(server.topic_settings)
                if metadata is not None:
                    given |= metadata.topic_defaults(self.cluster.node_id) | metadata.settings.get(topic, {})
                config = server.topics.with_settings({name: text for name, text in given.items() if is_known(name)})
            self._configs[topic] = config.with_settings(self._overrides(config))
        return self._configs[topic]

    def _overrides(self, config: LogConfig) -> dict[str, str]:
        """The user's settings. For several topics: compacted ones cannot be tiered, so that setting is left out for them."""
        given = dict(self.settings.overrides)
        if config.compact and _CLEANUP_POLICY not in given:
            given.pop(_REMOTE_STORAGE, None)
        return given

    def _is_known(self, topic: str, setting: str) -> bool:
        """Do the user or the metadata log determine `setting` of `topic`? Kafka's default alone is no evidence.

        A topic without its own value uses the broker's. If server.properties is not given, that is Kafka's default, unless
        something on the disk shows another one.
        """
        if setting in dict(self.settings.overrides):
            return True
        metadata = self.cluster.metadata
        if metadata is None or metadata.findings or metadata.by_name(topic) is None:
            return False
        is_own = setting not in SYNONYMS or setting in metadata.settings.get(topic, {})
        return is_own or bool(self.settings.server.values) or not self._cleans_by_default(metadata)

    def knows_retention(self, topic: str) -> bool:
        """Is it known what retention does with `topic`? See `why_unknown`."""
        return self.why_unknown(topic, _RETENTION) is None and not self.may_be_compacted(topic)

    def why_unknown(self, topic: str, setting: str) -> str | None:
        """Why `setting` of `topic` is not known, with which a command deletes records; None: it is known.

        The user determines it, or the metadata log. A topic without its own value uses the broker's, which may differ from
        Kafka's default: then server.properties is needed. Topics of brokers with ZooKeeper have their own values in ZooKeeper;
        for these, server.properties suffices.
        """
        metadata, has_server = self.cluster.metadata, bool(self.settings.server.values)
        if setting in dict(self.settings.overrides):
            return None
        if metadata is None:
            if self.cluster.is_kraft:
                return f"topics have their settings in {METADATA_TOPIC}, which is in none of the given log dirs"
            return None if has_server else "the log dir has no settings of topics"
        if metadata.findings:
            return f"{METADATA_TOPIC} is damaged ({metadata.findings[0].code}); `kafkalog recover` repairs it"
        if metadata.by_name(topic) is None:
            return f"{METADATA_TOPIC} has no topic of this name"
        known = metadata.topic_defaults(self.cluster.node_id) | metadata.settings.get(topic, {})
        return None if has_server or setting in known else "the topic uses the broker's, which is in its server.properties"

    def may_be_compacted(self, topic: str) -> bool:
        """Is cleanup.policy not known, and do the topic's name or the cleaner's checkpoint show that it may be compacted?"""
        if self._is_known(topic, _CLEANUP_POLICY):
            return False
        return topic in INTERNAL_TOPICS or any(
            name == topic for log_dir in self.cluster.log_dirs
            for name, _ in self.offsets(log_dir.path, FileKind.CLEANER_CHECKPOINT)
        )

    def knows_policy(self, topic: str) -> bool:
        """Is it known whether `topic` is compacted? With ZooKeeper, server.properties suffices (see `why_unknown`)."""
        is_of_zookeeper = self.cluster.metadata is None and not self.cluster.is_kraft
        return self._is_known(topic, _CLEANUP_POLICY) or (
            is_of_zookeeper and bool(self.settings.server.values) and not self.may_be_compacted(topic))

    def _cleans_by_default(self, metadata: ClusterMetadata) -> bool:
        """Has the cleaner processed a topic without its own cleanup.policy? Then the brokers' default is to compact."""
        return any(
            topic not in INTERNAL_TOPICS and metadata.by_name(topic) is not None
            and _CLEANUP_POLICY not in metadata.settings.get(topic, {})
            for log_dir in self.cluster.log_dirs for topic, _ in self.offsets(log_dir.path, FileKind.CLEANER_CHECKPOINT)
        )

    def tiering(self, topic: str) -> Tiering:
        """Are segments of the topic in remote storage, according to the available settings?"""
        server = dict(self.settings.server.values)
        is_off = bool(server) and server.get("remote.log.storage.system.enable", "false").strip().lower() != "true"
        return tiering_of(topic, self.config(topic), is_known=is_off or self._is_known(topic, _REMOTE_STORAGE))

    def is_tiered(self, partition: PartitionPath) -> bool:
        """Are older records of the log at `partition` in remote storage? Raises UnreadableFile."""
        return read_starts(self.files_of(partition.log_dir), partition.path).are_of_tiered(self.tiering(partition.name.topic))

    def policy(self, topic: str) -> TopicPolicy:
        """What is known of the topic's policy."""
        compacted = self.config(topic).compact if self._is_known(topic, _CLEANUP_POLICY) else None
        return TopicPolicy(compacted, self.tiering(topic))

    def offsets(self, log_dir: str, kind: FileKind) -> Offsets:
        """(topic, partition) → offset from a checkpoint of the log dir; empty if it is missing or malformed."""
        key = (log_dir, kind)
        if key not in self._checkpoints:
            files, path = self.files_of(log_dir), f"{log_dir}/{kind.value}"
            found, fault = known_offsets(files, path) if files.exists(path) else ({}, None)
            self._checkpoints[key] = found if fault is None else {}
        return self._checkpoints[key]

    def refuse_malformed_checkpoints(self, log_dir: str, kinds: Iterable[FileKind] = _OF_LOGS) -> None:
        """Raise LogDamaged if one of the checkpoints that are going to be written again is malformed: lines would be lost."""
        for path, fault in self.malformed_checkpoints(log_dir, kinds):
            what = f"{path}: {fault}: this command would write it again, without the lines of other partitions"
            do = f"kafkalog recover {argument(log_dir)}    # keeps the malformed file in a quarantine"
            raise LogDamaged(what, do=do, path=path)

    def malformed_checkpoints(self, log_dir: str, kinds: Iterable[FileKind] = _OF_LOGS) -> Iterator[tuple[str, str]]:
        """Path and fault of each checkpoint of the log dir that Kafka cannot read. Raises UnreadableFile."""
        for kind in kinds:
            files, path = self.files_of(log_dir), f"{log_dir}/{kind.value}"
            fault = known_offsets(files, path)[1] if files.exists(path) else None
            if fault is not None:
                yield path, fault

    def load(
        self, partition: PartitionPath, report: Report, options: LoadOptions, *, clean_start: bool, files: Files | None = None,
        listing: Listing | None = None,
    ) -> UnifiedLog:
        """Open the log at `partition`; offsets that are None are read from the checkpoints of its log dir.

        options  the values that depend on the topic (tiering, policy, producers) are replaced by those of its settings
        listing  of its directory, if it was just listed
        files    the file system to open it through; None: that of its log dir

        The metadata log has no checkpoints, and is always recovered from its beginning. Raises NoLogOfBrokers.
        Mirrors LogManager.loadLog.
        """
        files = self.files_of(partition.log_dir) if files is None else files
        listing = Listing.read(files, partition) if listing is None else listing
        refuse_foreign_log(files, partition, listing, allows_misnamed=options.allows_misnamed or not options.repairs)
        is_metadata = partition.name.topic == METADATA_TOPIC
        points = {} if is_metadata else self.offsets(partition.log_dir, FileKind.RECOVERY_POINT_CHECKPOINT)
        starts = {} if is_metadata else self.offsets(partition.log_dir, FileKind.LOG_START_CHECKPOINT)
        tiering = self.tiering(partition.name.topic)
        if tiering is Tiering.UNKNOWN and options.log_start_offset is None and partition.key not in starts:
            tiering = Tiering.UNTIERED  # brokers write a line for every tiered log
        server, point, start = self.settings.server, options.recovery_point, options.log_start_offset
        known = replace_in(
            options, tiering=tiering, policy=partial(self.policy, partition.name.topic), creates=False,
            recovery_point=max(0, points.get(partition.key, 0)) if point is None else point,
            log_start_offset=max(0, starts.get(partition.key, 0)) if start is None else start,
            producer_id_expiration_ms=server.producer_id_expiration_ms,
            max_transaction_timeout_ms=server.max_transaction_timeout_ms,
        )
        log = open_log(
            files, partition.path, self.config(partition.name.topic), now=self.now,
            clean_shutdown=clean_start and not is_metadata, options=known, report=report, names=listing.plain,
        )
        for name in names_07(listing.plain):
            why = "a file of Kafka 0.7 among those of a later log: ignored, as by a broker"
            report.add(Action.EXPLAINED, name, why)
        return log

    def is_07(self, partition: PartitionPath) -> bool:
        """Is the log at `partition` one of Kafka 0.7?"""
        return is_log_07(self.files_of(partition.log_dir), partition.path)

    def load_07(
        self, partition: PartitionPath, report: Report, *, clean_start: bool, files: Files | None = None
    ) -> ReportedLog07:
        """Open the log of 0.7 at `partition`; `files` as in `load`. Raises Refused07 for a log that cannot be opened."""
        from engine.log.logdir.logs_07 import config_07, open_reported_07  # few log dirs have such logs

        config = config_07(self.settings.server, dict(self.settings.overrides), partition.name.topic)
        return open_reported_07(
            self.files_of(partition.log_dir) if files is None else files, partition.path, config, report, now=self.now,
            clean_start=clean_start,
        )

    def high_watermark(self, partition: PartitionPath) -> int | None:
        """From the broker's checkpoint; None: it has no line."""
        return self.offsets(partition.log_dir, FileKind.REPLICATION_CHECKPOINT).get(partition.key)

    def checkpoint(self, log_dir: LogDir, offsets_left: Mapping[PartitionPath, CheckpointOffsets]) -> None:
        """Write log start offsets and recovery points. The lines of other partitions are kept.

        Mirrors checkpointRecoveryOffsetsInDir and checkpointLogStartOffsetsInDir.
        """
        points = dict(self.offsets(log_dir.path, FileKind.RECOVERY_POINT_CHECKPOINT))
        points |= {partition.key: log.recovery_point for partition, log in _with_lines(offsets_left)}
        self._write(log_dir.path, FileKind.RECOVERY_POINT_CHECKPOINT, points)
        self.checkpoint_log_starts(log_dir, offsets_left)

    def checkpoint_log_starts(self, log_dir: LogDir, offsets_left: Mapping[PartitionPath, CheckpointOffsets]) -> None:
        """Write log start offsets: tiered logs, and logs that begin within their first segment, have a line.

        Existing lines of logs that may be tiered are kept.
        """
        starts = dict(self.offsets(log_dir.path, FileKind.LOG_START_CHECKPOINT))
        for partition, log in _with_lines(offsets_left):
            has_line = starts.pop(partition.key, None) is not None
            tiering = self.tiering(partition.name.topic)
            if tiering is Tiering.TIERED or log.begins_within_a_segment or (tiering is Tiering.UNKNOWN and has_line):
                starts[partition.key] = log.log_start_offset
        self._write(log_dir.path, FileKind.LOG_START_CHECKPOINT, starts)

    def add_lines(self, log_dir: str, lines: Mapping[FileKind, Offsets]) -> None:
        """Add lines to checkpoints of a log dir, for partitions that will be moved there. Raises LogDamaged."""
        for kind, offsets in lines.items():
            self._write(log_dir, kind, {**self.offsets(log_dir, kind), **offsets})

    def forget(self, log_dir: LogDir, keys: Container[tuple[str, int]]) -> None:
        """Remove the lines of partitions whose logs are deleted from every checkpoint of `log_dir`.

        A later log with the same name is another log: the cleaner and consumers must not use the offsets of the old one.
        Mirrors LogManager.asyncDelete, after which the checkpoints are written without it.
        """
        for kind in CHECKPOINTS:
            offsets = self.offsets(log_dir.path, kind)
            left = {key: offset for key, offset in offsets.items() if key not in keys}
            if len(left) < len(offsets):
                self._write(log_dir.path, kind, left)

    def _write(self, log_dir: str, kind: FileKind, offsets: dict[tuple[str, int], int]) -> None:
        """Write a checkpoint, unless its content is the same. Raises LogDamaged for one whose lines cannot be read."""
        self.refuse_malformed_checkpoints(log_dir, (kind,))
        files, path = self.files_of(log_dir), f"{log_dir}/{kind.value}"
        if files.exists(path) and dict(self.offsets(log_dir, kind)) == offsets:
            return
        replace(files, path, [encode_offset_checkpoint(PartitionOffset(*key, offset) for key, offset in offsets.items())])
        self._checkpoints[log_dir, kind] = offsets


@dataclass(frozen=True, slots=True)
class CheckpointOffsets:
    """The final offsets of a log, for the checkpoints of its log dir."""

    first_base_offset: int
    log_start_offset: int
    recovery_point: int

    @property
    def begins_within_a_segment(self) -> bool:
        """Do its files have records below its start? Then only a checkpoint has the log start offset."""
        return self.log_start_offset > self.first_base_offset

    @classmethod
    def of(cls, log: UnifiedLog) -> CheckpointOffsets:
        """The offsets for the next start. Offsets of a partly truncated batch count neither as flushed nor as deleted."""
        end = log.next_end_offset
        return cls(log.segments.base_offsets[0], min(log.log_start_offset, end), min(log.recovery_point, end))


def _with_lines(offsets_left: Mapping[PartitionPath, CheckpointOffsets]) -> list[tuple[PartitionPath, CheckpointOffsets]]:
    """Those with lines in checkpoints. A copy to another log dir and its log have the same key, but different log dirs."""
    return [
        (partition, log) for partition, log in offsets_left.items()
        if partition.name.kind in (PartitionKind.PLAIN, PartitionKind.FUTURE) and partition.name.topic != METADATA_TOPIC
    ]


def _refuse_special(files: Files, directory: str, names: list[str]) -> None:
    """Raise NoLogOfBrokers if one of the `names` in `directory`, or anything below them, is neither a file nor a directory."""
    special = files.special(directory)
    for name in names:
        path = f"{directory}/{name}"
        if name in special:
            do = f"ls -ld {argument(path)}    # shows what is there; without --quarantine it is removed with its directory"
            what = f"{path}: {special[name]}, which a quarantine cannot keep: nothing was removed"
            raise NoLogOfBrokers(what, do=do, path=path)
        if files.info(path).is_directory:
            _refuse_special(files, path, files.list(path))


def purge_deleted_directories(
    files: Files, log_dir: LogDir, report: Report, *, keeps_all: bool = False
) -> dict[PartitionPath, KafkalogError]:
    """Remove the directories of deleted topics and replicas with their content. Returns those that failed, with the errors.

    A broker does so file.delete.delay.ms after its start. Mirrors LogManager.deleteLogs, which continues after errors too.

    keeps_all  a quarantine keeps what is removed: a directory with a link or a FIFO in it, which could not be put back, stays
    """
    failed: dict[PartitionPath, KafkalogError] = {}
    deleted = log_dir.partitions(PartitionKind.DELETE)
    special = files.special(log_dir.path) if deleted else {}
    for partition in deleted:
        try:
            if keeps_all:
                _refuse_special(files, log_dir.path, [file_name(partition.path)])
            if file_name(partition.path) in special:  # a link: a broker removes only the link
                files.remove(partition.path)
                size = 0
            else:
                size = remove_tree(files, partition.path)
        except KafkalogError as error:
            failed[partition] = error
            continue
        name = partition.path.removeprefix(log_dir.path + "/")
        report.add(Action.REMOVED, name, "its topic or replica was deleted", size=size)
    if deleted:
        files.sync_directory(log_dir.path)
    return failed


class Marker(NamedTuple):
    """A clean shutdown marker, with mode and modification time of its file; None: those of a new file."""

    content: bytes
    mode: int | None = None
    modified_ns: int | None = None


class CleanShutdownMarker:
    """The clean shutdown marker of a log dir; `marker` is None if it has none. Raises UnreadableFile.

    is_withheld  do not restore it
    """

    def __init__(self, manager: LogManager, log_dir: LogDir) -> None:
        self._manager, self._log_dir, self._lock = manager, log_dir, Lock()
        self.marker = _read_marker(manager, log_dir)
        self._is_removed = self.marker is None
        self.is_withheld = False

    def remove(self) -> None:
        """Remove the marker, if that was not done yet."""
        with self._lock:
            if not self._is_removed:
                remove_marker(self._manager, self._log_dir)
                self._is_removed = True

    def restore(self) -> None:
        """Write the marker again if it was removed and is not withheld."""
        if self.marker is not None and self._is_removed and not self.is_withheld:
            write_marker(self._manager, self._log_dir, self.marker)


def write_marker(manager: LogManager, log_dir: LogDir, marker: Marker) -> None:
    """Write the clean shutdown marker, with the given content, mode and time."""
    files, path = manager.files_of(log_dir.path), f"{log_dir.path}/{FileKind.CLEAN_SHUTDOWN.value}"
    replace(files, path, [marker.content], marker.mode)
    if marker.modified_ns is not None:
        files.set_modified(path, marker.modified_ns)


def remove_marker(manager: LogManager, log_dir: LogDir) -> Marker | None:
    """Remove and return the clean shutdown marker; None if the log dir has none."""
    marker = _read_marker(manager, log_dir)
    if marker is not None:
        files = manager.files_of(log_dir.path)
        files.remove(f"{log_dir.path}/{FileKind.CLEAN_SHUTDOWN.value}")
        files.sync_directory(log_dir.path)
    return marker


def _read_marker(manager: LogManager, log_dir: LogDir) -> Marker | None:
    """Read the clean shutdown marker; None if the log dir has none."""
    files, path = manager.files_of(log_dir.path), f"{log_dir.path}/{FileKind.CLEAN_SHUTDOWN.value}"
    if not files.exists(path):
        return None
    found = files.info(path)
    try:
        content = files.read(path, _MARKER_SIZE)
    except OversizedFile as error:
        error.do = f"truncate -s 0 {argument(path)}    # an empty marker means the same; brokers create a new one"
        raise
    return Marker(content, found.mode, found.modified_ns)
