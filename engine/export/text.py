"""Records as JSON lines or CSV, without pyarrow. A kernel writes JSON lines of most columns."""

from __future__ import annotations

import csv
import re
from array import array
from base64 import b64encode
from itertools import repeat
from types import SimpleNamespace
from typing import TYPE_CHECKING

from engine.dump.json_stream import bytes_field, json_text
from engine.dump.template import Template
from engine.export.rows import COLUMNS, DECODED
from engine.findings import Finding, Where
from engine.formats import RecordField
from engine.kernels.escapes import terminal_safe
from engine.kernels.gather import timestamp_types
from engine.kernels.tables import Shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.dump.text_buffer import TextBuffer
    from engine.export.rows import ExportedPartition
    from engine.log.fetch.records import Run
    from engine.record.batch import Record

BYTES = ("key", "value")  # columns of bytes
NULL = r"\N"  # in CSV, as in MySQL and PostgreSQL: an empty cell is an empty value
_FORMULA = re.compile(r"[=+\-@\t\r']")  # first characters of a cell that a spreadsheet computes; and of one that was guarded
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_ENTRIES = {
    "key": ('"key', Shown.JSON_KEY, ""), "value": ('"value', Shown.JSON_VALUE, ""), "offset": ('"offset":', Shown.OFFSET, ""),
    "timestamp": ('"timestamp":', Shown.TIMESTAMP, ""), "headers": ('"headers":[', Shown.JSON_HEADERS, "]"),
}  # fmt: skip
_PLACES = {
    "key": (RecordField.KEY_POSITION, RecordField.KEY_SIZE), "value": (RecordField.VALUE_POSITION, RecordField.VALUE_SIZE),
}  # fmt: skip
_NUMBERS = {"offset": RecordField.OFFSET, "timestamp": RecordField.TIMESTAMP}
_CONSTANT = ("topic", "partition", "directory", "segment", "timestampType")  # in a run of one type and file


class JsonLines:
    """A rows.Sink of one object a line, with the columns as members; bytes as in docs/json.md.

    escape  escape characters that control a terminal
    """

    def __init__(self, columns: Sequence[str], out: TextBuffer, *, escape: bool = False) -> None:
        self._columns, self._out, self._escape = tuple(columns), out, escape
        self._by_kernel = not escape and all(name in _ENTRIES or name in _CONSTANT for name in columns)
        self._templates: dict[tuple[str, int], Template] = {}

    def begin(self, source: ExportedPartition) -> None:
        """Begin a partition."""
        self._source = source
        self._templates.clear()

    def run(self, run: Run) -> None:
        """Write all records of a run."""
        self._path = run.path
        if not self._by_kernel or self._source.decoder is not None:
            for record in run.records():
                self._record(record)
            return
        segment = run.path.rpartition("/")[2]
        for part, kind in _by_timestamp_type(run):
            template = self._templates.get((segment, kind))
            if template is None:
                template = self._templates[segment, kind] = Template(self._pieces(segment, kind))
            template.put(self._out, part, self._record)

    def end(self) -> None:
        """End the partition; nothing was kept back."""

    def close(self, _ranges: list[dict[str, object]]) -> None:
        """Complete the file."""
        self._out.flush()

    def abandon(self) -> None:
        """Release nothing."""

    def _record(self, record: Record) -> None:
        fields: dict[str, object] = {}
        decoded = _decode(record, self._source, self._path) if self._source.decoder is not None else {}
        for name in self._columns:
            value = decoded.get(name) if name in DECODED else COLUMNS[name](record, self._source, self._path)
            if name in BYTES:
                fields |= bytes_field(name, value)  # type: ignore[arg-type]  # these columns are bytes
            else:
                fields[name] = header_objects(record) if name == "headers" else value
        self._out.put(json_text(fields, ascii=self._escape) + b"\n")

    def _pieces(self, segment: str, kind: int) -> list[bytes | Shown]:
        constants = _constants(self._source, segment, kind)
        pieces: list[bytes | Shown] = []
        text = b"{"
        for number, name in enumerate(self._columns):
            text += b"," if number else b""
            if name in constants:
                text += json_text(name) + b":" + json_text(constants[name])
            else:
                before, shown, after = _ENTRIES[name]
                pieces += [text + before.encode(), shown]
                text = after.encode()
        return [*pieces, text + b"}\n"]


def _constants(source: ExportedPartition, segment: str, kind: int) -> dict[str, str | int]:
    """Return the columns of _CONSTANT."""
    return {"topic": source.topic, "partition": source.partition, "directory": source.directory, "segment": segment,
            "timestampType": kind}


def _by_timestamp_type(run: Run) -> Iterator[tuple[Run, int]]:
    """Divide a run where the timestamp type of the batches changes: parts, and the type of each."""
    count = run.end - run.first
    kinds = array("i", bytes(4 * count))
    if not timestamp_types(run.chunk.batches.table, run.chunk.records.table, run.first, run.end, kinds, 0):
        raise AssertionError("records outside their batches")
    first = 0
    while first < count:
        after = count
        if kinds.count(kinds[first]) < count:
            after = next((at for at in range(first, count) if kinds[at] != kinds[first]), count)
        yield run._replace(first=run.first + first, end=run.first + after), kinds[first]
        first = after


