"""Batches and records as kafka-dump-log prints them. Mirrors DumpLogSegments.printBatchLevel and dumpBatchRecords."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.findings import Finding, Where
from engine.formats import BatchField, RecordField, Status
from engine.kernels.text import CONTENTS, ESCAPE, META, NO_NEWLINE, print_batches, print_records
from engine.log.record_text import control_record_text, printer_for
from engine.record.control import ControlRecordInvalid
from engine.schema.decode import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.log.dump_options import DumpOptions
    from engine.log.text_buffer import TextBuffer
    from engine.record.reader import Chunk
    from engine.record.windows import Window


class TextRenderer:
    """Writes one log's lines into a buffer. A LogRenderer.

    name  of the file, without its directory
    """

    def __init__(self, path: str, name: str, options: DumpOptions, out: TextBuffer, report: Callable[[Finding], None]) -> None:
        self._path, self._name, self._options, self._out, self._report = path, name, options, out, report
        self._flags = (META if not options.skip_metadata else 0) | (ESCAPE if options.escape else 0)
        self._printer = printer_for(path, options)

    def batches(self, window: Window, row: int, last_row: int) -> None:
        """Batch lines by the kernel."""
        out, status = self._out, int(Status.FULL)
        while status == Status.FULL:
            out.at, row, status = print_batches(out.data, out.at, window.batches.table, row, last_row, window.base)
            if status == Status.FULL:
                out.make_room()

    def records(self, chunk: Chunk, base: int) -> None:
        """Batch lines and record lines."""
        contents = CONTENTS if self._options.print_data and not chunk.control else 0
        if chunk.control and not self._options.skip_metadata:
            self._one_by_one(chunk, base, self._control_text)
        elif contents and self._printer is not None:
            self._one_by_one(chunk, base, self._decoded_text)
        else:
            self._print(chunk, base, chunk.first_row, chunk.last_row, chunk.first, chunk.end, self._flags | contents)

    def trailing(self, count: int) -> None:
        """Kafka's line for what is behind the last batch."""
        self._out.put(f"Found {count} invalid bytes at the end of {self._name}\n")

    def _print(
        self, chunk: Chunk, base: int, row: int, last_row: int, record: int, last_record: int, flags: int
    ) -> int:
        """Batch lines and record lines by the kernel → the row whose batch line is due next."""
        out, status = self._out, int(Status.FULL)
        while status == Status.FULL:
            out.at, row, record, status = print_records(
                out.data, out.at, chunk.data, chunk.batches.table, row, last_row, chunk.records.table, record,
                last_record, flags, base,
            )
            if status == Status.FULL:
                out.make_room()
        return row

    def _one_by_one(self, chunk: Chunk, base: int, text: Callable[[Chunk, int, int], bytes]) -> None:
        """Records whose end of line is not the kernel's: control records, and what a decoder prints."""
        row = chunk.first_row
        flags = self._flags | NO_NEWLINE
        for record in range(chunk.first, chunk.end):
            last_row = chunk.records.table[RecordField.BATCH, record] + 1
            row = self._print(chunk, base, row, last_row, record, record + 1, flags)
            self._out.put(text(chunk, record, base) + b"\n")
        self._print(chunk, base, row, chunk.last_row, chunk.end, chunk.end, flags)

    def _control_text(self, chunk: Chunk, record: int, base: int) -> bytes:
        key, value = chunk.key(record), chunk.value(record)
        try:
            return control_record_text(key, value).encode("utf-8", "replace")
        except (ControlRecordInvalid, SchemaError) as error:
            self._record_finding("control-record-invalid", chunk, record, base, str(error))
            return b""

    def _decoded_text(self, chunk: Chunk, record: int, base: int) -> bytes:
        assert self._printer is not None  # _chunk has looked
        offset = chunk.records.table[RecordField.OFFSET, record]
        text, problem = self._printer(offset, chunk.key(record), chunk.value(record))
        if problem is not None:
            self._record_finding("record-undecodable", chunk, record, base, problem)
        return text

    def _record_finding(self, code: str, chunk: Chunk, record: int, base: int, what: str) -> None:
        row = chunk.records.table[RecordField.BATCH, record]
        position = base + chunk.batches.table[BatchField.POSITION, row]
        where = Where(self._path, position, chunk.records.table[RecordField.OFFSET, record])
        self._report(Finding(code, where, what))
