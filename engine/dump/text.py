"""The output of a dump as kafka-dump-log prints it. Mirrors DumpLogSegments.printBatchLevel and dumpBatchRecords.

Small files, which Kafka's tool ignores, are lines of `name: value`; logs of 0.7 are printed as by 0.7.2's own tool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.amounts import count_of
from engine.checkpoint.producer_snapshot import producer_text
from engine.discovery.names import FileKind, file_name
from engine.dump.kernel_renderer import Form, KernelRenderer
from engine.dump.record_text import control_record_text, printer_for
from engine.formats import AbortedTxn, ProducerSnapshotEntry, RecordField, Status
from engine.index.sparse import TimeIndex
from engine.index.transaction import aborted_txn_text
from engine.java.strings import java_utf8, whole_text
from engine.kernels.escapes import printable, terminal_safe
from engine.kernels.fields import CONTENTS, ESCAPE, META
from engine.kernels.text import print_batches, print_entries, print_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.discovery.names import FileName, PartitionDir
    from engine.dump.kernel_renderer import Ending
    from engine.dump.renderer import DumpOptions, Entry, SmallEntry
    from engine.dump.selection import Selector
    from engine.dump.text_buffer import TextBuffer
    from engine.files import OpenFile
    from engine.findings import Finding
    from engine.index.sparse import OffsetIndex
    from engine.record.reader import Chunk
    from engine.record.windows import Window


_FORM = Form(print_records, headers=b"headerKeys: [", end=b"\n", bad_control=b"")
_PIECE = 64 << 10


class TextDump:
    """A DumpRenderer that prints text."""

    def __init__(self, options: DumpOptions, out: TextBuffer, report: Callable[[Finding], None]) -> None:
        self._options, self._out, self._report = options, out, report

    def file(self, path: str, name: FileName | None) -> None:
        """Print the lines that announce a file. kafka-dump-log also announces files that it ignores."""
        kind = None if name is None else name.kind
        if kind is FileKind.LOG_07:
            return  # the dump of such a file announces itself
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
        """Return a file name, for a terminal without control characters."""
        return printable(path) if self._options.escape else path

    def log(self, path: str, partition: PartitionDir | None) -> TextRenderer:
        """Return the renderer for the log at `path`."""
        return TextRenderer(path, partition, self._options, self._out, self._report)

    def log_07(self, file: OpenFile, path: str, selector: Selector | None) -> None:
        """Print a log of 0.7."""
        from engine.dump.entries_07 import dump_entries

        dump_entries(file, path, self._options, self._out.put, self._report, selector)

    def entry(self, entry: Entry) -> None:
        """Print the line of an entry."""
        self._out.put(_TEXTS.get(type(entry), small_entry_text)(entry) + "\n")

    def index_entries(self, index: OffsetIndex | TimeIndex, number: int, end: int) -> None:
        """Print the lines of entries."""
        out, is_time = self._out, isinstance(index, TimeIndex)
        while number < end:
            out.at, number, status = print_entries(out.data, out.at, index.whole, number, end, index.base_offset, is_time)
            if status == Status.FULL:
                out.make_room()

    def empty_index(self, path: str) -> None:
        """Print Kafka's line for an offset index without entries."""
        self._out.put(f"{self._shown(path)} is empty.\n")

    def sound_index(self, path: str) -> None:
        """Print Kafka's line for an index that a broker would accept."""
        self._out.put(f"{self._shown(path)} passed sanity check.\n")

    def count(self, path: str | None, records: int, batches: int) -> None:
        """Print the count of a log, or the sum of all logs."""
        name = "total" if path is None else printable(path)
        self._out.put(f"{name}: {count_of(records, 'record')} in {count_of(batches, 'batch')}\n")

    def flush(self) -> None:
        """Write the text printed so far to the sink."""
        self._out.flush()


