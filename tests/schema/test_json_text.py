import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.schema.json_text import decode_utf8, json_bytes, json_string, uuid_text


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", '""'),
        ("größe 日本 😀 \u2028", '"größe 日本 😀 \u2028"'),
        ('a"b\\c/d', '"a\\"b\\\\c/d"'),
        ("\b\t\n\f\r\0\x0b\x1f\x7f", '"\\b\\t\\n\\f\\r\\u0000\\u000B\\u001F\x7f"'),
        ("\\u001f", '"\\\\u001f"'),
        ("\\u001f\x1e", '"\\\\u001f\\u001E"'),
    ],
)
def test_strings_as_jackson_writes_them(text, quoted):
    assert json_string(text) == quoted


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_strings_are_json(text):
    assert json.loads(json_string(text)) == text


def test_ill_formed_text():
    assert decode_utf8(b"a\xed\xa0\x80b") == "a\ufffdb"
    assert decode_utf8(b"\xf0\x80\x80") == "\ufffd" * 3


def test_bytes_and_uuids():
    assert json_bytes(b"\xfb\xff\0") == '"+/8A"'
    assert uuid_text(bytes(15) + b"\1") == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_text(b"\xfb\xff" * 8) == "-__7__v_-__7__v_-__7_w"
