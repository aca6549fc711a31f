"""Records in Kafka's metadata framing: frame version, type and version as varints, then the message.

For `__cluster_metadata` and `__remote_log_metadata`. Mirrors AbstractApiMessageSerde. Also KRaft's control records
(ControlRecordUtils): the text after ` headerKeys: []` in the dump.
"""

from __future__ import annotations

import json
import re
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from engine.formats import ControlType
from engine.record.control import ControlRecordInvalid
from engine.record.control import control_type as check_key
from engine.schema import tables
from engine.schema.compiler import message_json, reader_for
from engine.schema.wire import SchemaError, to_int16, underflow, unsigned_varint

if TYPE_CHECKING:
    from engine.schema.notation import Catalogue

_WORD = re.compile(r"(?<!^)(?=[A-Z])")
_INT16 = Struct(">h")
# the dump prints a colon only after the first one
_LABELS: dict[int, str] = {
    ControlType.LEADER_CHANGE: "LeaderChange:", ControlType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooter", ControlType.KRAFT_VERSION: "KRaftVersion",
    ControlType.KRAFT_VOTERS: "KRaftVoters",
}  # fmt: skip


class MetadataRecord(NamedTuple):
    """A decoded record: its message, its stored version, its JSON."""

    name: str
    version: int
    text: str


def read_record(catalogue: Catalogue, value: bytes | None) -> MetadataRecord:
    """Return the record in `value`. Raises SchemaError, also if bytes follow the record, or `value` is None."""
    if value is None:
        raise SchemaError("the record has no value", kafka="Error while reading frame version")
    frame, at = _small(value, 0, "frame version")
    if frame == 0:
        raise SchemaError(
            "Could not deserialize metadata record with frame version 0. "
            "Note that upgrades from the preview release of KRaft in 2.8 to newer versions are not supported.",
        )
    if frame != 1:
        raise SchemaError(
            "Could not deserialize metadata record due to unknown frame version "
            f"{frame}(only frame version 1 is supported)",
        )
    ident, at = _small(value, at, "type")
    version, at = _small(value, at, "version")
    message = catalogue.find("record", ident)
    if message is None:
        unknown = f"Unknown metadata id {ident}"
        raise SchemaError(unknown, kafka=f"org.apache.kafka.common.errors.UnsupportedVersionException: {unknown}")
    try:
        text, at = message_json(catalogue, message.name, version, value, at)
    except SchemaError as error:
        raise SchemaError(
            f"{message.name} of version {version} does not follow its schema: {error}",
            kafka=f"Failed to deserialize record with type {ident}",
        ) from None
    if at < len(value):
        raise SchemaError(f"Found {len(value) - at} byte(s) of garbage after {ident}")
    return MetadataRecord(message.name, version, text)


def _small(data: bytes, at: int, what: str) -> tuple[int, int]:
    """Read a varint as an int16; too large ones are refused, negative ones wrapped, as in Kafka."""
    try:
        value, at = unsigned_varint(data, at)
    except SchemaError as error:
        raise SchemaError(f"{what}: {error}", kafka=f"Error while reading {what}") from None
    if value > 0x7FFF:
        raise SchemaError(f"Value for {what} was too large.")
    return to_int16(value), at


def type_name(name: str) -> str:
    """Return the constant in Kafka's MetadataRecordType: TopicRecord is TOPIC_RECORD."""
    return _WORD.sub("_", name).upper()


class ClusterMetadataDecoder:
    """Decodes `__cluster_metadata`; keys are not used. See `decode.RecordDecoder`."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def text(self, offset: int, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None, str | None]:  # noqa: ARG002  # of the interface
        """Return (None, payload text, problem) as DumpLogSegments prints them."""
        try:
            return None, self._json(value), None
        except SchemaError as error:
            return None, f"Error at {offset}, skipping. {error.kafka}", str(error)

    def data(self, offset: int, key: bytes | None, value: bytes | None) -> dict[str, object]:  # noqa: ARG002  # of the interface
        """Return the same as parsed JSON."""
        try:
            return {"key": None, "value": json.loads(self._json(value)), "problem": None}
        except SchemaError as error:
            return {"key": None, "value": None, "problem": str(error)}

    def _json(self, value: bytes | None) -> str:
        record = read_record(self._catalogue, value)
        return f'{{"type":"{type_name(record.name)}","version":{record.version},"data":{record.text}}}'


def control_text(control_type: int, key: bytes, value: bytes | None) -> str:
    """Return ` LeaderChange: {"version":0,…}` for types 2 to 6. Raises SchemaError for bad bytes of key or value.

    The bytes are always read as version 0, but printed with the fields of the version in their first field. Types unknown to
    Kafka 4.3.1 give ` controlType: UNKNOWN(…)`. Not for transaction markers.
    """
    try:
        check_key(key)
    except ControlRecordInvalid as error:
        raise SchemaError(str(error)) from None
    if control_type not in _LABELS:
        return f" controlType: UNKNOWN({control_type})"
    return f" {_LABELS[control_type]} {_control_json(control_type, value)}"


def control_data(control_type: int, value: bytes | None) -> dict[str, object]:
    """Return the fields of a control record of type 2 to 6. Raises SchemaError for bad bytes and for any other type."""
    if control_type not in _LABELS:
        raise SchemaError(f"control type {control_type} has no schema")
    fields: dict[str, object] = json.loads(_control_json(control_type, value))
    return fields


def _control_json(control_type: int, value: bytes | None) -> str:
    if value is None:
        raise SchemaError("the control record has no value")
    if len(value) < 2:
        raise underflow(value, 0)
    message = tables.control().find("control", control_type)
    assert message is not None
    shown_version = _INT16.unpack_from(value)[0]
    out: list[str] = []
    reader_for(tables.control(), message.name, 0, shown_version, embedded=False)(value, 0, out)
    return "".join(out)
