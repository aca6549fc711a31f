"""Values in Avro's binary encoding, by their schema. Needs fastavro (extra `decode`), which checks schemas and resolves names.

Values are read here: fastavro's reader follows a recursive schema until the stack overflows, and returns as many items of no
bytes as a block says.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import uuid
from base64 import b64encode
from decimal import Decimal
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any

from fastavro.schema import SchemaParseException, UnknownType, parse_schema

from engine.schema.json_text import MOST_DEPTH, is_deeper_than
from engine.schema.wire import SchemaError, encode_unsigned_varint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Read = Callable[["_Cursor"], Any]

MOST_TEXT = 1 << 20  # characters of a schema
_LEAST_VALUES = 10_000  # values that a record may have, even if it has fewer bytes
_MOST_SCALE = 1000  # digits of a decimal
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FLOAT, _DOUBLE = Struct("<f"), Struct("<d")
_PER_SECOND = {"millis": 1000, "micros": 1_000_000, "nanos": 1_000_000_000}


class AvroSchema:
    """A schema with the schemas that it refers to. Raises SchemaError.

    texts  JSON; the last one is the schema, the others define the names that it uses
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._named: dict[str, Any] = {}
        self._readers: dict[str, Read] = {}
        schema: Any = None
        try:
            for text in texts:
                schema = parse_schema(_parsed(text), named_schemas=self._named)
            self._read = self._reader(schema)
            self._is_bytes = (schema["type"] if isinstance(schema, dict) else schema) == "bytes"
        except (SchemaParseException, UnknownType, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise SchemaError(f"not an Avro schema: {type(error).__name__}: {error}"[:200]) from None

    def decode(self, data: bytes) -> Any:
        """Return the value for JSON: bytes as base64, times and decimals as text. Raises SchemaError, also for bytes left.

        A value whose schema is `bytes` is all of `data`: Confluent's serializer writes no length before it.
        """
        if self._is_bytes:
            data = encode_unsigned_varint(2 * len(data)) + data
        cursor = _Cursor(data)
        try:
            value = self._read(cursor)
        except (ValueError, LookupError, ArithmeticError, RecursionError, TypeError) as error:
            raise SchemaError(str(error) or type(error).__name__) from None
        if cursor.at != len(data):
            raise SchemaError(f"{len(data) - cursor.at} bytes are left after the value")
        return value

    def _reader(self, schema: Any) -> Read:
        if isinstance(schema, list):
            return partial(_union, [self._reader(one) for one in schema])
        if isinstance(schema, str):
            return _PRIMITIVES[schema] if schema in _PRIMITIVES else partial(self._by_name, schema)
        kind = schema["type"]
        if isinstance(kind, (list, dict)):
            return self._reader(kind)
        made = self._complex(kind, schema)
        name = schema.get("name")
        if name is not None and kind in ("record", "error", "enum", "fixed"):
            self._readers[name] = made
        logical = _logical(schema)
        return made if logical is None else lambda cursor: logical(made(cursor))

    def _complex(self, kind: str, schema: dict[str, Any]) -> Read:
        if kind in ("record", "error"):
            return partial(_record, [(field["name"], self._reader(field["type"])) for field in schema["fields"]])
        if kind == "enum":
            return partial(_enum, schema["symbols"])
        if kind == "fixed":
            return partial(_fixed, schema["size"], raw="logicalType" in schema)
        if kind == "array":
            return partial(_array, self._reader(schema["items"]))
        if kind == "map":
            return partial(_map, self._reader(schema["values"]))
        if kind == "bytes" and "logicalType" in schema:
            return _raw_bytes
        return self._reader(kind)

    def _by_name(self, name: str, cursor: _Cursor) -> Any:
        read = self._readers.get(name)
        if read is None:
            read = self._reader(self._named[name])
        return read(cursor)


class _Cursor:
    """The bytes of a value. left: values that it may still have; depth: of those around the next one."""

    __slots__ = ("at", "data", "depth", "left")

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.depth, self.left = data, 0, 0, max(len(data), _LEAST_VALUES)

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes. Raises ValueError."""
        if not 0 <= size <= len(self.data) - self.at:
            raise ValueError(f"{size} bytes are needed, and {len(self.data) - self.at} are left")
        self.at += size
        return self.data[self.at - size : self.at]

    def long(self) -> int:
        """Return a zigzag number. Raises ValueError."""
        result = shift = 0
        while True:
            if self.at >= len(self.data) or shift > 63:
                raise ValueError("a number that is too long or cut off")
            byte = self.data[self.at]
            self.at += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (result >> 1) ^ -(result & 1)
            shift += 7

    def enter(self, count: int = 1) -> None:
        """Begin `count` values within a value. Raises ValueError beyond the limits."""
        self.left -= count
        if self.left < 0 or self.depth >= MOST_DEPTH:
            raise ValueError("more values, or more deeply nested ones, than are decoded")
        self.depth += 1


def _record(fields: list[tuple[str, Read]], cursor: _Cursor) -> dict[str, Any]:
    cursor.enter()
    found = {name: read(cursor) for name, read in fields}
    cursor.depth -= 1
    return found


def _union(branches: list[Read], cursor: _Cursor) -> Any:
    number = cursor.long()
    if not 0 <= number < len(branches):
        raise ValueError(f"branch {number} of a union of {len(branches)}")
    return branches[number](cursor)


def _enum(symbols: list[str], cursor: _Cursor) -> str:
    number = cursor.long()
    if not 0 <= number < len(symbols):
        raise ValueError(f"symbol {number} of an enum of {len(symbols)}")
    return symbols[number]


def _fixed(size: int, cursor: _Cursor, *, raw: bool) -> Any:
    data = cursor.take(size)
    return data if raw else _base64(data)


def _array(read: Read, cursor: _Cursor) -> list[Any]:
    found: list[Any] = []
    for count in _blocks(cursor):
        found += [read(cursor) for _ in range(count)]
        cursor.depth -= 1
    return found


def _map(read: Read, cursor: _Cursor) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for count in _blocks(cursor):
        for _ in range(count):
            name = _string(cursor)
            found[name] = read(cursor)
        cursor.depth -= 1
    return found


def _blocks(cursor: _Cursor) -> Any:
    """Yield the number of items of each block."""
    while count := cursor.long():
        if count < 0:
            count = -count
            cursor.long()  # bytes of the block
        cursor.enter(count)
        yield count


def _string(cursor: _Cursor) -> str:
    return cursor.take(cursor.long()).decode()


def _raw_bytes(cursor: _Cursor) -> bytes:
    return cursor.take(cursor.long())


def _boolean(cursor: _Cursor) -> bool:
    return cursor.take(1) != b"\0"


def _number(layout: Struct, cursor: _Cursor) -> float | str:
    value: float = layout.unpack(cursor.take(layout.size))[0]
    return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


_PRIMITIVES: dict[str, Read] = {
    "null": lambda _cursor: None, "boolean": _boolean, "int": _Cursor.long, "long": _Cursor.long, "string": _string,
    "bytes": lambda cursor: _base64(_raw_bytes(cursor)), "float": partial(_number, _FLOAT), "double": partial(_number, _DOUBLE),
}  # fmt: skip


def _logical(schema: dict[str, Any]) -> Callable[[Any], Any] | None:
    """Return the function that converts a value of a logical type; None: it stays. Values out of range stay, too."""
    name, kind = str(schema.get("logicalType")), schema["type"]
    if kind in ("bytes", "fixed") and "logicalType" in schema:
        if name == "decimal":
            return partial(_decimal, int(schema.get("scale", 0)))
        return lambda data: str(uuid.UUID(bytes=data)) if name == "uuid" and len(data) == 16 else _base64(data)
    if kind == "int" and name == "date":
        return lambda days: _in_range(lambda: (_EPOCH + dt.timedelta(days=days)).date().isoformat(), days)
    what, _, unit = name.rpartition("-")
    if kind in ("int", "long") and unit in _PER_SECOND and what in ("time", "timestamp", "local-timestamp"):
        return partial(_time, what, _PER_SECOND[unit])
    return None


def _time(what: str, per_second: int, value: int) -> Any:
    seconds, rest = divmod(value, per_second)
    digits = f"{rest:0{len(str(per_second)) - 1}d}"

    def text() -> str:
        moment = (_EPOCH + dt.timedelta(seconds=seconds)).isoformat()[:19]
        if what == "time":
            return f"{moment[11:]}.{digits}"
        return f"{moment}.{digits}{'Z' if what == 'timestamp' else ''}"

    return _in_range(text, value)


def _in_range(convert: Callable[[], str], value: Any) -> Any:
    try:
        return convert()
    except OverflowError:
        return value


def _decimal(scale: int, data: bytes) -> str:
    if not 0 <= scale <= _MOST_SCALE or len(data) > _MOST_SCALE:
        return _base64(data)
    number = int.from_bytes(data, "big", signed=True)
    digits = tuple(map(int, str(abs(number))))
    return f"{Decimal((int(number < 0), digits, -scale)):f}"


def _parsed(text: str) -> Any:
    """Return the JSON of a schema. Raises ValueError if it is too large or too deep."""
    if len(text) > MOST_TEXT:
        raise ValueError(f"more than {MOST_TEXT} characters")
    schema = json.loads(text)
    if is_deeper_than(schema, 4 * MOST_DEPTH):  # a type within a type takes up to four levels of JSON
        raise ValueError("types that are nested too deeply")
    return schema
