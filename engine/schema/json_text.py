"""Values in JSON as Jackson and Kafka's classes write them: strings, base64, UUIDs."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from json.encoder import encode_basestring
from typing import Any

from engine.java.strings import java_utf8

MOST_DEPTH = 64  # values within each other that are decoded; the parser of Protobuf stops at 100
_ESCAPES = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    ord("\b"): "\\b", ord("\t"): "\\t", ord("\n"): "\\n", ord("\f"): "\\f", ord("\r"): "\\r",
    ord('"'): '\\"', ord("\\"): "\\\\",
}


def decode_utf8(raw: bytes) -> str:
    """Return `new String(raw, UTF_8)`; only ill-formed bytes need Java's rules of replacement."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return java_utf8(raw).decode()


def json_string(text: str) -> str:
    """Return a JSON string as Jackson writes it: non-ASCII unescaped, hexadecimal escapes in upper case."""
    quoted = encode_basestring(text)
    return f'"{text.translate(_ESCAPES)}"' if "\\u" in quoted else quoted


def json_bytes(raw: bytes) -> str:
    """Return bytes as a JSON string of base64 (Jackson's MIME variant without line ends)."""
    return f'"{b64encode(raw).decode()}"'


def uuid_text(raw: bytes) -> str:
    """Return the 22 characters of Uuid.toString for 16 bytes."""
    return urlsafe_b64encode(raw)[:22].decode()


def uuid_bytes(text: str) -> bytes:
    """Return the 16 bytes of a text form (Uuid.fromString). Raises ValueError if `text` is not one."""
    raw = urlsafe_b64decode(text + "==")
    if len(raw) != 16:
        raise ValueError(f"not the text of a UUID: {text[:80]!r}")
    return raw


def is_deeper_than(value: Any, most: int) -> bool:
    """Return whether a value of JSON has more than `most` arrays and objects within each other."""
    level, depth = [value], 0
    while level := [one for one in level if isinstance(one, (dict, list))]:
        depth += 1
        if depth > most:
            return True
        level = [one for each in level for one in (each.values() if isinstance(each, dict) else each)]
    return False
