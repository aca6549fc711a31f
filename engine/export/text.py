"""Records as JSON lines or CSV, without pyarrow. A kernel writes most columns."""

from __future__ import annotations

import csv
import re
from array import array
from base64 import b64encode
from types import SimpleNamespace
from typing import TYPE_CHECKING

from engine.dump.json_stream import bytes_field, json_text
from engine.dump.template import Template
from engine.export.rows import COLUMNS, DECODED
from engine.findings import Finding, Where
from engine.kernels.escapes import terminal_safe
from engine.kernels.gather import timestamp_types
from engine.kernels.tables import Shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

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
_CELLS = {
    "key": Shown.CSV_KEY, "value": Shown.CSV_VALUE, "offset": Shown.OFFSET, "timestamp": Shown.TIMESTAMP,
    "headers": Shown.CSV_HEADERS,
}  # fmt: skip
_CONSTANT = ("topic", "partition", "directory", "segment", "timestampType")  # in a run of one type and file


class _Lines:
    """A rows.Sink of a line for each record. A kernel writes it, if it knows all columns and nothing is decoded or escaped.

    escape  escape characters that control a terminal
    guard   of cells of CSV, for the kernel
    """

    def __init__(
        self, columns: Sequence[str], out: TextBuffer, by_kernel: Collection[str], *, escape: bool, guard: bool = False
    ) -> None:  # fmt: skip
        self._columns, self._out, self._escape, self._guard = tuple(columns), out, escape, guard
        self._by_kernel = not escape and all(name in by_kernel or name in _CONSTANT for name in columns)
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
                source = self._source
                constants = {
                    "topic": source.topic, "partition": source.partition, "directory": source.directory, "segment": segment,
                    "timestampType": kind,
                }  # fmt: skip
                template = self._templates[segment, kind] = Template(self._pieces(constants), guard=self._guard)
            template.put(self._out, part, self._record)

    def end(self) -> None:
        """End the partition; nothing was kept back."""

    def close(self, _ranges: list[dict[str, object]]) -> None:
        """Complete the file."""
        self._out.flush()

    def abandon(self) -> None:
        """Release nothing."""

    def _record(self, record: Record) -> None:
        """Write one record."""
        raise NotImplementedError

    def _pieces(self, constants: dict[str, object]) -> list[bytes | Shown]:
        """Return the pieces of a line; constants: the values of the columns in _CONSTANT."""
        raise NotImplementedError


class JsonLines(_Lines):
    """One object a line, with the columns as members; bytes as in docs/json.md."""

    def __init__(self, columns: Sequence[str], out: TextBuffer, *, escape: bool = False) -> None:
        super().__init__(columns, out, _ENTRIES, escape=escape)

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

    def _pieces(self, constants: dict[str, object]) -> list[bytes | Shown]:
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


class CsvLines(_Lines):
    """CSV by RFC 4180, after a line of names.

    A column of bytes is two: text, or else base64 in NAME_b64, and NULL in the other one. NULL in both is null.

    guard        put a ' before each text that a spreadsheet could take for a formula, and before one that begins with '
    has_heading  False: the file has one already
    """

    def __init__(
        self, columns: Sequence[str], out: TextBuffer, *, guard: bool = False, escape: bool = False, has_heading: bool = True
    ) -> None:  # fmt: skip
        super().__init__(columns, out, _CELLS, escape=escape, guard=guard)
        if has_heading:
            names = [[name, f"{name}_b64"] if name in BYTES else [name] for name in columns]
            out.put(_csv_line([name for pair in names for name in pair]))

    def _record(self, record: Record) -> None:
        source, path = self._source, self._path
        decoded = {} if source.decoder is None else _decode(record, source, path)
        cells: list[str] = []
        for name in self._columns:
            value = decoded.get(name) if name in DECODED else COLUMNS[name](record, source, path)
            if name in BYTES:
                cells += self._pair(value)  # type: ignore[arg-type]  # these columns are bytes
            elif name == "headers":
                cells.append(self._cell(json_text(header_objects(record)).decode() if record.headers else None))
            else:
                cells.append(self._cell(json_text(value).decode() if name in DECODED and value is not None else value))
        self._out.put(_csv_line(cells))

    def _pieces(self, constants: dict[str, object]) -> list[bytes | Shown]:
        pieces: list[bytes | Shown] = []
        for name in self._columns:
            pieces += [_CELLS[name] if name in _CELLS else _csv_line([self._cell(constants[name])])[:-2].encode(), b","]
        return [*pieces[:-1], b"\r\n"]

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

    def _cell(self, value: object) -> str:
        if value is None:
            return NULL
        if isinstance(value, bool):
            return "true" if value else "false"
        return self._safe(value) if isinstance(value, str) else str(value)

    def _safe(self, text: str) -> str:
        text = terminal_safe(text) if self._escape else text
        return f"'{text}" if self._guard and _FORMULA.match(text) else text


def _csv_line(cells: list[str]) -> str:
    """Return the cells as a line, with its end."""
    lines: list[str] = []
    csv.writer(SimpleNamespace(write=lines.append), lineterminator="\r\n").writerow(cells)
    return lines[0]


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
