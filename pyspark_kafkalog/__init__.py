"""Registers `spark.read.format("kafkalog")`: Spark imports every module named pyspark_… and uses its DefaultSource.

An exception here would break the lookup of every format, so an import error only hides this one.
"""

from __future__ import annotations

from contextlib import suppress

with suppress(Exception):  # pyspark older than 4.0, or pyarrow missing: Spark then reports an unknown format
    from kafkalog_spark.source import KafkaLogSource as DefaultSource

__all__ = ["DefaultSource"]
