"""Arrow schemas as Spark DDL, and the Arrow schema for a user's Spark schema."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa

from engine.arrow.columns import COLUMN_TYPES
from kafkalog_spark.errors import LogDirError, OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

_DDL_TYPES = {
    pa.binary(): "binary", pa.string(): "string", pa.int16(): "smallint", pa.int32(): "int", pa.int64(): "bigint",
    pa.bool_(): "boolean", pa.timestamp("us", tz="UTC"): "timestamp",
}  # fmt: skip


def ddl_of(schema: pa.Schema) -> str:
    """Return the schema as Spark DDL."""
    return ", ".join(f"`{field.name}` {_ddl(field.type)}" for field in schema)


def _ddl(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"array<{_ddl(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_ddl(field.type)}' for field in kind)}>"
    return _DDL_TYPES[kind]


def wanted_schema(asked: StructType, types: Mapping[str, pa.DataType] = COLUMN_TYPES) -> pa.Schema:
    """Return the Arrow schema of a user's schema: only its columns are read. Raises OptionError for an unknown column."""
    fields = []
    for name, count in Counter(asked.names).items():
        if count > 1:
            raise OptionError(f"the schema has the column '{name}' {count} times")
    for field in asked.fields:
        kind = types.get(field.name)
        if kind is None:
            raise OptionError(f"the schema has a column '{field.name}': there are {', '.join(types)}")
        if field.dataType.simpleString() != _simple(kind):
            raise OptionError(f"column '{field.name}' is {_simple(kind)}, and not {field.dataType.simpleString()}")
        fields.append(pa.field(field.name, kind, nullable=field.nullable))
    return pa.schema(fields)


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a batch to a user's schema. Raises LogDirError for a null in a column that the schema declares as not null."""
    for field, column in zip(schema, batch.columns, strict=True):
        if column.null_count and not field.nullable:
            raise LogDirError(f"column '{field.name}' has nulls, and the schema says that it has none")
    return batch if batch.schema == schema else batch.cast(schema)


def _simple(kind: pa.DataType) -> str:
    return _ddl(kind).replace(": ", ":").replace(", ", ",")
