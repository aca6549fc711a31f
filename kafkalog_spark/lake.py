"""Records into tables of a lake without Spark and Java: the engine's Arrow batches into Delta or Iceberg.

By the packages `deltalake` (extra `delta`) and `pyiceberg` (extra `iceberg`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalog_spark.errors import OptionError
from kafkalog_spark.table.columns import EXPORTED, level_schema
from kafkalog_spark.table.levels import plan_level, read_level
from kafkalog_spark.table.options import Bounds
from kafkalog_spark.table.targets import check_target
from kafkalog_spark.tasks import options_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyiceberg.table import Transaction

MODES = ("error", "append", "overwrite")
_AT_ONCE = 128 << 20  # bytes of Arrow that one append to a partitioned table of Iceberg takes


def batches(*paths: str, **options: object) -> pa.RecordBatchReader:
    """The records below `paths` as one stream of Arrow batches, read as they are asked for.

    options  as for reading; other `columns` than these eight are those that come
    Raises OptionError, LogDirError, DataLossError; iterating raises LogDirError, DataLossError.
    """
    asked = options_of(paths, {"columns": ",".join(EXPORTED), **options})
    schema = level_schema(asked.level, asked.columns)
    splits = plan_level(asked, Bounds())

    def read() -> Iterator[pa.RecordBatch]:
        for pieces in splits:
            yield from read_level(pieces, schema, asked)

    return pa.RecordBatchReader.from_batches(schema, read())


def write_delta(*paths: str, to: str, mode: str = "error", **options: object) -> None:
    """Write the records below `paths` into the Delta table in the directory `to`, partitioned by topic where that is a column.

    mode  error where there is a table, append to it, or overwrite it
    Raises OptionError, also where deltalake is not installed or logs lie in `to`, LogDirError, DataLossError.
    """
    try:
        from deltalake import DeltaTable, write_deltalake
    except ImportError:
        raise OptionError("deltalake is not installed: pip install 'kafkalog[delta]'") from None
    _check(mode)
    check_target(to, mode, paths)
    rows = batches(*paths, **options)
    if mode == "error" and DeltaTable.is_deltatable(to):
        raise OptionError(f"{to}: there is a table already; set the mode to append or overwrite")
    by_topic = ["topic"] if "topic" in rows.schema.names else None
    if mode == "overwrite":
        write_deltalake(to, rows, mode="overwrite", schema_mode="overwrite", partition_by=by_topic)
    else:
        write_deltalake(to, rows, mode="append", partition_by=by_topic)


def write_iceberg(
    *paths: str, to: str, mode: str = "error", catalog: str = "default", properties: Mapping[str, str] | None = None,
    **options: object,
) -> None:  # fmt: skip
    """Write the records below `paths` into a table of Iceberg, partitioned by topic where that is a column, in one commit.

    to          namespace and name of the table, such as `kafka.records`; both are made where they are missing
    mode        error where the table is there, append to it, or put these rows in the place of its own
    catalog     a catalog that pyiceberg's configuration knows        properties  of it, over those of the configuration
    Raises OptionError, also where pyiceberg is not installed, LogDirError, DataLossError.
    """
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchTableError
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.transforms import IdentityTransform
    except ImportError:
        raise OptionError("pyiceberg is not installed: pip install 'kafkalog[iceberg]'") from None
    _check(mode)
    namespace, _, name = to.rpartition(".")
    if not (namespace and name):
        raise OptionError(f"to is '{to}', which is no namespace and name of a table, such as kafka.records")
    rows = batches(*paths, **options)
    try:
        tables = load_catalog(catalog, **(properties or {}))
    except ValueError as error:  # it has no such catalog, or a catalog of no such type
        raise OptionError(f"catalog '{catalog}': {error}") from None
    try:
        table = tables.load_table(to)
    except NoSuchTableError:
        table = None
    if table is not None and mode == "error":
        raise OptionError(f"{to}: there is a table already; set the mode to append or overwrite")
    creation: Transaction
    if table is None:
        tables.create_namespace_if_not_exists(namespace)
        creation = tables.create_table_transaction(to, rows.schema)
        if "topic" in rows.schema.names:
            with creation.update_spec() as spec:
                spec.add_field("topic", IdentityTransform(), "topic")
    else:
        creation = table.transaction()
    with creation as work:
        if table is not None and mode == "overwrite":
            with work.update_schema() as schema:
                schema.union_by_name(rows.schema)
            work.delete(AlwaysTrue())
        for some in _tables(rows, _AT_ONCE):
            work.append(some)


def _tables(rows: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.Table]:
    """The batches as tables of about `most` bytes."""
    kept: list[pa.RecordBatch] = []
    size = 0
    for batch in rows:
        kept.append(batch)
        size += batch.nbytes
        if size >= most:
            yield pa.Table.from_batches(kept)
            kept, size = [], 0
    if kept:
        yield pa.Table.from_batches(kept)


def _check(mode: str) -> None:
    if mode not in MODES:
        raise OptionError(f"mode is '{mode}', which is none of {', '.join(MODES)}")
