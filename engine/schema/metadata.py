"""Records in Kafka's metadata framing: frame version, type and version as varints, then the message.

Used by `__cluster_metadata` and `__remote_log_metadata`. Mirrors AbstractApiMessageSerde.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from engine.schema.compiler import message_json
from engine.schema.wire import SchemaError, to_int16, unsigned_varint

if TYPE_CHECKING:
    from engine.schema.notation import Catalogue

_WORD = re.compile(r"(?<!^)(?=[A-Z])")


class MetadataRecord(NamedTuple):
    """A decoded record: its message, the version it was stored in, its JSON."""

    name: str
    version: int
    text: str


def read_record(catalogue: Catalogue, value: bytes | None) -> MetadataRecord:
    """The record that fills `value`; SchemaError if it does not, or if there is none."""
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
    """A varint cast to an int16; too large ones are refused, negative ones only wrapped, as in Kafka."""
    try:
        value, at = unsigned_varint(data, at)
    except SchemaError as error:
        raise SchemaError(f"{what}: {error}", kafka=f"Error while reading {what}") from None
    if value > 0x7FFF:
        raise SchemaError(f"Value for {what} was too large.")
    return to_int16(value), at


def type_name(name: str) -> str:
    """The constant in Kafka's MetadataRecordType: TopicRecord is TOPIC_RECORD."""
    return _WORD.sub("_", name).upper()


class ClusterMetadataDecoder:
    """Decodes `__cluster_metadata`; keys are not used. See `decode.RecordDecoder`."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def text(self, offset: int, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None, str | None]:  # noqa: ARG002
        """(None, payload text, problem) as DumpLogSegments prints them."""
        try:
            return None, self._json(value), None
        except SchemaError as error:
            return None, f"Error at {offset}, skipping. {error.kafka}", str(error)

    def data(self, offset: int, key: bytes | None, value: bytes | None) -> dict[str, object]:  # noqa: ARG002
        """The same as parsed JSON."""
        try:
            return {"key": None, "value": json.loads(self._json(value)), "problem": None}
        except SchemaError as error:
            return {"key": None, "value": None, "problem": str(error)}

    def _json(self, value: bytes | None) -> str:
        record = read_record(self._catalogue, value)
        return f'{{"type":"{type_name(record.name)}","version":{record.version},"data":{record.text}}}'
