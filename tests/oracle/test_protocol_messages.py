"""Random and damaged messages through Kafka's generated classes and ours: accepted by both or none, the same JSON and bytes."""

from __future__ import annotations

import random
from base64 import b64decode, b64encode

import pytest

from engine.protocol.messages import decode, encode, to_json
from engine.schema.wire import SchemaError
from tests.support.protocol_values import Values, every_version
from tests.support.schema_bytes import mutate

pytestmark = pytest.mark.oracle
SOUND, DAMAGED = 10, 40  # per message and version


@pytest.mark.parametrize("name", sorted({name for name, _ in every_version()}))
def test_kafka_reads_and_writes_the_same(kafka_engine, name):
    for version in (version for one, version in every_version() if one == name):
        rng = random.Random(f"oracle {name} {version}")
        values = Values(name, version, rng)
        sound = [b"".join(encode(name, version, values.value())) for _ in range(SOUND)]
        small = sorted(sound, key=len)[: SOUND // 2]
        data = sound + [mutate(rng, rng.choice(small)) for _ in range(DAMAGED)]
        answer = kafka_engine("message", name, version, *(b64encode(one).decode() for one in data))
        assert "failed" not in answer, answer
        for number, (one, theirs) in enumerate(zip(data, answer["messages"], strict=True)):
            assert number >= SOUND or "failed" not in theirs
            compare(name, version, one, theirs)


@pytest.mark.parametrize("name", sorted({name for name, _ in every_version()}))
def test_kafka_loses_or_refuses_the_same_in_older_versions(kafka_engine, name):
    """Values of the newest version, written in an older one: fields that it lacks are dropped, or the value is refused."""
    versions = [version for one, version in every_version() if one == name]
    newest = versions[-1]
    values = Values(name, newest, random.Random(f"older {name}"), default=0.6)
    data = [b"".join(encode(name, newest, values.value())) for _ in range(SOUND * 2)]
    for version in versions[:-1]:
        answer = kafka_engine("message", name, newest, "--write", version, *(b64encode(one).decode() for one in data))
        for one, theirs in zip(data, answer["messages"], strict=True):
            value, _ = decode(name, newest, one)
            if "again" in theirs:
                assert b"".join(encode(name, version, value)) == b64decode(theirs["again"]), (version, value, theirs)
            else:
                with pytest.raises(SchemaError):
                    encode(name, version, value)


def compare(name, version, data, theirs):
    where = f"{name} {version} {data.hex()}: {theirs}"
    if "end" not in theirs:
        with pytest.raises(SchemaError):
            decode(name, version, data)
        return
    value, end = decode(name, version, data)
    assert (theirs["end"], theirs["json"]) == (end, to_json(name, version, value)), where
    if "again" in theirs:
        assert b"".join(encode(name, version, value)) == b64decode(theirs["again"]), where
    elif "Invalid raw tag field list" not in theirs["failed"]:  # we sort unknown tagged fields
        with pytest.raises(SchemaError):
            encode(name, version, value)
