"""Decode and encode the values of `__remote_log_metadata`: remote segments and the changes of their state.

Mirrors RemoteLogMetadataSerde with its transforms. There are two or more records for each segment that was ever copied, so
the usual forms are decoded by specialized code. All others are decoded by the schema, which reports errors in Kafka's order.
"""

from __future__ import annotations

from array import array
from base64 import b64decode
from binascii import b2a_base64
from enum import IntEnum
from struct import Struct, error
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from engine.kernels.rows import choose_partitions
from engine.schema.json_text import uuid_bytes
from engine.schema.wire import SchemaError, encode_compact, encode_unsigned_varint

if TYPE_CHECKING:
    from collections.abc import Callable

_FRAME = 3  # frame version, api key and version: one byte each, as long as they are below _VARINT
_VARINT = 0x80  # an unsigned varint of this value or more has several bytes
_SEGMENT, _UPDATE, _PARTITION = b"\1\0\0", b"\1\1\0", b"\1\2\0"
_SEGMENT_BODY = Struct(">20sb16sbqqiqqbiqbibb")  # with one leader epoch, without custom metadata; see `_segment`
_IDS = Struct(">20sb16sb")  # topic id with partition, tags, segment id, tags
_RANGE = Struct(">qqiqq")  # start and end offset, broker, largest timestamp, time of the event
_EPOCH = Struct(">iqb")  # epoch, offset, tags
_SIZE = Struct(">i")
_UPDATE_BODY = Struct(">20sb16sbiqb")  # ids as in _IDS, broker, time of the event, size of the custom metadata
_PARTITION_BODY = Struct(">20sbiqbb")  # topic id with partition, tags, broker, time of the event, state, tags
_INT = Struct(">i")
_INT_LONG = Struct(">iq")
_NO_TAGS, _TXN_INDEX_EMPTY, _TXN_INDEX_NOT_EMPTY = b"\0", b"\1\0\1\1", b"\1\0\1\0"
_ENDS = (_NO_TAGS, _TXN_INDEX_EMPTY, _TXN_INDEX_NOT_EMPTY)
_LAST_STATE = 3
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class State(IntEnum):
    """The state of a remote segment. Mirrors RemoteLogSegmentState."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


class PartitionState(IntEnum):
    """The state of the deletion of a partition. Mirrors RemotePartitionDeleteState; Kafka 4.3.1 never writes it."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2


class SegmentRecord(NamedTuple):
    """RemoteLogSegmentMetadata: the start of a copy.

    key            topic id and partition, in the encoding of the record: 20 bytes
    segment_id     16 bytes
    leader_epochs  (epoch, its first offset in the segment), ascending
    """

    key: bytes
    topic: bytes
    segment_id: bytes
    start_offset: int
    end_offset: int
    broker_id: int
    max_timestamp_ms: int
    event_timestamp_ms: int
    leader_epochs: tuple[tuple[int, int], ...]
    size: int
    custom: bytes | None
    state: int
    txn_index_empty: bool


class UpdateRecord(NamedTuple):
    """RemoteLogSegmentMetadataUpdate: a change of the state of a segment."""

    key: bytes
    topic: bytes
    segment_id: bytes
    broker_id: int
    event_timestamp_ms: int
    custom: bytes | None
    state: int


class PartitionRecord(NamedTuple):
    """RemotePartitionDeleteMetadata: a state of the deletion of a partition."""

    key: bytes
    topic: bytes
    broker_id: int
    event_timestamp_ms: int
    state: int


Record = SegmentRecord | UpdateRecord | PartitionRecord


def random_id() -> bytes:
    """Return a new random id of 16 bytes. Its text form does not begin with `-` (Uuid.randomUuid)."""
    return b"k" + uuid4().bytes[1:]


def key_of(topic_id: str, partition: int) -> bytes:
    """Return the key of a partition: 20 bytes."""
    return uuid_bytes(topic_id) + _INT.pack(partition)


def metadata_partition_of(key: bytes, count: int) -> int:
    """Return the partition of `__remote_log_metadata` that has the records of the user partition `key`.

    count  partitions of `__remote_log_metadata`
    Mirrors RemoteLogMetadataTopicPartitioner, with Objects.hash and Uuid.hashCode of Java.
    """
    digest = 1
    for number in (int.from_bytes(key[8:16]), int.from_bytes(key[:8])):
        digest = 31 * digest + (number ^ (number >> 32))
    digest = (31 * digest + partition_number(key)) & 0xFFFFFFFF
    found = array("i", [-1])
    choose_partitions(digest.to_bytes(4), array("i", [0, 4]), b"\1", 0, 1, count, 0, found)
    return found[0]


