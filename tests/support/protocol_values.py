"""Random values of every message and version of `engine.protocol`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.protocol.frames import RequestHeader, encode_request
from engine.protocol.layout import UNKNOWN_TAGS, Layout, default_value
from engine.protocol.messages import catalogue
from engine.schema.json_text import uuid_text

if TYPE_CHECKING:
    import random

    from engine.schema.notation import Field, Struct

BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "int64": 64}
TEXTS = ("", "a", "topic-7", "großes Ding", "日本\u2028", "😀", "\x00\n", "x" * 200)


def every_version() -> list[tuple[str, int]]:
    """(message, version) of the whole catalogue."""
    messages = [catalogue().message(name) for name in catalogue().names()]
    return [(one.name, version) for one in messages for version in range(one.versions.lowest, one.versions.highest + 1)]


class Values:
    """Random values of one message in one version: nulls, defaults, empty and large ones.

    tame     only what kio's types can hold: times that are dates, error codes that exist, no unknown tagged fields
    default  the share of fields that have their default
    """

    def __init__(self, name: str, version: int, rng: random.Random, *, tame: bool = False, default: float = 0.1) -> None:
        self.layout = Layout(catalogue().message(name), version)
        self.rng = rng
        self.tame = tame
        self.default = default

    def value(self) -> dict[str, Any]:
        """A value; each call makes another one."""
        return self._struct(self.layout.message.body)

    def _struct(self, struct: Struct) -> dict[str, Any]:
        """All fields, as a reader returns them: those that the version does not have with their default."""
        value = {field.name: default_value(field) for field in struct.fields}
        for field in self.layout.stored(struct):
            if self.rng.random() >= self.default or (value[field.name] is None and not self.layout.nullable(field)):
                value[field.name] = self._value(field)
        for field in self.layout.tagged(struct):
            if self.rng.random() < 0.5:
                value[field.name] = self._value(field)
        if self.layout.flexible and not self.tame and self.rng.random() < 0.1:
            value[UNKNOWN_TAGS] = [(tag, self.rng.randbytes(self.rng.randrange(200))) for tag in (50, 300, 70000)]
        return value

    def _value(self, field: Field) -> Any:
        if self.layout.nullable(field) and self.rng.random() < 0.3:
            return None
        if field.is_array:
            return [self._single(field) for _ in range(self.rng.choice((0, 1, 2, 3, 3)))]
        return self._single(field)

    def _single(self, field: Field) -> Any:
        rng = self.rng
        if field.struct is not None:
            return self._struct(field.struct)
        if field.type == "string":
            return rng.choice(TEXTS)
        if field.type == "bool":
            return rng.random() < 0.5
        if field.type == "uuid":
            return uuid_text(rng.randbytes(16))
        if field.type in BITS:
            return self._number(field)
        raw = rng.randbytes(rng.choice((0, 1, 2, 100, 20000)))
        return memoryview(raw) if field.type == "records" else raw

    def _number(self, field: Field) -> int:
        rng = self.rng
        bits = BITS[field.type]
        if self.tame and field.name.lower().endswith("errorcode"):
            return rng.randrange(-1, 100)
        if self.tame and bits == 64:
            return rng.choice((0, 1, 1_700_000_000_123, rng.randrange(2**40)))
        if field.type == "uint16":
            return rng.choice((0, 1, 9092, 65535))
        return rng.choice((0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), rng.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1))))


def produce_request(records: bytes, version: int = 13, client_id: str = "test") -> bytes:
    """A Produce request with its size, with acks=0 and these records for one partition."""
    topic = {"name": "orders"} if version < 13 else {"topicId": uuid_text(b"0123456789abcdef")}
    body = {"acks": 0, "timeoutMs": 1000, "topicData": [{**topic, "partitionData": [{"index": 3, "records": records}]}]}
    return b"".join(encode_request(RequestHeader(0, version, 1, client_id), body))
