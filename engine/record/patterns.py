"""Patterns to search for in bytes, and the byte strings that they require.

A batch that holds none of these strings cannot match: it is left out before its records are decoded (`Sieve`).
"""

from __future__ import annotations

import re
from re import _constants as opcodes  # type: ignore[attr-defined]  # not in typeshed
from re import _parser  # type: ignore[attr-defined]  # not in typeshed
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.kernels.search import LARGEST_SET, Needles
from engine.record.columns import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SAMPLE = 64 << 10  # bytes from which the frequency of bytes is estimated
_CANDIDATES = 200  # places of a byte at which its neighbours are compared
_MIXED = frozenset("iks")  # letters that other characters than their own capital match when case is ignored: ı ſ K
_CASE = 0x20  # the bit between a letter and its capital in ASCII


class Literals(NamedTuple):
    """Byte strings of which each match holds at least one. ignore_case: ASCII letters match in both cases."""

    texts: tuple[bytes, ...]
    ignore_case: bool = False

    @property
    def weight(self) -> tuple[int, int]:
        """The larger, the fewer batches hold one by chance."""
        return min(map(len, self.texts)), -len(self.texts)

    def frequency(self, sample: bytes, lower: bytes) -> int:
        """Return how often one is in `sample`, whose text in lower case is `lower`."""
        return sum(lower.count(text.lower()) if self.ignore_case else sample.count(text) for text in self.texts)

    def needles(self, sample: bytes, lower: bytes) -> Needles:
        """Return the strings for kernels, which compare first the bytes that are rarest in the sample."""
        from engine.kernels.tables import NEEDLE_FIELDS, Needle  # slow to import, and rarely needed

        texts = [text.lower() if self.ignore_case else text for text in self.texts]
        whole, head = b"".join(texts), lower if self.ignore_case else sample
        masks = bytes(_CASE if self.ignore_case and byte in b"abcdefghijklmnopqrstuvwxyz" else 0 for byte in whole)
        table, start = Table(NEEDLE_FIELDS, len(texts)).table, 0
        for column, text in enumerate(texts):
            table[Needle.START, column], table[Needle.SIZE, column] = start, len(text)
            table[Needle.RARE, column], table[Needle.SECOND, column] = _rare_pair(text, head)
            start += len(text)
        return Needles(whole, masks, table)


def _rare_pair(text: bytes, sample: bytes) -> tuple[int, int]:
    """Return two positions in `text`: of its rarest byte in `sample`, and of one that is seldom at its place near that byte."""
    first = min(range(len(text)), key=lambda at: sample.count(text[at]))
    together, found = [0] * len(text), sample.find(text[first])
    for _ in range(_CANDIDATES):
        if found < 0:
            break
        for at in range(len(text)):
            beside = found + at - first
            together[at] += 0 <= beside < len(sample) and sample[beside] == text[at]
        found = sample.find(text[first], found + 1)
    return first, min(range(len(text)), key=lambda at: (together[at], at == first))


def rarest(sets: Sequence[Literals], data: memoryview) -> Needles:
    """Return the strings to search for in data like `data`: those of the set that is rarest there. `sets`: not empty."""
    sample = bytes(data[:_SAMPLE])
    lower = sample.lower()
    best = min(sets, key=lambda one: (one.frequency(sample, lower), *(-number for number in one.weight)))
    return best.needles(sample, lower)


