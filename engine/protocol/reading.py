"""Compile a message and a version to a reader of values (see `layout`).

A `ValueReader` is called with (data, at) and returns (value, position after it), or raises SchemaError with the position. It
trusts no byte: lengths are compared with the bytes left, and the element of an array has at least one byte. Only records are
slices of `data`; all other values are copies.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct as Packed
from struct import error
from typing import TYPE_CHECKING, Any

from engine.protocol.layout import FIXED, UNKNOWN_TAGS, Layout, Value, default_value
from engine.schema.json_text import decode_utf8, uuid_text
from engine.schema.readers import INTEGERS, length_reader
from engine.schema.wire import (
    MAX_STRING,
    SchemaError,
    check_count,
    null_error,
    skip_unknown_tag,
    take,
    underflow,
    unsigned_varint,
)

if TYPE_CHECKING:
    from engine.schema.notation import Field, Struct
    from engine.schema.readers import LengthReader

ValueReader = Callable[[memoryview, int], tuple[Any, int]]
_Step = Callable[[memoryview, int, Value], int]


def struct_reader(layout: Layout, struct: Struct) -> ValueReader:
    """Return the reader of a struct. Fields that the version does not have get their default."""
    missing = layout.absent(struct) + layout.tagged(struct)
    constants = {field.name: default_value(field) for field in missing}
    fresh = [field for field in missing if isinstance(constants[field.name], list | dict)]
    steps = _steps(layout, layout.stored(struct))
    if layout.flexible:
        steps.append(_tag_section(layout, struct))

    def read(data: memoryview, at: int) -> tuple[Value, int]:
        value = constants.copy()
        for field in fresh:
            value[field.name] = default_value(field)
        for step in steps:
            at = step(data, at, value)
        return value, at

    return read


def _steps(layout: Layout, fields: list[Field]) -> list[_Step]:
    """Return readers of fields in order; adjacent fields of fixed size are read together."""
    steps: list[_Step] = []
    names: list[str] = []
    codes = ""
    for field in fields:
        if field.type in FIXED and not field.is_array:
            names.append(field.name)
            codes += FIXED[field.type]
            continue
        if names:
            steps.append(_fixed(names, codes))
            names, codes = [], ""
        steps.append(_single(field.name, _field(layout, field)))
    if names:
        steps.append(_fixed(names, codes))
    return steps


def _fixed(names: list[str], codes: str) -> _Step:
    packed = Packed(">" + codes)
    size, unpack = packed.size, packed.unpack_from

    def read(data: memoryview, at: int, value: Value) -> int:
        try:
            value.update(zip(names, unpack(data, at), strict=True))
        except error:
            raise underflow(data, at).inside(names[0]) from None
        return at + size

    return read


def _single(name: str, reader: ValueReader) -> _Step:
    def read(data: memoryview, at: int, value: Value) -> int:
        try:
            value[name], at = reader(data, at)
        except SchemaError as problem:
            raise problem.inside(name, at) from None
        return at

    return read


def _field(layout: Layout, field: Field) -> ValueReader:
    """Return the reader of one field's value."""
    nullable = layout.nullable(field)
    if field.is_array:
        length_of = length_reader("array", layout.compact(field))
        if field.type in INTEGERS:
            return _integer_array(field.name, nullable, length_of, INTEGERS[field.type])
        return _array(field.name, nullable, length_of, _element(layout, field))
    if field.struct is not None:
        struct = struct_reader(layout, field.struct)
        return _nullable_struct(struct, tagged=field.tag is not None) if field.nullable else struct
    return _scalar(layout, field, nullable)


def _element(layout: Layout, field: Field) -> ValueReader:
    return _scalar(layout, field, nullable=False) if field.struct is None else struct_reader(layout, field.struct)


def _scalar(layout: Layout, field: Field, nullable: bool) -> ValueReader:
    if field.type == "uuid":
        return _uuid
    if field.type in FIXED:
        return _number(FIXED[field.type])
    length_of = length_reader(field.type, layout.compact(field))
    if field.type == "string":
        return _string(field.name, nullable, length_of)
    return _byte_array(field.name, nullable, length_of, sliced=field.type == "records")


