"""What our encoder writes, real Kafka writes alike and reads back: every format, codec and kind of batch."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from engine.formats import Codec, ControlType
from engine.record.assembly import BatchSpec, empty_batch
from engine.record.builder import NewRecord, end_txn_batch, split
from engine.record.control import increment_sequence
from tests.oracle.exchange import description, kafka_builds, kafka_reads, records_of
from tests.support.batch_cases import (
    CASES,
    IDEMPOTENT,
    KINDS,
    NOW,
    PLAIN,
    STORED,
    fingerprint,
    inflated_parts,
    stored,
)
from tests.support.strategies import INT_MAX, BatchCase, batches

pytestmark = pytest.mark.oracle


def without(line: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in names}


def check(kafka, work, case):
    ours = case.build()
    theirs = kafka_builds(kafka, work, description(case))
    if case.options.get("codec", Codec.NONE) == Codec.NONE:
        assert ours == theirs
    elif case.records:
        assert inflated_parts(case, ours) == inflated_parts(case, theirs)
    read, expected = kafka_reads(kafka, work, ours), kafka_reads(kafka, work, theirs)
    assert [records_of(line) for line in read] == [records_of(line) for line in expected]
    for line, like in zip(read, expected, strict=True):
        assert line["valid"]
        volatile = ("crc", "size", "position") if case.options.get("codec") else ()
        assert without(line, volatile) == without(like, volatile)
    found = [record for line in read for record in records_of(line)]
    timestamp = case.options.get("log_append_time")
    want = [r if timestamp is None else r._replace(timestamp=timestamp) for r in case.records]
    if case.options.get("magic") == 0:
        want = [record._replace(timestamp=-1) for record in want]
    assert found == [record._replace(headers=list(record.headers)) for record in want]


@pytest.mark.parametrize("name", CASES)
def test_kafka_writes_and_reads_the_same(kafka, work, name):
    check(kafka, work, CASES[name])


def test_stored_bytes_are_those_that_kafka_writes_now(kafka, work, request):
    """--rewrite stores them anew."""
    made = {name: fingerprint(case, kafka_builds(kafka, work, description(case))) for name, case in CASES.items()}
    if request.config.getoption("--rewrite"):
        STORED.write_text(json.dumps(made, indent=1) + "\n")
    assert stored() == made


@given(case=batches())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_kafka_writes_and_reads_the_same_for_any_batch(kafka, work, case):
    check(kafka, work, case)


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
@pytest.mark.parametrize("epoch", [0, 5, INT_MAX])
def test_markers_equal_kafkas(kafka, work, kind, epoch):
    ours = end_txn_batch(
        kind, epoch, base_offset=41, timestamp=NOW, producer_id=9, producer_epoch=2, partition_leader_epoch=4,
    )  # fmt: skip
    theirs = kafka_builds(kafka, work, {
        "baseOffset": 41, "producerId": 9, "producerEpoch": 2, "partitionLeaderEpoch": 4,
        "endTxn": {"type": kind.name, "coordinatorEpoch": epoch, "timestamp": NOW},
    })  # fmt: skip
    assert ours == theirs


@pytest.mark.parametrize("options", [
    {}, {"transactional": True, **IDEMPOTENT}, {"control": True, **IDEMPOTENT}, {"partition_leader_epoch": 8},
])  # fmt: skip
def test_empty_batches_equal_kafkas(kafka, work, options):
    ours = empty_batch(BatchSpec(base_offset=10, **options), 19, NOW)
    line = description(BatchCase([], {"base_offset": 10, **options}))
    line["empty"] = {"lastOffset": 19, "timestamp": NOW, "control": options.get("control", False)}
    assert ours == kafka_builds(kafka, work, line)
    read = kafka_reads(kafka, work, ours)
    assert [(one["baseOffset"], one["lastOffset"], one["count"]) for one in read] == [(10, 19, 0)]


def test_split_batches_read_as_one_sequence(kafka, work):
    records = [NewRecord(100 + i, NOW + i, b"%d" % i, b"v" * 50) for i in range(100)]
    spec = BatchSpec(producer_id=1, producer_epoch=0, base_sequence=INT_MAX - 30)
    parts = list(split(records, spec, 700))
    lines = kafka_reads(kafka, work, b"".join(parts))
    assert len(lines) == 10
    assert all(len(part) <= 700 for part in parts)
    assert [one["offset"] for line in lines for one in line["records"]] == list(range(100, 200))
    sequences = [one["sequence"] for line in lines for one in line["records"]]
    assert sequences == [increment_sequence(INT_MAX - 30, i) for i in range(100)]


def test_dump_tool_reads_every_kind_of_batch(kafka, work, real_dump):
    """One log with all of it through the real DumpLogSegments: no batch is invalid, no record is lost."""
    offset, parts, count = 0, [], 0
    for codec, options in itertools.product(Codec, KINDS.values()):
        records = [record._replace(offset=offset + record.offset) for record in PLAIN]
        moved = {name: value + offset if name.endswith("_offset") else value for name, value in options.items()}
        parts.append(BatchCase(records, {"codec": codec, **moved}).build())
        offset, count = offset + 100, count + len(records)
    parts.append(empty_batch(BatchSpec(base_offset=offset), offset + 3, NOW))
    offset += 4
    marker = end_txn_batch(ControlType.COMMIT, 2, base_offset=offset, timestamp=NOW, producer_id=1, producer_epoch=0)
    (work / "00000000000000000000.log").write_bytes(b"".join([*parts, marker]))
    ran = real_dump(["--print-data-log", "--files", "00000000000000000000.log"], work)
    text = ran.stdout.decode()
    assert ran.exit == 0
    assert text.count("isvalid: true") == len(parts) + 1
    assert "isvalid: false" not in text
    assert text.count("\n| offset: ") == count + 1
    assert text.rstrip().endswith("endTxnMarker: COMMIT coordinatorEpoch: 2")
