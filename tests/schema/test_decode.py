"""What the decoders make of any bytes. The expected texts of tests/data/schema were printed by real Kafka."""

import json
import random
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.schema import tables
from engine.schema.decode import DECODERS, SchemaError, control_data, control_text, decoder
from tests.support.schema_bytes import Generator, mutate
from tests.support.schema_records import CATALOGUES, messages, random_record, sound_record

GOLDEN = Path(__file__).parent.parent / "data" / "schema" / "decoder-lines.jsonl"
COMMIT_KEY = struct.pack(">hh2sh3si", 1, 2, b"gr", 3, b"tic", 7)


def golden():
    return [json.loads(line) for line in GOLDEN.read_text("utf-8").split("\n") if line]


def test_what_kafka_printed():
    lines = golden()
    assert {line["decoder"] for line in lines} == set(DECODERS)
    for number, line in enumerate(lines):
        key, value = (None if line[part] is None else bytes.fromhex(line[part]) for part in ("key", "value"))
        key_text, payload, _ = decoder(line["decoder"]).text(line["offset"], key, value)
        assert [key_text, payload] == line["printed"], f"line {number + 1} of {GOLDEN.name}"


def test_every_version_of_every_record_was_printed():
    printed = set()
    for line in golden():
        if "skipping" in json.dumps(line["printed"]) or not line["value"]:
            continue
        value = bytes.fromhex(line["value"])
        if line["key"] is None:
            printed.add((line["decoder"], value[1], value[2]))
        else:
            printed.add((line["decoder"], bytes.fromhex(line["key"])[1], value[1]))
    for name, catalogue in CATALOGUES.items():
        for message in messages(catalogue(), "value", "record"):
            for version in range(message.versions.lowest, message.versions.highest + 1):
                assert (name, message.id, version) in printed, f"{message.name} version {version}"


@pytest.mark.parametrize("name", DECODERS)
def test_structured_is_the_same_as_text(name):
    rng = random.Random(name)
    tool = decoder(name)
    for _ in range(300):
        key, value = random_record(name, rng, damaged=rng.random() < 0.3)
        key_text, payload, problem = tool.text(5, key, value)
        data = tool.data(5, key, value)
        assert list(data) == ["key", "value", "problem"]
        assert data["problem"] == problem
        if problem is not None:
            assert (data["key"], data["value"]) == (None, None)
        elif name != "remote-log-metadata":
            assert data["key"] == (None if key_text is None else json.loads(key_text))
            assert data["value"] == (None if payload == "<DELETE>" else json.loads(payload))


@pytest.mark.parametrize("name", DECODERS)
def test_sound_records_decode(name):
    rng = random.Random(name)
    for message in messages(CATALOGUES[name](), "value", "record"):
        for version in range(message.versions.lowest, message.versions.highest + 1):
            for _ in range(20):
                key, value = sound_record(name, rng, message, version)
                _, _, problem = decoder(name).text(0, key, value)
                if name != "remote-log-metadata":  # whose classes refuse some values
                    assert problem is None, f"{message.name} version {version}"


@given(st.sampled_from(DECODERS), st.none() | st.binary(max_size=80), st.none() | st.binary(max_size=200))
def test_any_bytes_are_text_or_a_problem(name, key, value):
    key_text, payload, problem = decoder(name).text(3, key, value)
    assert problem is not None or payload is not None
    decoder(name).data(3, key, value)
    assert problem is None or "\n" not in problem
    if key_text is not None and problem is not None:
        assert "skipping." in key_text


@given(st.integers(0, 2**32), st.sampled_from(DECODERS))
def test_damaged_records_are_text_or_a_problem(seed, name):
    rng = random.Random(seed)
    key, value = random_record(name, rng, damaged=True)
    texts = decoder(name).text(3, key, value)
    size = len(key or b"") + len(value or b"")
    assert sum(len(text or "") for text in texts) < 1000 + 60 * size


def test_a_claimed_collection_is_refused_before_it_is_made():
    value = struct.pack(">hhii", 0, 8, 0, 0)[:2] + struct.pack(">h8sihhi", 8, b"consumer", 1, -1, -1, 2**31 - 1)
    key_text, payload, problem = decoder("offsets").text(9, struct.pack(">hh1s", 2, 1, b"g"), value)
    assert payload is None
    assert key_text == (
        "Error at offset 9, skipping. Could not read record with version 0 from value's buffer due to: "
        "Tried to allocate a collection of size 2147483647, but there are only 0 bytes remaining.."
    )
    assert "GroupMetadata" not in problem
    assert "2147483647" in problem


@pytest.mark.parametrize("name", ["offsets", "transaction-log", "share-group-state"])
def test_no_key(name):
    """Kafka's tool dies here."""
    key, payload, problem = decoder(name).text(12, None, b"\0\0")
    assert (key, payload) == (None, None)
    assert problem == "Failed to decode message at offset 12 using the specified decoder (message had a missing key)"


def test_tombstone():
    texts = decoder("offsets").text(0, COMMIT_KEY, None)
    assert texts == ('{"type":"1","data":{"group":"gr","topic":"tic","partition":7}}', "<DELETE>", None)
    assert decoder("offsets").data(0, COMMIT_KEY, None)["value"] is None


def test_empty_is_not_null():
    text, payload, _ = decoder("offsets").text(0, COMMIT_KEY, b"")
    assert text == "Error at offset 0, skipping. Could not read version from value's buffer."
    assert payload is None


def test_control_records():
    key = struct.pack(">hh", 0, 4)
    assert control_text(4, key, b"\0\0\0") == ' SnapshotFooter {"version":0}'
    assert control_data(4, b"\0\0\0") == {"version": 0}
    assert control_text(300, key, b"") == " controlType: UNKNOWN(300)"
    # read as version 0, shown as the version that it names
    assert control_text(2, key, b"\0\1\0\0\0\5\2\0\0\0\7\0\1\0") == (
        ' LeaderChange: {"version":1,"leaderId":5,'
        '"voters":[{"voterId":7,"voterDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"}],"grantingVoters":[]}'
    )


@pytest.mark.parametrize(
    ("key", "value"), [(b"\0\0\0", b"\0\0\0"), (b"\xff\xff\0\4", b"\0\0\0"), (b"\0\0\0\4", b"\0"), (b"\0\0\0\4", None)],
)
def test_control_records_that_can_not_be_read(key, value):
    with pytest.raises(SchemaError):
        control_text(4, key, value)


def test_control_type_without_schema():
    with pytest.raises(SchemaError):
        control_data(1, b"\0\0\0\0\0\0")


@given(st.integers(0, 2**32), st.integers(2, 6))
def test_damaged_control_records(seed, kind):
    rng = random.Random(seed)
    message = tables.control().find("control", kind)
    value = mutate(rng, Generator(tables.control(), rng).message(message, 0))
    try:
        text = control_text(kind, struct.pack(">hh", 0, kind), value)
    except SchemaError:
        return
    assert json.loads(text[text.index("{") :]) == control_data(kind, value)
