"""The batches of one append in memory: headers as columns, records on demand. Mirrors MemoryRecords."""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.formats import (
    BATCH_HEADER,
    CODEC_MASK,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    BatchField,
    RecordField,
    Status,
)
from engine.kernels.decode import decode_records
from engine.log.append_errors import CorruptRecord
from engine.record.builder import NewRecord, stage
from engine.record.codecs.bounded import MAX_DECOMPRESSED_BYTES
from engine.record.codecs.codecs import InflateStatus, inflate
from engine.record.columns import RECORD_ROWS, BatchColumns, RecordColumns
from engine.record.json_record import LineInvalid
from engine.record.legacy import RemarkKind
from engine.record.reader import ChunkReader
from engine.record.windows import Window, check_large_batches, scan_range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import Buffer
    from engine.findings import Finding
    from engine.record.lines import LineReader


_FEW = 8  # batches of a typical append
_SMALLEST_BATCH = LOG_OVERHEAD + MIN_RECORD_SIZE
_SMALLEST_RECORD = 7  # length, attributes, timestamp, offset, key size, value size, header count


class Frame(NamedTuple):
    """Whole batches, one after the other, and the bytes after them.

    data     may be changed
    end      position after the last whole batch
    """

    data: bytearray | memoryview
    batches: BatchColumns
    rows: int
    end: int

    @classmethod
    def of(cls, data: bytearray | memoryview) -> Frame:
        """The batches in `data`. Checksums are verified, but a wrong one is not an error here: see BatchField.VALID."""
        view, capacity = memoryview(data), _FEW
        while True:
            batches = BatchColumns(capacity)
            rows = scan_range(view, 0, len(data), batches)
            if rows < capacity:
                break
            capacity = len(data) // _SMALLEST_BATCH + 2
        check_large_batches(view, batches, rows)
        last = rows - 1
        end = batches.table[BatchField.POSITION, last] + batches.table[BatchField.SIZE, last] if rows else 0
        return cls(data, batches, rows, end)

    def check_end(self) -> None:
        """Raise CorruptRecord if bytes follow that cannot be the start of a batch. An incomplete batch is allowed.

        Mirrors ByteBufferLogInputStream.nextBatchSize.
        """
        check_beginning(self.data, self.end, len(self.data))

    def offsets(self) -> Iterator[int]:
        """The offsets of all records. Raises CorruptRecord if they cannot be read."""
        for row in range(self.rows):
            records = decode_batch(self, row)
            if records.broken is not None:
                raise CorruptRecord(records.broken)
            yield from records.columns.field(RecordField.OFFSET)[: records.count]


def check_beginning(data: Buffer, at: int, end: int) -> None:
    """Raise CorruptRecord if data[at:end] cannot be the start of a batch. An incomplete batch is allowed."""
    if end - at < LOG_OVERHEAD:
        return
    size = BATCH_HEADER.field("batch_length", data, at)
    if size < MIN_RECORD_SIZE:
        raise CorruptRecord(f"Record size {size} is less than the minimum record overhead ({MIN_RECORD_SIZE})")
    if end - at >= HEADER_SIZE_UP_TO_MAGIC:
        check_magic(BATCH_HEADER.field("magic", data, at))


def check_magic(magic: int) -> None:
    """Raise CorruptRecord for an unknown message format."""
    if not 0 <= magic <= MAGIC_V2:
        raise CorruptRecord(f"Invalid magic found in record: {magic}")


@dataclass(frozen=True, slots=True)
class FrameRecords:
    """The records of one batch.

    data     the bytes that positions in `columns` refer to
    is_own   `data` has the headers too, in wire format, so the columns can be encoded unchanged
    broken   the damage after the last record; None: there is none
    is_inflated   False: the damage is in the compressed data, not in a record
    cut_off  description of an incomplete last message, which is not one of the records; None: there is none
    """

    data: Buffer
    columns: RecordColumns
    count: int
    is_own: bool
    broken: str | None = None
    cut_off: str | None = None
    is_inflated: bool = True

    def key(self, index: int) -> bytes | None:
        """Key of a record; None is null."""
        return self._bytes(RecordField.KEY_POSITION, RecordField.KEY_SIZE, index)

    def value(self, index: int) -> bytes | None:
        """Value of a record; None is null."""
        return self._bytes(RecordField.VALUE_POSITION, RecordField.VALUE_SIZE, index)

    def _bytes(self, position: RecordField, size: RecordField, index: int) -> bytes | None:
        at, length = self.columns.table[position, index], self.columns.table[size, index]
        return None if length < 0 else bytes(self.data[at : at + length])