def _number(code: str) -> ValueReader:
    packed = Packed(">" + code)

    def read(data: memoryview, at: int) -> tuple[Any, int]:
        if packed.size > len(data) - at:
            raise underflow(data, at)
        return packed.unpack_from(data, at)[0], at + packed.size

    return read


def _uuid(data: memoryview, at: int) -> tuple[str, int]:
    if len(data) - at < 16:
        raise underflow(data, at)
    return uuid_text(bytes(data[at : at + 16])), at + 16


def _string(name: str, nullable: bool, length_of: LengthReader) -> ValueReader:
    def read(data: memoryview, at: int) -> tuple[str | None, int]:
        length, at = length_of(data, at)
        if length < 0:
            if nullable:
                return None, at
            raise null_error(name)
        if length > MAX_STRING:
            raise SchemaError(f"string field {name} had invalid length {length}")
        return decode_utf8(bytes(take(data, at, length))), at + length

    return read


def _byte_array(name: str, nullable: bool, length_of: LengthReader, sliced: bool) -> ValueReader:
    """Read bytes, or records as a slice."""

    def read(data: memoryview, at: int) -> tuple[bytes | memoryview | None, int]:
        length, at = length_of(data, at)
        if length < 0:
            if nullable:
                return None, at
            raise null_error(name)
        found = take(data, at, length)
        return found if sliced else bytes(found), at + length

    return read


def _integer_array(name: str, nullable: bool, length_of: LengthReader, code: str) -> ValueReader:
    size = Packed(">" + code).size

    def read(data: memoryview, at: int) -> tuple[list[int] | None, int]:
        count, at = length_of(data, at)
        if count < 0:
            if nullable:
                return None, at
            raise null_error(name)
        check_count(data, at, count)
        if count * size > len(data) - at:
            raise underflow(data, at)
        return list(Packed(f">{count}{code}").unpack_from(data, at)), at + count * size

    return read


def _array(name: str, nullable: bool, length_of: LengthReader, element: ValueReader) -> ValueReader:
    def read(data: memoryview, at: int) -> tuple[list[Any] | None, int]:
        count, at = length_of(data, at)
        if count < 0:
            if nullable:
                return None, at
            raise null_error(name)
        check_count(data, at, count)
        found: list[Any] = []
        try:
            for _ in range(count):
                value, at = element(data, at)
                found.append(value)
        except SchemaError as problem:
            raise problem.inside(f"[{len(found)}]", at) from None
        return found, at

    return read


def _nullable_struct(struct: ValueReader, tagged: bool) -> ValueReader:
    """Read a struct after a mark: null is a byte below 0, or in a tagged field a varint of 0 or less."""

    def read(data: memoryview, at: int) -> tuple[Value | None, int]:
        if tagged:
            mark, at = unsigned_varint(data, at)
            present = mark > 0
        else:
            if at >= len(data):
                raise underflow(data, at)
            present = data[at] < 0x80
            at += 1
        return struct(data, at) if present else (None, at)

    return read


def _tag_section(layout: Layout, struct: Struct) -> _Step:
    """Read the tagged fields; the last of several with the same tag counts. Like Kafka, ignore the size of a known one."""
    known = {field.tag: _single(field.name, _field(layout, field)) for field in layout.tagged(struct)}
    invalid = {field.tag for field in layout.absent(struct) if field.tag is not None}

    def read(data: memoryview, at: int, value: Value) -> int:
        count, at = unsigned_varint(data, at)
        for _ in range(count):
            begin = at
            tag, at = unsigned_varint(data, at)
            if tag in known:
                _, at = unsigned_varint(data, at)
                at = known[tag](data, at, value)
            elif tag in invalid:
                raise SchemaError(f"Tag {tag} is not valid for version {layout.version}", at=begin)
            else:
                size, content = unsigned_varint(data, at)
                at = skip_unknown_tag(data, at)
                value.setdefault(UNKNOWN_TAGS, []).append((tag, bytes(data[content : content + size])))
        return at

    return read
