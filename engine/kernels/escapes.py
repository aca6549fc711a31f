r"""Escape characters that would control a terminal or are invisible: in plain text as \x1b or \u202e, in JSON as \u001b.

A character above 16 bits becomes two escapes, its surrogates, as in Java and JSON.
Kernels use words.is_unsafe, which has the ranges from here, and escape in text.py and json_strings.py.
"""

import re

# (first, last), ascending, above ASCII: C1 controls, bidirectional controls, line ends, and invisible characters
# (Unicode's Default_Ignorable_Code_Point, without the variation selectors, which are part of emoji)
UNSAFE_RANGES = (
    (0x80, 0x9F), (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip

_MARKS = "\x7f" + "".join(f"{chr(first)}-{chr(last)}" for first, last in UNSAFE_RANGES)
UNSAFE = re.compile(f"[\0-\x1f{_MARKS}]")
UNSAFE_IN_JSON = re.compile(f"[{_MARKS}]")  # without the characters that a JSON encoder escapes anyway
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def terminal_safe(text: str) -> str:
    r"""Escape control characters, bidirectional marks and line ends as \x1b or \u202e."""
    return UNSAFE.sub(_escape, text)


def terminal_safe_json(text: str) -> str:
    r"""Escape the same characters in the text of a JSON string: \u202e."""
    return UNSAFE_IN_JSON.sub(_escape_in_json, text)


def printable(text: str) -> str:
    r"""Escape a text that may contain file names; bytes of names that are not UTF-8 become \xff."""
    if text.isascii() and text.isprintable():  # the usual case
        return text
    return terminal_safe(text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return _SHORT.get(match[0]) or (f"\\x{code:02x}" if code < 0xA0 else _utf16(code))


def _escape_in_json(match: re.Match[str]) -> str:
    return _utf16(ord(match[0]))


def _utf16(code: int) -> str:
    if code < 0x10000: return f"\\u{code:04x}"
    return f"\\u{0xD7C0 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
