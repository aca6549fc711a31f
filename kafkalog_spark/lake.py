"""Records into a Delta table without Spark and Java: the engine's Arrow batches into `deltalake` (extra `delta`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalog_spark.errors import OptionError
from kafkalog_spark.table.columns import level_schema
from kafkalog_spark.table.filters import Bounds
from kafkalog_spark.table.levels import plan_level, read_level
from kafkalog_spark.tasks import options_of

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
MODES = ("error", "append", "overwrite")


def batches(*paths: str, **options: object) -> pa.RecordBatchReader:
    """The records below `paths` as one stream of Arrow batches, read as they are asked for.

    options  as for reading; other `columns` than these eight are those that come
    Raises OptionError, LogDirError, DataLossError; iterating raises LogDirError.
    """
    asked = options_of(paths, {"columns": ",".join(COLUMNS), **options})
    schema = level_schema(asked.level, asked.columns)
    splits = plan_level(asked, Bounds())

    def read() -> Iterator[pa.RecordBatch]:
        for pieces in splits:
            yield from read_level(pieces, schema, asked)

    return pa.RecordBatchReader.from_batches(schema, read())


def write_delta(*paths: str, to: str, mode: str = "error", **options: object) -> None:
    """Write the records below `paths` into the Delta table in the directory `to`, partitioned by topic where that is a column.

    mode  error where there is a table, append to it, or overwrite it
    Raises OptionError, also where deltalake is not installed, LogDirError, DataLossError.
    """
    try:
        from deltalake import DeltaTable, write_deltalake
    except ImportError:
        raise OptionError("deltalake is not installed: pip install 'kafkalog[delta]'") from None
    if mode not in MODES:
        raise OptionError(f"mode is '{mode}', which is none of {', '.join(MODES)}")
    rows = batches(*paths, **options)
    if mode == "error" and DeltaTable.is_deltatable(to):
        raise OptionError(f"{to}: there is a table already; set the mode to append or overwrite")
    by_topic = ["topic"] if "topic" in rows.schema.names else None
    if mode == "overwrite":
        write_deltalake(to, rows, mode="overwrite", schema_mode="overwrite", partition_by=by_topic)
    else:
        write_deltalake(to, rows, mode="append", partition_by=by_topic)
