"""Windows → chunks of decoded records: the only decoder from bytes to columns, for every format and codec.

A chunk is homogeneous: its batches are all plain v2, all compressed v2, or one v0/v1 entry; and all control batches or all
data. Damage is reported as findings; records decoded before it are in the columns.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from engine.findings import Finding, Where
from engine.formats import CODEC_MASK, CONTROL_FLAG, LEFT_OUT, MAGIC_V2, BatchField, Codec, RecordField, Status
from engine.kernels.decode import decode_records, read_varint
from engine.kernels.frames import inflate_frames
from engine.kernels.search import leave_out_batches
from engine.kernels.select import run_end
from engine.record.codecs.bounded import MAX_DECOMPRESSED_BYTES
from engine.record.codecs.codecs import FINDINGS, Inflated, InflateStatus, inflate
from engine.record.columns import BatchColumns, RecordColumns
from engine.record.legacy import decode_entry, decode_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.kernels.search import Needles
    from engine.record.legacy import RemarkKind
    from engine.record.patterns import Literals
    from engine.record.windows import Window

_ARENA = 256 << 10  # decompressed bytes that are decoded at once, while they are in the cache
_NOTHING = Inflated(b"", InflateStatus.OK, None)

_WHAT = {
    Status.BAD_VARINT: ("record-invalid", "a varint of record {record} is cut off or too long"),
    Status.BAD_RECORD: ("record-invalid", "a length inside record {record} does not fit"),
    Status.BAD_COUNT: ("record-count-mismatch", "the header says {count} records, but bytes are left after them"),
    Status.BAD_START: ("record-invalid", "the records are outside the batch"),
}


class Chunk(NamedTuple):
    """Some decoded records, valid until the next chunk is read.

    Batches first_row … last_row − 1 were in no chunk before; the first records may belong to the last batch of the previous
    chunk.
    """

    data: memoryview  # the bytes to which key, value and header positions refer
    batches: BatchColumns
    first_row: int
    last_row: int
    records: RecordColumns
    first: int  # the records are in the columns first … end − 1
    end: int
    control: bool
    is_overlong: bool = False  # one message of format 0 or 1 whose value is longer than the message: do not read the value

    def without_records(self) -> Chunk:
        """Return the chunk without its records."""
        return self._replace(end=self.first, is_overlong=False)

    def key(self, record: int) -> bytes | None:
        """Return the key of one record; None is null."""
        return self._bytes(RecordField.KEY_POSITION, RecordField.KEY_SIZE, record)

    def value(self, record: int) -> bytes | None:
        """Return the value of one record; None is null."""
        return self._bytes(RecordField.VALUE_POSITION, RecordField.VALUE_SIZE, record)

    def headers(self, record: int) -> list[tuple[bytes, bytes | None]]:
        """Return the headers of one record, in order: (key, value)."""
        at = self.records.table[RecordField.HEADERS_POSITION, record]
        headers: list[tuple[bytes, bytes | None]] = []
        for _ in range(self.records.table[RecordField.HEADER_COUNT, record]):
            size, at = read_varint(self.data, at, len(self.data))
            key = bytes(self.data[at : at + size])
            size, at = read_varint(self.data, at + size, len(self.data))
            headers.append((key, None if size < 0 else bytes(self.data[at : at + size])))
            at += max(size, 0)
        return headers

    def where(self, record: int, path: str, base: int) -> Where:
        """Return the place of one record for findings: its batch in the file `path`, whose window begins at byte `base`."""
        row = self.records.table[RecordField.BATCH, record]
        position = base + self.batches.table[BatchField.POSITION, row]
        return Where(path, position, self.records.table[RecordField.OFFSET, record])

    def slice(self, position: RecordField, size: RecordField, record: int) -> memoryview | None:
        """Return a field of one record without a copy; None is null."""
        table = self.records.table
        length = table[size, record]
        return None if length < 0 else self.data[table[position, record] : table[position, record] + length]

    def _bytes(self, position: RecordField, size: RecordField, record: int) -> bytes | None:
        field = self.slice(position, size, record)
        return None if field is None else bytes(field)


class Arena(NamedTuple):
    """Decompressed bodies of batches row … end − 1, and problems of some of them: (code, what) by row."""

    row: int
    end: int
    data: memoryview
    problems: dict[int, tuple[str, str]]


class _Arenas:
    """Decompresses the batches row … end − 1 of a window into `room`, as many at a time as fit."""

    def __init__(self, window: Window, row: int, end: int, limit: int, room: memoryview) -> None:
        self._window, self._row, self._end, self._limit, self._room = window, row, end, limit, room
        self._inflated: Inflated | None = None  # of the next batch, which did not fit

    @property
    def exhausted(self) -> bool:
        """Whether all batches were returned in arenas."""
        return self._row == self._end

    def fill(self) -> Arena:
        """Return the next arena: as many batches as fit `room`, or one larger batch. Sets BODY and BODY_END of the batches."""
        first, table, at = self._row, self._window.batches.table, 0
        if self._inflated is None and self._limit >= len(self._room):
            at = self._fill_at_once()
            if self._row > first:
                return Arena(first, self._row, self._room[:at], {})
        problems: dict[int, tuple[str, str]] = {}
        while self._row < self._end:
            row = self._row
            if table[BatchField.BODY, row] == LEFT_OUT:
                self._row += 1
                continue
            inflated = self._inflated or self._inflate(row)
            self._inflated = None
            size = len(inflated.data)
            if size > len(self._room) - at:
                if row > first:
                    self._inflated = inflated
                    break
                data = memoryview(inflated.data)  # one large batch, used without a copy
                self._take(row, 0, inflated, problems)
                return Arena(row, row + 1, data, problems)
            self._room[at : at + size] = inflated.data
            self._take(row, at, inflated, problems)
            at += size
        return Arena(first, self._row, self._room[:at], problems)

    def _fill_at_once(self) -> int:
        """Decompress as many ordinary batches as fit `room` in one kernel call; returns the bytes used."""
        from engine.record.codecs.libzstd import calls_for
        from engine.record.codecs.lz4 import written_checksums

        data, table = self._window.data, self._window.batches.table
        library = calls_for(table, self._row, self._end)
        self._row, at = inflate_frames(data, table, self._row, self._end, written_checksums(), library, self._room, 0)
        return int(at)

    def _inflate(self, row: int) -> Inflated:
        table = self._window.batches.table
        body, body_end = table[BatchField.BODY, row], table[BatchField.BODY_END, row]
        if not table[BatchField.COUNT, row] and body == body_end:
            return _NOTHING
        inflated = inflate(table[BatchField.ATTRIBUTES, row] & CODEC_MASK, self._window.data[body:body_end], self._limit)
        # a batch beyond the limit yields no records in any format: they would end at an arbitrary place
        return inflated._replace(data=b"") if inflated.status == InflateStatus.OVER_LIMIT else inflated

    def _take(self, row: int, at: int, inflated: Inflated, problems: dict[int, tuple[str, str]]) -> None:
        table = self._window.batches.table
        table[BatchField.BODY, row], table[BatchField.BODY_END, row] = at, at + len(inflated.data)
        if inflated.status != InflateStatus.OK:
            problems[row] = (FINDINGS[inflated.status], inflated.problem or "")
        self._row = row + 1


class ChunkReader:
    """Decodes the records of windows. One reader is for one file; its columns are reused for each chunk.

    path     file name for findings
    report   receives problems
    limit    decompressed bytes of one batch (--max-decompressed-bytes)
    records  columns to reuse, which saves time with many small files
    literals  sets of byte strings: a wanted batch holds one of each set. Records of other batches of format 2 are not decoded
              if their checksum is right
    with_overlong  return messages of which only the value's length is wrong, too, each as a chunk (see Chunk.is_overlong)
    on_remark  receives problems in inner sets that Kafka ignores, and their kind; None: they are not reported
    """

    def __init__(
        self, path: str, report: Callable[[Finding], None], limit: int = MAX_DECOMPRESSED_BYTES,
        records: RecordColumns | None = None, *, literals: Sequence[Literals] = (),
        on_remark: Callable[[Finding, RemarkKind], None] | None = None, with_overlong: bool = False,
    ) -> None:  # fmt: skip
        self._on_remark, self._with_overlong = on_remark, with_overlong
        self._path = path
        self._report = report
        self._limit = limit
        self._records = RecordColumns() if records is None else records
        self._room = memoryview(b"")  # for compressed batches; allocated on first use
        self._large: memoryview | None = None  # a decompressed batch that is larger than `_room`
        self._literals = literals
        self._needles: Needles | None = None  # made for the first bytes in which they are searched for

    def chunks(self, window: Window, row: int = 0, last_row: int | None = None) -> Iterator[Chunk]:
        """Return batches row … last_row − 1 of `window` (default: all) in order, with their records.

        Batches of format 2 with BODY LEFT_OUT belong to the chunk of their neighbours, or to none.
        """
        table = window.batches.table
        last_row = window.rows if last_row is None else last_row
        bodies = int(BatchField.BODY)
        while row < last_row:
            if table[bodies, row] == LEFT_OUT:
                row += 1
                continue
            end = _end_of_run(window, row, last_row)
            control = bool(table[BatchField.ATTRIBUTES, row] & CONTROL_FLAG) and table[BatchField.MAGIC, row] >= MAGIC_V2
            if window.partial:
                what = f"{table[BatchField.SIZE, 0]} bytes in one batch"
                self._finding("batch-too-large", window, row, what)
                yield Chunk(window.data, window.batches, row, end, self._records, 0, 0, control)
            elif table[BatchField.ATTRIBUTES, row] & CODEC_MASK == Codec.NONE:
                if table[BatchField.MAGIC, row] < MAGIC_V2:
                    yield from self._messages(window, row, end)
                elif self._may_hold(window.data, table, row, end):
                    yield from self._decode(window, window.data, row, end, control, {})
            elif table[BatchField.MAGIC, row] < MAGIC_V2:
                yield from self._wrapper(window, row)
            else:
                yield from self._inflate(window, row, end, control)
            row = end

    def candidates(self, window: Window, row: int, last_row: int) -> Iterator[int]:
        """Return the batches row … last_row − 1 whose records `chunks` would decode. Changes BODY of all of them."""
        table = window.batches.table
        while row < last_row:
            end = _end_of_run(window, row, last_row)
            is_v2 = table[BatchField.MAGIC, row] >= MAGIC_V2
            if window.partial or not is_v2:
                yield from range(row, end)
            elif table[BatchField.ATTRIBUTES, row] & CODEC_MASK == Codec.NONE:
                if self._may_hold(window.data, table, row, end):
                    yield from (each for each in range(row, end) if table[BatchField.BODY, each] != LEFT_OUT)
            else:
                for arena in self._arenas(window, row, end):
                    if self._may_hold(arena.data, table, arena.row, arena.end) or arena.problems:
                        rows = range(arena.row, arena.end)
                        yield from (each for each in rows if each in arena.problems or table[BatchField.BODY, each] != LEFT_OUT)
            row = end

    def _wrapper(self, window: Window, row: int) -> Iterator[Chunk]:
        """Decode one compressed v0/v1 entry, a wrapper around an inner set."""
        self._release()
        entry = decode_entry(window.data, window.batches, row, self._records, self._limit)
        self._large = entry.data if len(entry.data) > _ARENA else None
        due = row
        for first, end, overlong in entry.spans(with_overlong=self._with_overlong):
            yield Chunk(entry.data, window.batches, due, row + 1, self._records, first, end, False, overlong)
            due = row + 1
        for problem in entry.problems:
            self._finding(problem.code, window, row, problem.what)
        if entry.remark is not None and self._on_remark is not None and not entry.problems:
            self._on_remark(self._found("record-invalid", window, row, entry.remark.what), entry.remark.kind)

    def _messages(self, window: Window, row: int, end: int) -> Iterator[Chunk]:
        """Decode plain v0/v1 entries row … end − 1, one message each."""
        while row < end:
            count, after, problem, overlong = decode_plain(window.data, window.batches, row, end, self._records)
            overlong = overlong and self._with_overlong
            whole = Chunk(window.data, window.batches, row, after - overlong, self._records, 0, count, control=False)
            yield whole
            if overlong:
                yield whole._replace(first_row=after - 1, last_row=after, first=count, end=count + 1, is_overlong=True)
            if problem is not None:
                self._finding(problem.code, window, after - 1, problem.what)
            row = after

    def _inflate(self, window: Window, row: int, end: int, control: bool) -> Iterator[Chunk]:
        """Decode compressed batches."""
        for arena in self._arenas(window, row, end):
            if self._may_hold(arena.data, window.batches.table, arena.row, arena.end) or arena.problems:
                yield from self._decode(window, arena.data, arena.row, arena.end, control, arena.problems)

    def _arenas(self, window: Window, row: int, end: int) -> Iterator[Arena]:
        """Decompress batches, many small ones together. An arena is valid until the next one is requested."""
        if not self._room:
            self._room = memoryview(bytearray(_ARENA))
        arenas = _Arenas(window, row, end, self._limit, self._room)
        while not arenas.exhausted:
            self._release()
            arena = arenas.fill()
            self._large = arena.data if len(arena.data) > len(self._room) else None
            yield arena
            del arena

    def _may_hold(self, data: memoryview, table: memoryview, row: int, end: int) -> bool:
        """Leave out the batches row … end − 1, whose records are in `data`, that hold none of the literals; are others left?"""
        if not self._literals:
            return True
        if self._needles is None:
            from engine.record.patterns import rarest  # not needed for most reads

            self._needles = rarest(self._literals, data)
        kept = leave_out_batches(data, table, row, end, self._needles)
        if kept < 0:
            raise AssertionError("batches and bytes do not match")
        return bool(kept)

    def _release(self) -> None:
        """Free a large decompressed batch before the next one is made, even if the caller still has the chunk."""
        if self._large is not None:
            with suppress(BufferError):  # still in use
                self._large.release()
            self._large = None

    def _decode(
        self, window: Window, data: memoryview, row: int, end: int, control: bool, problems: dict[int, tuple[str, str]]
    ) -> Iterator[Chunk]:
        """Decode batches row … end − 1, whose records are in `data`. `problems`: known problems by row."""
        table = window.batches.table
        due, at, done = row, 0, 0
        known = sorted(problems)  # a chunk ends after each of these, so that the problem is reported before the next chunk
        while True:
            stop = known[0] + 1 if known else end
            count, row, at, done, status = decode_records(data, table, row, stop, at, done, self._records.table, 0)
            started = row if status == Status.END else row + (done > 0 or status != Status.FULL)
            yield Chunk(data, window.batches, due, started, self._records, 0, count, control)
            due = started
            if status not in (Status.END, Status.FULL):
                if row not in problems:
                    self._broken(window, row, Status(status), done)
                row, at, done = row + 1, 0, 0
            if known and row > known[0]:
                self._finding(problems[known[0]][0], window, known[0], problems[known[0]][1])
                del known[0]
                at, done = 0, 0
            elif status == Status.END:
                break

    def _broken(self, window: Window, row: int, status: Status, done: int) -> None:
        count = window.batches.table[BatchField.COUNT, row]
        code, what = _WHAT[status]
        if status == Status.BAD_COUNT and count < 0:
            what = "the header says {count} records"
        self._finding(code, window, row, what.format(record=done, count=count))

    def _finding(self, code: str, window: Window, row: int, what: str) -> None:
        self._report(self._found(code, window, row, what))

    def _found(self, code: str, window: Window, row: int, what: str) -> Finding:
        table = window.batches.table
        position = window.base + table[BatchField.POSITION, row]
        return Finding(code, Where(self._path, position, table[BatchField.BASE_OFFSET, row]), what)


def _end_of_run(window: Window, row: int, last_row: int) -> int:
    """Return the end of the batches that can be decoded together with `row`."""
    table = window.batches.table
    if window.partial or (table[BatchField.MAGIC, row] < MAGIC_V2 and table[BatchField.ATTRIBUTES, row] & CODEC_MASK):
        return row + 1
    end: int = run_end(table, row, last_row)
    return end
