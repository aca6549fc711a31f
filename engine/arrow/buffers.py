"""Buffers for Arrow arrays: a fixed number of rows, filled by kernels, passed to Arrow once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from engine.errors import KafkalogError
from engine.kernels import gather as kernel
from engine.kernels.gather import gather, gather_headers, measure_headers, microseconds, spread, timestamp_types

if TYPE_CHECKING:
    from engine.formats import BatchField, RecordField
    from engine.record.reader import Chunk


class BadColumns(KafkalogError):
    """Columns that do not match the bytes they describe: a defect, not a problem of the input."""

    code = "bad-columns"


def _bytes(size: int) -> memoryview:
    return memoryview(bytearray(size))


def _room(size: int) -> memoryview:
    """Return uninitialised bytes from Arrow's memory pool; write them before reading, and pass only those on."""
    return memoryview(pa.allocate_buffer(size)).cast("B")


def _bits(rows: int) -> memoryview:
    return _bytes((rows + 7) // 8)


def _ends(rows: int) -> memoryview:
    return _bytes(4 * (rows + 1)).cast("i")


def _grown(view: memoryview, size: int) -> memoryview:
    """Return the content of `view`, bytes or 32-bit integers, in a buffer for at least `size` of them; grows by half."""
    if size <= len(view):
        return view
    size = max(size, len(view) * 3 // 2)
    grown: memoryview = _bytes(size * view.itemsize).cast("B").cast(view.format)  # type: ignore[call-overload]  # "B" or "i"
    grown[: len(view)] = view
    return grown


class Words:
    """A column of 64-bit integers with `rows` rows; `nulls` of them are null."""

    def __init__(self, rows: int) -> None:
        self.out = _room(8 * rows).cast("q")
        self.valid = _bits(rows)
        self.nulls = 0

    def copy(self, field: memoryview, first: int, end: int, row: int) -> None:
        """Copy a field of the records."""
        self.out[row : row + end - first] = field[first:end]

    def spread(self, chunk: Chunk, field: BatchField, first: int, end: int, row: int, added: int = 0) -> None:
        """Copy a field of the records' batches."""
        if not spread(chunk.batches.table, field, chunk.records.table, first, end, self.out, row, added):
            raise BadColumns("records outside their batches")

    def microseconds(self, chunk: Chunk, first: int, end: int, row: int) -> None:
        """Copy the timestamps of the records."""
        nulls = microseconds(chunk.records.table, first, end, self.out, self.valid, row)
        if nulls < 0:
            raise BadColumns("more records than there are rows")
        self.nulls += nulls

    def array(self, rows: int, kind: pa.DataType | None = None) -> pa.Array:
        """Return the first `rows` as an array of `kind`, 64 bits wide (default: int64)."""
        valid = pa.py_buffer(self.valid) if self.nulls else None
        return pa.Array.from_buffers(kind or pa.int64(), rows, [valid, pa.py_buffer(self.out[:rows])], self.nulls)


class TimestampTypes:
    """A column of timestamp types with `rows` rows."""

    def __init__(self, rows: int) -> None:
        self.out = _room(4 * rows).cast("i")

    def take(self, chunk: Chunk, first: int, end: int, row: int) -> None:
        """Add the timestamp types of the records, from their batches."""
        if not timestamp_types(chunk.batches.table, chunk.records.table, first, end, self.out, row):
            raise BadColumns("records outside their batches")

    def array(self, rows: int) -> pa.Array:
        """Return the first `rows` as an array of int32."""
        return pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(self.out[:rows])], 0)


class Blobs:
    """A column of keys or values with `rows` rows; its bytes grow as needed, up to 2 GiB."""

    def __init__(self, rows: int, room: int) -> None:
        self.ends = _ends(rows)
        self.valid = _bits(rows)
        self.out = _room(room)
        self.used = self.nulls = 0

    def make_room(self, size: int) -> None:
        """Make room for `size` more bytes."""
        self.out = _grown(self.out, self.used + size)

    def gather(self, chunk: Chunk, field: RecordField, first: int, end: int, row: int) -> None:
        """Copy keys or values of the records, for which room was made."""
        table = chunk.records.table
        blobs = kernel.Blobs(self.out, self.ends, self.valid)
        used, nulls = gather(chunk.data, table, field, first, end, blobs, self.used, row)
        if used < 0:
            raise BadColumns("keys or values outside their records")
        self.used, self.nulls = used, self.nulls + nulls

    def array(self, rows: int) -> pa.Array:
        """Return the first `rows` as binary."""
        return _binary(self.valid if self.nulls else None, self.ends, self.out, self.used, rows, self.nulls)


