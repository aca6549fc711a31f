"""Damaged frames of Kafka's protocol: decoding ends in a value that can be written again, or in SchemaError."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import NamedTuple

from engine.protocol.frames import (
    FrameReader,
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from engine.protocol.messages import api_message, to_json
from engine.schema.wire import SchemaError
from tests.support.corpus import wire_corpus
from tests.support.schema_bytes import mutate
from tests.support.wire_frames import captured, sessions

_LARGEST = 2000  # bytes: small mutants are fast mutants
_RECORDS = ("Produce", "Fetch")  # most of their bytes are records, which nobody decodes here


class Mutant(NamedTuple):
    """A damaged frame without its size; a response with the header of its request."""

    header: RequestHeader | None
    frame: bytes


@cache
def _seeds() -> list[tuple[RequestHeader | None, bytes, str]]:
    found = {}
    for session in sessions(wire_corpus()):
        for one in captured(session):
            if len(one.frame) <= _LARGEST:
                key = one.is_request, one.header.api_key, one.header.api_version, len(one.frame)
                found.setdefault(key, (None if one.is_request else one.header, one.frame, one.facts["api"]))
    return list(found.values())


def make_mutant(seed: int, number: int) -> Mutant:
    """Mutant `number` of a run: the same anywhere."""
    rng = random.Random(f"frames {seed}:{number}")
    header, frame, api = rng.choice(_seeds())
    reach = 150 if api in _RECORDS and rng.random() < 0.7 else len(frame)
    return Mutant(header, mutate(rng, frame[:reach]) + frame[reach:])


def check_mutant(mutant: Mutant) -> bool:
    """Decode and encode it; return whether it could be decoded. Any exception but SchemaError comes through."""
    stream = len(mutant.frame).to_bytes(4) + mutant.frame
    [frame] = FrameReader().feed(stream)
    assert frame.data == mutant.frame
    try:
        body, pieces = _both_ways(mutant.header, mutant.frame)
    except SchemaError as error:
        if not str(error) or not 0 <= (error.at or 0) <= len(mutant.frame):
            raise AssertionError(f"an error without its place: {error!r}, {error.at}") from error
        return False
    json.dumps(body)
    again = b"".join(pieces)
    assert b"".join(_both_ways(mutant.header, again[4:])[1]) == again
    return True


def _both_ways(header: RequestHeader | None, frame: bytes):
    """Return (JSON of the body, the frame encoded again)."""
    if header is None:
        request = decode_request(frame)
        assert request.end <= len(frame)
        name, version = api_message("request", request.header.api_key).name, request.header.api_version
        return to_json(name, version, request.body), encode_request(request.header, request.body)
    response = decode_response(header, frame)
    assert response.end <= len(frame)
    answered = header._replace(correlation_id=response.correlation_id)
    name = api_message("response", header.api_key).name
    pieces = encode_response(answered, response.body, response.unknown_tags, response.version)
    return to_json(name, response.version, response.body), pieces
