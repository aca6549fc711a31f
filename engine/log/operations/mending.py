"""Repair the small files that stop a broker: rebuild them from other files on the disk, or remove them.

Files are replaced and removed through the file system interface, so the quarantine keeps the old ones.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from engine.checkpoint.checkpoints import encode_offset_checkpoint, read_offset_checkpoint
from engine.checkpoint.identity import ZERO_UUID, decode_partition_metadata, is_uuid, read_identity
from engine.discovery.names import (
    METADATA_TOPIC,
    FileKind,
    PartitionKind,
    file_name,
    log_file_name,
    parent_of,
    parse_partition_dir,
    partition_of,
)
from engine.errors import UsageError
from engine.files import look, replace
from engine.findings import Severity
from engine.log.loading.epoch_repair import open_leader_epochs
from engine.log.logdir.log_dirs import KINDS
from engine.log.logdir.start_problems import Effect
from engine.log.report import Action, Report
from engine.log.segment.extent import read_extent
from engine.log.tiering import Tiering
from engine.record.batch import read_batches

if TYPE_CHECKING:
    from engine.files import Files, ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.logdir.log_dirs import PartitionPath
    from engine.log.logdir.log_manager import LogManager
    from engine.log.logdir.start_problems import StartProblem
    from engine.log.logdir.startup import Cluster


_METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"  # Uuid.METADATA_TOPIC_ID
_ALIVE = (PartitionKind.PLAIN, PartitionKind.FUTURE)
_NAME = FileKind.PARTITION_METADATA.value


def find_topic_id(files: ReadOnlyFiles, cluster: Cluster, partition: PartitionPath) -> tuple[str | None, str]:
    """Return the topic's id and where it was found: in the metadata log, else in another partition of the topic."""
    if partition.name.topic == METADATA_TOPIC:
        return _METADATA_TOPIC_ID, "Kafka itself"
    if cluster.metadata is not None and cluster.metadata_dir is not None:
        topic = cluster.metadata.by_name(partition.name.topic)
        if topic is not None:
            return topic.topic_id, cluster.metadata_dir
        if not cluster.metadata.findings:
            return None, ""  # the topic was deleted: the id of another partition would be just as stray
    for log_dir in cluster.log_dirs:
        for name in files.list(log_dir.path):
            other, path = parse_partition_dir(name), f"{log_dir.path}/{name}/{_NAME}"
            if other is None or other.topic != partition.name.topic or other.kind not in _ALIVE:
                continue
            if path == f"{partition.path}/{_NAME}":
                continue
            if files.exists(path):
                decoded = read_identity(files, path, decode_partition_metadata).value
                if decoded is not None:
                    return decoded.topic_id, path
    return None, ""


def write_topic_id(files: Files, path: str, topic_id: str) -> None:
    """Write partition.metadata at `path` as a broker does."""
    replace(files, path, [topic_id_text(topic_id)])


def topic_id_text(topic_id: str) -> bytes:
    """The bytes of partition.metadata."""
    return f"version: 0\ntopic_id: {topic_id}".encode()


def check_topic_id(topic_id: str) -> None:
    """Raise UsageError if `topic_id` is not a topic id."""
    if not is_uuid(topic_id) or topic_id.rstrip("=") == ZERO_UUID:
        what = f"{topic_id!r} is not a topic id: expected 22 characters, as kafka-topics --describe prints them"
        raise UsageError(what)


def set_topic_id(
    files: Files, cluster: Cluster, partition: PartitionPath, report: Report, wanted: str | None, *, is_new: bool
) -> None:
    """Write partition.metadata of the partition at `partition` if it has none, and is new or `wanted` is given.

    Raises UsageError if the partition or the metadata log has another id than `wanted`.
    """
    path = f"{partition.path}/{_NAME}"
    if files.exists(path):
        there = read_identity(files, path, decode_partition_metadata).value
        if wanted is not None and (there is None or there.topic_id != wanted):
            what = f"{path}: holds {'no id' if there is None else there.topic_id}, not {wanted}"
            raise UsageError(what, do="remove --topic-id; kafkalog recover repairs the file if it is damaged")
        return
    if wanted is None and not is_new:
        return
    topic, source = partition.name.topic, "the command line"
    known, where = find_topic_id(files, cluster, partition)
    if wanted is not None and known is not None and known != wanted:
        raise UsageError(f"{partition.path}: topic {topic} has the id {known}, not {wanted}, in {where}")
    if wanted is None:
        wanted, source = known, where
    is_unknown = cluster.metadata is not None and not cluster.metadata.findings and cluster.metadata.by_name(topic) is None
    if wanted is None:
        why = f"the metadata log has no topic {topic}" if is_unknown else f"the id of topic {topic} is nowhere on this disk"
        what = f"{_NAME} was not written: {why}; without it a broker renames the directory to -stray"
        report.add(Action.EXPLAINED, "", f"{what}: use --topic-id if the topic exists")
        return
    write_topic_id(files, path, wanted)
    stray = "; the metadata log has no such topic: a broker renames the directory to -stray" if is_unknown else ""
    report.add(Action.CREATED, _NAME, f"the topic's id {wanted} comes from {source}{stray}")


