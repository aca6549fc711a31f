"""Random bytes of any message and version that `engine.schema` reads, and damage to them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

    from engine.schema.notation import Catalogue, Field, Message, Struct

INTEGERS = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q"}
NAMES = ("", "a", "group-7", "großes Ding", "日本\u2028", "😀", 'q"\\/', "\x00\x07\x0b\x1b\x1f\x7f\t\n\r", "x" * 200)


def varint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Generator:
    """Random bytes of messages of one catalogue, with nulls, defaults and unknown tagged fields.

    text  strings are valid UTF-8; else they are any bytes
    """

    def __init__(self, catalogue: Catalogue, rng: random.Random, *, text: bool = True) -> None:
        self.catalogue = catalogue
        self.rng = rng
        self.text = text

    def message(self, message: Message, version: int) -> bytes:
        """A whole message of that version, without any framing."""
        flexible = message.flexible is not None and version in message.flexible
        return self._struct(message.body, version, flexible)

    def _struct(self, body: Struct, version: int, flexible: bool) -> bytes:
        fields = [field for field in body.fields if version in field.versions]
        out = b"".join(self._value(field, version, flexible) for field in fields if field.tag is None)
        if not flexible:
            return out
        tags = []
        for field in fields:
            if field.tag is not None and self.rng.random() < 0.7:
                value = self._value(field, version, flexible)
                tags.append((field.tag, value))
        if self.rng.random() < 0.1:
            tags.append((self.rng.choice((50, 300, 70000)), self.rng.randbytes(self.rng.randrange(200))))
        self.rng.shuffle(tags)
        return out + varint(len(tags)) + b"".join(varint(tag) + varint(len(value)) + value for tag, value in tags)

    def _value(self, field: Field, version: int, flexible: bool) -> bytes:
        if field.is_array:
            if field.nullable and self.rng.random() < 0.2:
                return b"\0" if flexible else b"\xff\xff\xff\xff"
            count = self.rng.choice((0, 1, 2, 3, 20)) if field.struct is None else self.rng.choice((0, 1, 2, 3))
            head = varint(count + 1) if flexible else struct.pack(">i", count)
            return head + b"".join(self._single(field, version, flexible, nullable=False) for _ in range(count))
        return self._single(field, version, flexible, field.nullable)

    def _single(self, field: Field, version: int, flexible: bool, nullable: bool) -> bytes:
        null = nullable and self.rng.random() < 0.3
        if field.struct is not None:
            mark = b""
            if nullable:
                mark = varint(int(not null)) if field.tag is not None else b"\xff" if null else b"\x01"
            return mark if null else mark + self._struct(field.struct, version, flexible)
        if field.type in {"string", "bytes"}:
            raw = None if null else self._bytes(field)
            if flexible:
                return varint(0) if raw is None else varint(len(raw) + 1) + raw
            code = ">h" if field.type == "string" else ">i"
            return struct.pack(code, -1) if raw is None else struct.pack(code, len(raw)) + raw
        return self._fixed(field)

    def _bytes(self, field: Field) -> bytes:
        if field.type == "string":
            if field.name == "protocolType":
                return self.rng.choice((b"consumer", b"consumer", b"connect", b""))
            return self.rng.choice(NAMES).encode() if self.text else self.rng.randbytes(self.rng.randrange(20))
        if field.holds is not None and self.rng.random() < 0.8:
            return self._embedded(self.catalogue.message(field.holds))
        return self.rng.randbytes(self.rng.choice((0, 1, 2, 3, 16, 100)))

    def _embedded(self, message: Message) -> bytes:
        version = self.rng.choice((0, 1, 2, 3, 3, 4, 7, -1))
        raw = struct.pack(">h", version) + self.message(message, message.nearest(version))
        return mutate(self.rng, raw) if self.rng.random() < 0.3 else raw

    def _fixed(self, field: Field) -> bytes:
        default = field.default
        if field.type == "uuid":
            return self.rng.choice((bytes(16), self.rng.randbytes(16)))
        if field.type == "bool":
            return self.rng.choice((b"\0", b"\1", b"\x80"))
        if field.name.endswith("State") and self.rng.random() < 0.8:
            return bytes([self.rng.randrange(4)])
        if field.name == "startOffset" and self.rng.random() < 0.8:
            return struct.pack(">q", self.rng.randrange(10))
        if field.name == "endOffset" and self.rng.random() < 0.8:
            return struct.pack(">q", self.rng.randrange(9, 2**63))
        if field.type == "float64":
            return struct.pack(">d", self.rng.choice((0.0, 1e6, 0.001, 1e7, float("nan"), self.rng.gauss(0, 1e9))))
        code = INTEGERS[field.type]
        size = struct.calcsize(code)
        known = [0, 1, 2, 3, *([int(default)] if default and default.lstrip("-").isdigit() else [])]
        if field.type != "uint16":
            known.append(-1)
        return self.rng.choice((self.rng.randbytes(size), struct.pack(">" + code, self.rng.choice(known))))


def mutate(rng: random.Random, data: bytes) -> bytes:
    """One to three damages: a byte changed, cut, doubled, a length blown up, bytes of all ones."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(out) + 1)
        how = rng.randrange(7)
        if how == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            del out[at:]
        elif how == 2:
            out[at:at] = rng.randbytes(rng.randrange(1, 6))
        elif how == 3:
            out[at : at + rng.randrange(1, 5)] = b""
        elif how == 4:
            out[at : at + 5] = rng.choice((b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08", b"\xff\xff\xff\xff\xff"))
        elif how == 5:
            out[at : at + 4] = struct.pack(">i", rng.choice((-1, 2**31 - 1, -(2**31), 1000)))
        elif at < len(out):
            out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, 0xED, 0xC0))
    return bytes(out)