class CsvLines:
    """A rows.Sink of CSV lines by RFC 4180, after a line of names.

    A column of bytes is two: text, or else base64 in NAME_b64, and NULL in the other one. NULL in both is null.

    guard        put a ' before each text that a spreadsheet could take for a formula, and before one that begins with '
    has_heading  False: the file has one already
    """

    def __init__(
        self, columns: Sequence[str], out: TextBuffer, *, guard: bool = False, escape: bool = False, has_heading: bool = True
    ) -> None:  # fmt: skip
        self._columns, self._out, self._guard, self._escape = tuple(columns), out, guard, escape
        self._is_plain = all(name in _ENTRIES or name in _CONSTANT for name in columns)
        self._lines: list[str] = []
        self._writer = csv.writer(SimpleNamespace(write=self._lines.append), lineterminator="\r\n")
        if has_heading:
            names = [[name, f"{name}_b64"] if name in BYTES else [name] for name in columns]
            self._writer.writerow([name for pair in names for name in pair])
            self._flush()

    def begin(self, source: ExportedPartition) -> None:
        """Begin a partition."""
        self._source = source

    def run(self, run: Run) -> None:
        """Write all records of a run."""
        columns, source, path, write = self._columns, self._source, run.path, self._writer.writerow
        if self._is_plain and source.decoder is None:
            for part, kind in _by_timestamp_type(run):
                self._writer.writerows(zip(*self._cells(part, kind), strict=True))
                self._flush()
            return
        for number, record in enumerate(run.records()):
            decoded = {} if source.decoder is None else _decode(record, source, path)
            cells: list[str] = []
            for name in columns:
                value = decoded.get(name) if name in DECODED else COLUMNS[name](record, source, path)
                if name in BYTES:
                    cells += self._pair(value)  # type: ignore[arg-type]  # these columns are bytes
                else:
                    cells.append(self._cell(name, value, record))
            write(cells)
            if number % 256 == 255:
                self._flush()
        self._flush()

    def _cells(self, run: Run, kind: int) -> Iterator[Iterable[object]]:
        """Return the cells of each column, without an object per record. kind: timestamp type of all records."""
        table, count = run.chunk.records, run.end - run.first
        constants = _constants(self._source, run.path.rpartition("/")[2], kind)
        for name in self._columns:
            if name in BYTES:
                yield from zip(*(self._pair(data) for data in _fields(run, *_PLACES[name])), strict=True)
            elif name in _NUMBERS:
                yield table.field(_NUMBERS[name])[run.first : run.end].tolist()
            elif name != "headers":
                yield repeat(self._text(constants[name]), count)
            elif max(table.field(RecordField.HEADER_COUNT)[run.first : run.end]) > 0:
                yield [self._cell(name, record.headers, record) for record in run.records()]
            else:
                yield repeat(NULL, count)

    def end(self) -> None:
        """End the partition; nothing was kept back."""

    def close(self, _ranges: list[dict[str, object]]) -> None:
        """Complete the file."""
        self._out.flush()

    def abandon(self) -> None:
        """Release nothing."""

    def _pair(self, data: bytes | None) -> list[str]:
        if data is None:
            return [NULL, NULL]
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = None
        if text is None or text == NULL or _CONTROL.search(text):
            return [NULL, self._safe(b64encode(data).decode())]
        return [self._safe(text), NULL]

    def _cell(self, name: str, value: object, record: Record) -> str:
        if name == "headers":
            value = json_text(header_objects(record)).decode() if record.headers else None
        elif name in DECODED and value is not None:
            value = json_text(value).decode()
        return NULL if value is None else self._text(value)

    def _text(self, value: object) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        return self._safe(value) if isinstance(value, str) else str(value)

    def _safe(self, text: str) -> str:
        text = terminal_safe(text) if self._escape else text
        return f"'{text}" if self._guard and _FORMULA.match(text) else text

    def _flush(self) -> None:
        self._out.put("".join(self._lines))
        self._lines.clear()


def _fields(run: Run, position: RecordField, size: RecordField) -> Iterator[bytes | None]:
    """Return the keys or values of the records of a run."""
    data, places = run.chunk.data, (run.chunk.records.field(one)[run.first : run.end].tolist() for one in (position, size))
    return (None if length < 0 else bytes(data[at : at + length]) for at, length in zip(*places, strict=True))


def header_objects(record: Record) -> list[dict[str, object]]:
    """Return the headers as objects."""
    return [{**bytes_field("key", name), **bytes_field("value", value)} for name, value in record.headers]


def _decode(record: Record, source: ExportedPartition, path: str) -> dict[str, object]:
    """Return the values of DECODED; what cannot be decoded is None, and reported."""
    assert source.decoder is not None
    data = source.decoder.data(record.offset, record.key, record.value)
    if data["problem"] is not None:
        where = Where(path, record.batch.position, record.offset)
        source.report(Finding("record-undecodable", where, str(data["problem"])))
    return {"decodedKey": data["key"], "decodedValue": data["value"]}
