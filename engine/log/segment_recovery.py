"""Read a whole segment as recovery does: how far it is sound, and what its indexes, epochs and producers should be.

Nothing is changed here, so segments can be scanned side by side and applied in turn (LogSegment.recover).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from engine.checkpoint.leader_epochs import EpochEntry
from engine.formats import (
    CODEC_MASK,
    CONTROL_FLAG,
    NO_TIMESTAMP,
    OFFSET_INDEX_ENTRY,
    TIME_INDEX_ENTRY,
    TRANSACTIONAL_FLAG,
    BatchField,
    ControlType,
    RecordField,
    Status,
)
from engine.index.time import TimestampOffset
from engine.kernels.decode import decode_records
from engine.kernels.placement import (
    PLACE_FIELDS,
    Place,
    Placed,
    count_records,
    next_epoch,
    next_invalid,
    next_marker,
    next_producer,
    place_entries,
)
from engine.log.errors import IndexFull, IndexOffsetOverflow, InvalidOffset, SegmentOffsetOverflow
from engine.log.producer_rows import ProducerRow, TxnMarker
from engine.record.codecs import InflateStatus, inflate
from engine.record.columns import BATCH_ROWS, RecordColumns
from engine.record.control import MARKERS, ControlRecordInvalid, control_type, end_txn_marker
from engine.record.windows import LogWalk, Stop, Window

if TYPE_CHECKING:
    from engine.errors import KafkalogError
    from engine.files import ReadOnlyFiles

_LARGEST_WINDOW = 4 << 20  # of a larger batch only the header is kept
_MARKER_BYTES = 1 << 20  # that a compressed control batch may inflate to
_PLACE_BYTES = BATCH_ROWS * TIME_INDEX_ENTRY.size
_NONE = -(2**63)
_UNKNOWN = TimestampOffset(NO_TIMESTAMP, -1)


class ScanStop(Enum):
    """Why a scan went no further."""

    END = "end"  # every byte belongs to a sound batch
    TORN = "torn"  # what is left is too short for a batch, or the last batch goes on behind the end
    BAD_SIZE = "bad-size"  # a size field that no batch can have
    INVALID = "invalid"  # a batch below its header's size, or with a wrong checksum
    BAD_MARKER = "bad-marker"  # a transaction marker that can not be read; it is kept, what follows is not
    REFUSED = "refused"  # `error` says what kept the batch out of the indexes


@dataclass(slots=True)
class SegmentScan:
    """What recovery finds in a segment. Offsets are absolute, positions and sizes bytes of the .log."""

    size: int  # of the file
    valid_size: int = 0  # bytes of sound batches, from the start
    batches: int = 0
    records: int = 0  # of batches of format 2, as their headers count them; a v0/v1 entry counts as one
    next_offset: int | None = None  # behind the last sound batch; None: there is none
    map_end_offset: int | None = None  # the same for the last batch of format 2
    offset_entries: bytearray = field(default_factory=bytearray)
    time_entries: bytearray = field(default_factory=bytearray)
    largest: TimestampOffset = _UNKNOWN
    epochs: list[EpochEntry] = field(default_factory=list)  # each above all before it in the segment
    producers: list[ProducerRow] = field(default_factory=list)
    stop: ScanStop = ScanStop.END
    error: KafkalogError | None = None  # what LogSegment.recover raises, behind what came before it


def scan_segment(
    files: ReadOnlyFiles, path: str, base_offset: int, *, index_interval: int, max_index_size: int, size: int | None = None
) -> SegmentScan:
    """Read the .log at `path`, up to `size` bytes (default: all), as LogSegment.recover reads it. Changes nothing.

    Raises UnreadableFile, FileChangedWhileReading.
    """
    with files.open(path) as file:
        return _Scanner(path, base_offset, index_interval, max_index_size).run(
            LogWalk(file, 0, size, max_batch_bytes=_LARGEST_WINDOW)
        )


_STOPS = {Stop.END: ScanStop.END, Stop.TORN: ScanStop.TORN, Stop.BAD_SIZE: ScanStop.BAD_SIZE}


class _Scanner:
    def __init__(self, path: str, base_offset: int, index_interval: int, max_index_size: int) -> None:
        self._path = path
        self._base_offset = base_offset
        self._state = state = array("q", bytes(8 * PLACE_FIELDS))
        state[Place.BASE_OFFSET] = state[Place.MAX_TIMESTAMP_OFFSET] = state[Place.LAST_TIME_OFFSET] = base_offset
        state[Place.INTERVAL] = index_interval
        state[Place.MAX_TIMESTAMP] = state[Place.LAST_TIME] = NO_TIMESTAMP
        state[Place.OFFSETS_MAX] = max_index_size // OFFSET_INDEX_ENTRY.size
        state[Place.TIMES_MAX] = max_index_size // TIME_INDEX_ENTRY.size
        state[Place.MAP_END] = _NONE
        self._offsets, self._times = bytearray(_PLACE_BYTES), bytearray(_PLACE_BYTES)
        self._markers = RecordColumns(8)
        self._epoch = -1

    def run(self, walk: LogWalk) -> SegmentScan:
        scan = SegmentScan(walk.end)
        for window in walk:
            if not self._take(window, scan):
                break
        else:
            scan.stop = _STOPS[walk.stop]
        state = self._state
        scan.valid_size = state[Place.POSITION]
        scan.next_offset = state[Place.NEXT_OFFSET] if scan.batches else None
        scan.map_end_offset = state[Place.MAP_END] if state[Place.MAP_END] != _NONE else None
        scan.largest = TimestampOffset(state[Place.MAX_TIMESTAMP], state[Place.MAX_TIMESTAMP_OFFSET])
        return scan

    def _take(self, window: Window, scan: SegmentScan) -> bool:
        """Add the batches of `window`; returns whether the scan goes on behind it."""
        table = window.batches.table
        rows = next_invalid(table, 0, window.rows)
        if rows < window.rows:
            scan.stop = ScanStop.INVALID
        markers, count = self._read_markers(window, rows)
        if count < rows:
            rows, scan.stop = count, ScanStop.BAD_MARKER
        count = self._place(table, rows, scan)
        if count < rows:
            rows, scan.stop = count, ScanStop.REFUSED
        self._note_producers(table, rows, markers, scan)
        self._note_epochs(table, rows, scan)
        scan.batches += rows
        scan.records += count_records(table, rows)
        return bool(rows == window.rows) and scan.stop is ScanStop.END

    def _read_markers(self, window: Window, rows: int) -> tuple[dict[int, TxnMarker | None], int]:
        """(what the control batches among the first `rows` say, by row, how many rows count: none behind a bad marker)."""
        table = window.batches.table
        markers: dict[int, TxnMarker | None] = {}
        row = next_marker(table, 0, rows)
        while row < rows:
            try:
                markers[row] = read_marker(window, row, self._markers)
            except ControlRecordInvalid:
                return markers, row + 1
            row = next_marker(table, row + 1, rows)
        return markers, rows

    def _place(self, table: memoryview, rows: int, scan: SegmentScan) -> int:
        """Place the first `rows` batches; returns how many could be, `scan.error` says why not all."""
        row, status = 0, int(Placed.NO_ROOM)
        while status == Placed.NO_ROOM:
            row, at, time_at, status = place_entries(table, row, rows, self._state, self._offsets, self._times)
            scan.offset_entries += memoryview(self._offsets)[:at]
            scan.time_entries += memoryview(self._times)[:time_at]
        if status != Placed.END:
            scan.error = refusal(status, self._path, self._state, table[BatchField.LAST_OFFSET, row])
        return row

    def _note_producers(self, table: memoryview, rows: int, markers: dict[int, TxnMarker | None], scan: SegmentScan) -> None:
        row = next_producer(table, 0, rows)
        while row < rows:
            attributes = table[BatchField.ATTRIBUTES, row]
            scan.producers.append(
                ProducerRow(
                    table[BatchField.PRODUCER_ID, row],
                    table[BatchField.PRODUCER_EPOCH, row],
                    table[BatchField.BASE_SEQUENCE, row],
                    table[BatchField.BASE_OFFSET, row],
                    table[BatchField.LAST_OFFSET, row],
                    table[BatchField.MAX_TIMESTAMP, row],
                    bool(attributes & TRANSACTIONAL_FLAG),
                    bool(attributes & CONTROL_FLAG),
                    markers.get(row),
                )
            )
            row = next_producer(table, row + 1, rows)

    def _note_epochs(self, table: memoryview, rows: int, scan: SegmentScan) -> None:
        row = next_epoch(table, 0, rows, self._epoch)
        while row < rows:
            self._epoch = table[BatchField.LEADER_EPOCH, row]
            scan.epochs.append(EpochEntry(self._epoch, table[BatchField.BASE_OFFSET, row]))
            row = next_epoch(table, row + 1, rows, self._epoch)


def read_marker(window: Window, row: int, records: RecordColumns) -> TxnMarker | None:
    """What the control batch in column `row` says; None: it is empty, or its record ends no transaction.

    records  columns to use, overwritten
    Raises ControlRecordInvalid where the record or its batch can not be read (InvalidRecordException).
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
            raise ControlRecordInvalid(inflated.problem or "the control batch can not be inflated")
        data = memoryview(inflated.data)
        table[BatchField.BODY, row], table[BatchField.BODY_END, row] = 0, len(data)
    count, _, _, _, status = decode_records(data, table, row, row + 1, 0, 0, records.table, 0)
    if not count or (status not in (Status.END, Status.FULL) and table[BatchField.COUNT, row] == 1):
        raise ControlRecordInvalid("the control record can not be read")
    found = records.table
    key = _slice(data, found[RecordField.KEY_POSITION, 0], found[RecordField.KEY_SIZE, 0])
    kind = control_type(key)
    if kind not in MARKERS:
        return None
    value = _slice(data, found[RecordField.VALUE_POSITION, 0], found[RecordField.VALUE_SIZE, 0])
    return TxnMarker(ControlType(kind), end_txn_marker(value), found[RecordField.TIMESTAMP, 0])


