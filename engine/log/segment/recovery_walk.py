"""Read a .log as recovery does, window by window, in bounded memory. Changes nothing.

The loop is in `engine.kernels.recovery`. This module does what the kernel cannot: read the file, compute checksums with
libraries, parse transaction markers, and process batches larger than a window.

`scan_segment` keeps what LogSegment.recover then applies, and why the indexes may refuse a batch. Mirrors the reading part of
LogSegment.recover; as nothing is changed, segments can be scanned in parallel.
"""

from __future__ import annotations

import zlib
from array import array
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import became_shorter
from engine.formats import (
    BATCH_HEADER,
    CODEC_MASK,
    HEADER_SIZE_UP_TO_MAGIC,
    LEGACY_V0,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_TIMESTAMP,
    OFFSET_INDEX_ENTRY,
    TIME_INDEX_ENTRY,
    BatchField,
    ControlType,
    RecordField,
    Status,
)
from engine.index.sparse import TimestampOffset
from engine.kernels.checksum import CASTAGNOLI, IEEE, make_tables
from engine.kernels.decode import decode_records
from engine.kernels.recovery import Recovered, flush_producers, new_slots, recover_batches
from engine.kernels.walk import WALK_FIELDS, Flag, Placed, Placing, Walk, Walked
from engine.log.epochs.runs import EpochRun, EpochRuns
from engine.log.errors import IndexFull, IndexOffsetOverflow, InvalidOffset, SegmentOffsetOverflow
from engine.log.segment.producer_rows import ReportedRows, RowChunk, TxnMarker
from engine.record.codecs.codecs import InflateStatus, inflate
from engine.record.columns import BatchColumns, RecordColumns, Table
from engine.record.control import MARKERS, ControlRecordInvalid, control_type, end_txn_marker
from engine.record.windows import Window, crc32c, scan_range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.errors import KafkalogError
    from engine.files import OpenFile, ReadOnlyFiles
    from engine.log.segment.producer_rows import ProducerRow


_MAGIC_AT, _CHECKED_FROM = BATCH_HEADER.positions["magic"], BATCH_HEADER.positions["attributes"]
WINDOW_SIZE = 1 << 20
LARGEST_WINDOW = 4 << 20  # a larger batch is checked in pieces
_MARKER_BYTES = 1 << 20  # highest decompressed size of a control batch
_ROWS = 1032  # producers, and epochs, that one kernel call returns
_ENTRIES = 512  # index entries that one kernel call creates
_TABLES = (memoryview(make_tables(CASTAGNOLI)), memoryview(make_tables(IEEE)))
_SMALLEST_WINDOW = BATCH_HEADER.size


class ScanStop(Enum):
    """Why a walk stopped."""

    END = "end"  # every byte belongs to a sound batch
    TORN = "torn"  # the rest is too short for a batch, or the last batch is incomplete
    BAD_SIZE = "bad-size"  # a size field that no batch can have
    INVALID = "invalid"  # a batch smaller than its header, or with a wrong checksum
    NO_OFFSET_LEFT = "no-offset-left"  # after the batch's last offset there is no other: see kernels.recovery
    BAD_MARKER = "bad-marker"  # a transaction marker that cannot be parsed; it is kept, later batches are not
    REFUSED = "refused"  # the index refuses an entry for a batch: see `refusal`


