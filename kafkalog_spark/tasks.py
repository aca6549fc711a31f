"""Runs the engine on splits, one Spark task for each; the results are rows. Also works over Spark Connect."""

from __future__ import annotations

import pickle
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import InputPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, Row, SparkSession

    from kafkalog_spark.table.options import ReadOptions
    from kafkalog_spark.table.planning import Piece

    OnPlan = Callable[[Sequence[list[Piece]]], object]

T = TypeVar("T")  # an item of a split: plain values, since they are pickled


def each(spark: SparkSession, count: int) -> DataFrame:
    """Return a data frame of the numbers 0 … count − 1, one in each task."""
    return spark.range(0, count, 1, count)


def run(
    spark: SparkSession, splits: Sequence[list[T]], schema: pa.Schema, work: Callable[[list[T]], Iterator[pa.RecordBatch]]
) -> DataFrame:
    """Return the rows that `work` yields for the splits, lazily, with one task for each split.

    Spark sends the same function with all splits to every task; a task unpacks only its own split.
    """
    from kafkalog_spark.java import check_workers
    from kafkalog_spark.schema import ddl_of

    check_workers(spark)
    todo = [packed(split) for split in splits] or [packed([])]

    def mapped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(unpacked(todo[number]))

    return each(spark, len(todo)).mapInArrow(mapped, ddl_of(schema))


def packed(value: object) -> bytes:
    """Pickle and compress a value that the driver passes to a task; see `unpacked`. Similar paths compress well."""
    return zlib.compress(pickle.dumps(value), 1)


def unpacked(packed: bytes) -> Any:
    """Return the value that `packed` encoded, on the driver of the same job."""
    return pickle.loads(zlib.decompress(packed))  # noqa: S301  # the driver made it: no file or user can change it


def rows_of(frame: DataFrame) -> Iterator[Row]:
    """Yield the rows, task by task. All tasks run at once; their results are kept on the disks of the executors.

    Spark's own iterator runs only two tasks at a time, on any cluster; a list of all rows would have to fit in the driver
    (spark.driver.maxResultSize).
    """
    from pyspark.storagelevel import StorageLevel

    kept = frame.persist(StorageLevel.DISK_ONLY)
    try:
        kept.count()
        yield from kept.toLocalIterator()
    finally:
        kept.unpersist()


def options_of(paths: Sequence[str], given: Mapping[str, object]) -> ReadOptions:
    """Check the options of a job that were passed as arguments. Raises OptionError."""
    import json

    from kafkalog_spark.table.options import read_options

    texts: dict[str, Any] = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()
    }
    return read_options({**texts, "paths": json.dumps([str(path) for path in paths])})


def read_mapped(
    spark: SparkSession, paths: tuple[str, ...], given: Mapping[str, object], on_plan: OnPlan | None = None
) -> DataFrame:
    """Plan on the driver, then read each split in a task. Raises OptionError, LogDirError, DataLossError.

    on_plan  receives the splits
    """
    from kafkalog_spark.table.columns import level_schema
    from kafkalog_spark.table.levels import plan_level, read_level
    from kafkalog_spark.table.options import Bounds

    options = options_of(paths, given)
    schema = level_schema(options.level, options.columns)
    splits = plan_level(options, Bounds())
    if on_plan is not None:
        on_plan(splits)
    return run(spark, splits, schema, lambda pieces: read_level(pieces, schema, options))


@dataclass
class Split(InputPartition):
    """The work of one task: plain values, since it is pickled."""

    pieces: list[Piece]
