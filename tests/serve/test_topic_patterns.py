"""Patterns of topics: the same matches as Python's `re` on its common ground with RE2, and refusals."""

import random
import re

import pytest

from engine.serve.topic_patterns import PatternError, TopicPattern

ATOMS = ["a", "b", ".", "-", "1", "[ab]", "[^a]", "[a-c0-9]", r"[\d.]", "[]a]", "[a-]", r"\.", r"\d", r"\W", r"\s", "^", "$", r"\A", "(?:)"]


def pattern(rng, depth=0):
    draw = rng.random()
    if depth > 4 or draw < 0.35:
        return rng.choice(ATOMS)
    if draw < 0.6:
        return pattern(rng, depth + 1) + pattern(rng, depth + 1)
    if draw < 0.75:
        return f"{rng.choice(['(', '(?:', '(?P<x>'])}{pattern(rng, depth + 1)}|{pattern(rng, depth + 1)})"
    return f"(?:{pattern(rng, depth + 1)}){rng.choice(['*', '+', '?', '*?', '{2}', '{1,3}', '{2,}', '{0}', '{0,1}?'])}"


@pytest.mark.parametrize("seed", range(20))
def test_matches_are_those_of_re(seed):
    rng = random.Random(seed)
    matched = 0
    for _ in range(150):
        text = pattern(rng)
        try:
            ours = TopicPattern(text)
        except PatternError as problem:
            assert str(problem) == "expression is too large"  # noqa: PT017  # most patterns raise nothing
            continue
        theirs = re.compile(text.replace("(?P<x>", "("), re.ASCII)
        for _ in range(10):
            name = "".join(rng.choice("abc.-1") for _ in range(rng.randrange(7)))
            assert ours.matches(name) == bool(theirs.fullmatch(name)), (text, name)
            matched += ours.matches(name)
    assert matched > 50


@pytest.mark.parametrize(("text", "problem"), [
    ("(a", "missing closing )"), ("a)", "unexpected )"), ("[a", "unexpected end of expression"), ("*", "missing argument"),
    ("a**", "invalid nested repetition"), ("a{2}{3}", "invalid nested repetition"), ("a{2,1}", "invalid repetition size"),
    ("a{1001}", "invalid repetition size"), ("a{99999999999}", "invalid repetition size"), ("[b-a]", "invalid character class range"),
    ("(?i)a", "flags and assertions are not supported"), ("(?<!a)b", "flags and assertions are not supported"),
    (r"\bword", r"escape \b is not supported"), (r"(a)\1", r"escape \1 is not supported"), ("[[:alpha:]]", "named classes"),
    ("\\", "unexpected end of expression"), ("a{1000}", "too large"), ("(((((a{9}){9}){9}){9}){9}){9}", "too large"),
    ("(" * 100 + ")" * 100, "nests too deeply"), ("a|" * 1000, "too large"),
])  # fmt: skip
def test_refused_patterns(text, problem):
    with pytest.raises(PatternError, match=re.escape(problem)):
        TopicPattern(text)


def test_braces_that_are_no_repetition_are_literals():
    assert TopicPattern("a{x}").matches("a{x}")
    assert TopicPattern("a{,2}").matches("a{,2}")


def test_hostile_patterns_take_a_number_of_steps_in_proportion_to_the_name():
    assert not TopicPattern("(((a*)*)*)*b").matches("a" * 249)
    assert not TopicPattern("(a|a)*(a|aa)+$c").matches("a" * 249)
    assert not TopicPattern(".*a.*a.*a.*a.*a.*a.*b").matches("a" * 249)
    assert TopicPattern("(((){1000}){1000}){1000}").matches("")