class RecoveryWalk:
    """The sound batches of `file` from its start to byte `end`. Iterate over `chunks` once to run it.

    offset_entries, time_entries   entries for new indexes, in the format of the files
    epochs    runs of batches with the same leader epoch
    stop, refused_offset   why the walk ended, and the last offset of the batch that was refused
    """

    def __init__(self, file: OpenFile, end: int, base_offset: int, index_interval: int, max_index_size: int) -> None:
        self._file, self._end = file, end
        self.state = state = memoryview(array("q", bytes(8 * WALK_FIELDS)))
        state[Placing.BASE_OFFSET] = state[Placing.MAX_TIMESTAMP_OFFSET] = state[Placing.LAST_TIME_OFFSET] = base_offset
        state[Placing.INTERVAL] = index_interval
        state[Placing.MAX_TIMESTAMP] = state[Placing.LAST_TIME] = NO_TIMESTAMP
        state[Placing.OFFSETS_MAX] = max_index_size // OFFSET_INDEX_ENTRY.size
        state[Placing.TIMES_MAX] = max_index_size // TIME_INDEX_ENTRY.size
        state[Walk.EPOCH] = -1
        state[Walk.NEXT_OFFSET] = base_offset
        self.offset_entries, self.time_entries = bytearray(), bytearray()
        self.epochs = EpochRuns()
        self.stop = ScanStop.END
        self.refused = 0  # a status of kernels.walk.Placed
        self.refused_offset = 0
        self._offsets = memoryview(bytearray(_ENTRIES * OFFSET_INDEX_ENTRY.size))
        self._times = memoryview(bytearray(_ENTRIES * TIME_INDEX_ENTRY.size))
        self._epochs, self._rows = Table(4, _ROWS), ReportedRows(_ROWS)
        self._slots = new_slots()
        self._marker_batch, self._marker_records = BatchColumns(1), RecordColumns(8)
        self._is_over = False

    def chunks(self) -> Iterator[RowChunk]:
        """Read the file and yield the producers' batches. Raises UnreadableFile, FileChangedWhileReading."""
        buffer = bytearray(max(_SMALLEST_WINDOW, min(WINDOW_SIZE, self._end)))
        while not self._is_over:
            position = self.state[Placing.POSITION]
            data = memoryview(buffer)[: min(len(buffer), self._end - position)]
            if self._file.read_into(data, position) < len(data):
                raise became_shorter(self._file.path, self._end)
            yield from self._window(data.toreadonly())
            if self.state[Placing.POSITION] > position or self._is_over:
                continue
            size = self._next_size(data)
            if size > self._end - position:
                self._stop_at(ScanStop.END if position == self._end else ScanStop.TORN)
            elif size <= LARGEST_WINDOW:
                buffer = bytearray(size)
            else:
                yield from self._large(position, size)
        status = Walked.NO_ROOM
        while status == Walked.NO_ROOM:
            status = flush_producers(self._slots, self.state, self._rows.table)
            yield from self._take_rows()

    def _stop_at(self, stop: ScanStop) -> None:
        self.stop, self._is_over = stop, True

    def _next_size(self, data: memoryview) -> int:
        """Total size of the batch at the start of `data`; more than the file has if the size field is not in it."""
        if len(data) <= HEADER_SIZE_UP_TO_MAGIC:
            return self._end + 1
        return max(_size_at(data, 0), len(data) + 1)

    def _window(self, data: memoryview) -> Iterator[RowChunk]:
        """Process the whole batches of `data`."""
        at, flags = 0, 0
        while not self._is_over:
            at, status = self._step(data, at, len(data), flags)
            flags = 0
            yield from self._take_rows()
            if status in (Walked.END, Walked.TORN):
                return
            if status == Walked.UNCHECKED:
                if self._is_sound(data, at):
                    flags = Flag.CHECKED
                else:
                    self._stop_at(ScanStop.INVALID)
            elif status == Walked.MARKER:
                at = self._parse_marker(data, at)
            elif status == Walked.SLOTS_FULL:
                while flush_producers(self._slots, self.state, self._rows.table) == Walked.NO_ROOM:
                    yield from self._take_rows()
                yield from self._take_rows()
            elif status != Walked.NO_ROOM:
                self._refuse(data, at, status)

    def _step(self, data: memoryview, at: int, end: int, flags: int) -> tuple[int, int]:
        """Call the kernel once and collect index entries and epochs, but not the rows."""
        state = self.state
        at, status = recover_batches(
            data, at, end, flags,
            Recovered(state, self._offsets, self._times, self._epochs.table, self._rows.table, self._slots), *_TABLES,
        )
        self.offset_entries += self._offsets[: state[Placing.OFFSETS_AT]]
        self.time_entries += self._times[: state[Placing.TIMES_AT]]
        epochs = self._epochs.table
        for one in range(state[Walk.EPOCHS_AT]):
            self.epochs.add(EpochRun(epochs[0, one], epochs[1, one], epochs[2, one], epochs[3, one]))
        state[Placing.OFFSETS_AT] = state[Placing.TIMES_AT] = state[Walk.EPOCHS_AT] = 0
        return at, int(status)

    def _take_rows(self) -> Iterator[RowChunk]:
        count = self.state[Walk.REPORTED_AT]
        if count:
            self.state[Walk.REPORTED_AT] = 0
            yield RowChunk.reported(self._rows, count)

    def _refuse(self, data: memoryview, at: int, status: int) -> None:
        if status == Walked.BAD_SIZE:
            self._stop_at(ScanStop.BAD_SIZE)
        elif status == Walked.INVALID:
            self._stop_at(ScanStop.INVALID)
        elif status == Walked.NO_OFFSET_LEFT:
            self._stop_at(ScanStop.NO_OFFSET_LEFT)
        else:
            self.refused, self.refused_offset = status, _last_offset(data, at)
            self._stop_at(ScanStop.REFUSED)

    def _is_sound(self, data: memoryview, at: int) -> bool:
        """Is the checksum of the batch at `at` correct?"""
        end = at + _size_at(data, at)
        if MAGIC_V2 <= data[at + _MAGIC_AT] < 128:
            return crc32c(data[at + _CHECKED_FROM : end]) == BATCH_HEADER.field("crc", data, at)
        return zlib.crc32(data[at + _MAGIC_AT : end]) == LEGACY_V0.field("crc", data, at)

    def _parse_marker(self, data: memoryview, at: int) -> int:
        """Process the control batch at `at`. Returns the position of the next batch."""
        end = at + _size_at(data, at)
        rows = scan_range(data, at, end, self._marker_batch)
        try:
            marker = read_marker(Window(data, 0, self._marker_batch, rows), 0, self._marker_records)
            is_bad = False
        except ControlRecordInvalid:
            marker, is_bad = None, True
        _, status = self._step(data, at, end, Flag.CHECKED | Flag.MARKER_CHECKED)
        if status == Walked.END:
            self._note_marker(marker, is_bad=is_bad)
            if is_bad:
                self._stop_at(ScanStop.BAD_MARKER)
            return end
        if status != Walked.NO_ROOM:
            self._refuse(data, at, status)
        return at

    def _note_marker(self, marker: TxnMarker | None, *, is_bad: bool) -> None:
        """Complete the last row of the kernel; the row of a bad marker is removed."""
        last = self.state[Walk.REPORTED_AT] - 1
        if is_bad:
            self.state[Walk.REPORTED_AT] = last
        else:
            self._rows.note_marker(last, marker)

    def _large(self, position: int, size: int) -> Iterator[RowChunk]:
        """Process one batch of `size` bytes, more than a window: its checksum in pieces, then only its header."""
        head = memoryview(self._file.read_exactly(position, BATCH_HEADER.size))
        is_legacy = not MAGIC_V2 <= head[_MAGIC_AT] < 128
        crc = 0
        start = position + (_MAGIC_AT if is_legacy else _CHECKED_FROM)
        for at in range(start, position + size, WINDOW_SIZE):
            piece = self._file.read_exactly(at, min(WINDOW_SIZE, position + size - at))
            crc = zlib.crc32(piece, crc) if is_legacy else crc32c(piece, crc)
        if crc != (LEGACY_V0 if is_legacy else BATCH_HEADER).field("crc", head):
            self._stop_at(ScanStop.INVALID)
            return
        status = int(Walked.NO_ROOM)
        while status in (Walked.NO_ROOM, Walked.SLOTS_FULL):
            _, status = self._step(head, 0, len(head), Flag.CHECKED | Flag.HEAD_ONLY)
            if status == Walked.SLOTS_FULL:
                while flush_producers(self._slots, self.state, self._rows.table) == Walked.NO_ROOM:
                    yield from self._take_rows()
            elif status == Walked.MARKER:  # a valid marker is never that large
                _, status = self._step(head, 0, len(head), Flag.CHECKED | Flag.HEAD_ONLY | Flag.MARKER_CHECKED)
                if status == Walked.END:
                    self._note_marker(None, is_bad=True)
                    self._stop_at(ScanStop.BAD_MARKER)
            yield from self._take_rows()
        if status != Walked.END:
            self._refuse(head, 0, status)


