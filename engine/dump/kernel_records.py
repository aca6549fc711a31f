"""How a kernel shows records: into a buffer that is handed out whenever it is full, large records in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.dump.text_buffer import TextBuffer
from engine.formats import RecordField, Status
from engine.kernels.decode import read_varint
from engine.kernels.fields import CONTENTS, META

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
        raise AssertionError("records, batches and bytes that do not fit each other")
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
