"""Kafka's log directories as Spark tables: the data source `kafkalog`, and `read`, which is faster; jobs over many of them.

See docs/spark. Everything here is imported when it is used, so `import kafkalog_spark` needs no pyspark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkalog_spark.jobs.export import export, import_
    from kafkalog_spark.jobs.stats import stats
    from kafkalog_spark.jobs.upkeep import compact, recover
    from kafkalog_spark.jobs.verify import verify
    from kafkalog_spark.lake import batches
    from kafkalog_spark.session import configure
    from kafkalog_spark.source import KafkaLogSource

_MODULES = {
    "KafkaLogSource": "source", "batches": "lake", "compact": "jobs.upkeep", "configure": "session", "export": "jobs.export",
    "import_": "jobs.export", "recover": "jobs.upkeep", "stats": "jobs.stats", "verify": "jobs.verify",
}  # fmt: skip
__all__ = [
    "KafkaLogSource", "batches", "compact", "configure", "export", "import_", "read", "recover", "stats", "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"kafkalog_spark has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"kafkalog_spark.{_MODULES[name]}"), name)


def read(spark: SparkSession, *paths: str, **options: object) -> DataFrame:
    """Return the same rows as `spark.read.format("kafkalog")`, through `mapInArrow`: faster, and works on pyspark 3.5.

    paths, options  as for the data source (docs/spark/reading.md)
    Raises OptionError, LogDirError.
    """
    from kafkalog_spark.tasks import read_mapped

    return read_mapped(spark, paths, options)
