"""Pack records in columns into batches as a producer does: as many records as fit into batch.size, offsets from 0."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from engine.formats import BATCH_HEADER, MAGIC_V2, NO_SEQUENCE, RecordField, Status
from engine.kernels.encode import measure_records
from engine.record.assembly import BatchSpec, UnbuildableBatch, encode_batch
from engine.record.control import increment_sequence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.record.columns import RecordColumns

BATCH_SIZE = 16384  # batch.size of Kafka's producer


class Packer:
    """Makes batches of at most `batch_size` bytes before compression, but of at least one record.

    spec  header fields of every batch; the base sequence is that of the first batch, and continues in the next ones
    """

    def __init__(self, spec: BatchSpec, batch_size: int = BATCH_SIZE) -> None:
        self.spec = spec
        self._room = max(0, batch_size - BATCH_HEADER.size)

    def pack(self, data: memoryview, records: RecordColumns, filled: int) -> Iterator[bytes]:
        """Return batches of the first `filled` records over `data`; their offsets are overwritten. Raises UnbuildableBatch."""
        offsets = memoryview(array("q", range(filled)))
        records.field(RecordField.OFFSET)[:filled] = offsets
        ends = self._ends(data, records, filled)
        first = 0
        while first < filled:
            before = ends[first - 1] if first else 0
            end = max(first + 1, bisect_right(ends, before + self._room, first))
            records.field(RecordField.OFFSET)[first:end] = offsets[: end - first]
            yield encode_batch(self.spec, data, records, end - first, first=first)
            if self.spec.base_sequence != NO_SEQUENCE:
                sequence = increment_sequence(self.spec.base_sequence, end - first)
                self.spec = self.spec._replace(base_sequence=sequence)
            first = end

    def pack_kept(self, data: memoryview, records: RecordColumns, filled: int) -> Iterator[bytes]:
        """As `pack`, but with the offsets of the records, which must grow. Raises UnbuildableBatch."""
        offsets = records.field(RecordField.OFFSET)
        first = 0
        while first < filled:
            ends = self._kept_ends(data, records, first, filled)
            start, stop = first, first + len(ends)
            while first < stop:
                before = ends[first - start - 1] if first > start else 0
                end = start + max(first - start + 1, bisect_right(ends, before + self._room, first - start))
                yield encode_batch(self.spec._replace(base_offset=offsets[first]), data, records, end - first, first=first)
                first = end

    def _kept_ends(self, data: memoryview, records: RecordColumns, first: int, filled: int) -> list[int]:
        """Return the end of each record that fits into one batch, whose offsets differ by at most 2^31 − 1."""
        sizes = memoryview(array("q", bytes(8 * (filled - first))))
        base_offset, timestamp = (records.field(field)[first] for field in (RecordField.OFFSET, RecordField.TIMESTAMP))
        done, _, _ = measure_records(data, records.table, first, filled - first, MAGIC_V2, base_offset, timestamp, sizes)
        if not done:
            raise UnbuildableBatch(f"offset {base_offset} cannot be written: a key, value or header is too large")
        return list(accumulate(sizes[:done]))

    def _ends(self, data: memoryview, records: RecordColumns, filled: int) -> list[int]:
        """Return the end of each record, counted from the first, as if all were in one batch."""
        sizes = memoryview(array("q", bytes(8 * filled)))
        base = records.field(RecordField.TIMESTAMP)[0] if filled else 0
        done, _, status = measure_records(data, records.table, 0, filled, MAGIC_V2, 0, base, sizes)
        if status != Status.END:
            raise UnbuildableBatch(f"record {done} of the input cannot be written: a key, value or header is too large")
        return list(accumulate(sizes))
