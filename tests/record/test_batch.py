"""Batches and records as objects, against what real brokers' consumers read and what the real tool printed."""

import base64
import gzip
import json

import pytest

from engine.files import ReadOnlyFiles
from engine.formats import BatchField, Codec
from engine.record.batch import read_batches, read_records
from engine.record.builder import NewRecord, build_batch
from engine.record.columns import BatchColumns
from tests.support.memory_files import MemoryFiles
from tests.support.run import kafkalog


def decode(text):
    return None if text is None else base64.b64decode(text)


def opened(*batches):
    return MemoryFiles({"t-0/0.log": b"".join(batches)}).open("t-0/0.log")


@pytest.mark.parametrize("partition", ["codec.zstd-0", "edge-keys_and.headers-0", "tx-0", "compacted-0", "append.time-0"])
def test_what_a_consumer_reads(own_corpus, partition):
    root = own_corpus / "kafka-4.3.1"
    with gzip.open(root / f"consumed/clean/read_uncommitted/{partition}.jsonl.gz", "rt") as lines:
        wanted = [json.loads(line) for line in lines]
    directory = next(path for path in root.glob(f"logs/clean/*/{partition}"))
    found, findings = [], []
    for log in sorted(directory.glob("*.log")):
        with ReadOnlyFiles().open(str(log)) as file:
            for record in read_records(file, findings.append):
                if not record.batch.is_control:
                    headers = [[key.decode(), value] for key, value in record.headers]
                    found.append((record.offset, record.timestamp, record.key, record.value, headers))
    assert findings == []
    assert wanted
    assert found == [
        (line["offset"], line["timestamp"], decode(line["key"]), decode(line["value"]),
         [[name, decode(value)] for name, value in headers_of(line)])
        for line in wanted
    ]  # fmt: skip


def headers_of(line):
    for header in line["headers"]:
        yield (header["key"], header["value"]) if isinstance(header, dict) else header


def test_headers_of_a_batch():
    data = build_batch(
        [NewRecord(7, 1000, None, b""), NewRecord(9, 1005, b"", None, ((b"h", None), (b"h", b"")))],
        base_offset=7, codec=Codec.LZ4, producer_id=5, producer_epoch=3, base_sequence=2**31 - 2, transactional=True,
        partition_leader_epoch=4, last_offset=12,
    )  # fmt: skip
    with opened(data) as file:
        batch = next(read_batches(file, pytest.fail))
        assert (batch.position, batch.size_in_bytes, batch.magic, batch.codec) == (0, len(data), 2, Codec.LZ4)
        assert (batch.base_offset, batch.last_offset, batch.record_count, batch.max_timestamp) == (7, 12, 2, 1005)
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (5, 3, 2**31 - 2, 3)
        assert (batch.is_transactional, batch.is_control, batch.is_log_append_time, batch.is_valid) == (True, False, False, True)
        assert (batch.delete_horizon_ms, batch.partition_leader_epoch) == (None, 4)
        records = [(r.offset, r.key, r.value, r.headers, r.sequence) for r in read_records(file, pytest.fail)]
    assert records == [(7, None, b"", [], 2**31 - 2), (9, b"", None, [(b"h", None), (b"h", b"")], 0)]


def test_damage_inside_a_batch_is_a_finding():
    data = bytearray(build_batch([NewRecord(0, 0, b"k", b"v")], base_offset=0))
    data[61] = 127
    findings = []
    with opened(bytes(data)) as file:
        assert list(read_records(file, findings.append)) == []
        assert not next(read_batches(file, findings.append)).is_valid
    assert [finding.code for finding in findings] == ["crc-mismatch", "record-invalid", "crc-mismatch"]


def test_columns_are_shared_not_copied():
    columns = BatchColumns(4)
    columns.field(BatchField.COUNT)[2] = 42
    assert columns.table[BatchField.COUNT, 2] == 42
    assert columns.row(2)[BatchField.COUNT] == 42
    assert memoryview(columns.field(BatchField.COUNT)).contiguous


def test_objects_may_be_kept_and_the_end_is_reported():
    batches = [build_batch([NewRecord(i, i, b"%d" % i, b"v" * 500)], base_offset=i) for i in range(5000)]
    findings = []
    with opened(*batches, b"\0" * 30) as file:
        assert [batch.base_offset for batch in list(read_batches(file, findings.append))] == list(range(5000))
        assert [record.key for record in list(read_records(file, findings.append))] == [b"%d" % i for i in range(5000)]
    assert [finding.code for finding in findings] == ["zero-tail"] * 2


# the objects know neither names nor compaction nor schemas
NOT_LOOKED_FOR = {"offset-gap", "offset-order", "control-record-invalid", "name-invalid"}


def test_the_objects_find_what_the_dump_finds(own_corpus):
    """The same damage has the same code, whoever reads: headers only, and with the records."""
    codes = set()
    for path in sorted(own_corpus.glob("kafka-4.3.1/logs/damaged/*/*.log")):
        for read, options in ((read_batches, ()), (read_records, ("--deep-iteration",))):
            found = []
            with ReadOnlyFiles().open(str(path)) as file:
                for _ in read(file, found.append):
                    pass
            dumped = kafkalog("dump-log", "--format=jsonl", *options, str(path)).out.decode().splitlines()
            found_there = [line for line in map(json.loads, dumped) if line["type"] == "finding"]
            told = [line for line in found_there if line["code"] not in NOT_LOOKED_FOR]
            assert [(one.code, one.where.position, one.where.offset) for one in found] == [
                (line["code"], line.get("position"), line.get("offset")) for line in told
            ], path
            codes |= {one.code for one in found}
    assert codes > {"crc-mismatch", "batch-size-invalid", "zero-tail", "torn-tail", "unknown-codec", "unknown-magic"}
