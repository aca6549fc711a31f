"""Call kernels from tests: complete inputs, columns of any capacity, results as plain values."""

from __future__ import annotations

from typing import Any, NamedTuple

from crc32c import crc32c
from hypothesis import strategies as st

from engine.formats import BATCH_FIELDS, BATCH_HEADER, RECORD_FIELDS, BatchField, RecordField, Status
from engine.kernels.decoded import Decoded as KernelDecoded
from engine.kernels.remote import decode_values
from engine.kernels.tables import REMOTE_ROW_SIZE
from engine.record.columns import BatchColumns, RecordColumns
from engine.record.windows import _TABLES, check_large_batches

MOST_CALLS = 100_000  # more than any test needs: stops a kernel without progress


class Scanned(NamedTuple):
    rows: list[tuple[int, ...]]  # in the order of BatchField, checksums filled in
    stop: int
    status: int


def scan(kernel: Any, data: bytes, start: int = 0, end: int | None = None, capacity: int = 64) -> Scanned:
    """One call of scan_batches."""
    batches, view = BatchColumns(capacity), memoryview(data)
    count, stop, status = kernel.scan_batches(view, start, len(data) if end is None else end, batches.table, *_TABLES)
    check_large_batches(view, batches, count)
    rows = [tuple(batches.table[field, row] for field in range(BATCH_FIELDS)) for row in range(count)]
    return Scanned(rows, stop, int(status))


def table_of(rows: list[tuple[int, ...]]) -> BatchColumns:
    """Batch columns with these rows."""
    batches = BatchColumns(max(1, len(rows)))
    for row, fields in enumerate(rows):
        for field, value in enumerate(fields):
            batches.table[field, row] = value
    return batches


class Decoded(NamedTuple):
    records: list[tuple[int, ...]]  # in the order of RecordField
    stops: list[tuple[int, int, int]]  # (row, records done, status) of each damaged batch


def decode(kernel: Any, data: bytes, batches: BatchColumns, rows: int, capacity: int = 64) -> Decoded:
    """Decode all records of `rows` batches, with as many calls as needed; continue with the next batch after damage."""
    columns, view = RecordColumns(capacity), memoryview(data)
    records, stops = [], []
    row = at = done = 0
    for _ in range(MOST_CALLS):
        filled, row, at, done, status = kernel.decode_records(view, batches.table, row, rows, at, done, columns.table, 0)
        assert 0 <= filled <= capacity
        records += [tuple(columns.table[field, one] for field in range(RECORD_FIELDS)) for one in range(filled)]
        if status == Status.END:
            return Decoded(records, stops)
        if status != Status.FULL:
            stops.append((row, done, int(status)))
            row, at, done = row + 1, 0, 0
    raise AssertionError("decode_records makes no progress")


def columns_of(records: list[tuple[int, ...]]) -> RecordColumns:
    """Record columns with these records."""
    columns = RecordColumns(max(1, len(records)))
    for one, fields in enumerate(records):
        for field, value in enumerate(fields):
            columns.table[field, one] = value
    return columns


def text(
    kernel: Any,
    data: bytes,
    batches: BatchColumns,
    rows: int,
    records: RecordColumns,
    count: int,
    flags: int,
    room: int = 4096,
    base: int = 0,
) -> tuple[bytes, list[tuple[int, int, int]]]:
    """Return the output of print_records, and (position, row, record) at each FULL."""
    out, store, printed, stops = bytearray(room), bytearray(), 0, []
    row = record = 0
    for _ in range(MOST_CALLS):
        printed, row, record, status = kernel.print_records(
            out, 0, KernelDecoded(memoryview(data), batches.table, records.table, base), row, rows, record, count, flags,
        )  # fmt: skip
        assert 0 <= printed <= len(out)
        store += out[:printed]
        if status == Status.END:
            return bytes(store), stops
        assert status == Status.FULL
        stops.append((printed, row, record))
        if not printed:
            out = bytearray(2 * len(out))
    raise AssertionError("print_records makes no progress")


def mutate(data: bytes, draw: st.DataObject) -> bytes:
    """Change, remove or insert a few bytes; sometimes repair the first batch's size and checksum afterwards."""
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        if not damaged:
            break
        at = draw.draw(st.integers(0, len(damaged) - 1))
        kind = draw.draw(st.sampled_from(["set", "set", "flip", "cut", "insert", "end"]))
        if kind == "set":
            damaged[at] = draw.draw(st.sampled_from([0, 1, 2, 127, 128, 129, 254, 255]))
        elif kind == "flip":
            damaged[at] ^= 1 << draw.draw(st.integers(0, 7))
        elif kind == "cut":
            del damaged[at : at + draw.draw(st.integers(1, 8))]
        elif kind == "insert":
            damaged[at:at] = draw.draw(st.binary(min_size=1, max_size=8))
        else:
            del damaged[at:]
    if len(damaged) >= BATCH_HEADER.size and draw.draw(st.booleans()):
        damaged[8:12] = (len(damaged) - 12).to_bytes(4, "big")
        damaged[17:21] = crc32c(bytes(damaged[21:])).to_bytes(4, "big")
    return bytes(damaged)


def field_of(rows: list[tuple[int, ...]], field: BatchField | RecordField) -> list[int]:
    return [row[field] for row in rows]


def remote_rows(values: list[bytes]) -> tuple[memoryview, memoryview]:
    """Values of `__remote_log_metadata` as the kernel decodes them: (kinds, rows)."""
    columns, data = RecordColumns(max(1, len(values))), b"".join(values)
    at = 0
    for one, value in enumerate(values):
        columns.table[RecordField.VALUE_POSITION, one], columns.table[RecordField.VALUE_SIZE, one] = at, len(value)
        at += len(value)
    kinds, rows = memoryview(bytearray(len(values))), memoryview(bytearray(len(values) * REMOTE_ROW_SIZE))
    assert decode_values(memoryview(data), columns.table, 0, len(values), kinds, rows)
    return kinds, rows
