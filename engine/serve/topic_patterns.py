r"""Regular expressions for names of topics, in the syntax of RE2 (KIP-848), in time proportional to the length of a name.

Python's own `re` can take exponential time, and a client chooses the expression. Supported: literals, `.`, classes in brackets,
`\d \w \s` and their opposites, groups, `|`, `* + ? {m,n}` (also lazy), `^ $ \A \z`. Not supported: flags, `\b`, `\p`,
`\Q`, named classes.
"""

from __future__ import annotations

import string
from typing import NamedTuple

_ASCII = frozenset(map(chr, range(128)))
_WORDS = frozenset(string.ascii_letters + string.digits + "_")
_CLASSES = {"d": frozenset(string.digits), "w": _WORDS, "s": frozenset("\t\n\f\r ")}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "v": "\v"}
_MOST_STEPS = 200  # of a program: topics × length of a name × steps bound the work
_MOST_REPEATS = 1000  # as in RE2
_DEEPEST = 50  # nested groups


class PatternError(ValueError):
    """The expression is not valid, or not supported; the message says why."""


class _Step(NamedTuple):
    """A step of a program. chars: consume one of them; next: steps that follow; anchor: only there, `^` or `$`."""

    chars: frozenset[str] | None
    next: tuple[int, ...]
    anchor: str = ""


class _Repeat(NamedTuple):
    part: _Part
    least: int
    most: int | None  # None: no limit


class _Choice(NamedTuple):
    parts: list[list[_Part]]  # alternatives, each a sequence


_Part = frozenset[str] | str | _Repeat | _Choice  # a str is an anchor


class TopicPattern:
    """A compiled expression. Raises PatternError."""

    def __init__(self, text: str) -> None:
        self._steps: list[_Step] = [_Step(None, ())]  # step 0 is the end
        self._first = self._compile(_Parser(text).parse(), 0)

    def matches(self, name: str) -> bool:
        """Return whether the expression matches the whole name."""
        current = self._reached([self._first], at_start=True, at_end=not name)
        for position, char in enumerate(name):
            following = [one for step in current if char in (self._steps[step].chars or ()) for one in self._steps[step].next]
            current = self._reached(following, at_start=False, at_end=position + 1 == len(name))
        return 0 in current

    def _reached(self, steps: list[int], *, at_start: bool, at_end: bool) -> set[int]:
        """Return the steps that can be reached without consuming a character."""
        reached: set[int] = set()
        waiting = steps
        while waiting:
            number = waiting.pop()
            step = self._steps[number]
            is_stopped = (step.anchor == "^" and not at_start) or (step.anchor == "$" and not at_end)
            if number not in reached and not is_stopped:
                reached.add(number)
                if step.chars is None:
                    waiting.extend(step.next)
        return reached

    def _add(self, chars: frozenset[str] | None, *following: int, anchor: str = "") -> int:
        if len(self._steps) >= _MOST_STEPS:
            raise PatternError("expression is too large")
        self._steps.append(_Step(chars, following, anchor))
        return len(self._steps) - 1

    def _compile(self, part: _Part, then: int) -> int:
        """Return the first step of a part that continues at step `then`."""
        if isinstance(part, str):
            return self._add(None, then, anchor=part)
        if isinstance(part, frozenset):
            return self._add(part, then)
        if isinstance(part, _Repeat):
            return self._repeated(part, then)
        found = []
        for sequence in part.parts:
            first = then
            for one in reversed(sequence):
                first = self._compile(one, first)
            found.append(first)
        return found[0] if len(found) == 1 else self._add(None, *found)

    def _repeated(self, repeat: _Repeat, then: int) -> int:
        if repeat.most is None:
            loop = self._add(None)
            self._steps[loop] = _Step(None, (self._compile(repeat.part, loop), then))
            then = loop
        for _ in range(0 if repeat.most is None else repeat.most - repeat.least):
            then = self._add(None, self._compile(repeat.part, then), then)
        for _ in range(repeat.least):
            first = self._compile(repeat.part, then)
            if first == then:
                break  # the part is empty
            then = first
        return then


