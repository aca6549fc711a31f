"""Keys and values of control records."""

from __future__ import annotations

import pytest

from engine.formats import ControlType
from engine.record.control import (
    ControlRecordInvalid,
    control_type,
    encode_control_key,
    encode_end_txn_marker,
    end_txn_marker,
    known_control_type,
)


@pytest.mark.parametrize("kind", ControlType)
def test_a_key_names_its_type(kind):
    assert control_type(encode_control_key(kind)) == kind
    assert known_control_type(kind) is kind


@pytest.mark.parametrize(("key", "kind"), [
    (b"\0\0\x01\x2c", 300), (b"\0\0\xff\xff", -1), (b"\0\x09\0\x01", 1), (b"\0\x01\0\0later fields", 0),
])  # fmt: skip
def test_unknown_types_and_later_versions_are_read(key, kind):
    assert control_type(key) == kind
    assert control_type(memoryview(key)) == kind


@pytest.mark.parametrize("kind", [-1, 7, 300])
def test_types_unknown_to_kafka_are_none(kind):
    assert known_control_type(kind) is None


@pytest.mark.parametrize(("key", "words"), [
    (None, "no key"), (b"", "0 bytes"), (b"\0\0\0", "3 bytes"), (b"\xff\xff\0\0", "version -1"),
])  # fmt: skip
def test_a_key_that_is_none_says_why(key, words):
    with pytest.raises(ControlRecordInvalid, match=words):
        control_type(key)


@pytest.mark.parametrize("epoch", [0, 7, 2**31 - 1, -1])
def test_a_marker_holds_its_coordinators_epoch(epoch):
    assert end_txn_marker(encode_end_txn_marker(epoch)) == epoch


def test_a_marker_of_a_later_version_is_read():
    assert end_txn_marker(b"\0\x05\0\0\0\x07more") == 7


@pytest.mark.parametrize(("value", "words"), [
    (None, "no value"), (b"", "0 bytes"), (b"\0\0\0\0\0", "5 bytes"), (b"\x80\0\0\0\0\0", "version -32768"),
])  # fmt: skip
def test_a_marker_that_is_none_says_why(value, words):
    with pytest.raises(ControlRecordInvalid, match=words):
        end_txn_marker(value)
