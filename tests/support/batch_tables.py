"""Columns of batches with counts of their records, as arguments of the cleaner's kernels."""

from __future__ import annotations

from array import array

from engine.formats import BatchField
from engine.record.columns import BatchColumns


def table_of(described):
    """Batches of (magic, attributes, read, kept), and counts of them; the last offset of a batch is its row."""
    batches = BatchColumns(len(described) + 8).table
    counts = memoryview(array("q", bytes(32 * max(1, len(described))))).cast("B").cast("q", (4, max(1, len(described))))
    for row, (magic, attributes, read, kept) in enumerate(described):
        batches[BatchField.MAGIC, row], batches[BatchField.ATTRIBUTES, row] = magic, attributes
        batches[BatchField.LAST_OFFSET, row], batches[BatchField.VALID, row] = row, 1
        counts[0, row], counts[1, row] = max(read, kept), kept
        counts[2, row] = kept % 2
    return batches, counts


def ranges(*described):
    """Batches of (base offset, last offset)."""
    batches, _ = table_of([(2, 0, 1, 1)] * len(described))
    for row, (base, last) in enumerate(described):
        batches[BatchField.BASE_OFFSET, row], batches[BatchField.LAST_OFFSET, row] = base, last
        batches[BatchField.COUNT, row] = 1
    return batches
