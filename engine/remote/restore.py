"""Restore partitions that exist only in a store into a log dir.

Records in `__remote_log_metadata` make their segments known to brokers again. A leader with an empty log deletes the remote
segments that it knows, so each partition is written before its records: an interruption loses nothing. Topics are created last,
in the bootstrap.checkpoint of a cluster that has not started yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.identity import decode_partition_metadata, read_identity
from engine.discovery.choice import is_chosen_topic
from engine.discovery.names import (
    FileKind,
    log_file_name,
    offset_index_file_name,
    time_index_file_name,
)
from engine.errors import FileChangedWhileReading, UnreadableFile, UsageError
from engine.files import replace
from engine.findings import Severity
from engine.log.logdir.bootstrap import NewTopic, add_to_bootstrap
from engine.log.logdir.cluster_metadata import read_bootstrap
from engine.log.logdir.log_dirs import LogDir, find_log_dirs
from engine.log.logdir.log_manager import CHECKPOINTS
from engine.log.logdir.startup import survey
from engine.log.operations.mending import write_topic_id
from engine.log.report import Action, Report
from engine.log.tiering import REMOTE_LOG_METADATA_TOPIC
from engine.remote.inventory import list_store
from engine.remote.metadata import records_of
from engine.remote.metadata_log import MetadataLogs, append_records, is_unfinished
from engine.remote.records import State, encode_record, key_of, metadata_partition_of, random_id, uuid_text
from engine.remote.restored_log import LogWriter, NotRestored, RestorePlanner, verify_written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.config.topic import LogConfig
    from engine.files import Files
    from engine.findings import Finding
    from engine.log.logdir.cluster_metadata import ClusterMetadata
    from engine.log.logdir.log_manager import LogManager
    from engine.log.logdir.startup import Cluster
    from engine.log.session import Session
    from engine.remote.inventory import PartitionName, StoredSegment
    from engine.remote.layouts import Layout
    from engine.remote.metadata import RemoteLogMetadata
    from engine.remote.restored_log import RestoredLog

_COMMAND = "remote restore"
_DEFAULT_METADATA_COUNT = 50  # remote.log.metadata.topic.num.partitions
_METADATA_COUNT = "rlmm.config.remote.log.metadata.topic.num.partitions"
_SHOWN = 10  # topics
# for topics whose settings are lost: with the default retention, the first leader would delete old records
_SETTINGS = {"remote.storage.enable": "true", "cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_METADATA_SETTINGS = {"cleanup.policy": "delete", "retention.ms": "-1", "remote.storage.enable": "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """Options of a restore.

    topics          names or patterns
    topic_id        selects one of several topics with the same name; None: there is only one
    log_dirs        further log dirs of the cluster that may have logs of __remote_log_metadata or the cluster's metadata
    metadata_count  number of partitions of __remote_log_metadata; None: from the cluster's metadata or server.properties
    whole           write all segments, not only the empty one at the log end
    """

    topics: tuple[str, ...]
    topic_id: str | None = None
    log_dirs: tuple[str, ...] = ()
    metadata_count: int | None = None
    whole: bool = False


class _Planned(NamedTuple):
    directory: str
    log: RestoredLog
    report: Report


class Restore:
    """Restores partitions from the store of `layout` into the first log dir of a session.

    report  receives damage in logs of __remote_log_metadata
    The other log dirs of the session belong to the same broker.
    """

    def __init__(self, options: RestoreOptions, layout: Layout, report: Callable[[Finding], None]) -> None:
        self._options, self._layout, self._report = options, layout, report

    def work(self, session: Session) -> Iterator[Report]:
        """Plan all partitions, then write them → reports. Raises UsageError, UnreadableFile."""
        options, disk, target = self._options, session.dirs.disk, session.log_dirs[0]
        files = session.manager.files_of(target.path)
        paths = list(dict.fromkeys((*(one.path for one in session.log_dirs), *options.log_dirs)))
        known = MetadataLogs(disk, paths, self._report, is_needed=False).read()
        configured = dict(session.options.settings.server.values).get(_METADATA_COUNT, "")
        count = options.metadata_count or (int(configured) if configured.isdecimal() else None)
        placement = Placement(session.manager, survey(disk, find_log_dirs(disk, paths)), target, count)
        planner = RestorePlanner(self._layout, known, placement.metadata_count)
        writer = LogWriter(files, self._layout, whole=options.whole)
        starts = session.manager.offsets(target.path, FileKind.LOG_START_CHECKPOINT)
        planned: list[_Planned] = []
        failed: set[str] = set()
        for name, stored in self._chosen(placement):
            directory = f"{target.path.rstrip('/')}/{name}"
            report = Report(directory, _COMMAND)
            try:
                placement.check(name)
                if options.whole:
                    _refuse_counting_twice(name, session.manager.config(name.topic))
                log = planner.plan(name, stored, starts.get((name.topic, name.partition), 0))
                writer.check(directory, log)
                planned.append(_Planned(directory, log, report))
            except (NotRestored, UnreadableFile, FileChangedWhileReading) as error:
                report.failure = error
                failed.add(name.topic_id)
                yield report
        if placement.is_new:  # in a new topic, a missing partition would begin at offset 0
            for _, log, report in planned:
                if log.name.topic_id in failed:
                    report.failure = NotRestored(f"{log.name}: not restored without the topic's other partitions")
                    yield report
            planned = [one for one in planned if one.report.failure is None]
        if planned:
            yield from self._write(session, files, writer, planned, known, placement)

    def _chosen(self, placement: Placement) -> Iterator[tuple[PartitionName, list[StoredSegment]]]:
        """Return the chosen partitions. Raises UsageError if there are none, or several topics with the same name."""
        options = self._options
        inventory = list_store(self._layout).by_partition()
        found = {
            name: stored for name, stored in inventory.items()
            if is_chosen_topic(name.topic, options.topics) and options.topic_id in (None, name.topic_id)
        }
        if not found:
            topics = sorted({name.topic for name in inventory})
            some = ", ".join(topics[:_SHOWN]) + (", …" if len(topics) > _SHOWN else "")
            what = f"{self._layout.store.name}: the store has no segment of {' or '.join(options.topics)}"
            raise UsageError(what, f"it has segments of: {some}")
        ids: dict[str, set[str]] = {}
        for name in found:
            if placement.may_be(name):
                ids.setdefault(name.topic, set()).add(name.topic_id)
        for name in found:
            if name.topic not in ids:
                what = f"the cluster has a topic {name.topic} with another id than {name.topic_id}, which the store has"
                raise UsageError(what, "delete that topic, or restore into a new cluster: brokers find segments by the id")
        for topic, several in ids.items():
            if len(several) > 1:
                what = f"topic {topic} was created {len(several)} times: ids {', '.join(sorted(several))}"
                raise UsageError(what, "name one of the ids: --topic-id ID")
        here = [name for name in found if name.topic_id in ids[name.topic] and placement.is_here(name)]
        if not here:
            what = f"{placement.target.path}: only brokers other than {placement.node_id} have replicas of these partitions"
            raise UsageError(what, "restore into a log dir of a broker that has replicas", path=placement.target.path)
        for name in here:
            yield name, found[name]

    def _write(
        self, session: Session, files: Files, writer: LogWriter, planned: list[_Planned], known: RemoteLogMetadata,
        placement: Placement,
    ) -> Iterator[Report]:
        """Write logs and checkpoints first, then partition.metadata, then the records, then the topics."""
        target = placement.target.path
        session.manager.refuse_malformed_checkpoints(target, CHECKPOINTS)
        for directory, log, report in planned:
            writer.write(directory, log, report)
            _add_events(log, report, is_unread=log.is_unread and not self._options.whole)
        logs = {(log.name.topic, log.name.partition): log for _, log, _ in planned}
        ends = {key: log.log_end_offset for key, log in logs.items()}
        session.manager.add_lines(target, {
            FileKind.LOG_START_CHECKPOINT: {key: log.log_start_offset for key, log in logs.items()},
            FileKind.RECOVERY_POINT_CHECKPOINT: ends, FileKind.REPLICATION_CHECKPOINT: ends,
        })  # fmt: skip
        for directory, log, report in planned:
            write_topic_id(files, f"{directory}/{FileKind.PARTITION_METADATA.value}", log.name.topic_id)
            if self._options.whole:
                verify_written(files, directory, report)
            yield report
        files.sync_directory(target)
        values: dict[str, list[bytes]] = {}
        for _, log, _ in planned:
            records = list(_missing_records(log, known, placement.node_id, session.options.now))
            if records:
                values.setdefault(placement.metadata_log(log.metadata.metadata_partition), []).extend(records)
        are_known = True
        for report in append_records(session, _COMMAND, values):
            are_known = are_known and report.failure is None
            yield report
        if placement.is_new and are_known:  # without the records a leader would begin at its local segment
            yield placement.add_topics((log for _, log, _ in planned), session.options.now)


def _refuse_counting_twice(name: PartitionName, config: LogConfig) -> None:
    """Raise NotRestored if the topic of a whole log has a size limit.

    Until a starting broker knows the highest remote offset, RLMExpirationTask adds all local segments to the remote ones.
    """
    if config.retention_size >= 0:
        what = (f"{name}: with all segments local as well, a starting broker counts them twice against retention.bytes="
                f"{config.retention_size}, and deletes the oldest ones")
        raise NotRestored(what, "leave out --full: a broker serves all segments from the store")


def _add_events(log: RestoredLog, report: Report, *, is_unread: bool) -> None:
    """Add missing offsets, open transactions, segments left out, and the totals of a log to its report."""
    for first, end in log.gaps:
        why = "no segment in the store has these offsets: objects were deleted, or compaction removed the records"
        report.add(Action.MISSING, "", why, offsets=(first, end), severity=Severity.ERROR)
    for producer_id, first in log.open_transactions:
        why = (f"producer {producer_id} has an open transaction: its end was not copied. Consumers with read_committed and "
               "copying wait for it; kafka-transactions abort ends it")
        report.add(Action.EXPLAINED, "", why, offsets=(first, None), severity=Severity.WARNING)
    for segment, base, why in log.left_out:
        report.add(Action.EXPLAINED, segment, f"the remote segment from offset {base} is left out: {why}")
    if is_unread:
        why = "its objects exist with the right sizes; their batches were not read: kafkalog remote verify --deep reads them"
        report.add(Action.EXPLAINED, "", why)
    report.log_start_offset, report.log_end_offset = log.log_start_offset, log.log_end_offset
    report.segments, report.size, report.recovery_point = len(log.chain), log.size, log.log_end_offset
    report.unread_below = log.log_end_offset if is_unread else None


def _missing_records(log: RestoredLog, known: RemoteLogMetadata, node_id: int, now: int) -> Iterator[bytes]:
    """Encode the records of segments that are not yet recorded as copied."""
    partition = known.find(log.name.topic_id, log.name.partition)
    segments = () if partition is None else partition.segments()
    finished = {one.id for one in segments if one.state is State.COPY_SEGMENT_FINISHED}
    key = key_of(log.name.topic_id, log.name.partition)
    for segment in log.segments:
        if segment.id not in finished:
            described = segment if segment.event_timestamp_ms else segment._replace(event_timestamp_ms=now, broker_id=node_id)
            for record in records_of(described, log.name.topic, key):
                yield encode_record(record)


class Placement:
    """The location of partitions and of their metadata records, from the remaining metadata of the cluster.

    target  the log dir that receives the restored partitions
    is_new  the cluster was formatted and has not started yet: the restored topics are added to it
    Raises UsageError for a directory that is not a broker's log dir.
    """

    def __init__(self, manager: LogManager, cluster: Cluster, target: LogDir, metadata_count: int | None) -> None:
        self.target, self._manager, self._cluster = target, manager, cluster
        self._files = files = manager.files_of(target.path)
        identity = cluster.identities.get(target.path)
        if identity is None or identity.node_id is None:
            what = f"{target.path}: not a broker's log dir: it has no meta.properties"
            do = "run kafka-storage format with the settings of the broker that will start on it"
            raise UsageError(what, do, path=target.path)
        self.node_id, self._directory_id = identity.node_id, identity.directory_id
        metadata: ClusterMetadata | None = cluster.metadata
        is_empty = metadata is None or not (metadata.topics or metadata.end_offset)
        self.is_new = is_empty and files.exists(_bootstrap(target))
        self._metadata = read_bootstrap(files, _bootstrap(target)) if self.is_new else metadata
        self._topic = None if self._metadata is None else self._metadata.by_name(REMOTE_LOG_METADATA_TOPIC)
        self._new_id = self._id_on_disk() or uuid_text(random_id())  # of __remote_log_metadata, if it is new
        count = None if self._topic is None else len(self._topic.replicas)
        if None not in (count, metadata_count) and count != metadata_count:
            what = f"{REMOTE_LOG_METADATA_TOPIC} has {count} partitions, not {metadata_count}"
            raise UsageError(what, "leave out --metadata-partitions, and set the topic's number in server.properties")
        self.metadata_count = count or metadata_count or _DEFAULT_METADATA_COUNT

    def _id_on_disk(self) -> str | None:
        """Return the id of a log of __remote_log_metadata in these log dirs, from an earlier run that was interrupted."""
        for log_dir in self._own_log_dirs():
            for replica in log_dir.partitions():
                path = f"{replica.path}/{FileKind.PARTITION_METADATA.value}"
                if replica.name.topic == REMOTE_LOG_METADATA_TOPIC and self._files.exists(path):
                    known = read_identity(self._files, path, decode_partition_metadata).value
                    if known is not None:
                        return known.topic_id
        return None

    def may_be(self, name: PartitionName) -> bool:
        """Is the topic's id the one in the cluster's metadata, or not known there?"""
        topic = None if self._metadata is None else self._metadata.by_name(name.topic)
        return topic is None or topic.topic_id == name.topic_id

    def is_here(self, name: PartitionName) -> bool:
        """Has this broker a replica of the partition in the cluster's metadata, or is that not known?"""
        topic = None if self._metadata is None else self._metadata.by_name(name.topic)
        return topic is None or name.partition not in topic.replicas or self.node_id in topic.replicas[name.partition]

    def check(self, name: PartitionName) -> None:
        """Raise NotRestored if a broker would not serve the partition in this log dir. See also `check_records`."""
        if self._metadata is not None and not self.is_new and self._metadata.by_name(name.topic) is None:
            what = f"{name}: the cluster has no topic {name.topic}, and Kafka cannot create one with the id {name.topic_id}"
            raise NotRestored(what, "restore into a log dir that kafka-storage formatted and no broker has started on")
        for log_dir in self._own_log_dirs():
            for replica in log_dir.partitions() if log_dir.path != self.target.path else ():
                if replica.key == (name.topic, name.partition):
                    what = f"{replica.path}: the broker already has the partition in this log dir"
                    raise NotRestored(what, path=replica.path)
        self.check_records(name)

    def check_records(self, name: PartitionName) -> None:
        """Raise NotRestored if the metadata records of a partition do not belong on this broker."""
        number = metadata_partition_of(key_of(name.topic_id, name.partition), self.metadata_count)
        records = f"{REMOTE_LOG_METADATA_TOPIC}-{number}"
        found = self._metadata_log_dir(number)
        if found is not None and not is_unfinished(self._files, _metadata_log(found, number)):
            return
        if self._topic is not None and self.node_id not in self._topic.replicas.get(number, (self.node_id,)):
            brokers = ", ".join(map(str, self._topic.replicas[number]))
            what = f"{name}: its records belong to {records}, which is on broker {brokers}, not on {self.node_id}"
            raise NotRestored(what, "restore into the log dir of that broker first")
        if self._metadata_topic_id is None:
            what = f"{name}: its records belong to {records}, and the topic's id is in none of the log dirs"
            raise NotRestored(what, "name the log dir with __cluster_metadata-0: --log-dir DIR")

    def _own_log_dirs(self) -> Iterator[LogDir]:
        """Yield the log dirs of this broker."""
        for log_dir in self._cluster.log_dirs:
            identity = self._cluster.identities.get(log_dir.path)
            if identity is not None and identity.node_id == self.node_id:
                yield log_dir

    def _metadata_log_dir(self, number: int) -> LogDir | None:
        """Return this broker's log dir with partition `number` of __remote_log_metadata; None: it has none."""
        return next((one for one in self._own_log_dirs() if self._files.exists(_metadata_log(one, number))), None)

    @property
    def _metadata_topic_id(self) -> str | None:
        """The id of __remote_log_metadata; None: unknown."""
        if self._topic is not None:
            return self._topic.topic_id
        return self._new_id if self.is_new else None

    def metadata_log(self, number: int) -> str:
        """Return the directory of partition `number` of __remote_log_metadata on this broker; create it if it is missing."""
        found = self._metadata_log_dir(number)
        if found is not None and not is_unfinished(self._files, _metadata_log(found, number)):
            return _metadata_log(found, number)
        log_dir, topic_id = found or self.target, self._metadata_topic_id
        assert topic_id is not None  # see `check`
        files, directory = self._manager.files_of(log_dir.path), _metadata_log(log_dir, number)
        self._manager.forget(log_dir, {(REMOTE_LOG_METADATA_TOPIC, number)})  # checkpoint lines of a deleted log
        files.make_directory(directory)
        for make in (log_file_name, offset_index_file_name, time_index_file_name):
            replace(files, f"{directory}/{make(0)}", [b""])
        write_topic_id(files, f"{directory}/{FileKind.PARTITION_METADATA.value}", topic_id)
        files.sync_directory(log_dir.path)
        return directory

    def add_topics(self, logs: Iterable[RestoredLog], now: int) -> Report:
        """Add the topics of these logs, and __remote_log_metadata, to the bootstrap.checkpoint of a new cluster → report."""
        report = Report(self.target.path, _COMMAND)
        assert self._metadata is not None  # it is new
        epochs: dict[tuple[str, str], dict[int, int]] = {}
        for log in logs:
            known = epochs.setdefault((log.name.topic, log.name.topic_id), {})
            known |= {number: 0 for number in range(log.name.partition) if number not in known}
            known[log.name.partition] = log.epochs[-1].epoch
        directory_id = self._directory_id or "A" * 22
        topics = [
            NewTopic(name, topic_id, known, _SETTINGS, self.node_id, directory_id)
            for (name, topic_id), known in epochs.items() if self._metadata.by_name(name) is None
        ]
        if self._topic is None:
            of_metadata = dict.fromkeys(range(self.metadata_count), 0)
            of_topic = (of_metadata, _METADATA_SETTINGS, self.node_id, directory_id)
            topics.append(NewTopic(REMOTE_LOG_METADATA_TOPIC, self._new_id, *of_topic))
        if topics:
            for log_dir in self._own_log_dirs():  # one of them has the metadata log
                files = self._manager.files_of(log_dir.path)
                if files.exists(_bootstrap(log_dir)):
                    add_to_bootstrap(files, _bootstrap(log_dir), topics, now)
            names = ", ".join(topic.name for topic in topics)
            report.add(Action.REBUILT, FileKind.BOOTSTRAP_CHECKPOINT.value, f"a new cluster begins with these topics: {names}")
            why = ("their own settings are lost: they keep all records (retention.ms=-1, retention.bytes=-1) until others "
                   "are set with kafka-configs. A controller reads the file at its first start; one elsewhere needs a copy")
            report.add(Action.EXPLAINED, "", why)
        return report


def _metadata_log(log_dir: LogDir, number: int) -> str:
    return f"{log_dir.path.rstrip('/')}/{REMOTE_LOG_METADATA_TOPIC}-{number}"


def _bootstrap(log_dir: LogDir) -> str:
    return f"{log_dir.path.rstrip('/')}/{FileKind.BOOTSTRAP_CHECKPOINT.value}"
