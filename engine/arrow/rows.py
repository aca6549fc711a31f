"""Rows of Python values as Arrow record batches: what `pa.array` does, without pandas, which it would import."""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ROWS, _BYTES = 10_000, 8 << 20  # largest number of rows and of bytes before the last row of a batch
_WIDTHS = {4: "i", 8: "q"}


def rows_as_batches(rows: Iterator[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Convert rows to batches of `schema`; missing values are null. Columns are text, bytes, integers or booleans."""
    kept: list[dict[str, Any]] = []
    size = 0  # bytes of text and binary values

    def made() -> pa.RecordBatch:
        columns = [column([row.get(field.name) for row in kept], field.type) for field in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    for row in rows:
        kept.append(row)
        size += sum(len(value) for value in row.values() if isinstance(value, str | bytes | bytearray))
        if len(kept) == _ROWS or size >= _BYTES:
            yield made()
            kept.clear()
            size = 0
    if kept:
        yield made()


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert values to an Arrow array; None is null."""
    nulls = sum(value is None for value in values)
    valid = _bits([value is not None for value in values]) if nulls else None
    if pa.types.is_boolean(kind):
        buffers = [_bits(values)]
    elif kind in (pa.string(), pa.binary()):
        octets = [_octets(value) for value in values]
        ends = array("i", accumulate(map(len, octets), initial=0))
        buffers = [pa.py_buffer(ends), pa.py_buffer(b"".join(octets))]
    else:
        numbers = array(_WIDTHS[kind.bit_width // 8], [value or 0 for value in values])
        buffers = [pa.py_buffer(numbers)]
    return pa.Array.from_buffers(kind, len(values), [valid, *buffers], nulls)


def _bits(flags: Sequence[bool | None]) -> pa.Buffer:
    """Return flags, at least one, as a bitmap."""
    digits = "".join("1" if flag else "0" for flag in reversed(flags))
    return pa.py_buffer(int(digits, 2).to_bytes((len(flags) + 7) // 8, "little"))


def _octets(value: str | bytes | None) -> bytes:
    """Return text in UTF-8; bytes of a file name that are not UTF-8 are escaped."""
    return value.encode("utf-8", "backslashreplace") if isinstance(value, str) else value or b""
