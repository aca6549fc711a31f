"""The sink as Spark drives it: rows come back, failed tasks and batches that come again leave no second copy."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("pyarrow")

from engine.files import Files
from kafkalog_spark import sink_jobs as jobs
from tests.support.sink_runs import read

FILES = Files()
COLUMNS = ("key", "value", "topic", "partition", "timestamp", "headers")


def write(frame, root, mode="append", **options):
    writer = frame.write.format("kafkalog").mode(mode)
    for name, value in options.items():
        writer = writer.option(name.replace("__", "."), value)
    writer.save(str(root))


def source(spark, root, **options):
    return spark.read.format("kafkalog").option("includeHeaders", "true").options(**options).load(str(root))


def comparable(frame, *columns):
    return sorted(frame.select(*columns).collect(), key=repr)


def staged(root):
    return FILES.exists(f"{root}/{jobs.STAGING}")


@pytest.fixture(scope="module")
def rows(spark):
    headers = "array(named_struct('key', 'h', 'value', cast(id as string)), named_struct('key', 'h', 'value', null))"
    return spark.range(0, 500, 1, 3).selectExpr(
        "if(id % 7 = 0, null, cast(cast(id as string) as binary)) key", "if(id % 11 = 0, null, repeat('v', int(id % 90))) text",
        "if(id % 2 = 0, 'even', 'odd') topic", "int(id % 3) partition", "timestamp_millis(1700000000000 + id) timestamp",
        f"if(id % 5 = 0, null, transform({headers}, h -> named_struct('key', h.key, 'value', cast(h.value as binary)))) headers",
    ).selectExpr("key", "cast(text as binary) value", "topic", "partition", "timestamp", "headers")  # fmt: skip


def test_rows_come_back_and_go_to_another_directory_with_their_offsets(spark, rows, tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    write(rows, one, keepTimestamps="true", kafka__compression__type="lz4")
    assert comparable(source(spark, one), *COLUMNS) == comparable(rows, *COLUMNS)
    ordered = source(spark, one).repartition(2, "topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    write(ordered, other, "overwrite", keepTimestamps="true", keepOffsets="true")
    assert read(FILES, str(other), "offset", "timestamp", "key", "value") == read(FILES, str(one), "offset", "timestamp", "key", "value")
    write(rows.where("topic = 'odd'").limit(3), one, "overwrite")
    assert {row.topic: row["count"] for row in source(spark, one).groupBy("topic").count().collect()} == {"even": 250, "odd": 3}
    assert not staged(one)


def test_a_task_that_fails_once_leaves_no_second_copy(spark, rows, tmp_path):
    root, flag = tmp_path / "logs", tmp_path / "failed"

    def failing(batches):
        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().partitionId() == 1 and not flag.exists():
            flag.touch()
            raise RuntimeError("once")

    write(rows.mapInArrow(failing, rows.schema), root, keepTimestamps="true")
    assert flag.exists()
    assert comparable(source(spark, root), *COLUMNS) == comparable(rows, *COLUMNS)
    assert not staged(root)


def said(call):
    with pytest.raises(Exception) as caught:
        call()
    text = str(caught.value)
    assert "kafkalog: " in text
    return text


def test_what_fails_leaves_everything_as_it_was(spark, tmp_path):
    root = tmp_path / "logs"
    kept = spark.createDataFrame([(b"a", 5)], "value binary, offset long").selectExpr("*", "'t' topic", "0 partition")
    write(kept, root, keepOffsets="true")
    before = read(FILES, str(root))
    assert before == {"t-0": [(5, b"a")]}
    assert "ends before offset 6" in said(lambda: write(kept, root, keepOffsets="true"))  # at the commit
    assert "Topic name is invalid" in said(lambda: write(kept.selectExpr("value", "'a b' topic", "0 partition"), root))  # in a task
    assert "value attribute unsupported type int. value must be a(n) string or binary" in said(
        lambda: write(kept.selectExpr("1 value", "'t' topic", "0 partition"), root)
    )
    assert "unknown option 'topik'" in said(lambda: write(kept, root, topik="t"))
    assert "a file; name the directory" in said(lambda: write(kept, root / "t-0" / "partition.metadata"))
    assert read(FILES, str(root)) == before
    assert not staged(root)


def test_a_batch_of_a_stream_that_comes_again_is_skipped(spark, tmp_path):
    given, root, checkpoint = tmp_path / "given", tmp_path / "logs", tmp_path / "checkpoint"

    def add(name):
        spark.createDataFrame([(name,)], "value string").coalesce(1).write.mode("append").parquet(str(given))

    def run():
        frame = spark.readStream.schema("value string").parquet(str(given)).selectExpr("value", "'t' topic", "0 partition")
        query = frame.writeStream.format("kafkalog").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        query.start(str(root)).awaitTermination()

    add("a")
    run()
    shutil.rmtree(checkpoint / "commits")  # as if the driver had died behind the sink's commit
    run()
    add("b")
    run()
    assert [value for _, value in read(FILES, str(root))["t-0"]] == [b"a", b"b"]
    assert not staged(root)
