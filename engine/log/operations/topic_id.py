"""Whose a partition is: the id of its topic, found in what else is on the disk, and the file that keeps it.

A broker renames a partition without partition.metadata, or with an id that its metadata do not know, to -stray.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.checkpoint.identity import ZERO_UUID, decode_partition_metadata, is_uuid, read_identity
from engine.errors import UsageError
from engine.files import replace
from engine.layout import METADATA_TOPIC, FileKind, PartitionKind, parse_partition_dir
from engine.log.report import Action

if TYPE_CHECKING:
    from engine.files import Files, ReadOnlyFiles
    from engine.log.logdir.log_dirs import Place
    from engine.log.logdir.startup import Cluster
    from engine.log.report import Report

_METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"  # Uuid.METADATA_TOPIC_ID
_ALIVE = (PartitionKind.PLAIN, PartitionKind.FUTURE)
_NAME = FileKind.PARTITION_METADATA.value


def find_topic_id(files: ReadOnlyFiles, cluster: Cluster, place: Place) -> tuple[str | None, str]:
    """The id of the topic, and where it was found: in the metadata log, else in another partition of the topic."""
    if place.name.topic == METADATA_TOPIC:
        return _METADATA_TOPIC_ID, "Kafka itself"
    if cluster.metadata is not None and cluster.metadata_dir is not None:
        topic = cluster.metadata.by_name(place.name.topic)
        if topic is not None:
            return topic.topic_id, cluster.metadata_dir
        if not cluster.metadata.findings:
            return None, ""  # the topic is gone: another partition's id would be as stray
    for log_dir in cluster.log_dirs:
        for name in files.list(log_dir.path):
            other, path = parse_partition_dir(name), f"{log_dir.path}/{name}/{_NAME}"
            if other is None or other.topic != place.name.topic or other.kind not in _ALIVE or path == f"{place.path}/{_NAME}":
                continue
            if files.exists(path):
                decoded = decode_partition_metadata(read_identity(files, path), path).value
                if decoded is not None:
                    return decoded.topic_id, path
    return None, ""


def write_topic_id(files: Files, path: str, topic_id: str) -> None:
    """Write partition.metadata at `path` as a broker does."""
    replace(files, path, [f"version: 0\ntopic_id: {topic_id}".encode()])


def check_topic_id(topic_id: str) -> None:
    """Raise UsageError for what is no id of a topic."""
    if not is_uuid(topic_id) or topic_id.rstrip("=") == ZERO_UUID:
        what = f"{topic_id!r} is no topic id: 22 characters, as kafka-topics --describe prints them"
        raise UsageError(what)


def settle_topic_id(
    files: Files, cluster: Cluster, place: Place, report: Report, wanted: str | None, *, is_new: bool
) -> None:
    """Give the partition at `place` its partition.metadata, if it has none and is new, or `wanted` is given.

    Raises UsageError where `wanted` is not the id that the partition has, or that the metadata log knows.
    """
    path = f"{place.path}/{_NAME}"
    if files.exists(path):
        there = decode_partition_metadata(read_identity(files, path), path).value
        if wanted is not None and (there is None or there.topic_id != wanted):
            what = f"{path}: holds {'no id' if there is None else there.topic_id}, not {wanted}"
            raise UsageError(what, do="leave --topic-id out; kafkalog recover mends the file where it is damaged")
        return
    if wanted is None and not is_new:
        return
    topic, source = place.name.topic, "the command line"
    known, where = find_topic_id(files, cluster, place)
    if wanted is not None and known is not None and known != wanted:
        raise UsageError(f"{place.path}: topic {topic} has the id {known}, not {wanted}, in {where}")
    if wanted is None:
        wanted, source = known, where
    is_unknown = cluster.metadata is not None and not cluster.metadata.findings and cluster.metadata.by_name(topic) is None
    if wanted is None:
        why = f"the metadata log knows no topic {topic}" if is_unknown else f"nothing on this disk tells the id of {topic}"
        what = f"{_NAME} was not written: {why}; a broker renames the directory to -stray without it"
        report.add(Action.EXPLAINED, "", f"{what}: give --topic-id when the topic exists")
        return
    write_topic_id(files, path, wanted)
    stray = "; the metadata log knows no such topic: a broker renames the directory to -stray" if is_unknown else ""
    report.add(Action.CREATED, _NAME, f"the topic's id {wanted} comes from {source}{stray}")
