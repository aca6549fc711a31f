"""Segments into Parquet, partitioned by topic, with everything that a sink needs to write them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_spark.mapped import read_mapped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def export(spark: SparkSession, *paths: str, to: str, mode: str = "error", **options: object) -> None:
    """Write the records below `paths` as Parquet to the directory `to`, a folder for each topic.

    mode     error, append or overwrite, as Spark means them
    options  as for reading; `columns` other than these eight are those that are written
    Raises OptionError, LogDirError; AnalysisException where `to` is there and the mode is error.
    """
    rows = read_mapped(spark, paths, {"columns": ",".join(COLUMNS), **options})
    rows.write.mode(mode).partitionBy("topic").parquet(to)
