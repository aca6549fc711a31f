"""Export records into tables partitioned by topic, and import such tables into partition directories."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from engine.discovery.names import METADATA_TOPIC, file_name, parse_partition_dir
from engine.dump.topic_decoders import TopicDecoders
from engine.errors import UsageError
from engine.export.rows import DECODED
from engine.export.tables import with_decoded
from engine.export.target import refuse_table_over_logs
from engine.files import ReadOnlyFiles
from engine.formats import LONG_MAX
from engine.schema.registry import schema_of_file
from kafkalog_spark.errors import LogDirError, OptionError, as_log_dir_errors
from kafkalog_spark.jobs.checkpoint import ExportCheckpoint, opened_checkpoint
from kafkalog_spark.table.columns import EXPORTED, level_schema
from kafkalog_spark.table.levels import log_counts, read_level
from kafkalog_spark.table.options import Bounds
from kafkalog_spark.table.partitions import files_for, paths_in_task
from kafkalog_spark.table.places import local_path
from kafkalog_spark.tasks import options_of, planned_splits, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kafkalog_spark.table.levels import ReadCounts
    from kafkalog_spark.table.options import ReadOptions
    from kafkalog_spark.table.partitions import Piece
    from kafkalog_spark.tasks import Counters, OnPlan

FORMATS = ("parquet", "orc", "delta", "iceberg")  # the last two need a session with their packages
PARTITIONS = ("topic", "date", "hour")
_FILES = ("parquet", "orc")  # formats whose table is a directory of files
_BACK = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
_COMPRESSION = "compression.type"
_NO_TABLE = "UNABLE_TO_INFER_SCHEMA"  # Spark's error for a directory without a file of the format
_LOG = logging.getLogger("kafkalog")
_DAY, _HOUR = 86_400_000_000, 3_600_000_000  # µs


@dataclass(frozen=True)
class Export:
    """The options of an export that are not options of reading.

    mode          Spark's save mode: error, append or overwrite
    table         one of FORMATS
    partition_by  folders of the table: topic, date, or hour (of the timestamp, in UTC); several, separated by commas
    times         (first, end): only timestamps from `first` to before `end`, ms since 1970
    offsets       (first, end): only offsets from `first` to before `end`
    decode        "auto": add the columns decodedKey and decodedValue, as `kafkalog export --decode` does
    schema        path of a schema, as of `kafkalog export --schema`; implies decode
    target_file_size  about the largest size of a file, bytes of the logs
    checkpoint    directory for the offsets that were exported: each run exports the records after them
    """

    mode: str = "error"
    table: str = "parquet"
    partition_by: str = "topic"
    times: tuple[int, int] | None = None
    offsets: tuple[int, int] | None = None
    decode: str | None = None
    schema: str | None = None
    target_file_size: int | None = None
    checkpoint: str | None = None

    def __post_init__(self) -> None:
        """Raise OptionError for invalid values and combinations."""
        _check(self.table)
        for name in self.folders:
            if name not in PARTITIONS:
                raise OptionError(f"partition_by names '{name}', expected {', '.join(PARTITIONS)}")
        if self.decode not in (None, "auto"):
            raise OptionError(f"decode is '{self.decode}', expected auto: the schema registry or the schema says the format")
        if self.schema is not None:
            with as_log_dir_errors():
                schema_of_file(files_for([self.schema]), self.schema)
        if self.checkpoint is not None:
            if self.table not in _FILES:
                raise OptionError(f"a checkpoint is for the formats {' and '.join(_FILES)}, and not for {self.table}")
            if self.mode == "overwrite" or self.times is not None or self.offsets is not None:
                raise OptionError("a checkpoint excludes the mode overwrite, times and offsets: it chooses the offsets")

    @property
    def folders(self) -> list[str]:
        """The columns of the folders; an hour is a folder in that of its date."""
        names = [name.strip() for name in self.partition_by.split(",") if name.strip()]
        return list(dict.fromkeys(one for name in names for one in (("date", "hour") if name == "hour" else (name,))))

    @property
    def bounds(self) -> Bounds:
        """Bounds of the rows."""
        first, end = self.offsets or (0, LONG_MAX)
        from_ms, to_ms = self.times or (None, None)
        return Bounds(first_offset=max(0, first), end_offset=end, from_ms=from_ms, to_ms=to_ms)

    @property
    def decodes(self) -> bool:
        """Are keys and values decoded?"""
        return self.decode is not None or self.schema is not None


def export(
    spark: SparkSession, *paths: str, to: str, on_plan: OnPlan | None = None, counters: Counters | None = None, **options: Any
) -> None:
    """Write the records below `paths` as a table to `to`.

    to       a directory, or for Delta and Iceberg also the name of a table in a catalog
    on_plan  receives the splits before they are read
    counters receive what the tasks read
    options  those of Export, and those of reading; `columns` defaults to EXPORTED, and may have decodedKey and decodedValue
    Raises OptionError, also if `to` contains logs; LogDirError; AnalysisException if `to` exists and the mode is error.
    """
    own = {one.name: options.pop(one.name) for one in fields(Export) if one.name in options}
    how = Export(**own)
    is_path = how.table != "iceberg" or "/" in to
    if is_path:
        check_target(to, "append" if how.checkpoint else how.mode, paths)
    columns = options.pop("columns", None) or ",".join((*EXPORTED, *(DECODED if how.decodes else ())))
    names = [one.strip() for one in str(columns).split(",")]
    asked = _reading(paths, names, how, options)
    splits = planned_splits(spark, asked, how.bounds, on_plan)
    table = partial(_table, spark, names, asked, how, log_counts if counters is None else counters.add)
    if how.checkpoint is None:
        _write(table(splits), to, how, how.mode, splits)
        return
    with opened_checkpoint(how.checkpoint, to, None if "://" in to else local_path(to)) as checkpoint:
        if checkpoint.is_complete():
            checkpoint.commit()
        mode = "overwrite" if checkpoint.is_stopped else "error"
        if wanted := checkpoint.begin(splits, fails_on_loss=asked.fail_on_data_loss):
            _write_run(table(wanted), checkpoint, how, mode, wanted)
        if checkpoint.is_stopped:
            checkpoint.commit()


def _write_run(rows: DataFrame, checkpoint: ExportCheckpoint, how: Export, mode: str, splits: list[list[Piece]]) -> None:
    """Write a run into its directory: only the directory of a stopped run is replaced."""
    from pyspark.errors import AnalysisException

    try:
        _write(rows, checkpoint.run_directory, how, mode, splits)
    except AnalysisException:  # nothing was written; the directory may exist, of a run that the checkpoint does not know
        if mode == "error":
            checkpoint.forget()
        raise


def _reading(paths: tuple[str, ...], names: list[str], how: Export, options: dict[str, Any]) -> ReadOptions:
    """Return the options of reading, with every column that the rows need."""
    if extra := [name for name in names if name in DECODED and not how.decodes]:
        raise OptionError(f"the column {extra[0]} needs decode or schema")
    needed = [*(["key", "value", "offset"] if how.decodes else []),
              *(["timestamp"] if {"date", "hour"} & {*how.folders} else []),
              *(["topic"] if "topic" in how.folders else [])]  # fmt: skip
    columns = ",".join(dict.fromkeys([*(name for name in names if name not in DECODED), *needed]))
    if how.target_file_size is not None:
        options = {"splitBytes": how.target_file_size, **options}
    asked = options_of(paths, {**options, "columns": columns})
    # what cannot be read now must not count as exported: a later run would not read it
    return replace(asked, must_read=how.checkpoint is not None)


def _table(
    spark: SparkSession, names: list[str], asked: ReadOptions, how: Export, counted: Callable[[ReadCounts], None],
    splits: list[list[Piece]],
) -> DataFrame:  # fmt: skip
    """Return the rows of the table: records in the range, with the columns of the folders."""
    from pyspark.sql import functions as f

    schema = level_schema(asked.level, asked.columns)
    read = partial(read_level, schema=schema, options=asked, bounds=how.bounds, counted=counted)
    if how.decodes:
        schema = pa.schema([*schema, *(pa.field(name, pa.string()) for name in DECODED)])
        read = partial(_decoded, schema, asked, how.schema, read)
    rows = run(spark, splits, schema, read)
    columns = [f.col(name) for name in dict.fromkeys([*names, *(["topic"] if "topic" in how.folders else [])])]
    if "date" in how.folders:  # in UTC, whatever the session's zone is
        days = f.floor(f.unix_micros("timestamp") / f.lit(_DAY))
        columns.append(f.date_from_unix_date(days.cast("int")).alias("date"))
    if "hour" in how.folders:
        columns.append(f.floor(f.pmod(f.unix_micros("timestamp"), f.lit(_DAY)) / f.lit(_HOUR)).cast("int").alias("hour"))
    return rows.select(*columns)


def _decoded(
    schema: pa.Schema, asked: ReadOptions, path: str | None, read: Callable[[list[Piece]], Iterator[pa.RecordBatch]],
    pieces: list[Piece],
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Read the records of a split and decode them; what cannot be decoded is null, and counted in the executor's log.

    path  of the schema of the option `schema`
    """
    files, problems = paths_in_task(asked).files, Counter[str]()
    with as_log_dir_errors():
        given = None if path is None else schema_of_file(files_for([path]), path)
        decoders = TopicDecoders(files, (*asked.paths, *asked.log_dirs), given)
        for piece in pieces:
            decoder = decoders.of(f"{piece.directory}/log", parse_partition_dir(file_name(piece.directory)))
            for batch in read([piece]):
                yield with_decoded(batch, schema, decoder, lambda _offset, problem: problems.update([problem]))
    for problem, count in problems.items():
        _LOG.warning("not decoded: %d records: %s", count, problem)


