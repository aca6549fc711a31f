"""Records of `__remote_log_metadata`: metadata framing, printed as toString of Kafka's classes.

Mirrors RemoteLogMetadataSerde, its transforms, and the checks in the constructors of RemoteLogSegmentMetadata,
RemoteLogSegmentMetadataUpdate, RemotePartitionDeleteMetadata and RemoteLogSegmentMetadataSnapshot.
"""

from __future__ import annotations

import json
from base64 import b64decode
from typing import TYPE_CHECKING, Any

from engine.schema.metadata import read_record
from engine.schema.wire import SchemaError

if TYPE_CHECKING:
    from engine.schema.notation import Catalogue

_SEGMENT_STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")
_PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")
_NO_VALUE = (
    'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of '
    '"org.apache.kafka.common.record.internal.Record.value()" is null'
)

Fields = dict[str, Any]


class RemoteLogMetadataDecoder:
    """Decodes `__remote_log_metadata`; keys are not used. See `decode.RecordDecoder`."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def text(self, offset: int, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None, str | None]:  # noqa: ARG002  # of the interface
        """Return (None, payload text, problem) as DumpLogSegments prints them."""
        try:
            _, _, text = self._decode(value)
        except SchemaError as error:
            return None, f"Error at offset {offset}, skipping. {error.kafka}", str(error)
        return None, text, None

    def data(self, offset: int, key: bytes | None, value: bytes | None) -> dict[str, object]:  # noqa: ARG002  # of the interface
        """Return {"type": Kafka's message, "version": …, "data": its fields} as the value."""
        try:
            name, version, _ = self._decode(value)
        except SchemaError as error:
            return {"key": None, "value": None, "problem": str(error)}
        fields = json.loads(read_record(self._catalogue, value).text)
        return {"key": None, "value": {"type": name, "version": version, "data": fields}, "problem": None}

    def _decode(self, value: bytes | None) -> tuple[str, int, str]:
        """Return (message name, version, toString)."""
        if value is None:
            raise SchemaError("the record has no value", kafka=_NO_VALUE)
        record = read_record(self._catalogue, value)
        return record.name, record.version, _FORMS[record.name](json.loads(record.text))


def _segment(fields: Fields) -> str:
    epochs = _leader_epochs(fields)
    state = _state(fields["remoteLogSegmentState"], _SEGMENT_STATES, "state can not be null")
    return (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id(fields)}, startOffset={fields['startOffset']}, "
        f"endOffset={fields['endOffset']}, brokerId={fields['brokerId']}, maxTimestampMs={fields['maxTimestampMs']}, "
        f"eventTimestampMs={fields['eventTimestampMs']}, segmentLeaderEpochs={epochs}, "
        f"segmentSizeInBytes={fields['segmentSizeInBytes']}, customMetadata={_custom(fields)}, state={state}, "
        f"txnIdxEmpty={_flag(fields)}}}"
    )


def _update(fields: Fields) -> str:
    state = _state(fields["remoteLogSegmentState"], _SEGMENT_STATES, "state can not be null")
    return (
        f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id(fields)}, "
        f"customMetadata={_custom(fields)}, state={state}, eventTimestampMs={fields['eventTimestampMs']}, "
        f"brokerId={fields['brokerId']}}}"
    )


def _partition_delete(fields: Fields) -> str:
    state = _state(fields["remotePartitionDeleteState"], _PARTITION_STATES, "null")
    return (
        f"RemotePartitionDeleteMetadata{{topicPartition={_partition(fields['topicIdPartition'])}, state={state}, "
        f"eventTimestampMs={fields['eventTimestampMs']}, brokerId={fields['brokerId']}}}"
    )


def _snapshot(fields: Fields) -> str:
    state = _state(fields["remoteLogSegmentState"], _SEGMENT_STATES, "state can not be null")
    epochs = _leader_epochs_text(fields)
    return (
        f"RemoteLogSegmentMetadataSnapshot{{segmentId={fields['segmentId']}, startOffset={fields['startOffset']}, "
        f"endOffset={fields['endOffset']}, maxTimestampMs={fields['maxTimestampMs']}, segmentLeaderEpochs={epochs}, "
        f"segmentSizeInBytes={fields['segmentSizeInBytes']}, customMetadata={_custom(fields)}, state={state}, "
        f"txnIdxEmpty={_flag(fields)}}}"
    )


_FORMS = {
    "RemoteLogSegmentMetadataRecord": _segment,
    "RemoteLogSegmentMetadataUpdateRecord": _update,
    "RemotePartitionDeleteMetadataRecord": _partition_delete,
    "RemoteLogSegmentMetadataSnapshotRecord": _snapshot,
}


def _leader_epochs(fields: Fields) -> str:
    """Return the epochs of a segment; its offsets are checked first, as in the constructor of the class."""
    start, end = fields["startOffset"], fields["endOffset"]
    if start < 0:
        raise SchemaError(f"Unexpected start offset = {start}. StartOffset for a remote segment cannot be negative")
    if end < start:
        raise SchemaError(
            f"Unexpected end offset = {end}. EndOffset for a remote segment cannot be less than startOffset = {start}",
        )
    return _leader_epochs_text(fields)


def _leader_epochs_text(fields: Fields) -> str:
    """Return Java's text of a TreeMap: ascending; the last of equal epochs counts."""
    epochs = {each["leaderEpoch"]: each["offset"] for each in fields["segmentLeaderEpochs"]}
    if not epochs:
        raise SchemaError("segmentLeaderEpochs can not be null or empty")
    return "{" + ", ".join(f"{epoch}={epochs[epoch]}" for epoch in sorted(epochs)) + "}"


def _state(ident: int, names: tuple[str, ...], kafka: str) -> str:
    if not 0 <= ident < len(names):
        raise SchemaError(f"unknown state {ident}", kafka=kafka)
    return names[ident]


def _segment_id(fields: Fields) -> str:
    entry = fields["remoteLogSegmentId"]
    return f"RemoteLogSegmentId{{topicIdPartition={_partition(entry['topicIdPartition'])}, id={entry['id']}}}"


def _partition(entry: Fields) -> str:
    return f"{entry['id']}:{entry['name']}-{entry['partition']}"


def _custom(fields: Fields) -> str:
    stored = fields["customMetadata"]
    return "Optional.empty" if stored is None else f"Optional[CustomMetadata{{{len(b64decode(stored))} bytes}}]"


def _flag(fields: Fields) -> str:
    return "true" if fields.get("txnIndexEmpty") else "false"
