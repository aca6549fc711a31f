"""Compile a schema and a version to a reader (see `readers`): from bytes to the JSON of Kafka's *JsonConverter classes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from engine.schema import readers
from engine.schema.json_text import json_bytes
from engine.schema.wire import SchemaError, skip_unknown_tag, to_int16, unsigned_varint

if TYPE_CHECKING:
    from engine.schema.notation import Catalogue, Field, Message, Struct
    from engine.schema.readers import Reader

_ZEROS = {"bool": "false", "float64": "0.0", "string": '""', "bytes": '""', "uuid": '"AAAAAAAAAAAAAAAAAAAAAA"'}


class Tagged(NamedTuple):
    """A tagged field of a struct: its slot among the pieces, its reader, and its text if it was not stored."""

    slot: int
    reader: Reader
    default: str


@lru_cache(maxsize=256)
def reader_for(catalogue: Catalogue, name: str, read_version: int, write_version: int, embedded: bool) -> Reader:
    """Return the reader of a whole message.

    read_version   the version of the bytes; any number is valid, as Kafka's readers check it only in nested structs
    write_version  the version whose fields the JSON has; fields missing in the bytes get their default
    embedded       decode bytes that hold another message of the same catalogue (`holds`), if they can be decoded
    The cache is bounded, since a damaged record can have any version.
    """
    message = catalogue.message(name)
    return _Compiler(catalogue, message, read_version, write_version, embedded).struct(message.body)


def message_json(catalogue: Catalogue, name: str, version: int, data: bytes, at: int = 0) -> tuple[str, int]:
    """Return (JSON text, position after the message) of the message at byte position `at`. Raises SchemaError for bad bytes."""
    out: list[str] = []
    at = reader_for(catalogue, name, version, version, embedded=False)(data, at, out)
    return "".join(out), at


class _Compiler:
    def __init__(
        self, catalogue: Catalogue, message: Message, read_version: int, write_version: int, embedded: bool,
    ) -> None:
        self.catalogue = catalogue
        self.message = message
        self.real_version = read_version
        self.read_version = message.nearest(read_version)
        self.write_version = message.nearest(write_version)
        self.embedded = embedded
        self.flexible = message.flexible is not None and self.read_version in message.flexible

    def struct(self, struct: Struct) -> Reader:
        """Return the reader of a struct, including the braces."""
        if struct.inline and self.real_version > self.message.versions.highest:
            return _refuse(f"Can't read version {self.real_version} of {struct.name}")
        shown = [field for field in struct.fields if self.write_version in field.versions]
        if any(field.tag is not None for field in shown):
            return self._tagged_struct(struct, shown)
        steps = self._steps(shown, "{")
        if self.flexible:
            steps.append(self._tag_section({}, struct))
        if not shown:
            return _sequence(steps, "{}")
        return _sequence(steps, "}")

    def _steps(self, fields: list[Field], opening: str) -> list[Reader]:
        """Return readers of fields in order; adjacent integers are read together. `opening` is the text before them."""
        steps: list[Reader] = []
        template = codes = ""
        for field in fields:
            prefix = f'{opening}"{field.name}":'
            opening = ","
            stored = self.read_version in field.versions
            if stored and field.type in readers.INTEGERS and not field.is_array:
                template += prefix + "%d"
                codes += readers.INTEGERS[field.type]
                continue
            if codes:
                steps.append(readers.integers(template, codes))
                template = codes = ""
            steps.append(self._field(field, prefix) if stored else _constant(prefix + self._default(field)))
        if codes:
            steps.append(readers.integers(template, codes))
        return steps

    def _field(self, field: Field, prefix: str) -> Reader:
        """Return the reader of one field's value."""
        length_of = readers.length_reader("array" if field.is_array else field.type, self.flexible)
        if field.is_array:
            if field.type in readers.INTEGERS:
                code = readers.INTEGERS[field.type]
                return readers.integer_array(prefix, field.name, field.nullable, length_of, code)
            return readers.array(prefix, field.name, field.nullable, length_of, self._element(field))
        if field.struct is not None:
            struct = self.struct(field.struct)
            if field.nullable:
                return readers.nullable_struct(prefix, struct, tagged=field.tag is not None)
            return readers.struct_field(prefix, struct)
        if field.type == "bytes" and field.holds is not None and self.embedded:
            return readers.byte_array(prefix, field.name, field.nullable, length_of, self._embedded_json(field.holds))
        return self._scalar(field.type, prefix, field.name, field.nullable)

    def _element(self, field: Field) -> Reader:
        if field.struct is not None:
            return self.struct(field.struct)
        return self._scalar(field.type, "", f"{field.name} element", nullable=False)

    def _scalar(self, kind: str, prefix: str, name: str, nullable: bool) -> Reader:
        if kind in readers.INTEGERS:
            return readers.integers(prefix + "%d", readers.INTEGERS[kind])
        if kind == "string":
            return readers.string(prefix, name, nullable, readers.length_reader(kind, self.flexible))
        if kind == "bytes":
            return readers.byte_array(prefix, name, nullable, readers.length_reader(kind, self.flexible))
        return {"bool": readers.boolean, "float64": readers.float64, "uuid": readers.uuid}[kind](prefix)

    def _embedded_json(self, name: str) -> readers.BytesText:
        """Return a converter for bytes with a version and a message: to its JSON, or to base64 if it cannot be decoded."""

        def as_json(raw: bytes) -> str:
            if len(raw) < 2:
                return json_bytes(raw)
            version = to_int16(int.from_bytes(raw[:2]))
            try:
                return message_json(self.catalogue, name, version, raw, 2)[0]
            except SchemaError:
                return json_bytes(raw)

        return as_json

    def _default(self, field: Field) -> str:
        """Return the JSON of a field that was not stored. A nullable field is null only if null is its declared default."""
        if field.default is not None:
            return field.default
        if field.is_array:
            return "[]"
        if field.struct is not None:
            members = (f'"{each.name}":{self._default(each)}' for each in field.struct.fields)
            return "{" + ",".join(members) + "}"
        return _ZEROS.get(field.type, "0")

    def _tagged_struct(self, struct: Struct, shown: list[Field]) -> Reader:
        """Return the reader of a struct with tagged fields, in the schema's order in the JSON, without those at their default.

        They are stored after all others, in any order, so a slot among the pieces is reserved for each.
        """
        plan: list[Reader | None] = []
        tagged: dict[int, Tagged] = {}
        plain: list[Field] = []
        for field in shown:
            if field.tag is None:
                plain.append(field)
                continue
            plan += [*self._steps(plain, ","), None]
            plain = []
            tagged[field.tag] = Tagged(len(tagged), self._field(field, ""), self._default(field))
        plan += self._steps(plain, ",")
        labels = [f',"{field.name}":' for field in shown if field.tag is not None]
        read_tags = self._tag_section(tagged, struct)

        def read(data: bytes, at: int, out: list[str]) -> int:
            members: list[str] = []
            slots: list[int] = []
            for step in plan:
                if step is None:
                    slots.append(len(members))
                    members.append("")
                else:
                    at = step(data, at, members)
            values = [""] * len(slots)
            at = read_tags(data, at, values)
            for slot, label, value in zip(slots, labels, values, strict=False):
                if value:
                    members[slot] = label + value
            out.append("{" + "".join(members)[1:] + "}")
            if len(values) > len(slots):
                out.append("")
            return at

        return read

    def _tag_section(self, tagged: dict[int, Tagged], struct: Struct) -> Reader:
        """Return the reader of the tagged fields into `out[slot]`. It appends "" to `out` if there were unknown ones.

        This mark tells `_tagged_value` that a struct is not its default, since Kafka compares unknown fields, too. Like Kafka's
        readers it does not check that the size of a known field is the declared one.
        """
        invalid = {
            field.tag for field in struct.fields if field.tag is not None and self.read_version not in field.versions
        }
        version = self.real_version

        def read(data: bytes, at: int, out: list[str]) -> int:
            count, at = unsigned_varint(data, at)
            unknown = False
            for _ in range(count):
                tag, at = unsigned_varint(data, at)
                if tag in tagged:
                    _, at = unsigned_varint(data, at)
                    at = _tagged_value(tagged[tag], data, at, out)
                elif tag in invalid:
                    unsigned_varint(data, at)
                    raise SchemaError(f"Tag {tag} is not valid for version {version}")
                else:
                    at = skip_unknown_tag(data, at)
                    unknown = True
            if unknown:
                out.append("")
            return at

        return read


def _tagged_value(tagged: Tagged, data: bytes, at: int, values: list[str]) -> int:
    """Read a tagged field; a default value is left empty. The last of several fields with the same tag counts."""
    pieces: list[str] = []
    at = tagged.reader(data, at, pieces)
    text = "".join(pieces)
    values[tagged.slot] = "" if text == tagged.default and "" not in pieces else text
    return at


def _sequence(steps: list[Reader], closing: str) -> Reader:
    """Return a reader that calls `steps` in order, and appends a text."""

    def read(data: bytes, at: int, out: list[str]) -> int:
        for step in steps:
            at = step(data, at, out)
        out.append(closing)
        return at

    return read


def _constant(text: str) -> Reader:
    """Return a reader that reads nothing and always appends the same text."""

    def read(data: bytes, at: int, out: list[str]) -> int:  # noqa: ARG001  # a Reader
        out.append(text)
        return at

    return read


def _refuse(message: str) -> Reader:
    """Return a reader that always raises SchemaError."""

    def read(data: bytes, at: int, out: list[str]) -> int:  # noqa: ARG001  # a Reader
        raise SchemaError(message)

    return read
