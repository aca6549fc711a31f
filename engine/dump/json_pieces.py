"""Large keys and values as JSON strings, piece by piece: memory does not grow with them. The kernel writes all others."""

from __future__ import annotations

from base64 import b64encode
from codecs import getincrementaldecoder
from json import dumps
from typing import TYPE_CHECKING

from engine.kernels.escapes import terminal_safe_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.dump.text_buffer import TextBuffer

_PIECE = 48 << 10  # a multiple of three, for base64


def put_large_field(out: TextBuffer, name: str, data: memoryview | None, *, escape: bool) -> None:
    r"""Write `,"name":"text"`, or `,"name_b64":"base64"` where the bytes are no well-formed UTF-8; None is null.

    escape  what a terminal would obey as \u202e
    """
    if data is None:
        out.put(f',"{name}":null')
    elif is_text(data):
        out.put(f',"{name}":"')
        for text in _texts(data):
            quoted = dumps(text, ensure_ascii=False)[1:-1]
            out.put(terminal_safe_json(quoted) if escape else quoted)
        out.put('"')
    else:
        out.put(f',"{name}_b64":"')
        for at in range(0, len(data), _PIECE):
            out.put(b64encode(data[at : at + _PIECE]))
        out.put('"')


def is_text(data: memoryview) -> bool:
    """Are these bytes well-formed UTF-8?"""
    try:
        for _ in _texts(data):
            pass
    except UnicodeDecodeError:
        return False
    return True


def _texts(data: memoryview) -> Iterator[str]:
    """The characters of `data`, piece by piece. Raises UnicodeDecodeError where it is no UTF-8."""
    decoder = getincrementaldecoder("utf-8")()
    for at in range(0, len(data), _PIECE):
        yield decoder.decode(bytes(data[at : at + _PIECE]), final=at + _PIECE >= len(data))
