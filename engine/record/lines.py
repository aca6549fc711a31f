"""Read lines of input into record columns, which refer to the bytes of the input."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.formats import RecordField
from engine.kernels.lines import parse_json_lines, parse_text_lines
from engine.kernels.tables import Parsed
from engine.record.json_record import OTHER_NAMES, LineInvalid, parse_json_line

if TYPE_CHECKING:
    from engine.record.columns import RecordColumns

_LOOK = 4096  # bytes per search for a line end


class Filled(NamedTuple):
    """The number of records in the columns, and the position of the next line; `done`: no line follows."""

    filled: int
    at: int
    done: bool


class LineReader(Protocol):
    """Reads lines of one format.

    Positions in the columns refer to `data`, whose bytes may be changed. Offsets count from 0; `timestamp` (ms) is used for
    records without one. Lines are numbered from 1 over all calls. Raises LineInvalid once the lines before it were read.

    line  number of the next line
    """

    line: int

    def read(self, data: memoryview, start: int, end: int, timestamp: int, records: RecordColumns) -> Filled:
        """Fill the columns with the records of the whole lines data[start:end]."""


class TextLines:
    """A key, `separator` and a value, or the value alone without a separator. `null` is the text of a null."""

    def __init__(self, separator: bytes, null: bytes) -> None:
        self._separator, self._null = memoryview(separator), memoryview(null)
        self.line = 1

    def read(self, data: memoryview, start: int, end: int, timestamp: int, records: RecordColumns) -> Filled:
        """See LineReader."""
        count, at, status = parse_text_lines(data, start, end, self._separator, self._null, timestamp, records.table, 0)
        self.line += count
        return _filled(count, at, status)


class JsonLines:
    """One JSON object a line, as `dump-log --format jsonl --print-data-log` prints records.

    ignore_unknown  see parse_json_line
    skipped  lines that were not data records: other objects of a dump
    """

    def __init__(self, *, ignore_unknown: bool = False) -> None:
        self._ignore_unknown = ignore_unknown
        self._others = memoryview(b"" if ignore_unknown else OTHER_NAMES)
        self.skipped = 0
        self.line = 1

    def read(self, data: memoryview, start: int, end: int, timestamp: int, records: RecordColumns) -> Filled:
        """See LineReader."""
        count, at, status = 0, start, int(Parsed.ODD)
        while status == Parsed.ODD:
            before = at
            count, at, status = parse_json_lines(data, at, end, timestamp, self._others, records.table, count)
            self.line += bytes(data[before:at]).count(b"\n")
            if status == Parsed.ODD:
                try:
                    count, at = self._odd(data, at, end, timestamp, records, count)
                except LineInvalid:
                    if not count:
                        raise
                    return Filled(count, at, done=False)  # the lines before it come first: the next call raises
        return _filled(count, at, status)

    def _odd(self, data: memoryview, at: int, end: int, timestamp: int, records: RecordColumns, row: int) -> tuple[int, int]:
        """Convert the line at `at`, if it is a record; returns (columns filled, position of the next line)."""
        line, feed = _line_of(data, at, end)
        try:
            parsed = parse_json_line(line, ignore_unknown=self._ignore_unknown)
        except LineInvalid as error:
            raise LineInvalid(f"line {self.line}: {error}") from None
        self.line += len(feed)
        if parsed is None:
            self.skipped += bool(line.strip())
            return row, at + len(line) + len(feed)
        content = parsed.content()
        data[at : at + len(content)] = content
        key_size = -1 if parsed.key is None else len(parsed.key)
        value_size = -1 if parsed.value is None else len(parsed.value)
        value_at = at + max(key_size, 0)
        fields = {
            RecordField.BATCH: 0, RecordField.OFFSET: row,
            RecordField.TIMESTAMP: timestamp if parsed.timestamp is None else parsed.timestamp,
            RecordField.KEY_POSITION: at, RecordField.KEY_SIZE: key_size,
            RecordField.VALUE_POSITION: value_at, RecordField.VALUE_SIZE: value_size,
            RecordField.HEADERS_POSITION: value_at + max(value_size, 0), RecordField.HEADER_COUNT: parsed.header_count,
        }  # fmt: skip
        for field, number in fields.items():
            records.table[field, row] = number
        return row + 1, at + len(line) + len(feed)


def _filled(count: int, at: int, status: int) -> Filled:
    if status == Parsed.BAD_START:
        raise AssertionError("lines, bytes and columns do not match")
    return Filled(count, at, status == Parsed.END)


def _line_of(data: memoryview, at: int, end: int) -> tuple[bytes, bytes]:
    """Return the line at `at`, and its line feed if it has one. Reads no more than needed."""
    stop = at
    while stop < end:
        found = bytes(data[stop : min(end, stop + _LOOK)]).find(b"\n")
        if found >= 0:
            return bytes(data[at : stop + found]), b"\n"
        stop += _LOOK
    return bytes(data[at:end]), b""
