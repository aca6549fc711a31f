"""Frames of real clients and a real broker: read, written back, compared with what Kafka's own classes read."""

from __future__ import annotations

import pytest

from engine.protocol.frames import (
    FrameReader,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from engine.protocol.messages import api_message, api_name, to_json
from engine.schema.wire import SchemaError
from tests.support.corpus import wire_corpus
from tests.support.wire_frames import captured, sessions

SESSIONS = sessions(wire_corpus())


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.name)
def test_frames_are_read_as_kafka_reads_them_and_written_back(session):
    frames = list(captured(session))
    for one in frames:
        decoder = decode_request if one.is_request else lambda frame, header=one.header: decode_response(header, frame)
        if "failed" in one.facts:
            with pytest.raises(SchemaError):
                decoder(one.frame)
            continue
        decoded = decoder(one.frame)
        assert decoded.end == len(one.frame)
        if one.is_request:
            version, pieces = one.header.api_version, encode_request(decoded.header, decoded.body)
        else:
            assert decoded.correlation_id == one.header.correlation_id
            version, pieces = decoded.version, encode_response(one.header, decoded.body, decoded.unknown_tags)
        assert b"".join(pieces) == one.framed
        assert api_name(one.header.api_key) == one.facts["api"]
        if "body" in one.facts:
            name = api_message("request" if one.is_request else "response", one.header.api_key).name
            assert to_json(name, version, decoded.body) == one.facts["body"]
    assert frames


def test_which_frames_cannot_be_read():
    """Only requests in versions that Kafka 4.3.1 does not have."""
    failed = [one for session in SESSIONS for one in captured(session) if "failed" in one.facts]
    assert failed
    for one in failed:
        assert one.is_request
        with pytest.raises(SchemaError, match=rf"{one.facts['api']}Request version {one.facts['version']} is not known"):
            decode_request(one.frame)


def test_records_are_slices_of_the_frame():
    seen = 0
    for session in SESSIONS[-10:]:
        for one in captured(session):
            if one.facts["api"] == "Produce" and one.is_request and "failed" not in one.facts:
                frame = one.frame
                for topic in decode_request(frame).body["topicData"]:
                    for partition in topic["partitionData"]:
                        assert partition["records"] is None or partition["records"].obj is frame
                        seen += 1
    assert seen


@pytest.mark.parametrize("size", [1, 3, 4, 5, 1000, 1 << 20])
def test_a_stream_in_chunks_of_any_size(size):
    session = min((one for one in SESSIONS if one.name.startswith("java")), key=lambda one: (one / "frames.bin").stat().st_size)
    stream = (session / "frames.bin").read_bytes()
    reader = FrameReader()
    found = [frame for at in range(0, len(stream), size) for frame in reader.feed(stream[at : at + size])]
    reader.end()
    expected = list(captured(session))
    assert [frame.position for frame in found] == [one.facts["at"] for one in expected]
    assert [bytes(frame.data) for frame in found] == [one.frame for one in expected]
