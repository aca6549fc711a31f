"""Export records into tables partitioned by topic, and import such tables into partition directories."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from engine.discovery.names import METADATA_TOPIC, parent_of
from engine.discovery.paths import DirectoryKind, directory_kind
from engine.discovery.patterns import expand
from engine.errors import KafkalogError, UsageError
from engine.export.target import log_dir_around
from engine.files import ReadOnlyFiles
from engine.log.logdir.log_dirs import find_log_dirs
from kafkalog_spark.errors import LogDirError, OptionError
from kafkalog_spark.table.columns import EXPORTED
from kafkalog_spark.table.options import local_path
from kafkalog_spark.tasks import read_mapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kafkalog_spark.tasks import OnPlan

FORMATS = ("parquet", "delta", "iceberg")  # the last two need a session with their packages
_BACK = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
_COMPRESSION = "compression.type"
_NO_TABLE = "UNABLE_TO_INFER_SCHEMA"  # Spark's error for a directory without a file of the format


def export(
    spark: SparkSession, *paths: str, to: str, mode: str = "error", table: str = "parquet", on_plan: OnPlan | None = None,
    **options: object,
) -> None:  # fmt: skip
    """Write the records below `paths` as a table to `to`, with a folder for each topic.

    mode     Spark's save mode: error, append or overwrite
    table    one of FORMATS; `to` is a directory, or for Iceberg a name in a catalog
    on_plan  receives the splits before they are read
    options  as for reading; `columns` defaults to EXPORTED
    Raises OptionError, also if `to` contains logs; LogDirError; AnalysisException if `to` exists and the mode is error.
    """
    _check(table)
    if table != "iceberg" or "/" in to:
        check_target(to, mode, paths)
    rows = read_mapped(spark, paths, {"columns": ",".join(EXPORTED), **options}, on_plan)
    rows.write.mode(mode).format(table).partitionBy("topic").save(to)


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
    from engine.errors import KafkalogError
    from engine.files import ReadOnlyFiles
    from kafkalog_spark.errors import LogDirError
    from kafkalog_spark.table.options import local_path

    files, path = ReadOnlyFiles(), local_path(to)
    try:
        if files.exists(path) and any(not name.startswith(".") for name in files.list(path)):
            raise LogDirError(f"{to}: already exists; set the mode to append or overwrite")
    except KafkalogError as error:
        raise LogDirError(str(error)) from None


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
    files = ReadOnlyFiles()
    try:
        path = files.absolute(path.rstrip("/") or "/")
        if files.exists(path):
            path = files.resolve(path)
            _check_existing(files, to, path, mode)
            if mode == "overwrite":
                _check_sources(files, to, path, sources)
        around = log_dir_around(files, parent_of(path))
        if around is not None:
            raise OptionError(f"{to}: is in {around}, a log dir of a broker: name another directory")
    except KafkalogError as error:
        raise LogDirError(str(error)) from None


def _check_existing(files: ReadOnlyFiles, to: str, path: str, mode: str) -> None:
    """Raise OptionError if `path`, which exists, has logs that would be deleted or hidden in the table."""
    if not files.info(path).is_directory:
        raise OptionError(f"{to}: a file; name the directory for the table")
    try:
        found = find_log_dirs(files, [path])
    except UsageError:  # there is none
        return
    for log_dir in found:
        logs = log_dir.path if log_dir.is_whole else next(one.path for one in log_dir.directories)
        if not (log_dir.is_whole or _is_partition(files, logs)):
            continue  # only the name looks like a partition
        if mode == "overwrite":
            raise OptionError(f"{to}: it contains logs ({logs}), which overwriting would delete: name another directory")
        if mode == "append" and logs == path:
            raise OptionError(f"{to}: it contains logs: name another directory")


def _check_sources(files: ReadOnlyFiles, to: str, path: str, sources: Iterable[str]) -> None:
    """Raise OptionError if one of the sources lies in `path`, at any depth."""
    for source in (one for pattern in sources for one in expand(files, pattern)):
        if f"{files.resolve(source)}/".startswith(f"{path.rstrip('/')}/"):
            raise OptionError(f"{to}: {source} is in it, and overwriting would delete it: name another directory")


def _is_partition(files: ReadOnlyFiles, path: str) -> bool:
    return files.info(path).is_directory and directory_kind(files.list(path)) is DirectoryKind.PARTITION
