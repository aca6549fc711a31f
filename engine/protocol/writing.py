"""Compile a message and a version to a writer of values (see `layout`).

A `ValueWriter` is called with (value, out) and appends pieces to `out`, or raises SchemaError if the value does not follow the
schema. The values of records are pieces of their own: a buffer, or any object with a length that the caller sends.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from struct import Struct as Packed
from struct import error
from typing import TYPE_CHECKING, Any

from engine.protocol.layout import FIXED, UNKNOWN_TAGS, Layout, Value, default_value, is_default
from engine.schema.json_text import uuid_bytes
from engine.schema.readers import INTEGERS
from engine.schema.wire import MAX_STRING, SchemaError, encode_unsigned_varint, null_error

if TYPE_CHECKING:
    from engine.schema.notation import Field, Struct

ValueWriter = Callable[[Any, list[Sized]], None]
_LengthWriter = Callable[[int], bytes]
_SHORT, _INT = Packed(">h"), Packed(">i")


def struct_writer(layout: Layout, struct: Struct) -> ValueWriter:
    """Return the writer of a struct. A field that the dict does not have is written as its default."""
    names = {field.name for field in struct.fields} | {UNKNOWN_TAGS}
    steps = [_refuse(layout, field) for field in layout.absent(struct) if not field.ignorable]
    steps += _steps(layout, layout.stored(struct))
    steps.append(_tag_section(layout, struct) if layout.flexible else _no_tags)

    def write(value: Value, out: list[Sized]) -> None:
        if not isinstance(value, dict):
            raise SchemaError(f"{struct.name} is a dict, not {_shown(value)}")
        if not names.issuperset(value):
            raise SchemaError(f"{struct.name} does not have the fields {sorted(map(str, value.keys() - names))}")
        for step in steps:
            step(value, out)

    return write


def _shown(value: Any) -> str:
    return repr(value)[:80] if isinstance(value, str | int | float | bytes | None) else type(value).__name__


def _refuse(layout: Layout, field: Field) -> ValueWriter:
    """Return a step for a field that the version does not have: only the default is accepted."""

    def write(value: Value, out: list[Sized]) -> None:  # noqa: ARG001  # a ValueWriter
        if field.name in value and not is_default(field, value[field.name]):
            found = _shown(value[field.name])
            raise SchemaError(f"version {layout.version} does not have this field: {found} is lost").inside(field.name)

    return write


def _no_tags(value: Value, out: list[Sized]) -> None:  # noqa: ARG001  # a ValueWriter
    if value.get(UNKNOWN_TAGS):
        raise SchemaError("this version does not have tagged fields").inside(UNKNOWN_TAGS)


def _steps(layout: Layout, fields: list[Field]) -> list[ValueWriter]:
    """Return writers of fields in order; adjacent fields of fixed size are written together."""
    steps: list[ValueWriter] = []
    run: list[Field] = []
    for field in fields:
        if field.type in FIXED and not field.is_array:
            run.append(field)
            continue
        if run:
            steps.append(_fixed(run))
            run = []
        steps.append(_single(field, _field(layout, field)))
    if run:
        steps.append(_fixed(run))
    return steps


def _fixed(fields: list[Field]) -> ValueWriter:
    pairs = [(field.name, default_value(field)) for field in fields]
    pack = Packed(">" + "".join(FIXED[field.type] for field in fields)).pack
    writers = [_single(field, _number(field)) for field in fields]

    def write(value: Value, out: list[Sized]) -> None:
        get = value.get
        try:
            out.append(pack(*[get(name, default) for name, default in pairs]))
        except error:
            for writer in writers:  # one of them raises the error that names the field
                writer(value, out)
            raise

    return write


def _single(field: Field, writer: ValueWriter) -> ValueWriter:
    name, default = field.name, default_value(field)

    def write(value: Value, out: list[Sized]) -> None:
        try:
            writer(value.get(name, default), out)
        except SchemaError as problem:
            raise problem.inside(name) from None

    return write


def _length_writer(kind: str, compact: bool) -> _LengthWriter:
    """Return the writer for the length of a `string`, or of other values; the length of a null is -1."""
    if compact:
        return lambda length: encode_unsigned_varint(length + 1)
    return _SHORT.pack if kind == "string" else _INT.pack


def _field(layout: Layout, field: Field) -> ValueWriter:
    """Return the writer of one field's value."""
    if field.is_array:
        writer = _array(layout, field)
    elif field.struct is not None:
        struct = struct_writer(layout, field.struct)
        return _nullable_struct(layout, field, struct) if field.nullable else struct
    elif field.type in FIXED:
        return _number(field)
    elif field.type == "uuid":
        return _uuid
    else:
        writer = _byte_array(layout, field)
    if not layout.nullable(field):
        return _not_null(field.name, writer)
    null = _length_writer("array" if field.is_array else field.type, layout.compact(field))(-1)
    return _or_null(null, writer)