def _write(rows: DataFrame, to: str, how: Export, mode: str, splits: list[list[Piece]]) -> None:
    writer = rows.write.mode(mode).format(how.table)
    if how.target_file_size is not None:
        pieces = [piece for split in splits for piece in split]
        size, records = sum(piece.size for piece in pieces), sum(piece.end - piece.start for piece in pieces)
        writer = writer.option("maxRecordsPerFile", max(1, how.target_file_size * records // max(1, size)))
    if how.folders:
        writer = writer.partitionBy(*how.folders)
    if how.table == "delta" and "/" not in to:
        writer.saveAsTable(to)
    else:
        writer.save(to)


def import_(
    spark: SparkSession, *tables: str, to: str, mode: str = "error", table: str = "parquet",
    config: Mapping[str, str] | None = None, topics: tuple[str, ...] = (),
) -> list[str]:  # fmt: skip
    """Write tables of `export` into partition directories below `to`, with the original offsets and timestamps.

    Returns the skipped topics: the metadata log, which only controllers write, unless it is in `topics`.

    mode    error (if `to` has content), append, or overwrite (replaces the topics of the tables)
    config  settings of the topics; compression.type also sets the codec of the batches
    topics  write only these; empty: all
    Raises OptionError, LogDirError.
    """
    _check(table)
    if find_spec("pyspark.sql.datasource") is None:
        raise OptionError("partition directories are written by a data source in Python, which needs pyspark 4.0 or later")
    rows = _rows(spark, tables, table)
    missing = {"value", "topic", "partition"} - set(rows.columns)
    if missing:
        raise OptionError(f"{', '.join(tables)}: without the column {', '.join(sorted(missing))} it is not an export of "
                          "records")
    if mode == "error":
        _refuse_existing_content(to)
    selected = rows.select(*(name for name in _BACK if name in rows.columns))
    metadata = [] if topics else [METADATA_TOPIC]
    named = selected.where(selected["topic"].isin([*topics, *metadata]))
    there = {row["topic"] for row in named.select("topic").distinct().collect()}
    if topics:
        selected = selected.where(selected["topic"].isin(list(topics)))
        if missing_topics := sorted(set(topics) - there):
            raise OptionError(f"{', '.join(tables)}: no topic {', '.join(missing_topics)} in it")
    elif there:
        selected = selected.where(~selected["topic"].isin(metadata))
    order = [name for name in ("topic", "partition", "offset") if name in selected.columns]
    whole = selected.repartition("topic", "partition").sortWithinPartitions(*order)
    options = {f"topic.{name}": value for name, value in (config or {}).items()}
    if (config or {}).get(_COMPRESSION, "producer") not in ("producer", "uncompressed"):
        options["kafka.compression.type"] = (config or {})[_COMPRESSION]
    options |= {"keepOffsets": str("offset" in order), "keepTimestamps": str("timestamp" in selected.columns)}
    whole.write.format("kafkalog").mode("overwrite" if mode == "overwrite" else "append").options(**options).save(to)
    return [] if topics else sorted(there)


def _check(table: str) -> None:
    if table not in FORMATS:
        raise OptionError(f"table is '{table}', expected one of {', '.join(FORMATS)}")


def _rows(spark: SparkSession, tables: tuple[str, ...], table: str) -> DataFrame:
    """Read the tables. Topic names are read as text, even if Parquet folders look like numbers or dates.

    Raises OptionError.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import StringType, StructField, StructType

    frames = []
    for one in tables:
        try:
            rows = spark.read.format(table).load(one)
        except AnalysisException as error:
            if _NO_TABLE not in str(error):
                raise
            raise OptionError(f"{one}: it contains no {table} table written by `export`") from None
        if table == "parquet":
            fields = [StructField("topic", StringType()) if field.name == "topic" else field for field in rows.schema.fields]
            rows = spark.read.schema(StructType(fields)).parquet(one)
        frames.append(rows)
    whole = frames[0]
    for rows in frames[1:]:
        whole = whole.unionByName(rows)
    return whole


def _refuse_existing_content(to: str) -> None:
    files, path = ReadOnlyFiles(), local_path(to)
    with as_log_dir_errors():
        if files.exists(path) and any(not name.startswith(".") for name in files.list(path)):
            raise LogDirError(f"{to}: already exists; set the mode to append or overwrite")


def check_target(to: str, mode: str, sources: Iterable[str]) -> None:
    """Raise OptionError if writing a table to `to` would damage logs. Only paths of mounted file systems are checked.

    mode     Spark's save mode: error, append or overwrite; overwrite deletes everything in `to`
    sources  the paths to read, including patterns
    Raises LogDirError for a directory that cannot be read.
    """
    try:
        path = local_path(to)
    except OptionError:
        return
    with as_log_dir_errors():
        try:
            refuse_table_over_logs(ReadOnlyFiles(), path, sources, appends=mode == "append", overwrites=mode == "overwrite")
        except UsageError as error:
            raise OptionError(str(error)) from None
