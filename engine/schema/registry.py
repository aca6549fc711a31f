"""Schemas of values: those that a schema registry keeps in its topic `_schemas`, or one of a file.

A registry's serializers write a byte 0, the id of the schema in four bytes, for Protobuf the indexes of the message, and the
value. Mirrors SchemaKey and SchemaValue of Confluent's Schema Registry, and MessageIndexes.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.errors import UsageError
from engine.schema.json_text import MOST_DEPTH, is_deeper_than
from engine.schema.wire import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    from engine.files import ReadOnlyFiles

    Decode = Callable[[bytes, tuple[int, ...]], Any]  # (value, indexes of the message) → value for JSON

SCHEMAS_TOPIC = "_schemas"
MOST_BYTES = 4 << 20  # of a value that is decoded
MOST_SCHEMA_BYTES = 64 << 20  # of all schemas of a registry, and of a file
_HEADER = 5  # bytes: a zero and the id
_MOST_REFERENCES = 1000  # schemas that a schema refers to, also through others
_MOST_DECODERS = 1000  # schemas that are ready to use at a time
_CONTEXT = ":."  # begins a subject of a context, which has ids of its own
_LATEST = -1  # the version of a reference to the newest one


class StoredSchema(NamedTuple):
    """A version of a subject. kind: AVRO, PROTOBUF or JSON. references: (name in the text, subject, version)."""

    ident: int
    subject: str
    kind: str
    text: str
    references: tuple[tuple[str, str, int], ...]


class GivenSchema(NamedTuple):
    """A schema that the user names. is_protobuf: after a header there are the indexes of a message."""

    decode: Decode
    is_protobuf: bool


class SchemaRegistry:
    """The schemas in the records of `_schemas`. Deleted ones stay: values that were written with them may exist."""

    def __init__(self) -> None:
        self._by_id: dict[int, list[StoredSchema]] = {}
        self._by_version: dict[tuple[str, int], StoredSchema] = {}
        self._decoders: dict[tuple[int, str], Decode | SchemaError] = {}
        self._left = MOST_SCHEMA_BYTES

    def __bool__(self) -> bool:
        return bool(self._by_id)

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Take a record. Raises SchemaError for one that no registry writes."""
        try:
            name = json.loads(key or b"{}")
            if name.get("keytype") != "SCHEMA" or value is None:
                return
            stored = json.loads(value)
            references = tuple(
                (str(one["name"]), str(one["subject"]), int(one["version"])) for one in stored.get("references") or ()
            )
            kind, text = str(stored.get("schemaType") or "AVRO"), str(stored["schema"])
            schema = StoredSchema(int(stored["id"]), str(stored["subject"]), kind, text, references)
            version = int(stored["version"])
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise SchemaError(f"not a schema of a registry: {error}"[:200]) from None
        known = self._by_id.setdefault(schema.ident, [])
        if schema not in known:
            self._left -= len(text)
            if self._left < 0:
                raise SchemaError(f"the schemas have more than {MOST_SCHEMA_BYTES} characters: this one is not used")
            known.append(schema)
        self._by_version[schema.subject, version] = schema

    def has_subject_of(self, topic: str) -> bool:
        """Return whether a subject is named after the topic, so that its values should have schemas."""
        return any(one.subject.rpartition(":")[2].startswith(f"{topic}-") for known in self._by_id.values() for one in known)

    def find(self, ident: int, subject: str) -> StoredSchema | None:
        """Return the schema with this id, in the context of the subject or the default one; None: there is none."""
        known = self._by_id.get(ident, ())
        ranked = sorted(known, key=lambda one: (one.subject.rpartition(":")[2] != subject, one.subject.startswith(_CONTEXT)))
        return ranked[0] if ranked else None

    def decoder(self, schema: StoredSchema) -> Decode:
        """Return the function that decodes values of a schema. Raises SchemaError, UsageError."""
        key = schema.ident, schema.subject
        made = self._decoders.get(key)
        if made is None:
            if len(self._decoders) >= _MOST_DECODERS:
                self._decoders.clear()
            try:
                made = decoder_of(schema.kind, schema.text, self._referred(schema))
            except SchemaError as error:
                made = error
            self._decoders[key] = made
        if isinstance(made, SchemaError):
            raise made
        return made

    def _referred(self, schema: StoredSchema) -> list[tuple[str, str]]:
        """Return (name, text) of the schemas that a schema refers to, each after those that it refers to itself."""
        found: dict[str, str] = {}
        todo = [(one, False) for one in reversed(schema.references)]
        seen: set[tuple[str, str, int]] = set()
        while todo:
            reference, is_after = todo.pop()
            name, subject, version = reference
            other = self._version(subject, version, schema.subject)
            if other is None:
                raise SchemaError(f"refers to version {version} of {subject}, which is not in {SCHEMAS_TOPIC}")
            if is_after:
                found.setdefault(name, other.text)
            elif reference not in seen:
                seen.add(reference)
                if len(seen) > _MOST_REFERENCES:
                    raise SchemaError(f"refers to more than {_MOST_REFERENCES} schemas")
                todo.append((reference, True))
                todo += [(one, False) for one in reversed(other.references)]
        return list(found.items())

    def _version(self, subject: str, version: int, parent: str) -> StoredSchema | None:
        """Return a version of a subject that the subject `parent` refers to; −1: the latest one; None: there is none.

        A subject that names no context is first looked up in the context of `parent`.
        """
        context = parent[: parent.find(":", len(_CONTEXT)) + 1] if parent.startswith(_CONTEXT) else ""
        for name in (subject,) if subject.startswith(_CONTEXT) else (context + subject, subject):
            latest = max((number for other, number in self._by_version if other == name), default=_LATEST)
            found = self._by_version.get((name, latest if version == _LATEST else version))
            if found is not None:
                return found
        return None


