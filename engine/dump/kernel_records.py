"""How a kernel shows records: into a buffer that is handed out whenever it is full, large records apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.formats import RecordField, Status
from engine.kernels.fields import CONTENTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.dump.text_buffer import TextBuffer
    from engine.record.reader import Chunk

LARGE = 256 << 10  # bytes of a key or payload that is shown in pieces, so that memory does not grow with it


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
            if out.at or not flags & CONTENTS or not _is_large_next(chunk, row, last_row, record, last_record):
                out.make_room()
            else:
                put_large(chunk, base, record, flags)
                record += 1
                status = int(Status.FULL if record < last_record or row < last_row else Status.END)
    if status != Status.END:
        raise AssertionError("records, batches and bytes that do not fit each other")
    return row


def _is_large_next(chunk: Chunk, row: int, last_row: int, record: int, last_record: int) -> bool:
    """Is it a large record that a kernel found no room for, and not the batch in front of it?

    row, record   what the kernel would write next, up to, not including, `last_row` and `last_record`
    """
    table = chunk.records.table
    if record >= last_record or (row < last_row and row <= table[RecordField.BATCH, record]):
        return False
    return max(table[RecordField.KEY_SIZE, record], table[RecordField.VALUE_SIZE, record]) >= LARGE
