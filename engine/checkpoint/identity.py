"""Files that identify a directory or its state: partition.metadata, meta.properties, .kafka_cleanshutdown, quorum-state."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.checkpoints import Decoded, Faults, Value, quoted, read_small, text_lines
from engine.discovery.names import FileKind, parse_int

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import ReadOnlyFiles

MAX_IDENTITY_SIZE = 64 * 1024  # bytes

_UUID = re.compile(r"[A-Za-z0-9_-]{22}(==)?")
_COLON = re.compile(r":[ \t\n\x0b\f\r]+")
ZERO_UUID = "A" * 22
ENDS_EARLY = "the file ends before the topic id"  # the fault of a partition.metadata with fewer than two lines


class PartitionMetadata(NamedTuple):
    """partition.metadata: the id of the topic, 22 characters (KIP-516)."""

    version: int
    topic_id: str


class MetaProperties(NamedTuple):
    """meta.properties of a log dir. None: not in the file. `others`: keys that Kafka 4.3.1 does not use.

    node_id  `node.id`, or `broker.id` in version 0, which brokers with ZooKeeper wrote
    """

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None
    others: dict[str, str]


def broker_text(node_id: int | None, cluster_id: str | None) -> str:
    """Name a broker for people: node 1 of cluster ID, node 1 of an unknown cluster, an unknown broker."""
    if node_id is None and cluster_id is None:
        return "an unknown broker"
    node = "an unknown node" if node_id is None else f"node {node_id}"
    return f"{node} of {'an unknown cluster' if cluster_id is None else f'cluster {cluster_id}'}"


class CleanShutdown(NamedTuple):
    """.kafka_cleanshutdown, which exists after a clean stop. Both are None in the empty file of older brokers."""

    version: int | None
    broker_epoch: int | None


class QuorumState(NamedTuple):
    """quorum-state of the metadata log. Ids and epochs are -1 if there is none.

    Version 0 has static voters and no directory id, version 1 has dynamic voters, which are in the log (KIP-853).
    """

    data_version: int
    leader_id: int
    leader_epoch: int
    voted_id: int
    voted_directory_id: str | None
    cluster_id: str | None
    applied_offset: int | None
    current_voters: tuple[int, ...] | None


def is_uuid(text: str) -> bool:
    """Return whether `text` is an id as Kafka writes them: 16 bytes in URL-safe base64. Mirrors Uuid.fromString."""
    return _UUID.fullmatch(text) is not None


def read_identity(files: ReadOnlyFiles, path: str, decode: Callable[[bytes, str], Decoded[Value]]) -> Decoded[Value]:
    """Decode one of these files with `decode`; one of more than MAX_IDENTITY_SIZE bytes is malformed.

    Raises UnreadableFile.
    """
    return read_small(files, path, MAX_IDENTITY_SIZE, decode, lambda finding: Decoded(None, [finding]))


def read_topic_id(files: ReadOnlyFiles, directory: str) -> str | None:
    """Return the id in partition.metadata of `directory`; None: no such file, or malformed. Raises UnreadableFile."""
    path = f"{directory}/{FileKind.PARTITION_METADATA.value}"
    if not files.exists(path):
        return None
    known = read_identity(files, path, decode_partition_metadata).value
    return None if known is None else known.topic_id


def decode_partition_metadata(data: bytes, path: str) -> Decoded[PartitionMetadata]:
    """Decode partition.metadata: two lines; any others are ignored. Mirrors PartitionMetadataReadBuffer."""
    faults = Faults(path)
    values: list[str] = []
    for line, key in zip(text_lines(data), ("version", "topic_id"), strict=False):
        parts = _COLON.split(line.text or "")
        if len(parts) != 2:
            faults.add(f"not '{key}: …': {quoted(line.text)}", line)
            return Decoded(None, faults.all())
        values.append(parts[1])
    if len(values) < 2:
        faults.add(ENDS_EARLY)
        return Decoded(None, faults.all())
    version = parse_int(values[0])
    if version is None or version < 0:
        faults.add(f"version {quoted(values[0])}")
    if not is_uuid(values[1]) or values[1].rstrip("=") == ZERO_UUID:
        faults.add(f"not a topic id: {quoted(values[1])}")
    findings = faults.all()
    return Decoded(None if version is None or findings else PartitionMetadata(version, values[1]), findings)


def decode_meta_properties(data: bytes, path: str) -> Decoded[MetaProperties]:
    """Decode meta.properties of version 0 or 1. Mirrors MetaProperties.Builder."""
    from engine.config.server import decode_properties  # slow to import

    faults = Faults(path)
    properties = decode_properties(data)
    for number, what in properties.faults:
        faults.add(f"line {number}: {what}")
    values = dict(properties.values)
    version_text = values.pop("version", "0")
    version = parse_int(version_text)
    if version not in (0, 1):
        faults.add(f"version {quoted(version_text)}, only 0 and 1 exist")
        return Decoded(None, faults.all())
    node_key = "node.id" if version else "broker.id"
    node_text, cluster_id, directory_id = (values.pop(key, None) for key in (node_key, "cluster.id", "directory.id"))
    node_id = parse_int(node_text) if node_text is not None else None
    if node_text is not None and node_id is None:
        faults.add(f"{node_key} is not a number: {quoted(node_text)}")
    for key, value in ((node_key, node_text), ("cluster.id", cluster_id)):
        if version == 1 and value is None:
            faults.add(f"{key} is missing")
    if directory_id is not None and not is_uuid(directory_id):
        faults.add(f"directory.id is not an id: {quoted(directory_id)}")
    return Decoded(MetaProperties(version or 0, cluster_id, node_id, directory_id, values), faults.all())


def decode_clean_shutdown(data: bytes, path: str) -> Decoded[CleanShutdown]:
    """Decode .kafka_cleanshutdown; a malformed one has no epoch. Mirrors CleanShutdownFileHandler."""
    if not data:
        return Decoded(CleanShutdown(None, None), [])
    faults = Faults(path)
    fields = _json_object(data, faults)
    if fields is None:
        return Decoded(None, faults.all())
    version, epoch = _number(fields, "version", 32, faults), _number(fields, "brokerEpoch", 64, faults)
    return Decoded(CleanShutdown(version, epoch), faults.all())


def decode_quorum_state(data: bytes, path: str) -> Decoded[QuorumState]:
    """Decode quorum-state of data version 0 or 1; only its first line counts. Mirrors FileQuorumStateStore."""
    faults = Faults(path)
    fields = _json_object(data[: re.search(rb"[\r\n]|\Z", data).start()], faults)  # type: ignore[union-attr]  # \Z matches
    if fields is None:
        return Decoded(None, faults.all())
    version = fields.get("data_version")
    if type(version) is not int or version not in (0, 1):
        faults.add(f"data_version {quoted(str(version))}, only 0 and 1 exist")
        return Decoded(None, faults.all())
    leader_id, leader_epoch, voted_id = (
        _number(fields, key, 32, faults) for key in ("leaderId", "leaderEpoch", "votedId")
    )
    applied_offset = _number(fields, "appliedOffset", 64, faults) if version == 0 else None
    cluster_id = _text(fields, "clusterId", faults) if version == 0 else None
    voters = _voters(fields, faults) if version == 0 else None
    directory_id = _text(fields, "votedDirectoryId", faults) if version == 1 else None
    if directory_id is not None and not is_uuid(directory_id):
        faults.add(f"votedDirectoryId is not an id: {quoted(directory_id)}")
    findings = faults.all()
    if findings or leader_id is None or leader_epoch is None or voted_id is None:
        return Decoded(None, findings)
    state = QuorumState(
        version, leader_id, leader_epoch, voted_id, directory_id, cluster_id, applied_offset, voters
    )
    return Decoded(state, findings)


def unknown_quorum_version(data: bytes, path: str) -> Decoded[int]:
    """The data_version of a quorum-state that no broker supports; None: it is supported, or the file is malformed."""
    fields = _json_object(re.split(rb"[\r\n]", data, maxsplit=1)[0], Faults(path)) or {}
    version = fields.get("data_version")
    return Decoded(version if type(version) is int and version not in (0, 1) else None, [])


def _json_object(data: bytes, faults: Faults) -> dict[str, object] | None:
    try:
        fields = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        faults.add(f"not JSON: {error}")
        return None
    if not isinstance(fields, dict):
        faults.add("not a JSON object")
        return None
    return fields


def _number(fields: dict[str, object], key: str, bits: int, faults: Faults) -> int | None:
    value = fields.get(key)
    if type(value) is not int or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        faults.add(f"{key} is not a number" if key in fields else f"{key} is missing")
        return None
    return value


def _text(fields: dict[str, object], key: str, faults: Faults) -> str | None:
    value = fields.get(key)
    if not isinstance(value, str):
        faults.add(f"{key} is not a string" if key in fields else f"{key} is missing")
        return None
    return value


def _voters(fields: dict[str, object], faults: Faults) -> tuple[int, ...] | None:
    """Return the voter ids; None if the file has null."""
    voters = fields.get("currentVoters", faults)
    if voters is None:
        return None
    if not isinstance(voters, list):
        faults.add("currentVoters is not a list" if "currentVoters" in fields else "currentVoters is missing")
        return None
    found = [_number(voter if isinstance(voter, dict) else {}, "voterId", 32, faults) for voter in voters]
    return tuple(voter for voter in found if voter is not None)
