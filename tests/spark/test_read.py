"""Rows of the data source are what a real consumer reads from a real broker, however they are cut and asked for."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
from collections import defaultdict

import pytest

import kafkalog_spark
from tests.support.floors import absent, saw_enough
from tests.support.unstable import first_unstable_offset

NUMBERS = {"CreateTime": 0, "LogAppendTime": 1, "NoTimestampType": -1}
OPEN_AT_THE_STOP = {"tx-0"}  # the broker that the consumer asked had ended a transaction that hangs in the files
ALL = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def bytes_of(text):
    return None if text is None else base64.b64decode(text)


def consumed(corpus, folder, isolation):
    """What the consumer was handed: partition directory → rows."""
    found = {}
    for path in sorted((corpus / "kafka-4.3.1/consumed" / folder / isolation).glob("*.gz")):
        name = path.name.removesuffix(".jsonl.gz")
        topic = name.rpartition("-")[0]
        with gzip.open(path) as lines:
            found[name] = [
                (bytes_of(one["key"]), bytes_of(one["value"]), topic, one["partition"], one["offset"],
                 one["timestamp"] * 1000 if abs(one["timestamp"]) < 2**63 // 1000 else None, NUMBERS[one["timestampType"]],
                 [(key, bytes_of(value)) for key, value in one["headers"]] or None)
                for one in map(json.loads, lines)
            ]  # fmt: skip
    return found


def rows_of(frame):
    """Rows of a frame: partition directory → rows by offset, as plain values."""
    found = defaultdict(list)
    table = frame.toArrow()
    at = table.schema.get_field_index("timestamp")
    table = table.set_column(at, "timestamp", table.column("timestamp").cast("int64"))  # some are beyond Python's calendar
    for batch in table.to_batches():
        for row in batch.to_pylist():
            headers = row["headers"] and [(one["key"], one["value"]) for one in row["headers"]]
            found[f"{row['topic']}-{row['partition']}"].append((*(row[name] for name in ALL[:-1]), headers))
    return {name: sorted(rows, key=lambda one: one[4]) for name, rows in found.items()}


def source(spark, path, **options):
    reader = spark.read.format("kafkalog")
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), value)
    return reader.load(str(path))


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("folder", ["clean", "unclean"])
def test_what_a_real_consumer_read(spark, corpus, folder, isolation):
    if not (corpus / "kafka-4.3.1/logs" / folder).is_dir():
        absent(f"log dirs of a broker that stopped {folder}")
    frame = source(spark, corpus / "kafka-4.3.1/logs" / folder, includeHeaders="true", kafka__isolation__level=isolation)
    assert tuple(frame.columns) == ALL
    wanted, got = consumed(corpus, folder, isolation), rows_of(frame)
    compared = 0
    for name, rows in wanted.items():
        if name in OPEN_AT_THE_STOP and isolation == "read_committed":
            [directory] = (corpus / "kafka-4.3.1/logs" / folder).glob(f"*/{name}")
            rows = [row for row in rows if row[4] < first_unstable_offset(directory)]  # noqa: PLW2901  # fewer of the same
        assert got.get(name, []) == rows, name
        compared += len(rows)
    saw_enough("records that a consumer read", compared, 1501)


def test_the_schema_is_that_of_sparks_own_source(spark, own_corpus):
    plain = source(spark, own_corpus / "kafka-4.3.1/logs/clean")
    assert plain.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    with_headers = source(spark, own_corpus / "kafka-4.3.1/logs/clean", includeHeaders="true")
    assert with_headers.schema["headers"].simpleString() == "headers:array<struct<key:string,value:binary>>"
    assert all(field.nullable for field in with_headers.schema)


@pytest.fixture
def bulk(own_corpus):
    return next((own_corpus / "kafka-4.3.1/logs/clean").glob("*/bulk-0"))


def test_however_it_is_cut(spark, bulk):
    whole = source(spark, bulk, includeHeaders="true")
    cut = source(spark, bulk, includeHeaders="true", splitBytes="4k")
    mapped = kafkalog_spark.read(spark, str(bulk), includeHeaders=True, splitBytes="30k", minPartitions=3)
    assert whole.rdd.getNumPartitions() == 1
    assert cut.rdd.getNumPartitions() >= 3
    assert mapped.rdd.getNumPartitions() >= 3
    assert rows_of(whole) == rows_of(cut) == rows_of(mapped)


@pytest.mark.parametrize("pushed", ["true", "false"])
def test_filters_with_and_without_the_push(spark, own_corpus, pushed, capsys):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", pushed)
    try:
        frame = source(spark, own_corpus / "kafka-4.3.1/logs/clean")
        columns = ("topic", "partition", "offset", "unix_micros(timestamp) as micros")
        every = frame.selectExpr(*columns).collect()
        middle = sorted(row.micros for row in every if row.micros)[len(every) // 2]
        for condition, holds in (
            ("topic = 'multi' and partition in (0, 2)", lambda row: row.topic == "multi" and row.partition in (0, 2)),
            ("topic like 'codec%' and offset between 7 and 11", lambda row: row.topic.startswith("codec") and 7 <= row.offset <= 11),
            ("`offset` > 3 and `offset` < 5", lambda row: row.offset == 4),
            (f"timestamp >= timestamp_micros({middle})", lambda row: (row.micros or 0) >= middle),
            (f"timestamp < timestamp_micros({middle}) and timestamp > timestamp_micros({middle - 5_000_000})",
             lambda row: row.micros is not None and middle - 5_000_000 < row.micros < middle),
            ("topic in ('multi', 'bulk') and `offset` in (3, 9)", lambda row: row.topic in ("multi", "bulk") and row.offset in (3, 9)),
            ("timestamp is null", lambda row: row.micros is None), ("not topic like 'c%'", lambda row: not row.topic.startswith("c")),
            ("topic = 'nothing'", lambda row: row.topic == "nothing"),
        ):  # fmt: skip
            got = frame.where(condition).selectExpr(*columns).collect()
            assert set(got) == {row for row in every if holds(row)}, condition
        frame.where("topic = 'multi' and `offset` > 3 and timestamp < timestamp_micros(9) and key = X'6b'").explain("formatted")
        plan = capsys.readouterr().out
        left = re.search(r"Condition : (.*)", plan)[1]  # what Spark applies itself
        assert ("key" in left, "offset" in left) == (True, pushed == "false")
        assert ("EqualTo(topic,multi), GreaterThan(offset,3), LessThan(timestamp," in plan) is (pushed == "true")
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_schema_of_the_user_prunes(spark, bulk):
    frame = spark.read.format("kafkalog").schema("`offset` bigint not null, topic string, codec string").load(str(bulk))
    row = frame.orderBy("offset").first()
    assert tuple(row.asDict()) == ("offset", "topic", "codec")
    assert (row.offset, row.topic) == (0, "bulk")
    named = source(spark, bulk, columns="offset", extraColumns="segment,position")
    assert named.columns == ["offset", "segment", "position"]


def test_offsets_and_times_as_options(spark, bulk):
    def offsets(**options):
        return sorted(row.offset for row in source(spark, bulk, **options).select("offset").collect())

    every = offsets()
    assert offsets(startingOffsets='{"bulk":{"0":10}}', endingOffsets='{"bulk":{"0":13}}') == [10, 11, 12]
    assert offsets(assign='{"bulk":[0]}', endingOffsets='{"bulk":{"0":2}}', startingOffsets='{"bulk":{"0":-2}}') == [0, 1]
    times = {row.offset: row.ms for row in source(spark, bulk).selectExpr("offset", "unix_millis(timestamp) ms").collect()}
    middle = every[len(every) // 2]
    first = min(offset for offset in every if times[offset] >= times[middle])
    assert offsets(startingTimestamp=str(times[middle])) == [one for one in every if one >= first]
    assert offsets(endingOffsetsByTimestamp=f'{{"bulk":{{"0":{times[middle]}}}}}') == [one for one in every if one < first]
    assert offsets(startingTimestamp="99999999999999", startingOffsetsByTimestampStrategy="latest") == []
    assert offsets(failOnDataLoss="false", startingOffsets='{"bulk":{"0":99999999}}') == []


def said(call):
    with pytest.raises(Exception) as caught:  # Spark's own classes differ by where it happened
        call()
    text = str(caught.value)
    assert "kafkalog: " in text
    return text


def test_bad_options_are_one_sentence(spark, bulk):
    assert "starting offset can't be latest" in said(lambda: source(spark, bulk, startingOffsets="latest").collect())
    assert "offsets [99, " in said(lambda: source(spark, bulk, startingOffsets='{"bulk":{"0":99999999}}').collect()).replace("99999999", "99")


def test_bad_paths_are_one_sentence(spark, tmp_path, bulk):
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    assert "nowhere" in said(lambda: source(spark, tmp_path / "nowhere"))
    assert "a file; name the partition directory" in said(lambda: source(spark, tmp_path / "file"))
    assert "not a partition, not a log dir" in said(lambda: source(spark, tmp_path / "empty"))
    assert "hadoop distcp hdfs://host/logs" in said(lambda: source(spark, "hdfs://host/logs"))
    assert "the schema has a column 'x'" in said(lambda: spark.read.format("kafkalog").schema("x int").load(str(bulk)).collect())


def test_damage_fails_or_is_skipped(spark, bulk, tmp_path):
    copy = tmp_path / "bulk-0"
    shutil.copytree(bulk, copy)
    log = copy / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    assert "crc-mismatch" in said(lambda: source(spark, copy).collect())
    every, left = (source(spark, one, onCorruption="skip").count() for one in (bulk, copy))
    assert 0 < left < every
    assert source(spark, copy, onCorruption="report").count() == left


def test_of_replicas_the_longest_is_read(spark, bulk, tmp_path):
    for broker, size in (("one", 1.0), ("two", 0.5)):
        (tmp_path / broker).mkdir()
        shutil.copytree(bulk, tmp_path / broker / "bulk-0")
        log = max((tmp_path / broker / "bulk-0").glob("*.log"))
        log.write_bytes(log.read_bytes()[: int(log.stat().st_size * size)])
        (tmp_path / broker / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    frame = source(spark, tmp_path, extraColumns="directory")
    assert frame.count() == source(spark, bulk).count()
    assert [row.directory for row in frame.select("directory").distinct().collect()] == [str(tmp_path / "one" / "bulk-0")]
