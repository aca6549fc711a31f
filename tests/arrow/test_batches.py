"""Arrow batches hold what the records hold, column by column, however they are cut."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from engine.arrow.batches import BatchBuilder
from engine.arrow.columns import COLUMN_TYPES, schema_of
from engine.files import ReadOnlyFiles
from engine.formats import Codec
from engine.log.fetch.reading import FetchIsolation
from engine.log.fetch.records import RecordFetcher
from engine.log.fetch.view import PartitionView
from engine.record.builder import NewRecord, build_batch
from engine.record.control import increment_sequence
from tests.support.corpus import corpus_directory, own_corpus_directory

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
NAMES = ("edge-keys_and.headers-0", "codec.zstd-0", "codec.lz4-0", "append.time-0", "tx-0", "compacted-0", "large.values-0", "idempotent-0")


def partitions():
    yield from (next((own_corpus_directory() / "kafka-4.3.1/logs/clean").glob(f"*/{name}")) for name in NAMES)
    yield from sorted(path.parent for path in (corpus_directory() / "old").glob("0.1*/**/00000000000000000000.log"))[:12]


def fetcher(directory):
    view = PartitionView(ReadOnlyFiles(), str(directory), lambda _finding: None)
    return RecordFetcher(view, view.log_start_offset, FetchIsolation.HIGH_WATERMARK, lambda _finding: None)


def row(record, path, position, name, partition):
    batch = record.batch
    ms = record.timestamp
    return {
        "key": record.key, "value": record.value, "topic": name, "partition": partition, "offset": record.offset,
        "timestamp": EPOCH + dt.timedelta(milliseconds=ms),
        "timestampType": -1 if batch.magic == 0 else int(batch.is_log_append_time),
        "headers": [{"key": key.decode("utf-8", "replace"), "value": value} for key, value in record.headers] or None,
        "producerId": batch.producer_id, "producerEpoch": batch.producer_epoch,
        "sequence": -1 if batch.base_sequence < 0 else increment_sequence(batch.base_sequence, record.offset - batch.base_offset),
        "partitionLeaderEpoch": batch.partition_leader_epoch, "isTransactional": batch.is_transactional,
        "isControl": batch.is_control, "codec": Codec(batch.codec).name.lower(), "segment": path.rpartition("/")[2],
        "position": position, "directory": "here", "keySize": None if record.key is None else len(record.key),
        "valueSize": None if record.value is None else len(record.value),
    }  # fmt: skip


@pytest.mark.parametrize(("rows", "room"), [(10_000, 16 << 20), (7, 16 << 20), (64, 900)])
@pytest.mark.parametrize("directory", list(partitions()), ids=lambda path: f"{path.parent.parent.name}-{path.name}")
def test_a_batch_holds_what_the_records_hold(directory, rows, room):
    wanted = [row(record, run.path, record.batch.position, "t", 3) for run in fetcher(directory).runs() for record in run.records()]
    got = []
    for batch in BatchBuilder(tuple(COLUMN_TYPES), "t", 3, "here", rows=rows, room=room).batches(fetcher(directory).runs()):
        batch.validate(full=True)
        assert batch.schema == schema_of(list(COLUMN_TYPES))
        assert 0 < batch.num_rows <= rows
        size = sum(len(one or b"") for name in ("key", "value") for one in batch.column(name).to_pylist())
        assert batch.num_rows == 1 or size <= room
        got += batch.to_pylist()
    assert got == wanted
    assert wanted


def test_only_what_is_asked_for(own_corpus):
    directory = next((own_corpus / "kafka-4.3.1/logs/clean").glob("*/codec.none-0"))
    [batch] = BatchBuilder(("offset", "codec"), "t", 0).batches(fetcher(directory).runs())
    assert batch.schema == pa.schema([("offset", pa.int64()), ("codec", pa.string())])


def directory_of(tmp_path, headers):
    """A partition whose records have these headers, eight to a batch."""
    (tmp_path / "t-0").mkdir()
    records = [NewRecord(offset, 1, b"k", b"v", some) for offset, some in enumerate(headers)]
    data = b"".join(build_batch(records[first : first + 8], codec=Codec.GZIP) for first in range(0, len(records), 8))
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(data)
    return tmp_path / "t-0"


def test_headers_fill_batches_as_keys_and_values_do(tmp_path):
    headers = [[(b"h", b"x" * 1000)] * (offset % 5) for offset in range(200)]
    directory = directory_of(tmp_path, headers)
    batches = list(BatchBuilder(("offset", "headers"), "t", 0, room=10_000).batches(fetcher(directory).runs()))
    assert [row["offset"] for batch in batches for row in batch.to_pylist()] == list(range(200))
    assert [len(row["headers"] or ()) for batch in batches for row in batch.to_pylist()] == [offset % 5 for offset in range(200)]
    assert max(sum(len(row["headers"] or ()) for row in batch.to_pylist()) for batch in batches) <= 9
    assert min(batch.num_rows for batch in batches[:-1]) > 1
    large = list(BatchBuilder(("offset", "headers"), "t", 0, room=500).batches(fetcher(directory).runs()))
    assert [row["offset"] for batch in large for row in batch.to_pylist()] == list(range(200))


@pytest.mark.parametrize("key", ["é", "h"])
def test_header_keys_that_are_no_utf8_are_what_java_makes_of_them(tmp_path, key):
    headers = [[(key.encode(), b"1")], [(b"\xc3", b"2"), (b"\xa9", b"3")]] if key == "é" else [[(key.encode(), b"1")], [(b"", None)]]
    [batch] = BatchBuilder(("headers",), "t", 0).batches(fetcher(directory_of(tmp_path, headers)).runs())
    got = [[one["key"] for one in row["headers"]] for row in batch.to_pylist()]
    assert got == [[name.decode("utf-8", "replace") for name, _ in some] for some in headers]
