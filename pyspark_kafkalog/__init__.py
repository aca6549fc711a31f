"""Registers `spark.read.format("kafkalog")`: Spark imports every module named pyspark_… and uses its DefaultSource.

An exception here would break the lookup of every format. So an import error is reported when the format is used.
"""

from __future__ import annotations

import sys

try:
    from kafkalog_spark.source import KafkaLogSource as DefaultSource
except Exception as error:  # noqa: BLE001  # whatever is wrong there must not break other formats
    from pyspark.sql.datasource import DataSource  # without it, on pyspark 3.5, nothing looks for a format here

    _REASON = f"kafkalog: cannot be imported in {sys.executable}: {error}; install it there: pip install 'kafkalog[spark]'"

    class DefaultSource(DataSource):  # type: ignore[no-redef]  # only where the import failed
        """The format `kafkalog` where it cannot be imported: every use reports the reason."""

        def __init__(self, options: dict[str, str]) -> None:  # noqa: ARG002  # Spark's signature
            raise ImportError(_REASON)

        @classmethod
        def name(cls) -> str:
            """Return the name of the format."""
            return "kafkalog"


__all__ = ["DefaultSource"]
