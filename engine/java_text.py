"""Text as Java makes it of bytes: `new String(bytes, UTF_8)`, which is what Kafka's tools print."""

from __future__ import annotations

import re

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def java_utf8(data: bytes) -> bytes:
    """`data` decoded as Java decodes UTF-8, as valid UTF-8 again. Valid input comes back as the same object.

    Every maximal ill-formed part becomes one U+FFFD, as Python's "replace" does, but an encoded surrogate (ED A0..BF
    and one continuation byte, if there is one) is a single such part for Java.
    """
    if data.isascii():
        return data
    try:
        data.decode()
    except UnicodeDecodeError:
        # 0xFF cannot be part of any sequence, so it stands for exactly one U+FFFD
        return _SURROGATE.sub(b"\xff", data).decode("utf-8", "replace").encode()
    return data


def whole_text(data: bytes) -> int:
    """How many bytes of `data` can be decoded by themselves if more follow: up to 3 less where a character begins.

    `java_utf8(data[:n]) + java_utf8(data[n:] + more)` then equals `java_utf8(data + more)`.
    """
    size = len(data)
    for at in range(size - 1, max(size - 4, -1), -1):
        if data[at] >= 0xC0:
            return at
    return size
