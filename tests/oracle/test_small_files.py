"""Indexes, checkpoints, properties and names, sound and damaged: our answers beside those of Kafka's own classes."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.checkpoint.checkpoints import by_partition, decode_offset_checkpoint
from engine.config.server import decode_properties
from engine.discovery.names import log_file_name, parse_partition_dir
from engine.index.sparse import OffsetIndex, TimeIndex
from engine.index.transaction import TransactionIndex

pytestmark = pytest.mark.oracle
examples = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))

bases = st.sampled_from([0, 7, 2**63 - 20])
tails = st.sampled_from([b"", b"", bytes(24), bytes(17), b"abc"])
small = st.integers(-3, 40)
sorted_or_not = st.lists(small, max_size=60) | st.lists(small, max_size=60).map(sorted)


def ask(kafka, path, data, **options):
    path.write_bytes(data)
    arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
    answer = kafka.engine("small-files", path, *arguments)
    assert "failed" not in answer, answer
    return answer


def in_64_bits(number):
    return (number + 2**63) % 2**64 - 2**63


def targets(base):
    return [in_64_bits(base + step) for step in (-4, -1, 0, 1, 2, 3, 5, 8, 13, 21, 39, 40, 41, 3000)]


def path_of(work, base, suffix):
    return work / log_file_name(base).replace(".log", suffix)


@examples
@given(bases, sorted_or_not, tails, st.sampled_from([1, 40]))
def test_offset_index(kafka, work, base, keys, tail, times):
    keys = sorted(keys * times) if times > 1 else keys  # beyond the warm section, with equal keys
    data = b"".join(struct.pack(">ii", key, at) for at, key in enumerate(keys)) + tail
    path = path_of(work, base, ".index")
    answer = ask(kafka, path, data, queries=json.dumps(targets(base)))
    index = OffsetIndex(data, base, "x")
    assert index.broker_error(str(path)) == answer["sanity"]
    assert [list(index.lookup(target, zero_tail=True)) for target in targets(base)] == answer["answers"]


@examples
@given(bases, sorted_or_not, sorted_or_not, tails)
def test_time_index(kafka, work, base, timestamps, offsets, tail):
    data = b"".join(struct.pack(">qi", *pair) for pair in zip(timestamps, offsets, strict=False)) + tail
    path = path_of(work, base, ".timeindex")
    answer = ask(kafka, path, data, queries=json.dumps(targets(0)))
    index = TimeIndex(data, base, "x")
    assert index.broker_error(str(path)) == answer["sanity"]
    assert [list(index.lookup(target, zero_tail=True)) for target in targets(0)] == answer["answers"]


versions = st.sampled_from([0] * 9 + [1, 256, -1])


@examples
@given(st.lists(st.tuples(versions, small, small, small, small), max_size=6), tails)
def test_transaction_index(kafka, work, txns, tail):
    data = b"".join(struct.pack(">hqqqq", *txn) for txn in txns) + tail
    path = path_of(work, 7, ".txnindex")
    answer = ask(kafka, path, data, queries=json.dumps(targets(0)))
    index = TransactionIndex(data, 7, "x")
    assert index.broker_error(str(path)) == answer["sanity"]
    assert index.read_error(str(path)) == answer["read"]
    if answer["read"] is None:
        found = [index.aborted_in(target, target + 10) for target in targets(0)]
        ours = [[one.is_complete, *(txn.producer_id for txn in one.transactions)] for one in found]
        assert ours == answer["answers"]


lines = st.sampled_from(["a 0 1", "b 1 2 ", "c\t0  3", "a 0 7", "b.c-d 2147483647 9223372036854775807"])
odd_lines = lines | st.sampled_from(["", " e 0 1", "a x 1", "a 0 9223372036854775808", "a 0", "\x85 0 1", "é 0 +1"])
ends = st.sampled_from(["\n", "\r\n", "\r"])


@examples
@given(st.sampled_from(["0", "+0", "1", " 0", ""]), st.lists(lines) | st.lists(odd_lines), ends, st.integers(0, 9))
def test_offset_checkpoint(kafka, work, version, entries, end, wrong):
    count = len(entries) + (1 if wrong == 0 else 0)
    data = end.join([version, str(count), *entries, ""]).encode()
    answer = ask(kafka, work / "x.offsets", data)
    ours = decode_offset_checkpoint(data, "x")
    assert bool([one for one in ours.findings if "twice" not in one.what]) == (answer["error"] is not None)
    if answer["error"] is None:
        found = by_partition(ours.entries)
        assert {f"{topic}-{partition}": offset for (topic, partition), offset in found.items()} == answer["offsets"]


@examples
@given(st.text(alphabet="ab=: \\\\\t\n\r\fu0#!é", max_size=60) | st.text(st.characters(max_codepoint=255), max_size=40))
def test_properties(kafka, work, text):
    answer = ask(kafka, work / "x.properties", text.encode("latin-1"))
    ours = decode_properties(text.encode("latin-1"))
    assert bool(ours.faults) == (answer["error"] is not None)
    if not ours.faults:
        for values in (ours.values, answer["values"]):
            values.pop("", None)  # of a lone backslash at the end Java makes an empty entry or none, as its buffer ends
        assert ours.values == answer["values"]


parts = st.sampled_from(["a", "-", "-", "1", "0", ".", "-delete", "-future", "-stray", "_", ".abc123", "+", "007"])


@examples
@given(st.lists(parts, min_size=1, max_size=8).map("".join))
def test_partition_directories(kafka, work, name):
    answer = ask(kafka, work / "x.name", b"", name="=" + name)
    ours = parse_partition_dir(name)
    assert (ours is None) == (answer["error"] is not None)
    if ours:
        assert (ours.topic, ours.partition) == (answer["topic"], answer["partition"])