def _not_null(name: str, writer: ValueWriter) -> ValueWriter:
    def write(value: Any, out: list[Sized]) -> None:
        if value is None:
            raise null_error(name)
        writer(value, out)

    return write


def _or_null(null: bytes, writer: ValueWriter) -> ValueWriter:
    def write(value: Any, out: list[Sized]) -> None:
        if value is None:
            out.append(null)
        else:
            writer(value, out)

    return write


def _number(field: Field) -> ValueWriter:
    pack = Packed(">" + FIXED[field.type]).pack

    def write(value: Any, out: list[Sized]) -> None:
        try:
            out.append(pack(value))
        except error:
            raise SchemaError(f"{_shown(value)} is not of type {field.type}") from None

    return write


def _uuid(value: Any, out: list[Sized]) -> None:
    try:
        out.append(uuid_bytes(value))
    except (ValueError, TypeError):
        raise SchemaError(f"{_shown(value)} is not a UUID") from None


def _byte_array(layout: Layout, field: Field) -> ValueWriter:
    """Write a string, bytes or records."""
    length_of = _length_writer(field.type, layout.compact(field))

    def write_string(value: Any, out: list[Sized]) -> None:
        if not isinstance(value, str):
            raise SchemaError(f"{_shown(value)} is not a string")
        raw = value.encode(errors="replace")  # as Java does: a surrogate without its pair becomes a question mark
        if len(raw) > MAX_STRING:
            raise SchemaError(f"a string of {len(raw)} bytes is too long")
        out.append(length_of(len(raw)) + raw)

    def write_bytes(value: Any, out: list[Sized]) -> None:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise SchemaError(f"{_shown(value)} is not bytes")
        out.append(length_of(len(value)) + value)

    def write_records(value: Any, out: list[Sized]) -> None:
        if isinstance(value, bytes | bytearray):
            value = memoryview(value)  # `bytes` are joined with their neighbours
        if not isinstance(value, Sized) or isinstance(value, str | list | dict):
            raise SchemaError(f"{_shown(value)} is not records")
        out += (length_of(len(value)), value)

    return {"string": write_string, "bytes": write_bytes, "records": write_records}[field.type]


def _array(layout: Layout, field: Field) -> ValueWriter:
    length_of = _length_writer("array", layout.compact(field))
    if field.struct is not None:
        element = struct_writer(layout, field.struct)
    else:
        element = _field(layout, field._replace(is_array=False, nullable=False))
    code = INTEGERS.get(field.type)

    def write(value: Any, out: list[Sized]) -> None:
        if not isinstance(value, list | tuple):
            raise SchemaError(f"{_shown(value)} is not a list")
        out.append(length_of(len(value)))
        if code:
            try:
                out.append(Packed(f">{len(value)}{code}").pack(*value))
            except error:
                pass  # the loop finds the element
            else:
                return
        for number, each in enumerate(value):
            try:
                element(each, out)
            except SchemaError as problem:
                raise problem.inside(f"[{number}]") from None

    return write


def _nullable_struct(layout: Layout, field: Field, struct: ValueWriter) -> ValueWriter:
    """Write a struct after a mark: a byte of 1, for null -1; in a tagged field varints of 1 and 0."""
    present, null = (b"\1", b"\0") if field.tag is not None else (b"\1", b"\xff")
    nullable = layout.nullable(field)

    def write(value: Any, out: list[Sized]) -> None:
        if value is not None:
            out.append(present)
            struct(value, out)
        elif nullable:
            out.append(null)
        else:
            raise null_error(field.name)

    return write


def _tag_section(layout: Layout, struct: Struct) -> ValueWriter:
    """Write the tagged fields that are not their default, and the unknown ones, in the order of their tags."""
    known = [(field, _single(field, _field(layout, field))) for field in layout.tagged(struct)]

    def write(value: Value, out: list[Sized]) -> None:
        found: list[tuple[int, list[Sized]]] = []
        for field, writer in known:
            if field.name in value and not is_default(field, value[field.name]):
                content: list[Sized] = []
                writer(value, content)
                found.append((field.tag or 0, content))
        if UNKNOWN_TAGS in value:
            found += [(tag & 0xFFFFFFFF, [raw]) for tag, raw in value[UNKNOWN_TAGS]]
        found.sort(key=lambda each: each[0])
        out.append(encode_unsigned_varint(len(found)))
        for tag, content in found:
            out.append(encode_unsigned_varint(tag) + encode_unsigned_varint(sum(map(len, content))))
            out += content

    return write
