"""A .log or .checkpoint file as kafka-dump-log prints it: batch lines, record lines, what is behind the last batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.findings import Finding, Where
from engine.formats import BATCH_HEADER, MAGIC_V2, BatchField, RecordField, Status
from engine.kernels.text import CONTENTS, ESCAPE, META, NO_NEWLINE, print_batches, print_records
from engine.log.gaps import Gaps
from engine.log.dump_options import UNLIMITED
from engine.log.record_text import control_record_text, printer_for
from engine.record.control import ControlRecordInvalid
from engine.record.reader import Chunk, ChunkReader
from engine.record.windows import LogWalk, Stop, Window
from engine.schema.decode import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import OpenFile
    from engine.log.dump_options import DumpOptions
    from engine.log.text_buffer import TextBuffer

_CHUNK = 1 << 20


class LogDump:
    """Dumps one open log.

    path    as the user named it        gaps   takes the offsets that do not follow one another
    report  takes everything else that is wrong
    """

    def __init__(
        self, file: OpenFile, path: str, options: DumpOptions, out: TextBuffer, report: Callable[[Finding], None],
        gaps: Gaps,
    ) -> None:
        self._file, self._path, self._options, self._out = file, path, options, out
        self._report, self._gaps = report, gaps
        self._flags = (META if not options.skip_metadata else 0) | (ESCAPE if options.escape else 0)
        self._reader = ChunkReader(path, report, options.max_decompressed_bytes)
        self._printer = printer_for(path, options)
        self._finished = False  # a selection has all it wants

    def run(self) -> None:
        """Print everything."""
        options = self._options
        size = self._file.size()
        end = min(size, options.max_bytes)
        walk = LogWalk(self._file, self._start(), end, max_batch_bytes=options.max_batch_bytes)
        while True:
            for window in walk:
                self._window(window)
                if self._finished:
                    return
            self._after(walk, size)
            if walk.stop == Stop.END or not options.continue_on_corruption:
                return
            damaged = walk.position
            found = walk.resynchronise()
            skipped = (end if found is None else found) - damaged
            where = Where(self._path, damaged)
            behind = "the end of the file" if found is None else f"a sound batch at byte {found}"
            self._report(Finding("skipped-bytes", where, f"{skipped} bytes skipped up to {behind}"))
            if found is None:
                return

    def _start(self) -> int:
        """Byte position to begin at: an index may let a selection skip what is before it."""
        return 0

    def _window(self, window: Window) -> None:
        rows = window.rows
        valid = window.batches.field(BatchField.VALID)[:rows].tolist()
        if 0 in valid:
            for row in range(rows):
                if not valid[row]:
                    self._bad_checksum(window, row)
        if self._options.iterates:
            for chunk in self._reader.chunks(window):
                self._chunk(chunk, window.base)
        else:
            self._batch_lines(window)

    def _batch_lines(self, window: Window) -> None:
        out, row, status = self._out, 0, int(Status.FULL)
        while status == Status.FULL:
            out.at, row, status = print_batches(out.data, out.at, window.batches.table, row, window.rows, window.base)
            if status == Status.FULL:
                out.make_room()

    def _chunk(self, chunk: Chunk, base: int) -> None:
        self._gaps.feed(chunk, base)
        contents = CONTENTS if self._options.print_data and not chunk.control else 0
        if chunk.control and not self._options.skip_metadata:
            self._one_by_one(chunk, base, self._control_text)
        elif contents and self._printer is not None:
            self._one_by_one(chunk, base, self._decoded_text)
        else:
            self._print(chunk, base, chunk.first_row, chunk.last_row, 0, chunk.count, self._flags | contents)

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
        for record in range(chunk.count):
            last_row = chunk.records.table[RecordField.BATCH, record] + 1
            row = self._print(chunk, base, row, last_row, record, record + 1, flags)
            self._out.put(text(chunk, record, base) + b"\n")
        self._print(chunk, base, row, chunk.last_row, chunk.count, chunk.count, flags)

    def _control_text(self, chunk: Chunk, record: int, base: int) -> bytes:
        key, value = chunk.key(record), chunk.value(record)
        try:
            return control_record_text(key, value).encode("utf-8", "replace")
        except (ControlRecordInvalid, SchemaError) as error:
            self._record_finding("control-record-invalid", chunk, record, base, str(error))
            return b""

    def _decoded_text(self, chunk: Chunk, record: int, base: int) -> bytes:
        assert self._printer is not None  # noqa: S101  # _chunk has looked
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

    def _bad_checksum(self, window: Window, row: int) -> None:
        table = window.batches.table
        position, size = table[BatchField.POSITION, row], table[BatchField.SIZE, row]
        where = Where(self._path, window.base + position, table[BatchField.BASE_OFFSET, row])
        magic = table[BatchField.MAGIC, row]
        name = "CRC-32C" if magic >= MAGIC_V2 else "CRC-32"
        what = f"stored {name} {table[BatchField.CRC, row]:08x} does not fit the {size} bytes of the batch"
        if magic >= MAGIC_V2 and size < BATCH_HEADER.size:
            self._report(Finding("batch-size-invalid", where, f"{size} bytes, a batch has at least {BATCH_HEADER.size}"))
            return
        self._report(Finding("crc-mismatch", where, what))
        if not 0 <= magic <= MAGIC_V2:
            self._report(Finding("unknown-magic", where, f"magic {magic}"))

    def _after(self, walk: LogWalk, size: int) -> None:
        """What is behind the last batch: Kafka's line on stdout, and a finding."""
        left = size - walk.position
        limited = self._options.max_bytes != UNLIMITED
        if walk.stop == Stop.END or (limited and walk.end < size):
            return
        where = Where(self._path, walk.position)
        if walk.stop == Stop.BAD_SIZE:
            stored = int.from_bytes(self._file.read(walk.position + 8, 4), "big", signed=True)
            if self._only_zeros(walk.position, size):
                self._report(Finding("zero-tail", where, f"{left} zero bytes behind the last batch"))
            else:
                self._report(Finding("batch-size-invalid", where, f"size field {stored}, the smallest legal one is 14"))
            return
        if not limited:
            self._out.put(f"Found {left} invalid bytes at the end of {file_name(self._path)}\n")
        if self._only_zeros(walk.position, size):
            self._report(Finding("zero-tail", where, f"{left} zero bytes behind the last batch"))
        else:
            self._report(Finding("torn-tail", where, f"{left} bytes at the end are no whole batch"))

    def _only_zeros(self, start: int, end: int) -> bool:
        for at in range(start, end, _CHUNK):
            if self._file.read(at, min(_CHUNK, end - at)).strip(b"\0"):
                return False
        return True


def file_name(path: str) -> str:
    """The last part of a path, as java.io.File.getName gives it."""
    return path.rstrip("/").rpartition("/")[2]
