r"""What a terminal would obey, and how it is shown instead: in plain text as \x1b or \u202e, in JSON as \u001b.

Compiled kernels ask words.is_unsafe, which has the ranges from here, and escape in text.py and json_strings.py.
"""

import re

# (first, last), ascending, above the controls of ASCII: C1 controls, what changes the direction, line ends, invisible ones
UNSAFE_RANGES = ((0x80, 0x9F), (0x61C, 0x61C), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0xFEFF, 0xFEFF))

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


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return _SHORT.get(match[0]) or (f"\\x{code:02x}" if code < 0xA0 else f"\\u{code:04x}")


def _escape_in_json(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
