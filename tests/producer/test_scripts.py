"""Scripts of sends, which a real producer of Kafka 4.3.1 ran, through ours: sizes, boundaries, requests, results."""

import json

import pytest

from tests.producer.comparing import difference, stored

CASES = [(json.loads(script), expected) for script, expected in zip(stored("scripts"), stored("expected"), strict=True)]


@pytest.mark.parametrize(("script", "expected"), CASES, ids=[script["name"] for script, _ in CASES])
def test_does_what_the_real_producer_does(script, expected):
    assert difference(script, json.loads(expected)) is None