def uuid_text(data: bytes) -> str:
    """Return the text form of an id of 16 bytes: 22 characters of URL-safe base64 (Uuid.toString)."""
    return b2a_base64(data)[:22].translate(_URL_SAFE).decode()


def partition_number(key: bytes) -> int:
    """Return the partition number of a key of 20 bytes."""
    number: int = _INT.unpack_from(key, 16)[0]
    return number


def decode_record(value: bytes | None) -> Record:
    """Decode the value of a record; `value` None: the record has no value.

    Raises SchemaError if Kafka's deserializer, or the constructor of its class, throws.
    """
    try:
        found = None if value is None else _decode(value)
    except (error, IndexError):  # the value ends within a field
        found = None
    return _decode_by_schema(value) if found is None else found


def _decode(value: bytes) -> Record | None:
    """Decode a value in the usual form; None: it has another form."""
    if not 0 < value[_FRAME] < _VARINT:
        return None
    if value.startswith(_SEGMENT):
        return _segment(value)
    if value.startswith(_UPDATE):
        return _update(value)
    if value.startswith(_PARTITION):
        at = _FRAME + value[_FRAME]
        key, tags, broker, event, state, more = _PARTITION_BODY.unpack_from(value, at)
        is_usual = not (tags or more) and 0 <= state < len(PartitionState) and len(value) == at + _PARTITION_BODY.size
        return PartitionRecord(key, value[_FRAME + 1 : at], broker, event, state) if is_usual else None
    return None


def _segment(value: bytes) -> SegmentRecord | None:
    at = _FRAME + value[_FRAME]
    topic = value[_FRAME + 1 : at]
    key, tags, segment_id, more, start, end, broker, max_timestamp, event, count, epoch, offset, last, size, custom, state = (
        _SEGMENT_BODY.unpack_from(value, at)
    )
    if count != 2 or custom or last:
        return _large_segment(value)
    rest = value[at + _SEGMENT_BODY.size :]
    if tags or more or not 0 <= start <= end or not 0 <= state <= _LAST_STATE or rest not in _ENDS:
        return None
    fields = (
        key, topic, segment_id, start, end, broker, max_timestamp, event, ((epoch, offset),), size, None, state,
        rest == _TXN_INDEX_EMPTY,
    )  # fmt: skip
    return tuple.__new__(SegmentRecord, fields)


def _large_segment(value: bytes) -> SegmentRecord | None:
    """Decode a segment with several leader epochs or with custom metadata."""
    at = _FRAME + value[_FRAME]
    topic = value[_FRAME + 1 : at]
    key, tags, segment_id, more = _IDS.unpack_from(value, at)
    at += _IDS.size
    start, end, broker, max_timestamp, event = _RANGE.unpack_from(value, at)
    at += _RANGE.size
    count = value[at]
    if not 2 <= count < _VARINT:
        return None
    at, epochs = at + 1, {}
    for _ in range(count - 1):
        epoch, offset, tag = _EPOCH.unpack_from(value, at)
        epochs[epoch], tags, at = offset, tags or tag, at + _EPOCH.size
    (size,) = _SIZE.unpack_from(value, at)
    at += _SIZE.size
    custom_size = value[at]
    custom = value[at + 1 : at + custom_size] if custom_size else None
    at += max(custom_size, 1)
    state, rest = value[at], value[at + 1 :]
    is_usual = not (tags or more) and custom_size < _VARINT and 0 <= start <= end and state <= _LAST_STATE and rest in _ENDS
    ordered = tuple(sorted(epochs.items()))
    fields = (
        key, topic, segment_id, start, end, broker, max_timestamp, event, ordered, size, custom, state,
        rest == _TXN_INDEX_EMPTY,
    )  # fmt: skip
    return SegmentRecord(*fields) if is_usual else None


