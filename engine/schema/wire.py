"""Single values from bytes, with the limits and the error messages of Kafka's ByteBufferAccessor.

Every function that reads has the arguments `data` and a byte position `at` in it, and raises SchemaError if the bytes there are
not such a value. A length is compared with the bytes left before it is used.
"""

from __future__ import annotations

from typing import TypeVar

from engine.schema.json_text import decode_utf8, json_string

MAX_STRING = 0x7FFF

Buffer = bytes | memoryview
_Buffer = TypeVar("_Buffer", bytes, memoryview)


class SchemaError(ValueError):
    """Bytes, or values to be written, that do not follow their schema.

    str(error) is one line for people; `kafka` is the message of Kafka's exception, which the dump prints ("null" if Java's
    exception has no message, as for a buffer that ends too early). `at` is the byte position, None if it is not known; `path`
    has the names of the fields around the value, the outermost last, as far as a reader or writer added them.
    """

    def __init__(self, reason: str, kafka: str | None = None, at: int | None = None) -> None:
        super().__init__(reason)
        self.kafka = reason if kafka is None else kafka
        self.at = at
        self.path: list[str] = []

    def inside(self, name: str, at: int | None = None) -> SchemaError:
        """Add the name of a field around the value and, if no position is known, the position of that field."""
        self.path.append(name)
        if self.at is None:
            self.at = at
        return self


def underflow(data: Buffer, at: int) -> SchemaError:
    """Return the error for bytes that end inside a value (Java's BufferUnderflowException)."""
    return SchemaError(f"the bytes end, at byte {len(data)}, inside a value that begins at byte {at}", kafka="null", at=at)


def to_int32(value: int) -> int:
    """Wrap to a signed 32-bit integer, as Java's arithmetic does."""
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def to_int16(value: int) -> int:
    """Wrap to a signed 16-bit integer, as Java's cast to short does."""
    return ((value + 0x8000) & 0xFFFF) - 0x8000


def unsigned_varint(data: Buffer, at: int) -> tuple[int, int]:
    """Return (value, position after it) of up to five bytes; the value is Java's int, so it can be negative."""
    value = shift = 0
    for position in range(at, at + 5):
        if position >= len(data):
            raise underflow(data, at)
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return to_int32(value), position + 1
        shift += 7
    raise SchemaError(
        "Varint is too long, the most significant bit in the 5th byte is set, "
        f"converted value: {value & 0xFFFFFFFF:x}",
    )


def compact_length(data: Buffer, at: int) -> tuple[int, int]:
    """Return (length, position after it) of a flexible version's string, bytes or array; the length of a null is -1."""
    if at < len(data) and (byte := data[at]) < 0x80:
        return byte - 1, at + 1
    value, at = unsigned_varint(data, at)
    return to_int32(value - 1), at


def take(data: _Buffer, at: int, length: int) -> _Buffer:
    """Return `length` bytes, length ≥ 0."""
    left = len(data) - at
    if length > left:
        raise SchemaError(f"Error reading byte array of {length} byte(s): only {left} byte(s) available")
    return data[at : at + length]


def string_as_json(data: bytes, at: int, length: int, name: str) -> str:
    """Return a string of `length` bytes, length ≥ 0, as a JSON string."""
    if length > MAX_STRING:
        raise SchemaError(f"string field {name} had invalid length {length}")
    return json_string(decode_utf8(take(data, at, length)))


def check_count(data: Buffer, at: int, count: int) -> None:
    """Refuse a collection with more elements than bytes are left."""
    left = len(data) - at
    if count > left:
        raise SchemaError(f"Tried to allocate a collection of size {count}, but there are only {left} bytes remaining.")


def null_error(name: str) -> SchemaError:
    """Return the error for a null that the schema does not allow."""
    return SchemaError(f"non-nullable field {name} was serialized as null")


def skip_unknown_tag(data: _Buffer, at: int) -> int:
    """Return the position after a tagged field that the schema does not have; `at` is the position of its size."""
    size, at = unsigned_varint(data, at)
    if size < 0:
        raise SchemaError(f"a tagged field claims {size} bytes", kafka=str(size))
    take(data, at, size)
    return at + size


def encode_unsigned_varint(value: int) -> bytes:
    """Encode the value for `unsigned_varint`."""
    found = bytearray()
    while value >= 0x80:
        found.append(value % 0x80 + 0x80)
        value //= 0x80
    return bytes((*found, value))


def encode_compact(data: bytes | None) -> bytes:
    """Return a string, or bytes, of a flexible version, with its length."""
    return b"\0" if data is None else encode_unsigned_varint(len(data) + 1) + data
