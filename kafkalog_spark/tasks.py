"""One way to run the engine on splits: a row for each, a task for each row, rows of results. Works over Connect as well."""

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

T = TypeVar("T")  # what a task works on: plain values


def each(spark: SparkSession, count: int) -> DataFrame:
    """The numbers 0 … count − 1, one to a task."""
    return spark.range(0, count, 1, count)


def run(
    spark: SparkSession, splits: Sequence[list[T]], schema: pa.Schema, work: Callable[[list[T]], Iterator[pa.RecordBatch]]
) -> DataFrame:
    """What `work` gives for each split, lazily, a task for each.

    Spark sends what a task runs to all of them alike: each unpacks its own split only.
    """
    from kafkalog_spark.schema import ddl_of

    todo = [packed(split) for split in splits] or [packed([])]

    def mapped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(unpacked(todo[number]))

    return each(spark, len(todo)).mapInArrow(mapped, ddl_of(schema))


def packed(value: object) -> bytes:
    """What the driver passes to one task, for `unpacked`: paths that have much in common take little."""
    return zlib.compress(pickle.dumps(value), 1)


def unpacked(packed: bytes) -> Any:
    """What `packed` was given, by the driver of the same job."""
    return pickle.loads(zlib.decompress(packed))  # noqa: S301  # no file or user has a say in it


def rows_of(frame: DataFrame) -> Iterator[Row]:
    """The rows, one task's after the other's: all tasks work at once, and what they give waits on the executors' disks.

    An iterator of Spark's by itself runs two tasks at a time, on whatever cluster; a list of all rows has to fit the driver
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
    """The options of a job, given as arguments. Raises OptionError."""
    import json

    from kafkalog_spark.table.options import read_options

    said: dict[str, Any] = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()
    }
    return read_options({**said, "paths": json.dumps([str(path) for path in paths])})


def read_mapped(spark: SparkSession, paths: tuple[str, ...], given: Mapping[str, object]) -> DataFrame:
    """Plan on the driver, then one task for each split. Raises OptionError, LogDirError, DataLossError."""
    from kafkalog_spark.table.columns import level_schema
    from kafkalog_spark.table.levels import plan_level, read_level
    from kafkalog_spark.table.options import Bounds

    options = options_of(paths, given)
    schema = level_schema(options.level, options.columns)
    return run(spark, plan_level(options, Bounds()), schema, lambda pieces: read_level(pieces, schema, options))


@dataclass
class Split(InputPartition):
    """One task: plain values, since it is pickled."""

    pieces: list[Piece]
