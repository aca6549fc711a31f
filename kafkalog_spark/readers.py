"""The readers of the data source: a batch query, and a stream (pyspark 4.0; limits and AvailableNow need 4.2)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from kafkalog_spark.errors import OptionError
from kafkalog_spark.schema import fitted, wanted_schema
from kafkalog_spark.table.columns import types_for
from kafkalog_spark.table.following import first_offsets, from_stream, last_offsets, limited, plan_between, to_stream
from kafkalog_spark.table.levels import plan_level, read_level
from kafkalog_spark.table.options import Bounds, bounds_of, read_options

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow

    HAS_LIMITS = True
except ImportError:  # pyspark before 4.2
    HAS_LIMITS = False

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]  # only where the import failed
        """A placeholder: this version of Spark always reads everything available."""


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkalog_spark.table.following import Offsets, StreamOffset
    from kafkalog_spark.table.options import ReadOptions
    from kafkalog_spark.table.partitions import Piece


@dataclass
class Split(InputPartition):
    """The work of one task: plain values, since it is pickled."""

    pieces: list[Piece]


def _splits(planned: list[list[Piece]]) -> list[Split]:
    return [Split(pieces) for pieces in planned] or [Split([])]  # Spark needs one


class _Rows:
    """Reads the rows of a split, on an executor."""

    options: ReadOptions
    schema: pa.Schema
    bounds = Bounds()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split."""
        assert isinstance(partition, Split)
        for batch in read_level(partition.pieces, self.schema, self.options, self.bounds):
            yield fitted(batch, self.schema)


class KafkaLogReader(_Rows, DataSourceReader):
    """The reader of a batch query."""

    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        self.options = read_options(options)
        self.schema = wanted_schema(schema, types_for(self.options.level))

    def partitions(self) -> list[Split]:
        """Return the splits. Raises OptionError, LogDirError, DataLossError."""
        return _splits(plan_level(self.options, self.bounds))


class FilteringReader(KafkaLogReader):
    """A reader that accepts pushed filters. Spark refuses a reader with `pushFilters` while its setting is off."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802  # Spark's name
        """Note which rows the filters select. Returns the filters that Spark has to apply as well."""
        self.bounds, left = bounds_of(filters, self.options.level)
        return left


class KafkaLogStreamReader(_Rows, DataSourceStreamReader, SupportsTriggerAvailableNow):
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
        is_limited = HAS_LIMITS and isinstance(limit, ReadMaxRows)
        return to_stream(limited(begins, ends, limit.max_rows) if is_limited else ends)

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
        asked = {"maxOffsetsPerTrigger": self.options.max_offsets, "minOffsetsPerTrigger": self.options.min_offsets}
        for name, value in asked.items():
            if value is not None:
                why = "before that Spark does not tell a source in Python how far it has read"
                raise OptionError(f"{name} needs pyspark 4.2 or later: {why}")

    def getDefaultReadLimit(self) -> Any:  # noqa: N802  # Spark's name
        """Return maxOffsetsPerTrigger or minOffsetsPerTrigger as a limit; without them, everything."""
        if self.options.max_offsets is not None:
            return ReadMaxRows(self.options.max_offsets)
        return ReadAllAvailable() if self.options.min_offsets is None else ReadMinRows(self.options.min_offsets)

    def reportLatestOffset(self) -> StreamOffset | None:  # noqa: N802  # Spark's name
        """Return the ends of the logs, for the progress of the query."""
        return to_stream(last_offsets(self.options, {})[0])

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """End the query at the current ends of the logs."""
        self._target = last_offsets(self.options, {})[0]

    def partitions(self, start: StreamOffset, end: StreamOffset) -> Sequence[Split]:
        """Return the splits of a micro-batch. Raises LogDirError, DataLossError."""
        return _splits(plan_between(self.options, from_stream(start), from_stream(end)))

    def commit(self, end: StreamOffset) -> None:
        """Do nothing: the offsets are in the checkpoint of the query."""

    def stop(self) -> None:
        """Do nothing: no file is open between calls."""
