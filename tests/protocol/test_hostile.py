"""Damaged frames end in SchemaError, or are read as something that can be written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.protocol.frames import FrameReader, decode_request, decode_response
from engine.schema.wire import SchemaError
from tests.fuzz.frames import Mutant, check_mutant, make_mutant
from tests.support.corpus import wire_corpus
from tests.support.wire_frames import captured, sessions


def one_of_each():
    """A frame of each API, version and direction that Kafka's classes can read."""
    found = {}
    for session in sessions(wire_corpus()):
        for one in captured(session):
            if "failed" not in one.facts:
                found.setdefault((one.facts["api"], one.header.api_version, one.facts["direction"]), one)
    return list(found.values())


EACH = one_of_each()


def test_mutants():
    decoded = [check_mutant(make_mutant(20, number)) for number in range(5000)]
    assert 0.1 < sum(decoded) / len(decoded) < 0.9


@pytest.mark.parametrize("one", EACH, ids=lambda one: f"{one.facts['api']}-{one.header.api_version}-{one.facts['direction']}")
def test_no_frame_can_be_read_without_its_last_bytes(one):
    for size in {*range(min(len(one.frame), 300)), len(one.frame) - 1}:
        with pytest.raises(SchemaError):
            decode_request(one.frame[:size]) if one.is_request else decode_response(one.header, one.frame[:size])


@given(st.sampled_from(EACH), st.binary(max_size=300))
def test_any_bytes_after_a_header(one, noise):
    at = 4 if one.is_request else 0
    check_mutant(Mutant(None if one.is_request else one.header, one.frame[:at] + noise))


@given(st.lists(st.binary(max_size=20)), st.binary(max_size=3))
def test_a_stream_of_any_bytes(chunks, rest):
    """Either the sizes fit, and the frames are those of the stream, or the stream is refused."""
    stream = b"".join(chunks) + rest
    reader = FrameReader(largest=30)
    found, refused_at = [], len(stream)
    try:
        for chunk in [*chunks, rest]:
            found += reader.feed(chunk)
        reader.end()
    except SchemaError as error:
        refused_at = error.at
    assert b"".join(len(frame.data).to_bytes(4) + frame.data for frame in found) == stream[:refused_at]
