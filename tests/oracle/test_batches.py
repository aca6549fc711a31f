"""What our encoder writes, real Kafka writes alike and reads back identically: every format, codec and kind of batch."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings

from engine.formats import BATCH_HEADER, CODEC_NAMES, LEGACY_V0, LEGACY_V1, Codec, ControlType
from engine.record.assembly import LOG_APPEND_TIME, BatchSpec, empty_batch
from engine.record.builder import NewRecord, control_batch, end_txn_batch, increment_sequence, split
from engine.record.codecs import InflateStatus, inflate
from engine.record.control import encode_control_key
from tests.oracle.exchange import description, kafka_builds, kafka_reads, records_of
from tests.support.strategies import INT_MAX, LONG_MAX, BatchCase, batches

pytestmark = pytest.mark.oracle

NOW = 1_700_000_000_000
PLAIN = [
    NewRecord(7, NOW, b"k", b"v", [(b"h", b"x"), (b"h", None), (b"", b""), ("ключ".encode(), b"\xff")]),
    NewRecord(8, NOW - 5, None, b"tombstone's key is null"),
    NewRecord(9, NOW + 5, b"", b""),
    NewRecord(12, -1, b"only a key", None),
    NewRecord(13, NOW, b"x" * 9000, b"abc" * 50_000),
]
HEADLESS = [record._replace(headers=[]) for record in PLAIN]
IDEMPOTENT = {"producer_id": 4001, "producer_epoch": 3, "base_sequence": 17}

KINDS = {
    "plain": {},
    "append-time": {"timestamp_type": LOG_APPEND_TIME, "log_append_time": NOW + 99},
    "idempotent": IDEMPOTENT,
    "transactional": {**IDEMPOTENT, "transactional": True},
    "wrapping": {**IDEMPOTENT, "base_sequence": INT_MAX - 1},
    "delete-horizon": {"delete_horizon_ms": NOW + 86_400_000},
    "delete-horizon-0": {"delete_horizon_ms": 0, **IDEMPOTENT},
    "epoch": {"partition_leader_epoch": INT_MAX},
    "compacted": {"base_offset": 2, "last_offset": 40},
}
LEGACY_KINDS = ("plain", "append-time")


def cases() -> list[object]:
    found = []
    for codec, (name, options) in itertools.product(Codec, KINDS.items()):
        found.append(pytest.param(BatchCase(PLAIN, {"codec": codec, **options}), id=f"v2-{CODEC_NAMES[codec]}-{name}"))
    for magic, codec, name in itertools.product((0, 1), tuple(Codec)[:4], LEGACY_KINDS):
        if magic or name == "plain":
            options = {"magic": magic, "codec": codec, **KINDS[name]}
            found.append(pytest.param(BatchCase(HEADLESS, options), id=f"v{magic}-{CODEC_NAMES[codec]}-{name}"))
    found += [
        pytest.param(BatchCase([], {"base_offset": 3}), id="no-records"),
        pytest.param(BatchCase([NewRecord(LONG_MAX, LONG_MAX, None, None)], {}), id="last-offset-of-all"),
        pytest.param(BatchCase([NewRecord(i, NOW + i, None, b"%d" % i) for i in range(20_000)], {}), id="many"),
        pytest.param(BatchCase([NewRecord(0, LONG_MAX, b"", b""), NewRecord(INT_MAX, -1, b"", b"")], {}), id="widest-deltas"),
    ]
    return found


def without_checksum(data: bytes, case: BatchCase) -> tuple[bytes, bytes]:
    """(header without sizes and checksum, inflated content) of one batch or wrapper."""
    magic = case.options.get("magic", 2)
    layout = (LEGACY_V0, LEGACY_V1, BATCH_HEADER)[magic]
    fields = layout.read(data)._asdict()
    for name in ("crc", "batch_length", "message_size"):
        fields.pop(name, None)
    start = layout.size + (0 if magic == 2 else 4)
    inflated = inflate(case.options["codec"], data[start:], 1 << 24, magic=magic)
    assert inflated.status == InflateStatus.OK
    return repr(fields).encode(), bytes(inflated.data)


def check(kafka, work, case):
    ours = case.build()
    theirs = kafka_builds(kafka, work, description(case))
    if case.options.get("codec", Codec.NONE) == Codec.NONE:
        assert ours == theirs
    elif case.records:
        assert without_checksum(ours, case) == without_checksum(theirs, case)
    read, expected = kafka_reads(kafka, work, ours), kafka_reads(kafka, work, theirs)
    assert [records_of(line) for line in read] == [records_of(line) for line in expected]
    for line, like in zip(read, expected, strict=True):
        assert line["valid"]
        volatile = ("crc", "size", "position") if case.options.get("codec") else ()
        assert {k: v for k, v in line.items() if k not in volatile} == {k: v for k, v in like.items() if k not in volatile}
    found = [record for line in read for record in records_of(line)]
    timestamp = case.options.get("log_append_time")
    want = [r if timestamp is None else r._replace(timestamp=timestamp) for r in case.records]
    if case.options.get("magic") == 0:
        want = [record._replace(timestamp=-1) for record in want]
    assert found == [record._replace(headers=list(record.headers)) for record in want]


@pytest.mark.parametrize("case", cases())
def test_kafka_writes_and_reads_the_same(kafka, work, case):
    check(kafka, work, case)


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


@pytest.mark.parametrize("kind", [kind for kind in ControlType if kind > ControlType.COMMIT])
def test_control_batches_equal_kafkas(kafka, work, kind):
    """The value is the caller's: any bytes do."""
    record = NewRecord(3, NOW, encode_control_key(kind), b"\0\0 ready value")
    ours = control_batch(kind, record.value, base_offset=3, timestamp=NOW, partition_leader_epoch=6)
    assert ours == kafka_builds(kafka, work, description(BatchCase([record], {"control": True, "partition_leader_epoch": 6})))


@pytest.mark.parametrize("options", [
    {}, {"transactional": True, **IDEMPOTENT}, {"control": True, **IDEMPOTENT}, {"partition_leader_epoch": 8},
])  # fmt: skip
def test_empty_batches_equal_kafkas(kafka, work, options):
    ours = empty_batch(BatchSpec(base_offset=10, **options), 19, NOW)
    line = description(BatchCase([], {"base_offset": 10, **options}))
    line["empty"] = {"lastOffset": 19, "timestamp": NOW, "control": options.get("control", False)}
    assert ours == kafka_builds(kafka, work, line)
    assert [(one["baseOffset"], one["lastOffset"], one["count"]) for one in kafka_reads(kafka, work, ours)] == [(10, 19, 0)]


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
    marker = end_txn_batch(ControlType.COMMIT, 2, base_offset=offset + 4, timestamp=NOW, producer_id=1, producer_epoch=0)
    (work / "00000000000000000000.log").write_bytes(b"".join([*parts, marker]))
    ran = real_dump(["--print-data-log", "--files", "00000000000000000000.log"], work)
    text = ran.stdout.decode()
    assert ran.exit == 0
    assert text.count("isvalid: true") == len(parts) + 1
    assert "isvalid: false" not in text
    assert text.count("\n| offset: ") == count + 1
    assert text.rstrip().endswith("endTxnMarker: COMMIT coordinatorEpoch: 2")
