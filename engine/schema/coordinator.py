"""Records of group, transaction and share coordinators: key and value each begin with an int16.

That of the key is the record type, that of the value its version. Mirrors CoordinatorRecordSerde and the parsers that
DumpLogSegments builds on it.
"""

from __future__ import annotations

import json
from struct import Struct
from typing import TYPE_CHECKING

from engine.schema.compiler import reader_for
from engine.schema.json_text import json_string
from engine.schema.wire import SchemaError

if TYPE_CHECKING:
    from engine.schema.notation import Catalogue
    from engine.schema.readers import Reader

_INT16 = Struct(">h")
_CONSUMER_GROUP = '{"protocolType":"consumer",'
GROUP_METADATA = 2


class UnknownRecordTypeError(SchemaError):
    """A record type that Kafka 4.3.1 does not know."""

    def __init__(self, record_type: int) -> None:
        super().__init__(f"unknown record type {record_type}")
        self.record_type = record_type


class CoordinatorDecoder:
    """Decodes the records of one coordinator's topic. See `decode.RecordDecoder`."""

    def __init__(self, catalogue: Catalogue, *, embedded: bool = False) -> None:
        self._catalogue = catalogue
        self._embedded = embedded  # decode the bytes of members of classic consumer groups
        self._keys: dict[int, tuple[str, Reader]] = {}
        self._values: dict[tuple[int, int], tuple[str, Reader]] = {}

    def text(self, offset: int, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None, str | None]:
        """Return (key text, payload text, problem) as DumpLogSegments prints them."""
        if key is None:
            return None, None, (
                f"Failed to decode message at offset {offset} using the specified decoder (message had a missing key)"
            )
        try:
            key_text, value_text = self._decode(key, value)
        except UnknownRecordTypeError as error:
            return f"Unknown record type {error.record_type} at offset {offset}, skipping.", None, str(error)
        except SchemaError as error:
            return f"Error at offset {offset}, skipping. {error.kafka}", None, str(error)
        return key_text, "<DELETE>" if value_text is None else value_text, None

    def data(self, offset: int, key: bytes | None, value: bytes | None) -> dict[str, object]:
        """Return the same as parsed JSON; the value of a tombstone is None without a problem."""
        if key is None:
            return {"key": None, "value": None, "problem": self.text(offset, key, value)[2]}
        try:
            key_text, value_text = self._decode(key, value)
        except SchemaError as error:
            return {"key": None, "value": None, "problem": str(error)}
        parsed = None if value_text is None else json.loads(value_text)
        return {"key": json.loads(key_text), "value": parsed, "problem": None}

    def _decode(self, key: bytes, value: bytes | None) -> tuple[str, str | None]:
        """Return the JSON of key and value; None for a tombstone's value."""
        if len(key) < 2:
            raise SchemaError("Could not read version from key's buffer.")
        record_type = _INT16.unpack_from(key)[0]
        opening, read = self._keys.get(record_type) or self._key_reader(record_type)
        key_text = _read(opening, read, key, record_type, "key")
        if value is None:
            return key_text, None
        if len(value) < 2:
            raise SchemaError("Could not read version from value's buffer.")
        version = _INT16.unpack_from(value)[0]
        opening, read = self._values.get((record_type, version)) or self._value_reader(record_type, version)
        value_text = _read(opening, read, value, version, "value")
        if self._embedded and record_type == GROUP_METADATA and value_text.startswith(_CONSUMER_GROUP, len(opening)):
            read = reader_for(self._catalogue, "GroupMetadataValue", version, version, embedded=True)
            value_text = _read(opening, read, value, version, "value")
        return key_text, value_text

    def _key_reader(self, record_type: int) -> tuple[str, Reader]:
        message = self._catalogue.find("key", record_type)
        if message is None:
            raise UnknownRecordTypeError(record_type)
        found = (
            f'{{"type":{json_string(str(record_type))},"data":',
            reader_for(self._catalogue, message.name, record_type, 0, embedded=False),
        )
        self._keys[record_type] = found
        return found

    def _value_reader(self, record_type: int, version: int) -> tuple[str, Reader]:
        message = self._catalogue.find("value", record_type)
        if message is None:
            raise UnknownRecordTypeError(record_type)
        if version not in message.versions:
            raise SchemaError(f"Found an unknown record version {version} for {record_type} type")
        found = (
            f'{{"version":{json_string(str(version))},"data":',
            reader_for(self._catalogue, message.name, version, version, embedded=False),
        )
        self._values[record_type, version] = found
        return found


def _read(opening: str, read: Reader, data: bytes, version: int, name: str) -> str:
    """Return the JSON text of the message after the first two bytes; ignores bytes after it, as Kafka does."""
    out = [opening]
    try:
        read(data, 2, out)
    except SchemaError as error:
        raise SchemaError(
            f"the record's {name} (version {version}) does not follow its schema: {error}",
            kafka=f"Could not read record with version {version} from {name}'s buffer due to: {error.kafka}.",
        ) from None
    out.append("}")
    return "".join(out)