def decoder_of(kind: str, text: str, others: list[tuple[str, str]]) -> Decode:
    """Return the function that decodes values of a schema. Raises SchemaError, UsageError if a package is missing.

    others  (name, text) of the schemas that it refers to
    """
    if kind == "AVRO":
        try:
            from engine.schema.avro import AvroSchema
        except ImportError as error:
            raise _missing("Avro", error) from None
        avro = AvroSchema([*(other for _, other in others), text])
        return lambda data, _indexes: avro.decode(data)
    if kind == "PROTOBUF":
        try:
            from engine.schema.protobuf import MAIN_FILE, ProtobufSchema, file_of
        except ImportError as error:
            raise _missing("Protobuf", error) from None
        try:
            imports = {name: file_of(name, other) for name, other in others}
            protobuf = ProtobufSchema(file_of(MAIN_FILE, text), imports)
        except ImportError as error:  # the parser of text
            raise _missing("Protobuf", error) from None
        return protobuf.decode
    if kind == "JSON":
        return lambda data, _indexes: _parsed_json(data)
    raise SchemaError(f"a schema of type {kind}, which kafkalog does not know")


def _missing(what: str, error: ImportError) -> UsageError:
    return UsageError(f"values in {what} need the package {error.name}", "pip install 'kafkalog[decode]'")


def _parsed_json(data: bytes) -> Any:
    """Return a value of JSON that can be written as JSON again. Raises SchemaError."""
    try:
        value = json.loads(data, parse_constant=_refuse, parse_float=_finite)
        if b"\\" in data:  # an escape may be half of a surrogate pair
            json.dumps(value, ensure_ascii=False).encode()
    except SchemaError:
        raise
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"not JSON: {error}") from None
    if is_deeper_than(value, MOST_DEPTH):
        raise SchemaError(f"more than {MOST_DEPTH} values within each other")
    return value


def _refuse(constant: str) -> Any:
    raise SchemaError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise SchemaError(f"the number {text[:40]} is too large for a double")
    return number


def schema_of_file(files: ReadOnlyFiles, name: str) -> GivenSchema:
    """Return the schema in a file. Raises UsageError, UnreadableFile.

    name  FILE or FILE#MESSAGE: JSON is Avro; a .proto, with its imports next to it; else a FileDescriptorSet of protoc. The
          message is the first one of the file, and of the last file of a set
    """
    path, message = name, None
    if not files.exists(name) and "#" in name:
        path, _, message = name.rpartition("#")
    data = files.read(path, MOST_SCHEMA_BYTES)
    try:
        if path.endswith(".avsc") or data.lstrip()[:1] in (b"{", b"["):
            if message is not None:
                raise UsageError(f"{path}: an Avro schema has no messages: remove #{message}")
            return GivenSchema(decoder_of("AVRO", data.decode(), []), is_protobuf=False)
        from engine.schema.protobuf import MAIN_FILE, ProtobufSchema, file_of, files_of_set

        if path.endswith(".proto"):
            schema = ProtobufSchema(file_of(MAIN_FILE, data.decode()), _imports(files, path, data.decode()))
        else:
            *before, file = files_of_set(data)
            schema = ProtobufSchema(file, {one.name: one for one in before})
    except ImportError as error:
        raise _missing("Protobuf", error) from None
    except (SchemaError, UnicodeDecodeError) as error:
        do = "name an .avsc, a .proto, or a file that protoc --include_imports --descriptor_set_out wrote"
        raise UsageError(f"{path}: {error}", do, path=path) from None
    if message is not None and (message := schema.full_name(message)) is None:
        raise UsageError(f"{path} has no message {name.rpartition('#')[2]}: it has {', '.join(schema.messages)}")
    return GivenSchema(lambda data, indexes: schema.decode(data, indexes, message), is_protobuf=True)


