"""Runs the engine on splits, one Spark task for each; the results are rows. Also works over Spark Connect."""

from __future__ import annotations

import logging
import pickle
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from engine.remote.url_files import Listing
    from kafkalog_spark.table.levels import ReadCounts
    from kafkalog_spark.table.options import Bounds, ReadOptions
    from kafkalog_spark.table.partitions import OpenPaths, Piece, Replicas
    from kafkalog_spark.table.planning import Planned

    OnPlan = Callable[[Sequence[list[Piece]]], object]

_PLANNED = 250  # partitions that a task plans
_LOG = logging.getLogger("kafkalog")
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
    from kafkalog_spark.schema import ddl_of
    from kafkalog_spark.session import check_workers

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


def planned_splits(spark: SparkSession, options: ReadOptions, bounds: Bounds, on_plan: OnPlan | None) -> list[list[Piece]]:
    """Return the splits of a query, which `on_plan` receives too; tasks plan many partitions.

    Raises OptionError, LogDirError, DataLossError.
    """
    from kafkalog_spark.table.levels import plan_level

    splits = plan_level(options, bounds, partial(plan_in_tasks, spark))
    if on_plan is not None:
        on_plan(splits)
    return splits


def plan_in_tasks(
    spark: SparkSession, paths: OpenPaths, bounds: Bounds, replicas: Sequence[Replicas]
) -> Iterator[Planned | None]:
    """Yield the pieces of each partition, which tasks find by the ends of the logs. Also logs here what the tasks log.

    Raises OptionError, LogDirError, DataLossError.
    """
    import pyarrow as pa

    from kafkalog_spark.errors import collected_warnings
    from kafkalog_spark.table.partitions import paths_in_task
    from kafkalog_spark.table.planning import pieces_of

    schema = pa.schema([("number", pa.int64()), ("planned", pa.binary())])

    options = paths.options

    def task(work: list[tuple[int, Sequence[Replicas], dict[str, Listing]]]) -> Iterator[pa.RecordBatch]:
        for number, own, listings in work:
            there = paths_in_task(options)
            there.add_listings(listings)
            found: list[Planned | None] = []
            with collected_warnings() as warnings:
                try:
                    found += there.together(partial(pieces_of, there, bounds), own)
                    error = None
                except ValueError as raised:  # one of ours
                    error = raised
            yield pa.RecordBatch.from_pylist([{"number": number, "planned": packed((found, warnings, error))}], schema)

    parts = [replicas[at : at + _PLANNED] for at in range(0, len(replicas), _PLANNED)]
    chunks = [[(number, part, paths.listings(part))] for number, part in enumerate(parts)]
    for row in sorted(run(spark, chunks, schema, task).collect(), key=lambda row: row["number"]):
        found, warnings, error = unpacked(bytes(row["planned"]))
        for warning in warnings:
            _LOG.warning("%s", warning)
        if error is not None:
            raise error
        yield from found


def options_of(paths: Sequence[str], given: Mapping[str, object]) -> ReadOptions:
    """Check the options of a job that were passed as arguments. Raises OptionError."""
    import json

    from kafkalog_spark.table.options import read_options

    texts: dict[str, Any] = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()
    }
    return read_options({**texts, "paths": json.dumps([str(path) for path in paths])})


class Counters:
    """What the tasks of a query have read, added up by Spark's accumulators; None over Spark Connect, which has none.

    Spark may run a task again, and then adds up its counts again.
    """

    def __init__(self, spark: SparkSession) -> None:
        context = getattr(spark, "sparkContext", None)
        self._sums = None if context is None else (context.accumulator(0), context.accumulator(0))

    def add(self, counts: ReadCounts) -> None:
        """Add the counts of a task, in the task, and log them there."""
        from kafkalog_spark.table.levels import log_counts

        log_counts(counts)
        for total, count in zip(self._sums or (), (counts.bytes_read, counts.batches_skipped), strict=False):
            total.add(count)

    @property
    def counts(self) -> ReadCounts | None:
        """The sums, after an action of the data frame."""
        from kafkalog_spark.table.levels import ReadCounts

        return None if self._sums is None else ReadCounts(*(total.value for total in self._sums))


def read_mapped(
    spark: SparkSession, paths: tuple[str, ...], given: Mapping[str, object], on_plan: OnPlan | None = None,
    counters: Counters | None = None,
) -> DataFrame:  # fmt: skip
    """Plan, then read each split in a task. Raises OptionError, LogDirError, DataLossError.

    given    options, and `filters`: see `given_bounds`
    on_plan  receives the splits
    counters  receive what the tasks read
    """
    from kafkalog_spark.table.columns import level_schema
    from kafkalog_spark.table.levels import log_counts, read_level
    from kafkalog_spark.table.options import given_bounds

    filters: Any = given.get("filters") or ()
    options = options_of(paths, {name: value for name, value in given.items() if name != "filters"})
    schema, bounds = level_schema(options.level, options.columns), given_bounds(filters, options.level)
    splits = planned_splits(spark, options, bounds, on_plan)
    counted = log_counts if counters is None else counters.add
    return run(spark, splits, schema, lambda pieces: read_level(pieces, schema, options, bounds, counted))