def decode_batch(frame: Frame, row: int) -> FrameRecords:
    """The records of the batch in column `row`, decompressed if necessary. RecordField.BATCH is `row`."""
    table = frame.batches.table
    if table[BatchField.MAGIC, row] < MAGIC_V2:
        return _decode_legacy(frame, row)
    data: Buffer = memoryview(frame.data)
    body, end = table[BatchField.POSITION, row] + BATCH_HEADER.size, table[BatchField.BODY_END, row]
    codec = table[BatchField.ATTRIBUTES, row] & CODEC_MASK
    columns = RecordColumns(1)
    if codec:
        inflated = inflate(codec, memoryview(frame.data)[body:end], MAX_DECOMPRESSED_BYTES)
        if inflated.status != InflateStatus.OK:
            return FrameRecords(b"", columns, 0, is_own=True, broken=inflated.problem, is_inflated=False)
        data, body, end = inflated.data, 0, len(inflated.data)
    table[BatchField.BODY, row], table[BatchField.BODY_END, row] = body, end
    view, status = memoryview(data), int(Status.FULL)
    most = max(0, min(table[BatchField.COUNT, row], (end - body) // _SMALLEST_RECORD)) + 1
    capacity = min(most, RECORD_ROWS)  # the record count in the header may be too high
    while status == Status.FULL:
        columns = RecordColumns(capacity)
        count, _, _, _, status = decode_records(view, table, row, row + 1, 0, 0, columns.table, 0)
        capacity = min(most, 4 * capacity)
    table[BatchField.BODY_END, row] = table[BatchField.POSITION, row] + table[BatchField.SIZE, row]
    broken = None if status == Status.END else f"Record {count} of the batch is invalid ({Status(status).name})"
    return FrameRecords(view, columns, count, is_own=True, broken=broken)


def _decode_legacy(frame: Frame, row: int) -> FrameRecords:
    """The records of an entry of format 0 or 1: one record, or those of its inner set."""
    findings: list[Finding] = []
    remarks: list[tuple[Finding, RemarkKind]] = []
    window = Window(memoryview(frame.data), 0, frame.batches, frame.rows)
    records: list[NewRecord] = []
    wrong: int | None = None
    reader = ChunkReader("", findings.append, on_remark=lambda *remark: remarks.append(remark))
    for chunk in reader.chunks(window, row, row + 1):
        table = chunk.records.table
        for index in range(chunk.first, chunk.end):
            offset, timestamp = table[RecordField.OFFSET, index], table[RecordField.TIMESTAMP, index]
            records.append(NewRecord(offset, timestamp, chunk.key(index), chunk.value(index)))
            if wrong is None and not table[RecordField.VALID, index]:
                wrong = table[RecordField.CRC, index]
    data, columns = stage(records)
    columns.field(RecordField.BATCH)[: len(records)] = memoryview(array("q", [row]) * len(records))
    broken = findings[0].what if findings else None
    if wrong is not None:
        broken = f"Record is corrupt (stored crc = {wrong})"
    cut_off = next((finding.what for finding, kind in remarks if kind is RemarkKind.CUT_OFF), None)
    return FrameRecords(data, columns, len(records), is_own=False, broken=broken, cut_off=cut_off)


class BrokenBatch(NamedTuple):
    """A batch with a valid checksum and unreadable records. For formats 0 and 1 only the last offset is known."""

    first_offset: int
    last_offset: int
    what: str


def broken_batches(
    data: Buffer, batches: BatchColumns, rows: int, end: int, records: RecordColumns
) -> Iterator[BrokenBatch]:
    """Yield those of the first `rows` batches, up to byte `end` of `data`, that are incomplete or damaged inside.

    records  columns to use; they are overwritten
    """
    found: dict[int, str] = {}  # by position

    def note(finding: Finding) -> None:
        found.setdefault(finding.where.position or 0, finding.what)

    def note_remark(remark: Finding, kind: RemarkKind) -> None:
        if kind is RemarkKind.CUT_OFF:
            note(remark)

    window = Window(memoryview(data), 0, batches, rows)
    for _chunk in ChunkReader("", note, records=records, on_remark=note_remark).chunks(window):
        pass
    table = batches.table
    for row in range(rows if found else 0):
        what = found.get(table[BatchField.POSITION, row])
        if what is not None and table[BatchField.POSITION, row] < end:
            is_legacy = table[BatchField.MAGIC, row] < MAGIC_V2
            first = BatchField.LAST_OFFSET if is_legacy else BatchField.BASE_OFFSET
            yield BrokenBatch(table[first, row], table[BatchField.LAST_OFFSET, row], what)


_JSON = 16  # bytes of JSON for one byte of a record: an escape needs 6, a header without key and value up to 32 for its 2
_REST = 1 << 20  # bytes for white space and ignored members


class LineEnds:
    """Finds the ends of lines in an input.

    reader  has the current line number        max_message_size  bytes of the largest batch
    is_compressed  batches may be smaller than their lines: then the limit for a line is the largest decompressed batch
    """

    def __init__(self, reader: LineReader, max_message_size: int, *, is_compressed: bool) -> None:
        self._reader, self._max_message_size = reader, max_message_size
        self.longest = max(_JSON * max_message_size, MAX_DECOMPRESSED_BYTES if is_compressed else 0) + _REST

    def is_whole(self, data: bytearray, seen: int, filled: int) -> bool:
        """Is there a line end in data[seen:filled]? There is none before. Raises LineInvalid if the line is too long."""
        if data.find(b"\n", seen, filled) >= 0:
            return True
        if filled > self.longest:
            what = (f"line {self._reader.line}: {filled} bytes without a line end; with max.message.bytes at "
                    f"{self._max_message_size} lines of up to {self.longest} bytes are read")
            raise LineInvalid(what)
        return False


def is_whole_batch(data: bytearray, filled: int, check_size: Callable[[int], None]) -> bool:
    """Is the batch at the start of data[:filled] complete?

    check_size  raises an error if a batch of that size is too large, before it is read
    Raises CorruptRecord for bytes that cannot be the start of a batch.
    """
    if filled < LOG_OVERHEAD:
        return False
    check_beginning(data, 0, filled)
    size = LOG_OVERHEAD + BATCH_HEADER.field("batch_length", data)
    if size > filled:
        check_size(size)
    return size <= filled


_MOST = 4096  # waiting runs after which a flush is requested


class Appended(NamedTuple):
    """Consecutive batches in the log; or one duplicate, with the offsets of the batch in the log.

    cut_off  see Validated; on a follower, what is damaged inside the batch (BrokenBatch)
    """

    first_offset: int
    last_offset: int
    is_duplicate: bool = False
    cut_off: str | None = None

    @property
    def amount(self) -> int:
        """Number of its offsets: records, or bytes of a log of 0.7."""
        return self.last_offset - self.first_offset + 1


class Appends(Protocol):
    """Receives the results of appends, in order. A list implements it."""

    def append(self, one: Appended, /) -> None:
        """Add the next result."""


class Outcome:
    """An Appends that stores little: adjacent results become one.

    amount     offsets of all batches so far, with duplicates        taken  offsets that `take` returned
    last       the latest batches; None: there were none
    cut_off    number of incomplete or damaged ones        first_cut_off  the first of them
    """

    def __init__(self) -> None:
        self.amount = self.taken = self.cut_off = 0
        self.last: Appended | None = None
        self.first_cut_off: Appended | None = None
        self._waiting: deque[Appended] = deque()

    def append(self, one: Appended, /) -> None:
        """See Appends. Batches that follow the previous ones directly become one run with them."""
        self.amount += one.amount
        self.last = one
        if one.cut_off is not None:
            self.cut_off += 1
            self.first_cut_off = self.first_cut_off or one
        before = self._waiting[-1] if self._waiting else None
        if before is None or one.is_duplicate or before.is_duplicate or one.first_offset != before.last_offset + 1:
            self._waiting.append(one)
        else:
            self._waiting[-1] = before._replace(last_offset=one.last_offset)

    @property
    def is_waiting(self) -> bool:
        """Are there results that `take` has not returned?"""
        return bool(self._waiting)

    @property
    def is_full(self) -> bool:
        """Are there too many waiting runs?"""
        return len(self._waiting) > _MOST

    def take(self, end_offset: int) -> list[Appended]:
        """Remove and return the runs below `end_offset`, which is the end of a batch, up to the first that is not below it."""
        taken: list[Appended] = []
        while self._waiting and self._waiting[0].first_offset < end_offset:
            one = self._waiting.popleft()
            if one.last_offset >= end_offset:
                self._waiting.appendleft(one._replace(first_offset=end_offset))
                one = one._replace(last_offset=end_offset - 1)
            taken.append(one)
            self.taken += one.amount
        return taken
