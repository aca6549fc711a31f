"""What a dump shows, as kafka-dump-log prints it. Mirrors DumpLogSegments.printBatchLevel and dumpBatchRecords.

Small files, which that tool ignores, are lines of `name: value`; logs of 0.7 are as 0.7.2's own tool prints them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.dump.kernel_records import put_head, put_records
from engine.dump.record_text import control_record_text, printable, printer_for
from engine.findings import Finding
from engine.formats import RecordField, Status
from engine.kernels.escapes import terminal_safe
from engine.kernels.fields import CONTENTS, ESCAPE, META, OPEN
from engine.kernels.text import print_batches, print_records
from engine.layout import FileKind, file_name
from engine.record.control import ControlRecordInvalid
from engine.record.java_text import java_utf8, whole_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.dump.entries import Entry
    from engine.dump.options import DumpOptions
    from engine.dump.selection import Selector
    from engine.dump.text_buffer import TextBuffer
    from engine.files import OpenFile
    from engine.layout import FileName, PartitionDir
    from engine.record.reader import Chunk
    from engine.record.windows import Window


_PIECE = 64 << 10


class TextDump:
    """Prints files one after another. A DumpRenderer."""

    def __init__(self, options: DumpOptions, out: TextBuffer, report: Callable[[Finding], None]) -> None:
        self._options, self._out, self._report = options, out, report
        self._entry_text: Callable[[Entry], str] | None = None

    def file(self, path: str, name: FileName | None) -> None:
        """The lines that announce a file. kafka-dump-log announces also what it then ignores."""
        kind = None if name is None else name.kind
        if kind is FileKind.LOG_07:
            return  # its dump announces itself
        self._out.put(f"Dumping {self._shown(path)}\n")
        if name is None:
            return
        if kind is FileKind.LOG:
            offset = name.base_offset
            self._out.put(f"Log starting offset: {'unknown' if offset is None else offset}\n")
        elif kind is FileKind.BOOTSTRAP_CHECKPOINT:
            self._out.put("KRaft bootstrap snapshot\n")
        elif kind is FileKind.KRAFT_SNAPSHOT and name.base_offset is not None and name.epoch is not None:
            self._out.put(f"Snapshot end offset: {name.base_offset}, epoch: {name.epoch}\n")

    def _shown(self, path: str) -> str:
        """A file name: on a terminal without what a terminal obeys."""
        return printable(path) if self._options.escape else path

    def log(self, path: str, partition: PartitionDir | None) -> TextRenderer:
        """What prints the batches of the log at `path`."""
        return TextRenderer(path, partition, self._options, self._out, self._report)

    def log_07(self, file: OpenFile, path: str, selector: Selector | None) -> None:
        """A log of 0.7."""
        from engine.dump.text_07 import dump_entries

        dump_entries(file, path, self._options, self._out.put, self._report, selector)

    def entry(self, entry: Entry) -> None:
        """The line of an entry."""
        if self._entry_text is None:
            from engine.dump.entry_text import entry_text  # most dumps have no entries

            self._entry_text = entry_text
        self._out.put(self._entry_text(entry) + "\n")

    def empty_index(self, path: str) -> None:
        """Kafka's line for an offset index without entries."""
        self._out.put(f"{self._shown(path)} is empty.\n")

    def sound_index(self, path: str) -> None:
        """Kafka's line for an index that a broker would accept."""
        self._out.put(f"{self._shown(path)} passed sanity check.\n")

    def count(self, path: str | None, records: int, batches: int) -> None:
        """A line for a log, or for the sum of all."""
        name = "total" if path is None else printable(path)
        self._out.put(f"{name}: {records} records in {batches} batches\n")

    def flush(self) -> None:
        """Hand out what was printed up to here."""
        self._out.flush()


class TextRenderer:
    """Writes one log's lines into a buffer. A LogRenderer."""

    def __init__(
        self, path: str, partition: PartitionDir | None, options: DumpOptions, out: TextBuffer,
        report: Callable[[Finding], None],
    ) -> None:
        self._path, self._name, self._options, self._out, self._report = path, file_name(path), options, out, report
        self._flags = (META if not options.skip_metadata else 0) | (ESCAPE if options.escape else 0)
        self._printer = printer_for(path, partition, options)

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
        name = printable(self._name) if self._options.escape else self._name
        self._out.put(f"Found {count} invalid bytes at the end of {name}\n")

    def _print(
        self, chunk: Chunk, base: int, row: int, last_row: int, record: int, last_record: int, flags: int
    ) -> int:
        """Batch lines and record lines by the kernel → the row whose batch line is due next."""
        return put_records(
            print_records, self._put_large, self._out, chunk, base, row, last_row, record, last_record, flags
        )

    def _put_large(self, chunk: Chunk, base: int, record: int, flags: int) -> None:
        """Print a record that an empty buffer has no room for, piece by piece."""
        table = chunk.records.table
        put_head(print_records, self._out, chunk, base, record, (flags & ~CONTENTS) | OPEN, b"headerKeys: [")
        prefix = " " if flags & META else "| "
        for name, position, size in (
            ("key: ", table[RecordField.KEY_POSITION, record], table[RecordField.KEY_SIZE, record]),
            ("payload: ", table[RecordField.VALUE_POSITION, record], table[RecordField.VALUE_SIZE, record]),
        ):
            if size >= 0 and flags & CONTENTS:
                self._out.put(prefix + name)
                self._put_payload(chunk.data[position : position + size], escape=bool(flags & ESCAPE))
                prefix = " "
        self._out.put("" if flags & OPEN else "\n")

    def _put_payload(self, data: memoryview, *, escape: bool) -> None:
        """Bytes as Java's text, never more of them at a time than a piece."""
        while data:
            piece = bytes(data[:_PIECE])
            cut = whole_text(piece) if len(data) > _PIECE else len(piece)
            cut = cut or len(piece)
            text = java_utf8(piece[:cut])
            self._out.put(terminal_safe(text.decode()) if escape else text)
            data = data[cut:]

    def _one_by_one(self, chunk: Chunk, base: int, text: Callable[[Chunk, int, int], bytes]) -> None:
        """Records whose end of line is not the kernel's: control records, and what a decoder prints."""
        row = chunk.first_row
        flags = self._flags | OPEN
        for record in range(chunk.first, chunk.end):
            last_row = chunk.records.table[RecordField.BATCH, record] + 1
            row = self._print(chunk, base, row, last_row, record, record + 1, flags)
            self._out.put(text(chunk, record, base) + b"\n")
        self._print(chunk, base, row, chunk.last_row, chunk.end, chunk.end, flags)

    def _control_text(self, chunk: Chunk, record: int, base: int) -> bytes:
        from engine.schema.wire import SchemaError

        key, value = chunk.key(record), chunk.value(record)
        try:
            text = control_record_text(key, value)
        except (ControlRecordInvalid, SchemaError) as error:
            self._record_finding("control-record-invalid", chunk, record, base, str(error))
            return b""
        return (terminal_safe(text) if self._options.escape else text).encode("utf-8", "replace")

    def _decoded_text(self, chunk: Chunk, record: int, base: int) -> bytes:
        assert self._printer is not None  # records() has looked
        offset = chunk.records.table[RecordField.OFFSET, record]
        text, problem = self._printer(offset, chunk.key(record), chunk.value(record))
        if problem is not None:
            self._record_finding("record-undecodable", chunk, record, base, problem)
        return text

    def _record_finding(self, code: str, chunk: Chunk, record: int, base: int, what: str) -> None:
        self._report(Finding(code, chunk.where(record, self._path, base), what))