class TextRenderer(KernelRenderer):
    """A LogRenderer that prints text."""

    def __init__(
        self, path: str, partition: PartitionDir | None, options: DumpOptions, out: TextBuffer,
        report: Callable[[Finding], None],
    ) -> None:
        super().__init__(_FORM, path, options, out, report)
        self._flags = (META if not options.skip_metadata else 0) | (ESCAPE if options.escape else 0)
        self._printer = printer_for(path, partition, options) if options.print_data else None
        self._contents = CONTENTS if options.print_data and self._printer is None else 0

    def records(self, chunk: Chunk, base: int) -> None:
        """Print batches and records, interleaved. For a message shorter than its value Kafka prints the value of its fields."""
        if not chunk.is_overlong:
            super().records(chunk, base)
            return
        shown = chunk.without_records() if self._options.skip_metadata and self._options.print_data else chunk
        self._put(shown, base, self._flags)

    def trailing(self, count: int) -> None:
        """Print Kafka's line about bytes after the last batch."""
        name = file_name(self._path)
        self._out.put(f"Found {count} invalid bytes at the end of {printable(name) if self._options.escape else name}\n")

    def _batches(self, window: Window, row: int, last_row: int) -> tuple[int, int, int]:
        done: tuple[int, int, int] = print_batches(
            self._out.data, self._out.at, window.batches.table, row, last_row, window.base
        )
        return done

    def _flags_of(self, chunk: Chunk) -> int:
        return self._flags if chunk.control else self._flags | self._contents

    def _ending_of(self, chunk: Chunk) -> Ending | None:
        if chunk.control:
            return self._control_unseen if self._options.skip_metadata else self._control
        return None if self._printer is None else self._decoded

    def _control_unseen(self, chunk: Chunk, record: int, base: int) -> bytes:
        """Print nothing, as Kafka does without metadata; problems of the record are still reported."""
        self._control(chunk, record, base)
        return b""

    def _control_text(self, key: bytes | None, value: bytes | None) -> bytes:
        text = control_record_text(key, value)
        return (terminal_safe(text) if self._options.escape else text).encode("utf-8", "replace")

    def _decoded(self, chunk: Chunk, record: int, base: int) -> bytes:
        assert self._printer is not None  # _ending_of checked it
        offset = chunk.records.table[RecordField.OFFSET, record]
        text, problem = self._printer(offset, chunk.key(record), chunk.value(record))
        if problem is not None:
            self._finding("record-undecodable", chunk, record, base, problem)
        return text

    def _put_contents(self, key: memoryview | None, value: memoryview | None, flags: int) -> None:
        prefix = " " if flags & META else "| "
        for name, data in (("key: ", key), ("payload: ", value)):
            if data is not None:
                self._out.put(prefix + name)
                self._put_text(data, escape=bool(flags & ESCAPE))
                prefix = " "

    def _put_text(self, data: memoryview, *, escape: bool) -> None:
        """Print bytes as Java's text, in pieces."""
        while data:
            piece = bytes(data[:_PIECE])
            cut = whole_text(piece) if len(data) > _PIECE else len(piece)
            cut = cut or len(piece)
            text = java_utf8(piece[:cut])
            self._out.put(terminal_safe(text.decode()) if escape else text)
            data = data[cut:]


_TEXTS: dict[type, Callable[[Any], str]] = {AbortedTxn: aborted_txn_text, ProducerSnapshotEntry: producer_text}


def small_entry_text(entry: SmallEntry) -> str:
    """Return `name: value` for every field that has a value, in Kafka's spelling: `epoch: 3 startOffset: 120`."""
    parts: list[str] = []
    for name, value in entry._asdict().items():
        first, *others = name.split("_")
        label = first + "".join(word.capitalize() for word in others)
        if isinstance(value, dict):
            parts += [f"{key}: {text}" for key, text in value.items()]
        elif isinstance(value, tuple):
            parts.append(f"{label}: [{','.join(map(str, value))}]")
        elif value is not None:
            parts.append(f"{label}: {value}")
    return terminal_safe(" ".join(parts))
