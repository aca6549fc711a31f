"""Makes `spark.read.format("kafkalog")` known: Spark imports every module named pyspark_… and takes its DefaultSource.

An exception here would break the lookup of every format, so whatever is missing only hides this one.
"""

from __future__ import annotations

from contextlib import suppress

with suppress(Exception):  # pyspark older than 4.0, pyarrow missing: Spark then says that it knows no such format
    from kafkalog_spark.source import KafkaLogSource as DefaultSource

__all__ = ["DefaultSource"]