def _size_at(data: memoryview, at: int) -> int:
    """Total size of the batch at `at`, from its header."""
    return BATCH_HEADER.field("batch_length", data, at) + LOG_OVERHEAD


def _last_offset(data: memoryview, at: int) -> int:
    """Last offset of the batch at `at`."""
    offset = BATCH_HEADER.field("base_offset", data, at)
    if not MAGIC_V2 <= data[at + _MAGIC_AT] < 128:
        return offset
    return offset + BATCH_HEADER.field("last_offset_delta", data, at)


def read_marker(window: Window, row: int, records: RecordColumns) -> TxnMarker | None:
    """Parse the control batch in column `row`. None: it is empty, or its record does not end a transaction.

    records  columns to use; they are overwritten
    Raises ControlRecordInvalid if the record or its batch cannot be parsed (InvalidRecordException).
    """
    table, data = window.batches.table, window.data
    if table[BatchField.COUNT, row] == 0:
        return None
    if window.partial:
        raise ControlRecordInvalid("the control batch is too large")
    codec = table[BatchField.ATTRIBUTES, row] & CODEC_MASK
    if codec:
        body = data[table[BatchField.BODY, row] : table[BatchField.BODY_END, row]]
        inflated = inflate(codec, body, _MARKER_BYTES)
        if inflated.status != InflateStatus.OK:
            raise ControlRecordInvalid(inflated.problem or "the control batch cannot be decompressed")
        data = memoryview(inflated.data)
        table[BatchField.BODY, row], table[BatchField.BODY_END, row] = 0, len(data)
    count, _, _, _, status = decode_records(data, table, row, row + 1, 0, 0, records.table, 0)
    if not count or (status not in (Status.END, Status.FULL) and table[BatchField.COUNT, row] == 1):
        raise ControlRecordInvalid("the control record cannot be read")
    found = records.table
    key = _slice(data, found[RecordField.KEY_POSITION, 0], found[RecordField.KEY_SIZE, 0])
    kind = control_type(key)
    if kind not in MARKERS:
        return None
    value = _slice(data, found[RecordField.VALUE_POSITION, 0], found[RecordField.VALUE_SIZE, 0])
    return TxnMarker(ControlType(kind), end_txn_marker(value), found[RecordField.TIMESTAMP, 0])


