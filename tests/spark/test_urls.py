"""Paths that are URLs give the rows of a local copy, with few requests. Without a session; tests/s3 has a server and a session."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.formats import ControlType
from engine.record.builder import NewRecord, build_batch, end_txn_batch
from engine.remote import object_store, url_files
from engine.remote.url_files import UrlFiles
from kafkalog_spark.errors import LogDirError, OptionError
from kafkalog_spark.table.columns import LEVELS, level_schema
from kafkalog_spark.table.levels import plan_level, read_level
from kafkalog_spark.table.options import Bounds, read_options
from tests.support.folder_bucket import FolderBucket


@pytest.fixture
def bucket(own_corpus, tmp_path, monkeypatch):
    """s3://bucket with the log dirs of a broker below `broker-1` and `broker-2`."""
    for number, name in enumerate(("clean", "unclean"), 1):
        shutil.copytree(own_corpus / "kafka-4.3.1/logs" / name, tmp_path / f"bucket/broker-{number}")
    found = FolderBucket(tmp_path / "bucket")
    monkeypatch.setattr(object_store, "open_bucket", dict.fromkeys(("s3://bucket", "az://logs@account", "https://127.0.0.1:9"), found).__getitem__)
    return found


def rows(path, **options):
    asked = read_options({"path": str(path), **{name.replace("__", "."): value for name, value in options.items()}})
    schema = level_schema(asked.level, [name for name in asked.columns if name not in ("directory", "modified")])
    return [row for split in plan_level(asked, Bounds()) for batch in read_level(split, schema, asked)
            for row in batch.set_column(0, batch.schema.field(0), batch.column(0)).cast(_readable(batch.schema)).to_pylist()]  # fmt: skip


def _readable(schema):
    """Times beyond Python's calendar as numbers."""
    import pyarrow as pa

    return pa.schema([field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field for field in schema])


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_records_of_a_bucket_are_those_of_the_disk(bucket, isolation):
    for name in ("broker-1", "broker-2/d0", "broker-*"):
        options = {"includeHeaders": "true", "kafka__isolation__level": isolation, "extraColumns": "segment,position"}
        [local] = [rows(f"{bucket.name}/{name}", **options)]
        assert rows(f"s3://bucket/{name}", **options) == local
        assert len(local) > 100


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "records"])
def test_every_level_is_read_from_a_bucket(bucket, level):
    def known(path):
        return [{name: str(value).replace(str(path), "") for name, value in row.items()} for row in rows(f"{path}/broker-2", level=level)]

    found = known("s3://bucket")
    assert found == known(bucket.name)
    assert found


@pytest.mark.parametrize(("given", "path"), [
    ("s3a://bucket/broker-1", "s3://bucket/broker-1"), ("S3N://bucket/a%20b", "s3://bucket/a b"), ("gs://b/x", "gs://b/x"),
    ("abfss://logs@account.dfs.core.windows.net/x", "az://logs@account/x"), ("az://logs/x", "az://logs/x"), ("file:///a/b", "/a/b"),
    ("file:/a/b", "/a/b"), ("/a/b:c", "/a/b:c"), ("https://host/a-0", "https://host/a-0"),
])  # fmt: skip
def test_urls_are_spelled_as_hadoop_spells_them(given, path):
    assert read_options({"path": given}).paths == (path,)


def test_an_account_in_the_url_is_that_of_the_store(bucket):
    url = "abfss://logs@account.dfs.core.windows.net/broker-1/d0"
    assert rows(url) == rows(f"{bucket.name}/broker-1/d0")


@pytest.mark.parametrize(("path", "what"), [
    ("hdfs://name:8020/logs", "Hadoop's file system cannot be read: copy it .* hadoop distcp hdfs://name:8020/logs s3a://BUCKET/KEY"),
    ("ftp://host/logs", "unknown scheme ftp: use s3://, "), ("s3:///logs", "the URL has no bucket"), ("hdfs:/logs", "only reading takes URLs"),
])  # fmt: skip
def test_a_scheme_that_can_not_be_read_is_one_sentence(path, what):
    with pytest.raises(OptionError, match=f"^kafkalog: {path}: {what}") as caught:
        read_options({"path": path})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("path", "what"), [
    ("s3://bucket/nowhere", "No such file"), ("s3://bucket/broker-1/d0/meta.properties", "a file; name the partition directory"),
    ("https://127.0.0.1:9/logs", "HTTP servers have no listings of directories: name one file"),
])  # fmt: skip
def test_a_url_without_logs_is_one_sentence(bucket, path, what):
    with pytest.raises(LogDirError, match=f"^kafkalog: {path}: .*{what}"):
        rows(path)