def _slice(data: memoryview, position: int, size: int) -> memoryview | None:
    return None if size < 0 else data[position : position + size]


def refusal(status: int, path: str, state: array[int], last_offset: int) -> KafkalogError:
    """The error for a batch that `place_entries` refused with `status`; `last_offset` is that of the batch."""
    placed = Placed(status)
    if placed is Placed.OVERFLOW:
        return SegmentOffsetOverflow(path, state[Place.BASE_OFFSET], last_offset)
    if placed is Placed.OFFSETS_FULL:
        return IndexFull(f"{path}: Attempt to append to a full index (size = {state[Place.OFFSETS]}).")
    if placed is Placed.TIMES_FULL:
        return IndexFull(f"{path}: Attempt to append to a full time index (size = {state[Place.TIMES]}).")
    if placed is Placed.OFFSET_ORDER:
        what = f"Attempt to append an offset {last_offset} to position {state[Place.OFFSETS]} no larger than the last offset"
        return InvalidOffset(f"{path}: {what} appended ({state[Place.LAST_OFFSET]})")
    offset = state[Place.MAX_TIMESTAMP_OFFSET]
    if placed is Placed.TIME_ORDER:
        what = f"Attempt to append an offset ({offset}) to slot {state[Place.TIMES]} no larger than the last offset appended"
        return InvalidOffset(f"{path}: {what} ({state[Place.LAST_TIME_OFFSET]})")
    return IndexOffsetOverflow(f"{path}: Integer overflow for offset: {offset}")
