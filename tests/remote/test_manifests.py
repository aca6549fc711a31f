"""Manifests of Aiven's RemoteStorageManager with any values: refused, or the metadata of a segment that Kafka's records can hold."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from engine.remote.aiven_manifest import CorruptObject, parse_manifest
from engine.remote.metadata import records_of
from engine.remote.records import encode_record, key_of
from tests.remote.corpus import SETS, stores

pytestmark = pytest.mark.skipif("aiven" not in SETS, reason="another corpus")
VALUES = [None, True, False, 0, -1, 1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 10**40, 1.5, float("inf"), float("nan"), "", "1", "x" * 50, "\ud800",
          "AAAA", "a/b", [], {}, [1], {"a": 1}]  # fmt: skip


def places(value, before=()):
    """Yield the paths of all values inside of a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield (*before, key)
        yield from places(one, (*before, key))


def changed(manifest, rng):
    """Remove or replace one or two values."""
    fields = json.loads(manifest)
    for _ in range(rng.choice((1, 1, 2))):
        *path, last = rng.choice(list(places(fields)))
        inner = fields
        for key in path:
            inner = inner[key]
        if rng.random() < 0.2:
            del inner[last]
        else:
            inner[last] = rng.choice(VALUES)
    return json.dumps(fields).encode()


def test_any_values_are_refused_or_those_of_a_segment():
    rng = random.Random(11)
    manifests = [path.read_bytes() for path in sorted(Path(stores("aiven")).rglob("*.rsm-manifest"))]
    refused = described = 0
    for _ in range(3000):
        try:
            found = parse_manifest(changed(rng.choice(manifests), rng), "m")
        except CorruptObject:
            refused += 1
            continue
        if found.segment is not None:
            (topic, topic_id, partition), segment = found.segment
            assert all(encode_record(record) for record in records_of(segment, topic, key_of(topic_id, partition)))
            described += 1
    assert refused > 500
    assert described > 200
