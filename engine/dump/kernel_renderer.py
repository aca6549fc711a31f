"""Write the batches and records of one log with kernels: the common part of text and JSON output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from engine.dump.text_buffer import TextBuffer
from engine.findings import Finding
from engine.formats import RecordField, Status
from engine.kernels.decode import read_varint
from engine.kernels.decoded import Decoded
from engine.kernels.fields import CONTENTS, META, OPEN
from engine.record.control import ControlRecordInvalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.dump.renderer import DumpOptions
    from engine.dump.selection import Selector
    from engine.record.reader import Chunk
    from engine.record.windows import Window

    Ending = Callable[[Chunk, int, int], bytes]  # (chunk, record, base) → the end of the record's line, without \n

LARGE = 256 << 10  # bytes of a key or payload above which it is written in pieces, so that memory stays bounded
MANY = 4096  # headers per call of the kernel


class Part(NamedTuple):
    """The part of a chunk still to be written: batches row … last_row − 1, records record … last_record − 1, interleaved."""

    row: int
    last_row: int
    record: int
    last_record: int

    def split(self, chunk: Chunk, count: int) -> list[Part]:
        """Split into `count` parts of about equal numbers of records. A batch belongs to the part of its first record."""
        records = self.last_record - self.record
        cuts = [self.record + records * number // count for number in range(1, count)]
        table = chunk.records.table
        rows = [min(max(self.row, table[RecordField.BATCH, cut - 1] + 1), self.last_row) for cut in cuts]
        begins = zip([self.row, *rows], [self.record, *cuts], strict=True)
        ends = zip([*rows, self.last_row], [*cuts, self.last_record], strict=True)
        return [Part(row, end, record, after) for (row, record), (end, after) in zip(begins, ends, strict=True)]


class Shown(NamedTuple):
    """How the batches and records of a chunk are written.

    kernel     print_records or record_objects
    put_large  (shown, record): writes a record for which an empty buffer has no room
    base       file position of the window
    """

    kernel: Callable[..., Any]
    put_large: Callable[[Shown, int], object]
    chunk: Chunk
    base: int
    flags: int

    def fill(self, out: TextBuffer, part: Part) -> tuple[Part, Status]:
        """Write as much as fits; returns the rest of the part, and FULL or END."""
        chunk, (row, last_row, record, last_record) = self.chunk, part
        decoded = Decoded(chunk.data, chunk.batches.table, chunk.records.table, self.base)
        out.at, row, record, status = self.kernel(out.data, out.at, decoded, row, last_row, record, last_record, self.flags)
        if status not in (Status.END, Status.FULL):
            raise AssertionError("records, batches and bytes do not match")
        return Part(row, last_row, record, last_record), status


def put_records(out: TextBuffer, shown: Shown, part: Part) -> None:
    """Write batches and records, with several threads if there are enough records."""
    count = out.shares(part.last_record - part.record)
    if count == 1:
        _put_part(out, shown, part)
    else:
        parts = part.split(shown.chunk, count)
        out.put_parts(parts, lambda buffer, one: shown.fill(buffer, one)[0], lambda one: _put_part(out, shown, one))


def _put_part(out: TextBuffer, shown: Shown, part: Part) -> None:
    while part.row < part.last_row or part.record < part.last_record:
        part, status = shown.fill(out, part)
        if status == Status.FULL:
            if out.at or not _is_large_next(shown, part):
                out.make_room()
            else:
                shown.put_large(shown, part.record)
                part = part._replace(record=part.record + 1)


def _is_large_next(shown: Shown, part: Part) -> bool:
    """Return whether the kernel stopped at a large record, and not at the batch before it."""
    table, (row, last_row, record, last_record) = shown.chunk.records.table, part
    if record >= last_record or (row < last_row and row <= table[RecordField.BATCH, record]):
        return False
    if shown.flags & META and table[RecordField.HEADER_COUNT, record] > MANY:
        return True
    sizes = table[RecordField.KEY_SIZE, record], table[RecordField.VALUE_SIZE, record]
    return bool(shown.flags & CONTENTS and max(sizes) >= LARGE)


def put_head(out: TextBuffer, shown: Shown, record: int, mark: bytes) -> None:
    """Write the text before the key of a large record; if it has many headers, in groups.

    mark  text before the first header; `]` follows the last one
    """
    chunk = shown.chunk
    shown = shown._replace(flags=(shown.flags & ~CONTENTS) | OPEN, put_large=_not_large)
    alone = Part(chunk.last_row, chunk.last_row, record, record + 1)  # the batch is written already
    table = chunk.records.table
    if not shown.flags & META or table[RecordField.HEADER_COUNT, record] <= MANY:
        put_records(out, shown, alone)
        return
    whole = table[RecordField.HEADERS_POSITION, record], table[RecordField.HEADER_COUNT, record]
    texts: list[bytes] = []
    group = TextBuffer(lambda view: texts.append(bytes(view)))
    try:
        for number, (position, count) in enumerate(_header_groups(chunk.data, *whole)):
            table[RecordField.HEADERS_POSITION, record], table[RecordField.HEADER_COUNT, record] = position, count
            put_records(group, shown, alone)
            group.flush()
            text = b"".join(texts)[:-1]
            texts.clear()
            out.put(b"," + text[text.index(mark) + len(mark) :] if number else text)
    finally:
        table[RecordField.HEADERS_POSITION, record], table[RecordField.HEADER_COUNT, record] = whole
    out.put(b"]")


def _header_groups(data: memoryview, at: int, left: int) -> Iterator[tuple[int, int]]:
    """Iterate over (position, number) of groups of headers. The decoder has checked that they fit."""
    while left:
        start, count = at, 0
        while count < min(left, MANY) and at - start < LARGE:
            for _ in range(2):  # key and value
                size, at = read_varint(data, at, len(data))
                at += max(size, 0)
            count += 1
        yield start, count
        left -= count


def _not_large(_shown: Shown, _record: int) -> None:
    raise AssertionError("a group of headers is not large")


class Form(NamedTuple):
    r"""The output form of records.

    kernel       print_records or record_objects
    headers      text before the first header of a record
    end          text after a record
    bad_control  end of the line of a control record that cannot be decoded, without \n
    """

    kernel: Callable[..., Any]
    headers: bytes
    end: bytes
    bad_control: bytes


class KernelRenderer:
    """A LogRenderer for one output form."""

    def __init__(
        self, form: Form, path: str, options: DumpOptions, out: TextBuffer, report: Callable[[Finding], None]
    ) -> None:
        self._form, self._path, self._options, self._out, self._report = form, path, options, out, report

    def batches(self, window: Window, row: int, last_row: int) -> None:
        """Write batches row … last_row − 1 without their records."""
        out, status = self._out, int(Status.FULL)
        while status == Status.FULL:
            out.at, row, status = self._batches(window, row, last_row)
            if status == Status.FULL:
                out.make_room()

    def records(self, chunk: Chunk, base: int) -> None:
        """Write batches and records, interleaved."""
        flags, ending = self._flags_of(chunk), self._ending_of(chunk)
        if ending is None:
            self._put(chunk, base, flags)
        else:
            self._one_by_one(chunk, base, flags | OPEN, ending)

    def matches(self, chunk: Chunk, base: int, selector: Selector) -> None:
        """Write the selected batches and records."""
        for part in selector.records(chunk, base):
            self.records(part, base)

    # ---- implemented by each form

    def _batches(self, window: Window, row: int, last_row: int) -> tuple[int, int, int]:
        """Write batches by the kernel; returns (end of the text in the buffer, next row, status)."""
        raise NotImplementedError

    def _flags_of(self, chunk: Chunk) -> int:
        """Return the flags with which the kernel writes these records."""
        raise NotImplementedError

    def _ending_of(self, chunk: Chunk) -> Ending | None:
        """Return the function that ends the lines of these records; None: the kernel ends them."""
        raise NotImplementedError

    def _control_text(self, key: bytes | None, value: bytes | None) -> bytes:
        r"""Return the end of a control record's line, without \n. Raises ControlRecordInvalid and SchemaError."""
        raise NotImplementedError

    def _put_contents(self, key: memoryview | None, value: memoryview | None, flags: int) -> None:
        """Write key and value of a large record in pieces; None is null."""
        raise NotImplementedError

    # ---- common to all forms

    def _put(self, chunk: Chunk, base: int, flags: int) -> None:
        """Write the batches and records of a chunk by the kernel alone."""
        put_records(self._out, self._shown(chunk, base, flags), Part(chunk.first_row, chunk.last_row, chunk.first, chunk.end))

    def _shown(self, chunk: Chunk, base: int, flags: int) -> Shown:
        return Shown(self._form.kernel, self._put_large, chunk, base, flags)

    def _put_large(self, shown: Shown, record: int) -> None:
        """Write a record for which an empty buffer has no room, in pieces."""
        chunk, flags = shown.chunk, shown.flags
        put_head(self._out, shown, record, self._form.headers)
        if flags & CONTENTS:
            key = _content(chunk, record, RecordField.KEY_POSITION, RecordField.KEY_SIZE)
            value = _content(chunk, record, RecordField.VALUE_POSITION, RecordField.VALUE_SIZE)
            self._put_contents(key, value, flags)
        if not flags & OPEN:
            self._out.put(self._form.end)

    def _one_by_one(self, chunk: Chunk, base: int, flags: int, ending: Ending) -> None:
        """Write records whose lines the kernel cannot end. Problems are printed before the record, after its batch."""
        row, table, shown = chunk.first_row, chunk.records.table, self._shown(chunk, base, flags)
        for record in range(chunk.first, chunk.end):
            after = max(row, table[RecordField.BATCH, record] + 1)
            put_records(self._out, shown, Part(row, after, record, record))
            row, end = after, ending(chunk, record, base)
            put_records(self._out, shown, Part(row, row, record, record + 1))
            self._out.put(end + b"\n")
        put_records(self._out, shown, Part(row, chunk.last_row, chunk.end, chunk.end))

    def _control(self, chunk: Chunk, record: int, base: int) -> bytes:
        from engine.schema.wire import SchemaError  # rarely needed: most logs have no control records

        try:
            return self._control_text(chunk.key(record), chunk.value(record))
        except (ControlRecordInvalid, SchemaError) as error:
            self._finding("control-record-invalid", chunk, record, base, str(error))
            return self._form.bad_control

    def _finding(self, code: str, chunk: Chunk, record: int, base: int, what: str) -> None:
        self._report(Finding(code, chunk.where(record, self._path, base), what))


def _content(chunk: Chunk, record: int, position_field: RecordField, size_field: RecordField) -> memoryview | None:
    """Return the bytes of a key or value in its buffer; None is null."""
    position, size = chunk.records.table[position_field, record], chunk.records.table[size_field, record]
    return chunk.data[position : position + size] if size >= 0 else None