def test_jobs_that_write_refuse_urls():
    from kafkalog_spark.jobs.upkeep import compact, recover
    from kafkalog_spark.sink.options import read_sink_options

    for work in (lambda path: compact(None, path), lambda path: recover(None, path), lambda path: read_sink_options({"path": path})):
        with pytest.raises(OptionError, match=r"^kafkalog: s3a://bucket/logs: only reading takes URLs"):
            work("s3a://bucket/logs")


@pytest.mark.parametrize("options", [{"splitBytes": "5k"}, {"minPartitions": "70"}, {"maxRecordsPerPartition": "9"}])
def test_however_a_bucket_is_divided(bucket, options):
    for name in ("broker-1", "broker-2"):
        asked = read_options({"path": f"s3://bucket/{name}", **options})
        assert len(plan_level(asked, Bounds())) > 20
        assert rows(f"s3://bucket/{name}", **options) == rows(f"{bucket.name}/{name}")
        batches = {"level": "batches", "columns": "topic,partition,baseOffset,lastOffset"}
        assert rows(f"s3://bucket/{name}", splitBytes="1k", **batches) == rows(f"{bucket.name}/{name}", **batches)


def test_planning_takes_about_a_request_for_each_partition(bucket):
    """The listing of everything is one request for 1,000 objects; of a small log only the end is read."""
    partitions = {piece.directory for split in plan_level(read_options({"path": "s3://bucket/broker-1"}), Bounds()) for piece in split}
    assert len(partitions) > 40
    assert len(bucket.requests) <= 1.3 * len(partitions)


@pytest.fixture
def transactions(bucket):
    """A log of many large batches of transactions without a producer snapshot or a transaction index → number of transactions."""
    partition = Path(bucket.name) / "large/t-0"
    partition.mkdir(parents=True)
    with (partition / "00000000000000000000.log").open("wb") as log:
        for number in range(200):
            records = [NewRecord(2 * number, 1000 + number, b"k", bytes(40_000))]
            fields = {"producer_id": number % 7, "producer_epoch": 0}
            log.write(build_batch(records, transactional=True, base_sequence=number, **fields))
            end = ControlType.ABORT if number % 5 == 0 else ControlType.COMMIT
            log.write(end_txn_batch(end, 1, base_offset=2 * number + 1, timestamp=1000 + number, **fields))
    return 200


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_committed_records_take_few_requests(bucket, transactions, isolation):
    """Headers of batches are not requested one by one: neither to find open transactions nor to find aborted ones."""
    bucket.requests.clear()
    found = rows("s3://bucket/large", kafka__isolation__level=isolation, columns="offset")
    assert len(found) == (transactions if isolation == "read_uncommitted" else transactions * 4 // 5)
    assert len(bucket.requests) <= 16


def test_a_listing_ahead_is_that_of_the_directories(bucket, monkeypatch):
    def listed(files, path):
        return {path: files.list(path)} | {key: names for name in files.list(path) if files.info(f"{path}/{name}").is_directory
                                           for key, names in listed(files, f"{path}/{name}").items()}  # fmt: skip

    wanted = listed(UrlFiles(), "s3://bucket/broker-1")
    count = sum(len(names) for names in wanted.values())
    for most in (1, 30, 100, count - 1, count, 10**6):
        monkeypatch.setattr(url_files, "_AHEAD", most)
        files = UrlFiles()
        files.list_ahead("s3://bucket/broker-1")
        bucket.requests.clear()
        assert listed(files, "s3://bucket/broker-1") == wanted
        assert most < count or bucket.requests == []


def test_values_are_decoded_with_the_registry_in_the_bucket(bucket, tmp_path):
    import pyarrow as pa

    from kafkalog_spark.jobs.export import _decoded
    from kafkalog_spark.tasks import options_of

    key = b'{"keytype":"SCHEMA","subject":"shop-value","version":1,"magic":1}'
    schema = b'{"schemaType":"JSON","subject":"shop-value","version":1,"id":7,"schema":"{}","deleted":false}'
    for name, record in (("_schemas-0", NewRecord(0, 1000, key, schema)), ("shop-0", NewRecord(0, 1000, None, b'\0\0\0\0\7{"a":1}'))):
        directory = tmp_path / "bucket/broker-1/d0" / name
        directory.mkdir()
        (directory / "00000000000000000000.log").write_bytes(build_batch([record]))
    asked = options_of(["s3://bucket/broker-1"], {"subscribe": "shop", "columns": "key,value,offset"})
    inner = level_schema("records", asked.columns)
    wanted = pa.schema([*inner, pa.field("decodedKey", pa.string()), pa.field("decodedValue", pa.string())])
    [split] = plan_level(asked, Bounds())
    [row] = [row for batch in _decoded(wanted, asked, None, lambda pieces: read_level(pieces, inner, asked), split) for row in batch.to_pylist()]
    assert (row["decodedKey"], row["decodedValue"]) == (None, '{"a":1}')
