"""What a task writes: the rows of each Kafka partition as segments, aside, with offsets from 0 or those that rows have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow.incoming import IncomingRows, RowRefused, Sheet, groups
from engine.formats import INT_MAX, BatchField
from engine.log.segment.log_segment import Appending, LogSegment
from engine.log.segment.segment_files import Partition
from engine.record.assembly import CREATE_TIME, LOG_APPEND_TIME, BatchSpec
from engine.record.columns import BatchColumns
from engine.record.packing import Packer
from engine.record.windows import scan_range
from kafkalog_spark.sink.options import check_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.files import Files
    from kafkalog_spark.sink.options import SinkOptions

_TAKEN = 16 << 20  # bytes of rows that are taken at once
_WAITING = 4 << 20  # bytes of one Kafka partition that wait to be packed
_WAITING_IN_ALL = 64 << 20
_OPEN_FILES = 100  # logs that stay open
_ROOMY = 8  # Kafka partitions that keep the room of what they have packed


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows, few at a time where they are large: a task holds what waits to be packed beside them."""
    count = max(1, min(batch.num_rows, -(-batch.nbytes // _TAKEN)))
    step = -(-batch.num_rows // count)
    for first in range(0, batch.num_rows, max(1, step)):
        yield batch.slice(first, step)


def _joined(batches: Iterable[bytes]) -> Iterator[memoryview]:
    """Batches one after the other, some megabytes at a time."""
    some: list[bytes] = []
    size = 0
    for batch in batches:
        some.append(batch)
        size += len(batch)
        if size >= _WAITING:
            yield memoryview(b"".join(some))
            some, size = [], 0
    if some:
        yield memoryview(b"".join(some))


@dataclass(frozen=True, slots=True)
class StagedPiece:
    """What a task wrote for one Kafka partition: a run of segments in `directory`, which counts from where jobs stage.

    segments     (base offset, offset after the last record) of each        size  bytes of their logs
    """

    topic: str
    partition: int
    directory: str
    segments: tuple[tuple[int, int], ...]
    size: int

    @property
    def job(self) -> str:
        """The job that staged it: of a stream not always the one that commits it."""
        return self.directory.partition("/")[0]

    @property
    def first_offset(self) -> int:
        """Where it begins."""
        return self.segments[0][0]

    @property
    def end_offset(self) -> int:
        """After its last record."""
        return self.segments[-1][1]


class TaskWriter:
    """Takes Arrow batches and writes the segments below `directory`, which exists.

    name     of the directory, as in pieces        number   of the task: where rows without key and partition begin
    columns  those of the batches that matter           clock    ms
    """

    def __init__(
        self, files: Files, directory: str, name: str, options: SinkOptions, columns: tuple[str, ...], *, number: int,
        clock: Callable[[], int],
    ) -> None:  # fmt: skip
        self._files, self._directory, self._name = files, directory, name
        self._options, self._columns, self._clock = options, columns, clock
        self._keyless = number
        self._waiting = 0  # bytes of all partitions that are not packed yet
        self._staged: dict[tuple[str, int], StagedPartition] = {}
        self._batches = BatchColumns()  # one for all: they are only used while something is packed

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[StagedPiece]:
        """All rows; closed and on the disk. Raises KafkalogError, OptionError."""
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
        self._keyless += 1  # like a producer: a batch's rows without a key go to one partition
        for key, chosen, first, end in self._groups(column.get("topic"), partitions):
            staged = self._partition(key)
            self._waiting -= staged.waiting
            staged.add(rows, chosen, first, end)
            self._waiting += staged.waiting
        if self._waiting > _WAITING_IN_ALL:
            for staged in self._staged.values():
                staged.pack()
            self._waiting = 0

    def _groups(self, topics: pa.Array | None, partitions: pa.Array) -> Iterator[tuple[tuple[str, int], memoryview, int, int]]:
        """Rows by topic and partition."""
        if self._options.topic is not None:
            names, codes = [self._options.topic], None
        else:
            assert topics is not None  # check_columns has seen it
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
            for one in self._staged.values() if count in (_ROOMY + 1, _OPEN_FILES + 1) else (staged,):
                one.be_one_of(count)
        return staged

    def _finished(self, key: tuple[str, int], staged: StagedPartition) -> StagedPiece:
        segments, size = staged.finish()
        return StagedPiece(*key, f"{self._name}/{key[0]}-{key[1]}", tuple(segments), size)


class StagedPartition:
    """The segments of one Kafka partition, as its leader would have rolled them."""

    def __init__(
        self, files: Files, directory: str, options: SinkOptions, clock: Callable[[], int], batches: BatchColumns
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
        self._is_roomy, self._stays_open = True, True

    @property
    def waiting(self) -> int:
        """Bytes that are not packed yet."""
        return self._sheet.size

    def be_one_of(self, count: int) -> None:
        """The task writes `count` partitions: of many none may hold much memory, of very many none a file."""
        self._is_roomy = count <= _ROOMY
        if count > _OPEN_FILES and self._stays_open:
            self._stays_open = False
            if self._segment is not None:
                self._segment.close_handlers()

    def add(self, rows: IncomingRows, chosen: memoryview, first: int, end: int) -> None:
        """Take rows. Raises RowRefused, UnbuildableBatch, UnwritableFile."""
        self._next_offset = self._sheet.add(rows, chosen, first, end, self._next_offset)
        if self._sheet.size >= max(_WAITING, self._batch_size):
            self.pack()

    def pack(self) -> None:
        """Write what waits."""
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
        if self._is_roomy:
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
        """Write the batches of the columns, segment by segment → where the last of them ends."""
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
        """After the last batch that goes into the segment without a roll (LogSegment.shouldRoll)."""
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
        """Write and sync everything → (segments, bytes)."""
        self.pack()
        self._end_segment()
        self._files.sync_directory(self._directory)
        return self._segments, self._size