_CHECKPOINTS = frozenset((
    FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.LOG_START_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT,
    FileKind.CLEANER_CHECKPOINT,
))  # fmt: skip


def mend(manager: LogManager, problem: StartProblem, report: Report) -> bool:
    """Repair `problem`, or report why that is not possible. Returns False if a broker would still find the problem."""
    files, cluster = manager.files_of(problem.log_dir), manager.cluster
    shown = problem.name if report.directory == problem.log_dir else file_name(problem.name)
    if problem.kind in KINDS and problem.effect is Effect.STOPS:
        _remove_without_offset(files, problem, shown, report)
        return True
    if problem.kind is FileKind.PRODUCER_SNAPSHOT:
        return True  # the loader removes it and rebuilds the producer state from the log
    if problem.kind is FileKind.LEADER_EPOCH_CHECKPOINT:
        _mend_epochs(manager, problem, shown, report)
        return True
    if problem.kind is FileKind.LOG_START_CHECKPOINT:
        manager.lost_starts.add(problem.log_dir)
    mended = _mend(files, cluster, problem)
    why = f"{problem.effect.value}: {problem.what if problem.message is None else f'{problem.message} ({problem.what})'}"
    if mended is None:
        severity = Severity.WARNING if problem.effect is Effect.WARNS else Severity.ERROR
        report.add(Action.REFUSED, shown, f"{why} - {problem.do or 'its content is nowhere else on the disk'}",
                   severity=severity)
        return False
    action, how = mended
    report.add(action, shown, f"{how}; {why}", severity=Severity.WARNING)
    return True


def _mend(files: Files, cluster: Cluster, problem: StartProblem) -> tuple[Action, str] | None:
    if problem.kind in _CHECKPOINTS:
        return _mend_checkpoint(files, problem)
    if problem.kind is FileKind.PARTITION_METADATA:
        return _mend_topic_id(files, cluster, problem)
    if problem.kind is FileKind.META_PROPERTIES:
        return _mend_identity(files, cluster, problem)
    if problem.kind is FileKind.BOOTSTRAP_CHECKPOINT:
        return _mend_bootstrap(files, cluster, problem)
    if problem.kind is FileKind.QUORUM_STATE:
        _remove(files, problem.path)
        return Action.REMOVED, "the broker takes the epoch from the metadata log"
    return None


def _mend_epochs(manager: LogManager, problem: StartProblem, shown: str, report: Report) -> None:
    own = Report(parent_of(problem.path), report.operation)
    partition = partition_of(manager.files_of(problem.log_dir).absolute(problem.path))
    tiering = Tiering.UNKNOWN if partition is None else manager.tiering(partition.topic)
    is_start_lost = problem.log_dir in manager.lost_starts
    open_leader_epochs(manager.files_of(problem.log_dir), own.directory, own, tiering, is_start_lost=is_start_lost)
    why = f"{problem.effect.value}: {problem.message}"
    for event in own.events:
        how = f"rebuilt from the batches; {why}"
        report.events.append(event._replace(path=shown, reason=how))


def _remove_without_offset(files: Files, problem: StartProblem, shown: str, report: Report) -> None:
    """Remove a segment file without an offset in its name: no broker reads it."""
    with files.open(problem.path) as file:
        held = read_extent(file, 0, file.size(), None)
    _remove(files, problem.path)
    why = f"{problem.what}; {problem.effect.value}: {problem.message}"
    if held.first_offset is None:
        report.add(Action.REMOVED, shown, why, size=held.size, severity=Severity.WARNING)
    else:
        advice = f"as {log_file_name(held.first_offset)} a broker would read it"
        held.note(report, Action.REMOVED, shown, f"{why}; {advice}", severity=Severity.ERROR)


