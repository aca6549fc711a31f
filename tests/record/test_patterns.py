"""A match holds one of the strings that its pattern is said to require."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.record.patterns import Pattern

REGEXES = [
    "abc", "^abc$", "a+b{2,3}c*de", "(ab|cd)ef", "(?:ab|c)d", "(a|b|)x", "x?yz", "[ab]cd[^e]f", "(?i:ab)cd", "(?i)aB-cd", "a.b",
    r"\bword\b", r"k\d+end", "(?P<n>ab)(?P=n)c", "(?=look)lo", "(?!no)yes", "(?<=be)hind", "(?>ab+)c", "a++bc", "(ab){0}c", "()",
    "a(?#comment)b", "(?x) a b # c", "größe", "größe|klein", "[äö]x+y", "(?i)GRÖSSE", "(?i)STRASSE", "(?s:a.b)c", "ab|", "((((a))))b",
    r"\x00\xff", "a|b|c|d|e|f|g|h|i", "aaaaaaaa|b", "(?i)k", "é(?i:É)é", "a{3}", "(?-i:A)b",
]  # fmt: skip


def holds(data, literals):
    return any((text.lower() in data.lower()) if literals.ignore_case else text in data for text in literals.texts)


@pytest.mark.parametrize("regex", REGEXES)
@pytest.mark.parametrize("ignore_case", [False, True])
@given(data=st.data())
@settings(deadline=None, max_examples=40)
def test_what_matches_holds_a_string_of_each_set(regex, ignore_case, data):
    pattern = Pattern(regex, ignore_case=ignore_case)
    text = data.draw(st.from_regex(re.compile(regex, re.IGNORECASE if ignore_case else 0)))
    found = text.encode("utf-8", "surrogatepass")
    if pattern.found_in(found):
        assert all(holds(found, literals) for literals in pattern.literals)


@pytest.mark.parametrize(("regex", "texts"), [
    ("abc", [(b"abc",)]), ("ab+c", [(b"a",), (b"b",), (b"c",)]), ("x(ab|cd)y", [(b"x",), (b"ab", b"cd"), (b"y",)]), (".*", []),
    ("(a|)b", [(b"b",)]), ("größe", [("größe".encode(),)]), ("a|b|c|d|e|f|g|h|i", []), (r"\babc\b", [(b"abc",)]),
])  # fmt: skip
def test_the_strings(regex, texts):
    assert [one.texts for one in Pattern(regex).literals] == texts


@given(st.text("aAbBsSkKßſK", min_size=1, max_size=3), st.text("aAbBsSkKßſKxé", max_size=20), st.booleans())
def test_a_fixed_string(text, data, ignore_case):
    pattern = Pattern(text, fixed=True, ignore_case=ignore_case)
    flags = re.IGNORECASE if ignore_case else re.NOFLAG
    is_bytes = not pattern.is_text
    wanted = (re.search(re.escape(text.encode()), data.encode(), flags) if is_bytes else re.search(re.escape(text), data, flags))
    assert pattern.found_in(data.encode()) == (wanted is not None)
    if pattern.is_literal:
        assert pattern.found_in(data.encode()) == holds(data.encode(), pattern.literals[0])


def test_characters_beyond_ascii_are_characters():
    assert Pattern("gr[öo].e").found_in("größe".encode())
    assert Pattern("STRAẞE", ignore_case=True).found_in("straße".encode())
    assert list(Pattern("ö+").matches("aööbö\xff".encode("latin-1"))) == []
    assert list(Pattern("ö+").matches("aööbö".encode() + b"\xff")) == ["öö".encode(), "ö".encode()]
    assert list(Pattern("b*").matches(b"abba")) == [b"bb"]