def _slice(data: memoryview, position: int, size: int) -> memoryview | None:
    return None if size < 0 else data[position : position + size]


__all__ = ["Disorder", "Producers", "ScanStop", "SegmentScan", "read_marker", "refusal", "scan_segment"]

_UNKNOWN = TimestampOffset(NO_TIMESTAMP, -1)
_MOST_ROWS = 1 << 15  # producer rows that a scan keeps in memory: 2.5 MiB; several scans may run in parallel


class Producers:
    """The producer rows of a scan. They can be iterated repeatedly; `chunks` returns many at a time.

    A scan with very many rows does not keep them: each iteration reads the segment again, so memory is bounded.
    """

    def __init__(self, again: Callable[[], Iterator[RowChunk]]) -> None:
        self._chunks: list[RowChunk] | None = []
        self._again = again
        self._count = 0

    def keep(self, chunk: RowChunk) -> None:
        """Store rows while the segment is read."""
        self._count += chunk.count
        if self._count > _MOST_ROWS:
            self._chunks = None
        elif self._chunks is not None:
            self._chunks.append(chunk)

    def chunks(self) -> Iterator[RowChunk]:
        """All rows."""
        return self._again() if self._chunks is None else iter(self._chunks)

    def __iter__(self) -> Iterator[ProducerRow]:
        for chunk in self.chunks():
            yield from chunk


def _nothing() -> Iterator[RowChunk]:
    return iter(())


class Disorder(NamedTuple):
    """The first batch whose base offset is below `expected`: its byte `position` and `offset`; and the number of such batches.

    No checksum covers base offsets. Recovery, like Kafka, keeps such batches unless an index refuses them.
    """

    position: int
    offset: int
    expected: int
    batches: int


class UnknownMagic(NamedTuple):
    """The first batch with an unknown magic, at byte `position`, and the number of such batches.

    No checksum covers the magic. Recovery, like Kafka, treats a magic above 2 as 2 and keeps the batch; consumers stop there.
    """

    position: int
    offset: int
    magic: int
    batches: int


