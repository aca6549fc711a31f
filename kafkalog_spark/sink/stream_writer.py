"""The writer of a stream. Needs pyspark 4.1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter

from kafkalog_spark.sink.writers import Sink, Written

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType


class KafkaLogStreamWriter(DataSourceStreamArrowWriter):
    """Appends the batches of a stream, each once."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._sink = Sink(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """See Sink."""
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Publish, unless it was done before."""
        self._sink.publish(messages, overwrite=False, batch=batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803  # it is all in one directory
        """Leave nothing behind."""
        self._sink.forget(messages)
