"""The streaming reader of the data source. It needs pyspark 4.0; limits and AvailableNow need 4.2."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kafkalog_spark.errors import OptionError
from kafkalog_spark.schema import fitted, wanted_schema
from kafkalog_spark.split import Split
from kafkalog_spark.table.columns import types_for
from kafkalog_spark.table.following import (
    first_offsets,
    from_stream,
    last_offsets,
    limited,
    offsets_in,
    plan_between,
    to_stream,
)
from kafkalog_spark.table.levels import read_level
from kafkalog_spark.table.options import read_options

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

    HAS_LIMITS = True
except ImportError:  # pyspark before 4.2
    HAS_LIMITS = False

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]  # only where the import failed
        """A placeholder: this version of Spark always reads everything available."""


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkalog_spark.table.following import Offsets, StreamOffset


class KafkaLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads partitions as they grow. It runs in the driver's Python worker; executors read splits with a pickled copy."""

    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        self.options = read_options(options, streaming=True)
        self.schema = wanted_schema(schema, types_for("records"))
        self._target: Offsets | None = None  # AvailableNow: where the query ends
        self._last_batch: float | None = None  # time.monotonic, seconds

    def initialOffset(self) -> StreamOffset:  # noqa: N802  # Spark's name
        """Return the offsets at which a new query begins. Raises OptionError, LogDirError."""
        self._refuse_unknown_limits()
        return to_stream(first_offsets(self.options))

    def latestOffset(self, start: StreamOffset | None = None, limit: Any = None) -> StreamOffset:  # noqa: N802  # Spark's name
        """Return the offsets at which the next micro-batch ends. Raises OptionError, LogDirError, DataLossError."""
        self._refuse_unknown_limits()
        begin = {} if start is None else from_stream(start)
        ends, begins = last_offsets(self.options, begin)
        if self._target is not None:
            known = self._target.keys() | begin.keys()  # a partition that was missing when the target was set keeps its offset
            target = begins | self._target
            ends = {key: max(begins[key], min(end, target[key])) for key, end in ends.items() if key in known}
        if start is not None and self._is_too_early(begins, ends, limit):
            return start
        most = self._most(begins, ends, limit)
        return to_stream(ends if most is None else limited(begins, ends, most))

    def _most(self, begins: Offsets, ends: Offsets, limit: Any) -> int | None:
        """Return the largest number of offsets in a micro-batch; None: no limit. Applies both limits, Spark passes only one."""
        if not HAS_LIMITS or not isinstance(limit, ReadMaxRows | ReadMaxBytes):
            return None
        size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self.options.max_bytes
        most = [] if size is None else [offsets_in(self.options, {key: begins[key] for key in ends}, ends, size)]
        return min(most + ([limit.max_rows] if isinstance(limit, ReadMaxRows) else []))

    def _is_too_early(self, begins: Offsets, ends: Offsets, limit: Any) -> bool:
        """Are fewer offsets available than minOffsetsPerTrigger, and is maxTriggerDelay not over yet?

        The first batch of a run does not wait; neither does AvailableNow or a read of everything. Mirrors
        KafkaMicroBatchStream.delayBatch of Spark.
        """
        least, now = self.options.min_offsets, time.monotonic()
        if least is None or self._target is not None or isinstance(limit, ReadAllAvailable):
            return False
        has_time = self._last_batch is not None and now - self._last_batch < self.options.max_delay
        if has_time and sum(ends[key] - begins[key] for key in ends) < least:
            return True
        self._last_batch = now
        return False

    def _refuse_unknown_limits(self) -> None:
        """Raise OptionError for limits that need pyspark 4.2: older versions do not pass the start of a micro-batch.

        Not raised in the constructor, because pyspark 4.1 fails with another error if it gets no reader.
        """
        if HAS_LIMITS:
            return
        asked = {"maxOffsetsPerTrigger": self.options.max_offsets, "maxBytesPerTrigger": self.options.max_bytes,
                 "minOffsetsPerTrigger": self.options.min_offsets}  # fmt: skip
        for name, value in asked.items():
            if value is not None:
                why = "before that Spark does not tell a source in Python how far it has read"
                raise OptionError(f"{name} needs pyspark 4.2 or later: {why}")

    def getDefaultReadLimit(self) -> Any:  # noqa: N802  # Spark's name
        """Return maxOffsetsPerTrigger, maxBytesPerTrigger or minOffsetsPerTrigger as a limit; without them, everything.

        Spark accepts only one limit; `latestOffset` applies the others.
        """
        if self.options.max_offsets is not None:
            return ReadMaxRows(self.options.max_offsets)
        if self.options.max_bytes is not None:
            return ReadMaxBytes(self.options.max_bytes)
        return ReadAllAvailable() if self.options.min_offsets is None else ReadMinRows(self.options.min_offsets)

    def reportLatestOffset(self) -> StreamOffset | None:  # noqa: N802  # Spark's name
        """Return the ends of the logs, for the progress of the query."""
        return to_stream(last_offsets(self.options, {})[0])

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """End the query at the current ends of the logs."""
        self._target = last_offsets(self.options, {})[0]

    def partitions(self, start: StreamOffset, end: StreamOffset) -> Sequence[Split]:
        """Return the splits of a micro-batch. Raises LogDirError, DataLossError."""
        splits = plan_between(self.options, from_stream(start), from_stream(end))
        return [Split(pieces) for pieces in splits] or [Split([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of a split, on an executor."""
        assert isinstance(partition, Split)
        for batch in read_level(partition.pieces, self.schema, self.options):
            yield fitted(batch, self.schema)

    def commit(self, end: StreamOffset) -> None:
        """Do nothing: the offsets are in the checkpoint of the query."""

    def stop(self) -> None:
        """Do nothing: no file is open between calls."""
