"""Records as one stream of Arrow batches, without Spark and Java: for deltalake, pyiceberg and other readers of Arrow.

It stands alone because users import it; docs/spark/writing.md has recipes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalog_spark.table.columns import EXPORTED, level_schema
from kafkalog_spark.table.levels import plan_level, read_level
from kafkalog_spark.table.options import Bounds
from kafkalog_spark.tasks import options_of

if TYPE_CHECKING:
    from collections.abc import Iterator


def batches(*paths: str, **options: object) -> pa.RecordBatchReader:
    """Return the records below `paths` as a stream of Arrow batches, which is read on demand.

    options  as for reading; `columns` defaults to the eight columns of an export (EXPORTED)
    Raises OptionError, LogDirError, DataLossError; iterating raises LogDirError, DataLossError.
    """
    asked = options_of(paths, {"columns": ",".join(EXPORTED), **options})
    schema = level_schema(asked.level, asked.columns)
    splits = plan_level(asked, Bounds())

    def read() -> Iterator[pa.RecordBatch]:
        for pieces in splits:
            yield from read_level(pieces, schema, asked)

    return pa.RecordBatchReader.from_batches(schema, read())
