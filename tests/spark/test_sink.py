"""The sink as Spark drives it: rows come back, failed tasks and batches that come again leave no second copy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.files import Files
from engine.log.commits import staging as jobs
from tests.support.run import kafkalog
from tests.support.sink_runs import read

ROOT_OF_TREE = Path(__file__).parents[2]
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


def siblings():
    """Other processes of the one that has started this one: Spark's other Python workers."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_bytes().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if parent == os.getppid() and int(path.parent.name) != os.getpid():
            yield int(path.parent.name)


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")


@needs_proc
def test_a_worker_that_is_killed_in_the_middle(spark, rows, tmp_path):
    root, flag = tmp_path / "logs", tmp_path / "killed"

    def killing(batches):
        from pyspark import TaskContext

        for batch in batches:
            yield batch
            if TaskContext.get().partitionId() == 1 and not flag.exists():
                others = list(siblings())
                flag.write_text(str(len(others)))
                for other in others:
                    os.kill(other, signal.SIGKILL)

    with_batches = rows.mapInArrow(killing, rows.schema)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "20")
    try:
        write(with_batches, root, keepTimestamps="true")
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert int(flag.read_text()) > 0
    assert comparable(source(spark, root), *COLUMNS) == comparable(rows, *COLUMNS)
    assert not staged(root)


DRIVER = """
import sys, time
from pyspark.sql import SparkSession
from tests.spark.conftest import QUICK_TO_START

def slowly(batches):
    for batch in batches:
        yield batch
        time.sleep(60)

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.extraJavaOptions", QUICK_TO_START)
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate()
frame = spark.range(0, 1000, 1, 2).selectExpr("cast(id as string) value", "'t' topic", "0 partition")
frame.mapInArrow(slowly, frame.schema).write.format("kafkalog").mode("append").save(sys.argv[1])
"""


@needs_proc
def test_a_driver_that_is_killed_leaves_what_undoing_removes(spark, tmp_path):
    root = tmp_path / "logs"
    write(spark.createDataFrame([("a",)], "value string").selectExpr("value", "'t' topic", "0 partition"), root)
    with subprocess.Popen([sys.executable, "-c", DRIVER, str(root)], start_new_session=True, cwd=ROOT_OF_TREE,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:  # fmt: skip
        until = time.monotonic() + 120
        while not list(root.glob(f"{jobs.STAGING}/*/[0-9]*-*")):
            assert driver.poll() is None
            assert time.monotonic() < until
            time.sleep(0.2)
        os.killpg(driver.pid, signal.SIGKILL)
    assert read(FILES, str(root)) == {"t-0": [(0, b"a")]}
    assert staged(root)
    assert kafkalog("restore", str(root)).status == 1
    write(spark.createDataFrame([("b",)], "value string").selectExpr("value", "'t' topic", "0 partition"), root)
    assert read(FILES, str(root)) == {"t-0": [(0, b"a"), (1, b"b")]}
    while staged(root):  # a task of the killed driver may stage something again, until it sees that the driver is gone
        assert kafkalog("restore", str(root)).status == 1
    assert read(FILES, str(root)) == {"t-0": [(0, b"a"), (1, b"b")]}


@pytest.mark.usefixtures("sources")
def test_tasks_that_outlive_their_job_leave_nothing_either(tmp_path, monkeypatch):
    """Spark aborts a job at its first failed task; others are ended a moment later, and may stage something until then."""
    from pyspark.sql.types import StructType

    from kafkalog_spark.sink import writers

    schema = StructType().add("value", "string").add("topic", "string").add("partition", "integer")
    sink = writers.KafkaLogWriter({"path": str(tmp_path / "logs")}, schema, overwrite=False)
    late = []

    def begin_late(_seconds):
        late.append(1)
        if len(late) == 2:
            jobs.begin(FILES, sink.job)
            (Path(sink.job.directory) / "3-47").mkdir()

    # of this module only: other threads of the process sleep as well
    monkeypatch.setattr(writers, "time", SimpleNamespace(sleep=begin_late, monotonic=time.monotonic))
    monkeypatch.setattr(writers, "_KILL_WAIT", 0.5)
    sink.abort([writers.Written([]), None])
    assert len(late) > 2
    assert not staged(tmp_path / "logs")
    late.clear()
    sink.abort([writers.Written([])])
    assert late == []


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
    assert "a partition directory; name the directory" in said(lambda: write(kept, root / "t-0"))
    assert read(FILES, str(root)) == before
    assert sorted(path.name for path in (root / "t-0").iterdir() if path.is_dir()) == []
    assert not staged(root)