class _Parser:
    """Parses an expression. Raises PatternError."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0

    def parse(self) -> _Choice:
        """Return the whole expression."""
        found = self._choice()
        if self._at < len(self._text):
            raise PatternError("unexpected )")
        return found

    def _peek(self, size: int = 1) -> str:
        return self._text[self._at : self._at + size]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise PatternError("unexpected end of expression")
        self._at += 1
        return char

    def _choice(self) -> _Choice:
        parts: list[list[_Part]] = [[]]
        while (char := self._peek()) not in ("", ")"):
            if char == "|":
                self._at += 1
                parts.append([])
            else:
                parts[-1].append(self._repeat(self._atom()))
        return _Choice(parts)

    def _repeat(self, part: _Part) -> _Part:
        """Parse the repetition after an atom, if there is one."""
        char = self._peek()
        found = self._counted() if char == "{" else None
        if char in ("*", "+", "?"):
            self._at += 1
            found = {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        if found is None:
            return part
        self._at += self._peek() == "?"
        if self._peek() in ("*", "+", "?") or (self._peek() == "{" and self._counted() is not None):
            raise PatternError("invalid nested repetition operator")
        return _Repeat(part, *found)

    def _counted(self) -> tuple[int, int | None] | None:
        """Parse {m}, {m,} or {m,n}. Any other brace is a literal (None), as in RE2."""
        end = self._text.find("}", self._at)
        least, comma, most = self._text[self._at + 1 : end].partition(",")
        if end < 0 or not all(text.isascii() and text.isdigit() for text in (least, most or "0")):
            return None
        if max(len(least), len(most)) > 4 or max(int(least), int(most or 0)) > _MOST_REPEATS or int(most or least) < int(least):
            raise PatternError("invalid repetition size")
        self._at = end + 1
        return int(least), int(most) if most else None if comma else int(least)

    def _atom(self) -> _Part:
        char = self._take()
        if char == "(":
            return self._group()
        if char == "[":
            return self._bracket()
        if char == "\\":
            escaped = self._take()
            return {"A": "^", "z": "$"}.get(escaped) or _escaped(escaped)
        if char in "*+?":
            raise PatternError("missing argument to repetition operator")
        if char in "^$":
            return char
        return _ASCII - {"\n"} if char == "." else frozenset(char)

    def _group(self) -> _Choice:
        if self._peek(2) == "?:":
            self._at += 2
        elif self._peek() == "?":
            is_named = self._peek(3) == "?P<" or (self._peek(2) == "?<" and self._peek(3)[2:] not in ("=", "!"))
            end = self._text.find(">", self._at)
            if not is_named or end < 0:
                raise PatternError("flags and assertions are not supported")
            self._at = end + 1
        self._depth += 1
        if self._depth > _DEEPEST:
            raise PatternError("expression nests too deeply")
        found = self._choice()
        self._depth -= 1
        if self._peek() != ")":
            raise PatternError("missing closing )")
        self._at += 1
        return found

    def _bracket(self) -> frozenset[str]:
        """Parse a class in brackets."""
        is_negated = self._peek() == "^"
        self._at += is_negated
        found: set[str] = set()
        first = self._at
        while self._at == first or self._peek() != "]":
            if self._peek(2) == "[:":
                raise PatternError("named classes are not supported")
            chars = self._class_part()
            if self._peek() == "-" and self._peek(2) not in ("-]", "-"):
                self._at += 1
                high = self._class_part()
                if len(chars) != 1 or len(high) != 1 or min(chars) > min(high):
                    raise PatternError("invalid character class range")
                chars = frozenset(one for one in _ASCII if min(chars) <= one <= min(high))
            found |= chars
        self._at += 1
        return _ASCII - found if is_negated else frozenset(found)

    def _class_part(self) -> frozenset[str]:
        char = self._take()
        return _escaped(self._take()) if char == "\\" else frozenset(char)


def _escaped(char: str) -> frozenset[str]:
    """Return what an escape stands for."""
    if char.lower() in _CLASSES:
        known = _CLASSES[char.lower()]
        return known if char.islower() else _ASCII - known
    if char in _CONTROLS:
        return frozenset(_CONTROLS[char])
    if char.isalnum() or not char.isascii():
        raise PatternError(f"escape \\{char} is not supported")
    return frozenset(char)
