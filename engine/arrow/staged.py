"""Rows of Arrow batches as segments in a staging directory, with offsets from 0 or from the rows; see engine.log.commits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow.incoming import IncomingRows, RowRefused, Sheet, groups
from engine.discovery.names import METADATA_TOPIC, is_topic_name
from engine.formats import INT_MAX, BatchField, Codec
from engine.log.commits.staging import StagedPiece
from engine.log.segment.log_segment import Appending, LogSegment, Partition
from engine.record.assembly import CREATE_TIME, LOG_APPEND_TIME, BatchSpec
from engine.record.columns import BatchColumns
from engine.record.packing import Packer
from engine.record.windows import scan_range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.config.topic import LogConfig
    from engine.files import Files

_TAKEN = 16 << 20  # bytes of rows that are added at once
_MAX_UNPACKED = 4 << 20  # bytes of unpacked rows of one Kafka partition
_MAX_UNPACKED_IN_TASK = 64 << 20  # bytes of unpacked rows of all partitions of a task
_OPEN_FILES = 100  # most logs that stay open
_MAX_BUFFERING = 8  # most Kafka partitions of a task that keep their buffers after packing


@dataclass(frozen=True)
class WriteOptions:
    """The options of a write. Plain values, since they are pickled into every task.

    path        directory for the partition directories
    topic       of all rows; None: from the column
    partitions  number of partitions of a topic; None: from the column
    settings    topic settings, as given
    """

    path: str
    topic: str | None
    partitions: int | None
    keep_timestamps: bool
    keep_offsets: bool
    codec: Codec
    level: int | None
    batch_size: int
    settings: tuple[tuple[str, str], ...]
    config: LogConfig


def check_topic(name: str) -> None:
    """Raise RowRefused for an invalid topic name (Topic.validate), and for the metadata log."""
    if not name:
        raise RowRefused("Topic name is invalid: the empty string is not allowed")
    if name in (".", ".."):
        raise RowRefused("Topic name is invalid: '.' or '..' is not allowed")
    if not is_topic_name(name):
        what = "it has other characters than ASCII alphanumerics, '.', '_' and '-', or more than 249"
        raise RowRefused(f"Topic name is invalid: '{name[:300]}' is illegal: {what}")
    if name == METADATA_TOPIC:
        raise RowRefused(f"{name} is the log of the cluster's metadata: only controllers write it")


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch into slices of about _TAKEN bytes, since a task also holds unpacked rows."""
    count = max(1, min(batch.num_rows, -(-batch.nbytes // _TAKEN)))
    step = -(-batch.num_rows // count)
    for first in range(0, batch.num_rows, max(1, step)):
        yield batch.slice(first, step)


def _joined(batches: Iterable[bytes]) -> Iterator[memoryview]:
    """Join batches into buffers of about _MAX_UNPACKED bytes."""
    some: list[bytes] = []
    size = 0
    for batch in batches:
        some.append(batch)
        size += len(batch)
        if size >= _MAX_UNPACKED:
            yield memoryview(b"".join(some))
            some, size = [], 0
    if some:
        yield memoryview(b"".join(some))


class TaskWriter:
    """Writes the rows of Arrow batches as segments below the existing `directory`.

    name     of the directory, as in StagedPiece
    columns  the columns that are used
    number   of the task: rows without key and partition start with this partition
    clock    returns ms
    """

    def __init__(
        self, files: Files, directory: str, name: str, options: WriteOptions, columns: tuple[str, ...], *, number: int,
        clock: Callable[[], int],
    ) -> None:  # fmt: skip
        self._files, self._directory, self._name = files, directory, name
        self._options, self._columns, self._clock = options, columns, clock
        self._keyless = number
        self._unpacked = 0  # bytes of unpacked rows of all partitions
        self._staged: dict[tuple[str, int], StagedPartition] = {}
        self._batches = BatchColumns()  # shared by all partitions: used only while one of them packs

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[StagedPiece]:
        """Write all rows, sync and close the segments. Raises KafkalogError, OptionError."""
        for batch in batches:
            for part in _parts(batch):
                self._take(part)
        pieces = [self._finished(key, staged) for key, staged in sorted(self._staged.items())]
        self._files.sync_directory(self._directory)
        return pieces

    def _take(self, batch: pa.RecordBatch) -> None:
        column = {name: batch.column(name) for name in self._columns}
        rows = IncomingRows(
            column["value"], now=self._clock(), key=column.get("key"), headers=column.get("headers"),
            timestamp=column["timestamp"] if self._options.keep_timestamps else None,
            offset=column["offset"] if self._options.keep_offsets else None,
        )  # fmt: skip
        partitions = rows.partitions(column.get("partition"), self._options.partitions, self._keyless)
        self._keyless += 1  # like a producer: all rows of a batch without a key get the same partition
        for key, chosen, first, end in self._groups(column.get("topic"), partitions):
            staged = self._partition(key)
            self._unpacked -= staged.waiting
            staged.add(rows, chosen, first, end)
            self._unpacked += staged.waiting
        if self._unpacked > _MAX_UNPACKED_IN_TASK:
            for staged in self._staged.values():
                staged.pack()
            self._unpacked = 0

    def _groups(self, topics: pa.Array | None, partitions: pa.Array) -> Iterator[tuple[tuple[str, int], memoryview, int, int]]:
        """Yield (topic, partition), and the row numbers of the group as chosen[first:end]."""
        if self._options.topic is not None:
            names, codes = [self._options.topic], None
        else:
            assert topics is not None  # check_columns requires it
            if topics.null_count:
                raise RowRefused("null topic present in the data. Use the topic option for setting a topic.")
            encoded = topics.dictionary_encode()
            names, codes = encoded.dictionary.to_pylist(), encoded.indices.cast(pa.int64())
        wide = partitions.cast(pa.int64())
        if codes is not None and len(names) > 1:
            wide = pc.add(pc.shift_left(codes, 32), wide)
        keys = wide.dictionary_encode()
        numbers = keys.dictionary.to_pylist()
        for code, chosen, first, end in groups(keys.indices, len(numbers)):
            yield (names[numbers[code] >> 32], numbers[code] & INT_MAX), chosen, first, end

    def _partition(self, key: tuple[str, int]) -> StagedPartition:
        staged = self._staged.get(key)
        if staged is None:
            check_topic(key[0])
            directory = f"{self._directory}/{key[0]}-{key[1]}"
            self._files.make_directory(directory)
            staged = self._staged[key] = StagedPartition(
                self._files, directory, self._options, self._clock, self._batches
            )
            count = len(self._staged)
            for one in self._staged.values() if count in (_MAX_BUFFERING + 1, _OPEN_FILES + 1) else (staged,):
                one.set_partition_count(count)
        return staged

    def _finished(self, key: tuple[str, int], staged: StagedPartition) -> StagedPiece:
        segments, size = staged.finish()
        return StagedPiece(*key, f"{self._name}/{key[0]}-{key[1]}", tuple(segments), size)


class StagedPartition:
    """Writes the segments of one Kafka partition, rolled as a leader rolls them."""

    def __init__(
        self, files: Files, directory: str, options: WriteOptions, clock: Callable[[], int], batches: BatchColumns
    ) -> None:
        self._files, self._directory, self._config, self._clock = files, directory, options.config, clock
        is_append_time = options.config.message_timestamp_type == "LogAppendTime"
        self._spec = BatchSpec(
            codec=options.codec, level=options.level, partition_leader_epoch=0,
            timestamp_type=LOG_APPEND_TIME if is_append_time else CREATE_TIME,
        )  # fmt: skip
        self._batch_size = options.batch_size
        self._sheet = Sheet()
        self._next_offset = self._written = 0
        self._batches = batches
        self._segment: LogSegment | None = None
        self._segments: list[tuple[int, int]] = []
        self._size = 0
        self._keeps_buffers, self._stays_open = True, True

    @property
    def waiting(self) -> int:
        """Bytes of unpacked rows."""
        return self._sheet.size

    def set_partition_count(self, count: int) -> None:
        """Set the task's number of partitions: above _MAX_BUFFERING no buffer is kept, above _OPEN_FILES no file stays open."""
        self._keeps_buffers = count <= _MAX_BUFFERING
        if count > _OPEN_FILES and self._stays_open:
            self._stays_open = False
            if self._segment is not None:
                self._segment.close_handlers()

    def add(self, rows: IncomingRows, chosen: memoryview, first: int, end: int) -> None:
        """Add the rows chosen[first:end]. Raises RowRefused, UnbuildableBatch, UnwritableFile."""
        self._next_offset = self._sheet.add(rows, chosen, first, end, self._next_offset)
        if self._sheet.size >= max(_MAX_UNPACKED, self._batch_size):
            self.pack()

    def pack(self) -> None:
        """Pack the added rows into batches and write them."""
        if not self._sheet.filled:
            return
        spec = self._spec
        if spec.timestamp_type == LOG_APPEND_TIME:
            spec = spec._replace(log_append_time=self._clock())
        sheet = self._sheet
        for data in _joined(Packer(spec, self._batch_size).pack_kept(sheet.data, sheet.records, sheet.filled)):
            at = 0
            while rows := scan_range(data, at, len(data), self._batches):
                self._check_sizes(rows)
                at = self._append(data, rows)
        if self._keeps_buffers:
            sheet.clear()
        else:
            self._sheet = Sheet()
        if not self._stays_open and self._segment is not None:
            self._segment.close_handlers()

    def _check_sizes(self, rows: int) -> None:
        largest = max(self._batches.field(BatchField.SIZE)[:rows])
        if largest > self._config.max_message_size:
            raise RowRefused(
                f"The record batch size in the append to {self._directory.rpartition('/')[2]} is {largest} bytes which exceeds "
                f"the maximum configured value of {self._config.max_message_size}: set kafka.batch.size or "
                "topic.max.message.bytes"
            )
        if largest > self._config.segment_size:
            raise RowRefused(
                f"Message batch size is {largest} bytes in append to partition {self._directory.rpartition('/')[2]}, which "
                f"exceeds the maximum configured segment size of {self._config.segment_size}."
            )

    def _append(self, data: memoryview, rows: int) -> int:
        """Write the scanned batches, segment by segment. Returns the position in `data` after the last one."""
        table, row, stop = self._batches.table, 0, 0
        while row < rows:
            segment = self._segment or self._begin(table[BatchField.BASE_OFFSET, row])
            end = self._fitting(segment, row, rows)
            if end == row:
                self._end_segment()
                continue
            start = table[BatchField.POSITION, row]
            stop = table[BatchField.POSITION, end - 1] + table[BatchField.SIZE, end - 1]
            last_offset = table[BatchField.LAST_OFFSET, end - 1]
            segment.append(last_offset, data[start:stop], self._batches, end, row)
            self._written = last_offset + 1
            row = end
        return stop

    def _fitting(self, segment: LogSegment, row: int, rows: int) -> int:
        """Return the row after the last batch that fits in the segment without a roll (LogSegment.shouldRoll)."""
        config, fields = self._config, (BatchField.SIZE, BatchField.LAST_OFFSET, BatchField.MAX_TIMESTAMP)
        appends = list(map(Appending, *(self._batches.field(field)[row:rows].tolist() for field in fields)))
        return row + segment.count_fitting(appends, config.segment_size, config.max_segment_ms, self._clock())

    def _begin(self, base_offset: int) -> LogSegment:
        self._segment = LogSegment(
            Partition(self._files, self._directory, self._config, self._clock()), base_offset, file_already_exists=False
        )
        return self._segment

    def _end_segment(self) -> None:
        segment = self._segment
        if segment is None:
            return
        if not segment.size:
            raise RowRefused(f"{self._directory.rpartition('/')[2]}: topic.segment.index.bytes has no room for an entry")
        segment.flush()
        segment.close()
        self._segments.append((segment.base_offset, self._written))
        self._size += segment.size
        self._segment = None

    def finish(self) -> tuple[list[tuple[int, int]], int]:
        """Write and sync everything. Returns (segments, bytes)."""
        self.pack()
        self._end_segment()
        self._files.sync_directory(self._directory)
        return self._segments, self._size
