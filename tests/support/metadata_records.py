"""Metadata logs from values: records of `__cluster_metadata` in batches of one leader after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.discovery.names import log_file_name
from engine.formats import ControlType
from engine.protocol.layout import Layout
from engine.protocol.writing import struct_writer
from engine.record.builder import NewRecord, build_batch
from engine.record.control import encode_control_key
from engine.schema import tables
from tests.support.schema_bytes import varint

if TYPE_CHECKING:
    from pathlib import Path

    from engine.schema.notation import Catalogue

NOW = 1_700_000_000_000
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAACg"


def _body(catalogue: Catalogue, name: str, version: int, fields: dict[str, Any]) -> bytes:
    message = catalogue.message(name)
    out: list[Any] = []
    struct_writer(Layout(message, version), message.body)(fields, out)
    return b"".join(map(bytes, out))


def metadata_value(name: str, fields: dict[str, Any], version: int | None = None) -> bytes:
    """The value of a record, in the newest version by default."""
    catalogue = tables.cluster_metadata()
    message = catalogue.message(name)
    version = message.versions.highest if version is None else version
    return varint(1) + varint(message.id) + varint(version) + _body(catalogue, name, version, fields)


def control(kind: ControlType, name: str, fields: dict[str, Any], offset: int, epoch: int) -> bytes:
    """A batch with one control record."""
    record = NewRecord(offset=offset, timestamp=NOW, key=encode_control_key(kind), value=_body(tables.control(), name, 0, fields))
    return build_batch([record], control=True, partition_leader_epoch=epoch)


def batch(offset: int, epoch: int, *records: tuple[str, dict[str, Any]]) -> bytes:
    """A batch of records (name, fields)."""
    values = [NewRecord(offset + at, NOW + offset + at, None, metadata_value(*one)) for at, one in enumerate(records)]
    return build_batch(values, partition_leader_epoch=epoch)


def leader_change(offset: int, epoch: int) -> bytes:
    """The batch with which a leader begins its epoch."""
    return control(ControlType.LEADER_CHANGE, "LeaderChangeMessage", {"leaderId": 1}, offset, epoch)


def partition(number: int = 0, **fields: Any) -> tuple[str, dict[str, Any]]:
    """A PartitionRecord of a topic with TOPIC_ID: two replicas, both in the ISR, led by 1."""
    return "PartitionRecord", {
        "partitionId": number, "topicId": TOPIC_ID, "replicas": [1, 2], "isr": [1, 2], "leader": 1, "leaderEpoch": 0,
        "partitionEpoch": 0, **fields,
    }  # fmt: skip


def change(number: int = 0, **fields: Any) -> tuple[str, dict[str, Any]]:
    """A PartitionChangeRecord of that partition."""
    return "PartitionChangeRecord", {"partitionId": number, "topicId": TOPIC_ID, **fields}


def topic(name: str = "orders", topic_id: str = TOPIC_ID) -> tuple[str, dict[str, Any]]:
    """A TopicRecord."""
    return "TopicRecord", {"name": name, "topicId": topic_id}


def write_log(directory: Path, *batches: bytes, base: int = 0) -> Path:
    """Write a segment, and a quorum-state; returns the directory __cluster_metadata-0."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / log_file_name(base)).write_bytes(b"".join(batches))
    (directory / "quorum-state").write_text('{"leaderId":1,"leaderEpoch":90,"votedId":-1,"appliedOffset":0,"currentVoters":'
                                            '[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0,"clusterId":""}')  # fmt: skip
    return directory


def write_snapshot(directory: Path, end: int, epoch: int, *records: tuple[str, dict[str, Any]]) -> Path:
    """Write a snapshot of the log before the offset `end`."""
    parts = [control(ControlType.SNAPSHOT_HEADER, "SnapshotHeaderRecord", {"lastContainedLogTimestamp": NOW}, 0, epoch)]
    if records:
        parts.append(batch(1, epoch, *records))
    parts.append(control(ControlType.SNAPSHOT_FOOTER, "SnapshotFooterRecord", {}, 1 + len(records), epoch))
    path = directory / f"{end:020d}-{epoch:010d}.checkpoint"
    path.write_bytes(b"".join(parts))
    return path
