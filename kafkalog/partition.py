"""A partition that a Python program reads: its offsets, batches and records. Nothing on the disk is changed."""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Self

from engine.errors import UsageError
from engine.files import ReadOnlyFiles
from engine.log.fetch.reading import FetchIsolation
from engine.log.fetch.records import FetchLimits, RecordFetcher
from engine.log.fetch.view import PartitionView
from engine.log.finding_limits import FindingLimiter
from engine.record.batch import read_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from engine.findings import Finding
    from engine.record.batch import Record, RecordBatch

RECORD_COLUMNS = ("offset", "timestamp", "key", "value", "headers")


class Partition:
    """The partition in `directory`, opened for reading, also beside a running broker. Use it in a `with` statement.

    findings  damage that was found so far, while reading; at most about 1000 of one code for each file
    Raises KafkalogError if the directory does not contain the log of a partition of Kafka 0.8 or later, or cannot be read.
    """

    def __init__(self, directory: str) -> None:
        self.findings: list[Finding] = []
        self._report = FindingLimiter(self.findings.append)
        self._files = ReadOnlyFiles()
        self._view = PartitionView(self._files, directory, self._report)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files."""
        self._view.close()

    @property
    def log_start_offset(self) -> int:
        """The first offset that a consumer can read."""
        return self._view.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset after the last whole batch."""
        return self._view.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the oldest open transaction, else the log end offset. Raises KafkalogError."""
        return self._view.fetch_last_stable_offset_metadata().message_offset

    def refresh(self) -> bool:
        """Read what was appended since then. Returns whether the log end offset has increased. Raises KafkalogError."""
        return self._view.refresh()

    def offset_at(self, time_ms: int) -> int | None:
        """The offset of the first record with at least this timestamp, ms; None: there is none. Raises KafkalogError."""
        found = self._view.offset_by_timestamp(time_ms)
        return None if found is None else found.offset

    def batches(self) -> Iterator[RecordBatch]:
        """The headers of all batches in the log's files, control batches included. Raises KafkalogError.

        Damage ends the batches of its segment; the next segment follows.
        """
        for segment in self._view.segments:
            with closing(self._files.open(segment.log_path)) as file:
                yield from read_batches(file, self._report)

    def records(
        self, offset: int | None = None, end: int | None = None, *, committed: bool = False, limit: int | None = None
    ) -> Iterator[Record]:
        """The records that a consumer reads, without control records, with copies of their bytes.

        offset     of the first record; None: the log start offset
        end        offset before which reading stops; None: the log end
        committed  only committed records, as with isolation.level=read_committed
        limit      number of records; None: all
        Reading continues after damage with the next sound batch. Raises KafkalogError, also for an offset outside the log.
        """
        return islice(self._fetcher(offset, end, committed), limit)

    def arrow(
        self, columns: Sequence[str] = RECORD_COLUMNS, offset: int | None = None, end: int | None = None, *,
        committed: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The same records as Arrow record batches of at most 10 000 rows, without a Python object for each. Needs pyarrow.

        columns  names of columns, which docs/api.md lists; any other raises UsageError
        """
        from engine.arrow.batches import BatchBuilder
        from engine.arrow.columns import COLUMN_TYPES

        unknown = [name for name in columns if name not in COLUMN_TYPES]
        if unknown:
            raise UsageError(f"{unknown[0]!r} is not a column: they are {', '.join(COLUMN_TYPES)}")
        name = self._view.partition
        topic, number = ("", -1) if name is None else (name.topic, name.partition)
        builder = BatchBuilder(columns, topic, number, self._view.directory)
        return builder.batches(self._fetcher(offset, end, committed).runs())

    def _fetcher(self, offset: int | None, end: int | None, committed: bool) -> RecordFetcher:
        isolation = FetchIsolation.READ_COMMITTED if committed else FetchIsolation.HIGH_WATERMARK
        start = self.log_start_offset if offset is None else offset
        return RecordFetcher(self._view, start, isolation, self._report, FetchLimits(end=end))