class Pattern:
    """A regular expression, or a fixed string, to search for in bytes.

    text         encoded as UTF-8; bytes that are not UTF-8 are surrogates, as in command line arguments
    fixed        `text` is the string itself
    ignore_case  capital and small letters are equal
    literals     sets of byte strings: each match holds a string of each set
    is_literal   whether the bytes that hold a string of the only set are exactly those that match

    With characters beyond ASCII it is compared with the text, so that one of them is one character; else with the bytes.
    Raises re.error, OverflowError, RecursionError for text that is not a regular expression.
    """

    def __init__(self, text: str, *, fixed: bool = False, ignore_case: bool = False) -> None:
        self._asked = text, fixed, ignore_case
        self.is_text = not text.isascii() and not (fixed and not ignore_case)
        flags = re.IGNORECASE if ignore_case else re.NOFLAG
        raw = text.encode("utf-8", "surrogateescape")
        expression = re.escape(text) if fixed else text
        self._text_regex = re.compile(expression, flags) if self.is_text else None
        self._regex = None if self.is_text else re.compile(re.escape(raw) if fixed else raw, flags)
        self.is_literal = fixed and bool(text) and not self.is_text
        self.literals: tuple[Literals, ...] = (Literals((raw,), ignore_case),) if self.is_literal else ()
        if not self.is_literal:
            regex = self._text_regex or self._regex
            assert regex is not None
            self.literals = _required(regex.pattern, flags, is_text=self.is_text)

    def __eq__(self, other: object) -> bool:
        """Whether the other pattern was made from the same text and choices."""
        return self._asked == other._asked if isinstance(other, Pattern) else NotImplemented

    def __hash__(self) -> int:
        """See __eq__."""
        return hash(self._asked)

    def found_in(self, data: memoryview | bytes) -> bool:
        """Return whether the pattern matches somewhere in `data`."""
        if self._regex is not None:
            return self._regex.search(data) is not None
        assert self._text_regex is not None
        return self._text_regex.search(_text(data)) is not None

    def matches(self, data: bytes) -> Iterator[bytes]:
        """Return the parts of `data` that match, except empty ones, in order."""
        if self._regex is not None:
            yield from (match[0] for match in self._regex.finditer(data) if match[0])
            return
        assert self._text_regex is not None
        for match in self._text_regex.finditer(_text(data)):
            if match[0]:
                yield match[0].encode("utf-8", "surrogateescape")


def _text(data: memoryview | bytes) -> str:
    return bytes(data).decode("utf-8", "surrogateescape")


# ---- the strings that a regular expression requires


def _required(expression: str | bytes, flags: re.RegexFlag, *, is_text: bool) -> tuple[Literals, ...]:
    """Return the sets of strings that a valid regular expression requires."""
    parsed = _parser.parse(expression, flags)
    ignore_case = bool(parsed.state.flags & re.IGNORECASE)
    if parsed.state.flags & re.LOCALE and ignore_case:
        return ()
    return tuple(_sets(parsed, is_text=is_text, ignore_case=ignore_case))


def _sets(parsed: Any, *, is_text: bool, ignore_case: bool) -> Iterator[Literals]:
    """Return sets of strings of one sequence of the expression: each match of the sequence holds one of each set."""
    run = b""
    for operation, argument in _flat(parsed):
        if operation is opcodes.LITERAL and _is_fixed(argument, is_text=is_text, ignore_case=ignore_case):
            run += chr(argument).encode("utf-8", "surrogateescape") if is_text else bytes([argument])
            continue
        if operation is opcodes.AT:  # between two characters: ^ $ \b
            continue
        if run:
            yield Literals((run,), ignore_case)
            run = b""
        if operation in (opcodes.MAX_REPEAT, opcodes.MIN_REPEAT, opcodes.POSSESSIVE_REPEAT) and argument[0] > 0:
            yield from _sets(argument[2], is_text=is_text, ignore_case=ignore_case)
        elif operation is opcodes.BRANCH:
            options = [
                max(_sets(one, is_text=is_text, ignore_case=ignore_case), key=lambda two: two.weight, default=None)
                for one in argument[1]
            ]
            texts = tuple(text for option in options if option is not None for text in option.texts)
            if None not in options and len(texts) <= LARGEST_SET:
                yield Literals(texts, ignore_case)
    if run:
        yield Literals((run,), ignore_case)


def _flat(parsed: Any) -> Iterator[tuple[Any, Any]]:
    """Return the operations of a sequence, with those of its plain groups in their place."""
    for operation, argument in parsed:
        if operation is opcodes.SUBPATTERN and not argument[1] and not argument[2]:  # it changes no flag
            yield from _flat(argument[3])
        elif operation is opcodes.ATOMIC_GROUP:
            yield from _flat(argument)
        else:
            yield operation, argument


def _is_fixed(character: int, *, is_text: bool, ignore_case: bool) -> bool:
    """Return whether a literal character matches only itself, and with ignore_case its other case in ASCII."""
    if is_text and ignore_case:
        return character < 128 and chr(character).lower() not in _MIXED
    return is_text or character < 256