@dataclass(slots=True)
class SegmentScan:
    """What recovery reads in a segment. Offsets are absolute, positions and sizes bytes of the .log."""

    size: int  # of the file
    valid_size: int = 0  # bytes of sound batches, from the start
    batches: int = 0
    records: int = 0  # from the headers of batches of format 2; a v0/v1 entry counts as one
    next_offset: int | None = None  # offset after the last sound batch; None: there is none
    map_end_offset: int | None = None  # offset after the last batch of format 2
    offset_entries: bytearray = field(default_factory=bytearray)
    time_entries: bytearray = field(default_factory=bytearray)
    largest: TimestampOffset = _UNKNOWN
    epochs: EpochRuns = field(default_factory=EpochRuns)  # not finished: batches of the next segment decide too
    # rows for producer snapshots, in order: see kernels.recovery.recover_batches
    producers: Producers = field(default_factory=lambda: Producers(_nothing))
    stop: ScanStop = ScanStop.END
    disorder: Disorder | None = None
    unknown_magic: UnknownMagic | None = None
    error: KafkalogError | None = None  # LogSegment.recover applies the batches before it, then raises it

    def end_offset(self, base_offset: int) -> int:
        """The offset after the last sound batch of the segment that begins at `base_offset`."""
        return base_offset if self.next_offset is None else self.next_offset


def scan_segment(
    files: ReadOnlyFiles, path: str, base_offset: int, *, index_interval: int, max_index_size: int, size: int | None = None
) -> SegmentScan:
    """Read the .log at `path`, up to `size` bytes (default: all), as LogSegment.recover does. Changes nothing.

    Raises UnreadableFile, FileChangedWhileReading.
    """
    with files.open(path) as file:
        end = file.size() if size is None else size
        walk = RecoveryWalk(file, end, base_offset, index_interval, max_index_size)
        scan = SegmentScan(end)

        def again() -> Iterator[RowChunk]:
            with files.open(path) as second:
                yield from RecoveryWalk(second, scan.valid_size, base_offset, index_interval, max_index_size).chunks()

        scan.producers = producers = Producers(again)
        for chunk in walk.chunks():
            producers.keep(chunk)
    state = walk.state
    scan.valid_size = state[Placing.POSITION]
    scan.batches, scan.records = state[Walk.BATCHES], state[Walk.RECORDS]
    scan.next_offset = state[Walk.NEXT_OFFSET] if scan.batches else None
    scan.map_end_offset = state[Walk.MAP_END] if state[Walk.HAS_MAP_END] else None
    scan.largest = TimestampOffset(state[Placing.MAX_TIMESTAMP], state[Placing.MAX_TIMESTAMP_OFFSET])
    scan.offset_entries, scan.time_entries, scan.epochs = walk.offset_entries, walk.time_entries, walk.epochs
    scan.stop = walk.stop
    if state[Walk.DISORDERS]:
        scan.disorder = Disorder(*(state[at] for at in (Walk.DISORDER_AT, Walk.DISORDER_OFFSET, Walk.DISORDER_EXPECTED,
                                                        Walk.DISORDERS)))
    if state[Walk.UNKNOWN_MAGICS]:
        first = (Walk.UNKNOWN_MAGIC_AT, Walk.UNKNOWN_MAGIC_OFFSET, Walk.UNKNOWN_MAGIC, Walk.UNKNOWN_MAGICS)
        scan.unknown_magic = UnknownMagic(*(state[at] for at in first))
    if walk.stop is ScanStop.REFUSED:
        scan.error = refusal(walk.refused, path, state, walk.refused_offset)
    return scan


def refusal(status: int, path: str, state: memoryview, last_offset: int) -> KafkalogError:
    """The error for a batch, with its last offset, that `place_entries` refused with `status`."""
    placed = Placed(status)
    if placed is Placed.OVERFLOW:
        return SegmentOffsetOverflow(path, state[Placing.BASE_OFFSET], last_offset)
    if placed is Placed.OFFSETS_FULL:
        return IndexFull(f"{path}: Attempt to append to a full index (size = {state[Placing.OFFSETS]}).")
    if placed is Placed.TIMES_FULL:
        return IndexFull(f"{path}: Attempt to append to a full time index (size = {state[Placing.TIMES]}).")
    if placed is Placed.OFFSET_ORDER:
        what = f"Attempt to append an offset {last_offset} to position {state[Placing.OFFSETS]} no larger than the last offset"
        return InvalidOffset(f"{path}: {what} appended ({state[Placing.LAST_OFFSET]})")
    offset = state[Placing.MAX_TIMESTAMP_OFFSET]
    if placed is Placed.TIME_ORDER:
        what = f"Attempt to append an offset ({offset}) to slot {state[Placing.TIMES]} no larger than the last offset appended"
        return InvalidOffset(f"{path}: {what} ({state[Placing.LAST_TIME_OFFSET]})")
    return IndexOffsetOverflow(f"{path}: Integer overflow for offset: {offset}")
