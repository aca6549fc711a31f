"""The data source `kafkalog`: Spark's interface, implemented with the planning and reading of kafkalog_spark.table.

It stands alone because Spark imports it by itself, to find the format.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceWriter
    from pyspark.sql.types import StructType

_OF_CATALOGS = {  # properties that Spark passes among the options of a table in a catalog (TableCatalog.RESERVED_PROPERTIES)
    "owner", "provider", "comment", "collation", "location", "external", "is_managed_location", "table_type",
}
_AGAIN = "option."  # prefix of options that Spark passes a second time
_KEPT = "kafkalog"  # metadata of the first column of a table in a catalog: its options, as JSON


class KafkaLogSource(DataSource):
    """The format `kafkalog`: Kafka's partition directories as a table.

    Spark passes the options of a table in a catalog when the table is created, and not when it is read. Therefore they are kept
    in the metadata of the first column, which the catalog stores with the schema.
    """

    def __init__(self, options: dict[str, str]) -> None:
        try:
            import kafkalog_spark.table.levels  # noqa: F401  # what every use needs
        except ImportError as error:
            from kafkalog_spark.errors import cannot_import

            raise cannot_import(error.name, sys.executable) from None
        self._is_in_catalog = "provider" in options
        own = {name: value for name, value in options.items() if not name.lower().startswith(_AGAIN)}
        super().__init__({name: value for name, value in own.items() if name.lower() not in _OF_CATALOGS})

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kafkalog"

    def schema(self) -> StructType | str:
        """Return the schema, after checking options and paths. Raises OptionError, LogDirError."""
        from kafkalog_spark.schema import ddl_of
        from kafkalog_spark.table.columns import level_schema
        from kafkalog_spark.table.options import read_options
        from kafkalog_spark.table.partitions import OpenPaths

        options = read_options(self.options, streaming=None)
        OpenPaths(options).partition_dirs()
        schema = level_schema(options.level, options.columns)
        if not self._is_in_catalog:
            return ddl_of(schema)
        from pyspark.sql.pandas.types import from_arrow_schema

        table = from_arrow_schema(schema)
        table.fields[0].metadata = {_KEPT: json.dumps(dict(self.options))}
        return table

    def _options(self, schema: StructType) -> dict[str, str]:
        """Return the options of a query. A query without a path reads a table in a catalog. Raises OptionError."""
        own = dict(self.options)
        if "path" in own or "paths" in own:
            return own
        kept = schema.fields[0].metadata.get(_KEPT) if schema.fields else None
        if kept is None:
            from kafkalog_spark.errors import OptionError

            what = "no path: give load() a path; create a table in a catalog without a list of columns"
            raise OptionError(f"{what}, and choose columns with the option 'columns'")
        return {**json.loads(kept), **own}

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query; `schema` is that of the data source or the user's."""
        from kafkalog_spark.readers import FilteringReader, KafkaLogReader

        is_pushing = "pyspark.sql.worker.data_source_pushdown_filters" in sys.modules
        return (FilteringReader if is_pushing else KafkaLogReader)(schema, self._options(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """Return the reader of a stream."""
        from kafkalog_spark.readers import KafkaLogStreamReader

        return KafkaLogStreamReader(schema, self._options(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a table. Raises OptionError, LogDirError."""
        from kafkalog_spark.sink.writers import KafkaLogWriter

        return KafkaLogWriter(dict(self.options), schema, overwrite=overwrite)
