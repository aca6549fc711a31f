"""Batches and records of one log, shown by kernels: what text and JSON do in the same way. What is their own is below it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from engine.dump.text_buffer import TextBuffer
from engine.findings import Finding
from engine.formats import RecordField, Status
from engine.kernels.decode import read_varint
from engine.kernels.fields import CONTENTS, META, OPEN
from engine.record.control import ControlRecordInvalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.record.reader import Chunk


LARGE = 256 << 10  # bytes of a key or payload that is shown in pieces, so that memory does not grow with it
MANY = 4096  # headers that are shown together


def put_records(
    kernel: Callable[..., Any], put_large: Callable[[Chunk, int, int, int], object], out: TextBuffer, chunk: Chunk, base: int,
    row: int, last_row: int, record: int, last_record: int, flags: int,
) -> int:
    """Batches row … last_row − 1 and records record … last_record − 1, interleaved → the row that is due next.

    kernel     print_records or record_objects
    put_large  (chunk, base, record, flags): shows a record that an empty buffer has no room for
    """
    status = int(Status.FULL)
    while status == Status.FULL:
        out.at, row, record, status = kernel(
            out.data, out.at, chunk.data, chunk.batches.table, row, last_row, chunk.records.table, record,
            last_record, flags, base,
        )
        if status == Status.FULL:
            if out.at or not _is_large_next(chunk, row, last_row, record, last_record, flags):
                out.make_room()
            else:
                put_large(chunk, base, record, flags)
                record += 1
                status = int(Status.FULL if record < last_record or row < last_row else Status.END)
    if status != Status.END:
        raise AssertionError("records, batches and bytes do not match")
    return row


def _is_large_next(chunk: Chunk, row: int, last_row: int, record: int, last_record: int, flags: int) -> bool:
    """Is it a large record that a kernel found no room for, and not the batch in front of it?

    row, record   what the kernel would write next, up to, not including, `last_row` and `last_record`
    """
    table = chunk.records.table
    if record >= last_record or (row < last_row and row <= table[RecordField.BATCH, record]):
        return False
    if flags & META and table[RecordField.HEADER_COUNT, record] > MANY:
        return True
    return bool(flags & CONTENTS and max(table[RecordField.KEY_SIZE, record], table[RecordField.VALUE_SIZE, record]) >= LARGE)


def put_head(
    kernel: Callable[..., Any], out: TextBuffer, chunk: Chunk, base: int, record: int, flags: int, mark: bytes,
) -> None:  # fmt: skip
    """What stands in front of the key of a large record; many headers some at a time.

    flags  without CONTENTS        mark  what the kernel writes in front of the first header; behind the last is `]`
    """
    table, behind = chunk.records.table, chunk.last_row  # no batch is due any more
    if not flags & META or table[RecordField.HEADER_COUNT, record] <= MANY:
        put_records(kernel, _not_large, out, chunk, base, behind, behind, record, record + 1, flags)
        return
    whole = table[RecordField.HEADERS_POSITION, record], table[RecordField.HEADER_COUNT, record]
    parts: list[bytes] = []
    group = TextBuffer(lambda view: parts.append(bytes(view)))
    try:
        for number, (position, count) in enumerate(_header_groups(chunk.data, *whole)):
            table[RecordField.HEADERS_POSITION, record], table[RecordField.HEADER_COUNT, record] = position, count
            put_records(kernel, _not_large, group, chunk, base, behind, behind, record, record + 1, flags)
            group.flush()
            text = b"".join(parts)[:-1]
            parts.clear()
            out.put(b"," + text[text.index(mark) + len(mark) :] if number else text)
    finally:
        table[RecordField.HEADERS_POSITION, record], table[RecordField.HEADER_COUNT, record] = whole
    out.put(b"]")


def _header_groups(data: memoryview, at: int, left: int) -> Iterator[tuple[int, int]]:
    """(position, how many) of headers that are shown together; the decoder has seen that they fit."""
    while left:
        start, count = at, 0
        while count < min(left, MANY) and at - start < LARGE:
            for _ in range(2):  # key and value
                size, at = read_varint(data, at, len(data))
                at += max(size, 0)
            count += 1
        yield start, count
        left -= count


def _not_large(_chunk: Chunk, _base: int, _record: int, _flags: int) -> None:
    raise AssertionError("a group of headers is not large")


if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.dump.renderer import DumpOptions
    from engine.record.reader import Chunk
    from engine.record.windows import Window

    Ending = Callable[[Chunk, int, int], bytes]  # (chunk, record, base) → the end of the record's line, without \n


class Form(NamedTuple):
    r"""How records look.

    kernel       writes them: print_records or record_objects
    headers      what it writes in front of the first header of a record
    end          behind a record
    bad_control  the end of the line of a control record that cannot be read, without \n
    """

    kernel: Callable[..., Any]
    headers: bytes
    end: bytes
    bad_control: bytes


class KernelRenderer:
    """A LogRenderer for one form."""

    def __init__(
        self, form: Form, path: str, options: DumpOptions, out: TextBuffer, report: Callable[[Finding], None]
    ) -> None:
        self._form, self._path, self._options, self._out, self._report = form, path, options, out, report

    def batches(self, window: Window, row: int, last_row: int) -> None:
        """Batches row … last_row − 1 without their records."""
        out, status = self._out, int(Status.FULL)
        while status == Status.FULL:
            out.at, row, status = self._batches(window, row, last_row)
            if status == Status.FULL:
                out.make_room()

    def records(self, chunk: Chunk, base: int) -> None:
        """Batches and records, interleaved."""
        flags, ending = self._flags_of(chunk), self._ending_of(chunk)
        if ending is None:
            self._put(chunk, base, chunk.first_row, chunk.last_row, chunk.first, chunk.end, flags)
        else:
            self._one_by_one(chunk, base, flags | OPEN, ending)

    # ---- of each form

    def _batches(self, window: Window, row: int, last_row: int) -> tuple[int, int, int]:
        """Batches by the kernel → (where the buffer is filled up to, the next row, status)."""
        raise NotImplementedError

    def _flags_of(self, chunk: Chunk) -> int:
        """The flags with which the kernel shows these records."""
        raise NotImplementedError

    def _ending_of(self, chunk: Chunk) -> Ending | None:
        """What ends the lines of these records; None: the kernel does."""
        raise NotImplementedError

    def _control_text(self, key: bytes | None, value: bytes | None) -> bytes:
        r"""The end of a control record's line, without \n. Raises ControlRecordInvalid and SchemaError."""
        raise NotImplementedError

    def _put_contents(self, key: memoryview | None, value: memoryview | None, flags: int) -> None:
        """Write key and value of a large record piece by piece; None is null."""
        raise NotImplementedError

    # ---- of both

    def _put(
        self, chunk: Chunk, base: int, row: int, last_row: int, record: int, last_record: int, flags: int
    ) -> int:
        """Batches and records by the kernel → the row that is due next."""
        return put_records(
            self._form.kernel, self._put_large, self._out, chunk, base, row, last_row, record, last_record, flags
        )

    def _put_large(self, chunk: Chunk, base: int, record: int, flags: int) -> None:
        """Write a record that an empty buffer has no room for, piece by piece."""
        put_head(self._form.kernel, self._out, chunk, base, record, (flags & ~CONTENTS) | OPEN, self._form.headers)
        if flags & CONTENTS:
            key = _content(chunk, record, RecordField.KEY_POSITION, RecordField.KEY_SIZE)
            value = _content(chunk, record, RecordField.VALUE_POSITION, RecordField.VALUE_SIZE)
            self._put_contents(key, value, flags)
        if not flags & OPEN:
            self._out.put(self._form.end)

    def _one_by_one(self, chunk: Chunk, base: int, flags: int, ending: Ending) -> None:
        """Records whose lines the kernel cannot end. What is found wrong stands in front of the record, behind its batch."""
        row, table = chunk.first_row, chunk.records.table
        for record in range(chunk.first, chunk.end):
            behind = table[RecordField.BATCH, record] + 1
            if row < behind:
                row = self._put(chunk, base, row, behind, record, record, flags)
            end = ending(chunk, record, base)
            self._put(chunk, base, row, row, record, record + 1, flags)
            self._out.put(end + b"\n")
        self._put(chunk, base, row, chunk.last_row, chunk.end, chunk.end, flags)

    def _control(self, chunk: Chunk, record: int, base: int) -> bytes:
        from engine.schema.wire import SchemaError  # most logs have no control records

        try:
            return self._control_text(chunk.key(record), chunk.value(record))
        except (ControlRecordInvalid, SchemaError) as error:
            self._finding("control-record-invalid", chunk, record, base, str(error))
            return self._form.bad_control

    def _finding(self, code: str, chunk: Chunk, record: int, base: int, what: str) -> None:
        self._report(Finding(code, chunk.where(record, self._path, base), what))


def _content(chunk: Chunk, record: int, position_field: RecordField, size_field: RecordField) -> memoryview | None:
    """A key or value where it stands; None is null."""
    position, size = chunk.records.table[position_field, record], chunk.records.table[size_field, record]
    return chunk.data[position : position + size] if size >= 0 else None
