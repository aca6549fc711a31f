"""Decide where a deleted partition is put back, and under which topic id; or why it cannot be, and what to do then."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.checkpoint.identity import read_topic_id
from engine.discovery.names import FileKind, file_name, is_topic_name, log_base_offsets, parse_file_name
from engine.errors import KafkalogError, argument
from engine.files import LINK
from engine.image.partition import RESERVED_DIRECTORIES
from engine.log.operations.deleted import DIRECTORIES, Deleted, Kind, topic_by_id
from engine.log.operations.mending import check_topic_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.files import ReadOnlyFiles
    from engine.log.logdir.cluster_metadata import ClusterMetadata, Topic
    from engine.log.logdir.startup import Cluster

_LOG = FileKind.LOG.value


class NotUndeleted(KafkalogError):
    """A deleted partition that cannot be put back now. Nothing was written for it."""

    code = "not-undeleted"
    exit_status = 4


class Target(NamedTuple):
    """Where a deleted partition is put back.

    keeps_epochs  the topic is the same as before: leader epochs in the batches are those of its history
    node_id       of this broker; replicas  all brokers that have the partition
    """

    log_dir: str
    directory: str
    topic: str
    partition: int
    topic_id: str
    keeps_epochs: bool
    node_id: int | None
    replicas: tuple[int, ...]
    notes: tuple[str, ...] = ()


class TargetFinder:
    """Finds the targets of deleted partitions in the log dirs of one broker.

    found        all deleted partitions there
    wanted       the topic id to put them back under; None: the id of the topic with their name
    needs_topic  without `wanted`: the topic must be the same as before, not a new one with its name
    """

    def __init__(
        self, files: ReadOnlyFiles, cluster: Cluster, found: Sequence[Deleted], *, wanted: str | None = None,
        needs_topic: bool = False,
    ) -> None:  # fmt: skip
        if wanted is not None:
            check_topic_id(wanted)
        self._files, self._cluster, self._found = files, cluster, found
        self._wanted, self._needs_topic = wanted, needs_topic

    def target(self, one: Deleted) -> Target:
        """Return the target of a directory. Raises NotUndeleted, UnreadableFile."""
        if one.kind is Kind.OPEN_UNLINKED:
            what = f"{one.path}: removed under the running broker {one.process}, which still holds the records"
            do = f"kafkalog undelete --to DIR {argument(one.log_dir)}    # copy them before the broker stops"
            raise NotUndeleted(what, do)
        topic, topic_id = self._topic(one)
        replicas = () if topic is None else self._replicas(one, topic)
        name = one.topic if topic is None else topic.name
        assert name is not None  # `_topic` has refused a name that is not known
        self._refuse_rivals(one)
        log_dir = self._log_dir(one, name, topic)
        directory = f"{log_dir.rstrip('/')}/{name}-{one.partition}"
        if self._files.special(log_dir).get(file_name(directory)) == LINK:
            raise NotUndeleted(f"{directory}: {LINK}, which is not replaced", f"rm {argument(directory)}    # the link only")
        unknown = (
            f"the metadata log was not found, or has no topic with id {topic_id}: if the cluster has none, a broker "
            "renames the directory to -stray"
        )
        is_same, notes = topic_id == one.topic_id, () if topic is not None else (unknown,)
        return Target(log_dir, directory, name, one.partition, topic_id, is_same, self._cluster.node_id, replicas, notes)

    def _topic(self, one: Deleted) -> tuple[Topic | None, str]:
        """Return the topic in the metadata log, and the id to write. None: the metadata log does not have it."""
        metadata = self._cluster.metadata
        if self._wanted is not None:
            topic = None if metadata is None or metadata.findings else metadata.topics.get(self._wanted)
            if metadata is not None and self._wanted in metadata.removed:
                what = f"{self._wanted} is the id of a deleted topic: a broker would rename the directory to -stray"
                raise NotUndeleted(what, "create the topic again, and give its new id, or use --as-new-topic")
            if topic is None and (one.topic is None or not is_topic_name(one.topic)):
                raise NotUndeleted(f"{one.path}: the topic's name is not known", "name the log dir with the metadata log too")
            return topic, self._wanted
        metadata = self._readable_metadata(one)
        if one.topic is None:
            what = f"{one.path}: the name of the topic is shortened here, and the metadata log has no topic with its id"
            raise NotUndeleted(what, "kafkalog undelete --topic-id ID …    # the id of the topic that takes the records")
        topic = metadata.by_name(one.topic)
        if topic is None:
            raise NotUndeleted(f"{one.path}: the metadata log has no topic {one.topic}", self._create(one))
        if self._needs_topic and topic.topic_id != one.topic_id:
            what = f"{one.path}: of a deleted topic {one.topic}; the topic that has this name now is another one"
            raise NotUndeleted(what, f"kafkalog undelete --as-new-topic --dry-run {argument(one.path)}    # into the new topic")
        return topic, topic.topic_id

    def _readable_metadata(self, one: Deleted) -> ClusterMetadata:
        """Return the metadata. The rest of an interrupted write at its end, which a broker truncates, does not matter."""
        metadata, proof = self._cluster.metadata, self._cluster.proof
        if metadata is None:
            what = f"{one.path}: the metadata log of the cluster is in none of the given log dirs"
            raise NotUndeleted(what, "name all log dirs of the broker, or give --config-file; or --topic-id ID without it")
        if metadata.findings and (proof is None or proof.is_lossy):
            what = f"{self._cluster.metadata_dir}: the metadata log is damaged: {metadata.findings[0].what}"
            raise NotUndeleted(what, f"kafkalog check {argument(one.log_dir)}    # says what a broker would do")
        return metadata

    def _create(self, one: Deleted) -> str:
        """Advice if the topic is to be created again; a started broker removes the directory."""
        count, place = self._old_count(one) or max(self._seen(one)) + 1, argument(one.log_dir)
        steps = (f"start the broker, kafka-topics.sh --create --topic {argument(one.topic or '')} --partitions {count} "
                 "--config retention.ms=-1, stop it, and: kafkalog undelete --as-new-topic")
        if one.kind is Kind.COPY:
            return f"{steps} {place} LOGDIR…"
        first = f"kafkalog undelete --to DIR {place}    # a started broker removes {file_name(one.path)}"
        return f"{first}; then {steps} DIR LOGDIR…"

    def _replicas(self, one: Deleted, topic: Topic) -> tuple[int, ...]:
        """Return the brokers with the partition. Raises NotUndeleted if the topic does not fit, or has no replica here."""
        self._refuse_other_count(one, topic)
        replicas, node_id = topic.replicas[one.partition], self._cluster.node_id
        if node_id is None:
            what = f"{one.log_dir}: the log dirs have no meta.properties that names their broker"
            raise NotUndeleted(what, "name the log dirs of the broker that will have the partition too")
        if node_id not in replicas:
            nodes = ", ".join(map(str, replicas))
            what = f"{one.path}: {topic.name}-{one.partition} has replicas on {nodes}, not on this broker, {node_id}"
            do = f"kafkalog undelete --to DIR {argument(one.path)}    # then put the copy back on one of these brokers"
            raise NotUndeleted(what, do)
        return replicas

    def _refuse_other_count(self, one: Deleted, topic: Topic) -> None:
        """Raise NotUndeleted if the topic has another number of partitions than it had before: keys would be in wrong ones."""
        count, old, seen = len(topic.replicas), self._old_count(one), max(self._seen(one)) + 1
        is_unknown = old is None and self._wanted is None and one.topic_id != topic.topic_id
        if is_unknown and seen != count:
            what = (f"{one.path}: the new topic {topic.name} has {count_of(count, 'partition')}; how many the old one had is "
                    f"not known: partitions up to {seen - 1} are here")
            do = f"kafkalog undelete --topic-id {topic.topic_id} …    # if the old topic had {count}; name all log dirs first"
            raise NotUndeleted(what, do)
        if (old is not None and old != count) or one.partition not in topic.replicas:
            had = f"there is no partition {one.partition}" if old is None else f"the old one had {old}"
            what = (f"{one.path}: topic {topic.name} has {count_of(count, 'partition')}, and {had}: keys would be in other "
                    "partitions than producers choose")
            raise NotUndeleted(what, f"delete the new topic, and create it with --partitions {seen if old is None else old}")

    def _old_count(self, one: Deleted) -> int | None:
        """Return the number of partitions of the topic when it was deleted; None: its records are compacted away."""
        metadata = self._cluster.metadata
        topic = None if one.topic_id is None or metadata is None else topic_by_id(metadata, one.topic_id)
        return None if topic is None else len(topic.replicas)

    def _seen(self, one: Deleted) -> set[int]:
        """Return the numbers of the deleted partitions of the same topic that were found."""
        same = (other for other in self._found if (other.topic, other.topic_id) == (one.topic, one.topic_id))
        return {one.partition, *(other.partition for other in same)}

    def _refuse_rivals(self, one: Deleted) -> None:
        """Raise NotUndeleted if other records than these could be meant: those of another topic that had the same name."""
        same = candidates(one, self._found)
        leads = [other for other in same if other.kind is Kind.COPY] or same
        for other in leads if one in leads else ():
            is_known = one.topic_id is not None and one.topic_id == other.topic_id
            if not is_known and contents(other) != contents(one):
                raise NotUndeleted(f"{one.path}: {other.path} holds deleted records of {one.name} too", self.choose(one))

    def choose(self, one: Deleted) -> str:
        """Advice if this directory is to be put back, and no other one of the same partition."""
        if one.kind is Kind.COPY:
            return f"kafkalog undelete {self._way()} {argument(one.path)} LOGDIR…    # without the other one"
        if any(other.kind is Kind.COPY for other in candidates(one, self._found)):
            topic = argument(one.topic or "")
            return f"kafkalog undelete {self._way()} --topic {topic} --partition {one.partition} LOGDIR…    # without the copy"
        return f"kafkalog undelete --to DIR {argument(one.path)}    # then name DIR and the log dirs: a copy is preferred"

    def _way(self) -> str:
        return "--as-new-topic" if self._wanted is None else f"--topic-id {self._wanted}"

    def _log_dir(self, one: Deleted, name: str, topic: Topic | None) -> str:
        """Return the log dir of the target: the assigned one, else that which has the directory, else that of the source."""
        cluster, node_id = self._cluster, self._cluster.node_id
        own = [log_dir.path for log_dir in cluster.log_dirs if log_dir.path in cluster.identities]  # those that are locked
        ids = {cluster.identities[path].directory_id: path for path in own}
        there = [path for path in own if self._files.exists(f"{path}/{name}-{one.partition}")]
        if len(there) > 1:
            raise NotUndeleted(
                f"{there[0]} and {there[1]} both have {name}-{one.partition}: no broker starts with them",
                f"kafkalog check {' '.join(map(argument, there))}",
            )
        assigned = None
        if topic is not None and node_id is not None and cluster.metadata is not None:
            assigned = cluster.metadata.directory_of(topic.name, one.partition, node_id)
        if assigned is not None and assigned not in RESERVED_DIRECTORIES:
            if assigned not in ids:
                what = (
                    f"{one.path}: {name}-{one.partition} is assigned to a log dir that was not named ({assigned})"
                )
                raise NotUndeleted(what, "name all log dirs of the broker, or give --config-file")
            if there and there[0] != ids[assigned]:
                raise NotUndeleted(
                    f"{there[0]} has {name}-{one.partition}, and the metadata log assigns it to {ids[assigned]}",
                    f"kafkalog check {argument(there[0])} {argument(ids[assigned])}",
                )
            return ids[assigned]
        if there:
            return there[0]
        if one.log_dir in own:
            return one.log_dir
        raise NotUndeleted(
            f"{one.path}: no broker's log dir was named that has {name}-{one.partition}", "name the log dirs of the broker too"
        )

    # ---- what is at the target

    def has_same_segments(self, target: Target, one: Deleted) -> bool:
        """Does the target have the segments of the source, under the id that it would get? Then it was put back before."""
        if not self._files.exists(target.directory):
            return False
        is_same = self._sizes(target.directory) == {segment.base_offset: segment.size for segment in one.segments}
        return is_same and read_topic_id(self._files, target.directory) == target.topic_id

    def refuse_records(self, target: Target) -> None:
        """Raise NotUndeleted if the target has, or had, a record."""
        if not self._files.exists(target.directory):
            return
        names = self._files.list(target.directory)
        sizes = {name: self._files.info(f"{target.directory}/{name}").size for name in names
                 if (parsed := parse_file_name(name)) is not None and parsed.kind is FileKind.LOG}  # fmt: skip
        full = next((name for name, size in sorted(sizes.items()) if size), None)
        bases = log_base_offsets(names)
        if full is not None or any(bases):
            why = f"{full} has {sizes[full]} bytes" if full is not None else f"its log ended at offset {max(bases)}"
            what = f"{target.directory}: not empty: {why}; records that were written to the new topic are not replaced"
            do = f"kafkalog ls {argument(target.directory)}    # or put it back into another, empty topic with --topic-id ID"
            raise NotUndeleted(what, do)

    def _sizes(self, directory: str) -> dict[int, int]:
        names = self._files.list(directory)
        return {base: self._files.info(f"{directory}/{base:020d}{_LOG}").size for base in log_base_offsets(names)}


def candidates(one: Deleted, found: Sequence[Deleted]) -> list[Deleted]:
    """Return the directories from which the partition of `one` could be put back: copies first."""
    same = [other for other in found
            if other.kind in DIRECTORIES and (other.topic, other.partition) == (one.topic, one.partition)]  # fmt: skip
    return sorted(same, key=lambda other: other.kind is not Kind.COPY)


def contents(one: Deleted) -> tuple[str | None, list[tuple[int, int]]]:
    """Return the topic id and the segments: directories with the same ones are copies of each other, unless one is damaged."""
    return one.topic_id, [(segment.base_offset, segment.size) for segment in one.segments]
