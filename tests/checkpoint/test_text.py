from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checkpoint import checkpoints
from engine.checkpoint.checkpoints import (
    MalformedCheckpoint,
    decode_checkpoint,
    decode_leader_epochs,
    decode_offset_checkpoint,
    encode_checkpoint,
    parse_leader_epochs,
    text_lines,
    words,
)


def decode(data):
    return decode_checkpoint(data, "x", lambda parts: parts[0] or None)


def what(checkpoint):
    return [(finding.where.position, finding.what) for finding in checkpoint.findings]


def test_lines_end_as_in_java():
    lines = [(line.number, line.position, line.text) for line in text_lines(b"a\r\nb\rc\n\nd")]
    assert lines == [(1, 0, "a"), (2, 3, "b"), (3, 5, "c"), (4, 7, ""), (5, 8, "d")]
    assert list(text_lines(b"")) == []
    assert [line.text for line in text_lines(b"a\n")] == ["a"]
    assert [line.text for line in text_lines(b"\xff\n")] == [None]


def test_words_are_split_as_in_java():
    assert words("a 0  1 ") == ["a", "0", "1"]
    assert words(" a") == ["", "a"]
    assert words("") == [""]
    assert words("a\xa0b") == ["a\xa0b"]  # \s of Java is ASCII


def test_a_sound_file():
    assert decode(b"0\n2\na\nb\n") == (0, 2, ["a", "b"], [], None)
    assert decode(b"0\r\n1\r\na") == (0, 1, ["a"], [], None)
    assert decode(b"0\n0\n") == (0, 0, [], [], None)


def test_an_empty_file_is_what_a_broker_leaves():
    assert decode(b"") == (None, None, [], [], None)


def test_faults_name_their_line():
    checkpoint = decode(b"0\n2\na\n\n\xff\nb\nc\n")
    assert checkpoint.entries == ["a", "b", "c"]
    assert what(checkpoint) == [
        (6, "line 4: malformed: ''"), (7, "line 5: malformed: not UTF-8"),
        (2, "line 2: the number of entries is 2, the file has 3"),
    ]
    assert what(decode(b"7\n1\na\n")) == [(0, "line 1: version '7', only 0 exists")]
    assert what(decode(b"0\n")) == [(None, "the number of entries is missing")]
    assert what(decode(b"0\n-1\n"))[0] == (2, "line 2: not a number of entries: '-1'")
    assert decode(b"x").version is None


def test_a_long_line_is_cut_in_the_message():
    (finding,) = decode(b"z" * 1000).findings
    assert len(finding.what) < 150


def test_entries_and_findings_are_bounded(monkeypatch):
    monkeypatch.setattr(checkpoints, "MAX_ENTRIES", 500)
    checkpoint = decode(b"0\n1000\n" + b"a\n" * 1000)
    assert len(checkpoint.entries) == 500
    assert [finding.what for finding in checkpoint.findings] == [
        "line 503: more than 500 lines: the rest was not read", "line 2: the number of entries is 1000, the file has 500",
    ]
    checkpoint = decode(b"0\n1000\n" + b"\n" * 400)
    assert len(checkpoint.findings) == checkpoints.MAX_FINDINGS + 1
    assert checkpoint.findings[-1].what == "301 more problems"


@given(st.lists(st.from_regex(r"[a-z0-9.]+", fullmatch=True)))
def test_what_is_written_is_read(lines):
    assert decode(encode_checkpoint(lines)) == (0, len(lines), lines, [], None)


@given(st.one_of(st.binary(), st.text().map(str.encode), st.binary().map(lambda data: b"0\n1\n" + data)))
def test_any_bytes(data):
    decode(data)
    lines = list(text_lines(data))
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", None),
        (b"0\n", None),  # it ends before the number of entries: Kafka takes it for an empty one
        (b"0\n0\n", None),
        (b"0\n1\n7 0\n", None),
        (b"0\n1\n7 0", None),
        (b"1\n1\n7 0\n", "line 1: version '1', only 0 exists"),
        (b"x\n", "line 1: version 'x', only 0 exists"),
        (b"0\nabc", "line 2: not a number of entries: 'abc'"),
        (b"0\n-1\n", "line 2: not a number of entries: '-1'"),
        (b"0\n1\n7\n", "line 3: malformed: '7'"),
        (b"0\n2\n7 0\n", "line 2: the number of entries is 2, the file has 1"),
        (b"0\n1\n-7 -1\n", None),  # odd, but Kafka reads it
    ],
)
def test_what_kafka_can_not_read(data, fault):
    assert decode_leader_epochs(data, "p").fault == fault
    if fault is None:
        assert parse_leader_epochs(data, "p") == decode_leader_epochs(data, "p").entries
    else:
        with pytest.raises(MalformedCheckpoint) as raised:
            parse_leader_epochs(data, "p")
        assert str(raised.value) == f"p: {fault}"


def test_an_offset_without_a_topic_is_doubtful_but_read_as_kafka_reads_it():
    checkpoint = decode_offset_checkpoint(b"0\n1\n 0 5\n", "p")
    assert (checkpoint.fault, checkpoint.entries) == (None, [("", 0, 5)])
    assert [finding.what for finding in checkpoint.findings] == ["partition 0, offset 5: the topic is missing"]