def _imports(files: ReadOnlyFiles, path: str, text: str) -> dict[str, FileDescriptorProto]:
    """Return the files that a .proto imports, also through others, and that are next to it."""
    from engine.schema.protobuf import MAIN_FILE, file_of

    found: dict[str, FileDescriptorProto] = {}
    todo = list(file_of(MAIN_FILE, text).dependency)
    while todo:
        name = todo.pop()
        imported = f"{path.rpartition('/')[0] or '.'}/{name}"
        if name not in found and len(found) < _MOST_REFERENCES and files.exists(imported):
            found[name] = file_of(name, files.read(imported, MOST_SCHEMA_BYTES).decode())
            todo += found[name].dependency
    return found


class RegistryDecoder:
    """Decodes keys and values of a topic with the schemas of a registry. See `decode.RecordDecoder`.

    given  decodes values with and without a header, if the registry does not have their schema; None: there is none
    What has no header, or the header of another serializer, stays as it is.
    """

    def __init__(self, registry: SchemaRegistry, topic: str, given: GivenSchema | None) -> None:
        self._registry, self._topic, self._given = registry, topic, given
        self._is_due = registry.has_subject_of(topic)

    def text(
        self, _offset: int, key: bytes | None, value: bytes | None
    ) -> tuple[str | bytes | None, str | bytes | None, str | None]:
        """Return (key, value, problem): JSON, or the bytes themselves if they are not decoded."""
        found = {"key": key, "value": value}
        decoded, problem = self._both(key, value)
        texts = {
            part: json.dumps(decoded[part], ensure_ascii=False, separators=(",", ":")) if part in decoded else found[part]
            for part in found
        }  # fmt: skip
        return texts["key"], texts["value"], problem

    def data(self, _offset: int, key: bytes | None, value: bytes | None) -> dict[str, object]:
        """Return {"key": …, "value": …, "problem": …}; None for what is not decoded."""
        decoded, problem = self._both(key, value)
        return {"key": decoded.get("key"), "value": decoded.get("value"), "problem": problem}

    def _both(self, key: bytes | None, value: bytes | None) -> tuple[dict[str, Any], str | None]:
        decoded, problem = {}, None
        for part, data in (("key", key), ("value", value)):
            try:
                if data is not None and (decode := self._decoder(data, part)) is not None:
                    decoded[part] = decode(data)
            except SchemaError as error:
                problem = f"the {part} cannot be decoded: {error}"
        return decoded, problem

    def _decoder(self, data: bytes, part: str) -> Callable[[bytes], Any] | None:
        """Return the function that decodes a key or value; None: it stays as it is. Raises SchemaError, UsageError."""
        given = self._given if part == "value" else None
        has_header = len(data) > _HEADER - 1 and data[0] == 0
        ident = int.from_bytes(data[1:_HEADER], "big") if has_header else -1
        schema = self._registry.find(ident, f"{self._topic}-{part}") if has_header else None
        if schema is None and given is None and not (has_header and self._is_due):
            return None
        if len(data) > MOST_BYTES:
            raise SchemaError(f"{len(data)} bytes, more than the {MOST_BYTES} that are decoded")
        if schema is not None:
            decode = self._registry.decoder(schema)
            return lambda data: _with_header(data, decode, is_protobuf=schema.kind == "PROTOBUF", what=f"schema {ident}: ")
        if given is None:
            raise SchemaError(f"schema {ident} is not in {SCHEMAS_TOPIC}")
        return lambda data: _by_given(data, given, has_header=has_header)


def _with_header(data: bytes, decode: Decode, *, is_protobuf: bool, what: str = "") -> Any:
    try:
        indexes, at = _indexes(data) if is_protobuf else ((0,), _HEADER)
        return decode(data[at:], indexes)
    except SchemaError as error:
        raise SchemaError(f"{what}{error}") from None


def _by_given(data: bytes, given: GivenSchema, *, has_header: bool) -> Any:
    """Decode a value with or without a header. Raises SchemaError."""
    if has_header:
        try:
            return _with_header(data, given.decode, is_protobuf=given.is_protobuf)
        except SchemaError:
            if given.is_protobuf:  # no message begins with a zero
                raise
    return given.decode(data, (0,))


def _indexes(data: bytes) -> tuple[tuple[int, ...], int]:
    """Return the indexes of a message, and the position after them. None is written for (0,)."""
    count, at = _zigzag(data, _HEADER)
    if not count:
        return (0,), at
    if not 0 < count <= len(data) - at:
        raise SchemaError(f"{count} indexes of a message")
    found = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        found.append(index)
    return tuple(found), at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise SchemaError("the indexes of the message are cut off")
