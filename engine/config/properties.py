"""The text format of java.util.Properties: meta.properties, server.properties."""

from __future__ import annotations

import re
from typing import NamedTuple

_LINE_END = re.compile(r"\r\n|\n|\r")
_BLANKS = " \t\f"
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Properties(NamedTuple):
    """Keys and values; the last one of equal keys counts. `faults`: what java.util.Properties would refuse, by line number."""

    values: dict[str, str]
    faults: list[tuple[int, str]]


def decode_properties(data: bytes) -> Properties:
    """Decode a properties file: Latin-1, with escapes for other characters, comments, continued lines.

    Never raises: a line with a broken escape is a fault and is left out. Mirrors java.util.Properties.load.
    """
    values: dict[str, str] = {}
    faults: list[tuple[int, str]] = []
    for number, line in _logical_lines(data.decode("latin-1")):
        found = _KEY.match(line)
        end = found.end() if found else 0
        key, value = _unescape(line[:end]), _unescape(_after_separator(line[end:]))
        if key is None or value is None:
            faults.append((number, "malformed \\uxxxx encoding"))
        else:
            values[key] = value
    return Properties(values, faults)


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Return (number of its first line, text) of each entry, continued lines joined, without comments and blank lines."""
    lines: list[tuple[int, str]] = []
    parts: list[str] = []
    first = 0
    for number, raw in enumerate(_LINE_END.split(text), 1):
        line = raw.lstrip(_BLANKS)
        if not any(parts):  # also after a line that is only a backslash
            parts.clear()
            if not line or line[0] in "#!":
                continue
            first = number
        continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        parts.append(line[:-1] if continued else line)
        if not continued:
            lines.append((first, "".join(parts)))
            parts = []
    if any(parts):
        lines.append((first, "".join(parts)))
    return lines


def _after_separator(rest: str) -> str:
    rest = rest.lstrip(_BLANKS)
    return rest[1:].lstrip(_BLANKS) if rest[:1] in ("=", ":") else rest


def _unescape(text: str) -> str | None:
    """Return `text` with escapes resolved; None for a Unicode escape without four hex digits."""
    if "\\" not in text:
        return text
    broken = False

    def resolve(found: re.Match[str]) -> str:
        nonlocal broken
        escape = found[1]
        if len(escape) > 1:
            return chr(int(escape[1:], 16))
        broken |= escape == "u"
        return _CONTROL.get(escape, escape)

    resolved = _ESCAPE.sub(resolve, text)
    # Java's characters are UTF-16 units: two escapes may be one character
    return None if broken else resolved.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
