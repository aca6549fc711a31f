"""Paths that are URLs give the rows of a local copy, with few requests. Without a session; tests/s3 has a server and a session."""

from __future__ import annotations

import shutil

import pytest

from engine.remote import object_store
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
    from kafkalog_spark.jobs.compact import compact
    from kafkalog_spark.jobs.recover import recover
    from kafkalog_spark.sink.options import read_sink_options

    for work in (lambda path: compact(None, path), lambda path: recover(None, path), lambda path: read_sink_options({"path": path})):
        with pytest.raises(OptionError, match=r"^kafkalog: s3a://bucket/logs: only reading takes URLs"):
            work("s3a://bucket/logs")


def test_committed_records_take_few_requests(bucket):
    """Transaction markers in the records decide; batch headers are not read one by one."""
    count = {}
    for isolation in ("read_uncommitted", "read_committed"):
        bucket.requests.clear()
        rows("s3://bucket/broker-1/d0", kafka__isolation__level=isolation)
        count[isolation] = len(bucket.requests)
    assert count["read_committed"] <= 1.3 * count["read_uncommitted"]
