"""Decode bytes as Java's `new String(bytes, UTF_8)` does, which is what Kafka's tools print."""

from __future__ import annotations

import re

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def java_utf8(data: bytes) -> bytes:
    """Return `data` decoded as Java decodes UTF-8, encoded again. Valid input is returned as the same object.

    Every maximal ill-formed part becomes one U+FFFD, as with Python's "replace", except for encoded surrogates: Java makes one
    U+FFFD of ED A0..BF and the continuation byte after it, if any.
    """
    if data.isascii():
        return data
    try:
        data.decode()
    except UnicodeDecodeError:
        # 0xFF is never part of a sequence, so it becomes exactly one U+FFFD
        return _SURROGATE.sub(b"\xff", data).decode("utf-8", "replace").encode()
    return data


def whole_text(data: bytes) -> int:
    """Return how many bytes of `data` can be decoded before more bytes arrive: up to 3 fewer if a character is incomplete.

    `java_utf8(data[:n]) + java_utf8(data[n:] + more)` then equals `java_utf8(data + more)`.
    """
    size = len(data)
    for at in range(size - 1, max(size - 4, -1), -1):
        if data[at] >= 0xC0:
            return at
    return size