def _remove(files: Files, path: str) -> None:
    files.remove(path)
    files.sync_directory(parent_of(path))


def _mend_checkpoint(files: Files, problem: StartProblem) -> tuple[Action, str]:
    """Keep the valid lines, except of recovery points: it is safer to recover a log once more than necessary."""
    if problem.kind is not FileKind.RECOVERY_POINT_CHECKPOINT:
        entries = read_offset_checkpoint(files, problem.path).entries
        sound = [entry for entry in entries
                 if entry.partition >= 0 and entry.offset >= 0
                 and files.exists(f"{problem.log_dir}/{entry.topic}-{entry.partition}")]
        if sound:
            replace(files, problem.path, [encode_offset_checkpoint(sound)])
            return Action.REBUILT, f"{len(sound)} valid lines are kept"
    _remove(files, problem.path)
    return Action.REMOVED, "no valid line was read"


def _mend_topic_id(files: Files, cluster: Cluster, problem: StartProblem) -> tuple[Action, str] | None:
    partition = next(one for log_dir in cluster.log_dirs for one in log_dir.directories if problem.is_in(one))
    topic_id, source = find_topic_id(files, cluster, partition)
    own = _before_zeros(files, problem.path)
    if own is not None and (topic_id is None or source != cluster.metadata_dir):
        topic_id, source = own, "the file itself, before the zeros of an unfinished write"
    if topic_id is None:
        return None
    write_topic_id(files, problem.path, topic_id)
    return Action.REBUILT, f"the topic's id {topic_id} is in {source}"


def _before_zeros(files: Files, path: str) -> str | None:
    """The topic id in the partition.metadata at `path`, if zeros of an unfinished write follow it."""
    info = look(files, path)
    if info is None or not info.is_file:
        return None
    decoded = read_identity(files, path, lambda data, _: decode_partition_metadata(data.rstrip(b"\0"), path)).value
    return None if decoded is None else decoded.topic_id


def _mend_identity(files: Files, cluster: Cluster, problem: StartProblem) -> tuple[Action, str] | None:
    """Rebuild meta.properties from the other log dirs, and the directory's own id from the metadata log."""
    if cluster.cluster_id is None or cluster.node_id is None:
        return None
    directory_id = _directory_id(cluster, problem.log_dir)
    own = "" if directory_id is None else f"directory.id={directory_id}\n"
    node = f"node.id={cluster.node_id}\n{own}version=1" if cluster.is_kraft else f"broker.id={cluster.node_id}\nversion=0"
    text = f"#\n{node}\ncluster.id={cluster.cluster_id}\n"
    replace(files, problem.path, [text.encode()])
    from_metadata = "" if directory_id is None else ", the directory's own id from the metadata log"
    return Action.REBUILT, f"cluster and broker are those of the other log dirs{from_metadata}"


def _directory_id(cluster: Cluster, log_dir: str) -> str | None:
    """The directory id that the metadata log has for most of the partitions in `log_dir`; None: it has none."""
    if cluster.metadata is None or cluster.node_id is None:
        return None
    used = {identity.directory_id for identity in cluster.identities.values()}
    found: Counter[str] = Counter()
    for one in cluster.log_dirs:
        for partition in one.partitions() if one.path == log_dir else ():
            directory_id = cluster.metadata.directory_of(*partition.key, cluster.node_id)
            if directory_id is not None and directory_id not in used and directory_id.strip("A"):
                found[directory_id] += 1
    return found.most_common(1)[0][0] if found else None


def _mend_bootstrap(files: Files, cluster: Cluster, problem: StartProblem) -> tuple[Action, str]:
    name = FileKind.BOOTSTRAP_CHECKPOINT.value
    for log_dir in cluster.log_dirs:
        path = f"{log_dir.path}/{name}"
        if path == problem.path or not files.exists(path):
            continue
        findings: list[Finding] = []
        with files.open(path) as file:
            batches = sum(batch.is_valid for batch in read_batches(file, findings.append))
            if batches and not findings:
                replace(files, problem.path, [file.read(0, file.size())])
                return Action.REBUILT, f"copied from {path}"
    _remove(files, problem.path)
    return Action.REMOVED, "a broker needs it only while the metadata log is empty"
