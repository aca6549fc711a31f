r"""What a terminal would obey or not show, and how it is shown instead: in plain text as \x1b or \u202e, in JSON as \u001b.

Characters beyond 16 bits are two escapes, their surrogates, in both, as in Java and JSON.
Kernels ask words.is_unsafe, which has the ranges from here, and escape in text.py and json_strings.py.
"""

import re

# (first, last), ascending, above the controls of ASCII: C1 controls, what changes the direction, line ends, and what leaves
# no trace on the screen (Unicode's Default_Ignorable_Code_Point, but for the variation selectors, which emoji consist of)
UNSAFE_RANGES = (
    (0x80, 0x9F), (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip

_MARKS = "\x7f" + "".join(f"{chr(first)}-{chr(last)}" for first, last in UNSAFE_RANGES)
UNSAFE = re.compile(f"[\0-\x1f{_MARKS}]")
UNSAFE_IN_JSON = re.compile(f"[{_MARKS}]")  # what JSON escapes by itself is not among them
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def terminal_safe(text: str) -> str:
    r"""Control characters, bidirectional marks and line ends as \x1b or \u202e; the rest as it is."""
    return UNSAFE.sub(_escape, text)


def terminal_safe_json(text: str) -> str:
    r"""The same for the text of a JSON string: \u202e."""
    return UNSAFE_IN_JSON.sub(_escape_in_json, text)


def printable(text: str) -> str:
    r"""A text that may name files, made safe; bytes of names that are not UTF-8 as \xff."""
    if text.isascii() and text.isprintable():  # most are: no need to look at each character
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
