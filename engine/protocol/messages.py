"""Messages of Kafka's protocol: the catalogue, bytes to values and back, values as Kafka's JSON. Values: see `layout`."""

from __future__ import annotations

from base64 import b64encode
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from engine.protocol.layout import Layout, Value, is_default
from engine.protocol.reading import struct_reader
from engine.protocol.writing import struct_writer
from engine.schema.notation import Catalogue
from engine.schema.wire import SchemaError

if TYPE_CHECKING:
    from collections.abc import Sized

    from engine.protocol.reading import ValueReader
    from engine.protocol.writing import ValueWriter
    from engine.schema.notation import Field, Message, Struct, Versions

MOST_STRUCTS = 1_000_000  # in the arrays of a message


class Api(IntEnum):
    """The keys of the APIs that the code names. Mirrors ApiKeys."""

    PRODUCE = 0
    FETCH = 1
    METADATA = 3
    FIND_COORDINATOR = 10
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    END_TXN = 26


@cache
def catalogue() -> Catalogue:
    """All messages; requests and responses have the API key as id."""
    from engine.protocol import table_admin, table_data, table_groups

    return Catalogue(table_data.MESSAGES + table_groups.MESSAGES + table_admin.MESSAGES)


@cache
def _others() -> Catalogue:
    from engine.protocol import table_admin

    return Catalogue(table_admin.OTHERS)


@cache
def api_head(api_key: int) -> Message:
    """Return the request of any API of Kafka 4.3.1; it may be without its fields. Raises SchemaError for an unknown API."""
    message = catalogue().find("request", api_key) or _others().find("request", api_key)
    if message is None:
        raise SchemaError(f"the API key {api_key} is not known")
    return message


def api_name(api_key: int) -> str:
    """Return Kafka's name of an API, such as Fetch. Raises SchemaError for an unknown API."""
    return api_head(api_key).name.removesuffix("Request")


def api_key(name: str) -> int:
    """Return the key of an API that can be decoded, by Kafka's name. Raises KeyError for an unknown one."""
    return catalogue().message(f"{name}Request").id


def api_names() -> list[str]:
    """Return the names of all APIs of Kafka 4.3.1."""
    heads = [one.message(name) for one in (catalogue(), _others()) for name in one.names()]
    return sorted(head.name.removesuffix("Request") for head in heads if head.role == "request")


def api_versions(api_key: int) -> Versions:
    """Return the versions of an API that can be decoded and encoded. Raises SchemaError if there is none."""
    return api_message("request", api_key).versions


@cache
def api_message(role: str, api_key: int) -> Message:
    """Return the `request` or `response` of an API. Raises SchemaError for an API that is not in the catalogue."""
    message = catalogue().find(role, api_key)
    if message is None:
        raise SchemaError(f"{api_name(api_key)} (API key {api_key}) is not decoded")
    return message


def decode(
    name: str, version: int, data: bytes | memoryview, at: int = 0, most_structs: int = MOST_STRUCTS,
) -> tuple[Value, int]:
    """Return (value, position after it) of the message at byte position `at`. Records are slices of `data`.

    most_structs  refuse a message with more structs in its arrays; each takes some hundred bytes of memory
    Raises SchemaError with the message's name, the byte position and the field if the bytes are not such a message, or if Kafka
    4.3.1 does not know the version.
    """
    reader = _reader(name, version)
    try:
        return reader(memoryview(data), at, [most_structs])
    except SchemaError as problem:
        raise _located(problem, name, version) from None


def encode(name: str, version: int, value: Value) -> list[Sized]:
    """Return the bytes of a message in pieces: `bytes`, and between them the values of records as they were given.

    Records are a buffer (a piece that is a memoryview), or an object whose `len` is their size, such as a range of a file: a
    piece that is neither bytes nor memoryview is sent by the caller. Fields that `value` does not have get their default. A
    field that the version does not have must be missing, `ignorable` or the default, as in Kafka. Raises SchemaError with the
    field's name.
    """
    writer = _writer(name, version)
    out: list[Sized] = []
    try:
        writer(value, out)
    except SchemaError as problem:
        raise _located(problem, name, version) from None
    return join_pieces(out)


def join_pieces(pieces: list[Sized]) -> list[Sized]:
    """Return the pieces with adjacent `bytes` joined; pieces of records are not copied."""
    joined: list[Sized] = []
    run: list[bytes] = []
    for piece in pieces:
        if isinstance(piece, bytes):
            run.append(piece)
            continue
        joined += (b"".join(run), piece)
        run = []
    if run:
        joined.append(b"".join(run))
    return joined


def to_json(name: str, version: int, value: Value) -> dict[str, Any]:
    """Return the object of Kafka's *JsonConverter classes; `recordsSizeInBytes` replaces records."""
    layout = _layout(name, version)
    return _json_struct(layout, layout.message.body, value)


def _located(problem: SchemaError, name: str, version: int) -> SchemaError:
    """Return the error with the place before its message."""
    where = f"{name} version {version}"
    if problem.path:
        where += f", {'.'.join(reversed(problem.path)).replace('.[', '[')}"
    if problem.at is not None:
        where += f", byte {problem.at}"
    located = SchemaError(f"{where}: {problem}", problem.kafka, problem.at)
    located.path = problem.path
    return located


def _layout(name: str, version: int) -> Layout:
    message = catalogue().message(name)
    if version not in message.versions:
        low, high = message.versions
        raise SchemaError(f"{name} version {version} is not known: Kafka 4.3.1 has {low} to {high}")
    return Layout(message, version)


@cache  # bounded by the catalogue: unknown versions raise
def _reader(name: str, version: int) -> ValueReader:
    layout = _layout(name, version)
    return struct_reader(layout, layout.message.body)


@cache
def _writer(name: str, version: int) -> ValueWriter:
    layout = _layout(name, version)
    return struct_writer(layout, layout.message.body)


def _json_struct(layout: Layout, struct: Struct, value: Value) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field in struct.fields:
        if layout.version not in field.versions or (field.tag is not None and is_default(field, value[field.name])):
            continue
        each = value[field.name]
        if field.type == "records" and each is not None:
            out["recordsSizeInBytes"] = len(each)
        elif field.is_array and each is not None:
            out[field.name] = [_json_value(layout, field, one) for one in each]
        else:
            out[field.name] = _json_value(layout, field, each)
    return out


def _json_value(layout: Layout, field: Field, value: Any) -> Any:
    if value is None:
        return None
    if field.struct is not None:
        return _json_struct(layout, field.struct, value)
    return b64encode(value).decode() if field.type == "bytes" else value
