"""What Java's decoder prints; the counts were observed with `new String(bytes, UTF_8)` on Java 17."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.java.strings import java_utf8

BAD = "�"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("ed a0 80", BAD),
        ("ed a0", BAD),
        ("ed bf 41", BAD + "A"),
        ("ed", BAD),
        ("ed a0 bd ed b8 80", BAD * 2),
        ("ed a0 80 80", BAD * 2),
        ("e2 ed a0 80", BAD * 2),
        ("e2 82 41", BAD + "A"),
        ("f0 80 80 80", BAD * 4),
        ("c0 80", BAD * 2),
        ("f4 90 80 80", BAD * 4),
        ("ff fe", BAD * 2),
        ("f0 9f 98", BAD),
        ("f0 9f 98 80", "\U0001f600"),
        ("ed 9f bf", "\ud7ff"),
        ("00 7f", "\x00\x7f"),
    ],
)
def test_what_java_prints(data, text):
    assert java_utf8(bytes.fromhex(data)) == text.encode()


def test_valid_bytes_are_not_copied():
    for data in (b"", b"plain", "grün ✓ \U0001f600".encode()):
        assert java_utf8(data) is data


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_valid_text_stays(text):
    assert java_utf8(text.encode()) == text.encode()


@given(st.lists(st.sampled_from(list(b"\xed\xa0\xbf\x80\x9f\xe2\xf0\xf4\xc3A"))))
def test_any_bytes_become_valid_text(parts):
    data = bytes(parts)
    once = java_utf8(data)
    once.decode()
    assert java_utf8(once) is once
    if b"\xed" not in data:
        assert once == data.decode("utf-8", "replace").encode()
