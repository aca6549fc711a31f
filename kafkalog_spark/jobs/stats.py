"""Records and bytes by topic, codec, producer, hour, header or key."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow.columns import TIMESTAMP
from kafkalog_spark.errors import OptionError
from kafkalog_spark.table.columns import level_schema
from kafkalog_spark.table.levels import read_level
from kafkalog_spark.table.options import Bounds
from kafkalog_spark.tasks import options_of, planned_splits, read_mapped, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import Column, DataFrame, SparkSession

    from kafkalog_spark.table.partitions import Piece
    from kafkalog_spark.tasks import OnPlan

_SUM_TYPES: dict[str, pa.DataType] = {
    "batches": pa.int64(), "records": pa.int64(), "bytes": pa.int64(), "firstOffset": pa.int64(), "lastOffset": pa.int64(),
    "lastTimestamp": TIMESTAMP,
}  # fmt: skip
_SUMS = {
    "batches": "count", "records": "sum", "bytes": "sum", "firstOffset": "min", "lastOffset": "max", "lastTimestamp": "max",
}  # fmt: skip
_HEADS = ("recordCount", "isControl", "sizeInBytes", "baseOffset", "lastOffset", "maxTimestamp")
BY = ("topic", "codec", "producer", "hour", "header", "key")


class _Job(NamedTuple):
    """The arguments of `stats` that every grouping needs."""

    spark: SparkSession
    paths: tuple[str, ...]
    options: dict[str, object]
    on_plan: OnPlan | None


def stats(
    spark: SparkSession, *paths: str, by: str = "topic", top: int = 20, on_plan: OnPlan | None = None, **options: object
) -> DataFrame:
    """Return records and bytes below `paths`, by descending bytes.

    by       topic, codec, producer: sizes of batches on disk, from their headers only. Compressed sets of formats 0 and 1 are
             decompressed to count their records; if that fails they count as 0 records. Transaction markers are not counted
             as records, records of aborted transactions are.
             hour, header, key: sizes of decoded keys and values.
             key: the `top` largest keys; shadowedBytes is the size of the records that a later record supersedes.
    on_plan  receives the splits before they are read
    options  as for reading
    Raises OptionError, LogDirError.
    """
    if by not in BY:
        raise OptionError(f"by is '{by}', expected one of {', '.join(BY)}")
    from pyspark.sql import functions as f

    frame = _BY[by](_Job(spark, paths, options, on_plan))
    order: list[Column] = [f.desc("bytes"), *(f.asc(name) for name in frame.columns if name in ("topic", "partition", by))]
    ordered = frame.orderBy(*order)
    return ordered.limit(top) if by == "key" else ordered


def _of_batches(job: _Job, *names: str) -> DataFrame:
    from pyspark.sql import functions as f

    columns = dict.fromkeys((*names, "partition", *_HEADS))
    asked = options_of(job.paths, {**job.options, "level": "batches", "columns": ",".join(columns)})
    schema = level_schema("batches", asked.columns)
    keys = tuple(dict.fromkeys((*names, "partition")))
    sums = pa.schema([schema.field(name) for name in keys] + [(name, _SUM_TYPES[name]) for name in _SUM_TYPES])

    def task(pieces: list[Piece]) -> Iterator[pa.RecordBatch]:
        for heads in read_level(pieces, schema, asked):
            yield from summed(heads, sums)

    splits = planned_splits(job.spark, asked, Bounds(), job.on_plan)
    return run(job.spark, splits, sums, task).groupBy(*names).agg(
        f.count_distinct("partition").alias("partitions"), f.sum("batches").alias("batches"),
        f.sum("records").alias("records"), f.sum("bytes").alias("bytes"), f.min("firstOffset").alias("firstOffset"),
        f.max("lastOffset").alias("lastOffset"), f.max("lastTimestamp").alias("lastTimestamp"),
    )  # fmt: skip


def summed(heads: pa.RecordBatch, sums: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Sum rows of level batches, grouped by the columns before `batches` in `sums`, so that Spark gets few rows."""
    keys = sums.names[: sums.get_field_index("batches")]
    records = heads.column("recordCount").fill_null(0)  # null: a compressed set of format 0 or 1 that cannot be decompressed
    records = pc.if_else(heads.column("isControl"), 0, records)
    columns = {name: heads.column(name) for name in keys} | {
        "batches": records, "records": records, "bytes": heads.column("sizeInBytes"), "firstOffset": heads.column("baseOffset"),
        "lastOffset": heads.column("lastOffset"), "lastTimestamp": heads.column("maxTimestamp"),
    }  # fmt: skip
    added = pa.table(columns).group_by(keys, use_threads=False).aggregate(list(_SUMS.items()))
    named = {name: added.column(f"{name}_{_SUMS[name]}" if name in _SUMS else name) for name in sums.names}
    yield from pa.table(named).cast(sums).combine_chunks().to_batches()


def _of_records(job: _Job, *columns: str) -> DataFrame:
    from pyspark.sql import functions as f

    options = {**job.options, "columns": ",".join((*columns, "keySize", "valueSize"))}
    rows = read_mapped(job.spark, job.paths, options, job.on_plan)
    size = f.coalesce(f.col("keySize"), f.lit(0)).cast("bigint") + f.coalesce(f.col("valueSize"), f.lit(0)).cast("bigint")
    return rows.withColumn("size", size)


def _by_hour(job: _Job) -> DataFrame:
    from pyspark.sql import functions as f

    rows = _of_records(job, "topic", "timestamp")
    return rows.groupBy("topic", f.date_trunc("hour", "timestamp").alias("hour")).agg(
        f.count("*").alias("records"), f.sum("size").alias("bytes")
    )


def _by_header(job: _Job) -> DataFrame:
    from pyspark.sql import functions as f

    def counted(key: Column, records: int, size: Column, header_size: Column) -> Column:
        return f.struct(
            key.alias("header"), f.lit(records).cast("bigint").alias("records"), size.cast("bigint").alias("bytes"),
            f.coalesce(header_size, f.lit(0)).cast("bigint").alias("headerBytes"),
        )  # fmt: skip

    zero = f.lit(0)
    keys = f.transform(f.array_distinct("headers.key"), lambda key: counted(key, 1, f.col("size"), zero))  # once a record
    values = f.transform("headers", lambda one: counted(one["key"], 0, zero, f.length(one["value"])))
    records = _of_records(job, "topic", "headers")
    sums = [f.sum(f"one.{name}").alias(name) for name in ("records", "bytes", "headerBytes")]
    rows = records.select("topic", f.explode(f.concat(keys, values)).alias("one"))
    return rows.groupBy("topic", f.col("one.header").alias("header")).agg(*sums)


def _by_key(job: _Job) -> DataFrame:
    from pyspark.sql import functions as f

    rows = _of_records(job, "topic", "partition", "offset", "key").where(f.col("key").isNotNull())
    return rows.groupBy("topic", "partition", "key").agg(
        f.count("*").alias("records"), f.sum("size").alias("bytes"),
        (f.sum("size") - f.max_by("size", "offset")).alias("shadowedBytes"), f.max("offset").alias("lastOffset"),
    )  # fmt: skip


_BY: dict[str, Callable[[_Job], DataFrame]] = {
    "topic": lambda job: _of_batches(job, "topic"),
    "codec": lambda job: _of_batches(job, "topic", "codec"),
    "producer": lambda job: _of_batches(job, "topic", "producerId", "producerEpoch"),
    "hour": _by_hour,
    "header": _by_header,
    "key": _by_key,
}
