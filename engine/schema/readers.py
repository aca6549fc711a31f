"""Readers of single fields: each decodes one value and appends its JSON text.

A `Reader` is called with (data, at, out): it reads the value at byte position `at`, appends pieces of JSON to `out` and returns
the position after the value, or raises SchemaError. The functions here make readers; `prefix` is the text before the value,
such as `,"offset":`. Readers are closures, made once per schema version, because millions of records are converted to text with
them.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct as Packed
from struct import error, unpack_from

from engine.java.doubles import double_text
from engine.schema.json_text import json_bytes, uuid_text
from engine.schema.wire import Buffer, check_count, compact_length, null_error, string_as_json, take, underflow, unsigned_varint

Reader = Callable[[bytes, int, list[str]], int]
LengthReader = Callable[[Buffer, int], tuple[int, int]]
BytesText = Callable[[bytes], str]

INTEGERS = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q"}
_FLOAT64 = Packed(">d")


def integers(template: str, codes: str) -> Reader:
    """Read adjacent integers at once: `template` has a %d for each of the struct `codes`."""
    packed = Packed(">" + codes)
    size = packed.size
    unpack = packed.unpack_from

    def read(data: bytes, at: int, out: list[str]) -> int:
        try:
            out.append(template % unpack(data, at))
        except error:
            raise underflow(data, at) from None
        return at + size

    return read


def boolean(prefix: str) -> Reader:
    """Read one byte; all values but 0 are true."""
    texts = (prefix + "false", prefix + "true")

    def read(data: bytes, at: int, out: list[str]) -> int:
        if at >= len(data):
            raise underflow(data, at)
        out.append(texts[data[at] != 0])
        return at + 1

    return read


def float64(prefix: str) -> Reader:
    """Read a double; as in Jackson, NaN and infinities are quoted."""

    def read(data: bytes, at: int, out: list[str]) -> int:
        if len(data) - at < 8:
            raise underflow(data, at)
        text = double_text(_FLOAT64.unpack_from(data, at)[0])
        out.append(prefix + (f'"{text}"' if text[-1] in "Ny" else text))
        return at + 8

    return read


def uuid(prefix: str) -> Reader:
    """Read 16 bytes as Kafka's 22 characters."""

    def read(data: bytes, at: int, out: list[str]) -> int:
        if len(data) - at < 16:
            raise underflow(data, at)
        out.append(f'{prefix}"{uuid_text(data[at : at + 16])}"')
        return at + 16

    return read


def _fixed_length(code: str) -> LengthReader:
    """Read a length stored as one integer of the struct `code`."""
    packed = Packed(">" + code)

    def read(data: Buffer, at: int) -> tuple[int, int]:
        if len(data) - at < packed.size:
            raise underflow(data, at)
        return packed.unpack_from(data, at)[0], at + packed.size

    return read


_STRING_LENGTH, _LENGTH = _fixed_length(INTEGERS["int16"]), _fixed_length(INTEGERS["int32"])


def length_reader(kind: str, flexible: bool) -> LengthReader:
    """Return the reader for the length of a `string`, or of `bytes` and arrays."""
    if flexible:
        return compact_length
    return _STRING_LENGTH if kind == "string" else _LENGTH


def string(prefix: str, name: str, nullable: bool, length_of: LengthReader) -> Reader:
    """Read a string; `name` is its name in Kafka's messages."""

    def read(data: bytes, at: int, out: list[str]) -> int:
        length, at = length_of(data, at)
        if length < 0:
            if not nullable:
                raise null_error(name)
            out.append(prefix + "null")
            return at
        out.append(prefix + string_as_json(data, at, length, name))
        return at + length

    return read


def byte_array(
    prefix: str, name: str, nullable: bool, length_of: LengthReader, as_json: BytesText = json_bytes,
) -> Reader:
    """Read bytes; `as_json` converts them to text, by default to base64."""

    def read(data: bytes, at: int, out: list[str]) -> int:
        length, at = length_of(data, at)
        if length < 0:
            if not nullable:
                raise null_error(name)
            out.append(prefix + "null")
            return at
        out.append(prefix + as_json(take(data, at, length)))
        return at + length

    return read


def integer_array(prefix: str, name: str, nullable: bool, length_of: LengthReader, code: str) -> Reader:
    """Read an array of integers of the struct `code` at once."""
    size = Packed(">" + code).size

    def read(data: bytes, at: int, out: list[str]) -> int:
        count, at = length_of(data, at)
        if count < 0:
            if not nullable:
                raise null_error(name)
            out.append(prefix + "null")
            return at
        check_count(data, at, count)
        if count * size > len(data) - at:
            raise underflow(data, at)
        out.append(f"{prefix}[{','.join(map(str, unpack_from(f'>{count}{code}', data, at)))}]")
        return at + count * size

    return read


def array(prefix: str, name: str, nullable: bool, length_of: LengthReader, element: Reader) -> Reader:
    """Read an array with `element`. Every element has at least one byte, so the bytes left bound the count."""

    def read(data: bytes, at: int, out: list[str]) -> int:
        count, at = length_of(data, at)
        if count < 0:
            if not nullable:
                raise null_error(name)
            out.append(prefix + "null")
            return at
        check_count(data, at, count)
        out.append(prefix + "[")
        for number in range(count):
            if number:
                out.append(",")
            at = element(data, at, out)
        out.append("]")
        return at

    return read


def struct_field(prefix: str, struct: Reader) -> Reader:
    """Read a struct that is never null: only its fields are stored."""

    def read(data: bytes, at: int, out: list[str]) -> int:
        out.append(prefix)
        return struct(data, at, out)

    return read


def nullable_struct(prefix: str, struct: Reader, tagged: bool) -> Reader:
    """Read a struct after a mark: null is a byte below 0, or in a tagged field a varint of 0 or less."""

    def read(data: bytes, at: int, out: list[str]) -> int:
        if tagged:
            mark, at = unsigned_varint(data, at)
            present = mark > 0
        else:
            if at >= len(data):
                raise underflow(data, at)
            present = data[at] < 0x80
            at += 1
        if present:
            if prefix:
                out.append(prefix)
            return struct(data, at, out)
        out.append(prefix + "null")
        return at

    return read
