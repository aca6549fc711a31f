"""What a session over Connect makes of a log dir, as JSON: python -m tests.spark.elsewhere MASTER PATH OUT. A process of its own."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter

from pyspark.sql import DataFrame, SparkSession

import kafkalog_spark
from kafkalog_spark.jobs.export import export
from kafkalog_spark.jobs.stats import stats
from kafkalog_spark.jobs.upkeep import recover
from kafkalog_spark.jobs.verify import verify
from tests.spark.conftest import QUICK_TO_START

COLUMNS = ("topic", "partition", "offset", "key", "value")
SETTINGS = {
    "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.driver.memory": "1g",
    "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"], "spark.python.unix.domain.socket.enabled": "true",
    "spark.driver.extraJavaOptions": QUICK_TO_START, "spark.executor.extraJavaOptions": QUICK_TO_START,
}  # fmt: skip


def opened(master: str) -> SparkSession:
    """A session over Connect, with a server that this process starts on `master`."""
    builder = SparkSession.builder.appName("kafkalog").remote(master)
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main() -> None:
    """Read both ways, write, and run the jobs; recover what was written."""
    master, path, out = sys.argv[1:]
    spark = opened(master)
    mapped = rows(kafkalog_spark.read(spark, path, splitBytes="1m"))
    table = spark.read.format("kafkalog").option("splitBytes", "1m").load(path)
    kept = table.repartition(2, "topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    kept.write.format("kafkalog").mode("append").option("keepOffsets", "true").save(f"{out}/sink")
    export(spark, path, to=f"{out}/lake")
    print(json.dumps({
        "session": type(spark).__module__,
        "read": len(mapped),
        "alike": mapped == rows(table) == rows(spark.read.parquet(f"{out}/lake")),
        "written": mapped == rows(spark.read.format("kafkalog").load(f"{out}/sink")),
        "stats": {row.topic: row.records for row in stats(spark, path).collect()},
        "findings": Counter(row.code for row in verify(spark, path, splitBytes="1m").collect()),
        "recovered": [row.action for row in recover(spark, f"{out}/sink/*-?").collect()],
    }))
    spark.stop()


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    """What is in the table, in order."""
    return sorted((row.topic, row.partition, row.offset, row.key, row.value) for row in frame.select(*COLUMNS).collect())


if __name__ == "__main__":
    main()
