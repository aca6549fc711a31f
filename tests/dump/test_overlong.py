"""Messages of formats 0 and 1 that are shorter than their value: a finding; only the text has a line of them, as Kafka's has."""

from __future__ import annotations

import pytest

from tests.support.json_output import all_objects
from tests.support.legacy_messages import message, overlong, wrapper
from tests.support.run import kafkalog

NAME = "00000000000000000000.log"
INNER = (message(0, b"k0", b"v0"), overlong(1, b"k1", b"v1"), message(2, b"k2", b"v2"))


@pytest.fixture(params=["plain", "wrapped"])
def home(request, tmp_path):
    (tmp_path / NAME).write_bytes(b"".join(INNER) if request.param == "plain" else wrapper(2, INNER))
    return tmp_path


def test_text(home):
    done = kafkalog("dump-log", "--print-data-log", NAME, cwd=home)
    ends = [line.partition("keySize")[2] for line in done.out.decode().splitlines() if line.startswith("|")]
    assert [end.partition("crc: ")[0] for end in ends] == [
        ": 2 valueSize: 2 isValid: true ", ": 2 valueSize: 4113 isValid: false ", ": 2 valueSize: 2 isValid: true ",
    ]  # fmt: skip
    assert ["payload" in end for end in ends] == [True, False, True]
    assert (done.err.count("record-invalid"), done.status) == (1, 4)


def test_json_has_no_record_of_it(home):
    done = kafkalog("dump-log", "--format", "jsonl", "--print-data-log", NAME, cwd=home)
    found = all_objects(done.out)[1:]
    assert [one["offset"] for one in found if one["type"] == "record"] == [0, 2]
    assert [one["code"] for one in found if one["type"] == "finding" and one["code"] == "record-invalid"] == ["record-invalid"]


def test_who_selects_does_not_get_it(home):
    done = kafkalog("dump-log", "--print-data-log", "--key", "k1", NAME, cwd=home)
    assert b"k1" not in done.out
    assert b"2 records" in kafkalog("dump-log", "--count", NAME, cwd=home).out