_HEADER = 9  # bytes of a header in addition to its key and value


class Headers:
    """A column of headers with `rows` rows."""

    def __init__(self, rows: int) -> None:
        self.lists, self.valid = _ends(rows), _bits(rows)
        self._keys, self._values, self._values_valid = _bytes(0), _bytes(0), _bits(0)
        self._key_ends, self._value_ends = _ends(0), _ends(0)
        self.count = self.empty = self.nulls = 0
        self._measured = 0, 0, 0  # headers, bytes of their keys and values

    def _make_room(self, count: int, keys: int, values: int) -> None:
        """Make room for `count` more headers, and for the bytes of their keys and values."""
        self._keys = _grown(self._keys, self._key_ends[self.count] + keys)
        self._values = _grown(self._values, self._value_ends[self.count] + values)
        self._key_ends = _grown(self._key_ends, self.count + count + 1)
        self._value_ends = _grown(self._value_ends, self.count + count + 1)
        self._values_valid = _grown(self._values_valid, (self.count + count + 7) // 8)

    def fitting(self, chunk: Chunk, first: int, end: int, room: int) -> tuple[int, int]:
        """Return (end, bytes) of the records from `first` on, at least one, whose headers fit into `room` bytes."""
        while True:
            self._measured = count, keys, values = measure_headers(chunk.data, chunk.records.table, first, end)
            if count < 0:
                raise BadColumns("headers outside their records")
            size = keys + values + _HEADER * count
            if size <= room or end <= first + 1:
                return end, size
            end = first + (end - first) // 2

    def gather(self, chunk: Chunk, first: int, end: int, row: int) -> None:
        """Copy the headers of the records that `fitting` returned last."""
        self._make_room(*self._measured)
        values = kernel.Blobs(self._values, self._value_ends, self._values_valid)
        headers = kernel.Headers(self.lists, self.valid, self._keys, self._key_ends, values)
        table = chunk.records.table
        self.count, empty, nulls = gather_headers(chunk.data, table, first, end, headers, row, self.count)
        if self.count < 0:
            raise BadColumns("headers outside their records")
        self.empty, self.nulls = self.empty + empty, self.nulls + nulls

    def array(self, rows: int) -> pa.Array:
        """Return the first `rows` as lists; null if there are no headers. Keys are decoded as Java does."""
        keys = self._key_array()
        valid = self._values_valid if self.nulls else None
        values = _binary(valid, self._value_ends, self._values, self._value_ends[self.count], self.count, self.nulls)
        structs = pa.StructArray.from_arrays([keys, values], ["key", "value"])
        bits = pa.py_buffer(self.valid) if self.empty else None
        kind = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
        return pa.Array.from_buffers(kind, rows, [bits, pa.py_buffer(self.lists)], self.empty, children=[structs])

    def _key_array(self) -> pa.Array:
        ends, used = self._key_ends, self._key_ends[self.count]
        try:
            return _binary(None, ends, self._keys, used, self.count, 0).cast(pa.string())
        except pa.ArrowInvalid:  # some keys are not UTF-8
            pass
        names = [bytes(self._keys[ends[one] : ends[one + 1]]).decode("utf-8", "replace") for one in range(self.count)]
        return pa.array(names, pa.string())


def _binary(valid: memoryview | None, ends: memoryview, out: memoryview, used: int, rows: int, nulls: int) -> pa.Array:
    bits = None if valid is None else pa.py_buffer(valid)
    return pa.Array.from_buffers(pa.binary(), rows, [bits, pa.py_buffer(ends), pa.py_buffer(out).slice(0, used)], nulls)
