"""Text as Java and Jackson make it: UTF-8 with Java's replacements, JSON strings, base64, UUIDs."""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64encode
from json.encoder import encode_basestring

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_ESCAPES = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    ord("\b"): "\\b", ord("\t"): "\\t", ord("\n"): "\\n", ord("\f"): "\\f", ord("\r"): "\\r",
    ord('"'): '\\"', ord("\\"): "\\\\",
}


def decode_utf8(raw: bytes) -> str:
    """`new String(raw, UTF_8)`: as Python's "replace", but an encoded surrogate becomes a single U+FFFD."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xff", raw).decode("utf-8", "replace")


def json_string(text: str) -> str:
    """A JSON string as Jackson writes it: non-ASCII as it is, hexadecimal escapes in upper case."""
    quoted = encode_basestring(text)
    return f'"{text.translate(_ESCAPES)}"' if "\\u" in quoted else quoted


def json_bytes(raw: bytes) -> str:
    """Bytes as a JSON string of base64 (Jackson's MIME variant without line ends)."""
    return f'"{b64encode(raw).decode()}"'


def uuid_text(raw: bytes) -> str:
    """The 22 characters of Uuid.toString for 16 bytes."""
    return urlsafe_b64encode(raw)[:22].decode()
