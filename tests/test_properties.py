from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config.server import decode_properties


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=b\n", {"a": "b"}),
        ("a:b\nc d\ne\t=\tf", {"a": "b", "c": "d", "e": "f"}),
        ("# a=b\n  ! c=d\n\n \t\n", {}),
        ("a = b = c ", {"a": "b = c "}),
        ("a\n", {"a": ""}),
        ("=b", {"": "b"}),
        ("a=b\\\n   c\\\r\n d", {"a": "bcd"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n# c", {"a": "b# c"}),
        ("# a\\\nb=c", {"b": "c"}),
        ("a\\ b\\=c\\:d = e", {"a b=c:d": "e"}),
        ("a=\\t\\n\\r\\f\\q\\\"", {"a": '\t\n\r\fq"'}),
        ("a=\\u00e9\\ud83d\\ude00", {"a": "é😀"}),
        ("a=1\ra=2", {"a": "2"}),
        ("a=b\\", {"a": "b"}),
        ("\\\n# a=b\nc=d", {"c": "d"}),
        ("\\\n", {}),
        ("\\", {}),
    ],
)
def test_syntax(text, values):
    assert decode_properties(text.encode()) == (values, [])


def test_latin_1_and_faults():
    assert decode_properties(b"a=\xe9\nb=\\u12g4\nc=d") == ({"a": "é", "c": "d"}, [(2, "malformed \\uxxxx encoding")])


@given(st.binary() | st.text(alphabet="ab=: \\\t\n\r\fu0#!d8").map(str.encode))
def test_any_bytes(data):
    decode_properties(data)
