"""What a session makes of logs in a bucket, as JSON: python -m tests.spark.from_store URL PATH STORE LOG_DIR…. A process of its own."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import kafkalog_spark
from kafkalog_cli.spark_session import session
from kafkalog_spark.jobs.export import export
from kafkalog_spark.jobs.stats import stats
from kafkalog_spark.jobs.verify import verify
from tests.spark.conftest import QUICK_TO_START

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

SETTINGS = (("spark.driver.extraJavaOptions", QUICK_TO_START), ("spark.sql.shuffle.partitions", "2"), ("spark.log.level", "OFF"))


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    """What is in the table, in order."""
    return sorted(map(tuple, frame.selectExpr("topic", "partition", "offset", "unix_micros(timestamp)", "key", "value").collect()))


def by_format(spark: SparkSession, *paths: str, **options: str) -> DataFrame:
    """The table through the data source."""
    return spark.read.format("kafkalog").options(**options).load(list(paths))


def sentence(work: Callable[[], object]) -> str:
    """Our error, from the pages of Spark."""
    try:
        work()
    except Exception as error:  # noqa: BLE001  # Spark's classes differ by where it happened
        return next((line.partition("kafkalog: ")[2] for line in str(error).splitlines() if "kafkalog: " in line), str(error))
    return ""


def main() -> None:
    """Read a bucket both ways with both isolations, run the jobs that read, and read tiered topics."""
    url, path, store, out, *log_dirs = sys.argv[1:]
    s3a = url.replace("s3://", "s3a://")
    with session("local[2]", SETTINGS) as spark:
        local, answer = {}, {}
        for isolation in ("read_uncommitted", "read_committed"):
            options = {"kafka.isolation.level": isolation}
            local[isolation] = rows(kafkalog_spark.read(spark, f"{path}/*", **options))
            answer[f"read {isolation}"] = rows(kafkalog_spark.read(spark, f"{url}/*", **options)) == local[isolation]
            answer[f"format {isolation}"] = rows(by_format(spark, f"{s3a}/*", splitBytes="64k", **options)) == local[isolation]
        answer["rows"] = {name: len(found) for name, found in local.items()}
        export(spark, f"{s3a}/*", to=out)
        answer["export"] = rows(spark.read.parquet(out)) == local["read_uncommitted"]
        answer["stats"] = stats(spark, url).collect() == stats(spark, path).collect()
        answer["verify"] = sorted(row.code for row in verify(spark, url).collect()) == sorted(row.code for row in verify(spark, path).collect())
        whole = rows(by_format(spark, *log_dirs, store=store))
        answer["tiered"] = whole == rows(kafkalog_spark.read(spark, *log_dirs, store=store))
        answer["remote"] = len(whole) - len(rows(by_format(spark, *log_dirs)))
        answer["errors"] = [
            sentence(lambda: by_format(spark, f"{url}/nowhere").collect()),
            sentence(lambda: by_format(spark, "s3://no-such-bucket/x").collect()),
            sentence(lambda: by_format(spark, "hdfs://name/x").collect()),
            sentence(lambda: by_format(spark, *log_dirs, store="s3://no-such-bucket").collect()),
            sentence(lambda: by_format(spark, path).write.format("kafkalog").mode("append").save(f"{s3a}/sink")),
        ]
        os.environ["AWS_SECRET_ACCESS_KEY"] = "wrong"
        answer["errors"].append(sentence(lambda: kafkalog_spark.read(spark, f"{url}/*")))
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
