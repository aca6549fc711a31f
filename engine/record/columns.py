"""Columns, which kernels write and all other code reads: 64-bit integers over one buffer, without numpy."""

from __future__ import annotations

from engine.formats import BATCH_FIELDS, RECORD_FIELDS, BatchField, RecordField

# A kernel writes all fields of a row. If the distance of the fields were a power of two, all of them would fall into the
# same few lines of the processor's cache, and decoding would take twice as long. So 64 bytes are added to the distance.
_APART = 8
BATCH_ROWS = 4096 + _APART  # batches per kernel call
RECORD_ROWS = 16384 + _APART  # records per kernel call


class Table:
    """`fields` × `capacity` signed 64-bit integers, one contiguous run per field.

    Kernels use `table[field, column]`; numpy and pyarrow can use a field, a `memoryview`, without a copy.
    """

    __slots__ = ("_store", "capacity", "table")

    def __init__(self, fields: int, capacity: int) -> None:
        # the zeros of a bytearray cost nothing until they are used; those of an array are written one by one
        self._store = memoryview(bytearray(8 * fields * capacity)).cast("q")
        self.capacity = capacity
        self.table: memoryview = self._store.cast("B").cast("q", (fields, capacity))

    def field(self, field: int) -> memoryview:
        """Return one field as a flat view of `capacity` integers; writing to it writes the table."""
        return self._store[field * self.capacity : (field + 1) * self.capacity]

    def column(self, column: int) -> list[int]:
        """Return all fields of one row, in their order."""
        return self._store[column :: self.capacity].tolist()


class BatchColumns(Table):
    """Batches of a window: see formats.BatchField for the fields."""

    __slots__ = ()

    def __init__(self, capacity: int = BATCH_ROWS) -> None:
        super().__init__(BATCH_FIELDS, capacity)

    def row(self, column: int) -> dict[BatchField, int]:
        """Return all fields of one batch, for people and tests; too slow for loops."""
        return {field: self.table[field, column] for field in BatchField}


class RecordColumns(Table):
    """Records of one or several batches: see formats.RecordField for the fields."""

    __slots__ = ()

    def __init__(self, capacity: int = RECORD_ROWS) -> None:
        super().__init__(RECORD_FIELDS, capacity)

    def row(self, column: int) -> dict[RecordField, int]:
        """Return all fields of one record, for people and tests; too slow for loops."""
        return {field: self.table[field, column] for field in RecordField}