def _update(value: bytes) -> UpdateRecord | None:
    at = _FRAME + value[_FRAME]
    topic = value[_FRAME + 1 : at]
    key, tags, segment_id, more, broker, event, custom_size = _UPDATE_BODY.unpack_from(value, at)
    if tags or more or custom_size < 0:
        return None
    at += _UPDATE_BODY.size
    custom = None
    if custom_size:
        custom = value[at : at + custom_size - 1]
        at += custom_size - 1
    state = value[at]
    if state > _LAST_STATE or value[at + 1 :] != _NO_TAGS:
        return None
    return tuple.__new__(UpdateRecord, (key, topic, segment_id, broker, event, custom, state))


# ---- unusual forms


def _decode_by_schema(value: bytes | None) -> Record:
    from engine.schema.decode import decoder

    decoded = decoder("remote-log-metadata").data(0, None, value)
    problem, found = decoded["problem"], decoded["value"]
    if problem is not None:
        raise SchemaError(str(problem))
    assert isinstance(found, dict)
    make = _BY_SCHEMA.get(found["type"])
    if make is None:
        raise SchemaError(f"a {found['type']}, which no broker applies")
    return make(found["data"])


def _ids(fields: dict[str, Any]) -> tuple[bytes, bytes]:
    """Return (key, name of the topic) of a TopicIdPartitionEntry."""
    return uuid_bytes(fields["id"]) + _INT.pack(fields["partition"]), fields["name"].encode()


def _custom(fields: dict[str, Any]) -> bytes | None:
    return None if fields["customMetadata"] is None else b64decode(fields["customMetadata"])


def _segment_by_schema(fields: dict[str, Any]) -> SegmentRecord:
    ids = fields["remoteLogSegmentId"]
    epochs = {each["leaderEpoch"]: each["offset"] for each in fields["segmentLeaderEpochs"]}
    return SegmentRecord(
        *_ids(ids["topicIdPartition"]), uuid_bytes(ids["id"]), fields["startOffset"], fields["endOffset"], fields["brokerId"],
        fields["maxTimestampMs"], fields["eventTimestampMs"], tuple(sorted(epochs.items())), fields["segmentSizeInBytes"],
        _custom(fields), fields["remoteLogSegmentState"], bool(fields.get("txnIndexEmpty")),
    )  # fmt: skip


def _update_by_schema(fields: dict[str, Any]) -> UpdateRecord:
    ids = fields["remoteLogSegmentId"]
    return UpdateRecord(
        *_ids(ids["topicIdPartition"]), uuid_bytes(ids["id"]), fields["brokerId"], fields["eventTimestampMs"], _custom(fields),
        fields["remoteLogSegmentState"],
    )  # fmt: skip


def _partition_by_schema(fields: dict[str, Any]) -> PartitionRecord:
    ids = _ids(fields["topicIdPartition"])
    return PartitionRecord(*ids, fields["brokerId"], fields["eventTimestampMs"], fields["remotePartitionDeleteState"])


_BY_SCHEMA: dict[str, Callable[[dict[str, Any]], Record]] = {
    "RemoteLogSegmentMetadataRecord": _segment_by_schema,
    "RemoteLogSegmentMetadataUpdateRecord": _update_by_schema,
    "RemotePartitionDeleteMetadataRecord": _partition_by_schema,
}


# ---- encoding


def encode_record(record: SegmentRecord | UpdateRecord) -> bytes:
    """Encode the value of a record (RemoteLogMetadataSerde.serialize)."""
    ids = encode_compact(record.topic) + record.key + b"\0" + record.segment_id + b"\0"
    if isinstance(record, UpdateRecord):
        changes = _INT_LONG.pack(record.broker_id, record.event_timestamp_ms)
        return _UPDATE + ids + changes + encode_compact(record.custom) + bytes((record.state, 0))
    offsets = _RANGE.pack(
        record.start_offset, record.end_offset, record.broker_id, record.max_timestamp_ms, record.event_timestamp_ms
    )
    epochs = b"".join(_EPOCH.pack(epoch, start, 0) for epoch, start in record.leader_epochs)
    tags = _TXN_INDEX_EMPTY if record.txn_index_empty else _NO_TAGS
    count = encode_unsigned_varint(len(record.leader_epochs) + 1)
    return b"".join(
        (_SEGMENT, ids, offsets, count, epochs, _SIZE.pack(record.size), encode_compact(record.custom),
         bytes((record.state,)), tags)
    )  # fmt: skip
