"""`read`: the rows of the data source by `mapInArrow`, which costs less for each row and runs on pyspark 3.5 too."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession


def read_mapped(spark: SparkSession, paths: tuple[str, ...], given: Mapping[str, object]) -> DataFrame:
    """Plan on the driver, then one task for each split. Raises OptionError, LogDirError, DataLossError."""
    from kafkalog_spark.table.columns import level_schema
    from kafkalog_spark.table.filters import Bounds
    from kafkalog_spark.table.levels import plan_level, read_level
    from kafkalog_spark.tasks import options_of, run

    options = options_of(paths, given)
    schema = level_schema(options.level, options.columns)
    return run(spark, plan_level(options, Bounds()), schema, lambda pieces: read_level(pieces, schema, options))
