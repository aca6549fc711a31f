"""Columns: what kernels write and everything else reads. Plain 64-bit integers over one buffer, no numpy."""

from __future__ import annotations

from engine.formats import BATCH_FIELDS, RECORD_FIELDS, BatchField, RecordField

# A kernel writes all fields of a row: were the fields a power of two apart, all of them would fall into the same few
# lines of the processor's cache, and decoding would take twice as long. So each begins 64 bytes further than that.
_APART = 8
BATCH_ROWS = 4096 + _APART  # batches that one kernel call describes
RECORD_ROWS = 16384 + _APART  # records that one kernel call describes


class Table:
    """`fields` × `capacity` signed 64-bit integers, one contiguous run per field.

    `table[field, column]` is how kernels see it; as `memoryview` numpy and pyarrow take a field without a copy.
    """

    __slots__ = ("_store", "capacity", "table")

    def __init__(self, fields: int, capacity: int) -> None:
        # a bytearray's zeros cost nothing before they are touched; an array's are written one by one
        self._store = memoryview(bytearray(8 * fields * capacity)).cast("q")
        self.capacity = capacity
        self.table: memoryview = self._store.cast("B").cast("q", (fields, capacity))

    def field(self, field: int) -> memoryview:
        """One field as a flat view of `capacity` integers; writing to it writes the table."""
        return self._store[field * self.capacity : (field + 1) * self.capacity]


class BatchColumns(Table):
    """Batches of a window: see formats.BatchField for the fields."""

    __slots__ = ()

    def __init__(self, capacity: int = BATCH_ROWS) -> None:
        super().__init__(BATCH_FIELDS, capacity)

    def row(self, column: int) -> dict[BatchField, int]:
        """All fields of one batch: for people and tests, not for loops."""
        return {field: self.table[field, column] for field in BatchField}


class RecordColumns(Table):
    """Records of one or several batches: see formats.RecordField for the fields."""

    __slots__ = ()

    def __init__(self, capacity: int = RECORD_ROWS) -> None:
        super().__init__(RECORD_FIELDS, capacity)

    def row(self, column: int) -> dict[RecordField, int]:
        """All fields of one record: for people and tests, not for loops."""
        return {field: self.table[field, column] for field in RecordField}
