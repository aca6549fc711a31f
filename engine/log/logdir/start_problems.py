"""What stops a starting broker, takes its log dirs offline or renames partitions to -stray, in the files of its log dirs.

Each `StartProblem` quotes the broker's message. Verified with Kafka 4.3.1. Mirrors KafkaRaftServer.initializeLogDirs,
LogManager.loadLogs and BrokerMetadataPublisher. Damage inside logs is not searched here, except in the metadata log: without it
every topic is lost.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.checkpoint.checkpoints import MalformedCheckpoint, checkpoint_fault, load_leader_epochs
from engine.checkpoint.identity import (
    ENDS_EARLY,
    decode_meta_properties,
    decode_partition_metadata,
    decode_quorum_state,
    read_identity,
    unknown_quorum_version,
)
from engine.checkpoint.producer_snapshot import ProducerSnapshot
from engine.discovery.choice import EVERY_PARTITION, PartitionChoice
from engine.discovery.names import METADATA_TOPIC, FileKind, PartitionKind, file_name, offset_of, parent_of
from engine.discovery.paths import STAGING, undo_advice
from engine.errors import UnreadableFile, UsageError, argument
from engine.findings import Finding, Where
from engine.log.logdir.cluster_metadata import METADATA_DIR
from engine.log.logdir.log_dirs import choose_partitions, files_without_offset, find_log_dirs
from engine.log.logdir.startup import Cluster, is_a_brokers, survey_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.files import ReadOnlyFiles
    from engine.log.logdir.log_dirs import LogDir, PartitionPath


class Effect(Enum):
    """The effect of a problem on a start."""

    STOPS = "a broker does not start"
    OFFLINE = "a broker takes the log dir offline"
    STRAYS = "a broker renames the directory to -stray and starts with an empty partition"
    LOSES_TOPICS = ("a broker starts, truncates the metadata log there, and renames every partition it then does not know to "
                    "-stray")
    UNSERVED = "a broker starts, and neither leads nor follows the partition"
    WARNS = "a broker starts without it"


class StartProblem(NamedTuple):
    """A problem for a starting broker.

    name   path below the log dir
    message  the broker's message, with … for parts that only it knows; None: it logs nothing
    what   our description
    kind   of the file, None for directories
    do     what the user can do if kafkalog cannot repair it
    """

    effect: Effect
    log_dir: str
    name: str
    message: str | None
    what: str
    kind: FileKind | None = None
    do: str | None = None

    @property
    def path(self) -> str:
        """The path, with the log dir spelled as in `log_dir`."""
        return f"{self.log_dir.rstrip('/')}/{self.name}".rstrip("/")

    def is_in(self, partition: PartitionPath) -> bool:
        """Is it about a file in the partition at `partition`, whatever the spelling of its path?"""
        return self.log_dir == partition.log_dir and self.name.startswith(f"{file_name(partition.path)}/")


def find_start_problems(files: ReadOnlyFiles, cluster: Cluster) -> list[StartProblem]:
    """Find all problems of a starting broker in the log dirs, or in the partitions that were named."""
    found: list[StartProblem] = []
    for log_dir in cluster.log_dirs:
        if log_dir.is_whole:
            found += _identity(files, cluster, log_dir)
            found += _foreign(files, log_dir)
            found += _checkpoints(files, cluster, log_dir)
        for partition in log_dir.directories:
            found += _readable_partition(files, cluster, partition)
    found += _duplicates(files, cluster)
    losses = list(_metadata(cluster))
    if any(problem.effect is Effect.LOSES_TOPICS for problem in losses):  # which strays it makes is a part of that problem
        found = [problem for problem in found if problem.effect is not Effect.STRAYS or problem.kind is not None]
    found += losses
    order = [Effect.LOSES_TOPICS, Effect.STOPS, Effect.OFFLINE, Effect.STRAYS, Effect.UNSERVED, Effect.WARNS]
    return sorted(found, key=lambda problem: order.index(problem.effect))


# ---- the log dir


def _identity(files: ReadOnlyFiles, cluster: Cluster, log_dir: LogDir) -> Iterator[StartProblem]:
    name = FileKind.META_PROPERTIES.value
    path = f"{log_dir.path}/{name}"
    identity = cluster.identities.get(log_dir.path)
    if not files.exists(path):
        if not cluster.is_kraft:
            return  # such a broker creates the file
        message = f"No `meta.properties` found in {log_dir.path} (have you run `kafka-storage.sh` to format the directory?)"
        do = ("copy it from another log dir of this broker and give it a directory.id of its own; or name partitions, not the "
              "log dir")
        yield StartProblem(Effect.STOPS, log_dir.path, name, message, "the file is missing", FileKind.META_PROPERTIES, do)
    elif identity is None or (identity.node_id is None and cluster.is_kraft):
        yield _unreadable_identity(files, cluster, log_dir)
    elif identity.cluster_id not in (None, cluster.cluster_id):
        read = sorted((files.absolute(one), each.cluster_id) for one, each in cluster.identities.items()
                      if each.cluster_id is not None)  # in this order
        wrong, its_id = next((one, each) for one, each in read if each != read[0][1])
        message = f"Invalid cluster.id in: {wrong}/{name}. Expected {read[0][1]}, but read {its_id}"
        do = "find out which disk belongs to which cluster; this log dir does not belong with the others"
        yield StartProblem(Effect.STOPS, log_dir.path, name, message, "the log dir belongs to another cluster", None, do)
    elif identity.node_id != cluster.node_id:
        message = (f"Stored node id {identity.node_id} doesn't match previous node id {cluster.node_id} in "
                   f"{files.absolute(path)}")
        do = "find out which disk belongs to which broker"
        yield StartProblem(Effect.STOPS, log_dir.path, name, message, "the log dir belongs to another broker", None, do)
    else:
        yield from _same_directory_id(cluster, log_dir, identity.directory_id)
    if cluster.metadata_dir not in (None, f"{log_dir.path}/{METADATA_DIR}") and _has_metadata_log(log_dir):
        found, right = files.absolute(f"{log_dir.path}/{METADATA_DIR}"), files.absolute(parent_of(str(cluster.metadata_dir)))
        message = (f"Found unexpected metadata location in data directory `{found}` (the configured metadata directory is "
                   f"{right}).")
        do = f"compare {found} with that in {right}, then move the older one out of its log dir"
        yield StartProblem(Effect.STOPS, log_dir.path, METADATA_DIR, message, f"the metadata log is in {right} too", None, do)
    bootstrap = FileKind.BOOTSTRAP_CHECKPOINT.value
    holds_metadata = cluster.metadata_partition is not None and cluster.metadata_partition.log_dir == log_dir.path
    if bootstrap in log_dir.files and holds_metadata:
        from engine.record.batch import read_batches

        findings: list[Finding] = []
        with files.open(f"{log_dir.path}/{bootstrap}") as file:
            batches = sum(batch.is_valid for batch in read_batches(file, findings.append))
        if findings or not batches:
            what = _first(findings) if findings else "it contains no batch"
            message = ("No FeatureLevelRecord for metadata.version was found in the bootstrap metadata from the binary "
                       f"bootstrap metadata file: {files.absolute(log_dir.path)}/{bootstrap}")
            yield StartProblem(Effect.STOPS, log_dir.path, bootstrap, message, what, FileKind.BOOTSTRAP_CHECKPOINT)


def _has_metadata_log(log_dir: LogDir) -> bool:
    return any(file_name(partition.path) == METADATA_DIR for partition in log_dir.directories)


def _unreadable_identity(files: ReadOnlyFiles, cluster: Cluster, log_dir: LogDir) -> StartProblem:
    """The problem of a malformed meta.properties: one of an unknown version takes the log dir offline, others stop a broker."""
    kind = FileKind.META_PROPERTIES
    path = f"{log_dir.path}/{kind.value}"
    decoded = read_identity(files, path, decode_meta_properties)
    what = _first(decoded.findings) if decoded.findings else "it contains no node.id"
    if decoded.value is not None:
        lacks = "node ID" if decoded.value.node_id is None else "cluster ID" if decoded.value.cluster_id is None else None
        if lacks is not None:
            message = f"Error: {lacks} not found in {files.absolute(log_dir.path)}"
            return StartProblem(Effect.STOPS, log_dir.path, kind.value, message, what, kind)
    message = f"Error while reading meta.properties file {files.absolute(path)}"
    effect = _failed(cluster, log_dir.path) if cluster.identities else Effect.STOPS
    return StartProblem(effect, log_dir.path, kind.value, message, what, kind)


def _same_directory_id(cluster: Cluster, log_dir: LogDir, directory_id: str | None) -> Iterator[StartProblem]:
    """Report an earlier log dir with the same directory.id. Mirrors MetaPropertiesEnsemble.verify."""
    first = next(path for path, one in cluster.identities.items() if one.directory_id == directory_id)
    if directory_id is None or first == log_dir.path:
        return
    message = f"Duplicate directory ID Optional[{directory_id}] found. It was the ID of {first}, but also of {log_dir.path}"
    own = {path: _holds(cluster, path, directory_id) for path in (first, log_dir.path)}
    copy = first if own[first] < own[log_dir.path] else log_dir.path
    do = (f"one of the two meta.properties is a copy, likely that of {copy}: delete its line directory.id, and the broker "
          "creates a new one at its next start")
    what = f"{first} has the same directory.id"
    yield StartProblem(Effect.STOPS, log_dir.path, FileKind.META_PROPERTIES.value, message, what, None, do)


def _holds(cluster: Cluster, log_dir: str, directory_id: str) -> int:
    """Number of partitions in `log_dir` that the metadata log assigns to the directory id."""
    if cluster.metadata is None or cluster.node_id is None:
        return 0
    partitions = next((one.partitions() for one in cluster.log_dirs if one.path == log_dir), [])
    return sum(cluster.metadata.directory_of(*partition.key, cluster.node_id) == directory_id for partition in partitions)


def _foreign(files: ReadOnlyFiles, log_dir: LogDir) -> Iterator[StartProblem]:
    for name in log_dir.foreign:
        message = (
            f"Found directory {files.resolve(f'{log_dir.path}/{name}')}, '{name}' is not in the form of topic-partition or "
            "topic-partition.uniqueId-delete (if marked for deletion)."
        )
        do = f"mv {argument(f'{log_dir.path}/{name}')} somewhere outside of the log dir, or give Kafka a directory of its own"
        what = "the directory is not Kafka's"
        if name == STAGING:  # it may hold the only copy of partitions that were about to be replaced
            what, do = "Spark's sink keeps its uncommitted writes there", undo_advice(log_dir.path)
        yield StartProblem(Effect.STOPS, log_dir.path, name, message, what, None, do)


def _failed(cluster: Cluster, log_dir: str) -> Effect:
    """The effect of an unreadable file in `log_dir`: a broker cannot run without the metadata log."""
    holds_metadata = cluster.metadata_dir is not None and cluster.metadata_dir.startswith(log_dir + "/")
    return Effect.STOPS if holds_metadata else Effect.OFFLINE


_CHECKPOINTS = (
    FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.LOG_START_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT,
    FileKind.CLEANER_CHECKPOINT,
)  # fmt: skip


def _checkpoints(files: ReadOnlyFiles, cluster: Cluster, log_dir: LogDir) -> Iterator[StartProblem]:
    """Malformed checkpoints. The log cleaner reads its own as soon as it runs, even if no topic is compacted.

    Mirrors LogManager.loadLogs and LogCleanerManager.grabFilthiestCompactedLog.
    """
    effect = _failed(cluster, log_dir.path)
    for kind in _CHECKPOINTS:
        if kind.value not in log_dir.files:
            continue
        what = checkpoint_fault(files, f"{log_dir.path}/{kind.value}")
        if what is not None:
            message = f"Error while reading checkpoint file {files.absolute(log_dir.path)}/{kind.value}"
            yield StartProblem(effect, log_dir.path, kind.value, message, what, kind)


# ---- partitions


def _readable_partition(files: ReadOnlyFiles, cluster: Cluster, partition: PartitionPath) -> list[StartProblem]:
    """The problems of a partition; none if a running broker has removed it."""
    try:
        return list(_partition(files, cluster, partition))
    except UnreadableFile as error:
        if not files.exists(partition.path):
            return []
        name, what = f"{file_name(partition.path)}/", str(error).removeprefix(f"{partition.path}: ")
        message = f"Error while loading log dir {files.absolute(partition.log_dir)}"
        do = error.do or "check permissions and owner, and the disk itself"
        return [StartProblem(_failed(cluster, partition.log_dir), partition.log_dir, name, message, what, None, do)]


def _partition(files: ReadOnlyFiles, cluster: Cluster, partition: PartitionPath) -> Iterator[StartProblem]:
    names = set(files.list(partition.path))
    directory = file_name(partition.path)
    absolute = files.absolute(partition.path)
    if FileKind.LEADER_EPOCH_CHECKPOINT.value in names:
        path = f"{partition.path}/{FileKind.LEADER_EPOCH_CHECKPOINT.value}"
        name = f"{directory}/{FileKind.LEADER_EPOCH_CHECKPOINT.value}"
        try:
            _, epochs = load_leader_epochs(files, path)
            wrong = next((one for one in epochs if one.epoch < 0 or one.start_offset < 0), None)
            if wrong is not None:
                message = ("Received invalid partition leader epoch entry "
                           f"EpochEntry[epoch={wrong.epoch}, startOffset={wrong.start_offset}]")
                what = "a leader epoch or its start offset is negative"
                yield StartProblem(Effect.STOPS, partition.log_dir, name, message, what, FileKind.LEADER_EPOCH_CHECKPOINT)
        except MalformedCheckpoint as error:
            message = f"Error while reading checkpoint file {absolute}/{FileKind.LEADER_EPOCH_CHECKPOINT.value}"
            effect = _failed(cluster, partition.log_dir)
            yield StartProblem(effect, partition.log_dir, name, message, str(error), FileKind.LEADER_EPOCH_CHECKPOINT)
    yield from _topic_id(files, cluster, partition, names)
    if FileKind.QUORUM_STATE.value in names and partition.name.topic == METADATA_TOPIC:
        path = f"{partition.path}/{FileKind.QUORUM_STATE.value}"
        findings = read_identity(files, path, decode_quorum_state).findings
        if findings:
            message = f"Error while reading the Quorum status from the file {absolute}/{FileKind.QUORUM_STATE.value}"
            version = read_identity(files, path, unknown_quorum_version).value
            if version is not None:
                message = f"data_version ({version}) is not within the min (0) and max (1) supported version"
            name = f"{directory}/{FileKind.QUORUM_STATE.value}"
            yield StartProblem(Effect.STOPS, partition.log_dir, name, message, _first(findings), FileKind.QUORUM_STATE)
    for one in files_without_offset(files, partition.path, names):
        yield StartProblem(Effect.STOPS, partition.log_dir, f"{directory}/{one.name}", one.message, "the file name contains no "
                                                                                        "offset", one.kind)
    snapshots = [name for name in names if name.endswith(FileKind.PRODUCER_SNAPSHOT.value) and offset_of(name) is not None]
    if snapshots:  # names have 20 digits; a broker reads the latest one, and others only if that one is corrupt
        latest = max(snapshots)
        problem = ProducerSnapshot.read(files, f"{partition.path}/{latest}").error()
        if problem is not None:
            yield StartProblem(
                Effect.WARNS, partition.log_dir, f"{directory}/{latest}", problem, "the producer snapshot is corrupt",
                FileKind.PRODUCER_SNAPSHOT,
            )


def _topic_id(files: ReadOnlyFiles, cluster: Cluster, partition: PartitionPath, names: set[str]) -> Iterator[StartProblem]:
    kind = FileKind.PARTITION_METADATA
    path = f"{partition.path}/{kind.value}"
    name = f"{file_name(partition.path)}/{kind.value}"
    lives = partition.name.kind in (PartitionKind.PLAIN, PartitionKind.FUTURE) and partition.name.topic != METADATA_TOPIC
    if kind.value not in names:
        if lives and cluster.is_kraft and (cluster.metadata is not None or cluster.identities):
            message = f"The topicId does not exist in Log(dir={files.absolute(partition.path)}, …), treat it as a stray log."
            missing = StartProblem(Effect.STRAYS, partition.log_dir, name, message, "the file is missing", kind)
            stray = _stray_by_name(files, cluster, partition)
            if stray is not None:
                missing = missing._replace(what=f"{missing.what}, and {stray.what}", kind=None, do=stray.do)
            yield missing
        return
    decoded = read_identity(files, path, decode_partition_metadata)
    if decoded.value is None:
        fault, effect = _first(decoded.findings), _failed(cluster, partition.log_dir)
        message = f"Error while reading partition metadata file {files.absolute(path)}"
        if fault == ENDS_EARLY:  # a broker splits the line that is not there
            effect, message = Effect.STOPS, 'Cannot invoke "java.lang.CharSequence.length()" because "this.text" is null'
        yield StartProblem(effect, partition.log_dir, name, message, fault, kind)
        stray = _stray_by_name(files, cluster, partition) if lives else None
    else:
        topic_id = decoded.value.topic_id.rstrip("=")
        stray = (_stray(files, cluster, partition, topic_id) or _other_topic(cluster, partition, topic_id)) if lives else None
    if stray is not None:
        yield stray


def _stray_by_name(files: ReadOnlyFiles, cluster: Cluster, partition: PartitionPath) -> StartProblem | None:
    """The problem of a partition that will get the topic id which the metadata log has for its name."""
    topic = None if cluster.metadata is None else cluster.metadata.by_name(partition.name.topic)
    return None if topic is None else _stray(files, cluster, partition, topic.topic_id)


def _stray(files: ReadOnlyFiles, cluster: Cluster, partition: PartitionPath, topic_id: str) -> StartProblem | None:
    """The problem of a partition whose topic has that id, according to valid metadata. Mirrors LogManager.isStrayReplica."""
    if cluster.metadata is None or cluster.metadata.findings:
        return None
    name = f"{file_name(partition.path)}/{FileKind.PARTITION_METADATA.value}"
    log = f"Log(dir={files.absolute(partition.path)}, …)"
    topic = cluster.metadata.topics.get(topic_id)
    replicas = () if topic is None else topic.replicas.get(partition.name.partition, ())
    if not replicas:
        message = f"Found stray log dir {log}: the topicId {topic_id} does not exist in the metadata image."
        do = "check whether the topic was deleted, or whether this is a disk of another cluster"
        what = "the metadata log has no such topic"
        if topic is not None:
            do = f"its topic has {count_of(len(topic.replicas), 'partition')}: move the directory out of the log dir"
            what = "the metadata log has no such partition of the topic"
        return StartProblem(Effect.STRAYS, partition.log_dir, name, message, what, None, do)
    if cluster.node_id is not None and cluster.node_id not in replicas:
        message = (f"Found stray log dir {log}: the current replica assignment {list(replicas)} does not contain the local "
                f"brokerId {cluster.node_id}.")
        return StartProblem(Effect.STRAYS, partition.log_dir, name, message, "the partition is assigned to other brokers", None,
                       "nothing to do if the replica was moved")
    return None


def _other_topic(cluster: Cluster, partition: PartitionPath, topic_id: str) -> StartProblem | None:
    """The problem of a partition with the id of a topic that has another name. Mirrors LogManager.getOrCreateLog."""
    topic = None if cluster.metadata is None or cluster.metadata.findings else cluster.metadata.topics.get(topic_id)
    if cluster.metadata is None or topic is None or topic.name == partition.name.topic:
        return None
    named, own = cluster.metadata.by_name(partition.name.topic), f"{partition.name.topic}-{partition.name.partition}"
    what = f"it has the topic id of {topic.name}"
    message = None if named is None else (f"Tried to assign topic ID {named.topic_id} to log for topic partition {own},but log "
                                          f"already contained topic ID {topic_id}")
    if named is None:
        what += f", and the metadata log has no topic {partition.name.topic}"
    do = (f"find out whose records it has: kafkalog fetch --limit 5 {argument(partition.path)}; then rename the directory, or "
          f"put its own {FileKind.PARTITION_METADATA.value} back")
    name = f"{file_name(partition.path)}/{FileKind.PARTITION_METADATA.value}"
    return StartProblem(Effect.UNSERVED, partition.log_dir, name, message, what, None, do)


def _duplicates(files: ReadOnlyFiles, cluster: Cluster) -> Iterator[StartProblem]:
    for kind in (PartitionKind.PLAIN, PartitionKind.FUTURE):
        seen: dict[tuple[str, int], PartitionPath] = {}
        for log_dir in cluster.log_dirs:
            for partition in log_dir.partitions(kind):
                first = seen.setdefault(partition.key, partition)
                if first is partition:
                    continue
                both = f"{files.absolute(first.path)} and {files.absolute(partition.path)}"
                message = (f"Duplicate log directories for {partition.key[0]}-{partition.key[1]} are found in both {both}."
                        if kind is PartitionKind.PLAIN else f"Duplicate log directories found: {partition.path}, {first.path}")
                yield StartProblem(Effect.STOPS, partition.log_dir, file_name(partition.path), message,
                              f"{first.path} holds the same partition", None, _which(cluster, first, partition))


def _which(cluster: Cluster, first: PartitionPath, second: PartitionPath) -> str:
    """Advice on two directories of one partition: the metadata log may know which one is right."""
    node_id = cluster.node_id
    if cluster.metadata is not None and node_id is not None:
        holder = cluster.metadata.directory_of(*first.key, node_id)
        for keep, other in ((first, second), (second, first)):
            identity = cluster.identities.get(keep.log_dir)
            if identity is not None and identity.directory_id == holder is not None:
                return f"the metadata log assigns the partition to {keep.log_dir}: move {other.path} out of its log dir"
    return f"compare both with `kafkalog verify`, then move one out of its log dir: {first.path} or {second.path}"


def _metadata(cluster: Cluster) -> Iterator[StartProblem]:
    proof, partition, metadata = cluster.proof, cluster.metadata_partition, cluster.metadata
    snapshot = None if metadata is None else metadata.snapshot
    if metadata is not None and snapshot is not None and metadata.snapshot_fault is not None and partition is not None:
        do = (f"mv {argument(snapshot.path)} somewhere outside of the log dir, if the log still has the records before offset "
              f"{snapshot.end_offset}; else copy it from another controller")
        name, message = f"{METADATA_DIR}/{file_name(snapshot.path)}", str(metadata.snapshot_fault)
        yield StartProblem(Effect.STOPS, partition.log_dir, name, message, "the newest snapshot is corrupt", None, do)
    if proof is None or partition is None or not proof.is_lossy:
        return
    strays = unknown_partitions(cluster)
    if not strays and snapshot is not None and snapshot.end_offset >= proof.offset:
        return  # a broker empties the log, and continues with the snapshot
    message = f"Corruption found in segment {proof.segment}, truncating to offset {proof.offset}"
    what = (f"{proof.what}; a broker would delete {count_of(proof.lost_batches, 'sound batch')} after it and rename "
            f"{count_of(len(strays), 'partition directory')} to -stray")
    do = "copy the metadata log from another controller, or continue with --accept-metadata-loss"
    yield StartProblem(Effect.LOSES_TOPICS, partition.log_dir, f"{METADATA_DIR}/{proof.file}", message, what, None, do)


def unknown_partitions(cluster: Cluster) -> list[PartitionPath]:
    """The partitions whose topic the metadata log does not have."""
    known = {} if cluster.metadata is None else cluster.metadata.named
    return [one for log_dir in cluster.log_dirs for one in log_dir.partitions()
            if one.name.topic not in known and one.name.topic != METADATA_TOPIC]


def _first(findings: list[Finding]) -> str:
    return findings[0].what


_CODES = {
    Effect.STOPS: "broker-stops",
    Effect.OFFLINE: "log-dir-offline",
    Effect.STRAYS: "partition-stray",
    Effect.LOSES_TOPICS: "metadata-loss",
    Effect.UNSERVED: "topic-id-mismatch",
    Effect.WARNS: "broker-warns",
}


def finding_of(problem: StartProblem) -> Finding:
    """The finding about a problem. Its advice is that of the problem, unless `recover` may repair the file."""
    step = problem.do if problem.kind is None else None
    return Finding(_CODES[problem.effect], Where(problem.path), _text(problem), step=step)


def _text(problem: StartProblem) -> str:
    return problem.what if problem.message is None else f"{problem.what}; a broker says: {problem.message}"


def survey_start(
    files: ReadOnlyFiles, paths: Iterable[str], report: Callable[[Finding], None],
    choice: PartitionChoice = EVERY_PARTITION,
) -> list[Cluster]:
    """Survey the log dirs around `paths`, for each of their brokers, and report problems of a start.

    Log dirs that `paths` name as a whole, or contain, are checked together, as at a start. For partitions that are named
    alone, or are a part of them by `choice`, only problems that stop a broker or take their log dir offline are reported,
    unless the file is verified anyway. Raises UnreadableFile, and UsageError if there is no chosen partition.
    """
    log_dirs: dict[str, LogDir] = {}
    for path in paths:
        try:
            found = find_log_dirs(files, [path if files.info(path).is_directory else parent_of(files.absolute(path))])
        except (UsageError, UnreadableFile):
            continue  # not a path of Kafka's; the search for partitions there reports what cannot be read
        if not files.info(path).is_directory:
            found = [one for one in found if not one.is_whole]  # a file of the log dir itself is independent of the others
        for one in found:
            known = log_dirs.get(one.path)
            log_dirs[one.path] = one if known is None or not known.is_whole else known
    clusters = survey_all(files, list(log_dirs.values()))
    chosen = {one.path: one for one in choose_partitions(list(log_dirs.values()), choice)}
    for cluster in clusters:
        named = tuple(chosen[one.path] for one in cluster.log_dirs if one.path in chosen)
        _report_start(files, replace(cluster, log_dirs=named), report)
    return clusters


def _report_start(files: ReadOnlyFiles, cluster: Cluster, report: Callable[[Finding], None]) -> None:
    if not is_a_brokers(files, cluster):
        return
    are_whole = all(one.is_whole for one in cluster.log_dirs)
    for problem in find_start_problems(files, cluster):
        if are_whole:
            # verifying the log reports its producer snapshots
            is_due = problem.effect is not Effect.WARNS or problem.kind is not FileKind.PRODUCER_SNAPSHOT
        else:
            is_due = problem.effect in (Effect.STOPS, Effect.OFFLINE) and problem.kind is not FileKind.LEADER_EPOCH_CHECKPOINT
        if is_due:
            report(finding_of(problem))
