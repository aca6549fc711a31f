"""The streaming reader of the data source, for every pyspark from 4.0 on; limits and AvailableNow need 4.2."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kafkalog_spark.errors import OptionError
from kafkalog_spark.schema import fitted, wanted_schema
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
from kafkalog_spark.tasks import Split

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

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Not known yet: Spark asks for everything at once."""


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkalog_spark.table.following import Offsets, StreamOffset


class KafkaLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads partitions as they grow. Lives in the driver's worker; a pickled copy of it reads the splits."""

    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        self.options = read_options(options, streaming=True)
        self.schema = wanted_schema(schema, types_for("records"))
        self._target: Offsets | None = None  # AvailableNow: not beyond this
        self._last_batch: float | None = None  # seconds of a clock

    def initialOffset(self) -> StreamOffset:  # noqa: N802  # Spark's name
        """Where a new query begins. Raises OptionError, LogDirError."""
        self._refuse_unknown_limits()
        return to_stream(first_offsets(self.options))

    def latestOffset(self, start: StreamOffset | None = None, limit: Any = None) -> StreamOffset:  # noqa: N802
        """Where the next micro-batch ends. Raises OptionError, LogDirError, DataLossError."""
        self._refuse_unknown_limits()
        begin = {} if start is None else from_stream(start)
        ends, begins = last_offsets(self.options, begin)
        if self._target is not None:
            known = self._target.keys() | begin.keys()  # what was away when the target was set keeps its offset
            target = begins | self._target
            ends = {key: max(begins[key], min(end, target[key])) for key, end in ends.items() if key in known}
        if start is not None and self._is_too_early(begins, ends, limit):
            return start
        most = self._most(begins, ends, limit)
        return to_stream(ends if most is None else limited(begins, ends, most))

    def _most(self, begins: Offsets, ends: Offsets, limit: Any) -> int | None:
        """Offsets of a micro-batch; None: all. Spark knows the first of two limits only: here both hold."""
        if not HAS_LIMITS or not isinstance(limit, ReadMaxRows | ReadMaxBytes):
            return None
        size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self.options.max_bytes
        most = [] if size is None else [offsets_in(self.options, {key: begins[key] for key in ends}, ends, size)]
        return min(most + ([limit.max_rows] if isinstance(limit, ReadMaxRows) else []))

    def _is_too_early(self, begins: Offsets, ends: Offsets, limit: Any) -> bool:
        """Are fewer offsets due than minOffsetsPerTrigger, and is there time left to wait for more?

        The first batch of a run waits for nothing, nor do AvailableNow and who wants everything. Mirrors delayBatch of
        Spark's Kafka source.
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
        """Raise OptionError for limits that cannot be held, as Spark does not say where a micro-batch begins.

        Not as soon as there is a reader: pyspark 4.1 would stumble over not having one.
        """
        if HAS_LIMITS:
            return
        asked = {"maxOffsetsPerTrigger": self.options.max_offsets, "maxBytesPerTrigger": self.options.max_bytes,
                 "minOffsetsPerTrigger": self.options.min_offsets}  # fmt: skip
        for name, value in asked.items():
            if value is not None:
                why = "before that Spark does not tell a source in Python how far it has read"
                raise OptionError(f"{name} needs pyspark 4.2 or later: {why}")

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """The options maxOffsetsPerTrigger, maxBytesPerTrigger, minOffsetsPerTrigger; without them everything.

        Spark takes one limit only: what the others say, `latestOffset` holds by itself.
        """
        if self.options.max_offsets is not None:
            return ReadMaxRows(self.options.max_offsets)
        if self.options.max_bytes is not None:
            return ReadMaxBytes(self.options.max_bytes)
        return ReadAllAvailable() if self.options.min_offsets is None else ReadMinRows(self.options.min_offsets)

    def reportLatestOffset(self) -> StreamOffset | None:  # noqa: N802
        """How far the logs go, for the progress of the query."""
        return to_stream(last_offsets(self.options, {})[0])

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """From now on nothing new is taken."""
        self._target = last_offsets(self.options, {})[0]

    def partitions(self, start: StreamOffset, end: StreamOffset) -> Sequence[Split]:
        """The tasks of a micro-batch. Raises LogDirError, DataLossError."""
        splits = plan_between(self.options, from_stream(start), from_stream(end))
        return [Split(pieces) for pieces in splits] or [Split([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task, on an executor."""
        assert isinstance(partition, Split)
        for batch in read_level(partition.pieces, self.schema, self.options):
            yield fitted(batch, self.schema)

    def commit(self, end: StreamOffset) -> None:
        """Nothing is kept here: offsets are in the query's checkpoint."""

    def stop(self) -> None:
        """Nothing is open."""
